//! What NCCL does: rings over all rails, double binary trees over all places, and rings of many ranks.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::{flow_seconds, spec};
use treefold::plan::check::check;
use treefold::plan::{Direction, LaneRoutes, Pace, Plan};
use treefold::planners::{self, Options};
use treefold::topology::{LinkId, NodeId, Topology};
use treefold::units::Bytes;

fn plan(algorithm: &str, topology: &Arc<Topology>, size: u64) -> Plan {
    let options = Options { size: Bytes::known(size), ..Options::default() };
    let plan = planners::plan(algorithm, topology, &options).unwrap();
    check(&plan).unwrap();
    plan
}

/// Returns the links that some transfer takes.
fn links_of(plan: &Plan) -> BTreeSet<LinkId> {
    let routes = LaneRoutes::new(&plan.topology, &plan.lanes);
    let phase = &plan.phases[0];
    let trees = plan.trees_of(phase).iter();
    let lanes = trees.flat_map(|tree| Direction::BOTH.map(|direction| plan.half(phase, tree, direction)));
    lanes.flatten().flat_map(|edge| routes.of(edge.lane).to_vec()).collect()
}

/// One ring reaches the bandwidth of one rail, and NCCL's rings and trees that of nearly all eight.
#[test]
fn all_rails_are_used_at_once() {
    let cluster = spec("cluster:nodes=4,gpus=8,rails=8");
    let size = 1 << 30;
    let rate = |algorithm| size as f64 / flow_seconds(&plan(algorithm, &cluster, size), size) / 1e9;
    let (ring, nccl) = (rate("ring"), rate("nccl"));
    assert!((25.0..26.0).contains(&ring), "{ring} GB/s");
    assert!((195.0..207.0).contains(&nccl), "{nccl} GB/s");
    let all: BTreeSet<LinkId> = cluster.link_ids().collect();
    assert_eq!(links_of(&plan("nccl", &cluster, size)), all, "no link is idle");
}

/// Small vectors go through trees, and large ones around rings, each of which runs both ways.
#[test]
fn the_size_decides_between_rings_and_trees() {
    for (text, ranks) in [("dgx1", 8), ("b4", 12)] {
        let topology = spec(text);
        assert_eq!(plan("nccl", &topology, 1024).phases[0].pace, Pace::SubFlows, "{text}");
        let rings = plan("nccl", &topology, 1 << 30);
        assert!(matches!(rings.phases[0].pace, Pace::Step(_)), "{text}");
        assert!(rings.trees.len().is_multiple_of(2 * ranks), "{text}: {} trees", rings.trees.len());
    }
}

/// Where ranks form no servers, the trees are the double binary tree over all ranks.
#[test]
fn without_servers_its_trees_are_the_double_binary_tree() {
    for text in ["torus:4x4", "hypercube:3", "b4", "mesh:3x3"] {
        let topology = spec(text);
        let (trees, dbtree) = (plan("nccl", &topology, 1), plan("dbtree", &topology, 1));
        assert_eq!(trees.trees, dbtree.trees, "{text}");
    }
}

#[test]
fn one_rank_and_a_given_order_fit() {
    assert_eq!(plan("nccl", &spec("ring:1"), 1024).ranks(), 1);
    let ordered = spec("ring:6").with_ranks(&[0, 2, 4, 1, 3, 5]).unwrap().in_given_order();
    plan("nccl", &Arc::new(ordered), 1 << 30);
}

/// The hops of a ring over 640 ranks in servers: seven of eight stay in a server, and the others keep to one rail.
#[test]
fn rings_of_many_ranks_follow_the_network() {
    for (text, most_cables) in [("cluster:nodes=80,gpus=8,rails=8", 80), ("fattree:40,2", 40), ("mesh:27x27", 1)] {
        let topology = spec(text);
        let ring = plan("ring", &topology, 1 << 20);
        let root = &ring.trees[0];
        let routes = LaneRoutes::new(&topology, &ring.lanes);
        let hops: Vec<usize> =
            ring.half(&ring.phases[0], root, Direction::Down).map(|edge| routes.of(edge.lane).len()).collect();
        let far = hops.iter().filter(|&&hops| hops > if text.starts_with("mesh") { 1 } else { 2 }).count();
        assert!(far <= most_cables, "{text}: {far} of {} hops are far", hops.len());
    }
    let cluster = spec("cluster:nodes=80,gpus=8,rails=8");
    let ring = plan("ring", &cluster, 1 << 20);
    let passes = |node: NodeId| links_of(&ring).iter().filter(|&&link| cluster.link(link).source == node).count();
    assert!(cluster.rank_ids().all(|rank| passes(rank) <= 2), "no rank relays for others");
}
