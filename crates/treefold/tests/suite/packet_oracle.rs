//! The packet simulator against an oracle that steps flit by flit (`common/flits.rs`): cycles and every receipt are the
//! same.

#[path = "common/flits.rs"]
mod flits;

use std::ops::Range;
use std::sync::Arc;

use crate::common::networks::cases;
use crate::common::{planned, spec};
use proptest::prelude::*;
use proptest::sample::select;
use treefold::plan::Plan;
use treefold::planners::{self, PLANNERS};
use treefold::random::Random;
use treefold::sim::packet::{FlowControl, Interfaces, Options, Outcome, Sending, Together, simulate};
use treefold::sim::samples::Samples;
use treefold::sim::{Job, Watch};
use treefold::topology::{Abilities, Link, LinkId, Node, NodeId, Shape, Shared, Topology};
use treefold::units::{Bandwidth, Bytes, Time};

fn agrees(plan: &Plan, size: u64, options: &Options) {
    let outcome = match simulate(plan, Bytes::known(size), options, Watch::TRANSFERS) {
        Err(error) if error.to_string().contains("virtual channels") || error.to_string().contains("port") => return,
        outcome => outcome.unwrap(),
    };
    let seen_by_flits = flits::watch(&[Job::new(plan, Bytes::known(size))], options);
    let (cycles, received) = (&seen_by_flits.cycles, &seen_by_flits.received);
    let seen: Vec<u64> = outcome
        .trace
        .transfers
        .iter()
        .map(|span| (span.received.get() * outcome.clock.hertz()).round() as u64)
        .collect();
    let first = seen.iter().zip(received).position(|(a, b)| a != b);
    assert_eq!(first.map(|i| (i, seen[i], received[i])), None, "{} {options:?}", plan.algorithm);
    assert_eq!([outcome.cycles], **cycles, "{} {options:?}", plan.algorithm);
    samples_agree(&outcome.trace.samples, &seen_by_flits.samples, options);
    let unwatched = simulate(plan, Bytes::known(size), options, Watch::NOTHING).unwrap();
    assert_eq!((unwatched.cycles, unwatched.trace.samples), (outcome.cycles, vec![]), "recording changes nothing");
    for samples in &outcome.trace.samples {
        let windows = samples.windows();
        assert!(samples.width == 1 || (129..=256).contains(&windows), "{windows} windows of {} cycles", samples.width);
    }
}

/// Holds for several jobs that both simulators agree on when each ends and every message is received.
fn agrees_on_jobs(jobs: &[Job], options: &Options) {
    let together = Together { jobs, background: None };
    let outcomes = match together.simulate(options, Sending::All, Watch::TRANSFERS) {
        Err(error) if error.to_string().contains("virtual channels") || error.to_string().contains("port") => return,
        outcomes => outcomes.unwrap().jobs,
    };
    let unwatched = together.simulate(options, Sending::All, Watch::NOTHING).unwrap().jobs;
    let ends = |jobs: &[Outcome]| jobs.iter().map(|job| job.cycles).collect::<Vec<_>>();
    assert_eq!(ends(&unwatched), ends(&outcomes), "recording changes nothing");
    let flits::Seen { cycles, received, samples } = flits::watch(jobs, options);
    let cycles_of =
        outcomes.iter().flat_map(|job| job.trace.transfers.iter().map(|sent| sent.received.get() * job.clock.hertz()));
    let seen: Vec<u64> = cycles_of.map(|cycle| cycle.round() as u64).collect();
    let first = seen.iter().zip(&received).position(|(a, b)| a != b);
    assert_eq!(first.map(|i| (i, seen[i], received[i])), None, "{options:?}");
    assert_eq!(ends(&outcomes), cycles, "{options:?}");
    outcomes.iter().for_each(|job| samples_agree(&job.trace.samples, &samples, options));
}

/// Holds that the sums of what is sampled are those of all cycles of each window.
fn samples_agree(found: &[Samples], seen: &flits::Samples, options: &Options) {
    let [buffers, credits, contention] = found else { panic!("there are three quantities") };
    for (found, seen) in [(buffers, &seen.buffers), (credits, &seen.credits), (contention, &seen.contention)] {
        let (width, windows) = (found.width as usize, found.windows());
        assert_eq!(found.sums.len(), seen.len() * windows);
        for (item, row) in seen.iter().enumerate() {
            let sums = row.chunks(width).map(|cycles| cycles.iter().sum::<u32>().into());
            let sums: Vec<f64> = sums.chain(std::iter::repeat(0.0)).take(windows).collect();
            let name = found.quantity.name();
            assert_eq!(found.sums[item * windows..][..windows], sums, "{name} of {item}, {width} cycles, {options:?}");
        }
    }
}

#[test]
fn jobs_on_the_same_ranks_and_on_two_groups() {
    let torus = spec("torus:2x3");
    let [left, right] = [[0, 1, 3], [4, 5, 2]].map(|ranks| Arc::new(torus.with_ranks(&ranks).unwrap()));
    let plan = |name: &str, on: &Arc<Topology>| planners::plan(name, on, &planners::Options::default()).unwrap();
    let (ring, trees, dbtree) = (plan("ring", &torus), plan("multitree", &torus), plan("dbtree", &torus));
    let (one, other) = (plan("multitree", &left), plan("ring", &right));
    let shared = Options { interfaces: Interfaces::Shared, ..Options::default() };
    let message = Options { flow_control: FlowControl::Message, lockstep: Some(true), ..Options::default() };
    for options in [Options::default(), shared, message] {
        for plans in [[&ring, &ring], [&ring, &trees], [&dbtree, &trees], [&dbtree, &dbtree], [&one, &other]] {
            let job = |(plan, size): (_, u64)| Job::new(plan, Bytes::known(size));
            agrees_on_jobs(&plans.iter().copied().zip([6000, 4000]).map(job).collect::<Vec<_>>(), &options);
        }
    }
}

/// Holds for a plan of `algorithm` that both simulators agree on every machine of the paper.
fn agrees_on_machines(algorithm: &str, network: &str, size: u64) {
    let shared = Options { interfaces: Interfaces::Shared, ..Options::default() };
    let message = Options { flow_control: FlowControl::Message, ..Options::default() };
    let plan = planned(algorithm, network);
    for options in [&Options::default(), &shared, &message] {
        agrees(&plan, size, options);
    }
}

#[test]
fn something_starves_and_contends() {
    let whole = |network: &str, flow_control: FlowControl| {
        let options = Options { flow_control, buffer_flits: Some(20), virtual_channels: 2, ..Options::default() };
        let plan = planned("dbtree", network);
        agrees(&plan, 6000, &options);
        let found = simulate(&plan, Bytes::known(6000), &options, Watch::TRANSFERS).unwrap().trace.samples;
        found.iter().map(|samples| samples.sums.iter().sum::<f64>()).collect::<Vec<_>>()
    };
    for flow_control in [FlowControl::Packet, FlowControl::Message] {
        let sums = ["torus:3x3", "fattree:4,2"].map(|network| whole(network, flow_control));
        for (quantity, (torus, fattree)) in sums[0].iter().zip(&sums[1]).enumerate() {
            assert!(torus + fattree > 0.0, "{flow_control:?} {quantity}");
        }
        assert!(sums[1][1] > 0.0, "interfaces on the wire starve, too");
    }
}

#[test]
fn small_networks_of_every_kind() {
    agrees_on_machines("multitree", "mesh:2x2", 8 << 10);
    agrees_on_machines("dbtree", "ring:5", 5 << 10);
    agrees_on_machines("hdrm", "bigraph:2x4", 4 << 10);
    agrees_on_machines("multitree", "fattree:2,2", 4 << 10);
}

#[test]
#[ignore = "it is slow: `make test-slow` runs it"]
fn the_paper_s_networks() {
    for (algorithm, network, size) in [
        ("ring", "torus:2x3", 12 << 10),
        ("multitree", "torus:3x3", 18 << 10),
        ("multitree", "mesh:2x3", 30 << 10),
        ("dbtree", "torus:3x3", 18 << 10),
        ("ring2d", "mesh:2x3", 24 << 10),
        ("hdrm", "bigraph:2x4", 16 << 10),
        ("multitree", "fattree:4,2", 16 << 10),
        ("multiring", "torus:3x3", 9 << 10),
        ("halving-doubling", "mesh:2x4", 16 << 10),
    ] {
        agrees_on_machines(algorithm, network, size);
    }
}

/// A machine with little room, so that everything contends.
fn machines() -> impl Strategy<Value = Options> {
    let sizes = (select(vec![1u64, 2, 4]), 0u32..12, 1..=6u32, 3..=5u32);
    let choices = (any::<bool>(), any::<bool>(), select(vec![None, Some(true), Some(false)]), any::<bool>());
    (sizes, choices, 1..=6u32).prop_map(|((payload, room, channels, router), choices, messages)| {
        let (shared, message, lockstep, one_port) = choices;
        Options {
            interfaces: if shared { Interfaces::Shared } else { Interfaces::Bound },
            flow_control: if message { FlowControl::Message } else { FlowControl::Packet },
            lockstep,
            ports: one_port.then_some(1),
            virtual_channels: channels,
            buffer_flits: Some(1 + payload as u32 + room),
            payload: Some(Bytes::known(16 * payload)),
            router_cycles: Some(router),
            interface_packets: messages,
            injection_flits: Some(1 + payload as u32 + room / 2),
            ..Options::default()
        }
    })
}

/// Up to nine accelerators and four switches, with links of unequal rate, latency and overhead, some of which share
/// capacities.
fn networks() -> impl Strategy<Value = Arc<Topology>> {
    let grids = select(vec!["torus:3x3", "mesh:3x3", "ring:5", "torus:2x2x2", "bigraph:2x4", "fattree:4,2", "full:5"]);
    let random = (2..=7u32, 0..=3u32, any::<u64>()).prop_map(|(ranks, switches, seed)| random(ranks, switches, seed));
    prop_oneof![1 => grids.prop_map(spec), 2 => random]
}

fn random(ranks: u32, switches: u32, seed: u64) -> Arc<Topology> {
    let mut random = Random::new(seed);
    let count = ranks + switches;
    let slow = |i: u32| Time::from_picoseconds(if i.is_multiple_of(3) { 5_000 } else { 0 });
    let mut nodes: Vec<Node> =
        (0..ranks).map(|i| Node { latency: slow(i), ..Node::accelerator(format!("R{i}")) }).collect();
    nodes.extend(
        (0..switches)
            .map(|i| Node { latency: Time::from_picoseconds(2_000), ..Node::switch(format!("S{i}"), Abilities::NONE) }),
    );
    let mut links = Vec::new();
    let mut cable = |a: u32, b: u32, random: &mut Random| {
        let bandwidth = Bandwidth::known([16e9, 16e9, 10e9, 3.7e9][random.below(4) as usize]);
        let latency = Time::from_picoseconds([0, 1_000, 7_000, 20_000][random.below(4) as usize]);
        let overhead = Time::from_picoseconds([0, 0, 0, 5_000][random.below(4) as usize]);
        for (source, target) in [(a, b), (b, a)] {
            let (source, target) = (NodeId(source), NodeId(target));
            links.push(Link { source, target, bandwidth, latency, overhead, streams: None });
        }
    };
    for node in 1..count {
        let parent = random.below(u64::from(node)) as u32;
        cable(parent, node, &mut random);
    }
    for _ in 0..random.below(6) {
        let (a, b) = (random.below(u64::from(count)) as u32, random.below(u64::from(count)) as u32);
        if a != b {
            cable(a, b, &mut random);
        }
    }
    let plain = Topology::new("random", nodes, links, None, Shape::General).unwrap();
    let count = [0, 0, 1, 2, 4][random.below(5) as usize];
    let shared = (0..count).map(|number| shared(&plain, number, &mut random)).collect();
    Arc::new(plain.with_shared(shared).unwrap())
}

/// A capacity over some links, or over all out of a node or into one.
fn shared(plain: &Topology, number: u32, random: &mut Random) -> Shared {
    let node = NodeId(random.below(plain.nodes().len() as u64) as u32);
    let links: Vec<LinkId> = match random.below(4) {
        0 => plain.outgoing(node).to_vec(),
        1 => plain.incoming(node).to_vec(),
        _ => {
            let first = random.below(plain.links().len() as u64) as u32;
            plain.link_ids().filter(|&link| link.0 == first || random.below(3) == 0).collect()
        }
    };
    let sum: f64 = links.iter().map(|&link| plain.bandwidth(link).bytes_per_second()).sum();
    let part = (0.2 + 0.7 * random.unit()).min(16e9 / sum);
    Shared { name: format!("shared {number}"), bandwidth: Bandwidth::known(sum * part), links }
}

/// A plan of any planner that fits a random network, a message size and a machine.
#[derive(Debug)]
struct Drawn {
    network: Arc<Topology>,
    options: Options,
    size: u64,
    pick: prop::sample::Index,
}

fn drawn(sizes: Range<u64>) -> impl Strategy<Value = Drawn> {
    (networks(), machines(), sizes, any::<prop::sample::Index>()).prop_map(|(network, options, size, pick)| Drawn {
        network,
        options,
        size,
        pick,
    })
}

/// Plans a network with the drawn planner, or with the next one that fits it.
fn drawn_plan(network: &Arc<Topology>, pick: &prop::sample::Index) -> Plan {
    let plan = |name| planners::plan(name, network, &planners::Options::default()).ok();
    let from_pick = PLANNERS.iter().cycle().skip(pick.index(PLANNERS.len())).take(PLANNERS.len());
    from_pick.map(|planner| planner.name).find_map(plan).expect("rings fit every network")
}

/// Holds for one of the planners that fit the network that both simulators agree.
fn agrees_with_a_planner(drawn: &Drawn) {
    agrees(&drawn_plan(&drawn.network, &drawn.pick), drawn.size, &drawn.options);
}

proptest! {
    #![proptest_config(cases(16))]

    #[test]
    fn random_networks_and_machines(drawn in drawn(1..6000)) {
        agrees_with_a_planner(&drawn);
    }

    #[test]
    fn several_jobs_on_random_networks_and_machines(
        drawn in drawn(1..3000),
        picks in prop::collection::vec((any::<prop::sample::Index>(), 1u64..3000, any::<u64>()), 1..=2),
    ) {
        let mut plans = vec![(drawn_plan(&drawn.network, &drawn.pick), drawn.size)];
        for (pick, size, seed) in picks {
            let mut random = Random::new(seed);
            let accelerators = drawn.network.num_accelerators() as u32;
            let chosen: Vec<u32> = (0..accelerators).filter(|_| random.below(3) > 0).collect();
            let network = drawn.network.with_ranks(&chosen).map_or_else(|_| Arc::clone(&drawn.network), Arc::new);
            plans.push((drawn_plan(&network, &pick), size));
        }
        let jobs: Vec<Job> = plans.iter().map(|(plan, size)| Job::new(plan, Bytes::known(*size))).collect();
        agrees_on_jobs(&jobs, &drawn.options);
    }

    #[test]
    #[ignore = "it is slow: `make test-slow` runs it"]
    fn larger_messages(drawn in drawn(6000..12000)) {
        agrees_with_a_planner(&drawn);
    }
}
