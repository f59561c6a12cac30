//! Numbers that cross lines in another type than the vector's: whether all ranks end alike, and where blocks begin.
//!
//! A result is passed on from rank to rank, and each decodes and encodes it. It stays the same if its blocks are the
//! same in all messages. So no block crosses an end of a piece of any message that carries results.
//! Cost: one sort of the ends of all such pieces.

use std::collections::HashSet;
use std::ops::Range;

use super::{Program, Task, TaskId};
use crate::error::Result;
use crate::number::wire::Wire;
use crate::plan::schedule::{BufferId, Csr, Op, Schedule, TransferId};
use crate::plan::{Collective, Plan};
use crate::units::Time;

/// A cost of messages, in picoseconds, with which schedules have few chunks.
const COARSE: u64 = 1_000_000_000;

impl Program {
    /// Lowers a plan for numbers that cross lines as `wire`, or as they are where the ranks would not end alike.
    pub(super) fn lower_as(
        wire: Option<Wire>,
        plan: &Plan,
        elements: u64,
        element_bytes: u64,
        overhead: Time,
    ) -> Result<(Schedule, Option<Wire>)> {
        if let Some(wire) = wire {
            let schedule = Self::lower(plan, elements, wire.element_bytes() as u64, overhead)?;
            if ends_alike(plan, &schedule) {
                return Ok((schedule, Some(wire)));
            }
        }
        Ok((Self::lower(plan, elements, element_bytes, overhead)?, None))
    }

    /// Returns whether numbers can cross lines as `wire` in a plan, as all ranks end alike.
    pub fn carries(plan: &Plan, wire: Wire, elements: u64) -> bool {
        let schedule = Self::lower(plan, elements, wire.element_bytes() as u64, Time::from_picoseconds(COARSE));
        schedule.is_ok_and(|schedule| ends_alike(plan, &schedule))
    }

    /// Lets the numbers cross lines as `wire`.
    pub(super) fn crossing(mut self, wire: Option<Wire>, schedule: &Schedule) -> Self {
        if wire.is_none() {
            return self;
        }
        self.wire = wire;
        let is_pair = is_pair(self.collective, self.ranks, schedule);
        let carries_results = |op: Op| op == Op::Copy || is_pair && op == Op::Reduce;
        let (cuts, copies) =
            (cuts(schedule, carries_results), copies_of_results(schedule, self.ranks, carries_results));
        let is_final = |&id: &TransferId| match schedule.op[id] {
            Op::Local => copies.contains(&schedule.target[id]),
            op => carries_results(op),
        };
        self.is_final = self.transfer.iter().map(is_final).collect();
        self.offset = self.offsets(schedule);
        let mut cut_pieces = Csr::default();
        for (task, &id) in TaskId::first(self.tasks.len()).zip(&self.transfer) {
            let pieces = self.pieces.row(task).iter().zip(schedule.pieces.row(id));
            let cuts = if self.is_final[task] { &cuts[..] } else { &[] };
            cut_pieces.push_row(pieces.flat_map(|(place, piece)| cut_up(place, piece, cuts, self.element_bytes)));
        }
        self.pieces = cut_pieces;
        let is_send = |task: &TaskId| matches!(self.tasks[*task], Task::Send(_));
        let sends: Vec<usize> = TaskId::first(self.tasks.len()).filter(is_send).map(|task| self.bytes(task)).collect();
        self.mean_bytes = sends.iter().sum::<usize>() / sends.len().max(1);
        self
    }

    /// Returns for each task how far the places of its pieces are behind those of the same elements in the vector. Only
    /// in an all-reduce all data belong to elements of the vector.
    fn offsets(&self, schedule: &Schedule) -> Vec<usize> {
        if self.collective != Collective::AllReduce {
            return Vec::new();
        }
        let offset = |(task, &id): (TaskId, &TransferId)| {
            let (places, pieces) = (self.pieces.row(task), schedule.pieces.row(id));
            places.first().map_or(0, |place| place.start - (pieces[0].start * self.element_bytes) as usize)
        };
        TaskId::first(self.tasks.len()).zip(&self.transfer).map(offset).collect()
    }

    /// Returns the bytes of a piece as it crosses lines.
    pub(in crate::run) fn bytes_crossing(&self, piece: &Range<usize>) -> usize {
        let bytes = piece.end - piece.start;
        self.wire.map_or(bytes, |wire| wire.bytes(bytes / self.element_bytes as usize))
    }

    /// Returns the bytes of an element as it crosses lines, without its part of a block's scale.
    pub fn element_bytes_crossing(&self) -> u64 {
        self.wire.map_or(self.element_bytes, |wire| wire.element_bytes() as u64)
    }
}

/// Returns whether all ranks that have a value at the end have the one that its sender has, too. In an all-reduce, that
/// is so if all but one rank are sent each element of the result.
fn ends_alike(plan: &Plan, schedule: &Schedule) -> bool {
    let ranks = plan.ranks();
    let is_pair = is_pair(plan.collective, ranks, schedule);
    let carries_results = |op: Op| op == Op::Copy || is_pair && op == Op::Reduce;
    let copies = || schedule.ids().filter(|&id| carries_results(schedule.op[id]));
    if plan.collective == Collective::ReduceScatter || plan.collective == Collective::Reduce {
        return true;
    }
    let local = copies_of_results(schedule, ranks, carries_results);
    let adds = |id: &TransferId| matches!(schedule.op[*id], Op::Reduce | Op::LocalReduce);
    let has_sums = schedule.ids().filter(adds).any(|id| local.contains(&schedule.target[id]));
    if has_sums || copies().any(|id| schedule.target[id].rank(ranks).is_none()) {
        return false;
    }
    if plan.collective != Collective::AllReduce || is_pair {
        return true;
    }
    let mut steps: Vec<(u64, i64)> = Vec::new();
    for id in copies() {
        steps.extend(schedule.pieces.row(id).iter().flat_map(|piece| [(piece.start, 1), (piece.end, -1)]));
    }
    steps.sort_unstable();
    let wanted = i64::from(ranks) - 1;
    let (mut at, mut count, mut is_all) = (0, 0, true);
    for (element, step) in steps {
        is_all &= element == at || count == wanted;
        (at, count) = (element, count + step);
    }
    is_all && (at == schedule.elements || wanted == 0)
}

/// Returns whether two ranks send each other what they have, and both add up: if both round what they have, they add
/// the same two numbers.
fn is_pair(collective: Collective, ranks: u32, schedule: &Schedule) -> bool {
    collective == Collective::AllReduce && ranks == 2 && !schedule.op.contains(&Op::Copy)
}

/// Returns the buffers that are no vectors, but local copies of results, from which they are sent.
fn copies_of_results(schedule: &Schedule, ranks: u32, carries_results: impl Fn(Op) -> bool) -> HashSet<BufferId> {
    let results = schedule.ids().filter(|&id| carries_results(schedule.op[id]));
    results.map(|id| schedule.source[id]).filter(|buffer| buffer.rank(ranks).is_none()).collect()
}

/// Returns where pieces of results begin and end, in order.
fn cuts(schedule: &Schedule, carries_results: impl Fn(Op) -> bool) -> Vec<u64> {
    let results = schedule.ids().filter(|&id| carries_results(schedule.op[id]));
    let mut cuts: Vec<u64> =
        results.flat_map(|id| schedule.pieces.row(id).iter().flat_map(|piece| [piece.start, piece.end])).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Cuts the place of a piece where the piece is cut.
fn cut_up<'a>(
    place: &'a Range<usize>,
    piece: &'a Range<u64>,
    cuts: &'a [u64],
    element_bytes: u64,
) -> impl Iterator<Item = Range<usize>> + 'a {
    let first = cuts.partition_point(|&cut| cut <= piece.start);
    let inner = cuts[first..].iter().copied().take_while(|&cut| cut < piece.end);
    let at = move |cut: u64| place.start + ((cut - piece.start) * element_bytes) as usize;
    let mut start = place.start;
    inner.map(at).chain([place.end]).map(move |end| std::mem::replace(&mut start, end)..end)
}
