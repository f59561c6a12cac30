//! GOST: low spanning trees of wide capacity (MTree, "Efficient inter-datacenter all-reduce with multiple trees",
//! section III-A: GBST, GRTH and ITH, Algorithms 1 to 3).
//!
//! GBST grows one tree after the other as Prim does, from a random rank: always over the widest cable that is left and
//! keeps the tree's diameter within 2 H, among equally wide ones over one that keeps it least. The tree's root is its
//! centre; its cables then lose the smallest capacity that is left in the network. ITH halves the range of H as long as
//! the trees together keep `rho` of the rate. A cable is two opposite links; it carries what the lesser of them does.
//!
//! Cost: GRTH is incremental. Pairwise distances in the growing tree make a candidate O(1) (the new diameter is the
//! old one or the farthest rank from `u` plus the cable) and an addition O(n), so a tree costs O(n m).
//!
//! Departures from the paper, besides its errata (the entry of `u` itself; a least capacity that is at least the least
//! rate; H checked after rooting): a tree takes at most `MOST_OF_WIDEST` of the widest cable at a time, and one that is
//! grown again gets more; where a start finds no tree low enough, the other ranks are tried before giving up, and where
//! none finds the first tree, the tree of shortest routes from the network's centre is it. So an H that any tree keeps
//! is never refused.

mod cables;
mod growing;

use super::forest::SpanningTree;
use crate::bail;
use crate::error::Result;
use crate::random::Random;
use crate::topology::{NodeId, Topology};
use crate::units::Bandwidth;
use cables::Cables;
use growing::Growing;

/// What the trees have to keep to.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Most hops, or quanta of latency, from root to leaf; without limit where `None`.
    pub height: Option<u32>,
    /// Whether heights count quanta of latency (the least positive one of the network) instead of hops.
    pub by_latency: bool,
    /// Least rate of a tree in bytes a second; where `None` a 25th of the mean cable, or what the widest tree has if
    /// less.
    pub least_rate: Option<f64>,
    /// Part of the total rate that lower trees must keep.
    pub rho: f64,
    /// Of the random starts.
    pub seed: u64,
    /// Most trees to grow.
    pub most: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { height: None, by_latency: false, least_rate: None, rho: 1.0, seed: 1, most: 1000 }
    }
}

/// Trees, and how they were grown.
#[derive(Debug, Clone, PartialEq)]
pub struct Grown {
    /// The trees.
    pub trees: Vec<SpanningTree>,
    /// Bytes a second of each; together they fit.
    pub rates: Vec<f64>,
    /// Limit of the height that ITH ended with.
    pub height: u32,
    /// Least rate of a tree, in bytes a second.
    pub least_rate: f64,
}

/// The paper does not tell. Its links have multiples of 10 Mbit/s, 200 in the mean: this is just below that step, also
/// where the mean of a draw is above 200.
const LEAST_PART_OF_MEAN: f64 = 0.04;

/// Part of the network's widest cable that a tree takes at most each time it is grown. The paper has no such limit; on
/// links that are alike its first tree takes its links whole and the rest joins nobody: 0.58 of all capacity on b4.
/// With a quarter it is the optimum there, 0.87, by six trees.
const MOST_OF_WIDEST: f64 = 0.25;

/// Grows trees whose rates fit into the network together (ITH, Algorithm 3).
///
/// # Errors
/// A network with switches, relays or one-way links only; a least rate that no tree can have; a height that none keeps.
pub fn grow(topology: &Topology, limits: &Limits) -> Result<Grown> {
    if !(limits.rho > 0.0 && limits.rho <= 1.0) {
        bail!("rho must be above 0 and at most 1, got {}", limits.rho);
    }
    let cables = Cables::new(topology, limits.by_latency)?;
    let usual = || (LEAST_PART_OF_MEAN * cables.mean_capacity()).min(cables.widest_tree());
    let least_rate = limits.least_rate.unwrap_or_else(usual);
    let gost = Gost { topology, cables: &cables, least_rate, seed: limits.seed, most: limits.most };
    gost.check_least_rate()?;
    let most_height = cables.most_height();
    let mut high = limits.height.map_or(most_height, u64::from).min(most_height);
    let mut best = gost.trees_within(high);
    if best.is_empty() {
        let (lowest, _) = cables.lowest(&gost.usable(&cables.capacity));
        let unit = if limits.by_latency { "quanta of latency" } else { "hops" };
        bail!("height {high}: no tree over {} is lower than {lowest} {unit}; allow height {lowest}", topology.name());
    }
    let threshold = limits.rho * total(&best) * (1.0 - 1e-12);
    let mut low = 1;
    while low < high {
        let middle = low.midpoint(high);
        let trees = gost.trees_within(middle);
        if total(&trees) >= threshold {
            (high, best) = (middle, trees);
        } else {
            low = middle + 1;
        }
    }
    let (trees, rates) = best.into_iter().unzip();
    Ok(Grown { trees, rates, height: high as u32, least_rate })
}

fn total(trees: &[(SpanningTree, f64)]) -> f64 {
    trees.iter().map(|(_, rate)| rate).sum()
}

struct Gost<'a> {
    topology: &'a Topology,
    cables: &'a Cables,
    least_rate: f64,
    seed: u64,
    most: usize,
}

impl Gost<'_> {
    /// GBST, Algorithm 1: trees of at most this height, with the rates at which they were taken.
    fn trees_within(&self, height: u64) -> Vec<(SpanningTree, f64)> {
        let mut capacity = self.cables.capacity.clone();
        let most_rate = self.most_rate();
        let mut random = Random::new(self.seed);
        let mut trees: Vec<(SpanningTree, f64)> = Vec::new();
        while trees.len() < self.most {
            let order = self.usable(&capacity);
            let Some(&narrowest) = order.last() else { break };
            let rate = capacity[narrowest].min(most_rate);
            let start = NodeId(random.below(self.topology.ranks().into()) as u32);
            let Some((root, mut chosen)) = self.tree(&capacity, &order, height, start, trees.is_empty()) else { break };
            chosen.iter().for_each(|&cable| capacity[cable] -= rate);
            chosen.sort_unstable();
            let tree = self.cables.rooted(root, &chosen);
            match trees.iter_mut().find(|(grown, _)| *grown == tree) {
                Some((_, sum)) => *sum += rate,
                None => trees.push((tree, rate)),
            }
        }
        trees
    }

    fn most_rate(&self) -> f64 {
        let widest = self.cables.capacity.iter().copied().fold(0.0, f64::max);
        (MOST_OF_WIDEST * widest).max(self.least_rate)
    }

    /// Cables that carry the least rate, widest first.
    fn usable(&self, capacity: &[f64]) -> Vec<usize> {
        // What rounding leaves of a used up cable is nothing.
        let enough = |cable: usize| {
            capacity[cable] >= self.least_rate * (1.0 - 1e-9) && capacity[cable] > 1e-9 * self.cables.capacity[cable]
        };
        let mut order: Vec<usize> = (0..capacity.len()).filter(|&cable| enough(cable)).collect();
        order.sort_by(|&a, &b| capacity[b].total_cmp(&capacity[a]));
        order
    }

    /// Root and cables of one tree, grown from `start`, or else from the ranks after it.
    fn tree(
        &self,
        capacity: &[f64],
        order: &[usize],
        height: u64,
        start: NodeId,
        is_first: bool,
    ) -> Option<(NodeId, Vec<usize>)> {
        if !self.cables.join_all(order) {
            return None;
        }
        let ranks = self.topology.ranks();
        let starts = (0..ranks).map(|turn| NodeId((start.0 + turn) % ranks));
        let mut grown = starts.map(|start| Growing::new(self.cables, start).span(capacity, order, height));
        grown.find_map(|tree| tree).or_else(|| {
            let (lowest, tree) = self.cables.lowest(order);
            (is_first && lowest <= height).then_some(tree)
        })
    }

    fn check_least_rate(&self) -> Result<()> {
        if self.cables.join_all(&self.usable(&self.cables.capacity)) {
            return Ok(());
        }
        let widest = Bandwidth(self.cables.widest_tree());
        bail!(
            "least rate {}: no tree over {} carries more than {widest}; lower it",
            Bandwidth(self.least_rate),
            self.topology.name()
        )
    }
}
