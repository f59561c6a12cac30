//! The transfers of a phase in which equal partial sums are sent once.
//!
//! A rank keeps each of its partial sums in a buffer, which begins as a copy of its vector; a sum that nothing is added
//! to is such a copy, too, as the vector becomes the rank's result. A message for one sum is added to its buffer as it
//! comes. A message for several has a buffer of its own, from which it is added to each.

use super::buffers::LocalCopy;
use super::{Transfer, elements_of};
use crate::plan::Plan;
use crate::plan::schedule::{BufferId, Op, Schedule, TransferId, Wait};
use crate::plan::sums::{Sum, SumMessage, SumMessageId, Sums};

/// Appends the copies and messages of a phase; returns the copies, and what waits for what, besides copies.
pub(super) fn append(plan: &Plan, sums: &Sums, phase: u16, schedule: &mut Schedule) -> (Vec<LocalCopy>, Vec<Wait>) {
    let order: Vec<SumMessageId> =
        sums.in_order().into_iter().filter(|&id| carries(plan, sums, id, schedule)).collect();
    let mut work = Work { plan, sums, phase, buffer_of: Vec::new(), into: vec![Vec::new(); sums.sums.len()] };
    let copies = work.assign_buffers(schedule);
    copies.iter().for_each(|copy| schedule.push_copy(copy, phase));
    let mut waits = Vec::new();
    order.into_iter().for_each(|id| work.append_message(id, schedule, &mut waits));
    (copies, waits)
}

/// Returns whether a message has any elements.
fn carries(plan: &Plan, sums: &Sums, id: SumMessageId, schedule: &Schedule) -> bool {
    !elements_of(plan, schedule.elements, &plan.trees[sums.messages[id].tree]).is_empty()
}

struct Work<'a> {
    plan: &'a Plan,
    sums: &'a Sums,
    phase: u16,
    buffer_of: Vec<BufferId>,
    /// The transfers that have added to each sum.
    into: Vec<Vec<TransferId>>,
}

impl Work<'_> {
    /// Gives each sum a buffer; returns the copies with which buffers begin. The buffer of a switch begins empty.
    fn assign_buffers(&mut self, schedule: &mut Schedule) -> Vec<LocalCopy> {
        let (sums, mut copies) = (self.sums, Vec::new());
        for &Sum { node: rank, tree, is_result, .. } in &sums.sums {
            let is_rank = self.plan.topology.is_rank(rank);
            let buffer = if is_result && is_rank { BufferId::of_rank(rank) } else { schedule.add_buffer(rank) };
            self.buffer_of.push(buffer);
            let elements = elements_of(self.plan, schedule.elements, &self.plan.trees[tree]);
            if is_rank && !is_result && !elements.is_empty() {
                copies.push(LocalCopy { rank, buffer, elements });
            }
        }
        copies
    }

    /// Appends a message, and what adds it to the sums of its receiver.
    fn append_message(&mut self, id: SumMessageId, schedule: &mut Schedule, waits: &mut Vec<Wait>) {
        let SumMessage { edge, tree, sum, into } = &self.sums.messages[id];
        let transfer = TransferId::new(schedule.len());
        let target = match into[..] {
            [only] => self.buffer_of[only],
            _ => schedule.add_buffer(edge.parent),
        };
        self.push(schedule, Op::Reduce, Some(id), [self.buffer_of[*sum], target], *tree);
        waits.extend(self.into[*sum].iter().map(|&earlier| Wait { later: transfer, earlier }));
        if let [only] = into[..] {
            self.into[only].push(transfer);
            return;
        }
        for &sum in into {
            let later = TransferId::new(schedule.len());
            self.push(schedule, Op::LocalReduce, None, [target, self.buffer_of[sum]], *tree);
            waits.push(Wait { later, earlier: transfer });
            self.into[sum].push(later);
        }
    }

    fn push(
        &self,
        schedule: &mut Schedule,
        op: Op,
        message: Option<SumMessageId>,
        [source, target]: [BufferId; 2],
        tree: usize,
    ) {
        let edge = message.map(|id| self.sums.messages[id].edge);
        let (lane, step) = (edge.map(|edge| edge.lane), edge.and_then(|edge| edge.step));
        schedule.push(Transfer { lane, phase: self.phase, step, tree: tree as u32, chunk: 0, op, source, target });
        schedule.pieces.push_row([elements_of(self.plan, schedule.elements, &self.plan.trees[tree])]);
    }
}
