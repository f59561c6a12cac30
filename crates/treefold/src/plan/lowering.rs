//! Lowering: from a plan and a size to a schedule.
//!
//! Dependencies: going up, all up-edges into the source; going down, the edge that delivered to the source
//! (at the root, all its up-edges); across phases, see [`super::hazards`]. Step-paced phases merge transfers
//! with the same lane, step and buffers into one message; streams repeat each tree for each of its chunks.
//! Cost: linear in transfers and dependencies, but for one sort of each.

use std::collections::HashMap;
use std::ops::Range;

use super::hazards::Hazards;
use super::messages::order_by_step;
use super::pipeline::{check_chunks, pipelines};
use super::schedule::{Csr, Op, Schedule, cut};
use super::{Chunk, Collective, Direction, Edge, Half, LaneRef, LaneRoutes, Phase, Plan, Tree};
use crate::error::Result;
use crate::topology::NodeId;
use crate::units::{Bytes, Time};

/// Lowers `plan` for vectors of `elements` elements of `element_bytes` bytes.
///
/// # Errors
/// More chunks than treefold handles.
pub fn lower(plan: &Plan, elements: u64, element_bytes: u64) -> Result<Schedule> {
    lower_for(plan, elements, element_bytes, Time(0))
}

/// The same for an engine whose ranks each spend `overhead` on a message that they send or receive: what a chunk of
/// every tree costs the busiest rank decides how small chunks are.
///
/// # Errors
/// As [`lower`].
pub fn lower_for(plan: &Plan, elements: u64, element_bytes: u64, overhead: Time) -> Result<Schedule> {
    let size = Bytes(elements * element_bytes);
    check_chunks(plan, size)?;
    Ok(lower_with(plan, elements, |phase, routes| {
        let overhead = Time(overhead.0 * busiest_rank(plan, phase));
        let trees = pipelines(plan, phase, routes).into_iter();
        trees.map(|tree| tree.with_overhead(overhead).chunks(size)).collect()
    }))
}

/// The same with every streamed tree in `chunks` chunks, or in as many as the plan itself says.
pub fn lower_in_chunks(plan: &Plan, elements: u64, chunks: u32) -> Schedule {
    lower_with(plan, elements, |phase, _| {
        let of_tree = |tree: &Tree| match tree.chunk {
            Chunk::One => 1,
            Chunk::Count(count) => count.max(1),
            Chunk::Bytes(_) | Chunk::Best => chunks,
        };
        plan.trees_of(phase).iter().map(of_tree).collect()
    })
}

fn lower_with(plan: &Plan, elements: u64, chunks_of: impl Fn(&Phase, &LaneRoutes) -> Vec<u32>) -> Schedule {
    let mut schedule = Schedule { elements, buffers: plan.rank_ids().collect(), ..Schedule::default() };
    let routes = LaneRoutes::new(&plan.topology, &plan.lanes);
    let chunks_of = |phase: &Phase| match phase.pace.is_stream() {
        true => chunks_of(phase, &routes),
        false => vec![1; phase.trees.len()],
    };
    let chunks: Vec<Vec<u32>> = plan.phases.iter().map(chunks_of).collect();
    // All-to-all's trees never touch the same block twice.
    let may_clash = plan.phases.len() > 1 && plan.collective != Collective::AllToAll;
    let mut hazards = may_clash.then(|| Hazards::new(plan.ranks(), all_pieces(plan, elements, &chunks)));
    for (number, (phase, chunks)) in plan.phases.iter().zip(&chunks).enumerate() {
        lower_phase(plan, phase, number as u16, chunks, &mut schedule, &mut hazards);
    }
    schedule
}

/// The elements of every chunk of every tree.
fn all_pieces(plan: &Plan, elements: u64, chunks: &[Vec<u32>]) -> impl Iterator<Item = Range<u64>> {
    let trees = plan.phases.iter().flat_map(|phase| plan.trees_of(phase));
    trees.zip(chunks.iter().flatten()).flat_map(move |(tree, &count)| {
        let span = elements_of(plan, elements, tree);
        (0..u64::from(count)).map(move |chunk| part_of(span.clone(), (chunk, count.into())))
    })
}

/// Messages that the busiest rank sends and receives when every tree carries one chunk.
fn busiest_rank(plan: &Plan, phase: &Phase) -> u64 {
    let mut messages = vec![0; plan.topology.nodes().len()];
    for tree in plan.trees_of(phase).iter().filter(|tree| tree.units() > 0) {
        for edge in Direction::BOTH.into_iter().flat_map(|direction| plan.half(phase, tree, direction)) {
            messages[edge.parent] += 1;
            messages[edge.child] += 1;
        }
    }
    messages.into_iter().max().unwrap_or(0)
}

fn lower_phase(
    plan: &Plan,
    phase: &Phase,
    number: u16,
    chunks: &[u32],
    schedule: &mut Schedule,
    hazards: &mut Option<Hazards>,
) {
    let first = schedule.len() as u32;
    let buffers = assign_buffers(plan, phase, schedule);
    for (rank, buffer, elements) in &buffers.copies {
        let (source, target) = (rank.0, *buffer);
        let lane = None;
        schedule.push(Transfer { lane, phase: number, step: 0, tree: 0, chunk: 0, op: Op::Local, source, target });
        schedule.pieces.push_row([elements.clone()]);
    }
    let parts = Parts::new(plan, phase, chunks, schedule.elements, &buffers);
    let groups = Groups::new(&parts, plan, phase);
    let first_message = schedule.len() as u32;
    groups.iter().for_each(|group| parts.append_transfer(group, number, schedule));
    let mut waits: Vec<(u32, u32)> = Vec::new();
    after_copies(&buffers, schedule, first, &mut waits);
    if let Some(hazards) = hazards {
        hazards.across_phases(schedule, first, &mut waits);
        hazards.end_phase(schedule, first);
    }
    waits.sort_unstable();
    let mut waits = waits.as_slice();
    let mut row = Vec::new();
    for transfer in first..schedule.len() as u32 {
        let (these, others) = waits.split_at(waits.partition_point(|&(later, _)| later == transfer));
        waits = others;
        row.clear();
        row.extend(these.iter().map(|&(_, before)| before));
        if transfer >= first_message {
            let before = groups.of(transfer - first_message).iter().flat_map(|&part| parts.after(part));
            row.extend(before.map(|part| first_message + groups.transfer_of[part as usize]));
        }
        if row.len() > 1 {
            row.sort_unstable();
            row.dedup();
        }
        schedule.dependencies.push_row(row.iter().copied());
    }
}

/// Writes into a rank's vector, and reads of a copy, wait for the copies of that rank's phase.
fn after_copies(buffers: &Buffers, schedule: &Schedule, first: u32, after: &mut Vec<(u32, u32)>) {
    let mut waits_for: HashMap<u32, Vec<u32>> = HashMap::new();
    for (id, (rank, buffer, _)) in (first..).zip(&buffers.copies) {
        waits_for.entry(rank.0).or_default().push(id);
        waits_for.entry(*buffer).or_default().push(id);
    }
    for transfer in first + buffers.copies.len() as u32..schedule.len() as u32 {
        let ends = [schedule.source[transfer as usize], schedule.target[transfer as usize]];
        let copies = ends.iter().filter_map(|buffer| waits_for.get(buffer)).flatten();
        after.extend(copies.map(|&copy| (transfer, copy)));
    }
}

/// Where a phase's trees keep what.
#[derive(Default)]
struct Buffers {
    /// Buffer of a node in a tree, where that is not the rank's main one.
    of_tree: HashMap<(usize, NodeId), u32>,
    /// Local copies: rank, buffer, elements.
    copies: Vec<(NodeId, u32, Range<u64>)>,
}

impl Buffers {
    /// The buffer of `node` in tree `number`.
    fn of(&self, number: usize, node: NodeId) -> u32 {
        if self.of_tree.is_empty() { node.0 } else { self.of_tree.get(&(number, node)).copied().unwrap_or(node.0) }
    }
}

/// Switches in trees get a buffer a tree. Where spans of a phase overlap, a rank that sends into a tree that
/// does not deliver to it sends from a copy: leaves of trees over the same span share one.
fn assign_buffers(plan: &Plan, phase: &Phase, schedule: &mut Schedule) -> Buffers {
    let mut buffers = Buffers::default();
    // All-to-all numbers every root's blocks apart: nothing overlaps.
    let overlapping = plan.collective != Collective::AllToAll && spans_overlap(plan.trees_of(phase));
    if plan.topology.is_direct() && !overlapping {
        return buffers;
    }
    let mut copy_of: HashMap<(NodeId, Range<u64>, Option<usize>), u32> = HashMap::new();
    let mut new_buffer = |node| {
        schedule.buffers.push(node);
        schedule.buffers.len() as u32 - 1
    };
    for number in phase.trees.clone() {
        let tree = &plan.trees[number];
        let span = elements_of(plan, schedule.elements, tree);
        for Member { node, inner, receives } in members(plan, phase, tree) {
            if !plan.topology.is_rank(node) {
                buffers.of_tree.insert((number, node), new_buffer(node));
            } else if overlapping && !receives && !span.is_empty() {
                let key = (node, span.clone(), inner.then_some(number));
                let buffer = *copy_of.entry(key).or_insert_with(|| {
                    let buffer = new_buffer(node);
                    buffers.copies.push((node, buffer, span.clone()));
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
    /// Whether others reduce into it.
    inner: bool,
    /// Whether it ends with the tree's result.
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

/// The elements of a tree's span.
fn elements_of(plan: &Plan, elements: u64, tree: &Tree) -> Range<u64> {
    cut(elements, plan.units, tree.span.start)..cut(elements, plan.units, tree.span.end)
}

/// Every edge of every tree and chunk of a phase that carries anything, as arrays, in an order that respects
/// the dependencies within each tree.
struct Parts {
    edge: Vec<Edge>,
    /// Tree and chunk of each part.
    of: Vec<(u32, u32)>,
    direction: Vec<Direction>,
    source: Vec<u32>,
    target: Vec<u32>,
    pieces: Csr<Range<u64>>,
    /// Parts that must come before each part: as siblings stand together, always a run.
    after: Vec<Range<u32>>,
    /// Parts that delivered to each node in the tree and chunk at hand.
    into: Vec<Range<u32>>,
}

impl Parts {
    fn new(plan: &Plan, phase: &Phase, chunks: &[u32], elements: u64, buffers: &Buffers) -> Self {
        let into = vec![0..0; plan.topology.nodes().len()];
        let (edge, of, direction, source, target) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut parts = Self { edge, of, direction, source, target, pieces: Csr::default(), after: Vec::new(), into };
        let (mut up, mut down): (Vec<Edge>, Vec<Edge>) = (Vec::new(), Vec::new());
        for (number, &count) in phase.trees.clone().zip(chunks) {
            let tree = &plan.trees[number];
            up.clear();
            up.extend(plan.half(phase, tree, Direction::Up));
            down.clear();
            down.extend(plan.half(phase, tree, Direction::Down));
            for chunk in (0..u64::from(count)).map(|chunk| (chunk, u64::from(count))) {
                if plan.collective == Collective::AllToAll {
                    parts.append_blocks(plan, (number, tree), &down, (elements, chunk), buffers);
                } else {
                    let piece = part_of(elements_of(plan, elements, tree), chunk);
                    if !piece.is_empty() {
                        parts.append_tree(tree, &up, &down, &piece, |node| buffers.of(number, node));
                    }
                }
                parts.of.resize(parts.edge.len(), (number as u32, chunk.0 as u32));
            }
        }
        parts
    }

    fn push(&mut self, edge: Edge, direction: Direction, (source, target): (u32, u32), after: Range<u32>) -> u32 {
        self.edge.push(edge);
        self.direction.push(direction);
        self.source.push(source);
        self.target.push(target);
        self.after.push(after);
        self.edge.len() as u32 - 1
    }

    fn after(&self, part: u32) -> Range<u32> {
        self.after[part as usize].clone()
    }

    /// One chunk of a tree that carries the same elements on every edge.
    fn append_tree(
        &mut self,
        tree: &Tree,
        up: &[Edge],
        down: &[Edge],
        piece: &Range<u64>,
        buffer: impl Fn(NodeId) -> u32,
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

    /// One chunk of an all-to-all tree: each edge carries the blocks of the ranks below it.
    fn append_blocks(
        &mut self,
        plan: &Plan,
        (number, tree): (usize, &Tree),
        down: &[Edge],
        (elements, chunk): (u64, (u64, u64)),
        buffers: &Buffers,
    ) {
        let buffer = |node| buffers.of(number, node);
        let units = plan.units / u64::from(plan.ranks());
        let at = |rank: NodeId, unit| {
            u64::from(tree.root) * elements + cut(elements, plan.units, u64::from(rank) * units + unit)
        };
        let mut below: Vec<Vec<Range<u64>>> = vec![Vec::new(); down.len()];
        let edge_into: HashMap<NodeId, usize> = down.iter().enumerate().map(|(i, edge)| (edge.child, i)).collect();
        for (i, edge) in down.iter().enumerate().rev() {
            if plan.topology.is_rank(edge.child) {
                let block = at(edge.child, tree.span.start)..at(edge.child, tree.span.end);
                below[i].push(part_of(block, chunk));
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
}

/// Chunk `number` of `count` of a range.
fn part_of(range: Range<u64>, (number, count): (u64, u64)) -> Range<u64> {
    let length = range.end - range.start;
    range.start + cut(length, count, number)..range.start + cut(length, count, number + 1)
}

/// Which parts travel together, in the order of the transfers.
struct Groups {
    /// Parts, group by group: group `g` is `order[first[g]..first[g + 1]]`.
    order: Vec<u32>,
    first: Vec<u32>,
    /// Group of each part.
    transfer_of: Vec<u32>,
}

impl Groups {
    fn new(parts: &Parts, plan: &Plan, phase: &Phase) -> Self {
        let count = parts.edge.len() as u32;
        let mut groups = Self { order: (0..count).collect(), first: vec![0], transfer_of: vec![0; count as usize] };
        if phase.pace.is_stream() {
            groups.first = (0..=count).collect();
            groups.transfer_of = (0..count).collect();
            return groups;
        }
        groups.order = order_by_step(parts.edge.iter().map(|edge| edge.step), phase.steps);
        let key = |part: u32| {
            let i = part as usize;
            (parts.edge[i].step, parts.edge[i].lane, parts.source[i], parts.target[i], parts.direction[i] as u8)
        };
        let step_of = |part: u32| parts.edge[part as usize].step;
        let mut last_use = vec![0u16; 2 * plan.lanes.len()];
        for step in groups.order.chunk_by_mut(|&a, &b| step_of(a) == step_of(b)) {
            // Most steps use every lane once: nothing to bring together.
            let number = step_of(step[0]);
            let mut lanes = step.iter().map(|&part| parts.edge[part as usize].lane.index());
            if lanes.any(|lane| std::mem::replace(&mut last_use[lane], number) == number) {
                step.sort_by_key(|&part| key(part));
            }
        }
        for group in groups.order.chunk_by(|&a, &b| key(a) == key(b)) {
            let number = groups.first.len() as u32 - 1;
            group.iter().for_each(|&part| groups.transfer_of[part as usize] = number);
            groups.first.push(groups.first[number as usize] + group.len() as u32);
        }
        groups
    }

    fn of(&self, group: u32) -> &[u32] {
        &self.order[self.first[group as usize] as usize..self.first[group as usize + 1] as usize]
    }

    fn iter(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.first.len() as u32 - 1).map(|group| self.of(group))
    }
}

impl Parts {
    /// Appends one transfer that carries all parts of `group`.
    fn append_transfer(&self, group: &[u32], phase: u16, schedule: &mut Schedule) {
        let first = group[0] as usize;
        let op = if self.direction[first] == Direction::Up { Op::Reduce } else { Op::Copy };
        let Edge { lane, step, .. } = self.edge[first];
        let (source, target) = (self.source[first], self.target[first]);
        let (tree, chunk) = self.of[first];
        schedule.push(Transfer { lane: Some(lane), phase, step, tree, chunk, op, source, target });
        schedule.pieces.push_row(group.iter().flat_map(|&part| self.pieces.row(part as usize).iter().cloned()));
    }
}

/// One row of a schedule, but for its pieces and dependencies.
struct Transfer {
    lane: Option<LaneRef>,
    phase: u16,
    step: u16,
    tree: u32,
    chunk: u32,
    op: Op,
    source: u32,
    target: u32,
}

impl Schedule {
    fn push(&mut self, transfer: Transfer) {
        self.lane.push(transfer.lane);
        self.phase.push(transfer.phase);
        self.step.push(transfer.step);
        self.tree.push(transfer.tree);
        self.chunk.push(transfer.chunk);
        self.op.push(transfer.op);
        self.source.push(transfer.source);
        self.target.push(transfer.target);
    }
}
