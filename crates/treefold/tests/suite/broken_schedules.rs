//! Deliberately broken schedules: the oracle refuses each and says why.

use crate::common::losses::{every_loss_shows, refuses_schedule, with_row, without};
use crate::common::planned;
use treefold::plan::Plan;
use treefold::plan::check_schedule::check_schedule;
use treefold::plan::lower;
use treefold::plan::schedule::{BufferId, Op, Schedule, TransferId};
use treefold::topology::NodeId;

/// MultiTree on the 2x2 mesh with four elements a rank's part, and its schedule.
fn lowered() -> (Plan, Schedule) {
    let plan = planned("multitree", "mesh:2x2");
    let schedule = lower(&plan, 16, 4).unwrap();
    check_schedule(&plan, &schedule).unwrap();
    (plan, schedule)
}

/// The first transfer of this kind that waits for another.
fn waiting(schedule: &Schedule, op: Op) -> TransferId {
    let found = schedule.ids().find(|&id| schedule.op[id] == op && !schedule.dependencies.row(id).is_empty());
    found.expect("there is one")
}

/// Appends transfer `id` once more, after everything else.
fn doubled(schedule: &Schedule, id: TransferId) -> Schedule {
    let mut twice = schedule.clone();
    let pieces = schedule.pieces.row(id).to_vec();
    twice.lane.push(schedule.lane[id]);
    twice.phase.push(schedule.phase[id]);
    twice.step.push(schedule.step[id]);
    twice.op.push(schedule.op[id]);
    twice.source.push(schedule.source[id]);
    twice.target.push(schedule.target[id]);
    twice.pieces.push_row(pieces);
    twice.dependencies.push_row(schedule.ids());
    twice
}

#[test]
fn a_doubled_transfer() {
    let (plan, schedule) = lowered();
    refuses_schedule(&plan, &doubled(&schedule, TransferId(0)), "ends with a wrong result");
}

#[test]
fn a_lost_dependency_of_a_reduction() {
    let (plan, schedule) = lowered();
    refuses_schedule(&plan, &without(&schedule, waiting(&schedule, Op::Reduce), |_| true), "race for buffer");
}

#[test]
fn a_lost_dependency_of_a_broadcast() {
    let (plan, schedule) = lowered();
    refuses_schedule(&plan, &without(&schedule, waiting(&schedule, Op::Copy), |_| true), "race for buffer");
}

#[test]
fn a_reduction_that_became_a_copy() {
    let (plan, mut schedule) = lowered();
    let last = waiting(&schedule, Op::Reduce);
    schedule.op[last] = Op::Copy;
    assert!(check_schedule(&plan, &schedule).is_err());
    // Even in an order without races: two ranks, so only one reduction into each root.
    let pair = planned("ring", "line:2");
    let mut schedule = lower(&pair, 2, 4).unwrap();
    let first = schedule.op.iter().position(|&op| op == Op::Reduce).unwrap();
    schedule.op[first] = Op::Copy;
    refuses_schedule(&pair, &schedule, "ends with a wrong result from element");
}

#[test]
fn a_dependency_on_a_later_transfer() {
    let (plan, mut schedule) = lowered();
    schedule.dependencies = with_row(&schedule.dependencies, TransferId(0), vec![TransferId(3)]);
    refuses_schedule(&plan, &schedule, "transfer 0 depends on 3, which does not come before it");
}

#[test]
fn a_piece_cut_short() {
    let (plan, mut schedule) = lowered();
    let piece = schedule.pieces.row(TransferId(0))[0].clone();
    schedule.pieces = with_row(&schedule.pieces, TransferId(0), vec![piece.start..piece.end - 1]);
    refuses_schedule(&plan, &schedule, &format!("wrong result from element {}", piece.end - 1));
}

#[test]
fn a_buffer_that_does_not_exist_or_is_empty() {
    let (plan, mut schedule) = lowered();
    let (from, to) = (schedule.source[0], schedule.target[0]);
    schedule.source[0] = BufferId(4);
    refuses_schedule(&plan, &schedule, "transfer 0 uses a buffer that does not exist");
    schedule.buffers.push(NodeId(to.0));
    let expected = format!("transfer 0 moves from node {to} to {to}, but its lane from node {from} to {to}");
    refuses_schedule(&plan, &schedule, &expected);
    schedule.buffers[4] = NodeId(from.0);
    refuses_schedule(&plan, &schedule, "transfer 0 reads buffer 4 from element 0 on, which holds nothing");
    schedule.source[0] = schedule.target[0];
    refuses_schedule(&plan, &schedule, "reads and writes the same buffer");
}

#[test]
fn any_lost_dependency() {
    for (algorithm, text) in
        [("multitree", "mesh:2x3"), ("halving-doubling", "full:6"), ("dbtree", "ring:5"), ("ring2d", "torus:3x3")]
    {
        assert!(every_loss_shows(&planned(algorithm, text), 72, |_, _, _| true) > 10, "{algorithm}");
    }
}

/// 2D-ring: a fast column must not overwrite what a slow row still has to send.
#[test]
fn a_lost_write_after_read_between_phases() {
    let overwrites_a_read = |schedule: &Schedule, id: TransferId, before: TransferId| {
        schedule.phase[before] < schedule.phase[id]
            && schedule.source[before] == schedule.target[id]
            && schedule.target[before] != schedule.source[id]
    };
    assert!(every_loss_shows(&planned("ring2d", "torus:3x3"), 144, overwrites_a_read) > 10);
}
