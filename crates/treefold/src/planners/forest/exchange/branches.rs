//! A tree out of one rank, in which ranks can be moved.

use crate::planners::spanning::Route;
use crate::planners::ways::latency_over;
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
    /// The shares of the root's block for each rank, and of those for all below it, too.
    own: Vec<u64>,
    shares: Vec<u64>,
    /// The latency from the root to each rank.
    depth: Vec<u64>,
    /// The latency from each rank to the farthest one below it.
    below: Vec<u64>,
}

impl Branches {
    /// Makes a tree of the routes into all ranks, for each of which the root has some shares.
    pub fn new(topology: &Topology, root: NodeId, into: Vec<Route>, own: Vec<u64>) -> Self {
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
            shares: own.clone(),
            own,
            depth: vec![0; count],
            below: vec![0; count],
        };
        tree.measure();
        tree
    }

    /// Returns the routes that carry anything.
    pub fn routes(&self) -> Vec<Route> {
        let carries = |rank: &NodeId| *rank != self.root && self.shares[*rank] > 0;
        NodeId::first(self.into.len()).filter(carries).map(|rank| self.into[rank].clone()).collect()
    }

    /// Returns all routes, and the shares that go over each.
    pub fn routes_with_shares(&self) -> impl Iterator<Item = (&Route, u64)> {
        self.into.iter().zip(self.shares.iter().copied())
    }

    /// Returns the route into a rank.
    pub fn route(&self, rank: NodeId) -> &[LinkId] {
        &self.into[rank]
    }

    /// Returns the rank from which a rank gets its blocks.
    pub fn parent(&self, rank: NodeId) -> NodeId {
        self.parent[rank]
    }

    /// Returns how many shares go to a rank: its own and those of all below it.
    pub fn shares(&self, rank: NodeId) -> u64 {
        self.shares[rank]
    }

    /// Returns whether nothing goes to a rank nor to those below it, so that it may be anywhere in the tree.
    pub fn is_loose(&self, rank: NodeId) -> bool {
        self.shares[rank] == 0 && rank != self.root
    }

    /// Returns the latency from the root to a rank.
    pub fn depth(&self, rank: NodeId) -> u64 {
        self.depth[rank]
    }

    /// Returns the latency from a rank to the farthest one below it to which anything goes.
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

    /// Gives the rank at the end of a route, which does not come from below it, and the loose ranks on the way their
    /// places on the route.
    pub fn reroute(&mut self, topology: &Topology, route: &[LinkId]) {
        for part in route.split_inclusive(|&link| topology.is_rank(topology.link(link).target)) {
            let rank = topology.link(part[part.len() - 1]).target;
            self.parent[rank] = topology.link(part[0]).source;
            self.latency[rank] = latency_of(topology, part);
            self.into[rank] = part.into();
        }
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
        self.shares.copy_from_slice(&self.own);
        self.below.fill(0);
        for &rank in &self.order[1..] {
            self.depth[rank] = self.depth[self.parent[rank]] + self.latency[rank];
        }
        for &rank in self.order[1..].iter().rev() {
            let parent = self.parent[rank];
            self.shares[parent] += self.shares[rank];
            if self.shares[rank] > 0 {
                self.below[parent] = self.below[parent].max(self.below[rank] + self.latency[rank]);
            }
        }
    }
}

/// Returns the latency of a route, in picoseconds.
pub(super) fn latency_of(topology: &Topology, route: &[LinkId]) -> u64 {
    route.iter().map(|&link| latency_over(topology, link)).sum()
}
