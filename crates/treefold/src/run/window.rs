//! A window over the messages between two ranks, for engines where a receive is posted before its message comes.
//!
//! Both ends list the messages in the order of their turns. The receiver posts the first few that have not ended, and the
//! sender sends only among the first few that it has not ended: whatever it sends is, or will be, posted, though the two
//! disagree on the order in which they come.

use std::collections::HashMap;

use super::program::{Program, Task};

/// The messages from or to one peer.
#[derive(Debug, Clone)]
pub struct Window {
    order: Vec<u32>,
    place: HashMap<u32, usize>,
    ended: Vec<bool>,
    /// The first that has not ended, and the next to be posted.
    base: usize,
    next: usize,
    width: usize,
}

impl Window {
    /// The messages to (`sends`) or from the peer with this index, `width` at a time.
    pub fn new(program: &Program, peer: usize, sends: bool, width: usize) -> Self {
        let wanted = |task: &Task| task.peer() == Some(peer) && matches!(task, Task::Send(_)) == sends;
        let tasks = (0u32..).zip(&program.tasks).filter(|(_, task)| wanted(task));
        let mut order: Vec<u32> = tasks.map(|(number, _)| number).collect();
        order.sort_by_key(|&task| (program.turn[task as usize], program.transfer[task as usize]));
        let place = order.iter().enumerate().map(|(place, &task)| (task, place)).collect();
        Self { ended: vec![false; order.len()], order, place, base: 0, next: 0, width }
    }

    /// Whether `task` is among the first that have not ended.
    pub fn allows(&self, task: u32) -> bool {
        self.place[&task] < self.base + self.width
    }

    /// The next to be posted, if there is room.
    pub fn post(&mut self) -> Option<u32> {
        let task = (self.next < self.base + self.width).then(|| self.order.get(self.next)).flatten().copied()?;
        self.next += 1;
        Some(task)
    }

    /// `task` has ended.
    pub fn end(&mut self, task: u32) {
        self.ended[self.place[&task]] = true;
        while self.ended.get(self.base) == Some(&true) {
            self.base += 1;
        }
    }
}
