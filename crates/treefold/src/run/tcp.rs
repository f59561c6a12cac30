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
mod reunion;
mod secure;
mod usage;
mod watch;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};

use super::operation::Operation;
use super::program::{PeerId, Program};
use crate::ids::NodeId;
use crate::units::Seconds;
use connection::{Connection, Received};
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
use reunion::Reunions;
pub use secure::Credentials;
use watch::Watch;

/// The most streams of a connection.
pub const MOST_STREAMS: usize = 256;

/// How often a rank that waits asks whether it should go on.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The times that an operation waits.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// How long it waits for a byte before it asks all ranks for an answer, and then as long again for the answers.
    pub silence: Duration,
    /// How long the whole operation may take although all ranks answer; `None` sets no limit.
    pub operation: Option<Duration>,
}

/// The bytes that went to a rank while more waited, and the time that this took.
#[derive(Debug, Clone, Copy)]
pub struct LinkUsage {
    /// The rank at the other end.
    pub rank: NodeId,
    /// The bytes that went there.
    pub bytes: u64,
    /// The time that this took.
    pub seconds: Seconds,
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
    /// The connection to each rank.
    connections: Vec<Option<Connection>>,
    /// The name of each rank in messages for people.
    names: Vec<String>,
    /// Whether each rank has said farewell.
    left: Vec<bool>,
    /// The number of the operation at work, or of the last one.
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
    at_work: bool,
    /// What is watched, if it is.
    watch: Option<Watch>,
    reunions: Reunions,
    /// How many streams the connection to each rank has that this rank dials.
    streams: Vec<usize>,
}

/// The operation at work.
struct Work<'a, 'b> {
    operation: &'a mut Operation<'b>,
    /// The peer of the program that each rank is; `None` for a rank that is no peer.
    slots: &'a [Option<PeerId>],
    signature: Signature,
}

impl Mesh {
    /// Runs one operation, and gives it up when a timeout is over or `go_on`, which is asked now and then, returns
    /// false.
    ///
    /// # Errors
    /// See [`Failure`]. The vector then holds no result.
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use std::thread;
    /// use std::time::Duration;
    /// use treefold::number::{Number, Operator};
    /// use treefold::run::operation::Operation;
    /// use treefold::run::program::Program;
    /// use treefold::run::tcp::{Mesh, Timeouts};
    /// use treefold::topology::NodeId;
    ///
    /// /// Adds up the vectors of all ranks on this one, whose peers do the same at the same time.
    /// fn all_reduce(mesh: &mut Mesh, peers: &[(NodeId, SocketAddr)], program: &Program, vector: &mut [u8]) {
    ///     let wait = Duration::from_secs(10);
    ///     mesh.connect(peers, wait, wait, &mut || true).unwrap();
    ///     let mut scratch = Vec::new();
    ///     let mut operation =
    ///         Operation::new(program, Number::Uint8, Operator::Sum, vector, &mut scratch).unwrap();
    ///     let timeouts = Timeouts { silence: wait, operation: None };
    ///     mesh.run(&mut operation, timeouts, &mut || true).unwrap();
    /// }
    ///
    /// # use std::sync::Arc;
    /// # use treefold::{planners, topology::from_spec, units::parse_time};
    /// # let line = Arc::new(from_spec("line:2", None, None)?);
    /// # let plan = planners::plan("ring", &line, &planners::Options::default())?;
    /// let programs = Program::all(&plan, 4, 1, parse_time("0s")?)?;
    /// let listen = |rank| Mesh::listen(rank, 2, "127.0.0.1".parse().unwrap(), Some(0), &[7; 32]);
    /// let mut meshes = [listen(NodeId(0))?, listen(NodeId(1))?];
    /// let peers = [(NodeId(0), meshes[0].address()), (NodeId(1), meshes[1].address())];
    /// let mut vectors = [[1; 4], [2; 4]];
    /// thread::scope(|scope| {
    ///     for ((mesh, program), vector) in meshes.iter_mut().zip(&programs).zip(&mut vectors) {
    ///         scope.spawn(|| all_reduce(mesh, &peers, program, vector));
    ///     }
    /// });
    /// assert_eq!(vectors, [[3; 4]; 2]);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn run(
        &mut self,
        operation: &mut Operation<'_>,
        timeouts: Timeouts,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), Failure> {
        self.sequence += 1;
        self.at_work = true;
        let signature = Signature::new(operation.program(), operation.number(), operation.operator());
        let result = self.work(operation, signature, timeouts, go_on);
        self.at_work = false;
        if let Err(failure) = &result {
            if *failure == Failure::Interrupted {
                let cause = format!("{} was interrupted", self.names[self.rank]);
                drop(self.give_up(cause));
            }
            self.connections.iter_mut().flatten().for_each(|connection| connection.give_up(operation));
            self.flush();
        }
        result
    }

    fn work(
        &mut self,
        operation: &mut Operation<'_>,
        signature: Signature,
        timeouts: Timeouts,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), Failure> {
        let slots = self.begin(operation, signature)?;
        let begun = Instant::now();
        let (mut last_moved, mut last_poll, mut moved, mut has_pinged) = (begun, begun, 0, false);
        loop {
            let progress = self.poll_connections(Some(Work { operation, slots: &slots, signature }))?;
            if operation.done() && self.connections.iter().flatten().all(Connection::flushed) {
                return Ok(());
            }
            if !progress {
                self.wait(POLL_INTERVAL);
            }
            let now = Instant::now();
            if now - last_poll < POLL_INTERVAL {
                continue;
            }
            last_poll = now;
            self.keep_watch(&slots);
            if !go_on() {
                return Err(Failure::Interrupted);
            }
            if timeouts.operation.is_some_and(|most| now - begun > most) {
                return self.give_up(self.describe_delay(operation.program(), now - begun));
            }
            let before = std::mem::replace(&mut moved, self.connections.iter().flatten().map(|each| each.moved).sum());
            if moved != before {
                (last_moved, has_pinged) = (now, false);
            } else if !has_pinged && now - last_moved > timeouts.silence {
                has_pinged = true;
                self.ping();
            } else if has_pinged && now - last_moved > 2 * timeouts.silence {
                self.check_answers(now - last_moved)?;
                (last_moved, has_pinged) = (now, false);
            }
        }
    }

    /// Describes why an operation takes too long.
    fn describe_delay(&self, program: &Program, time: Duration) -> String {
        let has_begun =
            |peer: NodeId| self.connections[peer].as_ref().is_some_and(|connection| connection.usage.peer_has_begun);
        let late = program.peers.iter().filter(|&&peer| !has_begun(peer));
        let late: Vec<String> = late.map(|&peer| self.names[peer].clone()).collect();
        let why = match late.as_slice() {
            [] => "all its neighbours are at work: allow more time, or look at the network".to_owned(),
            late => format!("{} has not begun it", late.join(", ")),
        };
        let us = &self.names[self.rank];
        format!("the operation is not done at {us} after {:.1} s; {why}", time.as_secs_f64())
    }

    /// Announces an operation to its peers; returns each rank's index among them.
    fn begin(&mut self, operation: &Operation<'_>, signature: Signature) -> Result<Vec<Option<PeerId>>, Failure> {
        if let Some(cause) = self.faults.given_up(self.sequence) {
            return Err(Failure::GivenUp(cause));
        }
        self.check_faults()?;
        let program = operation.program();
        let frame = Frame::new(Kind::Start, self.sequence, 0, self.rank);
        let mut slots = vec![None; self.connections.len()];
        for (slot, &peer) in PeerId::first(program.peers.len()).zip(&program.peers) {
            slots[peer] = Some(slot);
            let Some(connection) = &mut self.connections[peer] else {
                self.report_missing(peer)?;
                continue;
            };
            connection.queue(frame.with_body(&signature.to_bytes()));
            if let Err(error) = connection.begin_operation(program.mean_bytes) {
                self.close_broken(peer, &error, true)?;
            }
        }
        Ok(slots)
    }

    /// Writes and reads every connection once; returns whether anything moved.
    fn poll_connections(&mut self, mut work: Option<Work<'_, '_>>) -> Result<bool, Failure> {
        let mut progress = false;
        for peer in NodeId::first(self.connections.len()) {
            let Some(connection) = &mut self.connections[peer] else { continue };
            let slot = work.as_ref().and_then(|work| work.slots[peer]);
            let task = work.as_mut().and_then(|work| Some((&mut *work.operation, slot?, self.sequence)));
            // Who has left reads nothing more.
            let written = if connection.left { Ok(false) } else { connection.write(task) };
            let step = written.and_then(|moved| {
                progress |= moved;
                let task = work.as_mut().and_then(|work| Some((&mut *work.operation, slot?)));
                connection.read(task, self.sequence, &mut progress)
            });
            match step {
                Ok(Received::Nothing) => {}
                Ok(Received::Frame(frame)) => {
                    let body = connection.body().to_vec();
                    self.handle_frame(peer, frame, &body, work.as_ref().map(|work| work.signature))?;
                }
                Ok(Received::Foreign) => {
                    let (theirs, ours) = (&self.names[peer], &self.names[self.rank]);
                    self.give_up(format!("{theirs} has sent a message that the plan of {ours} does not have"))?;
                }
                // What a peer has sent before it left may be for an operation that has not begun here.
                Err(_) if connection.left && connection.has_early() => {}
                Err(error) => {
                    let needed = work.as_ref().is_some_and(|work| slot.is_some_and(|slot| work.operation.needs(slot)));
                    self.close_broken(peer, &error, needed)?;
                }
            }
        }
        Ok(progress)
    }

    /// Handles a frame that is no message of an operation.
    fn handle_frame(
        &mut self,
        peer: NodeId,
        frame: Frame,
        body: &[u8],
        ours: Option<Signature>,
    ) -> Result<(), Failure> {
        match (frame.kind, ours) {
            (Kind::Start, Some(ours)) if body != ours.to_bytes() => {
                let (them, us) = (&self.names[peer], &self.names[self.rank]);
                let theirs = String::from_utf8_lossy(body);
                self.give_up(format!(
                    "the ranks disagree: {them} runs {theirs}, {us} runs {ours}; give all ranks the same size, type, \
                     operator, wire type and plan"
                ))
            }
            (Kind::Start, Some(_)) => {
                if let Some(connection) = &mut self.connections[peer] {
                    connection.usage.peer_has_begun = true;
                }
                Ok(())
            }
            (Kind::Bye, _) => {
                if let Some(connection) = &mut self.connections[peer] {
                    connection.left = true;
                }
                Ok(())
            }
            (Kind::Ask, _) => {
                let answer = watch::question(Kind::Answer, frame.transfer, self.rank);
                self.connections[peer].iter_mut().for_each(|connection| connection.queue_once(answer.clone()));
                Ok(())
            }
            (Kind::Answer, _) => {
                if let Some(connection) = &mut self.connections[peer] {
                    connection.trips.answer(frame.transfer, Instant::now(), connection.received);
                }
                Ok(())
            }
            (Kind::Control, _) => self.handle_control(peer, frame, body),
            _ => Ok(()),
        }
    }

    /// Waits until a connection can be read or written, the waker is used, or `most` is over.
    fn wait(&mut self, most: Duration) {
        let mut events = Events::with_capacity(64);
        // An interrupted wait is as good as one that is over.
        let _ = self.poll.poll(&mut events, Some(most));
        for event in &events {
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

    /// Returns the usage of each connection since the last call.
    pub fn link_usage(&mut self) -> Vec<LinkUsage> {
        let usages =
            NodeId::first(self.connections.len()).zip(&mut self.connections).filter_map(|(rank, connection)| {
                let (bytes, time) = connection.as_mut()?.usage.read();
                Some(LinkUsage { rank, bytes, seconds: Seconds::known(time.as_secs_f64()) })
            });
        usages.collect()
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
