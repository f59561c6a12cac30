//! Speed of the flow simulator in CPU seconds on one core.
//!
//! The thousand-rank ring is the yardstick of the field: a well-known flow-level simulator takes 21 CPU seconds for it
//! (stated, not run here). The other case has the most contention there is: on 64 capped regions every rank sends to
//! every other at once.

use std::sync::Arc;

use cpu_time::ThreadTime;
use treefold::plan::{Chunk, Draft, Half, Pace, Plan, Tree};
use treefold::planners::{self, Options};
use treefold::random::Random;
use treefold::sim::Watch;
use treefold::sim::flow::simulate;
use treefold::topology::{Abilities, Link, Node, NodeId, Shape, Topology, from_spec};
use treefold::units::{Bandwidth, Bytes, Time};

const KNOWN_SIMULATOR_SECONDS_RING_1024: f64 = 21.0;

fn main() {
    println!("{:<34} {:>10} {:>10} {:>14}", "flow, 64 MiB", "transfers", "CPU (s)", "ns a transfer");
    measure("torus:32x32 multitree", &planned("multitree", "torus:32x32"));
    measure("torus:8x8 multiring", &planned("multiring", "torus:8x8"));
    measure("torus:16x16 dbtree", &planned("dbtree", "torus:16x16"));
    measure("64 regions, all to all at once", &all_at_once(&regions(64, true)));
    measure("the same without caps", &all_at_once(&regions(64, false)));
    let ring = measure("ring:1024 ring", &planned("ring", "ring:1024"));
    let ratio = KNOWN_SIMULATOR_SECONDS_RING_1024 / ring;
    println!("ring:1024: {ratio:.0} times as fast as a well-known simulator (21 CPU s, stated, not run here)");
}

fn planned(algorithm: &str, spec: &str) -> Plan {
    let topology = Arc::new(from_spec(spec, None, None).expect("a spec of the table"));
    planners::plan(algorithm, &topology, &Options::default()).expect("an algorithm that fits")
}

/// Prints and returns the least CPU seconds of three simulations of `plan`.
fn measure(name: &str, plan: &Plan) -> f64 {
    let size = Bytes::known(64 << 20);
    let run = |_| {
        let start = ThreadTime::now();
        std::hint::black_box(simulate(plan, size, Watch::NOTHING).expect("nobody interrupts"));
        start.elapsed().as_secs_f64()
    };
    let seconds = (0..3).map(run).fold(f64::INFINITY, f64::min);
    let transfers = simulate(plan, size, Watch::TRANSFERS).expect("nobody interrupts").transfers.len();
    println!("{name:<34} {transfers:>10} {seconds:>10.4} {:>14.0}", seconds * 1e9 / transfers as f64);
    seconds
}

/// Regions of which every pair has its own link, 0.1 to 1.3 GB/s and 1 to 150 ms; with caps each region's 0.6 GB/s
/// hold for all its pairs together.
fn regions(count: u32, capped: bool) -> Arc<Topology> {
    let mut random = Random::new(7);
    let mut nodes: Vec<Node> = (0..count).map(|i| Node::accelerator(format!("R{i}"))).collect();
    let mut links = Vec::new();
    let mut connect = |source, target, bandwidth: f64, milliseconds: u64| {
        let latency = Time::from_picoseconds(milliseconds * 1_000_000_000);
        let (source, target) = (NodeId(source), NodeId(target));
        let (bandwidth, overhead) = (Bandwidth::known(bandwidth), Time::ZERO);
        links.push(Link { source, target, bandwidth, latency, overhead, streams: None });
    };
    let first = if capped { count } else { 0 };
    for a in 0..count {
        for b in (0..count).filter(|&b| b != a) {
            connect(first + a, first + b, 1e8 * (1 + random.below(12)) as f64, 1 + random.below(150));
        }
    }
    if capped {
        nodes.extend((0..count).map(|i| Node::switch(format!("cap{i}"), Abilities::NONE)));
        for rank in 0..count {
            connect(rank, first + rank, 0.6e9, 0);
            connect(first + rank, rank, 0.6e9, 0);
        }
    }
    Arc::new(Topology::new("regions", nodes, links, None, Shape::General).expect("a network"))
}

/// Every rank broadcasts its block straight to every other: all transfers start at once.
fn all_at_once(topology: &Arc<Topology>) -> Plan {
    let ranks = topology.ranks();
    let mut plan = Draft::new(topology, "star", ranks.into());
    let mut star = |root: NodeId| {
        let lanes: Vec<_> =
            topology.rank_ids().filter(|&rank| rank != root).map(|rank| plan.lanes.routed(root, rank)).collect();
        let span = u64::from(root)..u64::from(root) + 1;
        Tree { span, root, up: Half::None, down: plan.streamed_half(lanes), chunk: Chunk::One }
    };
    let trees = topology.rank_ids().map(&mut star).collect();
    plan.push_phase(Pace::Stream, trees);
    plan.unchecked()
}
