//! Where flits leave a node.

use crate::sim::packet::machine::{CYCLE, InputId, Occupancy, Wire};
use crate::sim::packet::options::MAX_VIRTUAL_CHANNELS;
use crate::sim::packet::wires::{Head, NEVER, WireId, Wires};

/// An input's request to send a flit to an output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub input: InputId,
    /// Virtual channel of the input's buffer.
    pub channel: u32,
}

/// Where flits go out: a link, an interface of the accelerator, or (of the interface) into the router.
#[derive(Debug)]
pub struct Output {
    /// Its wire, unless it ends inside the node.
    pub(super) id: Option<WireId>,
    wire: Wire,
    pub credits: [u32; MAX_VIRTUAL_CHANNELS as usize],
    /// Virtual channels that a packet holds, as bits.
    pub taken: u32,
    /// Whether a packet that waits for a channel may find one that it did not find before.
    pub(super) changed: bool,
    /// The most flits for which a packet needs room in a channel.
    room: u32,
    /// Which buffer comes next for each virtual channel.
    pub(super) channel_turn: [u32; MAX_VIRTUAL_CHANNELS as usize],
    /// Which input comes next.
    pub(super) turn: InputId,
    /// When the next credit arrives.
    pub due: u64,
    pub occupancy: Occupancy,
    /// The best request of this cycle, while the switch is allocated.
    pub(super) asked: Option<Request>,
}

impl Output {
    /// Makes an output over `wire` that ends in buffers of `credits` flits.
    pub fn new(id: Option<WireId>, wire: Wire, credits: u32, room: u32) -> Self {
        Self {
            id,
            wire,
            credits: [credits; MAX_VIRTUAL_CHANNELS as usize],
            taken: 0,
            changed: false,
            room,
            channel_turn: [0; MAX_VIRTUAL_CHANNELS as usize],
            turn: InputId(0),
            occupancy: Occupancy::default(),
            due: NEVER,
            asked: None,
        }
    }

    /// Makes an ejection port, which ends in an interface of the accelerator; that takes whatever comes.
    pub fn ejection(wire: Wire) -> Self {
        Self::new(None, wire, u32::MAX, 0)
    }

    /// Says whether it takes a flit every cycle, so that flits can go in runs.
    pub fn is_regular(&self) -> bool {
        self.wire.flit == CYCLE && self.wire.overhead == 0
    }

    /// Sends `count` flits from cycle `now` on, one a cycle (more than one only if it is regular); says when the first
    /// arrives.
    #[inline(always)]
    pub fn send(&mut self, now: u64, channel: u8, head: Option<Head>, count: u32, wires: &mut Wires) -> u64 {
        let overhead = if head.is_some_and(|packet| packet.first) { self.wire.overhead } else { 0 };
        self.occupancy.take(now, overhead * CYCLE + u64::from(count) * self.wire.flit);
        let at = now + self.wire.delay + overhead;
        if let Some(id) = self.id {
            self.credits[usize::from(channel)] -= count;
            wires.send(id, at, channel, head, count);
        }
        at
    }

    /// Frees the virtual channel that a packet held.
    pub fn release(&mut self, channel: u8) {
        self.taken &= !(1 << channel);
        self.changed = true;
    }

    /// Takes the credits that are due; says whether there were any.
    #[inline(always)]
    pub fn take_credits(&mut self, now: u64, wires: &mut Wires) -> bool {
        let any = self.due <= now;
        while self.due <= now {
            let credits = &mut wires.credits[self.id.expect("credits come over a wire")];
            let (channel, count) = credits.take(now);
            let held = &mut self.credits[usize::from(channel)];
            self.changed |= *held < self.room && self.taken >> channel & 1 == 0;
            *held += count;
            self.due = credits.due();
        }
        any
    }
}
