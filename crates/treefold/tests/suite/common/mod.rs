//! What several test files need: networks and plans built by hand, and how to look into plans.

pub mod by_hand;
pub mod gbst;
pub mod losses;
pub mod networks;
pub mod oracle;

use std::ops::Range;
use std::sync::Arc;

use treefold::plan::{Chunk, Direction, Draft, Edge, Half, LaneId, LaneRoutes, Phase, Plan, Step, Tree};
use treefold::planners::{self, Options};
use treefold::sim::{Watch, flow};
use treefold::topology::{Abilities, Link, LinkId, Node, NodeId, Shape, Topology, from_spec};
use treefold::units::{Bandwidth, Bytes, Time};

/// The network of a spec.
pub fn spec(text: &str) -> Arc<Topology> {
    Arc::new(from_spec(text, None, None).unwrap())
}

/// The plan of an algorithm for the network of a spec.
pub fn planned(algorithm: &str, text: &str) -> Plan {
    planners::plan(algorithm, &spec(text), &Options::default()).unwrap()
}

/// The seconds that the flow simulator predicts.
pub fn flow_seconds(plan: &Plan, size: u64) -> f64 {
    flow::simulate(plan, Bytes::known(size), Watch::NOTHING).unwrap().seconds.get()
}

/// One direction of a cable, 1 GB/s and 1 us.
pub fn link(source: u32, target: u32) -> Link {
    Link {
        source: NodeId(source),
        target: NodeId(target),
        bandwidth: Bandwidth::known(1e9),
        latency: Time::from_picoseconds(1_000_000),
        overhead: Time::ZERO,
        streams: None,
    }
}

/// Accelerators `R0`, `R1`, ...
pub fn accelerators(count: u32) -> Vec<Node> {
    (0..count).map(|i| Node::accelerator(format!("R{i}"))).collect()
}

/// A network of these nodes and one-way links.
pub fn one_way(nodes: Vec<Node>, links: &[(u32, u32)], ranks: Option<Vec<u32>>) -> Arc<Topology> {
    let ranks = ranks.map(|ranks| ranks.into_iter().map(NodeId).collect());
    let links = links.iter().map(|&(source, target)| link(source, target)).collect();
    Arc::new(Topology::new("test", nodes, links, ranks, Shape::General).unwrap())
}

/// A network of these nodes and cables, which carry both ways.
pub fn cabled(nodes: Vec<Node>, cables: &[(u32, u32)], ranks: Option<Vec<u32>>) -> Arc<Topology> {
    let links: Vec<_> = cables.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
    one_way(nodes, &links, ranks)
}

/// A switch `S0` with these abilities and `count` accelerators on it; the switch is node `count`.
pub fn star(count: u32, reduces: bool, multicasts: bool) -> Arc<Topology> {
    let mut nodes = accelerators(count);
    nodes.push(Node::switch("S0", Abilities { reduces, multicasts }));
    let cables: Vec<_> = (0..count).map(|rank| (rank, count)).collect();
    cabled(nodes, &cables, None)
}

/// The lane from `source` to `target`: their link if they have one, else the topology's route.
pub fn lane(plan: &mut Draft, source: u32, target: u32) -> LaneId {
    let (source, target) = (NodeId(source), NodeId(target));
    let topology = Arc::clone(&plan.topology);
    let direct = topology.outgoing(source).iter().find(|&&link| topology.link(link).target == target);
    match direct {
        Some(&link) => plan.lanes.link(&topology, link),
        None => plan.lanes.routed(source, target),
    }
}

/// A half of `(source, target, step)`, breadth-first from the root; step 0 is none.
pub fn half(plan: &mut Draft, edges: &[(u32, u32, u16)]) -> Half {
    let edges: Vec<_> =
        edges.iter().map(|&(source, target, step)| (lane(plan, source, target), Step::new(step))).collect();
    plan.own_half(edges)
}

/// A tree that is not cut into chunks.
pub fn tree(span: Range<u64>, root: u32, up: Half, down: Half) -> Tree {
    Tree { span, root: NodeId(root), up, down, chunk: Chunk::One }
}

/// Every edge of a phase with its direction.
pub fn edges_of(plan: &Plan, phase: &Phase) -> Vec<(Direction, Edge)> {
    let halves = plan.trees_of(phase).iter().flat_map(|tree| Direction::BOTH.map(|direction| (tree, direction)));
    halves.flat_map(|(tree, direction)| plan.half(phase, tree, direction).map(move |edge| (direction, edge))).collect()
}

/// For each step (from 0) of a phase, how many messages each link carries; `joined` counts transfers with the same
/// lane as one message.
pub fn messages_per_link(plan: &Plan, phase: &Phase, joined: bool) -> Vec<Vec<u64>> {
    let routes = LaneRoutes::new(&plan.topology, &plan.lanes);
    let mut transfers: Vec<_> =
        edges_of(plan, phase).into_iter().map(|(_, edge)| (edge.step.unwrap(), edge.lane)).collect();
    if joined {
        transfers.sort_unstable();
        transfers.dedup();
    }
    let mut used = vec![vec![0; plan.topology.links().len()]; phase.steps.unwrap().get().into()];
    for (step, lane) in transfers {
        routes.of(lane).iter().for_each(|&link: &LinkId| used[usize::from(step.get()) - 1][link] += 1);
    }
    used
}
