//! Every planner that fits any connected network makes plans that both oracles accept.

mod common;

use std::sync::Arc;

use common::spec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use treefold::bound::bounds;
use treefold::plan::alpha_beta::Profile;
use treefold::plan::check::check;
use treefold::plan::check_schedule::check_schedule;
use treefold::plan::schedule::lower;
use treefold::plan::{Collective, Plan, derive};
use treefold::planners::{Options, PLANNERS, multitree};
use treefold::topology::{Link, Node, NodeId, Shape, Topology};
use treefold::units::{Bandwidth, Bytes, Time};

/// What a random network is made from; any values make a connected one.
#[derive(Debug, Clone)]
struct Wish {
    accelerators: u32,
    switches: u32,
    /// How many accelerators only relay (at least one stays a rank).
    relays: u32,
    /// Whether ranks count the accelerators backwards.
    backwards: bool,
    /// One-way cycle through all nodes instead of a tree of cables.
    one_way: bool,
    /// For each node, where it hangs in the tree of cables.
    parents: Vec<u32>,
    /// Ends, whether it is a cable, and bandwidth of further links; two may be parallel.
    chords: Vec<(u32, u32, bool, f64)>,
    /// Bandwidth of the tree's or cycle's links, cyclically.
    bandwidths: Vec<f64>,
}

fn bandwidths() -> impl Strategy<Value = f64> {
    prop_oneof![3 => Just(1e9), 1 => select(vec![2e9, 1.5e9, 4e8, 1e7]), 1 => 1e6..1e10]
}

fn wishes() -> impl Strategy<Value = Wish> {
    let counts =
        (1..=10u32, prop_oneof![Just(0), 1..=4u32], prop_oneof![Just(0), 1..=3u32], any::<bool>(), any::<bool>());
    let chords = prop::collection::vec((any::<u32>(), any::<u32>(), any::<bool>(), bandwidths()), 0..12);
    let parts = (prop::collection::vec(any::<u32>(), 14), chords, prop::collection::vec(bandwidths(), 1..4));
    (counts, parts).prop_map(|((accelerators, switches, relays, backwards, one_way), (parents, chords, bandwidths))| {
        Wish { accelerators, switches, relays, backwards, one_way, parents, chords, bandwidths }
    })
}

impl Wish {
    fn nodes(&self) -> Vec<Node> {
        let able = |i: u32| Node {
            reduces: i.is_multiple_of(2),
            multicasts: i.is_multiple_of(3),
            latency: Time(150_000),
            ..Node::switch(format!("S{i}"))
        };
        (0..self.switches).map(able).chain((0..self.accelerators).map(|i| Node::accelerator(format!("A{i}")))).collect()
    }

    fn links(&self, count: u32) -> Vec<Link> {
        let mut links = Vec::new();
        let mut add = |source: u32, target: u32, cable: bool, bandwidth: f64| {
            let link = Link {
                source,
                target,
                bandwidth: Bandwidth(bandwidth),
                latency: Time(1_000),
                overhead: Time(u64::from(source % 2) * 500),
            };
            let back = Link { source: target, target: source, ..link.clone() };
            links.extend((source != target).then_some(link));
            links.extend((source != target && cable).then_some(back));
        };
        for node in 0..count {
            let bandwidth = self.bandwidths[node as usize % self.bandwidths.len()];
            if self.one_way {
                add(node, (node + 1) % count, false, bandwidth);
            } else if node > 0 {
                add(self.parents[node as usize] % node, node, true, bandwidth);
            }
        }
        self.chords.iter().for_each(|&(a, b, cable, bandwidth)| add(a % count, b % count, cable, bandwidth));
        links
    }

    fn build(&self) -> Topology {
        let nodes = self.nodes();
        let links = self.links(nodes.len() as u32);
        let count = self.accelerators - self.relays.min(self.accelerators - 1);
        let mut ranks: Vec<NodeId> = (0..count).map(|i| self.switches + i).collect();
        if self.backwards {
            ranks.reverse();
        }
        Topology::new("random", nodes, links, Some(ranks), Shape::General).unwrap()
    }
}

/// Any connected network, or one of a shape that some planners know.
fn networks() -> impl Strategy<Value = Arc<Topology>> {
    let shaped = vec![
        "torus:3x3",
        "torus:2x4",
        "torus:2x5",
        "mesh:2x5",
        "mesh:3x3",
        "torus:2x2x2",
        "hypercube:3",
        "bigraph:2x4",
        "bigraph:1x4",
        "bigraph:2x2",
        "fattree:2,3",
        "cluster:nodes=2,gpus=4,rails=2",
        "line:1",
        "ring:2",
    ];
    prop_oneof![8 => wishes().prop_map(|wish| Arc::new(wish.build())), 1 => select(shaped).prop_map(spec)]
}

fn options() -> impl Strategy<Value = Options> {
    let turns = select(vec![None, Some(multitree::Turn::Ascending), Some(multitree::Turn::RemainingHeight)]);
    let neighbors = select(vec![multitree::Neighbors::Listed, multitree::Neighbors::Reversed]);
    let trees = prop_oneof![2 => Just(None), 1 => (1..=10u32).prop_map(Some)];
    (turns, neighbors, trees).prop_map(|(turn, neighbors, trees)| Options {
        turn,
        neighbors,
        trees,
        ..Options::default()
    })
}

/// The plans of all planners that fit.
fn plans(topology: &Arc<Topology>, options: &Options) -> Vec<Plan> {
    let options = Options { trees: options.trees.map(|trees| trees.min(topology.ranks())), ..options.clone() };
    PLANNERS.iter().filter_map(|planner| (planner.plan)(topology, &options).ok()).collect()
}

/// These fit every connected network.
const ALWAYS: [&str; 5] = ["ring", "multiring", "dbtree", "halving-doubling", "multitree"];

fn assert_right(plan: &Plan, elements: u64) {
    let who = || format!("{} {} on {}", plan.algorithm, plan.collective, plan.topology.to_json());
    check(plan).unwrap_or_else(|error| panic!("{error}: {}", who()));
    check_schedule(plan, &lower(plan, elements, 8))
        .unwrap_or_else(|error| panic!("{error}: {elements} elements, {}", who()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_plan_of_every_collective_is_right(
        topology in networks(), options in options(), elements in select(vec![0u64, 1, 5, 17, 400]), root in any::<u32>(),
    ) {
        let plans = plans(&topology, &options);
        for name in ALWAYS {
            assert!(plans.iter().any(|plan| plan.algorithm == name), "{name} on {}", topology.to_json());
        }
        for plan in plans {
            for (collective, _) in Collective::NAMES {
                match derive(plan.clone(), collective, root % topology.ranks()) {
                    Ok(derived) => assert_right(&derived, elements),
                    Err(error) => assert!(plan.algorithm == "ring2d", "{error}"),
                }
            }
        }
    }

    #[test]
    fn plan_files_round_trip(topology in networks(), options in options()) {
        for plan in plans(&topology, &options) {
            let text = plan.to_json();
            let again = Plan::from_json(&text).unwrap();
            assert_eq!(again.to_json(), text);
            check(&again).unwrap();
            assert_eq!((again.steps(), again.shape()), (plan.steps(), plan.shape()));
        }
    }

    #[test]
    fn no_plan_beats_the_bounds(topology in networks(), options in options(), size in 1u64..1 << 34) {
        let bounds = bounds(&topology);
        let limit = bounds.in_network.unwrap_or(bounds.all_reduce).rate.0;
        for plan in plans(&topology, &options) {
            let rate = plan.rate().map_or(0.0, |rate| rate.0);
            prop_assert!(rate <= limit * (1.0 + 1e-9), "{} has rate {rate}, the bound is {limit}", plan.algorithm);
            let seconds = Profile::new(&plan).seconds(Bytes(size));
            prop_assert!(seconds >= bounds.seconds(Bytes(size)) * (1.0 - 1e-9), "{}: {seconds}", plan.algorithm);
        }
    }

    #[test]
    fn planning_again_gives_the_same_plan(topology in networks(), options in options()) {
        let again = Arc::new(Topology::from_json(&topology.to_json()).unwrap());
        let texts = |topology| plans(topology, &options).iter().map(Plan::to_json).collect::<Vec<_>>();
        assert_eq!(texts(&topology), texts(&again));
    }

    #[test]
    fn routes_join_their_ends_in_as_many_links_as_hops(topology in networks()) {
        for source in 0..topology.ranks() {
            for target in (0..topology.ranks()).filter(|&target| target != source) {
                let mut route = Vec::new();
                topology.route(source, target, &mut route);
                let end = route.iter().fold(source, |at, &link| {
                    assert_eq!(topology.link(link).source, at);
                    topology.link(link).target
                });
                assert_eq!(end, target);
                assert_eq!(route.len() as u32, topology.hops(source, target));
            }
        }
    }
}

#[test]
fn the_networks_cover_what_they_should() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let made: Vec<_> = (0..300).map(|_| networks().new_tree(&mut runner).unwrap().current()).collect();
    let some = |what: &dyn Fn(&Topology) -> bool| made.iter().filter(|&topology| what(topology)).count() >= 10;
    let unequal = |t: &Topology| t.links().iter().any(|link| link.bandwidth != t.links()[0].bandwidth);
    let one_way = |t: &Topology| (0..t.links().len() as u32).any(|link| t.reverse(link).is_none());
    let relays = |t: &Topology| t.num_accelerators() > t.ranks() as usize;
    let parallel = |t: &Topology| {
        (1..t.links().len()).any(|i| {
            t.links()[..i].iter().any(|link| (link.source, link.target) == (t.links()[i].source, t.links()[i].target))
        })
    };
    assert!(some(&|t| t.is_direct()) && some(&|t| t.nodes().len() > t.num_accelerators()), "direct and switched");
    assert!(some(&unequal) && some(&one_way) && some(&relays) && some(&parallel));
    assert!((1..=10).all(|ranks| made.iter().any(|topology| topology.ranks() == ranks)));
}

/// Four ranks whose costs, added as floats in another order, once looked like an improvement for ever.
#[test]
fn looking_for_a_short_ring_ends() {
    let link = |source, target, bandwidth| Link { bandwidth: Bandwidth(bandwidth), ..common::link(source, target) };
    let links = [(0, 1, 1e9), (1, 2, 29349489.33891371), (1, 3, 1e9), (3, 0, 9843055927.453484)];
    let both_ways = links.iter().flat_map(|&(a, b, bandwidth)| [link(a, b, bandwidth), link(b, a, bandwidth)]);
    let both_ways = both_ways.map(|link| Link { latency: Time(1_000), ..link }).collect();
    let ranks = Some(vec![3, 2, 1, 0]);
    let topology = Topology::new("hang", common::accelerators(4), both_ways, ranks, Shape::General).unwrap();
    let (done, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(plans(&Arc::new(topology), &Options::default()).len()));
    assert_eq!(wait.recv_timeout(std::time::Duration::from_secs(20)), Ok(ALWAYS.len()), "planning does not end");
}
