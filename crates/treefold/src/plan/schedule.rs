//! A schedule: a plan lowered for one size, as a flat list of transfers with dependencies.
//!
//! Executor, event simulators and exporters walk this. Buffers: every rank has a main one for the whole
//! vector; a switch that takes part in a tree has one for its partial result, and a rank that must send
//! the same units in several trees of a phase while it receives them has a local copy.
//!
//! Transfers stand in an order that respects the dependencies; any other such order gives the same
//! result ([`super::check_schedule`] proves it).

use std::ops::Range;

use super::{Held, LaneRef, Plan};
use crate::topology::NodeId;

pub use super::lowering::{lower, lower_for, lower_in_chunks};

/// What a transfer does to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Adds to it (an empty switch buffer takes the first operand as it is).
    Reduce,
    /// Replaces it.
    Copy,
    /// Copies within a node, before anything overwrites the source.
    Local,
}

/// Compressed rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Csr<T> {
    /// Row `i` is `items[first[i]..first[i + 1]]`.
    pub first: Vec<u64>,
    /// All rows, one after the other.
    pub items: Vec<T>,
}

impl<T> Default for Csr<T> {
    fn default() -> Self {
        Self { first: vec![0], items: Vec::new() }
    }
}

impl<T> Csr<T> {
    /// Row `row`.
    pub fn row(&self, row: usize) -> &[T] {
        &self.items[self.first[row] as usize..self.first[row + 1] as usize]
    }

    /// Appends a row.
    pub fn push_row(&mut self, row: impl IntoIterator<Item = T>) {
        self.items.extend(row);
        self.first.push(self.items.len() as u64);
    }
}

/// Transfers of one collective on vectors of `elements` elements.
#[derive(Debug, Clone, Default)]
pub struct Schedule {
    /// Elements of each rank's vector.
    pub elements: u64,
    /// Node that holds each buffer; buffer `r` is rank r's vector.
    pub buffers: Vec<NodeId>,
    /// Lane of each transfer; `None` for local copies.
    pub lane: Vec<Option<LaneRef>>,
    /// Phase of each transfer.
    pub phase: Vec<u16>,
    /// Step of each transfer within its phase; 0 in streams.
    pub step: Vec<u16>,
    /// Tree of each transfer; the first of them where one carries parts of several. Local copies say 0.
    pub tree: Vec<u32>,
    /// Chunk of the tree's span that each transfer carries, from 0.
    pub chunk: Vec<u32>,
    /// What each transfer does.
    pub op: Vec<Op>,
    /// Buffer that each transfer reads.
    pub source: Vec<u32>,
    /// Buffer that each transfer writes.
    pub target: Vec<u32>,
    /// Elements of each transfer, the same in source and target. Where each rank
    /// is sent a block of its own, they are numbered through: element `e` of rank r's vector is `r * elements + e`.
    pub pieces: Csr<Range<u64>>,
    /// Transfers that must have ended before each transfer starts.
    pub dependencies: Csr<u32>,
}

impl Schedule {
    /// How many transfers there are.
    pub fn len(&self) -> usize {
        self.op.len()
    }

    /// Whether nothing is transferred.
    pub fn is_empty(&self) -> bool {
        self.op.is_empty()
    }

    /// The nodes between which transfer `id` moves.
    pub fn ends(&self, id: usize) -> [NodeId; 2] {
        [self.source[id], self.target[id]].map(|buffer| self.buffers[buffer as usize])
    }

    /// Elements that transfer `id` moves.
    pub fn elements_of(&self, id: usize) -> u64 {
        self.pieces.row(id).iter().map(|piece| piece.end - piece.start).sum()
    }
}

/// First element of unit `unit` when a vector of `elements` is cut into `units`: bytes always add up.
pub fn cut(elements: u64, units: u64, unit: u64) -> u64 {
    (u128::from(elements) * u128::from(unit) / u128::from(units)) as u64
}

/// The elements of rank `rank`'s block.
pub fn block(elements: u64, ranks: u32, rank: NodeId) -> Range<u64> {
    let at = |rank: u64| cut(elements, ranks.into(), rank);
    at(rank.into())..at(u64::from(rank) + 1)
}

/// The elements, numbered as in the schedule, that `rank` starts with.
pub fn input(plan: &Plan, elements: u64, rank: NodeId) -> Range<u64> {
    let held = held(plan, elements, rank, plan.collective.definition().before).unwrap_or(0..0);
    let first = if plan.collective.is_personalized() { u64::from(rank) * elements } else { 0 };
    first + held.start..first + held.end
}

/// The elements, numbered as in the schedule, that make up `rank`'s result.
pub fn output(plan: &Plan, elements: u64, rank: NodeId) -> Vec<Range<u64>> {
    let Some(held) = held(plan, elements, rank, plan.collective.definition().after) else { return Vec::new() };
    if !plan.collective.is_personalized() {
        return vec![held];
    }
    let from = |first: u64| first + held.start..first + held.end;
    plan.givers().map(|giver| from(u64::from(giver) * elements)).collect()
}

/// The elements of one vector that `rank` holds.
fn held(plan: &Plan, elements: u64, rank: NodeId, held: Held) -> Option<Range<u64>> {
    match held {
        Held::Whole => Some(0..elements),
        Held::Block => Some(block(elements, plan.ranks(), rank)),
        Held::AtRoot => (rank == plan.root()).then_some(0..elements),
    }
}
