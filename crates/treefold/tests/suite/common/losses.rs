//! Schedules that lack a dependency.

use treefold::plan::Plan;
use treefold::plan::check_schedule::check_schedule;
use treefold::plan::lower;
use treefold::plan::schedule::{Csr, Schedule, TransferId};

/// Rows that differ from `rows` in row `id` alone.
pub fn with_row<T: Clone>(rows: &Csr<T>, id: TransferId, row: Vec<T>) -> Csr<T> {
    let mut changed = Csr { first: vec![0], items: Vec::new() };
    for other in TransferId::first(rows.first.len() - 1) {
        changed.push_row(if other == id { row.clone() } else { rows.row(other).to_vec() });
    }
    changed
}

/// `schedule` without what transfer `id` waits for, as far as `drop` says so.
pub fn without(schedule: &Schedule, id: TransferId, drop: impl Fn(TransferId) -> bool) -> Schedule {
    let kept = schedule.dependencies.row(id).iter().copied().filter(|&before| !drop(before)).collect();
    Schedule { dependencies: with_row(&schedule.dependencies, id, kept), ..schedule.clone() }
}

/// Whether `later` comes after `earlier` by the dependencies.
pub fn implied(schedule: &Schedule, earlier: TransferId, later: TransferId) -> bool {
    let mut stack = vec![later];
    while let Some(id) = stack.pop() {
        let before = schedule.dependencies.row(id);
        if before.contains(&earlier) {
            return true;
        }
        stack.extend(before.iter().filter(|&&other| other > earlier));
    }
    false
}

/// Removes each dependency in turn, where nothing else implies it: returns how many there were.
pub fn every_loss_shows(
    plan: &Plan,
    elements: u64,
    which: impl Fn(&Schedule, TransferId, TransferId) -> bool,
) -> usize {
    let schedule = lower(plan, elements, 4).unwrap();
    check_schedule(plan, &schedule).unwrap();
    let mut losses = 0;
    for id in schedule.ids() {
        for &before in schedule.dependencies.row(id).iter().filter(|&&before| which(&schedule, id, before)) {
            let lossy = without(&schedule, id, |other| other == before);
            if !implied(&lossy, before, id) {
                refuses_schedule(plan, &lossy, "race for buffer");
                losses += 1;
            }
        }
    }
    losses
}

#[track_caller]
pub fn refuses_schedule(plan: &Plan, schedule: &Schedule, expected: &str) {
    match check_schedule(plan, schedule) {
        Ok(()) => panic!("accepted; expected: {expected}"),
        Err(error) => assert!(error.to_string().contains(expected), "{error}; expected: {expected}"),
    }
}
