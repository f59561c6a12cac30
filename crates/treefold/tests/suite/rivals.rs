//! The structure of the wide-area rivals: who sends what to whom, and how they choose.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{accelerators, cabled, edges_of, link, planned, spec};
use treefold::plan::check::check;
use treefold::plan::check_schedule::check_schedule;
use treefold::plan::lower;
use treefold::plan::schedule::Op;
use treefold::plan::{Chunk, Direction, Half, Pace, Plan, Routing};
use treefold::planners::{self, Options};
use treefold::topology::{Link, LinkId, NodeId, Shape, Topology, from_spec};
use treefold::units::{Bandwidth, Bytes, Time};

const RIVALS: [&str; 5] = ["ps", "p2p", "psld", "plink", "topoadopt"];

fn plan_with(algorithm: &str, topology: &Arc<Topology>, options: Options) -> Plan {
    planners::plan(algorithm, topology, &options).unwrap()
}

/// A network of cables `(a, b, Gbit/s, milliseconds)`.
fn wide_area(sites: u32, cables: &[(u32, u32, f64, u64)]) -> Arc<Topology> {
    let both_ways = |&(a, b, gigabits, millis): &(u32, u32, f64, u64)| {
        let like = |link: Link| Link {
            bandwidth: Bandwidth::known(gigabits * 1.25e8),
            latency: Time::from_picoseconds(millis * 1_000_000_000),
            ..link
        };
        [like(link(a, b)), like(link(b, a))]
    };
    let links = cables.iter().flat_map(both_ways).collect();
    Arc::new(Topology::new("test", accelerators(sites), links, None, Shape::General).unwrap())
}

/// Bytes, of a vector of 2^20 units, that each root gets.
fn units_of_roots(plan: &Plan) -> BTreeMap<u32, u64> {
    plan.trees.iter().fold(BTreeMap::new(), |mut units, tree| {
        *units.entry(tree.root.0).or_default() += tree.units();
        units
    })
}

#[test]
fn rivals_are_streams_in_one_piece_whose_spans_fill_the_vector() {
    for (algorithm, text) in RIVALS.iter().flat_map(|&algorithm| {
        ["b4", "b4:skew=0.9", "idn-like:skew=0.5", "torus:4x4", "ring:2"].map(|text| (algorithm, text))
    }) {
        let plan = planned(algorithm, text);
        check(&plan).unwrap();
        assert_eq!((plan.phases.len(), plan.phases[0].pace), (1, Pace::Stream), "{algorithm} {text}");
        assert!(plan.trees.iter().all(|tree| tree.chunk == Chunk::One && tree.units() > 0), "{algorithm} {text}");
        if algorithm != "p2p" {
            assert_eq!(plan.trees.iter().map(|tree| tree.units()).sum::<u64>(), plan.units, "{algorithm} {text}");
        }
    }
}

#[test]
fn ps_is_one_star_around_the_centre() {
    let plan = planned("ps", "line:5");
    let [tree] = &plan.trees[..] else { panic!("one tree") };
    assert_eq!((tree.root, &tree.up), (NodeId(2), &Half::Mirror));
    let edges = edges_of(&plan, &plan.phases[0]);
    assert_eq!(edges.len(), 2 * 4);
    assert!(edges.iter().all(|(_, edge)| edge.parent == NodeId(2)));
}

#[test]
fn the_server_is_near_and_of_equally_near_ones_fast() {
    let cables = |fast| [0, 1, 2].map(|site| (site, (site + 1) % 3, if site == fast { 10.0 } else { 20.0 }, 5));
    // Site 0 lacks the slow cable between 1 and 2.
    assert_eq!(plan_with("ps", &wide_area(3, &cables(1)), Options::default()).trees[0].root, NodeId(0));
    assert_eq!(plan_with("ps", &wide_area(3, &cables(0)), Options::default()).trees[0].root, NodeId(2));
}

/// A detour of two quick cables is quicker than a slow one; the topology counts hops first.
#[test]
fn ways_are_the_quickest() {
    let topology = wide_area(3, &[(0, 1, 1.0, 1), (1, 2, 1.0, 1), (0, 2, 1.0, 50)]);
    let plan = plan_with("psld", &topology, Options::default());
    let via: Vec<_> = plan.lanes.ids().filter(|&lane| plan.lanes.routing(lane) != Routing::Routed).collect();
    assert!(!via.is_empty() && via.iter().all(|&lane| plan.lanes.links(lane).len() == 2));
    let slow = |edge: &treefold::plan::Edge| plan.lanes.links(edge.lane.lane()).iter().any(|&link| link >= LinkId(4));
    assert!(edges_of(&plan, &plan.phases[0]).iter().all(|(_, edge)| !slow(edge)));
    check(&plan).unwrap();
}

#[test]
fn p2p_reduces_to_every_rank_straight_from_every_other() {
    let plan = planned("p2p", "b4");
    assert_eq!((plan.trees.len(), plan.units), (12, 1));
    for (rank, tree) in plan.rank_ids().zip(&plan.trees) {
        assert_eq!((tree.root, &tree.down, tree.span.clone()), (rank, &Half::None, 0..1));
        let edges: Vec<_> = plan.half(&plan.phases[0], tree, Direction::Up).collect();
        assert!(edges.len() == 11 && edges.iter().all(|edge| edge.parent == rank));
    }
    // Every rank sends a copy, once made: sums arrive in the vector itself.
    let schedule = lower(&plan, 1000, 8).unwrap();
    check_schedule(&plan, &schedule).unwrap();
    assert_eq!(schedule.op.iter().filter(|&&op| op == Op::Local).count(), 12);
    assert_eq!(schedule.op.iter().filter(|&&op| op == Op::Reduce).count(), 12 * 11);
}

#[test]
fn psld_gives_fast_servers_more() {
    // Site 0 has fast cables to everybody, site 3 slow ones.
    let cables = [(0, 1, 4.0, 1), (0, 2, 4.0, 1), (0, 3, 2.0, 1), (1, 2, 2.0, 1), (1, 3, 1.0, 1), (2, 3, 1.0, 1)];
    let units = units_of_roots(&plan_with("psld", &wide_area(4, &cables), Options::default()));
    assert_eq!(units.len(), 4);
    assert!(units[&0] > units[&1] && units[&1] > units[&3], "{units:?}");
    // Latencies alike, so shares are as 1 / (sum of 1 / bandwidth): 1, 1 / 1.75, 1 / 1.75, 1 / 2.5.
    let total = 1.0 + 2.0 / 1.75 + 0.4;
    for (rank, part) in [(0, 1.0), (1, 1.0 / 1.75), (2, 1.0 / 1.75), (3, 0.4)] {
        let share = units[&rank] as f64 / units.values().sum::<u64>() as f64;
        assert!((share - part / total).abs() < 2e-6, "{rank}: {share}");
    }
}

#[test]
fn psld_scales_in_for_small_vectors() {
    let topology = wide_area(4, &[(0, 1, 1.0, 1), (0, 2, 1.0, 1), (0, 3, 1.0, 90)]);
    let servers =
        |size| plan_with("psld", &topology, Options { size: Bytes::known(size), ..Options::default() }).trees.len();
    assert_eq!((servers(1), servers(1 << 32)), (1, 4));
    let two = Options { trees: Some(2), size: Bytes::known(1 << 32), ..Options::default() };
    assert_eq!(plan_with("psld", &topology, two).trees.len(), 2);
}

#[test]
fn plink_has_two_levels_and_finds_groups() {
    for text in ["b4", "idn-like:skew=0.5", "torus:4x4", "cluster:nodes=4,gpus=8,rails=8", "full:3", "ring:2"] {
        let shape = planned("plink", text).shape();
        assert!(shape.max_height <= 2, "{text}: {shape:?}");
    }
    // Three clusters of three sites, far from each other.
    let mut cables = vec![(0, 3, 1.0, 50), (3, 6, 1.0, 50), (0, 6, 1.0, 50)];
    for first in [0, 3, 6] {
        cables.extend([(first, first + 1, 1.0, 1), (first, first + 2, 1.0, 1), (first + 1, first + 2, 1.0, 1)]);
    }
    // Where latency decides, no fewer groups will do, and more do no better.
    let plan = plan_with("plink", &wide_area(9, &cables), Options { size: Bytes::known(1), ..Options::default() });
    for (direction, edge) in edges_of(&plan, &plan.phases[0]) {
        let (a, b) = edge.ends(direction);
        let (a, b) = (a.0, b.0);
        assert!(a / 3 == b / 3 || (a % 3 == 0 && b % 3 == 0), "{a} sends to {b}");
    }
    assert_eq!(units_of_roots(&plan).into_keys().collect::<Vec<_>>(), [0, 3, 6]);
}

#[test]
fn topoadopt_is_the_same_for_the_same_seed() {
    let topology = spec("b4:skew=0.5");
    let text = |seed| plan_with("topoadopt", &topology, Options { seed, ..Options::default() }).to_json();
    assert_eq!(text(3), text(3));
    assert_ne!(text(3), text(4));
    let plan = plan_with("topoadopt", &topology, Options { trees: Some(2), ..Options::default() });
    assert!(plan.trees.len() <= 2);
    assert!(plan.trees.iter().all(|tree| plan.half(&plan.phases[0], tree, Direction::Down).count() == 11));
}

#[test]
fn rivals_refuse_what_they_are_not_made_for() {
    let refused = |algorithm: &str, topology: &Arc<Topology>| {
        let error = planners::plan(algorithm, topology, &Options::default()).unwrap_err();
        assert!(error.is_misfit(), "{error}");
        error.to_string()
    };
    let large = spec("torus:32x32");
    for algorithm in RIVALS {
        let error = refused(algorithm, &large);
        assert!(error.contains(algorithm) && error.contains("at most") && error.contains("1024"), "{error}");
        assert!(error.contains("; use ") || error.contains(": use "), "{error}");
    }
    assert!(refused("topoadopt", &spec("dgx2")).contains("without switches and relays"));
    let one_way = crate::common::one_way(accelerators(3), &[(0, 1), (1, 2), (2, 0)], None);
    assert!(refused("topoadopt", &one_way).contains("R0 -> R1 is one-way"));
}

#[test]
fn without_pipelining_every_stream_sends_its_parts_whole() {
    let options = Options { pipeline: false, ..Options::default() };
    for (planner, text) in
        planners::PLANNERS.iter().flat_map(|planner| ["b4", "dgx2:planes=6", "torus:4x4"].map(|text| (planner, text)))
    {
        let topology = Arc::new(from_spec(text, None, None).unwrap());
        let Ok(plan) = planners::plan(planner.name, &topology, &options) else { continue };
        check(&plan).unwrap();
        assert!(plan.trees.iter().all(|tree| tree.chunk == Chunk::One), "{} on {text}", planner.name);
    }
    // A stream turned into another collective stays what it was.
    let plan = planned("ps", "b4");
    let broadcast = treefold::plan::derive(plan, treefold::plan::Collective::Broadcast, NodeId(3)).unwrap();
    assert!(broadcast.trees.iter().all(|tree| tree.chunk == Chunk::One));
}

/// Latencies that differ by direction make the route back another one: halves of their own.
#[test]
fn ways_there_and_back_may_differ() {
    let cable = |a, b, there, back| {
        let like = |source, target, millis: u64| Link {
            latency: Time::from_picoseconds(millis * 1_000_000_000),
            ..link(source, target)
        };
        [like(a, b, there), like(b, a, back)]
    };
    let links = [cable(0, 1, 1, 1), cable(1, 2, 1, 1), cable(0, 2, 9, 1)].into_iter().flatten().collect();
    let topology = Arc::new(Topology::new("test", accelerators(3), links, None, Shape::General).unwrap());
    let plan = plan_with("psld", &topology, Options::default());
    check(&plan).unwrap();
    assert!(plan.trees.iter().any(|tree| matches!(tree.up, Half::Own(_))));
    let symmetric = plan_with("psld", &cabled(accelerators(3), &[(0, 1), (1, 2)], None), Options::default());
    assert!(symmetric.trees.iter().all(|tree| tree.up == Half::Mirror));
}
