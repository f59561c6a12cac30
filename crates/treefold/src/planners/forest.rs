//! Spanning trees with a rate each: what the wide-area planners choose from, and the streamed plan they end as.
//!
//! A tree joins all ranks by routes, whose inner nodes are no ranks; on direct networks a route is one link. On a network whose two
//! directions are alike the reduce half mirrors the broadcast half; elsewhere it is a tree of its own into the same root.
//! What trees compete for are *resources*: cables where the directions are alike (a tree uses both, whatever its root),
//! else links; a mirrored tree then uses each link's other direction too.

use std::ops::Range;
use std::sync::Arc;

use crate::plan::{Chunk, Half, LaneId, Pace, Plan, Tree};
use crate::topology::{LinkId, NodeId, Topology};

/// Links from one rank to another.
pub type Route = Box<[LinkId]>;

/// A tree over all ranks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanningTree {
    /// Where the sum is formed.
    pub root: NodeId,
    /// Routes away from the root, breadth-first, siblings together.
    pub down: Vec<Route>,
    /// Routes into the root, in the same order; `None` where they are those of `down` backwards.
    pub up: Option<Vec<Route>>,
}

/// What trees of a network compete for.
pub struct Resources {
    /// Resource of each link.
    pub of_link: Vec<u32>,
    /// Bytes a second of each.
    pub capacity: Vec<f64>,
    /// Resource of each link's other direction, where it is another one.
    back: Vec<Option<u32>>,
}

impl Resources {
    /// Cables where both directions are alike, else links.
    pub fn new(topology: &Topology) -> Self {
        let is_symmetric = topology.is_symmetric();
        let mut resources = Self { of_link: Vec::new(), capacity: Vec::new(), back: Vec::new() };
        for (id, link) in (0..).zip(topology.links()) {
            match topology.reverse(id) {
                Some(back) if is_symmetric && back < id => {
                    resources.of_link.push(resources.of_link[back as usize]);
                }
                _ => {
                    resources.of_link.push(resources.capacity.len() as u32);
                    resources.capacity.push(link.bandwidth.0);
                }
            }
        }
        let back = |id: LinkId| topology.reverse(id).map(|back| resources.of_link[back as usize]);
        resources.back = (0..topology.links().len() as LinkId).map(back).collect();
        resources
    }

    /// `(resource, how many times it is used)` of a tree, rising.
    pub fn usage(&self, tree: &SpanningTree) -> Vec<(u32, u32)> {
        let routes = tree.down.iter().chain(tree.up.iter().flatten());
        let mut used: Vec<u32> = routes.flatten().map(|&link| self.of_link[link as usize]).collect();
        if tree.up.is_none() {
            let mirrored =
                tree.down.iter().flatten().map(|&link| (self.of_link[link as usize], self.back[link as usize]));
            used.extend(mirrored.filter_map(|(there, back)| back.filter(|&back| back != there)));
        }
        used.sort_unstable();
        used.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u32)).collect()
    }
}

/// A tree from routes in any order that lead away from `root` (`towards` false) or into it.
pub fn breadth_first(topology: &Topology, root: NodeId, routes: Vec<Route>, towards: bool) -> Vec<Route> {
    let mut children: Vec<Vec<Route>> = vec![Vec::new(); topology.ranks() as usize];
    for route in routes {
        children[ends(topology, &route, towards).0 as usize].push(route);
    }
    let mut ordered: Vec<Route> = std::mem::take(&mut children[root as usize]);
    let mut next = 0;
    while next < ordered.len() {
        let child = ends(topology, &ordered[next], towards).1;
        ordered.append(&mut children[child as usize]);
        next += 1;
    }
    ordered
}

/// Parent and child of a route that leads down, or `towards` the root.
pub fn ends(topology: &Topology, route: &Route, towards: bool) -> (NodeId, NodeId) {
    let (first, last) = (topology.link(route[0]).source, topology.link(route[route.len() - 1]).target);
    if towards { (last, first) } else { (first, last) }
}

/// Shares of a vector are whole numbers of this part.
pub(super) const UNITS: u64 = 1 << 20;

/// What of `UNITS` each of `rates` gets: one span after the other, in proportion, all of them together.
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

/// The streamed plan in which `trees[i]` carries a part of the vector in proportion to `rates[i]`; trees without rate
/// are left out.
pub fn plan(topology: &Arc<Topology>, algorithm: &str, trees: &[SpanningTree], rates: &[f64], chunk: Chunk) -> Plan {
    let mut plan = Plan::new(topology, algorithm, UNITS);
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
    plan.push_phase(Pace::Stream, planned);
    plan
}
