//! An accelerator: its links, and what works with what comes in: the requests of in-network plans or software's
//! messages.

use super::super::machine::{Wire, whole_cycles};
use super::super::wires::{NEVER, WireId};
use super::packet::Packet;
use super::port::Ports;
use super::reduction::Reduction;
use super::software::Software;
use super::{Setup, Shared};
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
    pub fn new(rank: NodeId, incoming: &[(WireId, Wire)], outgoing: &[(WireId, Wire)], setup: &Setup) -> Self {
        let work = if setup.in_network() {
            Work::Reduction(Box::new(Reduction::new(rank, setup)))
        } else {
            Work::Software(Software::new(rank, outgoing.len()))
        };
        Self {
            incoming: incoming.iter().map(|&(id, wire)| Incoming { id, wire }).collect(),
            ports: Ports::new(outgoing, &setup.parameters),
            work,
        }
    }

    /// Works through the cycles from `from` on and before `horizon`; says in which there may be something to do next.
    pub fn advance(&mut self, from: u64, horizon: u64, shared: &mut Shared) -> u64 {
        let mut next = NEVER;
        for number in 0..self.incoming.len() {
            let Incoming { id, wire } = self.incoming[number];
            while shared.wires.flits[id].due() < horizon {
                let (at, packet) = shared.wires.flits[id].take_whole();
                let end = at + whole_cycles(u64::from(packet.flits) * wire.flit);
                shared.wires.give_back_whole(id, end - 1 + wire.credit_delay, packet.channel, packet.flits);
                shared.stats.arrived(&packet, end);
                self.take(packet, end, shared);
            }
            next = next.min(shared.wires.flits[id].due());
        }
        match &mut self.work {
            Work::Reduction(reduction) => reduction.issue(from, &mut self.ports, shared),
            Work::Software(software) => software.issue(from, &mut self.ports, shared),
        }
        next = next.min(self.ports.run(from, horizon, shared));
        let goes_on = match &self.work {
            Work::Reduction(reduction) => reduction.goes_on(&self.ports, shared.setup),
            Work::Software(software) => software.goes_on(&self.ports, shared.setup),
        };
        if goes_on { next.min(horizon) } else { next }
    }

    /// A packet has arrived.
    fn take(&mut self, packet: Packet, now: u64, shared: &mut Shared) {
        match &mut self.work {
            Work::Reduction(reduction) => reduction.take(packet, now, &mut self.ports, shared),
            Work::Software(software) => software.take(packet, now, &mut self.ports, shared),
        }
    }

    /// Time in which each wire was taken, in parts of a cycle.
    pub fn busy(&self) -> impl Iterator<Item = u64> {
        self.ports.busy()
    }

    /// What it still waits for.
    pub fn waits(&self, setup: &Setup) -> Option<String> {
        match &self.work {
            Work::Reduction(reduction) => reduction.waits(setup),
            Work::Software(software) => software.waits(),
        }
    }
}
