//! Lowering makes a schedule of a plan and a size.
//!
//! Going up, a transfer depends on all up-edges into its source. Going down, it depends on the edge that delivered to
//! its source (at the root, on all its up-edges). See [`super::hazards`] for dependencies between phases. In phases
//! with steps, transfers with the same lane, step and buffers are merged into one message; a stream repeats each tree
//! for each of its chunks. Equal partial sums are one message (`sums.rs`).
//!
//! Cost: linear in transfers and dependencies, except for one sort of each.

mod buffers;
mod groups;
mod parts;
mod sums;

use std::ops::Range;

use super::hazards::Hazards;
use super::pipeline::{check_chunks, pipelines};
use super::schedule::{BufferId, Op, Schedule, TransferId, Wait, cut};
use super::{Chunk, Direction, LaneRef, LaneRoutes, Pace, Phase, Plan, Step, Tree, Walkable};
use crate::bail;
use crate::error::Result;
use crate::topology::NodeId;
use crate::units::{Bytes, Time};
use buffers::{CopiesAt, LocalCopy, assign_buffers};
use groups::Groups;
use parts::{ChunkOf, Parts, part_of};

/// Lowers `plan` for vectors of `elements` elements of `element_bytes` bytes.
///
/// # Errors
/// If no vector has such a size, an element has no bytes, or the plan asks for more chunks than treefold handles.
///
/// ```
/// use std::sync::Arc;
/// use treefold::plan::check_schedule::check_schedule;
/// use treefold::plan::lower;
/// use treefold::plan::schedule::TransferId;
/// use treefold::planners::{self, Options};
/// use treefold::topology::from_spec;
///
/// let ring = Arc::new(from_spec("ring:4", None, None)?);
/// let plan = planners::plan("ring", &ring, &Options::default())?;
/// let schedule = lower(&plan, 1000, 4)?;
/// assert_eq!(schedule.len(), 4 * 2 * 3, "each rank sends a quarter in each of 2 (4 - 1) steps");
/// assert_eq!(schedule.elements_of(TransferId(0)), 250);
/// check_schedule(&plan, &schedule)?;
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn lower<'a>(plan: impl Into<Walkable<'a>>, elements: u64, element_bytes: u64) -> Result<Schedule> {
    lower_for(plan.into().walked(), elements, element_bytes, Time::ZERO)
}

/// Lowers `plan` for ranks that each spend `overhead` on a message that they send or receive. The time that a chunk of
/// every tree costs the busiest rank decides how small chunks are.
///
/// # Errors
/// The errors of [`lower`].
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
/// use treefold::plan::lower_for;
/// use treefold::units::parse_time;
///
/// let plan = planners::plan("dbtree", &ring, &Options::default())?;
/// let [cheap, dear] = ["0s", "1ms"].map(|each| lower_for(&plan, 1 << 20, 4, parse_time(each).unwrap()));
/// assert!(cheap?.len() > dear?.len(), "messages that cost more are fewer");
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn lower_for(plan: &Plan, elements: u64, element_bytes: u64, overhead: Time) -> Result<Schedule> {
    let size = lowerable_size(plan, elements, element_bytes)?;
    Ok(lower_with(plan, elements, |phase, routes| best_chunks(plan, phase, routes, size, overhead)))
}

/// Lowers `plan` as [`lower_for`] does, but phases in sub-flows as [`lower_in_chunks`] does.
///
/// # Errors
/// The errors of [`lower`].
pub(super) fn lower_in_sub_flows(
    plan: &Plan,
    elements: u64,
    element_bytes: u64,
    overhead: Time,
    sub_flows: u32,
) -> Result<Schedule> {
    let size = lowerable_size(plan, elements, element_bytes)?;
    Ok(lower_with(plan, elements, |phase, routes| match phase.pace {
        Pace::SubFlows => in_chunks(plan, phase, sub_flows),
        _ => best_chunks(plan, phase, routes, size, overhead),
    }))
}

/// Returns the size of a vector of `elements` elements of `element_bytes` bytes.
///
/// # Errors
/// If elements are empty, or the plan asks for more chunks of this size than treefold handles.
fn lowerable_size(plan: &Plan, elements: u64, element_bytes: u64) -> Result<Bytes> {
    if element_bytes == 0 {
        bail!("element_bytes must be at least 1, got 0");
    }
    let size = Bytes::new(elements.saturating_mul(element_bytes))?;
    check_chunks(plan, size)?;
    Ok(size)
}

/// Returns the number of chunks of each tree of a streamed phase that is best where a message costs a rank `overhead`.
fn best_chunks(plan: &Plan, phase: &Phase, routes: &LaneRoutes, size: Bytes, overhead: Time) -> Vec<u32> {
    let overhead = Time::from_picoseconds(overhead.picoseconds() * busiest_rank(plan, phase));
    let trees = pipelines(plan, phase, routes).into_iter();
    trees.map(|tree| tree.with_overhead(overhead).chunks(size)).collect()
}

/// Lowers `plan` with every streamed tree in `chunks` chunks, or in as many as the plan itself says.
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
/// use treefold::plan::lower_in_chunks;
///
/// let plan = planners::plan("dbtree", &ring, &Options::default())?;
/// assert_eq!(lower_in_chunks(&plan, 1 << 20, 8).len(), 8 * lower_in_chunks(&plan, 1 << 20, 1).len());
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn lower_in_chunks(plan: &Plan, elements: u64, chunks: u32) -> Schedule {
    lower_with(plan, elements, |phase, _| in_chunks(plan, phase, chunks))
}

fn in_chunks(plan: &Plan, phase: &Phase, chunks: u32) -> Vec<u32> {
    let of_tree = |tree: &Tree| match tree.chunk {
        Chunk::One => 1,
        Chunk::Count(count) => count.max(1),
        Chunk::Bytes(_) | Chunk::Best => chunks,
    };
    plan.trees_of(phase).iter().map(of_tree).collect()
}

fn lower_with(plan: &Plan, elements: u64, chunks_of: impl Fn(&Phase, &LaneRoutes) -> Vec<u32>) -> Schedule {
    let mut schedule = Schedule { elements, buffers: plan.rank_ids().collect(), ..Schedule::default() };
    let routes = LaneRoutes::new(&plan.topology, &plan.lanes);
    let chunks_of = |phase: &Phase| match phase.pace.is_stream() {
        true => chunks_of(phase, &routes),
        false => vec![1; phase.trees.len()],
    };
    let chunks: Vec<Vec<u32>> = plan.phases.iter().map(chunks_of).collect();
    // If each block is for one rank, no two trees touch the same block.
    let may_clash = plan.phases.len() > 1 && !plan.collective.is_personalized();
    let mut hazards = may_clash.then(|| Hazards::new(plan.ranks(), all_pieces(plan, elements, &chunks)));
    for (number, (phase, chunks)) in plan.phases.iter().zip(&chunks).enumerate() {
        lower_phase(plan, phase, number as u16, chunks, &mut schedule, &mut hazards);
    }
    schedule
}

/// Returns the elements of every chunk of every tree.
fn all_pieces(plan: &Plan, elements: u64, chunks: &[Vec<u32>]) -> impl Iterator<Item = Range<u64>> {
    let trees = plan.phases.iter().flat_map(|phase| plan.trees_of(phase));
    trees.zip(chunks.iter().flatten()).flat_map(move |(tree, &count)| {
        let span = elements_of(plan, elements, tree);
        (0..u64::from(count)).map(move |chunk| part_of(span.clone(), ChunkOf { number: chunk, count: count.into() }))
    })
}

/// Returns how many messages the busiest rank sends and receives when every tree carries one chunk.
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
    let first = TransferId::new(schedule.len());
    if let Some(sums) = plan.equal_sums(phase) {
        let (copies, waits) = sums::append(plan, &sums, number, schedule);
        return add_dependencies(schedule, first, &copies, waits, hazards, |_, _| {});
    }
    let buffers = assign_buffers(plan, phase, chunks, schedule);
    buffers.copies.iter().for_each(|copy| schedule.push_copy(copy, number));
    let parts = Parts::new(plan, phase, chunks, schedule.elements, &buffers);
    let groups = Groups::new(&parts, plan, phase);
    let first_message = TransferId::new(schedule.len());
    groups.iter().for_each(|group| parts.append_transfer(group, number, schedule));
    // These are far too many to be sorted with the others.
    let in_trees = |transfer: TransferId, row: &mut Vec<TransferId>| {
        if transfer >= first_message {
            let before = groups.of(transfer.0 - first_message.0).iter().flat_map(|&part| parts.after(part));
            row.extend(before.map(|part| TransferId(first_message.0 + groups.transfer_of[part as usize])));
        }
    };
    add_dependencies(schedule, first, &buffers.copies, Vec::new(), hazards, in_trees);
}

/// Adds the dependencies of a phase's transfers, which begin with its copies: these `waits`, what follows from copies
/// and from earlier phases, and what `add_more` adds to the row of each.
fn add_dependencies(
    schedule: &mut Schedule,
    first: TransferId,
    copies: &[LocalCopy],
    mut waits: Vec<Wait>,
    hazards: &mut Option<Hazards>,
    add_more: impl Fn(TransferId, &mut Vec<TransferId>),
) {
    after_copies(copies, schedule, first, &mut waits);
    if let Some(hazards) = hazards {
        hazards.across_phases(schedule, first, &mut waits);
        hazards.end_phase(schedule, first);
    }
    waits.sort_unstable();
    let mut rest = waits.as_slice();
    let mut row = Vec::new();
    for transfer in schedule.ids_from(first) {
        let (these, others) = rest.split_at(rest.partition_point(|wait| wait.later == transfer));
        rest = others;
        row.clear();
        row.extend(these.iter().map(|wait| wait.earlier));
        add_more(transfer, &mut row);
        if row.len() > 1 {
            row.sort_unstable();
            row.dedup();
        }
        schedule.dependencies.push_row(row.iter().copied());
    }
}

/// Makes writes into a rank's vector, and reads of a copy, wait for the copies of the same elements in that phase.
fn after_copies(copies: &[LocalCopy], schedule: &Schedule, first: TransferId, waits: &mut Vec<Wait>) {
    let copies_at = CopiesAt::new(copies, first);
    for later in schedule.ids_from(first).skip(copies.len()) {
        for buffer in [schedule.source[later], schedule.target[later]] {
            let pieces = schedule.pieces.row(later).iter();
            let before = pieces.flat_map(|piece| copies_at.meeting(buffer, piece));
            waits.extend(before.map(|earlier| Wait { later, earlier }));
        }
    }
}

/// Returns the elements of a tree's span.
fn elements_of(plan: &Plan, elements: u64, tree: &Tree) -> Range<u64> {
    cut(elements, plan.units, tree.span.start)..cut(elements, plan.units, tree.span.end)
}

/// A row of a schedule without its pieces and dependencies.
struct Transfer {
    lane: Option<LaneRef>,
    phase: u16,
    step: Option<Step>,
    tree: u32,
    chunk: u32,
    op: Op,
    source: BufferId,
    target: BufferId,
}

impl Schedule {
    /// Adds a buffer at a node.
    fn add_buffer(&mut self, node: NodeId) -> BufferId {
        self.buffers.push(node);
        BufferId::new(self.buffers.len() - 1)
    }

    /// Appends a copy from a rank's vector.
    fn push_copy(&mut self, copy: &LocalCopy, phase: u16) {
        let (source, target) = (BufferId::of_rank(copy.rank), copy.buffer);
        self.push(Transfer { lane: None, phase, step: None, tree: 0, chunk: 0, op: Op::Local, source, target });
        self.pieces.push_row([copy.elements.clone()]);
    }

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
