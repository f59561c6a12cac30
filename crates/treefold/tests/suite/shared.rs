//! Capacities that links share: in files and edits, in bounds, in packings, and in both models of time.

use std::sync::Arc;

use treefold::bound::bounds;
use treefold::plan::alpha_beta::Profile;
use treefold::plan::{Collective, Plan};
use treefold::planners::{self, Options};
use treefold::random::Random;
use treefold::sim::trace::Trace;
use treefold::sim::{Watch, flow, packet};
use treefold::topology::{Abilities, Directions, Link, LinkId, Node, NodeId, Shape, Shared, Topology};
use treefold::units::{Bandwidth, Bytes, Time};

use crate::common::{flow_seconds, link, spec};

/// A network of regions in which each is joined to those at some distances, with `count` shared capacities over some
/// of its links. Where it is symmetric, so are the shared capacities.
fn regions(ranks: u32, distances: &[u32], count: usize, symmetric: bool) -> Arc<Topology> {
    let mut random = Random::new(u64::from(ranks) + count as u64);
    let nodes = (0..ranks).map(|rank| Node::accelerator(format!("R{rank}"))).collect();
    let mut links: Vec<Link> = Vec::new();
    for rank in 0..ranks {
        for distance in distances {
            let (source, target) = (NodeId(rank), NodeId((rank + distance) % ranks));
            let [there, back] = [(); 2].map(|()| Bandwidth::known(1e7 * (2 + random.below(19)) as f64));
            let link = Link {
                source,
                target,
                bandwidth: there,
                latency: Time::from_picoseconds(1_000_000_000 * (1 + random.below(50))),
                overhead: Time::ZERO,
                streams: None,
            };
            let bandwidth = if symmetric { there } else { back };
            links.extend([link.clone(), Link { source: target, target: source, bandwidth, ..link }]);
        }
    }
    let plain = Topology::new("regions", nodes, links, None, Shape::General).unwrap();
    let cables = plain.links().len() as u64 / 2;
    let mut shared = Vec::new();
    for number in 0..count {
        let mut picked: Vec<u64> = (0..4 + random.below(20)).map(|_| random.below(cables)).collect();
        picked.sort_unstable();
        picked.dedup();
        let turn = random.below(2);
        let links: Vec<LinkId> = picked.iter().map(|cable| LinkId((2 * cable + turn) as u32)).collect();
        let together: f64 = links.iter().map(|&link| plain.link(link).bandwidth.bytes_per_second()).sum();
        let bandwidth = Bandwidth::known(together * (0.2 + 0.5 * random.unit()));
        let back = links.iter().map(|&link| LinkId(link.0 ^ 1)).collect();
        shared.push(Shared { name: format!("conduit {number}"), bandwidth, links });
        if symmetric {
            shared.push(Shared { name: format!("conduit {number} back"), bandwidth, links: back });
        }
    }
    Arc::new(plain.with_shared(shared).unwrap())
}

/// The least and the most of what any plan may take of a bound.
fn part_of_bound(network: &Arc<Topology>, algorithm: &str) -> f64 {
    let plan = planners::plan(algorithm, network, &Options { size: Bytes::known(1 << 40), ..Options::default() });
    let rate = plan.unwrap().rate().unwrap().bytes_per_second();
    rate / bounds(network).all_reduce.rate.bytes_per_second()
}

#[test]
fn packings_reach_the_bound_and_nothing_exceeds_it() {
    for (ranks, count, symmetric) in [(6, 3, true), (6, 4, false), (9, 6, true), (9, 8, false), (12, 20, false)] {
        let network = regions(ranks, &[1, 2, 4], count, symmetric);
        assert_eq!(network.is_symmetric(), symmetric);
        let bound = bounds(&network).all_reduce;
        assert!(bound.exact && bound.method == "linear program", "{bound:?}");
        let packed = part_of_bound(&network, "packing");
        assert!((0.99..1.0 + 1e-9).contains(&packed), "{ranks} ranks, {count} shared: {packed}");
        for algorithm in ["mtree", "blink", "multitree", "ring", "forest", "direct"] {
            assert!(part_of_bound(&network, algorithm) < 1.0 + 1e-9, "{algorithm}");
        }
    }
}

/// Trees that use a good part of many resources are packed in rounds, each from the solution before it.
#[test]
fn packings_of_many_shared_capacities_come_near_the_bound() {
    let network = regions(24, &[1, 2, 4], 40, false);
    let packed = part_of_bound(&network, "packing");
    assert!((0.995 - 1e-6..1.0 + 1e-9).contains(&packed), "{packed}");
}

/// What several links share of a single link is as wide as it is itself: a narrower link says the same.
#[test]
fn a_capacity_of_one_link_is_a_narrower_link() {
    let plain = regions(5, &[1, 2], 0, true);
    let half = Bandwidth::known(plain.links()[0].bandwidth.bytes_per_second() / 2.0);
    let alone = |link: u32| Shared { name: format!("only {link}"), bandwidth: half, links: vec![LinkId(link)] };
    let shared = Arc::new(plain.with_shared(vec![alone(0), alone(1)]).unwrap());
    let name = |node: NodeId| plain.node(node).name.clone();
    let ends = (name(plain.links()[0].source), name(plain.links()[0].target));
    let narrow = Arc::new(plain.with_bandwidths(&[(ends, half)], Directions::BothWays).unwrap());
    let [a, b] = [&shared, &narrow].map(|network| bounds(network).all_reduce.rate.bytes_per_second());
    assert!((a / b - 1.0).abs() < 1e-6, "{a} {b}");
    let ring = |network: &Arc<Topology>| {
        let plan = planners::plan("multitree", network, &Options::default()).unwrap();
        (flow_seconds(&plan, 1 << 24), Profile::new(&plan).seconds(Bytes::known(1 << 24)).get())
    };
    let on_narrow = ring(&narrow);
    let plan = planners::plan("multitree", &narrow, &Options::default()).unwrap();
    let unproven = plan.moved_to(&shared).unwrap();
    let moved = unproven.prove().unwrap();
    let seconds = (flow_seconds(moved, 1 << 24), Profile::new(moved).seconds(Bytes::known(1 << 24)).get());
    assert!((seconds.0 / on_narrow.0 - 1.0).abs() < 1e-9 && (seconds.1 / on_narrow.1 - 1.0).abs() < 1e-9);
}

/// Whatever a plan does, no shared capacity carries more than it can, in either direction of a file.
#[test]
fn no_shared_capacity_is_exceeded_in_the_flow_model() {
    for symmetric in [true, false] {
        let network = regions(8, &[1, 2, 3], 6, symmetric);
        for algorithm in ["packing", "multitree", "ring", "direct", "forest"] {
            let plan = planners::plan(algorithm, &network, &Options::default()).unwrap();
            let trace = flow::simulate(&plan, Bytes::known(1 << 24), Watch::TRANSFERS).unwrap();
            assert_eq!(trace.carried.len(), network.num_capacities());
            let most = trace.carried.iter().map(|each| each.get()).fold(0.0, f64::max);
            assert!(most <= trace.seconds.get() * (1.0 + 1e-9), "{algorithm}: {most} {:?}", trace.seconds);
            let read = Trace::from_json(&trace.to_json(&plan), &plan).unwrap();
            assert_eq!(read.carried, trace.carried);
        }
    }
}

/// Planners that are said to plan around what links share gain by it: without it, their plans have lower rates there.
#[test]
fn those_that_plan_around_shared_capacities_gain_by_it() {
    let keepers: Vec<&str> = planners::PLANNERS
        .iter()
        .filter_map(|planner| (planner.keeps_shared && !planner.in_network).then_some(planner.name))
        .collect();
    assert_eq!(keepers, ["packing", "forest", "blink"]);
    let options = Options { size: Bytes::known(1 << 36), ..Options::default() };
    for algorithm in keepers {
        let mut gains = 0;
        for count in [2, 4, 6, 8] {
            let network = regions(7, &[1, 2, 3], count, true);
            let plain = Arc::new(network.with_shared(Vec::new()).unwrap());
            let rate = |plan: &Plan| plan.rate().unwrap().bytes_per_second();
            let with = rate(&planners::plan(algorithm, &network, &options).unwrap());
            let without = planners::plan(algorithm, &plain, &options).unwrap().moved_to(&network).unwrap();
            let gain = with / rate(without.prove().unwrap());
            assert!(gain > 0.98, "{algorithm} with {count}: {gain}");
            gains += u32::from(gain > 1.1);
        }
        assert!(gains >= 2, "{algorithm} gains in {gains} of 4");
    }
}

#[test]
fn two_messages_share_a_conduit_evenly() {
    let nodes = ["a", "b", "c"].map(Node::accelerator).to_vec();
    let ends = [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)];
    let links = ends.map(|(source, target)| Link { latency: Time::ZERO, ..link(source, target) }).to_vec();
    let plain = Topology::new("three", nodes, links, None, Shape::General).unwrap();
    let conduit = |links: &[u32], bandwidth: f64| {
        let links = links.iter().map(|&link| LinkId(link)).collect();
        let shared = Shared { name: "conduit".into(), bandwidth: Bandwidth::known(bandwidth), links };
        Arc::new(plain.with_shared(vec![shared]).unwrap())
    };
    // Rank 0 sends the vector to each of the two others: over one capacity of 1 GB/s that takes twice as long.
    let seconds = |network: &Arc<Topology>| {
        let options = Options { collective: Collective::Broadcast, ..Options::default() };
        flow_seconds(&planners::plan("ps", network, &options).unwrap(), 3_000_000)
    };
    let (wide, narrow) = (conduit(&[1, 4], 1.5e9), conduit(&[0, 2], 1e9));
    assert!((seconds(&narrow) / seconds(&wide) - 2.0).abs() < 1e-9, "{} {}", seconds(&narrow), seconds(&wide));
}

/// A full network of ranks, each behind a switch of its own over links of this bandwidth.
fn drawn_with_switches(ranks: u32, bandwidth: f64) -> Arc<Topology> {
    let full = spec(&format!("full:{ranks}"));
    let switches = (0..ranks).map(|rank| Node::switch(format!("S{rank}"), Abilities::NONE));
    let nodes = full.nodes().iter().cloned().chain(switches).collect();
    let switch = |rank: u32| NodeId(ranks + rank);
    let moved = |link: &Link| Link { source: switch(link.source.0), target: switch(link.target.0), ..link.clone() };
    let mut links: Vec<Link> = full.links().iter().map(moved).collect();
    for rank in 0..ranks {
        for (source, target) in [(NodeId(rank), switch(rank)), (switch(rank), NodeId(rank))] {
            let bandwidth = Bandwidth::known(bandwidth);
            links.push(Link { source, target, bandwidth, latency: Time::ZERO, overhead: Time::ZERO, streams: None });
        }
    }
    Arc::new(Topology::new("drawn", nodes, links, None, Shape::General).unwrap())
}

/// Packets meet a node cap in a switch before the node: the simulator agrees with the same network drawn with switches.
#[test]
fn packets_pass_caps_as_cards() {
    let plain = spec("full:4");
    let cap = |rank: u32, of: fn(&Topology, NodeId) -> Vec<LinkId>, what: &str| {
        let links = of(&plain, NodeId(rank));
        Shared { name: format!("R{rank} {what}"), bandwidth: Bandwidth::known(2e10), links }
    };
    let out = |network: &Topology, node: NodeId| network.outgoing(node).to_vec();
    let into = |network: &Topology, node: NodeId| network.incoming(node).to_vec();
    let caps = (0..4).flat_map(|rank| [cap(rank, out, "egress"), cap(rank, into, "ingress")]).collect();
    let capped = Arc::new(plain.with_shared(caps).unwrap());
    let plan = planners::plan("multitree", &capped, &Options::default()).unwrap();
    let size = Bytes::known(1 << 20);
    let found = packet::simulate(&plan, size, &packet::Options::default(), Watch::TRANSFERS).unwrap();
    assert_eq!((found.trace.carried.len(), found.peaks.len()), (capped.num_capacities(), capped.links().len()));
    let drawn = drawn_with_switches(4, 2e10);
    let there = planners::plan("multitree", &drawn, &Options::default()).unwrap();
    let expected = packet::simulate(&there, size, &packet::Options::default(), Watch::NOTHING).unwrap();
    assert_eq!(found.cycles, expected.cycles);
    let read = Trace::from_json(&found.trace.to_json(&plan), &plan).unwrap();
    assert_eq!(read.seconds, found.trace.seconds);
}

#[test]
fn files_and_edits_keep_what_is_shared() {
    let network = regions(6, &[1, 2], 3, true);
    assert_eq!(Topology::from_json(&network.to_json()).unwrap(), *network);
    let turned = network.with_ranks(&[5, 4, 3, 2, 1, 0]).unwrap();
    assert_eq!(turned.shared(), network.shared());
    let named = |name: &str| (0..6).map(|rank| format!("R{rank}")).find(|other| other == name).unwrap();
    let fewer = network.without_nodes(&[named("R3")]).unwrap();
    for shared in fewer.shared() {
        let before = network.shared().iter().find(|other| other.name == shared.name).unwrap();
        let ends = |of: &Topology, links: &[LinkId]| -> Vec<String> {
            links.iter().map(|&link| of.describe_link(link)).filter(|ends| !ends.contains("R3")).collect()
        };
        assert_eq!(ends(&fewer, &shared.links), ends(&network, &before.links));
    }
}

#[test]
fn what_cannot_be_shared_is_refused() {
    let ring = spec("ring:4");
    let refused = |name: &str, bandwidth: f64, links: &[u32]| {
        let links = links.iter().map(|&link| LinkId(link)).collect();
        let shared = Shared { name: name.into(), bandwidth: Bandwidth::known(bandwidth), links };
        ring.with_shared(vec![shared.clone(), shared]).unwrap_err().to_string()
    };
    assert!(refused("a", 1e9, &[]).contains("no link shares it"));
    assert!(refused("a", 1e9, &[8]).contains("there is no link 8; the network has 8"));
    assert!(refused("a", 1e9, &[1, 1]).contains("listed twice; list each link once"));
    assert!(refused("a", 32e9, &[0, 2]).contains("carry 32GB/s together"));
    assert!(refused("a", 1e9, &[0, 2]).contains("'a' is listed twice"));
    assert!(refused(" ", 1e9, &[0, 2]).contains("must not be blank"));
    let shared = Shared { name: "x".into(), bandwidth: Bandwidth::known(1e9), links: vec![LinkId(0), LinkId(2)] };
    let text = ring.with_shared(vec![shared]).unwrap().to_json();
    let error = Topology::from_json(&text.replace("\"shares\":[\"x\"]", "\"shares\":[\"y\"]")).unwrap_err();
    assert!(error.to_string().contains("shared capacity") && error.to_string().contains('y'), "{error}");
}
