//! The turns of a rank's sends.

use std::ops::Range;

use crate::plan::schedule::{Schedule, TransferId};
use crate::plan::{Plan, step_number};

/// Returns the turn of each transfer of `own`: by phase, then by step, then by how far its tree has progressed.
pub(super) fn turns(plan: &Plan, schedule: &Schedule, own: &[TransferId]) -> Vec<u64> {
    let spans: Vec<Vec<Range<u64>>> =
        plan.phases.iter().map(|phase| spans_of(plan, phase.trees.clone(), schedule)).collect();
    let turn = |&id: &TransferId| {
        let (phase, step) = (schedule.phase[id], schedule.step[id]);
        let streamed = plan.phases[phase as usize].pace.is_stream() && !plan.collective.is_personalized();
        let first = schedule.pieces.row(id).first().map_or(0, |piece| piece.start);
        let progress = if streamed { progress(&spans[phase as usize], first) } else { 0 };
        u64::from(phase) << 48 | u64::from(step_number(step)) << 32 | u64::from(progress)
    };
    own.iter().map(turn).collect()
}

fn spans_of(plan: &Plan, trees: Range<usize>, schedule: &Schedule) -> Vec<Range<u64>> {
    let at = |unit| crate::plan::schedule::cut(schedule.elements, plan.units, unit);
    let mut spans: Vec<Range<u64>> = plan.trees[trees]
        .iter()
        .map(|tree| at(tree.span.start)..at(tree.span.end))
        .filter(|span| !span.is_empty())
        .collect();
    spans.sort_unstable_by_key(|span| span.start);
    spans
}

/// Returns how much of its tree's span lies before `element`, as a part of 2^32.
fn progress(spans: &[Range<u64>], element: u64) -> u32 {
    let next = spans.partition_point(|span| span.start <= element);
    let Some(span) = next.checked_sub(1).map(|last| &spans[last]) else { return 0 };
    ((u128::from(element - span.start) << 32) / u128::from(span.end - span.start)) as u32
}
