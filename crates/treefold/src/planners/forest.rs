//! Spanning trees with a rate each, from which the wide-area planners choose, and the streamed plans of the chosen
//! ones.
//!
//! A tree joins all ranks by routes whose inner nodes are no ranks; on direct networks a route is one link. The routes
//! of trees in the network also meet in switches. On a network whose two directions are alike the reduce half mirrors
//! the broadcast half; elsewhere it is a tree of its own into the same root. Trees compete for *resources*: cables
//! where the directions are alike (a tree uses both, whatever its root), or else links. There a mirrored tree also uses
//! the opposite link of each of its links.

use std::ops::Range;
use std::sync::Arc;

use super::Heights;
use crate::plan::{Chunk, Draft, Half, LaneId, Pace, Plan, Tree};
use crate::topology::{LinkId, NodeId, Topology};

/// The links from one node of a tree to another.
pub type Route = Box<[LinkId]>;

/// A tree over all ranks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanningTree {
    /// The node where the sum is formed.
    pub root: NodeId,
    /// The routes away from the root, breadth-first, siblings together.
    pub down: Vec<Route>,
    /// The routes into the root, in the same order; `None` if they are those of `down` in the opposite direction.
    pub up: Option<Vec<Route>>,
}

/// The resources for which the trees of a network compete.
#[derive(Clone)]
pub struct Resources {
    /// The resource of each link.
    pub of_link: Vec<u32>,
    /// The bytes a second of each resource.
    pub capacity: Vec<f64>,
    /// The resource of each link's opposite one, if it has one.
    back: Vec<Option<u32>>,
}

impl Resources {
    /// Returns cables as resources if both directions are alike, or else links.
    pub fn new(topology: &Topology) -> Self {
        Self::joined(topology, topology.is_symmetric())
    }

    /// Returns links as resources, even if both directions are alike: for trees whose halves differ.
    pub fn of_links(topology: &Topology) -> Self {
        Self::joined(topology, false)
    }

    fn joined(topology: &Topology, is_symmetric: bool) -> Self {
        let mut resources = Self { of_link: Vec::new(), capacity: Vec::new(), back: Vec::new() };
        for (id, link) in topology.link_ids().zip(topology.links()) {
            match topology.reverse(id) {
                Some(back) if is_symmetric && back < id => {
                    resources.of_link.push(resources.of_link[back]);
                }
                _ => {
                    resources.of_link.push(resources.capacity.len() as u32);
                    resources.capacity.push(link.bandwidth.bytes_per_second());
                }
            }
        }
        let back = |id: LinkId| topology.reverse(id).map(|back| resources.of_link[back]);
        resources.back = topology.link_ids().map(back).collect();
        resources
    }

    /// Returns `(resource, count)` for each resource that a tree uses, in rising order: the count says how many times.
    pub fn usage(&self, tree: &SpanningTree) -> Vec<(u32, u32)> {
        let routes = tree.down.iter().chain(tree.up.iter().flatten());
        let mut used: Vec<u32> = routes.flatten().map(|&link| self.of_link[link]).collect();
        if tree.up.is_none() {
            let mirrored = tree.down.iter().flatten().map(|&link| (self.of_link[link], self.back[link]));
            used.extend(mirrored.filter_map(|(there, back)| back.filter(|&back| back != there)));
        }
        used.sort_unstable();
        used.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u32)).collect()
    }
}

/// Puts the routes of a tree, which lead away from `root` (`towards` false) or into it and come in any order,
/// breadth-first.
pub fn breadth_first(topology: &Topology, root: NodeId, routes: Vec<Route>, towards: bool) -> Vec<Route> {
    let mut children: Vec<Vec<Route>> = vec![Vec::new(); topology.nodes().len()];
    for route in routes {
        children[ends(topology, &route, towards).0].push(route);
    }
    let mut ordered: Vec<Route> = std::mem::take(&mut children[root]);
    let mut next = 0;
    while next < ordered.len() {
        let child = ends(topology, &ordered[next], towards).1;
        ordered.append(&mut children[child]);
        next += 1;
    }
    ordered
}

/// Returns the parent and the child of a route that leads down, or `towards` the root.
pub fn ends(topology: &Topology, route: &Route, towards: bool) -> (NodeId, NodeId) {
    let (first, last) = (topology.link(route[0]).source, topology.link(route[route.len() - 1]).target);
    if towards { (last, first) } else { (first, last) }
}

/// Returns the length of each link: 1 if heights count hops, or else its latency in quanta of the network's least
/// positive one, rounded up and at least 1.
pub fn lengths(topology: &Topology, heights: Heights) -> Vec<u64> {
    let delays = || topology.links().iter().map(|link| link.delay().picoseconds());
    match delays().filter(|&delay| delay > 0).min() {
        Some(quantum) if heights == Heights::Latency => delays().map(|delay| delay.div_ceil(quantum).max(1)).collect(),
        _ => vec![1; topology.links().len()],
    }
}

/// Returns the height of a tree, which is that of its higher half: its edges if heights count hops, or else the sum of
/// its links' `lengths`.
pub fn height(topology: &Topology, tree: &SpanningTree, lengths: &[u64], heights: Heights) -> u64 {
    let halves = [Some(&tree.down), tree.up.as_ref()];
    let of_half = |(routes, towards): (&Vec<Route>, bool)| {
        let mut depth = vec![0u64; topology.nodes().len()];
        for route in routes {
            let (parent, child) = ends(topology, route, towards);
            let length = if heights == Heights::Latency { route.iter().map(|&link| lengths[link]).sum() } else { 1 };
            depth[child] = depth[parent] + length;
        }
        depth.into_iter().max().unwrap_or(0)
    };
    halves
        .into_iter()
        .zip([false, true])
        .filter_map(|(half, towards)| Some(of_half((half?, towards))))
        .max()
        .unwrap_or(0)
}

/// Finds rates without a solver, of which at most `most` are above zero: again and again the tree that can carry most
/// of what is left gets that rate, if it is at least `least_rate` bytes a second.
pub fn greedy_shares(resources: &Resources, trees: &[SpanningTree], most: usize, least_rate: f64) -> Vec<f64> {
    let usages: Vec<_> = trees.iter().map(|tree| resources.usage(tree)).collect();
    let mut left = resources.capacity.clone();
    let mut rates = vec![0.0; trees.len()];
    for _ in 0..most.min(trees.len()) {
        let carries = |usage: &Vec<(u32, u32)>| {
            let each = usage.iter().map(|&(resource, count)| left[resource as usize] / f64::from(count));
            each.fold(f64::INFINITY, f64::min)
        };
        let open = (0..trees.len()).filter(|&tree| rates[tree] == 0.0).map(|tree| (tree, carries(&usages[tree])));
        let Some((tree, rate)) = open.min_by(|a, b| b.1.total_cmp(&a.1)) else { break };
        if rate < least_rate * (1.0 - 1e-9) || rate <= 0.0 {
            break;
        }
        rates[tree] = rate;
        for &(resource, count) in &usages[tree] {
            // A rest that is due to rounding is set to zero; otherwise it would become a tree of its own.
            let (left, capacity) = (&mut left[resource as usize], resources.capacity[resource as usize]);
            *left -= rate * f64::from(count);
            *left = if *left < 1e-9 * capacity { 0.0 } else { *left };
        }
    }
    rates
}

/// The number of equal parts of a vector, of which a share is a whole number.
pub(super) const UNITS: u64 = 1 << 26;

/// Returns the part of `UNITS` that each of `rates` gets: one span after the other, in proportion, all of them
/// together.
pub(super) fn spans(rates: &[f64]) -> Vec<Range<u64>> {
    let total: f64 = rates.iter().sum();
    let (mut sum, mut start) = (0.0, 0);
    let span = |rate| {
        sum += rate;
        let end = (sum / total * UNITS as f64).round() as u64;
        std::mem::replace(&mut start, end)..end
    };
    rates.iter().map(span).collect()
}

/// Returns the streamed plan in which `trees[i]` carries a part of the vector in proportion to `rates[i]`; trees
/// without rate are left out. The plan is paced, unless trees are not cut into chunks: a message that goes alone goes
/// as fast as it can.
pub fn plan(topology: &Arc<Topology>, algorithm: &str, trees: &[SpanningTree], rates: &[f64], chunk: Chunk) -> Plan {
    let mut plan = Draft::new(topology, algorithm, UNITS);
    let mut planned = Vec::new();
    for (tree, span) in trees.iter().zip(spans(rates)).filter(|(_, span)| !span.is_empty()) {
        let mut half = |routes: &[Route]| {
            let lanes: Vec<(LaneId, u16)> = routes.iter().map(|route| (plan.lanes.via(topology, route), 0)).collect();
            plan.own_half(lanes)
        };
        let down = half(&tree.down);
        let up = tree.up.as_ref().map_or(Half::Mirror, |routes| half(routes));
        planned.push(Tree { span, root: tree.root, up, down, chunk });
    }
    plan.push_phase(if chunk == Chunk::One { Pace::Stream } else { Pace::Paced }, planned);
    plan.trusted()
}
