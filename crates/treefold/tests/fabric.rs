//! Switches that reduce, packet by packet: the in-network paper's figures, values that are conserved whatever the sizes, refusals.

mod common;

use std::sync::Arc;

use common::networks::cases;
use proptest::prelude::*;
use treefold::planners::{self, Trunks};
use treefold::sim::packet::options::{Fabric, Initiation};
use treefold::sim::packet::{Options, Outcome, simulate};
use treefold::topology::{Topology, from_spec};
use treefold::units::Bytes;

fn network(spec: &str, ranks: &[u32]) -> Arc<Topology> {
    let whole = from_spec(spec, None, None).unwrap();
    Arc::new(if ranks.is_empty() { whole } else { whole.with_ranks(ranks).unwrap() })
}

fn run(topology: &Arc<Topology>, algorithm: &str, size: u64, fabric: Fabric) -> Result<Outcome, String> {
    let plan = planners::plan(algorithm, topology, &planners::Options::default()).map_err(|error| error.to_string())?;
    let options = Options { fabric, ..Options::default() };
    simulate(&plan, Bytes(size), &options, false, &mut || true).map_err(|error| error.to_string())
}

/// Bytes a second.
fn bandwidth(algorithm: &str, size: u64, fabric: Fabric) -> f64 {
    let outcome = run(&network("dgx2:planes=6", &[]), algorithm, size, fabric).unwrap();
    size as f64 / outcome.trace.seconds
}

fn table(bytes: u64) -> Fabric {
    Fabric { table: Some(Bytes(bytes)), ..Fabric::default() }
}

#[test]
fn large_sums_come_near_what_packets_leave_of_the_links() {
    let push = bandwidth("innet-push", 8_000_000, Fabric::default());
    let pull = bandwidth("innet-pull", 16_000_000, Fabric::default());
    assert!((114e9..120e9).contains(&push), "{push}");
    assert!((110e9..119e9).contains(&pull), "{pull}");
}

#[test]
fn pulls_need_tables_for_the_latency_and_several_waves() {
    let rate = |bytes, waves| bandwidth("innet-pull", 8_000_000, Fabric { waves: Some(waves), ..table(bytes) });
    let best = rate(4096, 4);
    assert!(rate(1408, 4) > 0.95 * best);
    assert!(rate(512, 4) < 0.65 * best);
    assert!(rate(1024, 1) < 0.65 * best);
}

#[test]
fn a_small_table_evicts_what_comes_in_any_order() {
    let topology = network("dgx2:planes=6", &[]);
    let in_order = run(&topology, "innet-push", 1 << 20, Fabric::default()).unwrap();
    let by_cores = Fabric { initiation: Initiation::Core, ..Fabric::default() };
    let shuffled = run(&topology, "innet-push", 1 << 20, by_cores).unwrap();
    assert_eq!(in_order.fabric.unwrap().evictions, 0);
    assert!(shuffled.fabric.unwrap().evictions > 0);
    assert!(shuffled.cycles > in_order.cycles);
}

#[test]
fn a_barrier_costs_a_round_trip() {
    let topology = network("dgx2:planes=6", &[]);
    let free = run(&topology, "innet-pull", 4096, Fabric::default()).unwrap().cycles;
    let held = run(&topology, "innet-pull", 4096, Fabric { barrier: true, ..Fabric::default() }).unwrap().cycles;
    assert!((800..2500).contains(&(held - free)), "{free} {held}");
}

#[test]
fn the_source_spreads_operands_better_than_the_address() {
    let topology = network("fattree128", &(0..32).collect::<Vec<u32>>());
    let cycles = |trunks| {
        let wishes = planners::Options { trunks, ..planners::Options::default() };
        let plan = planners::plan("innet-push", &topology, &wishes).unwrap();
        simulate(&plan, Bytes(1 << 20), &Options::default(), false, &mut || true).unwrap().cycles
    };
    assert!(cycles(Trunks::Source) < cycles(Trunks::Address));
}

#[test]
fn what_cannot_work_is_refused_in_one_line() {
    let default = Fabric::default;
    let cases = [
        (table(0), "a reduction table must hold a packet's payload (128 bytes), got 0 bytes"),
        (Fabric { wave: Bytes(0), ..default() }, "a wave must hold a packet's payload (128 bytes), got 0 bytes"),
        (Fabric { speedup: 0, ..default() }, "a switch must have a speed-up of at least 1, got 0"),
        (Fabric { queue_flits: Some(8), ..default() }, "buffers and queues must hold a whole packet (9 flits"),
        (
            Fabric { timeout: Some(100), ..default() },
            "a timeout of 100 cycles is shorter than a round trip of 702 cycles",
        ),
    ];
    for (fabric, message) in cases {
        let refused = run(&network("dgx2:planes=6", &[]), "innet-push", 4096, fabric).unwrap_err();
        assert!(refused.contains(message), "{refused}");
        assert!(!refused.contains('\n'));
    }
    let none = run(&network("torus:4x4", &[]), "innet-push", 4096, default()).unwrap_err();
    assert!(none.contains("needs switches that reduce and multicast"), "{none}");
}

proptest! {
    #![proptest_config(cases(60))]

    /// Every sum is checked at every rank, and nothing may be left behind: `simulate` fails otherwise.
    #[test]
    fn no_operand_is_lost_or_doubled(
        ranks in proptest::sample::subsequence((0u32..16).collect::<Vec<u32>>(), 2..=16),
        (entries, waves, lines, core) in (1u64..6, 0u32..20, 1u64..80, any::<bool>()),
        (speedup, queue, timeout, seed) in (1u32..4, 9u32..200, 1000u32..6000, any::<u64>()),
        (pull, barrier, size) in (any::<bool>(), any::<bool>(), 0u64..300_000),
    ) {
        let fabric = Fabric {
            table: Some(Bytes(entries * 128)),
            wave: Bytes(lines * 128),
            waves: Some(waves),
            speedup,
            queue_flits: Some(queue),
            timeout: Some(timeout),
            barrier,
            initiation: if core { Initiation::Core } else { Initiation::Dma },
            seed,
            ..Fabric::default()
        };
        let topology = network("dgx2:planes=2", &ranks);
        let algorithm = if pull { "innet-pull" } else { "innet-push" };
        let outcome = run(&topology, algorithm, size, fabric.clone()).unwrap();
        let again = run(&topology, algorithm, size, fabric).unwrap();
        prop_assert_eq!(outcome.cycles, again.cycles);
        prop_assert!(outcome.fabric.unwrap().table_peak.0 <= entries * 128);
    }
}
