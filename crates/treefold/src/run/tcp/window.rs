//! The operations in flight: a window of consecutive numbers, of which the first ends first.
//!
//! The messages of all of them share the connections. What the first one has to send goes first; later ones fill the
//! gaps in which it waits for others. So operations behind each other pay the network's latency once, and not each.

use std::collections::VecDeque;
use std::time::Instant;

use super::connection::{Part, Parts};
use super::faults::Failure;
use super::frame::Signature;
use crate::ids::NodeId;
use crate::run::operation::Operation;
use crate::run::program::{PeerId, TaskId};

/// The bytes of an operation that go to a peer before it has begun it. More would fill its kernel's buffers, and a
/// connection whose buffers stay full looks dead.
const AHEAD: u64 = 32 << 10;

/// What an operation has to do with one peer.
#[derive(Debug)]
pub struct Pairing {
    /// The peer of the operation's program.
    slot: PeerId,
    /// Whether the peer has begun the operation.
    pub peer_has_begun: bool,
    /// The bytes that were sent before it had.
    ahead: u64,
    parts: Parts,
}

/// An operation in flight.
#[derive(Debug)]
pub struct Flight {
    /// Its number.
    pub sequence: u32,
    pub signature: Signature,
    /// What it has to do with each rank.
    pub pairings: Vec<Option<Pairing>>,
    /// Whether it sends nothing before all operations before it are done here.
    pub waits: bool,
    /// Why it has no result.
    pub failure: Option<Failure>,
    /// Since when it is the first one.
    pub first_since: Instant,
}

/// All operations in flight, by number.
pub type Window = VecDeque<Flight>;

/// The operations at work, as the connection to one peer sees them.
pub struct Work<'w, 'b> {
    pub peer: NodeId,
    pub flights: &'w mut Window,
    /// The operation of each flight.
    pub operations: &'w mut [Operation<'b>],
    /// The number of the last operation that has begun.
    pub last: u32,
}

impl Flight {
    /// Returns an operation of a program with these peers, among so many ranks.
    pub fn new(sequence: u32, signature: Signature, peers: &[NodeId], ranks: usize, waits: bool) -> Self {
        let mut pairings: Vec<Option<Pairing>> = (0..ranks).map(|_| None).collect();
        for (slot, &peer) in PeerId::first(peers.len()).zip(peers) {
            pairings[peer] = Some(Pairing { slot, peer_has_begun: false, ahead: 0, parts: Parts::default() });
        }
        Self { sequence, signature, pairings, waits, failure: None, first_since: Instant::now() }
    }
}

impl Pairing {
    /// Returns the next part to send to the peer: a whole message if there is one stream only, and nothing to encode;
    /// `None` if there is nothing to send, or if the peer must begin the operation first.
    fn next_part(&mut self, operation: &mut Operation<'_>, streams: usize) -> Option<Part> {
        let (task, from) = match self.parts.cut {
            Some(cut) => cut,
            None => (self.next_message(operation)?, 0),
        };
        Some(self.parts.next(operation, task, from, streams))
    }

    fn next_message(&mut self, operation: &mut Operation<'_>) -> Option<TaskId> {
        let task = operation.peek_send(self.slot)?;
        if !self.peer_has_begun {
            let ahead = self.ahead + operation.bytes(task) as u64;
            if ahead > AHEAD {
                return None;
            }
            self.ahead = ahead;
        }
        operation.next_send(self.slot)
    }
}

impl<'w, 'b> Work<'w, 'b> {
    /// Returns no operation, where none may run; `none` is an empty window.
    pub fn none(peer: NodeId, none: &'w mut Window, last: u32) -> Self {
        Self { peer, flights: none, operations: &mut [], last }
    }

    /// Returns the place of an operation in the window.
    fn place(&self, sequence: u32) -> Option<usize> {
        let ahead = sequence.checked_sub(self.flights.front()?.sequence)? as usize;
        (ahead < self.operations.len()).then_some(ahead)
    }

    /// Returns an operation in flight, whether it has failed or not.
    pub fn operation(&mut self, sequence: u32) -> Option<&mut Operation<'b>> {
        self.place(sequence).map(|place| &mut self.operations[place])
    }

    /// Returns whether an operation is in flight and has not failed.
    pub fn runs(&self, sequence: u32) -> bool {
        self.place(sequence).is_some_and(|place| self.flights[place].failure.is_none())
    }

    /// Returns an operation that runs, and the peer that this one is in its program; `None` if it is none of its peers.
    pub fn with_peer(&mut self, sequence: u32) -> Option<(&mut Operation<'b>, PeerId)> {
        let place = self.place(sequence).filter(|&place| self.flights[place].failure.is_none())?;
        let slot = self.flights[place].pairings[self.peer].as_ref()?.slot;
        Some((&mut self.operations[place], slot))
    }

    /// Returns the next part to send to the peer, and the number of its operation.
    pub fn next_part(&mut self, streams: usize) -> Option<(u32, Part)> {
        let mut are_done = true;
        for (flight, operation) in self.flights.iter_mut().zip(self.operations.iter_mut()) {
            let may_send = flight.failure.is_none() && (are_done || !flight.waits);
            if may_send
                && let Some(pairing) = &mut flight.pairings[self.peer]
                && let Some(part) = pairing.next_part(operation, streams)
            {
                return Some((flight.sequence, part));
            }
            are_done &= operation.done();
        }
        None
    }

    /// Notes that a part has left, which ends its message's task if it was the last.
    pub fn has_left(&mut self, sequence: u32, part: Part) {
        let Some(place) = self.place(sequence) else { return };
        if self.flights[place].pairings[self.peer].as_mut().is_some_and(|pairing| pairing.parts.end(part)) {
            self.operations[place].end(part.task);
        }
    }

    /// Returns whether the peer has begun an operation.
    pub fn peer_has_begun(&self, sequence: u32) -> bool {
        let pairing = self.place(sequence).and_then(|place| self.flights[place].pairings[self.peer].as_ref());
        pairing.is_some_and(|pairing| pairing.peer_has_begun)
    }

    /// Returns whether any operation that runs has still to send something to the peer, or to receive it.
    pub fn needs_peer(&self) -> bool {
        let mut both = self.flights.iter().zip(&*self.operations);
        both.any(|(flight, operation)| {
            let slot = flight.pairings[self.peer].as_ref().map(|pairing| pairing.slot);
            flight.failure.is_none() && slot.is_some_and(|slot| operation.needs(slot))
        })
    }
}
