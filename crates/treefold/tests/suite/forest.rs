//! `forest`: trees out of every rank reach the rate of the minimum cuts, and are sent in an order that wastes nothing.

use std::sync::Arc;

use proptest::prelude::*;
use treefold::bound::{CollectiveBounds, Kind, bounds};
use treefold::plan::alpha_beta::Profile;
use treefold::plan::check::check;
use treefold::plan::{Collective, Pace, Plan, derive};
use treefold::planners::{self, Options};
use treefold::sim::{Watch, flow};
use treefold::topology::{NodeId, Topology, from_spec};
use treefold::units::{Bytes, Seconds, parse_bytes};

use crate::common::networks::{blocks, cases, networks};

const BOTH: [Collective; 2] = [Collective::AllGather, Collective::ReduceScatter];
const OWN: [Collective; 5] =
    [Collective::AllGather, Collective::ReduceScatter, Collective::Broadcast, Collective::Reduce, Collective::AllToAll];

fn plan(topology: &Arc<Topology>, collective: Collective, size: &str) -> Plan {
    let options = Options { collective, size: parse_bytes(size).unwrap(), ..Options::default() };
    planners::plan("forest", topology, &options).unwrap()
}

/// The rate of an all-gather that cuts allow, on a network whose directions are alike: there, two phases take twice as
/// long as one.
fn rate_of_cuts(topology: &Topology) -> f64 {
    assert!(topology.is_symmetric());
    2.0 * bounds(topology).reduce_scatter_all_gather.rate.bytes_per_second()
}

fn seconds(plan: &Plan, size: Bytes) -> Seconds {
    flow::simulate(plan, size, Watch::NOTHING).unwrap().seconds
}

#[test]
fn trees_reach_the_rate_of_the_minimum_cuts() {
    expect_the_rate_of_the_cuts(&[
        "torus:4x4",
        "mesh:4x7",
        "hypercube:4",
        "dgx2",
        "dgx2:planes=6",
        "fattree:4,2",
        "cluster:nodes=3,gpus=4,rails=2",
        "b4",
        "b4:skew=0.7,seed=5",
        "random:n=20,links=60,seed=1",
    ]);
}

#[test]
#[ignore = "takes seconds"]
fn trees_of_larger_networks_reach_the_rate_of_the_minimum_cuts() {
    expect_the_rate_of_the_cuts(&[
        "torus:8x8",
        "torus:3x4x5",
        "mesh:5x5",
        "cluster:nodes=4,gpus=8,rails=8",
        "random:n=40,links=100,seed=7",
    ]);
}

fn expect_the_rate_of_the_cuts(specs: &[&str]) {
    for spec in specs {
        let topology = Arc::new(from_spec(spec, None, None).unwrap());
        for collective in BOTH {
            let plan = plan(&topology, collective, "64GiB");
            check(&plan).unwrap();
            let reached = plan.rate().unwrap().bytes_per_second() / rate_of_cuts(&topology);
            assert!((0.995..1.0 + 1e-9).contains(&reached), "{spec} {collective}: {reached}");
        }
    }
}

#[test]
fn a_root_broadcasts_near_the_rate_of_its_minimum_cut() {
    for spec in ["full:8", "torus:4x4", "mesh:4x7", "dgx2", "b4", "cluster:nodes=3,gpus=4,rails=2"] {
        let topology = Arc::new(from_spec(spec, None, None).unwrap());
        for (collective, root) in [(Collective::Broadcast, 0), (Collective::Reduce, 5)] {
            let options =
                Options { collective, root: NodeId(root), size: parse_bytes("64GiB").unwrap(), ..Options::default() };
            let plan = planners::plan("forest", &topology, &options).unwrap();
            check(&plan).unwrap();
            let kind = if collective == Collective::Broadcast { Kind::Broadcast } else { Kind::Reduce };
            let bound = CollectiveBounds::new(&topology, kind(NodeId(root))).rate.rate.bytes_per_second();
            let reached = plan.rate().unwrap().bytes_per_second() / bound;
            assert!((0.93..1.0 + 1e-9).contains(&reached), "{spec} {collective}: {reached}");
        }
    }
}

#[test]
fn an_all_to_all_comes_near_the_maximum_concurrent_flow() {
    expect_the_concurrent_flow(&[
        ("torus:4x4", 32.0),
        ("mesh:5x5", 13.3333),
        ("dgx2", 17.0667),
        ("b4", 0.01875),
        ("b4:skew=0.7,seed=5", 0.024383),
    ]);
}

#[test]
#[ignore = "takes seconds"]
fn an_all_to_all_of_a_larger_network_comes_near_the_maximum_concurrent_flow() {
    expect_the_concurrent_flow(&[
        ("torus:8x8", 16.0),
        ("bigraph:4x8", 12.8),
        ("cluster:nodes=4,gpus=8,rails=8", 66.6667),
        ("random:n=20,links=60,seed=1", 0.0694444),
    ]);
}

/// Expect the most GB/s of a rank's vector, which linear programs gave, of plans and their simulations.
fn expect_the_concurrent_flow(rates: &[(&str, f64)]) {
    let size = parse_bytes("1GB").unwrap();
    for (spec, most) in rates {
        let topology = Arc::new(from_spec(spec, None, None).unwrap());
        let plan = plan(&topology, Collective::AllToAll, "1GB");
        check(&plan).unwrap();
        let planned = plan.rate().unwrap().bytes_per_second() / 1e9 / most;
        assert!((0.99..1.0001).contains(&planned), "{spec}: {planned}");
        let simulated = size.get() as f64 / seconds(&plan, size).get() / 1e9 / most;
        assert!((0.98..1.0001).contains(&simulated), "{spec}: {simulated}");
    }
}

/// Three ranks, which these links join.
fn triangle(links: &str) -> Arc<Topology> {
    let nodes = r#"[{"name": "a"}, {"name": "b"}, {"name": "c"}]"#;
    let head = r#""format": "treefold-topology", "version": 1, "name": "triangle""#;
    Arc::new(Topology::from_json(&format!(r#"{{{head}, "nodes": {nodes}, "links": [{links}]}}"#)).unwrap())
}

/// Between ranks 0 and 1 there is a narrow link, and beside it the way over rank 2.
#[test]
fn blocks_of_an_all_to_all_are_relayed_where_that_is_faster() {
    let topology = triangle(
        r#"{"source": "a", "target": "b", "bandwidth_Bps": 1e9, "both_ways": true},
        {"source": "a", "target": "c", "bandwidth_Bps": 9e9, "both_ways": true},
        {"source": "b", "target": "c", "bandwidth_Bps": 9e9, "both_ways": true}"#,
    );
    let plan = plan(&topology, Collective::AllToAll, "1GB");
    // Of each pair's 5 GB/s, 4 GB/s go over c, beside the 5 GB/s to or from c itself.
    assert!(plan.rate().unwrap().bytes_per_second() / 15e9 > 0.99);
}

/// The quickest routes take no time, so that a limit on latency would be none: one link takes 5 ms.
#[test]
fn a_slow_link_off_all_quickest_routes_is_used_by_large_all_to_alls() {
    let topology = triangle(
        r#"{"source": "a", "target": "b", "bandwidth_Bps": 1e9, "both_ways": true},
        {"source": "b", "target": "c", "bandwidth_Bps": 1e9, "both_ways": true},
        {"source": "a", "target": "c", "bandwidth_Bps": 1e9, "latency_s": 5e-3, "both_ways": true}"#,
    );
    let plan = plan(&topology, Collective::AllToAll, "1GB");
    assert!(plan.rate().unwrap().bytes_per_second() / 3e9 > 0.99);
}

#[test]
fn narrow_links_do_not_hide_the_wide_ones() {
    // Between a and c there are 10 GB/s, and 0.13 beside them.
    let topology = triangle(
        r#"{"source": "a", "target": "c", "bandwidth_Bps": 10e9, "both_ways": true},
        {"source": "a", "target": "c", "bandwidth_Bps": 0.13e9, "both_ways": true},
        {"source": "a", "target": "b", "bandwidth_Bps": 7e9, "both_ways": true},
        {"source": "b", "target": "c", "bandwidth_Bps": 10e9, "both_ways": true}"#,
    );
    for (collective, root) in [(Collective::Broadcast, 0), (Collective::Reduce, 0), (Collective::AllGather, 0)] {
        let options =
            Options { collective, root: NodeId(root), size: parse_bytes("64GiB").unwrap(), ..Options::default() };
        let plan = planners::plan("forest", &topology, &options).unwrap();
        check(&plan).unwrap();
        // b can receive least; in an all-gather that are two blocks of three.
        let most = if collective == Collective::AllGather { 17e9 * 1.5 } else { 17e9 };
        let reached = plan.rate().unwrap().bytes_per_second() / most;
        assert!((0.995..1.0 + 1e-9).contains(&reached), "{collective}: {reached}");
    }
}

#[test]
fn an_order_of_messages_comes_near_the_bound_already_at_a_mebibyte() {
    let size = parse_bytes("1MiB").unwrap();
    for (spec, least) in [("torus:8x8", 0.97), ("torus:4x4", 0.97), ("mesh:8x8", 0.97), ("b4", 0.7)] {
        let topology = Arc::new(from_spec(spec, None, None).unwrap());
        let plan = plan(&topology, Collective::AllGather, "1MiB");
        assert_eq!(plan.phases[0].pace, Pace::Ordered, "{spec}");
        let best = size.get() as f64 / rate_of_cuts(&topology);
        let part = best / seconds(&plan, size).get();
        assert!((least..1.0).contains(&part), "{spec}: {part}");
    }
}

#[test]
fn few_steps_are_taken_on_small_switched_networks_where_latency_decides() {
    let planes = Arc::new(from_spec("dgx2:planes=6", None, None).unwrap());
    let has_steps = |plan: &Plan| matches!(plan.phases[0].pace, Pace::Step(_));
    assert!(has_steps(&plan(&planes, Collective::AllGather, "1KiB")));
    assert!(!has_steps(&plan(&planes, Collective::AllGather, "64MiB")));
    let small = Options { size: parse_bytes("1KiB").unwrap(), ..Options::default() };
    let whole = Options { collective: Collective::AllGather, pipeline: false, ..small.clone() };
    assert!(!has_steps(&planners::plan("forest", &planes, &whole).unwrap()), "pieces are not asked for");
    // What is kept for one root is not taken for another.
    for root in [0, 5, 0].map(NodeId) {
        let asked = Options { collective: Collective::Broadcast, root, ..small.clone() };
        let plan = planners::plan("forest", &planes, &asked).unwrap();
        check(&plan).unwrap();
        assert!(plan.trees.iter().all(|tree| tree.root == root));
    }
}

#[test]
fn an_all_reduce_of_a_torus_is_two_ordered_halves_at_the_bound() {
    let torus = Arc::new(from_spec("torus:8x8", None, None).unwrap());
    let size = parse_bytes("1MiB").unwrap();
    let time = seconds(&plan(&torus, Collective::AllReduce, "1MiB"), size);
    assert!(bounds(&torus).seconds(size).get() / time.get() > 0.97);
}

#[test]
fn links_of_one_direction_and_idle_accelerators_are_used() {
    let one_way = r#"{"format": "treefold-topology", "version": 1, "name": "one way",
        "nodes": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}], "ranks": ["a", "b", "c"], "links": [
        {"source": "a", "target": "b", "bandwidth_Bps": 1e9, "latency_s": 1e-6},
        {"source": "b", "target": "c", "bandwidth_Bps": 1e9, "latency_s": 1e-6},
        {"source": "c", "target": "d", "bandwidth_Bps": 2e9, "latency_s": 1e-6},
        {"source": "d", "target": "a", "bandwidth_Bps": 2e9, "latency_s": 1e-6},
        {"source": "a", "target": "c", "bandwidth_Bps": 1e9, "latency_s": 1e-6}]}"#;
    let topology = Arc::new(Topology::from_json(one_way).unwrap());
    for collective in Collective::ALL {
        let plan = plan(&topology, collective, "1MiB");
        assert_eq!(plan.collective, collective);
        check(&plan).unwrap();
    }
    // Of what b and c have, everything has to enter a and b; b's only link carries two blocks of three.
    let gather = plan(&topology, Collective::AllGather, "64GiB");
    assert!((gather.rate().unwrap().bytes_per_second() / 1.5e9 - 1.0).abs() < 1e-6);
}

proptest! {
    #![proptest_config(cases(60))]

    /// What is planned for a collective is what is derived of the all-reduce, or better.
    #[test]
    fn own_plans_are_right_and_hardly_slower_than_derived_ones(topology in networks(), log_size in 0u32..30) {
        let size = Bytes::new(1 << log_size).unwrap();
        let asked = |collective| Options { collective, size, ..Options::default() };
        let reduced = planners::plan("forest", &topology, &asked(Collective::AllReduce)).unwrap();
        // Steps are not tried for all-to-alls: in the flow simulator they are slower than the analytic one says.
        let has_steps = matches!(reduced.phases[0].pace, Pace::Step(_));
        for collective in OWN {
            let plan = planners::plan("forest", &topology, &asked(collective)).unwrap();
            check(&plan).unwrap();
            if has_steps && collective == Collective::AllToAll {
                continue;
            }
            let derived = derive(reduced.clone(), collective, NodeId(0)).unwrap();
            let (own, other) = (Profile::new(&plan).seconds(size), Profile::new(&derived).seconds(size));
            prop_assert!(own.get() <= other.get() * 1.02, "{collective}: {own:?} {other:?}");
        }
    }

    /// Trees of one rate are no flow, but not far from one. The vector is so large that latencies choose no trees.
    #[test]
    fn all_to_alls_are_near_the_maximum_concurrent_flow(topology in networks()) {
        let plan = plan(&topology, Collective::AllToAll, "100TB");
        let bound = CollectiveBounds::new(&topology, Kind::AllToAll(None)).rate;
        if let Some(rate) = plan.rate().filter(|_| bound.exact) {
            let reached = rate.bytes_per_second() / bound.rate.bytes_per_second();
            prop_assert!((0.97..1.0 + 1e-9).contains(&reached), "{reached}: {}", topology.to_json());
        }
    }

    /// What no rank gets is sent nowhere, and relays may be anywhere.
    #[test]
    fn all_to_alls_of_unequal_blocks_are_near_the_maximum(topology in networks(), seed in any::<u64>()) {
        let (size, collective) = (parse_bytes("100TB").unwrap(), Collective::AllToAll);
        let options = Options { collective, size, blocks: blocks(topology.ranks(), seed), ..Options::default() };
        let plan = planners::plan("forest", &topology, &options).unwrap();
        check(&plan).unwrap();
        let bound = planners::bounds_of(&topology, &options).rate;
        if let Some(rate) = plan.rate().filter(|_| bound.exact) {
            let reached = rate.bytes_per_second() / bound.rate.bytes_per_second();
            prop_assert!((0.95..1.0 + 1e-9).contains(&reached), "{reached}: {}", plan.to_json());
        }
    }

    /// Where routes are single links, nothing shares a link in an ordered phase, so both simulators say the same.
    #[test]
    fn the_analytic_and_the_flow_simulator_agree_on_ordered_phases(topology in networks(), log_size in 4u32..30) {
        let size = Bytes::new(1 << log_size).unwrap();
        for collective in
            [Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll]
        {
            let options = Options { collective, size, ..Options::default() };
            let plan = planners::plan("forest", &topology, &options).unwrap();
            if plan.phases.iter().any(|phase| phase.pace == Pace::Ordered) {
                let (analytic, flow) = (Profile::new(&plan).seconds(size).get(), seconds(&plan, size).get());
                prop_assert!((analytic / flow - 1.0).abs() < 1e-6, "{analytic} {flow}");
            }
        }
    }
}
