//! An accelerator: its links, and what works with what comes in: the requests of in-network plans or software's messages.

use super::super::machine::{Wire, whole_cycles};
use super::super::wires::{NEVER, WireId};
use super::parcel::Parcel;
use super::port::Ports;
use super::reduction::Reduction;
use super::software::Software;
use super::{Facts, Shared};
use crate::topology::NodeId;

/// A link in.
#[derive(Debug, Clone, Copy)]
struct Incoming {
    id: WireId,
    wire: Wire,
}

/// What an accelerator does.
#[derive(Debug)]
enum Work {
    Reduction(Box<Reduction>),
    Software(Software),
}

/// An accelerator.
#[derive(Debug)]
pub struct Endpoint {
    incoming: Vec<Incoming>,
    ports: Ports,
    work: Work,
}

impl Endpoint {
    /// A rank with these links in and out (number, wire).
    pub fn new(rank: NodeId, incoming: &[(WireId, Wire)], outgoing: &[(WireId, Wire)], facts: &Facts) -> Self {
        let work = if facts.in_network() {
            Work::Reduction(Box::new(Reduction::new(rank, facts)))
        } else {
            Work::Software(Software::new(rank, outgoing.len()))
        };
        Self {
            incoming: incoming.iter().map(|&(id, wire)| Incoming { id, wire }).collect(),
            ports: Ports::new(outgoing, &facts.sizes),
            work,
        }
    }

    /// Works through the cycles from `from` on and before `horizon`; says in which there may be something to do next.
    pub fn advance(&mut self, from: u64, horizon: u64, shared: &mut Shared) -> u64 {
        let mut next = NEVER;
        for number in 0..self.incoming.len() {
            let Incoming { id, wire } = self.incoming[number];
            while shared.wires.flits[id].due() < horizon {
                let (at, parcel) = shared.wires.flits[id].take_whole();
                let end = at + whole_cycles(u64::from(parcel.flits) * wire.flit);
                shared.wires.give_back_whole(id, end - 1 + wire.credit_delay, parcel.channel, parcel.flits);
                shared.seen.arrived(&parcel, end);
                self.take(parcel, end, shared);
            }
            next = next.min(shared.wires.flits[id].due());
        }
        match &mut self.work {
            Work::Reduction(reduction) => reduction.issue(from, &mut self.ports, shared),
            Work::Software(software) => software.issue(from, &mut self.ports, shared),
        }
        next = next.min(self.ports.run(from, horizon, shared));
        let goes_on = match &self.work {
            Work::Reduction(reduction) => reduction.goes_on(&self.ports, shared.facts),
            Work::Software(software) => software.goes_on(&self.ports, shared.facts),
        };
        if goes_on { next.min(horizon) } else { next }
    }

    /// A packet has arrived.
    fn take(&mut self, parcel: Parcel, now: u64, shared: &mut Shared) {
        match &mut self.work {
            Work::Reduction(reduction) => reduction.take(parcel, now, &mut self.ports, shared),
            Work::Software(software) => software.take(parcel, now, &mut self.ports, shared),
        }
    }

    /// Time in which each wire was taken, in parts of a cycle.
    pub fn busy(&self) -> impl Iterator<Item = u64> {
        self.ports.busy()
    }

    /// What it still waits for.
    pub fn waits(&self, facts: &Facts) -> Option<String> {
        match &self.work {
            Work::Reduction(reduction) => reduction.waits(facts),
            Work::Software(software) => software.waits(),
        }
    }
}
