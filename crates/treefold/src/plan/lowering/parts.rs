//! The parts of a phase: a part is what one edge of one tree carries of one chunk.

use std::collections::HashMap;
use std::ops::Range;

use super::buffers::Buffers;
use super::{Transfer, elements_of};
use crate::plan::schedule::{BufferId, Csr, Op, Schedule, cut};
use crate::plan::{Direction, Edge, Phase, Plan, Tree};
use crate::topology::NodeId;

/// All parts of a phase that carry anything, as arrays, in an order that respects the dependencies within each tree.
#[derive(Default)]
pub(super) struct Parts {
    pub edge: Vec<Edge>,
    tree: Vec<u32>,
    chunk: Vec<u32>,
    pub direction: Vec<Direction>,
    pub source: Vec<BufferId>,
    pub target: Vec<BufferId>,
    pieces: Csr<Range<u64>>,
    /// The parts that must come before each part. They are always consecutive, as siblings are.
    after: Vec<Range<u32>>,
    /// The parts that have delivered to each node in the tree and chunk at work.
    into: Vec<Range<u32>>,
}

impl Parts {
    pub fn new(plan: &Plan, phase: &Phase, chunks: &[u32], elements: u64, buffers: &Buffers) -> Self {
        let into = vec![0..0; plan.topology.nodes().len()];
        let mut parts = Self { into, ..Self::default() };
        let (mut up, mut down): (Vec<Edge>, Vec<Edge>) = (Vec::new(), Vec::new());
        for (number, &count) in phase.trees.clone().zip(chunks) {
            let tree = &plan.trees[number];
            up.clear();
            up.extend(plan.half(phase, tree, Direction::Up));
            down.clear();
            down.extend(plan.half(phase, tree, Direction::Down));
            let count = u64::from(count);
            for chunk in (0..count).map(|number| ChunkOf { number, count }) {
                if plan.collective.is_personalized() {
                    parts.append_blocks(plan, number, &down, elements, chunk, buffers);
                } else {
                    let piece = part_of(elements_of(plan, elements, tree), chunk);
                    if !piece.is_empty() {
                        parts.append_tree(tree, &up, &down, &piece, |node| buffers.of(number, node));
                    }
                }
                parts.tree.resize(parts.edge.len(), number as u32);
                parts.chunk.resize(parts.edge.len(), chunk.number as u32);
            }
        }
        parts
    }

    fn push(
        &mut self,
        edge: Edge,
        direction: Direction,
        (source, target): (BufferId, BufferId),
        after: Range<u32>,
    ) -> u32 {
        self.edge.push(edge);
        self.direction.push(direction);
        self.source.push(source);
        self.target.push(target);
        self.after.push(after);
        self.edge.len() as u32 - 1
    }

    pub fn after(&self, part: u32) -> Range<u32> {
        self.after[part as usize].clone()
    }

    /// Appends one chunk of a tree that carries the same elements on every edge.
    fn append_tree(
        &mut self,
        tree: &Tree,
        up: &[Edge],
        down: &[Edge],
        piece: &Range<u64>,
        buffer: impl Fn(NodeId) -> BufferId,
    ) {
        self.into[tree.root] = 0..0;
        up.iter().for_each(|edge| self.into[edge.child] = 0..0);
        for edge in up.iter().rev() {
            let after = self.into[edge.child].clone();
            let part = self.push(*edge, Direction::Up, (buffer(edge.child), buffer(edge.parent)), after);
            self.pieces.push_row([piece.clone()]);
            let into = &mut self.into[edge.parent];
            *into = if into.start == into.end { part..part + 1 } else { into.start..part + 1 };
        }
        for edge in down {
            let after = self.into[edge.parent].clone();
            let part = self.push(*edge, Direction::Down, (buffer(edge.parent), buffer(edge.child)), after);
            self.pieces.push_row([piece.clone()]);
            self.into[edge.child] = part..part + 1;
        }
    }

    /// Appends one chunk of a tree that sends each rank its own block: each edge carries the blocks of the ranks below
    /// it.
    fn append_blocks(
        &mut self,
        plan: &Plan,
        number: usize,
        down: &[Edge],
        elements: u64,
        chunk: ChunkOf,
        buffers: &Buffers,
    ) {
        let tree = &plan.trees[number];
        let buffer = |node| buffers.of(number, node);
        let first = u64::from(tree.root) * elements;
        let mut below: Vec<Vec<Range<u64>>> = vec![Vec::new(); down.len()];
        let edge_into: HashMap<NodeId, usize> = down.iter().enumerate().map(|(i, edge)| (edge.child, i)).collect();
        for (i, edge) in down.iter().enumerate().rev() {
            if plan.topology.is_rank(edge.child) {
                let block = plan.part_of_block(elements, tree.root, edge.child, &tree.span);
                below[i].push(part_of(first + block.start..first + block.end, chunk));
            }
            if let Some(&parent) = edge_into.get(&edge.parent) {
                let blocks = below[i].clone();
                below[parent].extend(blocks);
            }
        }
        self.into[tree.root] = 0..0;
        for (edge, mut blocks) in down.iter().zip(below) {
            blocks.retain(|block| !block.is_empty());
            if blocks.is_empty() {
                continue;
            }
            blocks.sort_unstable_by_key(|block| block.start);
            let after = self.into[edge.parent].clone();
            let part = self.push(*edge, Direction::Down, (buffer(edge.parent), buffer(edge.child)), after);
            self.pieces.push_row(blocks);
            self.into[edge.child] = part..part + 1;
        }
    }

    /// Appends one transfer that carries all parts of `group`.
    pub fn append_transfer(&self, group: &[u32], phase: u16, schedule: &mut Schedule) {
        let first = group[0] as usize;
        let op = if self.direction[first] == Direction::Up { Op::Reduce } else { Op::Copy };
        let Edge { lane, step, .. } = self.edge[first];
        let (source, target) = (self.source[first], self.target[first]);
        let (tree, chunk) = (self.tree[first], self.chunk[first]);
        schedule.push(Transfer { lane: Some(lane), phase, step, tree, chunk, op, source, target });
        schedule.pieces.push_row(group.iter().flat_map(|&part| self.pieces.row(part as usize).iter().cloned()));
    }
}

/// The chunk with this number among so many equal ones.
#[derive(Clone, Copy)]
pub(super) struct ChunkOf {
    pub number: u64,
    pub count: u64,
}

/// Returns the elements of a chunk of a range.
pub(super) fn part_of(range: Range<u64>, chunk: ChunkOf) -> Range<u64> {
    let ChunkOf { number, count } = chunk;
    let length = range.end - range.start;
    range.start + cut(length, count, number)..range.start + cut(length, count, number + 1)
}
