//! What a rank does between operations: it serves the connections, and in the end it leaves.

use std::time::{Duration, Instant};

use super::connection::Connection;
use super::frame::{Frame, Kind};
use super::window::{Window, Work};
use super::{Mesh, POLL_INTERVAL};
use crate::ids::NodeId;

/// How long a rank waits for something to come when it has nothing else to do.
const REST: Duration = Duration::from_secs(1);
/// How long a rank that leaves waits for its peers to notice.
const FAREWELL: Duration = Duration::from_secs(1);

impl Mesh {
    /// Keeps the connections alive between operations: it passes control messages on, answers pings, detects lost
    /// ranks, and watches the links. It ends after `most`, when `until` returns true, and when a message or a fault has
    /// to be handled; each connection is served at least once.
    pub fn idle(&mut self, most: Duration, until: &dyn Fn() -> bool) {
        let end = Instant::now() + most;
        let known = self.faults.count();
        loop {
            self.keep_watch();
            self.mend(Instant::now());
            // A failure is kept for the next operation.
            let progress = self.poll_connections(&mut []);
            let left = end.saturating_duration_since(Instant::now());
            if until() || left.is_zero() || !self.inbox.is_empty() || self.faults.count() != known {
                return;
            }
            if !progress {
                self.wait(left.min(if self.watch.is_some() { POLL_INTERVAL } else { REST }));
            }
        }
    }

    /// Gives frames that are ready a moment to leave. Those that cannot leave stay queued for the next operation.
    pub(super) fn flush(&mut self) {
        let deadline = Instant::now() + FAREWELL;
        loop {
            let mut waiting = false;
            for peer in NodeId::first(self.connections.len()) {
                let Some(connection) = &mut self.connections[peer] else { continue };
                connection.wake();
                match connection.write(&mut Work::none(peer, &mut Window::new(), self.sequence)) {
                    Ok(_) => waiting |= !connection.flushed(),
                    // The kernel reports the cause only once, so it is recorded now; no operation waits for the answer.
                    Err(error) => drop(self.close_broken(peer, &error, false)),
                }
            }
            if !waiting || Instant::now() > deadline {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Says farewell, closes all connections, and listens no more.
    pub fn close(&mut self) {
        self.listener = None;
        self.callers.clear();
        self.repairs.give_up();
        self.reunions.dialling.give_up();
        let frame = Frame::new(Kind::Bye, 0, 0, self.rank);
        self.connections.iter_mut().flatten().for_each(|connection| connection.queue(frame.to_bytes().to_vec()));
        self.flush();
        // A connection that is closed with unread data makes the kernel drop what its peer has not read yet.
        let open = self.connections.iter().flatten();
        open.for_each(Connection::shut_down);
        let end = Instant::now() + FAREWELL;
        while self.connections.iter().any(Option::is_some) && Instant::now() < end {
            for connection in &mut self.connections {
                if connection.as_mut().is_some_and(Connection::drained) {
                    *connection = None;
                }
            }
            self.wait(Duration::from_millis(5));
        }
        self.connections.iter_mut().for_each(|connection| *connection = None);
    }
}
