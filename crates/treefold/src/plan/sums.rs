//! Equal partial sums: trees of a phase that only reduce, over the same span, send them once.
//!
//! In an exchange every rank has a tree of its own into it, and no root broadcasts. Trees meet: the same ranks hang in
//! the same way from the same node in several of them. Where that node then sends their sum over the same lane in the
//! same step, the edges are one message, which its receiver adds to the sum of each tree. Recursive doubling, written
//! with a tree into every rank, has N trees of N - 1 edges, and only N log2 N messages.
//!
//! Cost: a look into a table for each edge.

use std::collections::HashMap;
use std::ops::Range;

use super::{Direction, Draft, Edge, Half, LaneRef, Phase, Step, Tree};
use crate::ids::ids;
use crate::topology::NodeId;

ids! {
    /// A partial sum of a node, or the whole sum of a root.
    SumId;
    /// A message that carries a partial sum.
    SumMessageId;
}

/// What a node adds up in trees that agree on it.
#[derive(Debug, Clone)]
pub(crate) struct Sum {
    pub node: NodeId,
    /// The number of the first tree in which it is.
    pub tree: usize,
    /// The messages that it consists of, besides what the node gives itself, in rising order.
    pub parts: Vec<SumMessageId>,
    /// Whether it is the result of a tree.
    pub is_result: bool,
}

/// What makes two sums equal: node, span, messages, and whether they are results.
type Content = (NodeId, Range<u64>, Vec<SumMessageId>, bool);

/// A message that carries a sum.
#[derive(Debug, Clone)]
pub(crate) struct SumMessage {
    /// The first edge that it is, and the number of its tree.
    pub edge: Edge,
    pub tree: usize,
    pub sum: SumId,
    /// The sums to which its receiver adds it.
    pub into: Vec<SumId>,
}

/// The partial sums of a phase, and the messages that carry them.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub sums: Vec<Sum>,
    pub messages: Vec<SumMessage>,
    /// The message of each edge of the trees that carry anything, tree by tree, and within each from the last edge of
    /// its reduce half to the first.
    pub of_edge: Vec<SumMessageId>,
    known_sums: HashMap<Content, SumId>,
    known_messages: HashMap<(LaneRef, Option<Step>, SumId), SumMessageId>,
}

impl Draft {
    /// Returns the partial sums of a phase; `None` where no two edges are the same message.
    pub(crate) fn equal_sums(&self, phase: &Phase) -> Option<Sums> {
        if !self.may_repeat_sums(phase) {
            return None;
        }
        let mut sums = Sums::default();
        let mut into = vec![Vec::new(); self.topology.nodes().len()];
        for number in phase.trees.clone().filter(|&number| self.trees[number].units() > 0) {
            sums.add_tree(self, phase, number, &mut into);
        }
        (sums.messages.len() < sums.of_edge.len()).then_some(sums)
    }

    /// Returns whether a phase is in steps, its trees only reduce, and two of them have the same span.
    fn may_repeat_sums(&self, phase: &Phase) -> bool {
        let trees = || self.trees_of(phase).iter().filter(|tree| tree.units() > 0);
        let reduces_only = |tree: &Tree| tree.down == Half::None && tree.up != Half::None;
        if phase.pace.is_stream() || self.collective.is_personalized() || !trees().all(reduces_only) {
            return false;
        }
        let mut spans: Vec<_> = trees().map(|tree| (tree.span.start, tree.span.end)).collect();
        spans.sort_unstable();
        spans.windows(2).any(|pair| pair[0] == pair[1])
    }
}

impl Sums {
    /// Adds the sums and messages of a tree; `into` holds nothing but empty lists for each node, before and after.
    fn add_tree(&mut self, plan: &Draft, phase: &Phase, number: usize, into: &mut [Vec<SumMessageId>]) {
        let tree = &plan.trees[number];
        let edges: Vec<Edge> = plan.half(phase, tree, Direction::Up).collect();
        for &edge in edges.iter().rev() {
            let parts = std::mem::take(&mut into[edge.child]);
            let sum = self.sum(Sum { node: edge.child, tree: number, parts, is_result: false }, tree);
            let message = self.message(edge, number, sum);
            self.of_edge.push(message);
            into[edge.parent].push(message);
        }
        let parts = std::mem::take(&mut into[tree.root]);
        self.sum(Sum { node: tree.root, tree: number, parts, is_result: true }, tree);
    }

    /// Returns the number of a sum, which is a new one if no tree has had it.
    fn sum(&mut self, mut sum: Sum, tree: &Tree) -> SumId {
        sum.parts.sort_unstable();
        let new = SumId::new(self.sums.len());
        let content = (sum.node, tree.span.clone(), sum.parts.clone(), sum.is_result);
        let id = *self.known_sums.entry(content).or_insert(new);
        if id == new {
            sum.parts.iter().for_each(|&part| self.messages[part].into.push(id));
            self.sums.push(sum);
        }
        id
    }

    /// Returns the message of an edge, which is a new one if no tree has had it.
    fn message(&mut self, edge: Edge, tree: usize, sum: SumId) -> SumMessageId {
        let new = SumMessageId::new(self.messages.len());
        let id = *self.known_messages.entry((edge.lane, edge.step, sum)).or_insert(new);
        if id == new {
            self.messages.push(SumMessage { edge, tree, sum, into: Vec::new() });
        }
        id
    }

    /// Returns the numbers of the messages in the order of their steps.
    pub fn in_order(&self) -> Vec<SumMessageId> {
        let mut order: Vec<SumMessageId> = SumMessageId::first(self.messages.len()).collect();
        order.sort_by_key(|&message| self.messages[message].edge.step);
        order
    }
}
