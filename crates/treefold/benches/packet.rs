//! Speed of the packet simulator in CPU seconds on one core.
//!
//! The yardstick is the MultiTree authors' simulator: 34 to 54 CPU seconds for 2 MiB by MultiTree on a 4x4 torus, about
//! 5,000 packets a second (stated, not run here).

use std::sync::Arc;

use cpu_time::ThreadTime;
use treefold::planners;
use treefold::sim::Watch;
use treefold::sim::packet::{FlowControl, Interfaces, Options, simulate};
use treefold::topology::from_spec;
use treefold::units::Bytes;

const AUTHORS_SECONDS_TORUS_4X4: f64 = 34.0;

fn main() {
    println!("{:<48} {:>10} {:>9} {:>12} {:>11}", "packet", "packets", "CPU (s)", "k packets/s", "M flits/s");
    let (bound, shared) = (Interfaces::Bound, Interfaces::Shared);
    measure("torus:4x4", "multitree", 2 << 20, bound, FlowControl::Packet);
    let seconds = measure("torus:4x4", "multitree", 2 << 20, shared, FlowControl::Packet);
    measure("torus:4x4", "multitree", 2 << 20, shared, FlowControl::Message);
    measure("torus:4x4", "dbtree", 2 << 20, bound, FlowControl::Packet);
    measure("torus:8x8", "multitree", 2 << 20, shared, FlowControl::Packet);
    measure("torus:8x8", "dbtree", 2 << 20, bound, FlowControl::Packet);
    measure("fattree:8,2", "dbtree", 2 << 20, bound, FlowControl::Packet);
    measure("torus:8x8", "ring", 2 << 20, bound, FlowControl::Packet);
    measure("torus:8x8", "multitree", 64 << 20, bound, FlowControl::Packet);
    measure("torus:16x16", "multitree", 96_000 << 10, bound, FlowControl::Packet);
    measure("dgx2:planes=6", "innet-push", 8_000_000, bound, FlowControl::Packet);
    measure("dgx2:planes=6", "innet-pull", 8_000_000, bound, FlowControl::Packet);
    measure("dgx2:planes=6", "ring", 8_000_000, bound, FlowControl::Packet);
    measure("fattree128", "innet-push", 1_000_000, bound, FlowControl::Packet);
    let ratio = AUTHORS_SECONDS_TORUS_4X4 / seconds;
    println!(
        "torus:4x4, shared: {ratio:.0} times as fast as the authors' simulator (34 to 54 CPU s, stated, not run here)"
    );
}

/// Prints and returns CPU seconds.
fn measure(network: &str, algorithm: &str, size: u64, interfaces: Interfaces, flow_control: FlowControl) -> f64 {
    let topology = Arc::new(from_spec(network, None, None).expect("a spec of the table"));
    let wishes = planners::Options { size: Bytes::known(size), ..planners::Options::default() };
    let plan = planners::plan(algorithm, &topology, &wishes).expect("an algorithm that fits");
    let options = Options { interfaces, flow_control, ..Options::default() };
    let start = ThreadTime::now();
    let seen = simulate(&plan, Bytes::known(size), &options, Watch::NOTHING).expect("it ends");
    let seconds = start.elapsed().as_secs_f64();
    let name = format!("{network} {algorithm}, {} KiB, {interfaces:?}, {flow_control:?}", size >> 10);
    let rate = |count: u64, unit: f64| count as f64 / seconds / unit;
    println!(
        "{name:<48} {:>10} {seconds:>9.3} {:>12.0} {:>11.1}",
        seen.packets,
        rate(seen.packets, 1e3),
        rate(seen.flits, 1e6)
    );
    seconds
}
