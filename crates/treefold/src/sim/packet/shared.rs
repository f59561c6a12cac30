//! The things that a node works with besides itself.

use super::traffic::Traffic;
use super::wires::Wires;
use super::workload::{MessageId, Times, Workload};

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
    /// How far each job has come.
    pub courses: Vec<Course>,
    /// Messages of plans that were given to an interface, and those that were received.
    pub issued: usize,
    pub received: usize,
    /// The background's messages.
    pub traffic: Traffic,
}

/// How far a job is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Course {
    /// When its last message was received, or added up.
    pub end: u64,
    /// Its last receipt, and of those in one cycle the one of the highest number.
    pub last: Receipt,
}

impl Progress {
    /// Makes the progress of a workload of which nothing is sent.
    pub fn new(workload: &Workload) -> Self {
        Self {
            waits: workload.waits.clone(),
            packets: workload.messages.iter().map(|message| message.packets).collect(),
            times: vec![Times::default(); workload.messages.len()],
            courses: vec![Course::default(); workload.rows.len()],
            issued: 0,
            received: 0,
            traffic: Traffic::default(),
        }
    }

    /// Makes room for a message of the background of which nothing is sent.
    pub fn make_room(&mut self, message: MessageId, workload: &Workload) {
        let count = workload.messages.len();
        self.packets.resize(count, 0);
        self.times.resize(count, Times::default());
        self.packets[message] = workload.messages[message].packets;
    }

    /// Records that another packet of `message` has left the network; says whether it was the last.
    pub fn packet_left(&mut self, message: MessageId) -> bool {
        let left = &mut self.packets[message];
        *left -= 1;
        *left == 0
    }
}

/// What all nodes share.
pub struct Shared<'a> {
    pub workload: &'a Workload,
    pub progress: &'a mut Progress,
    pub wires: &'a mut Wires,
}
