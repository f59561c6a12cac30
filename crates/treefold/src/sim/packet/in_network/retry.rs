//! Link-level retry: packets that arrive corrupt, or twice, are dropped, and the sender sends again what nobody has
//! acknowledged (in-network paper, section IV-E3).
//!
//! Go-back-N, which the paper leaves open. The sender numbers its packets and keeps each until it is acknowledged;
//! there are never more of them than the receiver's buffers have credits for. The receiver takes the packet whose
//! number is next, drops all others, and acknowledges all before the next one. The time for an acknowledgement is
//! known, so a packet without one is overdue soon after: it and all behind it are sent once more. A packet is found
//! corrupt within the latency of the switch that it enters. Acknowledgements take no bandwidth, as credits do not, and
//! get lost like packets. Cost: a few steps a packet and link; without errors nothing is made.

use std::collections::VecDeque;

use super::super::levels::Level;
use super::super::machine::{CYCLE, Occupancy, whole_cycles};
use super::super::wires::{Ack, NEVER, Wires};
use super::mixed;
use super::packet::Packet;
use super::parameters::Parameters;
use super::port::LinkEnd;
use crate::random::unit;

/// Makes the errors of packets other random numbers than those of acknowledgements.
const PACKETS: u64 = 0x51ed_270b_35a1_7c3d;
const ACKS: u64 = 0xa24b_aed4_963e_e407;
/// The most packets under way: a number that came before is never taken for one to come.
const WINDOW: usize = 1 << 15;

/// What is corrupt at one end of a link: one in so many, drawn for each number.
#[derive(Debug, Clone, Copy)]
struct Errors {
    rate: f64,
    seed: u64,
    link: u32,
    /// How many things have arrived.
    arrived: u64,
}

impl Errors {
    fn new(link: LinkEnd, salt: u64, parameters: &Parameters) -> Self {
        let fabric = &parameters.fabric;
        Self { rate: fabric.error_rate, seed: fabric.seed ^ salt, link: link.id.0, arrived: 0 }
    }

    /// Says whether what arrives now is corrupt.
    fn hit(&mut self) -> bool {
        self.arrived += 1;
        unit(mixed(self.seed, self.link, self.arrived)) < self.rate
    }
}

/// The far end of a link.
#[derive(Debug)]
pub struct Receiver {
    link: LinkEnd,
    errors: Errors,
    /// The number of the packet that comes next.
    next: u16,
    /// Packets that came once more.
    pub duplicates: u64,
}

impl Receiver {
    /// Makes the far end of a link, on which nothing has come; `None` if there are no errors.
    pub fn new(link: LinkEnd, parameters: &Parameters) -> Option<Self> {
        let errors = Errors::new(link, PACKETS, parameters);
        (errors.rate > 0.0).then_some(Self { link, errors, next: 0, duplicates: 0 })
    }

    /// Says whether to keep a packet, of which all is here at cycle `end`.
    pub fn keeps(&mut self, packet: &Packet, end: u64, wires: &mut Wires<Packet>) -> bool {
        if self.errors.hit() {
            return false;
        }
        let is_next = packet.sequence == self.next;
        if is_next {
            self.next = self.next.wrapping_add(1);
        } else if usize::from(self.next.wrapping_sub(packet.sequence)) <= WINDOW {
            self.duplicates += 1;
        }
        wires.acknowledge(self.link.id, end + self.link.wire.credit_delay, self.next);
        is_next
    }
}

/// A packet that is kept until it is acknowledged.
#[derive(Debug)]
struct Kept {
    packet: Packet,
    /// When its acknowledgement is overdue; `None` before it was sent.
    overdue: Option<u64>,
}

/// The near end of a link.
#[derive(Debug)]
pub struct Retry {
    link: LinkEnd,
    errors: Errors,
    /// The oldest first.
    kept: VecDeque<Kept>,
    /// The number of the oldest, or of the next if there is none.
    oldest: u16,
    /// How many of them were sent since it last went back.
    under_way: usize,
    /// The cycle up to which all is done.
    now: u64,
    pub occupancy: Occupancy,
    /// The packets on the wire: one, or none; only if it is sampled.
    pub taken: Option<Box<Level>>,
    /// Cycles that an acknowledgement may be late: behind a lost one, the next one serves for both.
    patience: u64,
    /// How often in a row it went back to the same packet, and how often it may.
    tries: u32,
    retries: u32,
    /// Packets that were sent once more.
    pub retransmissions: u64,
    /// When it gave up.
    pub broken: Option<u64>,
}

impl Retry {
    /// Makes the near end of a link, on which nothing was sent; `None` if there are no errors.
    pub fn new(link: LinkEnd, parameters: &Parameters) -> Option<Self> {
        let errors = Errors::new(link, ACKS, parameters);
        (errors.rate > 0.0).then(|| Self {
            link,
            errors,
            kept: VecDeque::new(),
            oldest: 0,
            under_way: 0,
            now: 0,
            occupancy: Occupancy::default(),
            taken: parameters.samples.then(Box::default),
            patience: whole_cycles(u64::from(parameters.packet_flits) * link.wire.flit) + 1,
            tries: 0,
            retries: parameters.fabric.retries,
            retransmissions: 0,
            broken: None,
        })
    }

    /// Sends a packet in cycle `now`, or as soon as what goes before it was sent.
    pub fn send(&mut self, now: u64, packet: Packet, wires: &mut Wires<Packet>) {
        self.advance(now, wires);
        self.now = now;
        let sequence = self.oldest.wrapping_add(self.kept.len() as u16);
        self.kept.push_back(Kept { packet: Packet { sequence, ..packet }, overdue: None });
        self.advance(now + 1, wires);
    }

    /// Does what is to do before cycle `until`; says when there may be more.
    pub fn advance(&mut self, until: u64, wires: &mut Wires<Packet>) -> u64 {
        while self.broken.is_none() {
            let acked = wires.acks[self.link.id].front().map_or(NEVER, |ack| ack.at);
            let overdue = self.kept.front().filter(|_| self.under_way > 0).and_then(|kept| kept.overdue);
            let overdue = overdue.unwrap_or(NEVER);
            let waits = self.under_way < self.kept.len().min(WINDOW);
            let free = if waits { self.occupancy.free_from().max(self.now) } else { NEVER };
            let at = acked.min(overdue).min(free);
            if at >= until {
                return at;
            }
            self.now = self.now.max(at);
            if acked == at {
                self.take_ack(wires);
            } else if overdue == at {
                self.go_back(at);
            } else {
                self.transmit(at, wires);
            }
        }
        NEVER
    }

    /// Takes in an acknowledgement: what it is for need not be kept.
    fn take_ack(&mut self, wires: &mut Wires<Packet>) {
        let Some(Ack { next, .. }) = wires.acks[self.link.id].pop_front() else { return };
        let count = usize::from(next.wrapping_sub(self.oldest));
        // One that was overtaken by another is for nothing that is still kept.
        if self.errors.hit() || count == 0 || count > self.kept.len() {
            return;
        }
        self.kept.drain(..count);
        self.oldest = next;
        self.under_way = self.under_way.saturating_sub(count);
        self.tries = 0;
    }

    /// Goes back to the oldest packet, or gives up.
    fn go_back(&mut self, at: u64) {
        self.under_way = 0;
        self.tries += 1;
        if self.tries > self.retries {
            self.broken = Some(at);
        }
    }

    /// Sends the next packet.
    fn transmit(&mut self, now: u64, wires: &mut Wires<Packet>) {
        let (wire, kept) = (self.link.wire, &mut self.kept[self.under_way]);
        let (packet, parts) = (kept.packet, u64::from(kept.packet.flits) * wire.flit);
        self.retransmissions += u64::from(kept.overdue.is_some());
        let way = wire.delay + whole_cycles(parts) + wire.credit_delay;
        kept.overdue = Some(now + way + self.patience);
        self.under_way += 1;
        let parts = wire.overhead * CYCLE + parts;
        self.occupancy.take(now, parts);
        if let Some(taken) = &mut self.taken {
            taken.add_span(self.occupancy.last_taken(parts));
        }
        wires.send(self.link.id, now + wire.delay, packet.channel, Some(packet), packet.flits);
    }
}
