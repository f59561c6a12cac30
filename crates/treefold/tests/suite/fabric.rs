//! Switches that reduce, packet by packet: the in-network paper's figures, values that are conserved whatever the
//! sizes, refusals.

use std::sync::Arc;

use crate::common::{self, networks::cases};
use proptest::prelude::*;
use treefold::plan::{Collective, Plan, derive};
use treefold::planners::{self, options::RouteBy};
use treefold::sim::Watch;
use treefold::sim::packet::options::{Credit, EvictionPolicy, Fabric, Fence, HomeMapping, Initiation};
use treefold::sim::packet::{Options, Outcome, simulate};
use treefold::topology::{Abilities, Link, Node, NodeId, Shape, Topology, from_spec};
use treefold::units::{Bandwidth, Bytes, Time};

pub fn network(spec: &str, ranks: &[u32]) -> Arc<Topology> {
    let whole = from_spec(spec, None, None).unwrap();
    Arc::new(if ranks.is_empty() { whole } else { whole.with_ranks(ranks).unwrap() })
}

pub fn run(topology: &Arc<Topology>, algorithm: &str, size: u64, fabric: Fabric) -> Result<Outcome, String> {
    let plan = planners::plan(algorithm, topology, &planners::Options::default()).map_err(|error| error.to_string())?;
    let options = Options { fabric, ..Options::default() };
    simulate(&plan, Bytes::known(size), &options, Watch::NOTHING).map_err(|error| error.to_string())
}

/// One direction of a link of the paper; its latency is that of the switches.
pub fn link(source: u32, target: u32) -> Link {
    Link { bandwidth: Bandwidth::known(25e9), latency: Time::ZERO, ..common::link(source, target) }
}

/// Two accelerators with so many switches of 150 ns between them; the first reduces and multicasts.
pub fn chain(switches: u32) -> Arc<Topology> {
    let mut nodes = common::accelerators(2);
    let latency = Time::from_picoseconds(150_000);
    let switch = |number: u32| {
        let abilities = if number == 0 { Abilities::BOTH } else { Abilities::NONE };
        Node { latency, ..Node::switch(format!("S{number}"), abilities) }
    };
    nodes.extend((0..switches).map(switch));
    let mut order = vec![0];
    order.extend(2..switches + 2);
    order.push(1);
    let links = order.windows(2).flat_map(|pair| [link(pair[0], pair[1]), link(pair[1], pair[0])]).collect();
    Arc::new(Topology::new("chain", nodes, links, None, Shape::General).unwrap())
}

/// Bytes a second.
pub fn bandwidth(algorithm: &str, size: u64, fabric: Fabric) -> f64 {
    let outcome = run(&network("dgx2:planes=6", &[]), algorithm, size, fabric).unwrap();
    size as f64 / outcome.trace.seconds.get()
}

fn table(bytes: u64) -> Fabric {
    Fabric { table: Some(Bytes::known(bytes)), ..Fabric::default() }
}

#[test]
#[ignore = "it is slow: `make test-slow` runs it"]
fn large_sums_come_near_what_packets_leave_of_the_links() {
    let push = bandwidth("innet-push", 8_000_000, Fabric::default());
    let pull = bandwidth("innet-pull", 16_000_000, Fabric::default());
    assert!((114e9..120e9).contains(&push), "{push}");
    assert!((110e9..119e9).contains(&pull), "{pull}");
}

#[test]
#[ignore = "it is slow: `make test-slow` runs it"]
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
    let by_cores = Fabric { initiation: Initiation::Core, reorder: 64, ..Fabric::default() };
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
    let cycles = |route_by| {
        let wishes = planners::Options { route_by, ..planners::Options::default() };
        let plan = planners::plan("innet-push", &topology, &wishes).unwrap();
        simulate(&plan, Bytes::known(1 << 20), &Options::default(), Watch::NOTHING).unwrap().cycles
    };
    assert!(cycles(RouteBy::Source) < cycles(RouteBy::Address));
}

#[test]
fn what_cannot_work_is_refused_in_one_line() {
    let default = Fabric::default;
    let cases = [
        (table(0), "a reduction table must hold a packet's payload (128 bytes), got 0 bytes"),
        (Fabric { wave: Bytes::known(0), ..default() }, "a wave must hold a packet's payload (128 bytes), got 0 bytes"),
        (Fabric { speedup: 0, ..default() }, "speedup must be a whole number from 1 on, got 0"),
        (Fabric { queue_flits: Some(8), ..default() }, "buffers and queues must hold a whole packet (9 flits"),
        (
            Fabric { timeout_cycles: Some(100), ..default() },
            "a timeout of 100 cycles is shorter than a round trip of 702 cycles",
        ),
    ];
    for (fabric, message) in cases {
        let refused = run(&network("dgx2:planes=6", &[]), "innet-push", 4096, fabric).unwrap_err();
        assert!(refused.contains(message), "{refused}");
        assert!(!refused.contains('\n'));
    }
    let none = run(&network("torus:4x4", &[]), "innet-push", 4096, default()).unwrap_err();
    let advice =
        "needs a switch that both reduces and multicasts and reaches every rank; torus:4x4 has none: use multitree";
    assert!(none.ends_with(advice), "{none}");
    let plain = run(&network("fattree:8,2", &[]), "innet-pull", 4096, default()).unwrap_err();
    assert!(
        plain.contains("is adjacent to a rank; fattree:8,2 has none: use multitree, or if the network is in a file")
    );
}

pub fn derived(topology: &Arc<Topology>, algorithm: &str, collective: Collective) -> Plan {
    let plan = planners::plan(algorithm, topology, &planners::Options::default()).unwrap();
    derive(plan, collective, NodeId(0)).unwrap()
}

pub fn simulated(plan: &Plan, size: u64, fabric: Fabric) -> Outcome {
    let options = Options { fabric, ..Options::default() };
    simulate(plan, Bytes::known(size), &options, Watch::NOTHING).unwrap()
}

#[test]
fn multicasts_serve_all_gathers_and_broadcasts() {
    let topology = network("dgx2:planes=6", &[]);
    for collective in [Collective::AllGather, Collective::Broadcast] {
        let plan = derived(&topology, "innet-pull", collective);
        let seconds = simulated(&plan, 8 << 20, Fabric::default()).trace.seconds.get();
        let rate = (8 << 20) as f64 / seconds;
        // What comes in is 144 bytes a line, beside the acknowledgements that go out; nothing is sent twice, and a
        // gather's own sixteenth does not come in.
        let most = 150e9 * 128.0 / 144.0 * 16.0 / 15.0;
        assert!((100e9..most).contains(&rate), "{collective}: {rate}");
    }
}

#[test]
fn a_flag_that_waits_for_acknowledgements_costs_round_trips() {
    let topology = network("dgx2:planes=6", &[]);
    let cycles = |fence| run(&topology, "ring", 4096, Fabric { fence, ..Fabric::default() }).unwrap().cycles;
    let (ordered, acknowledged) = (cycles(Fence::Ordered), cycles(Fence::Acknowledged));
    // 30 steps, each between neighbours: two hops of 150 ns and back.
    assert!((30 * 400..30 * 1000).contains(&(acknowledged - ordered)), "{ordered} {acknowledged}");
}

#[test]
#[ignore = "it is slow: `make test-slow` runs it"]
fn switches_double_what_software_reaches_and_halve_its_memory_accesses() {
    let topology = network("dgx2:planes=6", &[]);
    let size = 16 << 20;
    let accesses = |outcome: &Outcome| outcome.fabric.as_ref().map(|seen| seen.reads + seen.writes).unwrap();
    let ring = run(&topology, "ring", size, Fabric::default()).unwrap();
    let push = run(&topology, "innet-push", size, Fabric::default()).unwrap();
    let gain = ring.trace.seconds / push.trace.seconds;
    assert!((1.85..2.1).contains(&gain), "{gain}");
    assert!(2 * accesses(&push) <= accesses(&ring));
}

#[test]
fn a_deterministic_table_adds_in_the_same_order_whatever_the_timing() {
    let topology = network("dgx2:planes=6", &[]);
    for algorithm in ["innet-push", "innet-pull"] {
        let seen = |deterministic, seed| {
            let fabric = Fabric { deterministic, seed, reorder: 16, ..Fabric::default() };
            run(&topology, algorithm, 1 << 18, fabric).unwrap().fabric.unwrap()
        };
        assert_eq!(seen(true, 1).digest, seen(true, 2).digest, "{algorithm}");
        assert_ne!(seen(false, 1).digest, seen(false, 2).digest, "{algorithm}");
        assert!(seen(true, 1).table_peak > seen(false, 1).table_peak, "{algorithm}");
    }
}

/// Two ranks, a chain of switches between them of which the first does all: each way has its length, however long.
#[test]
fn long_ways_take_their_time() {
    let cycles = |switches| run(&chain(switches), "innet-push", 4096, Fabric::default()).unwrap().cycles;
    let (few, many) = (cycles(40), cycles(300));
    // 150 ns a switch, there and back.
    let each = (many - few) as f64 / 260.0;
    assert!((400.0..500.0).contains(&each), "{few} {many}");
}

/// A wave of one line at a time: each begins when the result of the one before is in memory.
#[test]
fn waves_of_a_line_follow_each_other() {
    let topology = network("dgx2:planes=2", &[0, 1]);
    let fabric = Fabric { wave: Bytes::known(128), waves: Some(1), memory_spread: 0, ..Fabric::default() };
    let cycles = |lines: u64| run(&topology, "innet-push", 128 * lines, fabric.clone()).unwrap().cycles;
    let one = cycles(1);
    for lines in [2, 5] {
        assert!(cycles(lines) >= lines * one, "{one} {}", cycles(lines));
    }
}

#[test]
fn small_windows_cost_time_but_go_on() {
    let topology = network("dgx2:planes=2", &[0, 1]);
    let cycles = |window| run(&topology, "innet-push", 1 << 16, Fabric { window, ..Fabric::default() }).unwrap().cycles;
    assert!(cycles(1) < 512 * 700, "{}", cycles(1));
    assert!(cycles(64) <= cycles(1024) * 11 / 10);
}

/// From a rank up to a home and down again, past the switch that it came from: without virtual channels the links
/// between two switches would wait for each other.
#[test]
fn trees_that_close_circles_take_other_channels() {
    let plan = derived(&network("dgx2:planes=2", &[0, 2, 12, 13]), "innet-push", Collective::AllGather);
    let options = |channels| Options {
        virtual_channels: channels,
        fabric: Fabric { waves: Some(0), ..Fabric::default() },
        ..Options::default()
    };
    simulate(&plan, Bytes::known(200_000), &options(4), Watch::NOTHING).unwrap();
    let refused = simulate(&plan, Bytes::known(200_000), &options(3), Watch::NOTHING).unwrap_err().to_string();
    assert!(refused.contains("needs 4 virtual channels"), "{refused}");
}

/// A plan that needs no switch, on some of the ranks of an in-network machine.
#[derive(Debug)]
struct Software {
    ranks: Vec<u32>,
    algorithm: &'static str,
    fabric: Fabric,
    size: u64,
}

fn software(largest: u64) -> impl Strategy<Value = Software> {
    let ranks = proptest::sample::subsequence((0u32..16).collect::<Vec<u32>>(), 2..=16);
    let algorithm = proptest::sample::select(vec!["ring", "multitree", "dbtree", "p2p", "halving-doubling"]);
    let machine = (9u32..200, 1u32..100, any::<bool>(), any::<u64>());
    (ranks, algorithm, machine, 0..largest).prop_map(|(ranks, algorithm, (queue, window, acknowledged, seed), size)| {
        let fence = if acknowledged { Fence::Acknowledged } else { Fence::Ordered };
        let fabric = Fabric { fence, queue_flits: Some(queue), window, seed, ..Fabric::default() };
        Software { ranks, algorithm, fabric, size }
    })
}

/// Every packet of every message is counted; acknowledgements must all come back for the last flag to be sent.
fn receives_all_messages(drawn: Software) {
    let Software { ranks, algorithm, fabric, size } = drawn;
    let topology = network("dgx2:planes=2", &ranks);
    let Ok(plan) = planners::plan(algorithm, &topology, &planners::Options::default()) else { return };
    let outcome = simulated(&plan, size, fabric.clone());
    assert_eq!(outcome.cycles, simulated(&plan, size, fabric).cycles);
    let bound = size as f64 / (2.0 * 25e9);
    assert!(outcome.trace.seconds.get() > bound);
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
        (reorder, window, acknowledged) in (1u32..300, 1u32..100, any::<bool>()),
        (hashed, multicast, deterministic, buffer) in (any::<bool>(), any::<bool>(), any::<bool>(), 9u32..100),
    ) {
        let fabric = Fabric {
            table: Some(Bytes::known(entries * 128)),
            wave: Bytes::known(lines * 128),
            waves: Some(waves),
            speedup,
            queue_flits: Some(queue),
            timeout_cycles: Some(timeout),
            barrier,
            initiation: if core { Initiation::Core } else { Initiation::Dma },
            seed,
            reorder,
            window,
            credit: if acknowledged { Credit::Acknowledgement } else { Credit::Result },
            home_mapping: if hashed { HomeMapping::Hashed } else { HomeMapping::Interleaved },
            eviction_policy: if multicast { EvictionPolicy::Multicast } else { EvictionPolicy::Home },
            deterministic,
            ..Fabric::default()
        };
        let topology = network("dgx2:planes=2", &ranks);
        let algorithm = if pull { "innet-pull" } else { "innet-push" };
        let plan = planners::plan(algorithm, &topology, &planners::Options::default()).unwrap();
        let options = Options { buffer_flits: Some(buffer), fabric, ..Options::default() };
        let outcome = simulate(&plan, Bytes::known(size), &options, Watch::NOTHING).unwrap();
        let again = simulate(&plan, Bytes::known(size), &options, Watch::NOTHING).unwrap();
        prop_assert_eq!(outcome.cycles, again.cycles);
        prop_assert!(deterministic || outcome.fabric.unwrap().table_peak.get() <= entries * 128);
    }

    #[test]
    fn software_receives_all_messages(drawn in software(100_000)) {
        receives_all_messages(drawn);
    }

    #[test]
    #[ignore = "it is slow: `make test-slow` runs it"]
    fn software_receives_all_large_messages(drawn in software(300_000)) {
        receives_all_messages(drawn);
    }

    /// Every rank gets every line of all-gathers and broadcasts once.
    #[test]
    fn multicasts_reach_all(
        ranks in proptest::sample::subsequence((0u32..16).collect::<Vec<u32>>(), 2..=16),
        (push, gather, waves, size) in (any::<bool>(), any::<bool>(), 0u32..20, 0u64..300_000),
    ) {
        let topology = network("dgx2:planes=2", &ranks);
        let collective = if gather { Collective::AllGather } else { Collective::Broadcast };
        let plan = derived(&topology, if push { "innet-push" } else { "innet-pull" }, collective);
        simulated(&plan, size, Fabric { waves: Some(waves), ..Fabric::default() });
    }
}
