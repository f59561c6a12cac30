//! Streams that broke are made again: the end that has called the other one calls again and again.
//!
//! A new stream carries no message before a fence has come at the other end over all others. So whatever was told over
//! those, before it was there, has come before its first message, and control messages keep their order.

use std::time::{Duration, Instant};

use super::Mesh;
use super::callers::Caller;
use super::calls::Calling;
use super::proof::Claim;
use super::secure::Line;
use crate::ids::NodeId;

/// The greeting of a stream that takes the place of a broken one.
const REPAIR: [u8; 8] = *b"treemend";
/// How often a rank calls because of a broken stream.
const CALL_EVERY: Duration = Duration::from_secs(3);
/// How long it tries.
const PATIENCE: Duration = Duration::from_secs(5);

/// One of the streams to a rank.
type Place = (NodeId, usize);

/// What a rank needs to make broken streams again.
#[derive(Default)]
pub struct Repairs {
    /// When each was called for last.
    called: Vec<(Place, Instant)>,
    /// The calls that are not answered yet.
    calling: Vec<(Place, Calling)>,
    /// The callers that have not said who they are.
    callers: Vec<Caller>,
}

impl Mesh {
    /// Takes the next steps towards new streams in the places of broken ones.
    pub(super) fn repair(&mut self, now: Instant) {
        let connections = NodeId::first(self.connections.len()).zip(&self.connections);
        let places = connections.filter_map(|(rank, connection)| Some((rank, connection.as_ref()?)));
        let broken: Vec<Place> =
            places.flat_map(|(rank, connection)| connection.broken().map(move |number| (rank, number))).collect();
        if broken.is_empty() {
            return;
        }
        self.call_for(&broken, now);
        for (place, calling) in std::mem::take(&mut self.repairs.calling) {
            match calling.answered() {
                Some(Ok(lines)) => lines.into_iter().for_each(|line| self.replace(place, line)),
                Some(Err(_)) => {}
                None => self.repairs.calling.push((place, calling)),
            }
        }
        let mut callers = std::mem::take(&mut self.repairs.callers);
        for (place, line) in self.repairing(&mut callers, &broken) {
            self.replace(place, line);
        }
        self.repairs.callers = callers;
    }

    /// Calls the ranks that this one has called before, in threads, as that may take long.
    fn call_for(&mut self, broken: &[Place], now: Instant) {
        for &(rank, number) in broken {
            let address = self.reunions.calls.iter().find(|&&(other, _)| other == rank).map(|&(_, address)| address);
            let is_early = |&(place, at): &(Place, Instant)| place == (rank, number) && now - at < CALL_EVERY;
            let is_calling = self.repairs.calling.iter().any(|(place, _)| *place == (rank, number));
            let (Some(address), false) = (address, is_calling || self.repairs.called.iter().any(is_early)) else {
                continue;
            };
            let claim = Claim { greeting: REPAIR, rank: self.rank, stream: number, streams: number + 1 };
            let calling = self.call_with(vec![claim], rank, address, now + PATIENCE, now + PATIENCE);
            self.repairs.called.retain(|&(place, _)| place != (rank, number));
            self.repairs.called.push(((rank, number), now));
            self.repairs.calling.push(((rank, number), calling));
        }
    }

    /// Returns the streams with which other ranks have called for broken ones.
    fn repairing(&self, callers: &mut Vec<Caller>, broken: &[Place]) -> Vec<(Place, Line)> {
        let is_awaited = |claim: Claim| claim.greeting == REPAIR && broken.contains(&(claim.rank, claim.stream));
        self.hear(callers, &is_awaited);
        let proven = callers.extract_if(.., |caller| caller.claim.is_some());
        proven
            .filter_map(|caller| Some((caller.claim.map(|claim| (claim.rank, claim.stream))?, caller.into_line())))
            .collect()
    }

    /// Puts a new stream in the place of a broken one. What cannot be set up is called for again.
    fn replace(&mut self, (rank, number): Place, line: Line) {
        let set_up = self.set_up_stream(rank, number, line, self.reunions.dead_after);
        if let (Ok(stream), Some(connection)) = (set_up, &mut self.connections[rank]) {
            connection.replace(number, stream);
        }
    }
}
