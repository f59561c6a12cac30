//! Control messages: what every rank has to learn, passed on from neighbour to neighbour over all connections.
//!
//! A control message is queued before any later message on every connection. So a rank that ends an operation has
//! received each control message that rank 0 had broadcast before the operation: all data of the operation that depend
//! on rank 0 came behind it.

use std::io;
use std::time::Duration;

use super::Mesh;
use super::connection::Connection;
use super::faults::Failure;
use super::frame::{Frame, Kind};
use crate::error::{self, Error};
use crate::ids::NodeId;

const LEFT: &str = "has left the group";

/// A control message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlMessage {
    /// A message of the layer above, which gives it a meaning.
    Above(Vec<u8>),
    /// A rank's process is gone.
    Gone {
        /// The rank that is gone.
        rank: NodeId,
        /// How it was noticed, as a predicate that follows the rank's name.
        cause: String,
    },
    /// The connection between the sender and another rank does not work any more, though both may be alive.
    Cut {
        /// The rank that could not be reached.
        rank: NodeId,
        /// How often the two had lost their connection before.
        life: u32,
        /// How it was noticed.
        cause: String,
    },
    /// An operation is given up.
    GiveUp {
        /// The number of the operation.
        sequence: u32,
        /// Why it is given up.
        cause: String,
    },
    /// Every rank is asked to answer.
    Ping,
    /// The answer to a ping.
    Pong,
}

impl ControlMessage {
    /// Returns the message as bytes: a kind, a number, a text; before the text of a cut goes the life.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let cut;
        let (kind, number, text): (u8, u32, &[u8]) = match self {
            Self::Above(message) => (0, 0, message),
            Self::Gone { rank, cause } => (1, rank.0, cause.as_bytes()),
            Self::Cut { rank, life, cause } => {
                cut = [&life.to_le_bytes()[..], cause.as_bytes()].concat();
                (2, rank.0, &cut)
            }
            Self::GiveUp { sequence, cause } => (3, *sequence, cause.as_bytes()),
            Self::Ping => (4, 0, &[]),
            Self::Pong => (5, 0, &[]),
        };
        [&[kind][..], &number.to_le_bytes(), text].concat()
    }

    /// Reads a message from its bytes.
    ///
    /// # Errors
    /// If the bytes are no control message.
    pub(super) fn from_bytes(bytes: &[u8]) -> error::Result<Self> {
        let Some((&[kind, a, b, c, d], rest)) = bytes.split_first_chunk::<5>() else {
            return Err(Error::new("a control message is too short; all ranks need the same treefold"));
        };
        let number = u32::from_le_bytes([a, b, c, d]);
        let cause = || String::from_utf8_lossy(rest).into_owned();
        let short = || Error::new("a control message is too short; all ranks need the same treefold");
        Ok(match kind {
            0 => Self::Above(rest.to_vec()),
            1 => Self::Gone { rank: NodeId(number), cause: cause() },
            2 => {
                let (life, cause) = rest.split_first_chunk().ok_or_else(short)?;
                let cause = String::from_utf8_lossy(cause).into_owned();
                Self::Cut { rank: NodeId(number), life: u32::from_le_bytes(*life), cause }
            }
            3 => Self::GiveUp { sequence: number, cause: cause() },
            4 => Self::Ping,
            5 => Self::Pong,
            _ => {
                let text = format!("a control message of unknown kind {kind} came; all ranks need the same treefold");
                return Err(Error::new(text));
            }
        })
    }
}

/// Which control messages of a rank have come. They come over several connections, and over a new one a message may
/// overtake an earlier one that is still under way elsewhere.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heard {
    /// The highest number that has come.
    last: u32,
    /// Whether each of the 64 numbers before it has come, the one before it as the lowest bit.
    before: u64,
}

impl Heard {
    /// Nothing has come; the first message has the number 1.
    pub const NOTHING: Self = Self { last: 0, before: u64::MAX };

    /// Notes that a message has come; returns whether it is new. What is 64 messages late counts as known.
    fn note(&mut self, number: u32) -> bool {
        if number > self.last {
            let ahead = number - self.last;
            self.before = self.before.checked_shl(ahead).unwrap_or(0) | 1_u64.checked_shl(ahead - 1).unwrap_or(0);
            self.last = number;
            return true;
        }
        let bit = self.last.checked_sub(number + 1).and_then(|back| 1_u64.checked_shl(back)).unwrap_or(0);
        let is_new = bit != 0 && self.before & bit == 0;
        self.before |= bit;
        is_new
    }

    /// Returns the highest number up to which all messages have come.
    pub fn complete(self) -> u32 {
        // The highest unset bit is the earliest message that is missing.
        let missing = 64 - (!self.before).leading_zeros();
        self.last.saturating_sub(if missing == 0 { 0 } else { missing + 1 })
    }
}

impl Mesh {
    /// Passes a control message on and handles it, unless it has come over another connection already.
    pub(super) fn handle_control(&mut self, peer: NodeId, frame: Frame, body: &[u8]) -> Result<(), Failure> {
        let origin = frame.origin;
        let is_new = |heard: &mut Heard| heard.note(frame.transfer);
        if origin == self.rank || !self.heard.get_mut(origin.index()).is_some_and(is_new) {
            return Ok(());
        }
        self.log(origin, frame.transfer, || frame.with_body(body));
        let others = self.connections.iter_mut().enumerate().filter(|&(rank, _)| rank != peer.index());
        others
            .filter_map(|(_, connection)| connection.as_mut())
            .for_each(|connection| connection.queue(frame.with_body(body)));
        match ControlMessage::from_bytes(body) {
            Ok(message) => self.handle(origin, message),
            Err(error) => Err(Failure::GivenUp(error.to_string())),
        }
    }

    fn handle(&mut self, origin: NodeId, message: ControlMessage) -> Result<(), Failure> {
        match message {
            ControlMessage::Above(message) => self.inbox.push_back((origin, message)),
            ControlMessage::Ping => self.announce(&ControlMessage::Pong),
            ControlMessage::Pong => self.has_answered[origin] = true,
            ControlMessage::GiveUp { sequence, cause } if sequence <= self.sequence => {
                self.give_up(sequence, cause);
            }
            ControlMessage::GiveUp { sequence, cause } => self.faults.give_up(sequence, cause),
            ControlMessage::Gone { rank, cause } => {
                self.faults.lose(rank, origin, &cause);
                return self.check_faults();
            }
            ControlMessage::Cut { rank, life, cause } => {
                self.faults.cut(rank, origin, life, &cause);
                // The connection that came back may be there already.
                let is_this = |connection: &Connection| rank == self.rank && connection.life <= life;
                if self.connections[origin].as_ref().is_some_and(is_this) {
                    self.take_connection(origin);
                }
                return self.check_faults();
            }
        }
        Ok(())
    }

    /// Ends the operations in flight if a fault is known that prevents it.
    pub(super) fn check_faults(&self) -> Result<(), Failure> {
        match self.faults.failure() {
            Some(failure) if !self.flights.is_empty() => Err(failure),
            _ => Ok(()),
        }
    }

    /// Sends a message of the layer above to every rank, which gets it from [`Mesh::receive`].
    pub fn broadcast(&mut self, message: Vec<u8>) {
        self.announce(&ControlMessage::Above(message));
    }

    /// Sends a control message to every rank.
    #[doc(hidden)]
    pub fn announce(&mut self, message: &ControlMessage) {
        self.broadcasts += 1;
        let frame = Frame::new(Kind::Control, 0, self.broadcasts, self.rank);
        let bytes = frame.with_body(&message.to_bytes());
        self.log(self.rank, self.broadcasts, || bytes.clone());
        self.connections.iter_mut().flatten().for_each(|connection| connection.queue(bytes.clone()));
    }

    /// Keeps a control message for connections that come back, which only watched groups have.
    fn log(&mut self, origin: NodeId, number: u32, frame: impl FnOnce() -> Vec<u8>) {
        if self.watch.is_some() {
            self.reunions.record(origin, number, frame());
        }
    }

    /// Closes a connection that does not work any more, and reports why.
    pub(super) fn close_broken(&mut self, peer: NodeId, error: &io::Error, needed: bool) -> Result<(), Failure> {
        let Some(Connection { left, life, .. }) = self.take_connection(peer) else { return Ok(()) };
        self.left[peer] = left;
        let dead_end = [io::ErrorKind::TimedOut, io::ErrorKind::HostUnreachable, io::ErrorKind::NetworkUnreachable];
        if left {
            return if needed { self.report_gone(peer, LEFT.to_owned()) } else { Ok(()) };
        }
        // The other end closes its half of a connection that is cut; that does not mean that its rank is gone.
        let is_cut = dead_end.contains(&error.kind()) || self.faults.is_cut(peer, self.rank, life);
        // An end may also drop a connection that has just come back, which no plan uses yet.
        if is_cut || !self.faults.is_used(peer, self.rank, life) {
            return self.report_cut(peer, life, error.to_string(), needed);
        }
        self.report_gone(peer, format!("is gone: its connection broke: {error}"))
    }

    /// Takes a connection that is no more, and remembers how much left over it.
    pub(super) fn take_connection(&mut self, peer: NodeId) -> Option<Connection> {
        let connection = self.connections[peer].take()?;
        self.sent_before += connection.usage.written();
        Some(connection)
    }

    fn report_gone(&mut self, rank: NodeId, cause: String) -> Result<(), Failure> {
        if self.faults.lose(rank, self.rank, &cause) {
            self.announce(&ControlMessage::Gone { rank, cause });
        }
        self.check_faults()
    }

    fn report_cut(&mut self, peer: NodeId, life: u32, cause: String, needed: bool) -> Result<(), Failure> {
        if self.faults.cut(peer, self.rank, life, &cause) {
            self.announce(&ControlMessage::Cut { rank: peer, life, cause: cause.clone() });
        }
        self.check_faults()?;
        if needed { Err(Failure::Cut { rank: peer, by: self.rank, cause }) } else { Ok(()) }
    }

    /// Reports that there is no connection to a peer that an operation needs.
    pub(super) fn report_missing(&mut self, peer: NodeId) -> Result<(), Failure> {
        match self.left[peer] {
            true => self.report_gone(peer, LEFT.to_owned()),
            false => {
                // An operation that needs a pair around which plans were made finds it cut in every life.
                let life = self.faults.first_used(peer, self.rank).unwrap_or(u32::MAX);
                self.report_cut(peer, life, "there is no connection".to_owned(), true)
            }
        }
    }

    /// Asks all ranks to answer.
    pub(super) fn ping(&mut self) {
        self.has_answered.fill(false);
        self.has_answered[self.rank] = true;
        self.announce(&ControlMessage::Ping);
    }

    /// Reports the ranks that have not answered the last ping.
    pub(super) fn check_answers(&mut self, time: Duration) -> Result<(), Failure> {
        // Answers of ranks farther off come through neighbours: only a rank that is connected knows who is silent.
        let is_silent = |&rank: &NodeId| !self.has_answered[rank] && self.connections[rank].is_some();
        let silent: Vec<NodeId> = NodeId::first(self.connections.len()).filter(is_silent).collect();
        let seconds = time.as_secs_f64();
        let cause = format!("did not answer for {seconds:.0} s: it hangs, or its machine is cut off");
        // All of them are reported before the first ends the operation.
        let reports: Vec<_> = silent.into_iter().map(|rank| self.report_gone(rank, cause.clone())).collect();
        reports.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_message_is_new_once_however_late_it_comes() {
        for stride in [1, 3, 7, 37, 53, 99] {
            let (mut heard, mut known) = (Heard::NOTHING, BTreeSet::new());
            // Each message comes twice, in blocks of 50 numbers that are shuffled.
            for place in 0..400_u32 {
                let number = place / 100 * 50 + place * stride % 100 / 2 + 1;
                assert_eq!(heard.note(number), known.insert(number));
                let complete = (1..).take_while(|number| known.contains(number)).last().unwrap_or(0);
                assert_eq!(heard.complete(), complete);
            }
            assert_eq!(heard.complete(), 200);
        }
    }

    #[test]
    fn what_is_too_late_counts_as_known() {
        let mut heard = Heard::NOTHING;
        assert!(heard.note(100) && heard.note(36) && !heard.note(35) && !heard.note(36));
        assert!(heard.note(1000) && !heard.note(900) && heard.note(999));
    }
}
