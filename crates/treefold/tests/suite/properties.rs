//! Every planner that fits any connected network makes plans that both oracles accept.

use std::sync::Arc;

use crate::common::networks::{blocks, cases, networks, options, plans};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use treefold::bound::bounds;
use treefold::plan::alpha_beta::Profile;
use treefold::plan::check::check;
use treefold::plan::check_schedule::check_schedule;
use treefold::plan::lower;
use treefold::plan::{Collective, Plan, derive};
use treefold::planners::{self, Collectives, Options, PLANNERS};
use treefold::topology::{Link, NodeId, Shape, Topology, from_spec};
use treefold::units::{Bandwidth, Bytes, Time};

/// These fit every connected network.
const ALWAYS: [&str; 16] = [
    "ring",
    "multiring",
    "dbtree",
    "halving-doubling",
    "recursive-doubling",
    "bine",
    "direct",
    "bruck",
    "pat",
    "multitree",
    "ps",
    "p2p",
    "psld",
    "plink",
    "forest",
    "cheapest",
];

fn assert_right(plan: &Plan, elements: u64) {
    let who = || format!("{} {} on {}", plan.algorithm, plan.collective, plan.topology.to_json());
    check(plan).unwrap_or_else(|error| panic!("{error}: {}", who()));
    check_schedule(plan, &lower(plan, elements, 8).unwrap())
        .unwrap_or_else(|error| panic!("{error}: {elements} elements, {}", who()));
}

/// What the table of planners says of an algorithm; trees of tests are for all collectives.
fn collectives_of(algorithm: &str) -> Collectives {
    let found = PLANNERS.iter().find(|planner| planner.name == algorithm);
    found.map_or(Collectives::Derived, |planner| planner.collectives)
}

/// The plan of a collective that follows from a plan of an all-reduce, or the planner's own.
fn made(plan: &Plan, collective: Collective, root: NodeId, options: &Options) -> treefold::error::Result<Plan> {
    derive(plan.clone(), collective, root).or_else(|error| match collectives_of(&plan.algorithm) {
        Collectives::Each => {
            planners::plan(&plan.algorithm, &plan.topology, &Options { collective, root, ..options.clone() })
        }
        _ => Err(error),
    })
}

#[test]
fn planners_make_the_collectives_that_their_table_says() {
    let networks =
        ["torus:4x4", "bigraph:2x4", "dgx2:planes=6"].map(|spec| Arc::new(from_spec(spec, None, None).unwrap()));
    for planner in PLANNERS {
        let fits = |collective, network| {
            planners::plan(planner.name, network, &Options { collective, ..Options::default() }).is_ok()
        };
        let made = Collective::ALL.map(|collective| networks.iter().any(|network| fits(collective, network)));
        let is_made = |collective| collective == Collective::AllReduce || planner.collectives != Collectives::AllReduce;
        assert_eq!(made, Collective::ALL.map(is_made), "{}", planner.name);
    }
}

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn every_plan_of_every_collective_is_right(
        topology in networks(),
        options in options(),
        elements in select(vec![0u64, 1, 5, 17, 400]),
        root in any::<u32>(),
    ) {
        let plans = plans(&topology, &options);
        let blocks = blocks(topology.ranks(), u64::from(root));
        for name in ALWAYS {
            assert!(plans.iter().any(|plan| plan.algorithm == name), "{name} on {}", topology.to_json());
        }
        for plan in plans {
            for collective in Collective::ALL {
                match made(&plan, collective, NodeId(root % topology.ranks()), &options) {
                    Ok(derived) => {
                        assert_right(&derived, elements);
                        if collective == Collective::AllToAll {
                            assert_right(&derived.with_blocks(blocks.clone()).unwrap(), elements);
                        }
                    }
                    Err(error) => assert!(collectives_of(&plan.algorithm) == Collectives::AllReduce, "{error}"),
                }
            }
        }
    }

    #[test]
    fn plan_files_round_trip(topology in networks(), options in options()) {
        for plan in plans(&topology, &options) {
            let text = plan.to_json();
            let again = Plan::from_json(&text).unwrap();
            assert_eq!(again.as_written().to_json(), text);
            let again = again.prove().unwrap();
            assert_eq!((again.steps(), again.shape()), (plan.steps(), plan.shape()));
            let Ok(exchanged) = derive(plan, Collective::AllToAll, NodeId(0)) else { continue };
            let exchanged = exchanged.with_blocks(blocks(topology.ranks(), options.seed)).unwrap();
            assert_eq!(Plan::from_json(&exchanged.to_json()).unwrap().prove().unwrap(), &exchanged);
        }
    }

    #[test]
    fn no_plan_beats_the_bounds(topology in networks(), options in options(), size in 1u64..1 << 34) {
        let bounds = bounds(&topology);
        let limit = bounds.in_network.unwrap_or(bounds.all_reduce).rate.bytes_per_second();
        for plan in plans(&topology, &options) {
            let rate = plan.rate().map_or(0.0, |rate| rate.bytes_per_second());
            prop_assert!(rate <= limit * (1.0 + 1e-9), "{} has rate {rate}, the bound is {limit}", plan.algorithm);
            let seconds = Profile::new(&plan).seconds(Bytes::known(size));
            prop_assert!(seconds >= bounds.seconds(Bytes::known(size)) * (1.0 - 1e-9), "{}: {seconds}", plan.algorithm);
        }
    }

    #[test]
    fn planning_again_gives_the_same_plan(topology in networks(), options in options()) {
        let again = Arc::new(Topology::from_json(&topology.to_json()).unwrap());
        let texts = |topology| plans(topology, &options).iter().map(|plan| plan.to_json()).collect::<Vec<_>>();
        assert_eq!(texts(&topology), texts(&again));
    }

    #[test]
    fn routes_join_their_ends_in_as_many_links_as_hops(topology in networks()) {
        for source in topology.rank_ids() {
            for target in topology.rank_ids().filter(|&target| target != source) {
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
    let one_way = |t: &Topology| t.link_ids().any(|link| t.reverse(link).is_none());
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
    let link = |source, target, bandwidth| Link {
        bandwidth: Bandwidth::known(bandwidth),
        ..crate::common::link(source, target)
    };
    let links = [(0, 1, 1e9), (1, 2, 29349489.33891371), (1, 3, 1e9), (3, 0, 9843055927.453484)];
    let both_ways = links.iter().flat_map(|&(a, b, bandwidth)| [link(a, b, bandwidth), link(b, a, bandwidth)]);
    let both_ways = both_ways.map(|link| Link { latency: Time::from_picoseconds(1_000), ..link }).collect();
    let ranks = Some([3, 2, 1, 0].map(NodeId).to_vec());
    let topology = Topology::new("hang", crate::common::accelerators(4), both_ways, ranks, Shape::General).unwrap();
    let (done, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(plans(&Arc::new(topology), &Options::default()).len()));
    let planned = wait.recv_timeout(std::time::Duration::from_secs(20));
    assert!(planned.is_ok_and(|plans| plans > ALWAYS.len()), "planning does not end");
}

/// Two ranks whose ring has a cable of its own, but in one of two planes both ways round go over one link: what the
/// ring promises of its routes does not hold of theirs.
#[test]
fn stripes_promise_what_their_planes_hold() {
    let inner = [(0, 2), (1, 2), (2, 3), (3, 0), (3, 1)];
    let cables = [(0, 1), (1, 0), (0, 4), (4, 0), (1, 4), (4, 1)];
    let links: Vec<_> = inner.into_iter().chain(cables).collect();
    let topology = crate::common::one_way(crate::common::accelerators(5), &links, Some(vec![0, 1]));
    for plan in plans(&topology, &Options::default()) {
        assert_right(&plan, 17);
    }
}
