//! A tree out of one rank, in which ranks can be moved.

use super::super::ways::latency_over;
use crate::planners::spanning::Route;
use crate::topology::{LinkId, NodeId, Topology};

/// A tree that joins all ranks.
#[derive(Debug, Clone, Default)]
pub(super) struct Branches {
    pub root: NodeId,
    /// The route into each rank; the root's has no links.
    into: Vec<Route>,
    parent: Vec<NodeId>,
    /// The latency of the route into each rank, in picoseconds.
    latency: Vec<u64>,
    /// The ranks breadth-first.
    order: Vec<NodeId>,
    /// How many ranks are below each one, itself included.
    blocks: Vec<u64>,
    /// The latency from the root to each rank.
    depth: Vec<u64>,
    /// The latency from each rank to the farthest one below it.
    below: Vec<u64>,
}

impl Branches {
    /// Makes a tree of the routes into all ranks.
    pub fn new(topology: &Topology, root: NodeId, into: Vec<Route>) -> Self {
        let parent = into.iter().map(|route| route.first().map_or(root, |&link| topology.link(link).source));
        let latency = into.iter().map(|route| latency_of(topology, route));
        let (parent, latency): (Vec<NodeId>, Vec<u64>) = (parent.collect(), latency.collect());
        let count = into.len();
        let mut tree = Self {
            root,
            into,
            parent,
            latency,
            order: Vec::new(),
            blocks: vec![0; count],
            depth: vec![0; count],
            below: vec![0; count],
        };
        tree.measure();
        tree
    }

    /// Returns the routes into all ranks but the root.
    pub fn routes(&self) -> Vec<Route> {
        self.into.iter().filter(|route| !route.is_empty()).cloned().collect()
    }

    /// Returns all routes, and the blocks that go over each.
    pub fn routes_with_blocks(&self) -> impl Iterator<Item = (&Route, u64)> {
        self.into.iter().zip(self.blocks.iter().copied())
    }

    /// Returns the route into a rank.
    pub fn route(&self, rank: NodeId) -> &[LinkId] {
        &self.into[rank]
    }

    /// Returns the rank from which a rank gets its blocks.
    pub fn parent(&self, rank: NodeId) -> NodeId {
        self.parent[rank]
    }

    /// Returns how many blocks go to a rank: its own and those of all below it.
    pub fn blocks(&self, rank: NodeId) -> u64 {
        self.blocks[rank]
    }

    /// Returns the latency from the root to a rank.
    pub fn depth(&self, rank: NodeId) -> u64 {
        self.depth[rank]
    }

    /// Returns the latency from a rank to the farthest one below it.
    pub fn below(&self, rank: NodeId) -> u64 {
        self.below[rank]
    }

    /// Returns a rank and all above it but the root.
    pub fn above(&self, rank: NodeId) -> impl Iterator<Item = NodeId> {
        let next = |&rank: &NodeId| Some(self.parent[rank]).filter(|&parent| parent != self.root);
        std::iter::successors(Some(rank), next)
    }

    /// Returns all ranks but the root, the deepest first.
    pub fn deepest_first(&self) -> Vec<NodeId> {
        self.order[1..].iter().rev().copied().collect()
    }

    /// Gives a rank another route, which does not come from below it.
    pub fn replace(&mut self, topology: &Topology, rank: NodeId, route: Route) {
        self.parent[rank] = topology.link(route[0]).source;
        self.latency[rank] = latency_of(topology, &route);
        self.into[rank] = route;
        self.measure();
    }

    /// Measures everything that follows from the routes.
    fn measure(&mut self) {
        let count = self.into.len();
        // Children of a rank as a chain: the first one, and for each the next.
        let mut first: Vec<Option<NodeId>> = vec![None; count];
        let mut next = first.clone();
        for rank in NodeId::first(count).rev().filter(|&rank| rank != self.root) {
            next[rank] = first[self.parent[rank]].replace(rank);
        }
        self.order.clear();
        self.order.push(self.root);
        let mut place = 0;
        while place < self.order.len() {
            self.order.extend(std::iter::successors(first[self.order[place]], |&child| next[child]));
            place += 1;
        }
        self.blocks.fill(1);
        self.below.fill(0);
        for &rank in &self.order[1..] {
            self.depth[rank] = self.depth[self.parent[rank]] + self.latency[rank];
        }
        for &rank in self.order[1..].iter().rev() {
            let parent = self.parent[rank];
            self.blocks[parent] += self.blocks[rank];
            self.below[parent] = self.below[parent].max(self.below[rank] + self.latency[rank]);
        }
    }
}

/// Returns the latency of a route, in picoseconds.
pub(super) fn latency_of(topology: &Topology, route: &[LinkId]) -> u64 {
    route.iter().map(|&link| latency_over(topology, link)).sum()
}
