//! The TCP transport: connections between ranks that stay open from operation to operation, and one loop that never
//! waits for a single one of them.
//!
//! mio tells which connections can be read and written. Received data that replace data are read in place; data to be
//! added are read block by block, and each block is added at once. Each connection is written in the order of the
//! operation's turns. Control messages travel besides the operation's messages, and every rank passes them on: they
//! report lost ranks and operations that are given up, and they carry the messages of the layer above.

mod between;
mod callers;
mod calls;
mod connection;
mod control;
mod faults;
mod frame;
mod join;
mod listener;
mod probe;
mod proof;
mod redial;
mod repair;
mod reunion;
mod secure;
mod usage;
mod watch;
mod window;
mod working;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};

use crate::ids::NodeId;
use crate::units::Seconds;
use callers::Caller;
use connection::Connection;
// Tests cut links by the message by which ranks tell each other.
#[doc(hidden)]
pub use control::ControlMessage;
use control::Heard;
use faults::Faults;
pub use faults::{Failure, Pair};
// The binding shows it to workers over MPI and PyTorch, which compare it as the ranks over TCP do.
#[doc(hidden)]
pub use frame::Signature;
use frame::{Frame, Kind};
pub use join::message_cost;
use listener::Listener;
pub use proof::KEY_BYTES;
use proof::Key;
use redial::Redials;
use repair::Place;
use reunion::Reunions;
pub use secure::Credentials;
use watch::Watch;
use window::Window;
use working::Vigil;

/// The most streams of a connection.
pub const MOST_STREAMS: usize = 256;

/// How often a rank that waits asks whether it should go on.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long a rank looks for messages of ranks on its machine before it lets itself be woken.
const SPIN: Duration = Duration::from_micros(100);

/// The times that an operation waits.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// How long it waits for a byte before it asks all ranks for an answer, and then as long again for the answers.
    pub silence: Duration,
    /// How long the whole operation may take although all ranks answer; `None` sets no limit.
    pub operation: Option<Duration>,
}

/// The bytes that went to a rank while more waited, and the time that this took.
#[derive(Debug, Clone)]
pub struct LinkUsage {
    /// The rank at the other end.
    pub rank: NodeId,
    /// The bytes that went there.
    pub bytes: u64,
    /// The time that this took.
    pub seconds: Seconds,
    /// The bytes that had left by each of several moments, and the seconds for which others had waited by then. The
    /// moments divide the time since the last count into equal parts. It is empty where no moments were asked for.
    pub course: Vec<(f64, f64)>,
}

/// The connections of one rank.
pub struct Mesh {
    rank: NodeId,
    poll: Poll,
    waker: Arc<Waker>,
    /// Where this rank listens, if it does.
    listener: Option<Listener>,
    key: Key,
    /// What connections are encrypted with, if they are.
    credentials: Option<Credentials>,
    /// Where this rank is reached; the port is 0 if it is not.
    address: SocketAddr,
    /// Whether all ranks to which this one is connected are on its machine.
    is_near: bool,
    /// The connection to each rank.
    connections: Vec<Option<Connection>>,
    /// The name of each rank in messages for people.
    names: Vec<String>,
    /// Whether each rank has said farewell.
    left: Vec<bool>,
    /// The number of the last operation that has begun.
    sequence: u32,
    /// How many control messages this rank has broadcast.
    broadcasts: u32,
    /// The control messages of each rank that have come.
    heard: Vec<Heard>,
    /// Messages of the layer above, each with its sender, which it has not received yet.
    inbox: VecDeque<(NodeId, Vec<u8>)>,
    /// Whether each rank has answered the last ping.
    has_answered: Vec<bool>,
    faults: Faults,
    /// The operations in flight.
    flights: Window,
    vigil: Vigil,
    /// What is watched, if it is.
    watch: Option<Watch>,
    reunions: Reunions,
    /// The broken streams that are called for.
    repairs: Redials<Place>,
    /// The ranks and strangers that have called, and have no connection yet.
    callers: Vec<Caller>,
    /// How many streams the connection to each rank has that this rank dials.
    streams: Vec<usize>,
    /// When usage was counted last.
    counted_at: Option<Instant>,
    /// The bytes that left over connections that are no more.
    sent_before: u64,
}

impl Mesh {
    /// Handles a frame that is no message of an operation.
    fn handle_frame(&mut self, peer: NodeId, frame: Frame, body: &[u8]) -> Result<(), Failure> {
        if frame.kind == Kind::Control {
            return self.handle_control(peer, frame, body);
        }
        if frame.kind == Kind::Start {
            self.note_begun(peer, frame.sequence, body);
            return Ok(());
        }
        let Some(connection) = &mut self.connections[peer] else { return Ok(()) };
        match frame.kind {
            Kind::Bye => connection.left = true,
            Kind::Ask => connection.queue_once(watch::question(Kind::Answer, frame.transfer, self.rank)),
            Kind::Answer => connection.trips.answer(frame.transfer, Instant::now(), connection.received),
            _ => {}
        }
        Ok(())
    }

    /// Waits until a connection can be read or written, the waker is used, or `most` is over.
    fn wait(&mut self, most: Duration) {
        let begun = Instant::now();
        // To wake a thread takes longer than a message between processes of one machine, so they look for a while.
        let spins = self.is_near && most >= SPIN;
        let mut events = Events::with_capacity(64);
        while spins && begun.elapsed() < SPIN {
            // An interrupted wait is as good as one that is over.
            let _ = self.poll.poll(&mut events, Some(Duration::ZERO));
            if !events.is_empty() {
                return self.note(&events);
            }
            std::thread::yield_now();
        }
        let _ = self.poll.poll(&mut events, Some(most));
        self.note(&events);
    }

    /// Notes which streams may be read or written.
    fn note(&mut self, events: &Events) {
        for event in events {
            let Token(number) = event.token();
            if let Some(Some(connection)) = self.connections.get_mut(number / MOST_STREAMS) {
                let is_readable = event.is_readable() || event.is_error() || event.is_read_closed();
                connection.note(number % MOST_STREAMS, is_readable, event.is_writable() || event.is_error());
            }
        }
    }

    /// Returns the messages of the layer above that have come since the last call, each with its sender.
    pub fn receive(&mut self) -> Vec<(NodeId, Vec<u8>)> {
        self.inbox.drain(..).collect()
    }

    /// Returns the usage of each connection since the last call, with courses of so many moments.
    pub fn link_usage(&mut self, moments: u32) -> Vec<LinkUsage> {
        let now = Instant::now();
        let begun = self.counted_at.replace(now).unwrap_or(now);
        let parts = moments.saturating_sub(1).max(1);
        let moments: Vec<Instant> = (0..moments).map(|number| begun + (now - begun) * number / parts).collect();
        let usages =
            NodeId::first(self.connections.len()).zip(&mut self.connections).filter_map(|(rank, connection)| {
                let usage = &mut connection.as_mut()?.usage;
                let course = moments.iter().map(|&moment| usage.by(moment)).collect();
                let (bytes, time) = usage.read();
                Some(LinkUsage { rank, bytes, seconds: Seconds::known(time.as_secs_f64()), course })
            });
        usages.collect()
    }

    /// Returns the bytes that have left for all peers in all operations.
    pub fn sent_bytes(&self) -> u64 {
        let now: u64 = self.connections.iter().flatten().map(|connection| connection.usage.written()).sum();
        self.sent_before + now
    }

    /// Returns the failure with which operations end; `None` while they can run.
    pub fn failure(&self) -> Option<Failure> {
        self.faults.failure()
    }

    /// Returns the ranks that are known to be gone.
    pub fn lost(&self) -> Vec<NodeId> {
        self.faults.lost()
    }

    /// Returns the pairs of ranks whose connection is known to be cut.
    pub fn cut_pairs(&self) -> Vec<Pair> {
        self.faults.cut_pairs()
    }

    /// Returns the cut pairs that plans may still use.
    pub fn pairs_to_avoid(&self) -> Vec<Pair> {
        self.faults.pairs_to_avoid()
    }

    /// Returns how often each pair has lost its connection, less one.
    pub fn lives(&self) -> Vec<(Pair, u32)> {
        self.faults.lives()
    }

    /// Sets from which life on plans use the connections of these pairs, `None` if they use none. They may use the
    /// connections of all other pairs.
    pub fn use_from(&mut self, lives: &[(Pair, Option<u32>)]) {
        self.faults.use_from(lives);
    }

    /// Sets the names of the ranks in messages for people.
    pub fn name_ranks(&mut self, names: Vec<String>) {
        self.names = names;
    }

    /// Returns the number of the last operation.
    pub fn sequence(&self) -> u32 {
        self.sequence
    }

    /// Goes on after operation `sequence`, on which all ranks have agreed after a failure.
    pub fn skip_to(&mut self, sequence: u32) {
        self.sequence = self.sequence.max(sequence);
    }

    /// Returns a waker that ends a wait of this rank.
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }
}
