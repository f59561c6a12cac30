//! A packet of the memory fabric.

/// No edge, no route: above a root, at a root.
pub const NONE: u32 = u32::MAX;
/// The line of the flag that a barrier reduces.
pub const FLAG: u32 = u32::MAX;

/// An address: tree and line, or message and packet.
pub type Key = (u32, u32);

/// A link of a route: its output, and the level of its virtual channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    pub output: u32,
    pub level: u8,
}

/// What a packet asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Push: adds an operand to an address.
    Operand,
    /// Pull: asks all others for their operands; a multicast.
    Pull,
    /// An operand, or a partial sum of operands, that was asked for.
    Answer,
    /// A partial sum that was evicted from its table, to the home accelerator.
    Partial,
    /// The home accelerator's sum of partial sums, to the home switch.
    Whole,
    /// The sum, or what a rank gives to all; a multicast write.
    Result,
    /// Software: a write of data.
    Data,
    /// Software: the data before it is there.
    Flag,
    /// A write was done, by all below.
    Ack,
}

/// Operands that were reduced to one: values in integers, so that a lost or doubled one shows, and in floating point,
/// whose sum depends on the order.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Operand {
    /// How many.
    pub count: u32,
    /// Their sum, modulo 2^64.
    pub sum: u64,
    /// Their sum in the order in which they came.
    pub real: f32,
}

impl Operand {
    /// Adds another.
    pub fn add(&mut self, other: Self) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.real += other.real;
    }
}

/// A packet.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    /// What it asks for.
    pub op: Op,
    /// Whether it uses the virtual channels of responses.
    pub response: bool,
    /// Its virtual channel on the link that it uses: twice the level, and one more for responses.
    pub channel: u8,
    /// How many links of its route it has used.
    pub hop: u16,
    /// Header and payload.
    pub flits: u32,
    /// Its route: a row.
    pub route: u32,
    /// The edge of its tree to which the route belongs.
    pub edge: u32,
    /// Its address.
    pub key: Key,
    /// Its operands.
    pub operand: Operand,
    /// The cycle in which it was ready to be sent.
    pub born: u64,
}

impl Packet {
    /// It on the next link of its route.
    pub fn onto(self, hop: Hop) -> Self {
        Self { hop: self.hop + 1, channel: 2 * hop.level + u8::from(self.response), ..self }
    }

    /// A packet over the route of an edge, if it is of a tree.
    pub fn new(op: Op, (edge, route): (u32, u32), key: Key, flits: u32) -> Self {
        Self { op, response: false, channel: 0, hop: 0, flits, route, edge, key, operand: Operand::default(), born: 0 }
    }
}
