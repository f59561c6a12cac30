//! Cuts messages into the parts that go over several streams.

use std::collections::HashMap;

use super::{AHEAD, Connection};
use crate::run::operation::Operation;
use crate::run::program::{PeerId, TaskId};

/// The most bytes of a part: little enough that the last part of a message, on a slow stream, is not awaited for long,
/// and a multiple of the bytes of every kind of number.
const PART: usize = 128 << 10;

/// A part of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub task: TaskId,
    /// The bytes of the message before it.
    pub from: usize,
    pub length: usize,
}

/// The messages that are being cut and sent.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// The message that is being cut, and the bytes of it that are in parts already.
    cut: Option<(TaskId, usize)>,
    /// The bytes of each message in several parts that have not left.
    left: HashMap<TaskId, usize>,
}

impl Parts {
    /// Forgets what is being sent.
    pub fn restart(&mut self) {
        self.cut = None;
        self.left.clear();
    }

    /// Notes that a part has left; returns whether its whole message has.
    pub fn end(&mut self, part: Part) -> bool {
        let Some(left) = self.left.get_mut(&part.task) else { return true };
        *left -= part.length;
        let has_ended = *left == 0;
        if has_ended {
            self.left.remove(&part.task);
        }
        has_ended
    }
}

impl Connection {
    /// Returns the next part to send to the peer: a whole message if there is one stream only, and nothing to encode;
    /// `None` if there is nothing to send, or if the peer must begin the operation first.
    pub(super) fn next_part(&mut self, operation: &mut Operation<'_>, peer: PeerId, streams: usize) -> Option<Part> {
        let (task, from) = match self.parts.cut {
            Some(cut) => cut,
            None => (self.next_message(operation, peer)?, 0),
        };
        let whole = operation.bytes(task);
        let is_whole = streams == 1 && !operation.is_encoded();
        let length = if is_whole { whole } else { operation.whole_blocks(task, from, PART) };
        if from == 0 && length < whole {
            self.parts.left.insert(task, whole);
        }
        self.parts.cut = (from + length < whole).then_some((task, from + length));
        Some(Part { task, from, length })
    }

    fn next_message(&mut self, operation: &mut Operation<'_>, peer: PeerId) -> Option<TaskId> {
        let task = operation.peek_send(peer)?;
        if !self.usage.peer_has_begun {
            let ahead = self.ahead + operation.bytes(task) as u64;
            if ahead > AHEAD {
                return None;
            }
            self.ahead = ahead;
        }
        operation.next_send(peer)
    }
}
