//! Packets pass what links share: as in the network drawn with switches, and for about as long as in the flow model.

use std::sync::Arc;

use treefold::bound::bounds;
use treefold::plan::{Collective, Draft, LaneRef, LaneRoutes, Lanes, Plan};
use treefold::planners::{self, Options};
use treefold::random::Random;
use treefold::sim::packet::{self, Outcome, Sending, Switches, Together};
use treefold::sim::{Background, Job, Watch};
use treefold::topology::{Abilities, Link, LinkId, Node, NodeId, Shape, Shared, Topology};
use treefold::units::{Bandwidth, Bytes, Time, parse_frequency};

use crate::common::{accelerators, flow_seconds, spec};

fn shared(name: &str, bandwidth: f64, links: &[LinkId]) -> Shared {
    Shared { name: name.into(), bandwidth: Bandwidth::known(bandwidth), links: links.to_vec() }
}

fn planned(algorithm: &str, network: &Arc<Topology>) -> Plan {
    planners::plan(algorithm, network, &Options::default()).unwrap()
}

fn packets(plan: &Plan, size: u64) -> Outcome {
    packet::simulate(plan, Bytes::known(size), &packet::Options::default(), Watch::TRANSFERS).unwrap()
}

fn between(network: &Topology, source: u32, target: u32) -> LinkId {
    let ends = (NodeId(source), NodeId(target));
    network.link_ids().find(|&id| (network.link(id).source, network.link(id).target) == ends).unwrap()
}

/// Links without a common end, of which one shares two capacities.
const FIRST: [(u32, u32); 2] = [(0, 1), (2, 3)];
const SECOND: [(u32, u32); 3] = [(2, 3), (4, 5), (4, 0)];

fn with_conduits() -> Arc<Topology> {
    let full = spec("full:6");
    let links = |ends: &[(u32, u32)]| ends.iter().map(|&(a, b)| between(&full, a, b)).collect::<Vec<_>>();
    let list = vec![shared("first", 15e9, &links(&FIRST)), shared("second", 16e9, &links(&SECOND))];
    Arc::new(full.with_shared(list).unwrap())
}

/// The plan with its lanes on the same network drawn by hand: a capacity is a link between two switches.
fn drawn_by_hand(plan: &Plan) -> Plan {
    let full = spec("full:6");
    let names = ["X1", "Y1", "X2", "Y2"].map(|name| Node::switch(name, Abilities::NONE));
    let nodes = full.nodes().iter().cloned().chain(names).collect();
    let [x1, y1, x2, y2] = [6, 7, 8, 9].map(NodeId);
    let (mut links, mut routes) = (full.links().to_vec(), full.link_ids().map(|id| vec![id]).collect::<Vec<_>>());
    let add = |links: &mut Vec<Link>, source, target, bandwidth: f64| {
        let bandwidth = Bandwidth::known(bandwidth);
        links.push(Link { source, target, bandwidth, latency: Time::ZERO, overhead: Time::ZERO, streams: None });
        LinkId(links.len() as u32 - 1)
    };
    let first = add(&mut links, x1, y1, 15e9);
    let second = add(&mut links, x2, y2, 16e9);
    let between_both = add(&mut links, y1, x2, 16e9);
    for (source, target) in [(0, 1), (2, 3), (4, 5), (4, 0)] {
        let (id, is_first) = (between(&full, source, target), FIRST.contains(&(source, target)));
        links[id.index()].target = if is_first { x1 } else { x2 };
        let last = add(&mut links, if (source, target) == FIRST[0] { y1 } else { y2 }, NodeId(target), 16e9);
        routes[id.index()].extend(match (source, target) {
            (0, 1) => vec![first, last],
            (2, 3) => vec![first, between_both, second, last],
            _ => vec![second, last],
        });
    }
    let drawn = Arc::new(Topology::new("by hand", nodes, links, None, Shape::General).unwrap());
    let (mut lanes, plain) = (Lanes::default(), LaneRoutes::new(&plan.topology, &plan.lanes));
    for lane in plan.lanes.ids() {
        let route = plain.of(LaneRef::new(lane, false)).iter().flat_map(|id| routes[id.index()].clone());
        lanes.via(&drawn, &route.collect::<Vec<_>>());
    }
    Draft { topology: drawn, lanes, ..Draft::from(plan.clone()) }.prove().unwrap()
}

#[test]
fn packets_pass_conduits_as_they_pass_switches() {
    let network = with_conduits();
    for algorithm in ["packing", "mtree", "blink"] {
        // No tree of an all-gather takes links the other way.
        let options = Options { collective: Collective::AllGather, ..Options::default() };
        let plan = planners::plan(algorithm, &network, &options).unwrap();
        let (found, drawn) = (packets(&plan, 1 << 18), packets(&drawn_by_hand(&plan), 1 << 18));
        assert_eq!(found.cycles, drawn.cycles, "{algorithm}");
        assert_eq!(found.trace.carried[..], drawn.trace.carried[..32], "{algorithm}");
        assert_eq!(found.peaks[..], drawn.peaks[..30], "{algorithm}");
    }
}

/// A conduit that is as wide as its links adds two switches to the way of what passes it, and nothing else.
#[test]
fn a_conduit_that_limits_nothing_adds_two_hops() {
    let full = spec("full:4");
    let links = [between(&full, 0, 1), between(&full, 2, 3)];
    let wide = Arc::new(full.with_shared(vec![shared("wide", 31.999e9, &links)]).unwrap());
    let machine = packet::Options { clock: Some(parse_frequency("2GHz").unwrap()), ..packet::Options::default() };
    let cycles = |network: &Arc<Topology>| {
        let plan = planned("ring", network);
        packet::simulate(&plan, Bytes::known(1 << 18), &machine, Watch::NOTHING).unwrap().cycles
    };
    let (plain, passed) = (cycles(&full), cycles(&wide));
    // Each of six steps passes two switches, in each of which a flit waits for the pipeline and the wire.
    assert!(plain < passed && passed <= plain + 6 * 2 * 12, "{plain} {passed}");
}

/// A ring with chords, and capacities over some of its links, which overlap or do not.
fn random(seed: u64, overlap: bool) -> Arc<Topology> {
    let mut random = Random::new(seed);
    let ranks = 4 + random.below(4) as u32;
    let mut links = Vec::new();
    for (rank, distance) in (0..ranks).flat_map(|rank| [(rank, 1), (rank, 2)]) {
        let (source, target) = (NodeId(rank), NodeId((rank + distance) % ranks));
        let bandwidth = Bandwidth::known(1e9 * (4 + random.below(12)) as f64);
        let latency = Time::from_picoseconds(1_000 * (50 + random.below(200)));
        let there = Link { source, target, bandwidth, latency, overhead: Time::ZERO, streams: None };
        links.extend([there.clone(), Link { source: target, target: source, ..there }]);
    }
    let plain = Topology::new("random", accelerators(ranks), links, None, Shape::General).unwrap();
    let mut left: Vec<LinkId> = plain.link_ids().collect();
    let mut list = Vec::new();
    for number in 0..1 + random.below(4) {
        let count = 2 + random.below(4) as usize;
        let mut picked: Vec<LinkId> = Vec::new();
        while picked.len() < count.min(left.len()) {
            let link = left[random.below(left.len() as u64) as usize];
            if !picked.contains(&link) {
                picked.push(link);
            }
        }
        if !overlap {
            left.retain(|link| !picked.contains(link));
        }
        let sum: f64 = picked.iter().map(|&link| plain.bandwidth(link).bytes_per_second()).sum();
        list.push(shared(&format!("conduit {number}"), (sum * (0.3 + 0.4 * random.unit())).min(16e9), &picked));
    }
    list.retain(|shared| !shared.links.is_empty());
    Arc::new(plain.with_shared(list).unwrap())
}

#[test]
fn no_shared_capacity_is_exceeded_and_no_bound_is_beaten() {
    let size = 1 << 15;
    for seed in 0..12 {
        let network = random(seed, true);
        let least = bounds(&network).of_sizes.seconds(Bytes::known(size)).get();
        for algorithm in ["ring", "direct", "multitree", "dbtree", "packing", "mtree"] {
            let plan = planned(algorithm, &network);
            let found = packet::simulate(&plan, Bytes::known(size), &packet::Options::default(), Watch::TRANSFERS);
            let found = match found {
                Err(error) if error.is_misfit() => {
                    let error = error.to_string();
                    assert!(error.contains("free of deadlock") && error.contains("raise virtual_channels"), "{error}");
                    continue;
                }
                found => found.unwrap(),
            };
            let (trace, links) = (found.trace, network.links().len());
            let lengths = [trace.carried.len(), trace.occupied.len(), found.peaks.len() + network.shared().len()];
            assert_eq!(lengths, [network.num_capacities(); 3]);
            let windows = trace.samples[1].windows();
            let of_samples = [0, 1, 2].map(|quantity| trace.samples[quantity].sums.len() / windows);
            assert_eq!(of_samples, [network.nodes().len(), links, links]);
            let most = trace.carried.iter().map(|each| each.get()).fold(0.0, f64::max);
            assert!(most <= trace.seconds.get(), "{algorithm} {seed}: {most} {:?}", trace.seconds);
            assert!(least <= trace.seconds.get(), "{algorithm} {seed}: {least} {:?}", trace.seconds);
        }
    }
}

/// Rings of large messages take as long as in the flow simulator, and for the heads of packets a 16th more.
#[test]
fn large_messages_take_as_long_as_in_the_flow_simulator() {
    for seed in 0..4 {
        let plan = planned("ring", &random(seed, false));
        let size = 1 << 19;
        let ratio = packets(&plan, size).trace.seconds.get() / flow_seconds(&plan, size);
        assert!((1.05..1.15).contains(&ratio), "{seed}: {ratio}");
    }
}

#[test]
fn background_passes_conduits_on_the_routes_that_the_network_has() {
    let network = with_conduits();
    let plan = planned("multitree", &network);
    let job = Job::new(&plan, Bytes::known(1 << 16));
    let light = Background { load: 0.05, message: Bytes::known(64), seed: 1 };
    let machine = packet::Options { lockstep: Some(false), ..packet::Options::default() };
    let run = |background| {
        let together = Together { jobs: &[job, job], background };
        together.simulate(&machine, Sending::All, Watch::NOTHING).unwrap()
    };
    let (alone, beside) = (run(None), run(Some(light)));
    let figures = beside.background.unwrap();
    assert!(figures.messages > 0 && beside.jobs[0].cycles > alone.jobs[0].cycles);
    let full = spec("full:6");
    let other = planned("multitree", &full);
    let jobs = [job, Job::new(&other, Bytes::known(1 << 16))];
    let together = Together { jobs: &jobs, background: None };
    let error = together.simulate(&machine, Sending::All, Watch::NOTHING).unwrap_err().to_string();
    assert!(error.contains("its links share other capacities"), "{error}");
}

#[test]
fn a_fabric_does_not_count_what_links_share() {
    let plain = spec("dgx2:planes=1");
    let conduit = shared("conduit", 1e10, &[plain.outgoing(NodeId(0))[0], plain.outgoing(NodeId(1))[0]]);
    let network = Arc::new(plain.with_shared(vec![conduit]).unwrap());
    let plan = planned("ring", &network);
    let run = |switches| {
        let machine = packet::Options { switches, ..packet::Options::default() };
        packet::simulate(&plan, Bytes::known(4096), &machine, Watch::NOTHING)
    };
    let error = run(Some(Switches::Fabric)).unwrap_err();
    let expected = "dgx2:planes=1: a fabric does not count what links share, such as 'conduit'; use the flow simulator";
    assert!(error.is_misfit() && error.to_string().starts_with(expected), "{error}");
    assert!(run(Some(Switches::Routers)).is_ok() && run(None).is_ok());
}
