//! Connections that were cut and come back: the end that called before dials again and again, and the other accepts.
//!
//! Each connection of a pair has a number, its life: 0 at first, and one more each time. All reports of cuts name it,
//! so a late report of the first cut says nothing about the second connection. Neither rank waits for the other: a
//! thread dials, and a connection counts only when its ends have greeted each other. With the greeting each tells which
//! control messages have come, and the other sends what is missing before it passes on new ones: they stay in order.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::Mesh;
use super::calls::REUNION;
use super::connection::{Connection, Received};
use super::frame::{Frame, Kind};
use super::redial::{PATIENCE, Redials};
use super::secure::Line;
use super::window::{Window, Work};
use crate::ids::NodeId;

/// The most bytes of control messages that are kept for a connection that comes back.
const LOG: usize = 4 << 20;

/// What a rank needs to meet those from which it is cut off.
#[derive(Default)]
pub struct Reunions {
    /// The ranks to which it was connected last by a call of its own, and their addresses.
    pub calls: Vec<(NodeId, SocketAddr)>,
    /// How long a peer may take to acknowledge data.
    pub dead_after: Duration,
    /// The ranks that are being dialled.
    pub dialling: Redials<NodeId>,
    /// The connections whose ends have not greeted each other.
    strangers: Vec<Stranger>,
    /// The last control messages: the rank that has broadcast each, its number, and its frame.
    log: VecDeque<(NodeId, u32, Vec<u8>)>,
    log_bytes: usize,
    /// The number of the last message of each rank that the log has forgotten.
    forgotten: Vec<(NodeId, u32)>,
}

/// A connection that waits for the greeting of the other end.
struct Stranger {
    rank: NodeId,
    life: u32,
    connection: Connection,
    since: Instant,
}

impl Reunions {
    /// Keeps a control message for connections that come back.
    pub fn record(&mut self, origin: NodeId, number: u32, frame: Vec<u8>) {
        self.log_bytes += frame.len();
        self.log.push_back((origin, number, frame));
        while self.log_bytes > LOG {
            let Some((origin, number, frame)) = self.log.pop_front() else { break };
            self.log_bytes -= frame.len();
            self.forgotten.retain(|&(other, _)| other != origin);
            self.forgotten.push((origin, number));
        }
    }

    /// Returns the messages that a rank lacks to which these were the last to come, or `None` if some are forgotten.
    fn missing(&self, known: &[u32]) -> Option<Vec<Vec<u8>>> {
        let has = |origin: NodeId, number: u32| known.get(origin.index()).is_some_and(|&last| last >= number);
        let is_whole = self.forgotten.iter().all(|&(origin, number)| has(origin, number));
        let missing = self.log.iter().filter(|&&(origin, number, _)| !has(origin, number));
        is_whole.then(|| missing.map(|(_, _, frame)| frame.clone()).collect())
    }
}

impl Mesh {
    /// Returns the neighbours whose connection came back, each with its life, and which plans do not use yet.
    pub fn returned(&self) -> Vec<(NodeId, u32)> {
        let connections = NodeId::first(self.connections.len()).zip(&self.connections);
        let lives = connections.filter_map(|(rank, connection)| Some((rank, connection.as_ref()?.life)));
        lives.filter(|&(rank, life)| !self.faults.is_used(rank, self.rank, life)).collect()
    }

    /// Takes the next steps towards the ranks from which this one is cut off.
    pub(super) fn reunite(&mut self, now: Instant) {
        self.dial_again(now);
        for (rank, streams) in self.reunions.dialling.answered() {
            self.meet(rank, streams, now);
        }
        self.take_calls(now);
        self.greet(now);
    }

    /// Returns the life of the next connection to a rank, if this one is cut off from it and not about to meet it.
    fn awaited(&self, rank: NodeId) -> Option<u32> {
        let is_met = self.connections[rank].is_some() || self.reunions.strangers.iter().any(|each| each.rank == rank);
        self.faults.next_life(rank, self.rank).filter(|_| !is_met)
    }

    /// Returns whether this rank awaits another one that has called it before and was cut off from it.
    pub(super) fn awaits_again(&self, rank: NodeId) -> bool {
        rank != self.rank && !self.calls(rank) && self.awaited(rank).is_some()
    }

    /// Returns whether any pair is cut that a watched group may connect again.
    pub(super) fn is_cut_off(&self) -> bool {
        self.watch.is_some() && !self.faults.cut_pairs().is_empty()
    }

    /// Dials the ranks that this one called before.
    fn dial_again(&mut self, now: Instant) {
        for (rank, address) in self.reunions.calls.clone() {
            if self.awaited(rank).is_some() && self.reunions.dialling.is_due(rank, now) {
                let calling = self.call(REUNION, rank, address, now + PATIENCE, now + PATIENCE);
                self.reunions.dialling.begin(rank, calling, now);
            }
        }
    }

    /// Returns whether this rank has called another one, and calls it again.
    fn calls(&self, rank: NodeId) -> bool {
        self.reunions.calls.iter().any(|&(other, _)| other == rank)
    }

    /// Accepts the ranks that have called this one before and are cut off from it, and greets them.
    fn take_calls(&mut self, now: Instant) {
        if let Some((rank, streams)) = self.next_member(REUNION) {
            self.meet(rank, streams, now);
            if let Some(stranger) = self.reunions.strangers.iter().position(|each| each.rank == rank) {
                let welcome = self.welcome(self.reunions.strangers[stranger].life);
                self.reunions.strangers[stranger].connection.queue(welcome);
            }
        }
    }

    /// Sets up streams to a rank as a connection whose ends have not greeted each other.
    fn meet(&mut self, rank: NodeId, streams: Vec<Line>, now: Instant) {
        let Some(life) = self.awaited(rank) else { return };
        // What cannot be set up is dialled again.
        if let Ok(connection) = self.set_up(rank, streams, self.reunions.dead_after, life) {
            self.reunions.strangers.push(Stranger { rank, life, connection, since: now });
        }
    }

    /// Returns the greeting: the life of the connection, and the number up to which each rank's control messages have
    /// come.
    fn welcome(&self, life: u32) -> Vec<u8> {
        let mut known: Vec<u32> = self.heard.iter().map(|heard| heard.complete()).collect();
        known[self.rank] = self.broadcasts;
        let body: Vec<u8> = known.iter().flat_map(|number| number.to_le_bytes()).collect();
        let frame = Frame::new(Kind::Welcome, 0, life, self.rank);
        frame.with_body(&body)
    }

    /// Reads the greetings that have come; a connection counts from then on. One that breaks or greets wrongly, or not
    /// at all, is dropped.
    fn greet(&mut self, now: Instant) {
        for mut stranger in std::mem::take(&mut self.reunions.strangers) {
            let connection = &mut stranger.connection;
            connection.wake();
            let (mut none, mut moved) = (Window::new(), false);
            let work = &mut Work::none(stranger.rank, &mut none, self.sequence);
            let read = connection.write(work).and_then(|_| connection.read(work, &mut moved));
            match read {
                Ok(Received::Frame(frame)) if frame.kind == Kind::Welcome && frame.transfer == stranger.life => {
                    self.accept_greeting(stranger);
                }
                Ok(Received::Nothing) if now - stranger.since < PATIENCE => self.reunions.strangers.push(stranger),
                _ => {}
            }
        }
    }

    /// Makes a connection whose other end has greeted one of ours, with all control messages that it lacks.
    fn accept_greeting(&mut self, stranger: Stranger) {
        let Stranger { rank, life, mut connection, .. } = stranger;
        let known: Vec<u32> = (connection.body().chunks_exact(4))
            .map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")))
            .collect();
        let Some(missing) = self.reunions.missing(&known) else { return };
        if self.awaited(rank) != Some(life) {
            return;
        }
        if self.calls(rank) {
            connection.queue(self.welcome(life));
        }
        missing.into_iter().for_each(|frame| connection.queue(frame));
        connection.wake();
        self.take_connection(rank);
        self.connections[rank] = Some(connection);
    }
}
