//! A packet of the memory fabric.

/// What it asks for.
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
    /// The sum; a multicast write.
    Result,
    /// A multicast write was done, by all below.
    Ack,
}

/// Operands that were reduced to one: values in integers, so that a lost or doubled one shows, and in floating point, whose sum depends on
/// the order.
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
pub struct Parcel {
    /// What it asks for.
    pub op: Op,
    /// Whether it uses the virtual channels of responses.
    pub response: bool,
    /// How many links of its way it has used.
    pub hop: u8,
    /// Header and payload.
    pub flits: u32,
    /// Its way: a row.
    pub way: u32,
    /// The edge of its tree to which the way belongs.
    pub edge: u32,
    /// Its tree.
    pub tree: u32,
    /// The line of the tree's span.
    pub line: u32,
    /// Its operands.
    pub operand: Operand,
    /// The cycle in which it was ready to be sent.
    pub born: u64,
}
