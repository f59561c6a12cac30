//! Where packets come into a switch, and where they leave it.

use std::collections::VecDeque;

use crate::sim::packet::in_network::packet::Packet;
use crate::sim::packet::in_network::parameters::Parameters;
use crate::sim::packet::in_network::port::{LinkEnd, Sender};
use crate::sim::packet::in_network::retry::Receiver;
use crate::sim::packet::machine::OutputId;
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
    /// By virtual channel.
    pub queues: Vec<VecDeque<Waiting>>,
    /// Where the first packet of each queue still has to go; empty before that is decided.
    pub targets: Vec<Vec<Target>>,
    /// When it has sent what crosses.
    pub crossing_until: u64,
}

/// Where a packet goes from an input, and as what.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    /// The packet goes to an output.
    Output { output: OutputId, packet: Packet },
    /// The packet goes into the table of a port.
    Table { port: OutputId, packet: Packet },
}

impl Input {
    /// Makes the input behind a table.
    pub fn of_table(parameters: &Parameters) -> Self {
        let channels = parameters.channels;
        let queues = std::iter::repeat_with(VecDeque::new).take(channels).collect();
        Self { due: NEVER, queues, targets: vec![Vec::new(); channels], ..Self::default() }
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

/// A link out, and the queues before it.
#[derive(Debug)]
pub(super) struct Output {
    pub sender: Sender,
    /// By virtual channel.
    pub queues: Vec<VecDeque<Queued>>,
    /// Flits for which each queue has room.
    pub room: Vec<u32>,
    pub crossing_until: u64,
}

impl Output {
    /// Makes the output at the beginning of a link.
    pub fn new(link: &LinkEnd, parameters: &Parameters) -> Self {
        Self {
            sender: Sender::new(*link, parameters),
            queues: vec![VecDeque::new(); parameters.channels],
            room: vec![parameters.queue_flits; parameters.channels],
            crossing_until: 0,
        }
    }
}
