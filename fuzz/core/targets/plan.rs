//! Plan files: what is read and called correct has a correct schedule and can be run.

#![no_main]

use libfuzzer_sys::fuzz_target;
use treefold::plan::check_schedule::check_schedule;
use treefold::plan::lower;
use treefold::plan::{Collective, Plan};
use treefold::run::memory;
use treefold::run::number::{Number, Operator};
use treefold::run::program::Program;
use treefold::units::Time;

/// Some more than small plans have units.
const ELEMENTS: u64 = 61;
/// Plans of more transfers are read and checked, and that is all.
const MOST_TRANSFERS: usize = 10_000;

fuzz_target!(|text: &str| {
    let Ok(plan) = Plan::from_json(text) else { return };
    let text = plan.as_written().to_json();
    let again = Plan::from_json(&text).expect("what is written can be read");
    assert_eq!(again.as_written().to_json(), text);
    let Ok(plan) = plan.prove() else { return };
    if plan.ranks() > 32 {
        return;
    }
    let Ok(schedule) = lower(plan, ELEMENTS, 8) else { return };
    if schedule.op.len() > MOST_TRANSFERS {
        return;
    }
    check_schedule(plan, &schedule).expect("a correct plan has a correct schedule");
    run(plan);
});

/// Plans of switches are no programs; all others end.
fn run(plan: &Plan) {
    let elements = if plan.collective == Collective::AllGather { ELEMENTS * u64::from(plan.ranks()) } else { ELEMENTS };
    let Ok(programs) = Program::all(plan, elements, 8, Time::ZERO) else { return };
    let mut vectors: Vec<_> = programs.iter().map(|program| vec![0; program.vector_bytes]).collect();
    let mut vectors: Vec<_> = vectors.iter_mut().map(Vec::as_mut_slice).collect();
    let mut scratch = vec![Vec::new(); programs.len()];
    let programs: Vec<_> = programs.iter().collect();
    memory::run(&programs, Number::Uint64, Operator::Sum, &mut vectors, &mut scratch, &mut || true).expect("it runs");
}
