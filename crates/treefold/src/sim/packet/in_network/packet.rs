//! A packet of the memory fabric.

use std::fmt;
use std::hash::{Hash, Hasher};

use super::super::machine::OutputId;
use super::super::workload::MessageId;
use super::operand::Operand;
use crate::sim::numbers::numbers;

numbers! {
    /// An edge of a region, counted through all regions.
    EdgeId;
    /// A route through the fabric; the route of a lane has the lane's index.
    RouteId;
    /// A line of data, counted within its tree.
    LineId;
}

/// A line of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// A line of the vector.
    Data(LineId),
    /// The flag that a barrier reduces.
    Flag,
}

/// An address in the memory that ranks share: a line of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    pub tree: u32,
    pub line: Line,
}

impl Address {
    /// Makes the address of a tree's line of data.
    pub fn new(tree: u32, line: u32) -> Self {
        Self { tree, line: Line::Data(LineId::new(line)) }
    }

    /// Makes the address of the flag that a barrier reduces over a tree.
    pub fn flag(tree: u32) -> Self {
        Self { tree, line: Line::Flag }
    }

    /// Returns the number of its line, which holds data, among those of the tree.
    pub fn line(self) -> u32 {
        match self.line {
            Line::Data(line) => line.get(),
            Line::Flag => unreachable!("flags are not numbered"),
        }
    }

    /// Packs it into 64 bits; the flag comes after all lines.
    pub fn bits(self) -> u64 {
        let line = match self.line {
            Line::Data(line) => line.get(),
            Line::Flag => u32::MAX,
        };
        u64::from(self.tree) << 32 | u64::from(line)
    }
}

impl Hash for Address {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.bits());
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Line::Data(line) => write!(f, "line {} of tree {}", line.get(), self.tree),
            Line::Flag => write!(f, "the flag of tree {}", self.tree),
        }
    }
}

/// The subject of a packet.
#[derive(Debug, Clone, Copy)]
pub enum Subject {
    /// In-network plans: a line of a tree.
    Line(Address),
    /// Software: one of a message's packets; its flag comes after its data.
    Message { message: MessageId, packet: u32 },
}

impl Subject {
    /// Packs it into 64 bits.
    pub fn bits(self) -> u64 {
        match self {
            Self::Line(address) => address.bits(),
            Self::Message { message, packet } => u64::from(message) << 32 | u64::from(packet),
        }
    }
}

/// A link of a route: its output, and the level of its virtual channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    pub output: OutputId,
    pub level: u8,
}

/// The operation that a packet asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Push: the packet adds an operand to an address.
    Operand,
    /// Pull: the packet is multicast, and asks all other ranks for their operands.
    Pull,
    /// The packet carries an operand that was asked for, or a partial sum of such operands.
    Answer,
    /// The packet carries a partial sum, which was evicted from its table, to the home accelerator.
    Partial,
    /// The packet carries the home accelerator's sum of partial sums to the home switch.
    Whole,
    /// The packet is multicast, and writes the sum or what a rank gives to all.
    Result,
    /// Software: the packet writes data.
    Data,
    /// Software: the packet says that the data before it are there.
    Flag,
    /// The packet says that a write was done by all below.
    Ack,
    /// Push into one rank: the packet is multicast, and says that the sum is in the rank's memory.
    Done,
}

impl Op {
    /// Says whether it uses the virtual channels of responses. A multicast is a request, as any other write is
    /// (in-network paper, section IV-A).
    pub fn is_response(self) -> bool {
        matches!(self, Self::Answer | Self::Ack | Self::Done)
    }
}

/// A packet on its way through the fabric.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    /// What it asks for.
    pub op: Op,
    /// Its virtual channel on the link that it uses: twice the level, and one more for responses.
    pub channel: u8,
    /// How many links of its route it has used.
    pub hop: u16,
    /// Its number among the packets on the link that it uses, where some arrive corrupt.
    pub sequence: u16,
    /// Flits of header and payload.
    pub flits: u32,
    /// Its route; a sum that is at its root has none.
    pub route: Option<RouteId>,
    /// The edge of its tree to which the route belongs, if it does.
    pub edge: Option<EdgeId>,
    /// What it is about.
    pub subject: Subject,
    /// Its operands.
    pub operand: Operand,
    /// The cycle in which it was ready to be sent.
    pub born: u64,
}

impl Packet {
    /// Makes a packet over a route that belongs to no edge.
    pub fn new(op: Op, route: RouteId, subject: Subject, flits: u32) -> Self {
        let (route, operand) = (Some(route), Operand::default());
        let (channel, hop, sequence, born) = (0, 0, 0, 0);
        Self { op, channel, hop, sequence, flits, route, edge: None, subject, operand, born }
    }

    /// Returns the packet on the next link of its route.
    pub fn onto(self, hop: Hop) -> Self {
        Self { hop: self.hop + 1, channel: 2 * hop.level + u8::from(self.op.is_response()), ..self }
    }

    /// Returns the line of a tree that it is about.
    pub fn address(&self) -> Address {
        match self.subject {
            Subject::Line(address) => address,
            Subject::Message { .. } => unreachable!("software's packets belong to no tree"),
        }
    }

    /// Returns the edge over which it has come.
    pub fn came_over(&self) -> EdgeId {
        self.edge.expect("it came over an edge of its tree")
    }
}
const _: () = assert!(size_of::<Packet>() == 56 && size_of::<Address>() == 8 && size_of::<Option<EdgeId>>() == 4);
