//! Switches as the in-network paper designs them: output-queued with a speed-up of two, two virtual channels, homes by
//! a hash, loads served locally.

use std::sync::Arc;

use crate::fabric::{bandwidth, link, network, run};
use treefold::plan::{Chunk, Draft, Half, Pace, Plan, Tree};
use treefold::random::Random;
use treefold::sim::Watch;
use treefold::sim::packet::options::{Fabric, HomeMapping};
use treefold::sim::packet::{Options, simulate};
use treefold::sim::trace::Transfer;
use treefold::topology::{Abilities, Node, NodeId, Shape, Topology};
use treefold::units::{Bytes, Time};

/// What `algorithm` reaches of what it reaches with a speed-up of 8.
fn part_of_peak(algorithm: &str, speedup: u32) -> f64 {
    let rate = |speedup| bandwidth(algorithm, 1 << 20, Fabric { speedup, ..Fabric::default() });
    rate(speedup) / rate(8)
}

/// The paper's equation: 2 (p - 1) / p flits cross a switch for each that leaves it.
#[test]
fn a_speed_up_of_two_is_enough_and_of_one_is_not() {
    for algorithm in ["innet-push", "innet-pull"] {
        let [one, two] = [1, 2].map(|speedup| part_of_peak(algorithm, speedup));
        assert!(two > 0.97, "{algorithm}: {two}");
        assert!((0.5..0.85).contains(&one), "{algorithm}: {one}");
    }
}

/// Section VI-C: multicasts are requests, and wait behind pulls that have no entry in their first table.
#[test]
fn without_waves_results_wait_behind_pulls() {
    let rate = |waves| bandwidth("innet-pull", 1 << 21, Fabric { waves: Some(waves), ..Fabric::default() });
    let (free, held) = (rate(0), rate(4));
    // All operands come in before the first results leave: two halves, one after the other.
    assert!(free < 0.75 * held, "{free} {held}");
}

#[test]
fn hashed_homes_are_as_good_as_homes_in_turn() {
    let topology = network("dgx2:planes=6", &[]);
    let seen =
        |home_mapping| run(&topology, "innet-push", 1 << 20, Fabric { home_mapping, ..Fabric::default() }).unwrap();
    let (hashed, in_turn) = (seen(HomeMapping::Hashed), seen(HomeMapping::Interleaved));
    assert!(hashed.cycles < in_turn.cycles * 102 / 100, "{} {}", hashed.cycles, in_turn.cycles);
    assert_eq!(hashed.fabric.unwrap().evictions, 0);
    assert_ne!(hashed.cycles, in_turn.cycles);
}

/// A load of a region's address never crosses the network: with p ranks a line takes a pull, p - 1 answers, a result
/// and p - 1 acknowledgements, but p reads from memory.
#[test]
fn loads_of_a_region_stay_at_the_accelerator() {
    for (ranks, size) in [(2u64, 4096u64), (5, 12_800), (16, 65_536)] {
        let topology = network("dgx2:planes=6", &(0..ranks as u32).collect::<Vec<u32>>());
        let (pull, push) =
            ["innet-pull", "innet-push"].map(|name| run(&topology, name, size, Fabric::default())).into();
        let (pull, push, lines) = (pull.unwrap(), push.unwrap(), size / 128);
        assert_eq!(pull.packets, lines * 2 * ranks);
        assert_eq!(push.packets, lines * 2 * ranks);
        for outcome in [pull, push] {
            assert_eq!(outcome.fabric.unwrap().reads, ranks * size);
        }
    }
}

/// A read from the memory of its own takes an accelerator as long as any other read takes.
#[test]
fn a_pull_waits_for_the_load_from_its_own_memory() {
    let topology = network("dgx2:planes=6", &[0, 1]);
    let cycles = |memory_spread| {
        let fabric = Fabric { memory_cycles: 0, memory_spread, ..Fabric::default() };
        run(&topology, "innet-pull", 128, fabric).unwrap().cycles
    };
    let slow = (0..20).map(|number| cycles(100_000 + number)).max().unwrap();
    assert!(slow > 10 * cycles(1), "{slow}");
}

/// Sixteen accelerators at one switch of the paper.
fn star() -> Arc<Topology> {
    let mut nodes = crate::common::accelerators(16);
    nodes.push(Node { latency: Time::from_picoseconds(150_000), ..Node::switch("SW", Abilities::BOTH) });
    let links = (0..16).flat_map(|rank| [link(rank, 16), link(16, rank)]).collect();
    Arc::new(Topology::new("star", nodes, links, None, Shape::General).unwrap())
}

/// So many messages of a line from each rank, to ranks that are drawn anew for each.
fn uniform_traffic(messages: u64) -> Plan {
    let (topology, mut random) = (star(), Random::new(1));
    let mut plan = Draft::new(&topology, "uniform", messages * 16);
    let mut tree = |number: u64| {
        let source = (number % 16) as u32;
        let target = (source + 1 + random.below(15) as u32) % 16;
        let lane = plan.lanes.routed(NodeId(source), NodeId(target));
        let up = plan.streamed_half([lane]);
        Tree { span: number..number + 1, root: NodeId(target), up, down: Half::None, chunk: Chunk::One }
    };
    let trees = (0..messages * 16).map(&mut tree).collect();
    plan.push_phase(Pace::Stream, trees);
    plan.unchecked()
}

/// Section V: more than 95 % of throughput under uniform random traffic. A message is a line (9 flits), its flag (2)
/// and an acknowledgement of each (1), which as many messages the other way cause; what counts is the time until a
/// rank has sent all.
#[test]
fn a_switch_carries_uniform_random_traffic() {
    let messages = 3000;
    let plan = uniform_traffic(messages);
    let part = |speedup| {
        let options = Options { fabric: Fabric { speedup, ..Fabric::default() }, ..Options::default() };
        let outcome = simulate(&plan, Bytes::known(128 * 16 * messages), &options, Watch::TRANSFERS).unwrap();
        let transfers = &outcome.trace.transfers;
        let known = |transfer: &Transfer| transfer.received.get() - 80e-9;
        let last = |rank| {
            let own = transfers.iter().filter(|transfer| plan.lanes.ends_of(transfer.lane).0 == NodeId(rank));
            own.map(known).fold(0.0, f64::max)
        };
        let (from, to) = (3e-6, (0..16).map(last).fold(f64::INFINITY, f64::min));
        let delivered = transfers.iter().filter(|transfer| (from..to).contains(&known(transfer))).count();
        delivered as f64 / 16.0 * 13.0 * 16.0 / 25e9 / (to - from)
    };
    assert!(part(2) > 0.95, "{}", part(2));
}
