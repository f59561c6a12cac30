//! Checks that every rank ends with every contribution exactly once. It replays the phases on weights, and then on
//! counts.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::name;
use crate::bail;
use crate::error::{Error, Result};
use crate::plan::weights::{self, Sum};
use crate::plan::{Direction, Draft, Half, Held, Phase, Tree};
use crate::topology::NodeId;

/// The most pieces into which edges are cut by the spans of other trees: they are replayed in seconds.
const MAX_PIECES: u64 = 1 << 28;

/// Replays all phases for every elementary span, and compares the result with what the collective promises.
pub(super) fn check_contributions(plan: &Draft) -> Result<()> {
    let mut spans = Spans::new(plan);
    check_pieces(plan, &spans.cuts)?;
    let of_rank = weights::draw(plan.ranks());
    let mut weighed = Replay::new(plan, |rank| of_rank[rank], |sum: &Sum, other: &Sum| sum.plus(*other));
    while let Some(span) = spans.next() {
        let fault = weighed.run(span).and_then(|()| weighed.compare(span));
        if let Err(fault) = fault {
            return Err(explain(plan, span).unwrap_or(fault));
        }
    }
    Ok(())
}

/// Explains the fault of `span` in terms of ranks: which one is missing, or counted twice.
fn explain(plan: &Draft, span: &Span) -> Option<Error> {
    let count = plan.ranks() as usize;
    let alone = |rank: NodeId| (0..count).map(|other| u32::from(other == rank.index())).collect::<Vec<u32>>();
    let add = |sum: &Vec<u32>, other: &Vec<u32>| sum.iter().zip(other).map(|(a, b)| a.saturating_add(*b)).collect();
    let mut counted = Replay::new(plan, alone, add);
    counted.run(span).ok()?;
    let topology = &plan.topology;
    for rank in plan.rank_ids() {
        let Some(expected) = counted.expected(rank, span.start) else { continue };
        let got = counted.state[rank].as_ref()?;
        for (other, (got, expected)) in got.iter().zip(&expected).enumerate() {
            if got != expected {
                let (rank, other) = (name(topology, rank), name(topology, NodeId::new(other)));
                let at_least = if *got == u32::MAX { "at least " } else { "" };
                return Some(Error::new(format!(
                    "{span}: {rank} ends with {other}'s contribution {at_least}{got} times instead of {expected}"
                )));
            }
        }
    }
    None
}

/// A range of units of which every tree carries all or none, and the trees that carry them, in the order of their
/// phases.
struct Span {
    start: u64,
    end: u64,
    trees: BTreeSet<usize>,
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "units {}..{}", self.start, self.end)
    }
}

/// The elementary spans of the vector, from its beginning to its end: it is cut wherever a tree's span starts or ends.
struct Spans<'a> {
    trees: &'a [Tree],
    /// The places where it is still to be cut, the next one last.
    cuts: Vec<u64>,
    /// The trees that have not begun, by their starts, the next one last.
    ahead: Vec<usize>,
    span: Span,
}

impl<'a> Spans<'a> {
    fn new(plan: &'a Draft) -> Self {
        let trees = &plan.trees;
        let mut ahead: Vec<usize> = (0..trees.len()).filter(|&tree| trees[tree].units() > 0).collect();
        ahead.sort_by_key(|&tree| Reverse(trees[tree].span.start));
        let span = Span { start: 0, end: 0, trees: BTreeSet::new() };
        Self { trees, cuts: cuts(plan), ahead, span }
    }

    fn next(&mut self) -> Option<&Span> {
        let (trees, span) = (self.trees, &mut self.span);
        (span.start, span.end) = (span.end, self.cuts.pop()?);
        span.trees.retain(|&tree| trees[tree].span.end > span.start);
        while let Some(tree) = self.ahead.pop_if(|tree| trees[*tree].span.start == span.start) {
            span.trees.insert(tree);
        }
        Some(span)
    }
}

/// Returns the places where trees and blocks begin and end, in falling order.
fn cuts(plan: &Draft) -> Vec<u64> {
    let mut cuts = vec![plan.units];
    cuts.extend(plan.trees.iter().flat_map(|tree| [tree.span.start, tree.span.end]));
    if plan.collective.has_blocks() {
        let block = plan.units / u64::from(plan.ranks());
        cuts.extend((0..u64::from(plan.ranks())).map(|rank| rank * block));
    }
    cuts.retain(|&cut| cut > 0);
    cuts.sort_unstable_by_key(|&cut| Reverse(cut));
    cuts.dedup();
    cuts
}

/// Refuses a plan whose spans, with these `cuts`, cut each other into more pieces than can be replayed in seconds.
fn check_pieces(plan: &Draft, cuts: &[u64]) -> Result<()> {
    let before = |unit| cuts.len() - cuts.partition_point(|&cut| cut > unit);
    let pieces = |phase: &Phase, tree: &Tree| {
        (before(tree.span.end) - before(tree.span.start)) as u64 * (1 + plan.edges_of(phase, tree))
    };
    let of_phase = |phase| plan.trees_of(phase).iter().map(move |tree| pieces(phase, tree));
    let all: u64 = plan.phases.iter().flat_map(of_phase).sum();
    if all > MAX_PIECES {
        bail!(
            "spans of trees cut edges into {all} pieces; treefold handles {MAX_PIECES}, so cut the vector less often"
        );
    }
    Ok(())
}

/// The state of every rank while the phases of a plan are replayed on values of type `V`.
struct Replay<'a, V, I, A> {
    plan: &'a Draft,
    /// The phase of each tree.
    phase: Vec<&'a Phase>,
    own: I,
    add: A,
    state: Vec<Option<V>>,
    /// The phase in which each node received last, counted among the phases replayed; `now` is the phase at work.
    received: Vec<u64>,
    now: u64,
}

impl<'a, V: Clone + PartialEq, I: Fn(NodeId) -> V, A: Fn(&V, &V) -> V> Replay<'a, V, I, A> {
    fn new(plan: &'a Draft, own: I, add: A) -> Self {
        let nodes = plan.topology.nodes().len();
        let phase = plan.phases.iter().flat_map(|phase| plan.trees_of(phase).iter().map(move |_| phase)).collect();
        Self { plan, phase, own, add, state: vec![None; nodes], received: vec![0; nodes], now: 0 }
    }

    /// Returns whether `rank` gives the unit at `start`.
    fn starts_with(&self, rank: NodeId, start: u64) -> bool {
        self.holds(rank, start, self.plan.collective.definition().before)
    }

    fn holds(&self, rank: NodeId, start: u64, held: Held) -> bool {
        match held {
            Held::Whole => true,
            Held::Block => self.block_owner(start) == rank,
            Held::AtRoot => self.plan.root() == rank,
        }
    }

    fn block_owner(&self, start: u64) -> NodeId {
        NodeId((start / (self.plan.units / u64::from(self.plan.ranks()))) as u32)
    }

    /// Returns the value that `rank` must end with for the unit at `start`; `None` when any value will do.
    fn expected(&self, rank: NodeId, start: u64) -> Option<V> {
        if !self.holds(rank, start, self.plan.collective.definition().after) {
            return None;
        }
        let given = self.plan.rank_ids().filter(|&rank| self.starts_with(rank, start)).map(&self.own);
        given.reduce(|sum, other| (self.add)(&sum, &other))
    }

    fn run(&mut self, span: &Span) -> Result<()> {
        for node in self.plan.topology.node_ids() {
            let has = self.plan.topology.is_rank(node) && self.starts_with(node, span.start);
            self.state[node] = has.then(|| (self.own)(node));
        }
        let trees: Vec<usize> = span.trees.iter().copied().collect();
        let phases = trees.chunk_by(|&tree, &next| std::ptr::eq(self.phase[tree], self.phase[next]));
        let phases: Vec<&[usize]> = phases.collect();
        phases.into_iter().try_for_each(|trees| self.run_phase(trees).map_err(|error| error.at(span)))
    }

    /// Runs trees of one phase, which all read the state before it. A rank that has sent and received nothing ends with
    /// no value.
    fn run_phase(&mut self, trees: &[usize]) -> Result<()> {
        let (plan, phase) = (self.plan, self.phase[trees[0]]);
        let mut received: Vec<(NodeId, V)> = Vec::new();
        let mut sent = Vec::new();
        for tree in trees.iter().map(|&number| &plan.trees[number]) {
            let result = self.reduce(phase, tree, &mut sent)?;
            if tree.up != Half::None {
                received.push((tree.root, result.clone()));
            }
            received.extend(plan.half(phase, tree, Direction::Down).map(|edge| (edge.child, result.clone())));
        }
        sent.iter().for_each(|&node: &NodeId| self.state[node] = None);
        self.now += 1;
        for (node, value) in received.into_iter().filter(|(node, _)| plan.topology.is_rank(*node)) {
            if std::mem::replace(&mut self.received[node], self.now) == self.now {
                bail!("{} receives from two trees in one phase", name(&plan.topology, node));
            }
            self.state[node] = Some(value);
        }
        Ok(())
    }

    /// Returns the value at the root after the reduce half has run.
    fn reduce(&self, phase: &Phase, tree: &Tree, sent: &mut Vec<NodeId>) -> Result<V> {
        let topology = &self.plan.topology;
        let contributors = self.plan.half(phase, tree, Direction::Up).map(|edge| edge.child);
        let mut sum: Option<V> = None;
        for node in std::iter::once(tree.root).chain(contributors).filter(|&node| topology.is_rank(node)) {
            if node != tree.root {
                sent.push(node);
            }
            let Some(value) = &self.state[node] else {
                bail!("{} sends a part of the vector that it does not have", name(topology, node));
            };
            sum = Some(sum.map_or_else(|| value.clone(), |sum| (self.add)(&sum, value)));
        }
        match sum {
            Some(sum) => Ok(sum),
            None => bail!("the tree at {} has no rank that contributes", name(topology, tree.root)),
        }
    }

    fn compare(&self, span: &Span) -> Result<()> {
        // If all ranks get the same, it is added up only once.
        let is_shared = self.plan.collective.definition().after == Held::Whole;
        let shared = is_shared.then(|| self.expected(NodeId(0), span.start)).flatten();
        for rank in self.plan.rank_ids() {
            let expected = shared.clone().or_else(|| self.expected(rank, span.start));
            let got = &self.state[rank];
            if expected.is_some() && *got != expected {
                let result = if got.is_some() { "a wrong result" } else { "no result" };
                bail!("{span}: {} ends with {result}", name(&self.plan.topology, rank));
            }
        }
        Ok(())
    }
}

/// Checks that the trees of every rank that gives a vector together carry each unit of its blocks exactly once.
pub(super) fn check_personalized(plan: &Draft) -> Result<()> {
    let share = plan.units_of_a_share();
    let topology = &plan.topology;
    let mut spans = vec![Vec::new(); topology.nodes().len()];
    for phase in &plan.phases {
        for tree in plan.trees_of(phase).iter().filter(|tree| tree.units() > 0) {
            if !topology.is_rank(tree.root) || tree.up != Half::None {
                bail!(
                    "the tree at {} has no block to send, or reduces; each tree must only broadcast from a rank",
                    name(topology, tree.root)
                );
            }
            if let Some(missed) = missed(plan, phase, tree) {
                let root = name(topology, tree.root);
                bail!("the tree at {root} does not reach {}, for which it has a block", name(topology, missed));
            }
            spans[tree.root].push(tree.span.clone());
        }
    }
    for rank in plan.rank_ids() {
        let gives = plan.givers().any(|giver| giver == rank);
        let spans = &mut spans[rank];
        spans.sort_unstable_by_key(|span| (span.start, span.end));
        let end = spans.iter().try_fold(0, |at, span| (span.start == at).then_some(span.end));
        if end != Some(if gives { share } else { 0 }) && plan.ranks() > 1 {
            bail!("the trees at {} do not carry each unit of its blocks exactly once", name(topology, rank));
        }
    }
    Ok(())
}

/// Returns a rank that a tree does not reach although its root has a block for it; `None` if there is none.
fn missed(plan: &Draft, phase: &Phase, tree: &Tree) -> Option<NodeId> {
    let mut is_reached = vec![false; plan.topology.nodes().len()];
    is_reached[tree.root] = true;
    plan.half(phase, tree, Direction::Down).for_each(|edge| is_reached[edge.child] = true);
    plan.rank_ids().find(|&rank| !is_reached[rank] && plan.share(tree.root, rank) > 0)
}
