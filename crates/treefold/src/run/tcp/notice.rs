//! Notices: what every rank has to hear, passed on from neighbour to neighbour over whatever connections there are.
//!
//! A notice is queued before any later message on every connection. So whoever ends an operation that began after a
//! notice of rank 0 has heard it: all data of the operation that depend on rank 0 came behind it.

use std::io;
use std::time::Duration;

use super::Mesh;
use super::faults::Failure;
use super::frame::{Frame, Kind};
use crate::error::{self, Error};

const LEFT: &str = "has left the group";

/// What a notice says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Words between workers, for the layer above.
    Words(Vec<u8>),
    /// A rank's process is gone.
    Gone {
        /// Which.
        rank: u32,
        /// How that showed: the sentence goes on behind its name.
        cause: String,
    },
    /// The way between two ranks does not work any more, though both may be there.
    Cut {
        /// The one that did not answer.
        rank: u32,
        /// How that showed.
        cause: String,
    },
    /// An operation is given up.
    GiveUp {
        /// Which.
        sequence: u32,
        /// Why.
        cause: String,
    },
    /// Who is there?
    Ask,
    /// I am.
    Here,
}

impl Notice {
    /// Its bytes: a kind, a number, a text.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (kind, number, text): (u8, u32, &[u8]) = match self {
            Self::Words(words) => (0, 0, words),
            Self::Gone { rank, cause } => (1, *rank, cause.as_bytes()),
            Self::Cut { rank, cause } => (2, *rank, cause.as_bytes()),
            Self::GiveUp { sequence, cause } => (3, *sequence, cause.as_bytes()),
            Self::Ask => (4, 0, &[]),
            Self::Here => (5, 0, &[]),
        };
        [&[kind][..], &number.to_le_bytes(), text].concat()
    }

    /// The notice of these bytes.
    ///
    /// # Errors
    /// If no notice looks like that.
    pub fn from_bytes(bytes: &[u8]) -> error::Result<Self> {
        let Some((&[kind, a, b, c, d], rest)) = bytes.split_first_chunk::<5>() else {
            return Err(Error::new("a notice is too short; all ranks need the same treefold"));
        };
        let number = u32::from_le_bytes([a, b, c, d]);
        let cause = || String::from_utf8_lossy(rest).into_owned();
        Ok(match kind {
            0 => Self::Words(rest.to_vec()),
            1 => Self::Gone { rank: number, cause: cause() },
            2 => Self::Cut { rank: number, cause: cause() },
            3 => Self::GiveUp { sequence: number, cause: cause() },
            4 => Self::Ask,
            5 => Self::Here,
            _ => return Err(Error::new(format!("a notice of kind {kind} came; all ranks need the same treefold"))),
        })
    }
}

impl Mesh {
    /// Passes a notice on, and heeds it, if it has not come by another way already.
    pub(super) fn notice(&mut self, peer: u32, frame: Frame, body: &[u8]) -> Result<(), Failure> {
        let origin = frame.origin;
        let known = self.heard.get(origin as usize).is_none_or(|&heard| heard >= frame.transfer);
        if known || origin == self.rank {
            return Ok(());
        }
        self.heard[origin as usize] = frame.transfer;
        let others = self.connections.iter_mut().enumerate().filter(|(rank, _)| *rank as u32 != peer);
        others
            .filter_map(|(_, connection)| connection.as_mut())
            .for_each(|connection| connection.queue(frame.with_body(body)));
        match Notice::from_bytes(body) {
            Ok(notice) => self.heed(origin, notice),
            Err(error) => Err(Failure::GivenUp(error.to_string())),
        }
    }

    fn heed(&mut self, origin: u32, notice: Notice) -> Result<(), Failure> {
        match notice {
            Notice::Words(words) => self.words.push_back((origin, words)),
            Notice::Ask => self.tell(&Notice::Here),
            Notice::Here => self.here[origin as usize] = true,
            Notice::GiveUp { sequence, cause } if self.at_work && sequence == self.sequence => {
                return Err(Failure::GivenUp(cause));
            }
            Notice::GiveUp { sequence, cause } => self.faults.give_up(sequence, cause),
            Notice::Gone { rank, cause } => {
                self.faults.lose(rank, origin, &cause);
                return self.stop();
            }
            Notice::Cut { rank, cause } => {
                self.faults.cut(rank, origin, &cause);
                if rank == self.rank {
                    self.connections[origin as usize] = None;
                }
                return self.stop();
            }
        }
        Ok(())
    }

    /// An operation at work ends with what is known to be wrong.
    pub(super) fn stop(&self) -> Result<(), Failure> {
        match self.faults.failure() {
            Some(failure) if self.at_work => Err(failure),
            _ => Ok(()),
        }
    }

    /// Tells every rank.
    pub fn tell(&mut self, notice: &Notice) {
        self.notices += 1;
        let frame = Frame { kind: Kind::Notice, sequence: 0, transfer: self.notices, origin: self.rank, length: 0 };
        let bytes = frame.with_body(&notice.to_bytes());
        self.connections.iter_mut().flatten().for_each(|connection| connection.queue(bytes.clone()));
    }

    /// Ends the operation at work, everywhere.
    pub(super) fn give_up(&mut self, cause: String) -> Result<(), Failure> {
        self.tell(&Notice::GiveUp { sequence: self.sequence, cause: cause.clone() });
        Err(Failure::GivenUp(cause))
    }

    /// A connection does not work any more.
    pub(super) fn lose(&mut self, peer: u32, error: &io::Error, needed: bool) -> Result<(), Failure> {
        let left = self.connections[peer as usize].take().is_some_and(|connection| connection.left);
        self.left[peer as usize] = left;
        let dead_end = [io::ErrorKind::TimedOut, io::ErrorKind::HostUnreachable, io::ErrorKind::NetworkUnreachable];
        if left {
            return if needed { self.notice_gone(peer, LEFT.to_owned()) } else { Ok(()) };
        }
        // The other end closes its half of a way that is cut: nobody is gone for that.
        if dead_end.contains(&error.kind()) || self.faults.is_cut(peer, self.rank) {
            return self.notice_cut(peer, error.to_string(), needed);
        }
        self.notice_gone(peer, format!("is gone: its connection broke: {error}"))
    }

    fn notice_gone(&mut self, rank: u32, cause: String) -> Result<(), Failure> {
        if self.faults.lose(rank, self.rank, &cause) {
            self.tell(&Notice::Gone { rank, cause });
        }
        self.stop()
    }

    fn notice_cut(&mut self, peer: u32, cause: String, needed: bool) -> Result<(), Failure> {
        if self.faults.cut(peer, self.rank, &cause) {
            self.tell(&Notice::Cut { rank: peer, cause: cause.clone() });
        }
        self.stop()?;
        if needed { Err(Failure::Cut { rank: peer, by: self.rank, cause }) } else { Ok(()) }
    }

    /// There is no connection to a peer that an operation needs.
    pub(super) fn miss(&mut self, peer: u32) -> Result<(), Failure> {
        match self.left[peer as usize] {
            true => self.notice_gone(peer, LEFT.to_owned()),
            false => self.notice_cut(peer, "there is no connection".to_owned(), true),
        }
    }

    /// Asks who is there.
    pub(super) fn ask(&mut self) {
        self.here.fill(false);
        self.here[self.rank as usize] = true;
        self.tell(&Notice::Ask);
    }

    /// Makes sure that all have answered.
    pub(super) fn nobody_silent(&mut self, time: Duration) -> Result<(), Failure> {
        // Answers of ranks farther off come through those who are near: only who is connected knows who is silent.
        let is_near = |rank: &u32| self.connections[*rank as usize].is_some();
        let silent: Vec<u32> =
            (0..).zip(&self.here).filter(|(_, here)| !**here).map(|(rank, _)| rank).filter(is_near).collect();
        let seconds = time.as_secs_f64();
        let cause = format!("did not answer for {seconds:.0} s: it hangs, or its machine is cut off");
        // All of them are told before the first ends the operation.
        let noticed: Vec<_> = silent.into_iter().map(|rank| self.notice_gone(rank, cause.clone())).collect();
        noticed.into_iter().collect()
    }
}
