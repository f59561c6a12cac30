//! What the tasks of a rank wait for.

use std::collections::HashMap;
use std::ops::Range;

use super::{Task, TaskId};
use crate::ids::NodeId;
use crate::plan::Step;
use crate::plan::schedule::{Csr, Schedule, TransferId};

/// A dependency between two tasks of a rank. Wakes are ordered by the earlier task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Wake {
    earlier: TaskId,
    later: TaskId,
}

/// Returns how many tasks each task waits for, and the tasks that wait for it.
pub(super) fn waits(
    schedule: &Schedule,
    own: &[TransferId],
    tasks: &[Task],
    pieces: &Csr<Range<usize>>,
    local_target: &HashMap<TaskId, usize>,
) -> (Vec<u32>, Csr<TaskId>) {
    let task_of = |id: &TransferId| own.binary_search(id).ok().map(TaskId::new);
    let mut all: Vec<Wake> = Vec::new();
    let mut last_sent: HashMap<usize, TaskId> = HashMap::new();
    let mut terms: Vec<Term> = Vec::new();
    let mut term = |start, id, task| terms.push(Term { start, turn: turn_of_term(schedule, id), task });
    for ((later, id), task) in TaskId::first(own.len()).zip(own).zip(tasks) {
        all.extend(schedule.dependencies.row(*id).iter().filter_map(task_of).map(|earlier| Wake { earlier, later }));
        let starts = pieces.row(later).iter().map(|piece| piece.start);
        match task {
            Task::Send(_) => last_sent.extend(starts.map(|start| (start, later))),
            Task::Replace(_) => {
                let sends = starts.filter_map(|start| last_sent.get(&start));
                all.extend(sends.map(|&earlier| Wake { earlier, later }));
            }
            Task::Reduce(_) => starts.for_each(|start| term(start, *id, later)),
            Task::Add => term(local_target[&later], *id, later),
            Task::Copy => {}
        }
    }
    all.extend(in_order(terms));
    all.sort_unstable();
    all.dedup();
    let mut waits = vec![0; own.len()];
    all.iter().for_each(|wake| waits[wake.later] += 1);
    (waits, Csr::of_pairs(own.len(), all.iter().map(|wake| (wake.earlier.index(), wake.later))))
}

/// A task that adds to the elements from `start` on.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Term {
    start: usize,
    turn: (u16, Option<Step>, NodeId),
    task: TaskId,
}

/// Returns when a term is added: by phase, by step, then by the rank from which it comes. It is added within the rank's
/// memory after the message that brings it.
fn turn_of_term(schedule: &Schedule, id: TransferId) -> (u16, Option<Step>, NodeId) {
    let before = (0..=id.0).rev().map(TransferId);
    let message = before.into_iter().find(|&id| !schedule.op[id].is_local()).unwrap_or(id);
    (schedule.phase[message], schedule.step[message], schedule.buffers[schedule.source[message]])
}

/// Returns who waits for whom so that the terms of a sum are added in turn: sums of floating point depend on the order
/// of their terms, which must not be that of arrival, nor depend on what else is in the messages.
fn in_order(mut terms: Vec<Term>) -> Vec<Wake> {
    terms.sort_unstable();
    let of_one_sum = terms.windows(2).filter(|pair| pair[0].start == pair[1].start);
    of_one_sum.map(|pair| Wake { earlier: pair[0].task, later: pair[1].task }).collect()
}
