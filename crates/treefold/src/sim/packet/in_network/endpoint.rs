//! An accelerator: its links, and what works with what comes in: the requests of in-network plans or software's
//! messages.

use super::super::machine::whole_cycles;
use super::super::wires::NEVER;
use super::packet::Packet;
use super::port::{LinkEnd, Ports, Sender};
use super::reduction::Reduction;
use super::retry::Receiver;
use super::software::Software;
use super::{Setup, Shared};
use crate::topology::NodeId;

/// What an accelerator works with.
#[derive(Debug)]
enum Work {
    Reduction(Box<Reduction>),
    Software(Software),
}

/// An accelerator at work.
#[derive(Debug)]
pub struct Endpoint {
    incoming: Vec<LinkEnd>,
    /// Beside the links in: what drops packets that arrive corrupt, if any do.
    receivers: Vec<Option<Receiver>>,
    ports: Ports,
    work: Work,
}

impl Endpoint {
    /// Makes a rank with these links in and out.
    pub fn new(rank: NodeId, incoming: &[LinkEnd], outgoing: &[LinkEnd], setup: &Setup) -> Self {
        let work = if setup.in_network() {
            Work::Reduction(Box::new(Reduction::new(rank, setup)))
        } else {
            Work::Software(Software::new(rank, outgoing.len()))
        };
        let receivers = incoming.iter().map(|&link| Receiver::new(link, &setup.parameters)).collect();
        Self { incoming: incoming.to_vec(), receivers, ports: Ports::new(outgoing, &setup.parameters), work }
    }

    /// Works through the cycles from `from` on and before `horizon`; says in which there may be something to do next.
    pub fn advance(&mut self, from: u64, horizon: u64, shared: &mut Shared) -> u64 {
        let mut next = NEVER;
        for number in 0..self.incoming.len() {
            let LinkEnd { id, wire } = self.incoming[number];
            while shared.wires.flits[id].due() < horizon {
                let (at, packet) = shared.wires.flits[id].take_whole();
                let end = at + whole_cycles(u64::from(packet.flits) * wire.flit);
                let receiver = self.receivers[number].as_mut();
                if !receiver.is_none_or(|receiver| receiver.keeps(&packet, end, shared.wires)) {
                    continue;
                }
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

    /// Takes in a packet that has arrived.
    fn take(&mut self, packet: Packet, now: u64, shared: &mut Shared) {
        match &mut self.work {
            Work::Reduction(reduction) => reduction.take(packet, now, &mut self.ports, shared),
            Work::Software(software) => software.take(packet, now, &mut self.ports, shared),
        }
    }

    /// Lists the near ends of the links out.
    pub fn senders(&self) -> impl Iterator<Item = &Sender> {
        self.ports.senders()
    }

    /// Lists the far ends of the links in, where packets arrive corrupt.
    pub fn receivers(&self) -> impl Iterator<Item = &Receiver> {
        self.receivers.iter().flatten()
    }

    /// Says what it still waits for.
    pub fn waits(&self, setup: &Setup) -> Option<String> {
        match &self.work {
            Work::Reduction(reduction) => reduction.waits(setup),
            Work::Software(software) => software.waits(),
        }
    }
}
