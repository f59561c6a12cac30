//! Planning speed of MultiTree in CPU seconds on one core.
//!
//! Rivals: a literal Algorithm 1 in the same run; and, from its authors' literature and our own measurement on
//! this kind of machine, the best public synthesizer, which takes 80 CPU seconds for an all-gather on a 32x32
//! torus. Times are the least of several runs: other load on the machine can only add.

use std::sync::Arc;

use cpu_time::ThreadTime;
use treefold::plan::{Direction, Plan, check::check};
use treefold::planners::{self, Options};
use treefold::topology::{Topology, from_spec};

#[path = "../tests/suite/common/algorithm1.rs"]
mod algorithm1;

const SYNTHESIZER_SECONDS_TORUS_32X32: f64 = 80.0;

/// Least CPU seconds of `runs` runs.
fn least<T>(runs: usize, mut work: impl FnMut() -> T) -> f64 {
    let run = |_| {
        let start = ThreadTime::now();
        std::hint::black_box(work());
        start.elapsed().as_secs_f64()
    };
    (0..runs).map(run).fold(f64::INFINITY, f64::min)
}

fn multitree(topology: &Arc<Topology>) -> Plan {
    planners::plan("multitree", topology, &Options::default()).expect("multitree fits every network")
}

fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("this bench reads Linux's accounting");
    let line = status.lines().find(|line| line.starts_with("VmHWM")).expect("the kernel reports peak memory");
    line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
}

fn main() {
    println!("{:<14} {:>8} {:>10} {:>12} {:>10}", "multitree", "steps", "plan (s)", "ns an edge", "check (s)");
    for (spec, runs) in [
        ("torus:8x8", 20),
        ("torus:16x16", 20),
        ("torus:32x32", 5),
        ("torus:64x64", 2),
        ("fattree:8,2", 20),
        ("bigraph:4x16", 20),
    ] {
        let topology = Arc::new(from_spec(spec, None, None).expect("a spec of the table"));
        let seconds = least(runs, || multitree(&topology));
        let plan = multitree(&topology);
        let phase = &plan.phases[0];
        let edges: usize = plan.trees.iter().map(|tree| plan.half(phase, tree, Direction::Down).count()).sum();
        let checking = least(runs.min(3), || check(&plan).expect("the plan is right"));
        let steps = plan.steps().expect("multitree is paced in steps");
        println!("{spec:<14} {steps:>8} {seconds:>10.4} {:>12.1} {checking:>10.4}", seconds * 1e9 / edges as f64);
    }
    println!("peak memory of this process: {}", peak_memory());
    let small = Arc::new(from_spec("torus:8x8", None, None).expect("a spec of the table"));
    let (ours, literal) = (least(20, || multitree(&small)), least(3, || algorithm1::all_gather_trees(&small)));
    println!("torus:8x8: {:.0} times as fast as a literal Algorithm 1 ({literal:.4} s)", literal / ours);
    let large = Arc::new(from_spec("torus:32x32", None, None).expect("a spec of the table"));
    let ratio = SYNTHESIZER_SECONDS_TORUS_32X32 / least(5, || multitree(&large));
    println!("torus:32x32: {ratio:.0} times as fast as the best public synthesizer (80 CPU s, stated, not run here)");
}
