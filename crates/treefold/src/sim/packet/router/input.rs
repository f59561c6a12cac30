//! Where flits come into a node.

use crate::sim::packet::machine::OutputId;
use crate::sim::packet::wires::{NEVER, WireId};

/// The grant that an input accepts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Accepted {
    pub output: OutputId,
    /// Virtual channel of the input's buffer.
    pub channel: u32,
}

/// Where flits come in: a link, or an interface.
#[derive(Debug)]
pub struct Input {
    pub wire: WireId,
    pub(super) credit_delay: u64,
    /// The output of this node that feeds it: an interface's way in.
    pub(super) fed_by: Option<OutputId>,
    /// When the next flit arrives.
    pub due: u64,
    /// Buffers that have flits and a channel for them, as bits.
    pub(in crate::sim::packet) ready: u32,
    /// Which output, and which of its buffers, comes next.
    pub(super) turn: OutputId,
    pub(super) buffer_turn: u32,
    /// The best grant of this cycle, while the switch is allocated.
    pub(super) granted: Option<Accepted>,
}

impl Input {
    /// Makes an input at the end of a wire. A credit takes `credit_delay` cycles back, or none to the output `fed_by`
    /// of this node.
    pub fn new(wire: WireId, credit_delay: u64, fed_by: Option<OutputId>) -> Self {
        Self { wire, credit_delay, fed_by, due: NEVER, ready: 0, turn: OutputId(0), buffer_turn: 0, granted: None }
    }
}
