//! Streams that broke are made again: the end that has called the other one calls again and again.
//!
//! A new stream carries no message before a fence has come at the other end over all others. So whatever was told over
//! those, before it was there, has come before its first message, and control messages keep their order.

use std::time::Instant;

use super::Mesh;
use super::proof::Claim;
use super::redial::PATIENCE;
use super::secure::Line;
use crate::ids::NodeId;

/// The greeting of a stream that takes the place of a broken one.
pub const REPAIR: [u8; 8] = *b"treemend";

/// One of the streams to a rank.
pub type Place = (NodeId, usize);

impl Mesh {
    /// Takes the next steps towards connections and streams in the places of those that were lost.
    pub(super) fn mend(&mut self, now: Instant) {
        let (broken, is_cut_off) = (self.broken(), self.is_cut_off());
        if broken.is_empty() {
            self.repairs.give_up();
        }
        if !is_cut_off {
            self.reunions.dialling.give_up();
        }
        if broken.is_empty() && !is_cut_off {
            // Nobody is awaited, so whoever calls is a stranger or late.
            self.callers.clear();
            return;
        }
        self.hear(&[]);
        if is_cut_off {
            self.reunite(now);
        }
        self.repair(&broken, now);
    }

    /// Returns the streams that are broken, and whose places are free.
    fn broken(&self) -> Vec<Place> {
        let connections = NodeId::first(self.connections.len()).zip(&self.connections);
        let places = connections.filter_map(|(rank, connection)| Some((rank, connection.as_ref()?)));
        places.flat_map(|(rank, connection)| connection.broken().map(move |number| (rank, number))).collect()
    }

    /// Returns whether this stream is broken, and its place is free.
    pub(super) fn is_broken(&self, (rank, number): Place) -> bool {
        self.connections[rank].as_ref().is_some_and(|connection| connection.broken().any(|other| other == number))
    }

    fn repair(&mut self, broken: &[Place], now: Instant) {
        self.call_for(broken, now);
        for (place, lines) in self.repairs.answered() {
            lines.into_iter().for_each(|line| self.replace(place, line));
        }
        let is_repair = |claim: Claim| claim.greeting == REPAIR;
        let callers: Vec<_> = self.callers.extract_if(.., |caller| caller.claim.is_some_and(is_repair)).collect();
        for caller in callers {
            if let Some(Claim { rank, stream, .. }) = caller.claim {
                self.replace((rank, stream), caller.into_line());
            }
        }
    }

    /// Calls the ranks that this one has called before.
    fn call_for(&mut self, broken: &[Place], now: Instant) {
        for &place in broken {
            let (rank, number) = place;
            let address = self.reunions.calls.iter().find(|&&(other, _)| other == rank).map(|&(_, address)| address);
            if let (Some(address), true) = (address, self.repairs.is_due(place, now)) {
                let claim = Claim { greeting: REPAIR, rank: self.rank, stream: number, streams: number + 1 };
                let calling = self.call_with(vec![claim], rank, address, now + PATIENCE, now + PATIENCE);
                self.repairs.begin(place, calling, now);
            }
        }
    }

    /// Puts a new stream in the place of a broken one. What cannot be set up is called for again.
    fn replace(&mut self, (rank, number): Place, line: Line) {
        let set_up = self.set_up_stream(rank, number, line, self.reunions.dead_after);
        if let (Ok(stream), Some(connection)) = (set_up, &mut self.connections[rank]) {
            connection.replace(number, stream);
        }
    }
}
