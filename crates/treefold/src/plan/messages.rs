//! The messages of a phase in steps, grouped by step.
//!
//! Transfers with the same lane and step travel as one message (halving-doubling sends half its vector as N/2 parts of
//! N/2 trees). The check of contention, the analytic time and lowering all use a phase in this form. Cost: a counting
//! sort, linear in the edges.

use std::ops::Range;

use super::{Direction, Draft, Edge, LaneId, LaneRef, Phase, Step, Tree, step_number};

/// All that one lane carries in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// The lane.
    pub lane: LaneRef,
    /// How many transfers travel together.
    pub transfers: u32,
    /// The part of the vector that they carry, in units.
    pub units: u64,
}

/// The most transfers in memory at a time: large plans are walked several times rather than sorted as a whole.
const BLOCK: usize = 1 << 22;

/// Calls `visit` with the number (from 1) and the messages of every step of `phase`, in order.
pub fn for_each_step(plan: &Draft, phase: &Phase, mut visit: impl FnMut(u16, &[Message])) {
    let sizes = transfers_per_step(plan, phase);
    let mut place_of_lane = vec![0; 2 * plan.lanes.len()];
    let mut first = 0;
    while first < sizes.len() {
        let mut end = first + 1;
        let mut total = sizes[first];
        while end < sizes.len() && total + sizes[end] <= BLOCK {
            total += sizes[end];
            end += 1;
        }
        let mut rest = &mut sort_by_step(plan, phase, first..end, &sizes)[..];
        for (step, &size) in (1..).zip(&sizes).take(end).skip(first) {
            let (these, others) = rest.split_at_mut(size);
            let count = merge(these, &mut place_of_lane);
            visit(step, &these[..count]);
            rest = others;
        }
        first = end;
    }
}

fn transfers_per_step(plan: &Draft, phase: &Phase) -> Vec<usize> {
    let mut sizes = vec![0usize; step_number(phase.steps).into()];
    plan.visit_transfers(phase, |step, _| sizes[place(step)] += 1);
    sizes
}

/// Returns the place of a step in a list of all steps.
fn place(step: Option<Step>) -> usize {
    usize::from(step.expect("every edge of a phase in steps has one").get()) - 1
}

/// Returns the transfers of these steps (counted from 0), ordered by step.
fn sort_by_step(plan: &Draft, phase: &Phase, steps: Range<usize>, sizes: &[usize]) -> Vec<Message> {
    let mut next = Vec::with_capacity(steps.len());
    let mut total = 0;
    for step in steps.clone() {
        next.push(total);
        total += sizes[step];
    }
    let mut sorted = vec![Message { lane: LaneRef::new(LaneId(0), false), transfers: 0, units: 0 }; total];
    plan.visit_transfers(phase, |step, message| {
        let step = place(step);
        if steps.contains(&step) {
            sorted[next[step - steps.start]] = message;
            next[step - steps.start] += 1;
        }
    });
    sorted
}

/// Adds up transfers with the same lane, in place; returns how many messages are left. The entries of `place_of_lane`
/// are hints that are checked, so it never needs clearing.
fn merge(transfers: &mut [Message], place_of_lane: &mut [usize]) -> usize {
    let mut count = 0;
    for i in 0..transfers.len() {
        let transfer = transfers[i];
        let place = place_of_lane[transfer.lane.index()];
        if place < count && transfers[place].lane == transfer.lane {
            transfers[place].units += transfer.units;
            transfers[place].transfers += transfer.transfers;
        } else {
            place_of_lane[transfer.lane.index()] = count;
            transfers[count] = transfer;
            count += 1;
        }
    }
    count
}

/// Calls `visit` with the place of each edge of a half, those first that bring the data of others, and with the numbers
/// of the messages that bring its data; it returns the number of the edge's own. `into` lists for each node the
/// messages that bring what it has of the tree: nothing before the first half.
pub(crate) fn for_each_message(
    edges: &[Edge],
    direction: Direction,
    into: &mut [Vec<u32>],
    mut visit: impl FnMut(usize, &[u32]) -> u32,
) {
    let mut each = |place: usize| {
        let (source, target) = edges[place].ends(direction);
        let number = visit(place, &into[source]);
        if direction == Direction::Down {
            into[target].clear();
        }
        into[target].push(number);
    };
    match direction {
        // Children send before their parents do.
        Direction::Up => (0..edges.len()).rev().for_each(&mut each),
        Direction::Down => (0..edges.len()).for_each(&mut each),
    }
}

/// Returns the numbers of items ordered by their `steps`, which are at most `last`, by a counting sort that keeps the
/// order within a step.
pub(crate) fn order_by_step(
    steps: impl ExactSizeIterator<Item = Option<Step>> + Clone,
    last: Option<Step>,
) -> Vec<u32> {
    let mut next = vec![0usize; usize::from(step_number(last)) + 2];
    steps.clone().for_each(|step| next[usize::from(step_number(step)) + 1] += 1);
    for step in 1..next.len() {
        next[step] += next[step - 1];
    }
    let mut order = vec![0; steps.len()];
    for (number, step) in (0..).zip(steps) {
        let place = &mut next[usize::from(step_number(step))];
        order[*place] = number;
        *place += 1;
    }
    order
}

impl Draft {
    /// Calls `visit` with the step and the content of every transfer of `phase` that carries anything. Equal partial
    /// sums are one transfer.
    pub(crate) fn visit_transfers(&self, phase: &Phase, mut visit: impl FnMut(Option<Step>, Message)) {
        if let Some(sums) = self.equal_sums(phase) {
            for message in &sums.messages {
                let Edge { lane, step, .. } = message.edge;
                visit(step, Message { lane, transfers: 1, units: self.trees[message.tree].units() });
            }
            return;
        }
        for tree in self.trees_of(phase).iter().filter(|tree| tree.units() > 0) {
            for direction in Direction::BOTH {
                self.visit_half(phase, tree, direction, &mut visit);
            }
        }
    }

    fn visit_half(
        &self,
        phase: &Phase,
        tree: &Tree,
        direction: Direction,
        visit: &mut impl FnMut(Option<Step>, Message),
    ) {
        let units = tree.units();
        if !self.collective.is_personalized() {
            for edge in self.half(phase, tree, direction) {
                visit(edge.step, Message { lane: edge.lane, transfers: 1, units });
            }
            return;
        }
        let edges: Vec<_> = self.half(phase, tree, direction).collect();
        for (edge, below) in edges.iter().zip(self.shares_below(tree.root, &edges)) {
            visit(edge.step, Message { lane: edge.lane, transfers: 1, units: units * below });
        }
    }
}
