//! The buffers of a phase, besides the ranks' own vectors.

use std::collections::HashMap;
use std::ops::Range;

use super::elements_of;
use super::parts::{ChunkOf, part_of};
use crate::plan::schedule::{BufferId, Schedule, TransferId};
use crate::plan::{Direction, Half, Phase, Plan, Tree};
use crate::topology::NodeId;

/// Elements that a rank copies from its vector to another buffer before a phase.
pub(super) struct LocalCopy {
    pub rank: NodeId,
    pub buffer: BufferId,
    pub elements: Range<u64>,
}

/// The buffers that the trees of a phase use.
#[derive(Default)]
pub(super) struct Buffers {
    /// The buffer of a node in a tree, if that is not the rank's main one.
    of_tree: HashMap<(usize, NodeId), BufferId>,
    pub copies: Vec<LocalCopy>,
}

impl Buffers {
    /// Returns the buffer of `node` in tree `number`.
    pub fn of(&self, number: usize, node: NodeId) -> BufferId {
        let own = BufferId::of_rank(node);
        if self.of_tree.is_empty() { own } else { self.of_tree.get(&(number, node)).copied().unwrap_or(own) }
    }
}

/// The copies that read from or write to each buffer.
pub(super) struct CopiesAt {
    /// The copies of each buffer, in the order of their elements.
    at: HashMap<BufferId, Vec<(Range<u64>, TransferId)>>,
    /// The most elements of a copy.
    longest: u64,
}

impl CopiesAt {
    /// Lists these copies, the first of which is transfer `first`.
    pub fn new(copies: &[LocalCopy], first: TransferId) -> Self {
        let mut at: HashMap<BufferId, Vec<(Range<u64>, TransferId)>> = HashMap::new();
        for (number, copy) in (first.0..).zip(copies) {
            for buffer in [BufferId::of_rank(copy.rank), copy.buffer] {
                at.entry(buffer).or_default().push((copy.elements.clone(), TransferId(number)));
            }
        }
        at.values_mut().for_each(|copies| copies.sort_unstable_by_key(|(elements, _)| elements.start));
        let longest = copies.iter().map(|copy| copy.elements.end - copy.elements.start).max();
        Self { at, longest: longest.unwrap_or(0) }
    }

    /// Returns the copies of elements of `piece` at a buffer. Cost: a search, and a look at those that begin no farther
    /// before the piece than the longest copy is long.
    pub fn meeting(&self, buffer: BufferId, piece: &Range<u64>) -> impl Iterator<Item = TransferId> {
        let copies = self.at.get(&buffer).map_or(&[][..], Vec::as_slice);
        let first = copies.partition_point(|(elements, _)| elements.start + self.longest <= piece.start);
        let piece = piece.clone();
        let near = copies[first..].iter().take_while(move |(elements, _)| elements.start < piece.end);
        near.filter(move |(elements, _)| piece.start < elements.end).map(|&(_, id)| id)
    }
}

/// Assigns the buffers of a phase whose trees are cut into so many chunks each. A switch gets a buffer for each tree.
/// Where the spans of a phase overlap, a rank that sends into a tree that does not deliver to it sends from a copy,
/// chunk by chunk; leaves of trees over the same span share one.
pub(super) fn assign_buffers(plan: &Plan, phase: &Phase, chunks: &[u32], schedule: &mut Schedule) -> Buffers {
    let mut buffers = Buffers::default();
    // Where each rank is sent its own block, the blocks of every root have their own numbers, so nothing overlaps.
    let overlapping = !plan.collective.is_personalized() && spans_overlap(plan.trees_of(phase));
    if plan.topology.is_direct() && !overlapping {
        return buffers;
    }
    let mut copy_of: HashMap<(NodeId, Range<u64>, Option<usize>), BufferId> = HashMap::new();
    for (number, &count) in phase.trees.clone().zip(chunks) {
        let tree = &plan.trees[number];
        let span = elements_of(plan, schedule.elements, tree);
        for Member { node, inner, receives } in members(plan, phase, tree) {
            if !plan.topology.is_rank(node) {
                buffers.of_tree.insert((number, node), schedule.add_buffer(node));
            } else if overlapping && !receives && !span.is_empty() {
                let key = (node, span.clone(), inner.then_some(number));
                let buffer = *copy_of.entry(key).or_insert_with(|| {
                    let buffer = schedule.add_buffer(node);
                    let chunks = (0..count.into()).map(|number| ChunkOf { number, count: count.into() });
                    let parts = chunks.map(|chunk| part_of(span.clone(), chunk)).filter(|part| !part.is_empty());
                    buffers.copies.extend(parts.map(|elements| LocalCopy { rank: node, buffer, elements }));
                    buffer
                });
                buffers.of_tree.insert((number, node), buffer);
            }
        }
    }
    buffers
}

fn spans_overlap(trees: &[Tree]) -> bool {
    let mut spans: Vec<&Range<u64>> = trees.iter().map(|tree| &tree.span).filter(|span| !span.is_empty()).collect();
    spans.sort_unstable_by_key(|span| span.start);
    spans.windows(2).any(|pair| pair[1].start < pair[0].end)
}

/// A node's part in a tree.
struct Member {
    node: NodeId,
    /// Whether others reduce into the node.
    inner: bool,
    /// Whether the node ends with the tree's result.
    receives: bool,
}

fn members(plan: &Plan, phase: &Phase, tree: &Tree) -> Vec<Member> {
    // A root that only broadcasts receives nothing: another tree may overwrite what it sends.
    let reduces = tree.up != Half::None;
    let mut members = vec![Member { node: tree.root, inner: reduces, receives: reduces }];
    let mut at: HashMap<NodeId, usize> = HashMap::from([(tree.root, 0)]);
    for edge in plan.half(phase, tree, Direction::Up) {
        members[at[&edge.parent]].inner = true;
        at.insert(edge.child, members.len());
        members.push(Member { node: edge.child, inner: false, receives: false });
    }
    for edge in plan.half(phase, tree, Direction::Down) {
        let index = *at.entry(edge.child).or_insert(members.len());
        if index == members.len() {
            members.push(Member { node: edge.child, inner: false, receives: true });
        }
        members[index].receives = true;
    }
    members
}
