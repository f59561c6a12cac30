//! Where packets come into a switch, and where they leave it.

use std::collections::VecDeque;

use crate::sim::packet::in_network::packet::{Hop, Packet};
use crate::sim::packet::in_network::parameters::Parameters;
use crate::sim::packet::in_network::port::{LinkEnd, Sender};
use crate::sim::packet::in_network::retry::Receiver;
use crate::sim::packet::machine::{Occupancy, OutputId};
use crate::sim::packet::wires::{NEVER, WireId};

/// A packet at an input.
#[derive(Debug)]
pub(super) struct Waiting {
    /// When its head is here.
    pub at: u64,
    /// When all of it is here.
    pub end: u64,
    pub packet: Packet,
    /// Whether it had to wait for an entry of a table.
    pub stalled: bool,
}

/// A place where packets come in: a link, or a table's way back into the switch.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// Its wire, unless it is a table's.
    pub wire: Option<WireId>,
    pub credit_delay: u64,
    /// Drops what arrives corrupt, if anything does.
    pub receiver: Option<Receiver>,
    /// Time of a flit on the link, in parts of a cycle.
    pub flit: u64,
    pub due: u64,
    /// From when on a packet can be routed, or waits for an entry.
    pub ready: u64,
    /// The packets that wait in each virtual channel.
    pub queues: Vec<VecDeque<Waiting>>,
}

/// Where a packet goes from an input, and as what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub port: OutputId,
    /// Whether it goes into the port's table, rather than out of the port.
    pub table: bool,
    pub packet: Packet,
}

impl Target {
    /// Makes the target of a packet that goes on over a link.
    pub fn output(hop: Hop, packet: Packet) -> Self {
        Self { port: hop.output, table: false, packet: packet.onto(hop) }
    }

    /// Makes the target of a packet that goes into a port's table.
    pub fn table(port: OutputId, packet: Packet) -> Self {
        Self { port, table: true, packet }
    }
}

/// A packet, or a copy of one, that waits to cross to its port.
#[derive(Debug)]
pub(super) struct Pending {
    /// The moment since which it waits.
    pub since: u64,
    /// When all of it is here.
    pub end: u64,
    /// The buffer that it came into.
    pub held: u32,
    pub target: Target,
}

/// A buffer at an input, with a packet of which copies still have to cross.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buffer {
    pub input: u32,
    pub channel: u8,
    pub flits: u32,
    /// How many have to cross, and one more until all are known.
    left: u32,
}

/// The buffers of packets that wait to cross.
#[derive(Debug, Default)]
pub(super) struct Held {
    buffers: Vec<Buffer>,
    free: Vec<u32>,
}

impl Held {
    /// Holds a buffer until so many copies have crossed, and once more; returns its number.
    pub fn hold(&mut self, input: usize, channel: u8, flits: u32, copies: usize) -> u32 {
        let buffer = Buffer { input: input as u32, channel, flits, left: copies as u32 + 1 };
        if let Some(free) = self.free.pop() {
            self.buffers[free as usize] = buffer;
            return free;
        }
        self.buffers.push(buffer);
        self.buffers.len() as u32 - 1
    }

    /// Takes off one copy; returns the buffer if that was the last.
    pub fn release(&mut self, number: u32) -> Option<Buffer> {
        let buffer = &mut self.buffers[number as usize];
        buffer.left -= 1;
        if buffer.left > 0 {
            return None;
        }
        self.free.push(number);
        Some(*buffer)
    }
}

impl Input {
    /// Makes the input behind a table.
    pub fn of_table(parameters: &Parameters) -> Self {
        let queues = std::iter::repeat_with(VecDeque::new).take(parameters.channels).collect();
        Self { due: NEVER, ready: NEVER, queues, ..Self::default() }
    }

    /// Lets a packet wait until it is routed.
    pub fn wait(&mut self, channel: usize, waiting: Waiting) {
        self.ready = self.ready.min(waiting.at);
        self.queues[channel].push_back(waiting);
    }

    /// Makes the input at the end of a link.
    pub fn of_link(link: &LinkEnd, parameters: &Parameters) -> Self {
        Self {
            wire: Some(link.id),
            credit_delay: link.wire.credit_delay,
            receiver: Receiver::new(*link, parameters),
            flit: link.wire.flit,
            ..Self::of_table(parameters)
        }
    }
}

/// A packet at an output.
#[derive(Debug, Clone)]
pub(super) struct Queued {
    /// From when on it can be sent.
    pub ready: u64,
    pub packet: Packet,
}

/// A link out, its table, and the queues before them.
#[derive(Debug)]
pub(super) struct Output {
    pub sender: Sender,
    /// What waits to cross, in the order in which it came: by virtual channel, and last what goes into the table.
    pub lists: Vec<VecDeque<Pending>>,
    /// How many wait to cross.
    pub pending: usize,
    /// The packets that each virtual channel has queued.
    pub queues: Vec<VecDeque<Queued>>,
    /// How many are in the queues.
    pub queued: usize,
    /// Flits for which each queue has room.
    pub room: Vec<u32>,
    /// The way into the queues and the table, which they share.
    pub crossing: Occupancy,
}

impl Output {
    /// Makes the output at the beginning of a link.
    pub fn new(link: &LinkEnd, parameters: &Parameters) -> Self {
        Self {
            sender: Sender::new(*link, parameters),
            lists: std::iter::repeat_with(VecDeque::new).take(parameters.channels + 1).collect(),
            pending: 0,
            queues: vec![VecDeque::new(); parameters.channels],
            queued: 0,
            room: vec![parameters.queue_flits; parameters.channels],
            crossing: Occupancy::default(),
        }
    }

    /// Lets a packet wait until it may cross.
    pub fn expect(&mut self, pending: Pending) {
        let table = self.queues.len();
        let list = if pending.target.table { table } else { pending.target.packet.channel.into() };
        self.lists[list].push_back(pending);
        self.pending += 1;
    }
}
