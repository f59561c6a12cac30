//! The things that a node works with besides itself.

use super::wires::Wires;
use super::workload::{MessageId, Step, Times, Workload};

/// The receipt of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Receipt {
    /// The cycle in which the message was received.
    pub at: u64,
    pub message: MessageId,
}

/// Counters by message, each used by one node only.
#[derive(Debug)]
pub struct Progress {
    /// Receipts that each message still waits for.
    pub waits: Vec<u32>,
    /// Packets of each message that have not left the network.
    pub packets: Vec<u32>,
    /// When each message was sent and received.
    pub times: Vec<Times>,
    /// When the last message was received, or added up.
    pub end: u64,
    /// The last receipt, and of those in one cycle the one of the highest number.
    pub last: Receipt,
    /// Messages received.
    pub received: usize,
}

impl Progress {
    /// Makes the progress of a workload of which nothing is sent.
    pub fn new(workload: &Workload) -> Self {
        Self {
            waits: workload.waits.clone(),
            packets: workload.messages.iter().map(|message| message.packets).collect(),
            times: vec![Times::default(); workload.messages.len()],
            end: 0,
            last: Receipt::default(),
            received: 0,
        }
    }

    /// Records that another packet of `message` has left the network; says whether it was the last.
    pub fn packet_left(&mut self, message: MessageId) -> bool {
        let left = &mut self.packets[message];
        *left -= 1;
        *left == 0
    }
}

/// A node's part of the workload, and what all nodes share.
pub struct Shared<'a> {
    pub steps: &'a [Step],
    pub workload: &'a Workload,
    pub progress: &'a mut Progress,
    pub wires: &'a mut Wires,
}
