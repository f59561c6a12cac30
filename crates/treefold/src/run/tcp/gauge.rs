//! What a connection carries, as the controller wants to know it.

use std::time::{Duration, Instant};

/// How fast the connection carries what waits for it: counted only while the kernel's queue is full and the peer is at
/// work on the same operation, else it is the peer who is slow.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gauge {
    /// Whether the peer is at work.
    pub open: bool,
    /// Bytes that left while others waited.
    pub bytes: u64,
    /// How long that took.
    pub time: Duration,
    /// Bytes that left, of all operations.
    pub(super) written: u64,
    since: Option<(Instant, u64)>,
    last: Option<(Instant, u64)>,
}

impl Gauge {
    /// The kernel takes no more.
    pub(super) fn full(&mut self) {
        if !self.open {
            return;
        }
        let now = Some((Instant::now(), self.written));
        self.since = self.since.or(now);
        self.last = now;
    }

    /// Nothing waits.
    pub(super) fn empty(&mut self) {
        if let (Some(since), Some(last)) = (self.since.take(), self.last) {
            self.time += last.0 - since.0;
            self.bytes += last.1 - since.1;
        }
    }

    /// What has been counted up to now, and counting begins anew.
    pub fn read(&mut self) -> (u64, Duration) {
        let busy = self.since.is_some();
        self.empty();
        if busy {
            self.since = self.last;
        }
        (std::mem::take(&mut self.bytes), std::mem::take(&mut self.time))
    }
}
