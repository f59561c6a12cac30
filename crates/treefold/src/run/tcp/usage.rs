//! The usage of a connection, from which the controller learns how fast it is.

use std::time::{Duration, Instant};

/// The bytes that a connection carried while more waited, and the time that this took. They are counted only while the
/// kernel's queue is full and the peer runs the same operation: otherwise the peer is slow, and not the connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// The bytes that left while others waited.
    pub bytes: u64,
    /// The time in which they left.
    pub time: Duration,
    /// The bytes that have left in all operations.
    pub(super) written: u64,
    /// When the queue became full, and the bytes that had left by then.
    since: Option<Mark>,
    /// When the queue was last seen full, and the bytes that had left by then.
    last: Option<Mark>,
}

/// A moment, and the bytes that had left by then.
#[derive(Debug, Clone, Copy)]
struct Mark {
    at: Instant,
    written: u64,
}

impl Usage {
    /// Records that the kernel takes no more of an operation that the peer has begun.
    pub(super) fn full(&mut self) {
        let now = Some(Mark { at: Instant::now(), written: self.written });
        self.since = self.since.or(now);
        self.last = now;
    }

    /// Records that nothing waits.
    pub(super) fn empty(&mut self) {
        if let (Some(since), Some(last)) = (self.since.take(), self.last) {
            self.time += last.at - since.at;
            self.bytes += last.written - since.written;
        }
    }

    /// Returns the bytes and the time that were counted, and begins to count anew.
    pub fn read(&mut self) -> (u64, Duration) {
        let busy = self.since.is_some();
        self.empty();
        if busy {
            self.since = self.last;
        }
        (std::mem::take(&mut self.bytes), std::mem::take(&mut self.time))
    }
}
