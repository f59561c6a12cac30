//! What the tasks of a rank wait for.

use std::collections::HashMap;
use std::ops::Range;

use super::{Task, TaskId};
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
) -> (Vec<u32>, Csr<TaskId>) {
    let task_of = |id: &TransferId| own.binary_search(id).ok().map(TaskId::new);
    let mut all: Vec<Wake> = Vec::new();
    let mut last_sent: HashMap<usize, TaskId> = HashMap::new();
    for ((later, id), task) in TaskId::first(own.len()).zip(own).zip(tasks) {
        all.extend(schedule.dependencies.row(*id).iter().filter_map(task_of).map(|earlier| Wake { earlier, later }));
        let starts = pieces.row(later).iter().map(|piece| piece.start);
        match task {
            Task::Send(_) => last_sent.extend(starts.map(|start| (start, later))),
            Task::Replace(_) => {
                let sends = starts.filter_map(|start| last_sent.get(&start));
                all.extend(sends.map(|&earlier| Wake { earlier, later }));
            }
            Task::Reduce(_) | Task::Copy | Task::Add => {}
        }
    }
    all.sort_unstable();
    all.dedup();
    let mut waits = vec![0; own.len()];
    all.iter().for_each(|wake| waits[wake.later] += 1);
    (waits, Csr::of_pairs(own.len(), all.iter().map(|wake| (wake.earlier.index(), wake.later))))
}
