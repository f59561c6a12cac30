//! Cuts messages into the parts that go over several streams.

use std::collections::HashMap;

use crate::run::operation::Operation;
use crate::run::program::TaskId;

/// The most bytes of a part: little enough that the last part of a message, on a slow stream, is not awaited for long,
/// and a multiple of the bytes of every kind of number.
const PART: usize = 128 << 10;

/// A part of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub task: TaskId,
    /// The bytes of the message before it.
    pub from: usize,
    pub length: usize,
}

/// The messages of an operation that are being cut and sent to a peer.
#[derive(Debug, Default)]
pub struct Parts {
    /// The message that is being cut, and the bytes of it that are in parts already.
    pub cut: Option<(TaskId, usize)>,
    /// The bytes of each message in several parts that have not left.
    left: HashMap<TaskId, usize>,
}

impl Parts {
    /// Cuts the next part from a message, of which `from` bytes are in parts already: all of it if there is one stream
    /// only, and nothing to encode.
    pub fn next(&mut self, operation: &Operation<'_>, task: TaskId, from: usize, streams: usize) -> Part {
        let whole = operation.bytes(task);
        let is_whole = streams == 1 && !operation.is_encoded();
        let length = if is_whole { whole } else { operation.whole_blocks(task, from, PART) };
        if from == 0 && length < whole {
            self.left.insert(task, whole);
        }
        self.cut = (from + length < whole).then_some((task, from + length));
        Part { task, from, length }
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
