//! Deterministic shortest routes.
//!
//! Tori and meshes route dimension by dimension, X first, in the shorter direction. On an even ring both may be equally
//! short: plans count on the way forward, and the packet simulator's routers draw lots for every packet. All other
//! networks take the fewest hops, then the least latency; on trees that leads up to the nearest common switch and down
//! again. Ties between equally good next links are spread by the source's place (over a fat tree's up-ports), and by
//! the destination's on `dgx2` and `bigraph`, as the MultiTree authors do. Cost: one breadth-first search a
//! destination, whose result is kept.

use std::sync::{Arc, OnceLock};

use super::{LinkId, NodeId, Shape, Topology, grid};
use crate::search::BreadthFirst;

/// The distances of all nodes to a destination.
type Distances = Box<[Distance]>;

/// A distance. Hops count first: a route should not take a detour through other nodes to save a little latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Distance {
    hops: u32,
    latency: u64,
}

/// The distance of a node from which the destination cannot be reached: infinitely far.
const FAR: Distance = Distance { hops: u32::MAX, latency: u64::MAX };

/// The distances found so far, which clones of a topology share.
#[derive(Debug, Clone)]
pub struct Routes(Arc<[OnceLock<Distances>]>);

impl Routes {
    /// Creates an empty record for a network of `nodes` nodes.
    pub(super) fn new(nodes: usize) -> Self {
        Self((0..nodes).map(|_| OnceLock::new()).collect())
    }
}

impl Topology {
    /// Appends the links of the route from `source` to `target` to `route`.
    ///
    /// ```
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let line = from_spec("line:4", None, None)?;
    /// let mut route = Vec::new();
    /// line.route(NodeId(3), NodeId(1), &mut route);
    /// let names: Vec<String> = route.iter().map(|&link| line.describe_link(link)).collect();
    /// assert_eq!(names, ["GPU3 -> GPU2", "GPU2 -> GPU1"]);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn route(&self, source: NodeId, target: NodeId, route: &mut Vec<LinkId>) {
        walk(self, source, target, 0, route);
    }

    /// Returns the number of routes from `source` to `target` among which routers choose anew for every packet: more
    /// than one on a torus, where both directions around a ring are equally short.
    ///
    /// ```
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let torus = from_spec("torus:4x4", None, None)?;
    /// assert_eq!(torus.ways(NodeId(0), NodeId(1)), 1);
    /// assert_eq!(torus.ways(NodeId(0), NodeId(10)), 4, "two ways around in each dimension");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn ways(&self, source: NodeId, target: NodeId) -> u32 {
        ways(self, source, target)
    }

    /// Appends the links of route number `way` of the [`Self::ways`] from `source` to `target`; number 0 is the one
    /// that [`Self::route`] appends.
    ///
    /// ```
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let ring = from_spec("ring:4", None, None)?;
    /// let mut route = Vec::new();
    /// ring.append_way(NodeId(0), NodeId(2), 1, &mut route);
    /// let names: Vec<String> = route.iter().map(|&link| ring.describe_link(link)).collect();
    /// assert_eq!((ring.ways(NodeId(0), NodeId(2)), ring.ways(NodeId(0), NodeId(1))), (2, 1));
    /// assert_eq!(names, ["GPU0 -> GPU3", "GPU3 -> GPU2"]);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn append_way(&self, source: NodeId, target: NodeId, way: u32, route: &mut Vec<LinkId>) {
        walk(self, source, target, way, route);
    }

    /// Returns whether there is a route from `source` to `target`. Between ranks there always is one.
    ///
    /// ```
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let line = from_spec("line:3", None, None)?;
    /// assert!(line.reaches(NodeId(0), NodeId(2)));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn reaches(&self, source: NodeId, target: NodeId) -> bool {
        reaches(self, source, target)
    }

    /// Returns the number of links of the route from `source` to `target`, which must exist.
    ///
    /// ```
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let ring = from_spec("ring:4", None, None)?;
    /// assert_eq!(ring.hops(NodeId(0), NodeId(2)), 2);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn hops(&self, source: NodeId, target: NodeId) -> u32 {
        hops(self, source, target)
    }
}

/// Counts the routes from `source` to `target` among which routers choose for every packet.
fn ways(topology: &Topology, source: NodeId, target: NodeId) -> u32 {
    match topology.shape() {
        Shape::Grid { dims, wrap } => grid::ways(topology, dims, *wrap, source, target),
        _ => 1,
    }
}

/// Appends the links of route number `way` from `source` to `target`.
fn walk(topology: &Topology, source: NodeId, target: NodeId, way: u32, route: &mut Vec<LinkId>) {
    if matches!(topology.shape(), Shape::Grid { .. }) {
        return grid::route(topology, [source, target], way, route);
    }
    let distances = distances_to(topology, target);
    let key = tie_break(topology, source, target);
    let mut node = source;
    assert_ne!(distances[source], FAR, "only connected nodes are routed");
    while node != target {
        let here = distances[node];
        let best = |&&link: &&LinkId| through(topology, distances, target, link) == here;
        let ties = topology.outgoing(node).iter().filter(best).count();
        let link = topology.outgoing(node).iter().filter(best).nth(key % ties);
        let link = *link.expect("a finite distance has a next link");
        route.push(link);
        node = topology.link(link).target;
    }
}

/// Returns the hops from `source` to `target`.
fn hops(topology: &Topology, source: NodeId, target: NodeId) -> u32 {
    match topology.shape() {
        Shape::Grid { dims, wrap } => grid::hops(topology, dims, *wrap, source, target),
        _ => distances_to(topology, target)[source].hops,
    }
}

/// Returns whether `target` can be reached from `source`.
fn reaches(topology: &Topology, source: NodeId, target: NodeId) -> bool {
    matches!(topology.shape(), Shape::Grid { .. }) || distances_to(topology, target)[source] != FAR
}

/// Returns the number by which a pair of nodes chooses among equally good links.
fn tie_break(topology: &Topology, source: NodeId, target: NodeId) -> usize {
    match topology.shape() {
        Shape::Dgx2 => topology.place(target) as usize,
        Shape::BiGraph { per_switch, .. } => (topology.place(target) / per_switch) as usize,
        Shape::General | Shape::Grid { .. } => topology.place(source) as usize,
    }
}

fn distances_to(topology: &Topology, target: NodeId) -> &Distances {
    topology.routes.0[target].get_or_init(|| search(topology, target))
}

/// Returns the distance to `target` when starting over `link`.
fn through(topology: &Topology, distances: &[Distance], target: NodeId, link: LinkId) -> Distance {
    let link = topology.link(link);
    let beyond = distances[link.target];
    if beyond == FAR {
        return FAR;
    }
    let pass = if link.target == target { 0 } else { topology.node(link.target).latency.picoseconds() };
    Distance { hops: beyond.hops + 1, latency: beyond.latency + link.delay().picoseconds() + pass }
}

/// Searches breadth-first from `target` against the links. A node's latency is settled when the search comes to it,
/// because all nodes that are nearer have been visited by then.
fn search(topology: &Topology, target: NodeId) -> Distances {
    let mut distances = vec![FAR; topology.nodes().len()].into_boxed_slice();
    distances[target] = Distance { hops: 0, latency: 0 };
    let mut search = BreadthFirst::new(distances.len());
    search.start(target);
    while let Some(node) = search.visit() {
        for &link in topology.incoming(node) {
            let source = topology.link(link).source;
            search.offer(source);
            distances[source] = distances[source].min(through(topology, &distances, target, link));
        }
    }
    distances
}
