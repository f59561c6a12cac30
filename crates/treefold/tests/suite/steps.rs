//! `forest` with a limit on steps: the points of SCCL's frontier, and what is true of every such plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use treefold::error::Result;
use treefold::plan::check::check;
use treefold::plan::{Collective, Direction, LaneRoutes, Pace, Plan};
use treefold::planners::{self, Options};
use treefold::topology::{LinkId, NodeId, Topology, from_spec};

use crate::common::networks::{cases, networks};

/// The pairs of DGX-1 that NVLinks join, and how many do (SCCL, Fig. 1; the two quads are {0, 1, 2, 3} and the others).
const NVLINKS: [(u32, u32, u32); 16] = [
    (0, 1, 2),
    (0, 2, 1),
    (0, 3, 1),
    (0, 4, 2),
    (1, 2, 1),
    (1, 3, 2),
    (1, 5, 1),
    (2, 3, 2),
    (2, 6, 2),
    (3, 7, 1),
    (4, 5, 2),
    (4, 6, 1),
    (4, 7, 1),
    (5, 6, 1),
    (5, 7, 2),
    (6, 7, 2),
];

fn dgx1() -> Arc<Topology> {
    let link = |(a, b, count): (u32, u32, u32)| {
        let bandwidth = f64::from(count) * 25e9;
        format!(r#"{{"source": "g{a}", "target": "g{b}", "bandwidth_Bps": {bandwidth}, "latency_s": 7e-7}}"#)
    };
    let links: Vec<String> =
        NVLINKS.iter().flat_map(|&(a, b, count)| [(a, b, count), (b, a, count)]).map(link).collect();
    let nodes: Vec<String> = (0..8).map(|number| format!(r#"{{"name": "g{number}"}}"#)).collect();
    let text = format!(
        r#"{{"format": "treefold-topology", "version": 1, "name": "dgx1", "nodes": [{}], "links": [{}]}}"#,
        nodes.join(", "),
        links.join(", ")
    );
    Arc::new(Topology::from_json(&text).unwrap())
}

fn plan(topology: &Arc<Topology>, collective: Collective, steps: u32) -> Result<Plan> {
    planners::plan("forest", topology, &Options { collective, steps: Some(steps), ..Options::default() })
}

/// The rounds a chunk: for every step, how long its busiest link is busy with parts of which a rank has one in all, in
/// the time that the narrowest link takes for one.
fn rounds(plan: &Plan) -> f64 {
    let topology = &plan.topology;
    let bandwidth = |link: LinkId| topology.link(link).bandwidth.bytes_per_second();
    let narrowest = LinkId::first(topology.links().len()).map(bandwidth).fold(f64::INFINITY, f64::min);
    let routes = LaneRoutes::new(topology, &plan.lanes);
    let mut units: BTreeMap<(u16, LinkId), u64> = BTreeMap::new();
    for phase in &plan.phases {
        for tree in plan.trees_of(phase) {
            for direction in Direction::BOTH {
                for edge in plan.half(phase, tree, direction) {
                    let step = edge.step.expect("every message has a step").get();
                    for &link in routes.of(edge.lane) {
                        *units.entry((step, link)).or_default() += tree.span.end - tree.span.start;
                    }
                }
            }
        }
    }
    let mut longest: BTreeMap<u16, f64> = BTreeMap::new();
    for ((step, link), units) in units {
        let length = longest.entry(step).or_default();
        *length = length.max(units as f64 * narrowest / bandwidth(link));
    }
    longest.values().sum::<f64>() * f64::from(topology.ranks()) / plan.units as f64
}

#[test]
fn dgx1_has_the_points_of_sccl() {
    let dgx1 = dgx1();
    // SCCL's points as (S, R, C): (2, 3, 2) and (3, 7, 6); all-reduces count the chunks of all ranks together.
    for (collective, steps, rounds_over_chunks) in [
        (Collective::AllGather, 2, 3.0 / 2.0),
        (Collective::AllGather, 3, 7.0 / 6.0),
        (Collective::ReduceScatter, 2, 3.0 / 2.0),
        (Collective::ReduceScatter, 3, 7.0 / 6.0),
        (Collective::AllReduce, 4, 8.0 * 6.0 / 16.0),
        (Collective::AllReduce, 6, 8.0 * 14.0 / 48.0),
    ] {
        let plan = plan(&dgx1, collective, steps).unwrap();
        check(&plan).unwrap();
        assert_eq!((plan.collective, plan.steps()), (collective, Some(steps)));
        let found = rounds(&plan);
        assert!((found / rounds_over_chunks - 1.0).abs() < 1e-9, "{collective} in {steps} steps: {found}");
    }
}

#[test]
fn steps_that_save_nothing_are_not_taken() {
    let plan = plan(&dgx1(), Collective::AllGather, 5).unwrap();
    assert_eq!((plan.steps(), plan.trees.len()), (Some(3), 48));
}

#[test]
fn a_ring_of_eight_has_those_of_the_amd_machine() {
    let ring = Arc::new(from_spec("ring:8", None, None).unwrap());
    // SCCL's points of the bandwidth as (S, R, C): (4, 7, 2), and for the all-reduce (8, 14, 16).
    for (collective, steps, rounds_over_chunks) in
        [(Collective::AllGather, 4, 7.0 / 2.0), (Collective::AllReduce, 8, 8.0 * 14.0 / 16.0)]
    {
        let plan = plan(&ring, collective, steps).unwrap();
        assert_eq!(plan.steps(), Some(steps));
        assert!((rounds(&plan) / rounds_over_chunks - 1.0).abs() < 1e-9, "{collective}");
    }
}

#[test]
fn grids_are_at_their_cuts_in_as_many_steps_as_their_diameter() {
    for (spec, steps, least) in
        [("torus:4x4", 4, 15.0 / 4.0), ("torus:3x4", 3, 11.0 / 4.0), ("hypercube:4", 4, 15.0 / 4.0)]
    {
        let topology = Arc::new(from_spec(spec, None, None).unwrap());
        let plan = plan(&topology, Collective::AllGather, steps).unwrap();
        assert_eq!(plan.steps(), Some(steps));
        let found = rounds(&plan);
        assert!(found < least * 1.001, "{spec}: {found} instead of {least}");
    }
}

#[test]
fn fewer_steps_than_hops_are_a_misfit_that_names_the_least_number() {
    let torus = Arc::new(from_spec("torus:4x4", None, None).unwrap());
    for (collective, least) in [(Collective::AllGather, 4), (Collective::AllReduce, 8), (Collective::AllToAll, 4)] {
        let error = plan(&torus, collective, least - 1).unwrap_err();
        let few = format!("steps {} is too few: on torus:4x4 the farthest rank is 4 hops away, and ", least - 1);
        assert!(error.is_misfit());
        assert!(error.to_string().starts_with(&few), "{error}");
        assert!(error.to_string().contains(&format!("takes at least {least} steps; allow {least} steps")), "{error}");
        assert_eq!(plan(&torus, collective, least).unwrap().steps(), Some(least));
    }
}

#[test]
fn switches_and_a_single_rank_are_no_obstacle() {
    for (spec, steps, collective) in [
        ("dgx2", 1, Collective::AllGather),
        ("fattree:4,2", 2, Collective::Broadcast),
        ("cluster:nodes=2,gpus=4,rails=2", 3, Collective::ReduceScatter),
        ("cluster:nodes=2,gpus=4,rails=2", 4, Collective::AllReduce),
        ("line:1", 1, Collective::AllReduce),
        ("ring:2", 1, Collective::AllToAll),
    ] {
        let topology = Arc::new(from_spec(spec, None, None).unwrap());
        let plan = plan(&topology, collective, steps).unwrap();
        check(&plan).unwrap();
        assert!(plan.steps().unwrap() <= steps, "{spec} {collective}");
    }
}

proptest! {
    #![proptest_config(cases(6))]

    /// Whatever the network and the collective: the least number of steps that the error names is enough, and so is
    /// more; the plan is correct and has no more steps.
    #[test]
    fn every_network_has_plans_of_few_steps(
        topology in networks(),
        collective in select(Collective::ALL.to_vec()),
        spare in 0u32..3,
        root in 0u32..20,
    ) {
        let root = NodeId(root % topology.ranks());
        let asked = |steps| Options { collective, root, steps: Some(steps), ..Options::default() };
        let plan = |steps| planners::plan("forest", &topology, &asked(steps));
        let named = plan(1).err().map(|error| error.to_string());
        let least_of = |text: String| text.split("at least ").nth(1)?.split(' ').next()?.parse().ok();
        let least = named.map_or(1, |text| least_of(text).expect("the error names the least number"));
        prop_assert!(least == 1 || plan(least - 1).is_err());
        let plan = plan(least + spare).unwrap();
        check(&plan).unwrap();
        prop_assert!(plan.steps().unwrap() <= least + spare);
        prop_assert!(plan.phases.iter().all(|phase| matches!(phase.pace, Pace::Step(_))));
    }
}
