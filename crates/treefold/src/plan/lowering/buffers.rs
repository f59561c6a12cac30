//! The buffers of a phase, besides the ranks' own vectors.

use std::collections::HashMap;
use std::ops::Range;

use super::elements_of;
use crate::plan::schedule::{BufferId, Schedule};
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

/// Assigns the buffers of a phase. A switch gets a buffer for each tree. Where the spans of a phase overlap, a rank
/// that sends into a tree that does not deliver to it sends from a copy; leaves of trees over the same span share one.
pub(super) fn assign_buffers(plan: &Plan, phase: &Phase, schedule: &mut Schedule) -> Buffers {
    let mut buffers = Buffers::default();
    // Where each rank is sent its own block, the blocks of every root have their own numbers, so nothing overlaps.
    let overlapping = !plan.collective.is_personalized() && spans_overlap(plan.trees_of(phase));
    if plan.topology.is_direct() && !overlapping {
        return buffers;
    }
    let mut copy_of: HashMap<(NodeId, Range<u64>, Option<usize>), BufferId> = HashMap::new();
    for number in phase.trees.clone() {
        let tree = &plan.trees[number];
        let span = elements_of(plan, schedule.elements, tree);
        for Member { node, inner, receives } in members(plan, phase, tree) {
            if !plan.topology.is_rank(node) {
                buffers.of_tree.insert((number, node), schedule.add_buffer(node));
            } else if overlapping && !receives && !span.is_empty() {
                let key = (node, span.clone(), inner.then_some(number));
                let buffer = *copy_of.entry(key).or_insert_with(|| {
                    let buffer = schedule.add_buffer(node);
                    buffers.copies.push(LocalCopy { rank: node, buffer, elements: span.clone() });
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
