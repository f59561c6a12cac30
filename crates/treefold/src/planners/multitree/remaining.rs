//! Remaining heights: how far each tree is from the farthest rank that it lacks (III-C1).
//!
//! Distances between ranks are found once. When a rank joins a tree, every rank's distance to the tree is the smaller
//! of what it was and the distance to the newcomer. Cost: N per join, on bytes that vectorise.

use crate::topology::{NodeId, Topology};

/// The distances of all ranks to all trees while these grow.
pub(super) struct Remaining {
    ranks: usize,
    /// The hops from rank `a` to rank `b` are `hops[a * ranks + b]`.
    hops: Vec<u16>,
    /// The hops to rank `b` from the nearest node of tree `t` are `to[t * ranks + b]`.
    to: Vec<u16>,
}

impl Remaining {
    /// Returns the distances to trees that have only their roots.
    pub fn new(topology: &Topology, roots: &[NodeId]) -> Self {
        let ranks = topology.ranks() as usize;
        let pairs = (0..ranks * ranks).map(|i| (NodeId::new(i / ranks), NodeId::new(i % ranks)));
        let hops: Vec<u16> = pairs.map(|(a, b)| if a == b { 0 } else { topology.hops(a, b) as u16 }).collect();
        let to = roots.iter().flat_map(|&root| hops[root.index() * ranks..][..ranks].iter().copied()).collect();
        Self { ranks, hops, to }
    }

    /// Records that `node` joins tree `tree`.
    pub fn join(&mut self, tree: usize, node: NodeId) {
        let from_node = &self.hops[node.index() * self.ranks..][..self.ranks];
        let to = &mut self.to[tree * self.ranks..][..self.ranks];
        to.iter_mut().zip(from_node).for_each(|(nearest, &hops)| *nearest = (*nearest).min(hops));
    }

    /// Returns the hops from `tree` to the rank that is farthest from it; ranks that it has are at 0.
    pub fn height(&self, tree: usize) -> u16 {
        self.to[tree * self.ranks..][..self.ranks].iter().copied().max().unwrap_or(0)
    }
}
