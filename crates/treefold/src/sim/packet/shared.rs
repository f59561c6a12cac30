//! What a node works with besides itself.

use super::wires::Wires;
use super::workload::{Step, Times, Workload};

/// Counters by message, each used by one node only.
#[derive(Debug)]
pub struct Progress {
    /// Receipts that each message still waits for.
    pub waits: Vec<u32>,
    /// Packets of each message that have not left the network.
    pub packets: Vec<u32>,
    /// Message by message.
    pub times: Vec<Times>,
    /// When the last message was received, or added up.
    pub end: u64,
    /// When the last message was received, and which it was.
    pub last: (u64, u32),
    /// Messages received.
    pub received: usize,
}

impl Progress {
    /// Nothing sent.
    pub fn new(workload: &Workload) -> Self {
        Self {
            waits: workload.waits.clone(),
            packets: workload.messages.iter().map(|message| message.packets).collect(),
            times: vec![Times::default(); workload.messages.len()],
            end: 0,
            last: (0, 0),
            received: 0,
        }
    }

    /// Another packet of `message` has left the network; says whether it was the last.
    pub fn packet_left(&mut self, message: u32) -> bool {
        let left = &mut self.packets[message as usize];
        *left -= 1;
        *left == 0
    }
}

/// The node's part of the workload, and what all nodes share.
pub struct Shared<'a> {
    pub steps: &'a [Step],
    pub workload: &'a Workload,
    pub progress: &'a mut Progress,
    pub wires: &'a mut Wires,
}
