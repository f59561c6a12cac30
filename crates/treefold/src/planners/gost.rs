//! GOST: low spanning trees of wide capacity (MTree, "Efficient inter-datacenter all-reduce with multiple trees",
//! section III-A). GBST grows trees (Algorithm 1), GRTH adds a cable to a tree (2), and ITH searches the limit H of
//! heights (3), for n ranks and m cables.
//!
//! GBST grows one tree after the other from a random rank, as Prim does. It always takes the widest cable that is left
//! and keeps the tree's diameter within 2 H; of equally wide ones it takes one that increases the diameter least. The
//! root of a tree is its centre. The capacities of its cables are then reduced by the smallest one that was left in the
//! network. ITH halves the range of H as long as the trees together keep `rho` of the rate. A cable is two opposite
//! links; it carries as much as the lesser of them.
//!
//! Cost: GRTH is incremental. With pairwise distances in the growing tree a candidate takes O(1) (the new diameter is
//! the old one, or the distance of the farthest rank from `u` plus the cable) and an addition O(n), so a tree takes O(n
//! m).
//!
//! With the options `tree_rate=all` and `starts=one` it is as published, but for three corrections of ours (the entry
//! of `u` itself; a least capacity that is at least the least rate; H checked after rooting) and for equal trees, which
//! become one with the sum of their rates. By default it departs from the paper in two points. A tree takes at most
//! `MOST_OF_WIDEST` of the widest cable at a time, and a tree that is grown again gets more. If a start finds no tree
//! that is low enough, the other ranks are tried, and if none finds the first tree, the tree of shortest routes from
//! the network's centre is taken. So an H that any tree keeps is never refused.

mod cables;
mod growing;

use super::spanning::Rated;
use super::{Heights, Options, Starts, TreeRate};
use crate::error::Result;
use crate::misfit;
use crate::options::Options as _;
use crate::random::Random;
use crate::topology::{NodeId, Topology};
use crate::units::{Bandwidth, format_bandwidth};
use cables::Cables;
use growing::Growing;

/// Trees, and how they were grown.
#[derive(Debug, Clone, PartialEq)]
pub struct Grown {
    /// The trees, whose rates together fit into the network.
    pub trees: Vec<Rated>,
    /// The limit of the height with which ITH has ended.
    pub height: u32,
    /// The least rate of a tree.
    pub least_rate: Bandwidth,
}

/// The least rate as a part of the mean cable, which the paper does not tell. Its links have multiples of 10 Mbit/s,
/// 200 in the mean: this is just below that step, also where the mean of a draw is above 200.
const LEAST_PART_OF_MEAN: f64 = 0.04;

/// The part of the network's widest cable that a tree takes at most each time it is grown. The paper has no such limit;
/// where links are alike, its first tree takes its links whole and the rest no longer joins all ranks: 0.58 of all
/// capacity on b4. With a quarter six trees reach the optimum there, 0.87.
const MOST_OF_WIDEST: f64 = 0.25;

/// The most trees that are grown.
const MOST_TREES: usize = 1000;

/// Grows trees whose rates fit into the network together (ITH, Algorithm 3), within the limits of `options`. Without a
/// least rate, that of a tree is 4 % of the mean bandwidth of the cables, or the rate of the widest tree if that is
/// less.
///
/// # Errors
/// If the network has switches, relays or only links of one direction, no tree can have the least rate, or none keeps
/// the height.
pub fn grow(topology: &Topology, options: &Options) -> Result<Grown> {
    options.check_ranges()?;
    let cables = Cables::new(topology, options.heights)?;
    let usual = || (LEAST_PART_OF_MEAN * cables.mean_capacity()).min(cables.widest_tree());
    let least_rate = options.least_rate.map_or_else(usual, Bandwidth::bytes_per_second);
    let Options { tree_rate, starts, seed, .. } = *options;
    let gost = Gost { topology, cables: &cables, least_rate, tree_rate, starts, seed };
    gost.check_least_rate()?;
    let most_height = cables.most_height();
    let mut high = options.height.map_or(most_height, u64::from).min(most_height);
    let mut best = gost.trees_within(high);
    if best.is_empty() {
        let (lowest, _) = cables.lowest(&gost.usable(&cables.capacity));
        if starts == Starts::One && lowest <= high {
            misfit!(
                "height {high}: no tree grows from the random start with seed {seed}; take starts=any or another seed"
            );
        }
        let unit = if options.heights == Heights::Latency { "times the smallest latency" } else { "hops" };
        misfit!("height {high}: no tree over {} is lower than {lowest} {unit}; allow height {lowest}", topology.name());
    }
    let threshold = options.rho * total(&best) * (1.0 - 1e-12);
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
    Ok(Grown { trees: best, height: high as u32, least_rate: Bandwidth::known(least_rate) })
}

fn total(trees: &[Rated]) -> f64 {
    trees.iter().map(|rated| rated.rate).sum()
}

struct Gost<'a> {
    topology: &'a Topology,
    cables: &'a Cables,
    least_rate: f64,
    tree_rate: TreeRate,
    starts: Starts,
    seed: u64,
}

impl Gost<'_> {
    /// Grows trees of at most this height (GBST, Algorithm 1); returns them with the rates at which they were taken.
    fn trees_within(&self, height: u64) -> Vec<Rated> {
        let mut capacity = self.cables.capacity.clone();
        let most_rate = self.most_rate();
        let mut random = Random::new(self.seed);
        let mut trees: Vec<Rated> = Vec::new();
        while trees.len() < MOST_TREES {
            let order = self.usable(&capacity);
            let Some(&narrowest) = order.last() else { break };
            let rate = capacity[narrowest].min(most_rate);
            let start = NodeId(random.below(self.topology.ranks().into()) as u32);
            let Some((root, mut chosen)) = self.tree(&capacity, &order, height, start, trees.is_empty()) else { break };
            chosen.iter().for_each(|&cable| capacity[cable] -= rate);
            chosen.sort_unstable();
            let tree = self.cables.rooted(root, &chosen);
            match trees.iter_mut().find(|grown| grown.tree == tree) {
                Some(grown) => grown.rate += rate,
                None => trees.push(Rated { tree, rate }),
            }
        }
        trees
    }

    /// Returns the most that a tree gets each time it is grown.
    fn most_rate(&self) -> f64 {
        if self.tree_rate == TreeRate::All {
            return f64::INFINITY;
        }
        let widest = self.cables.capacity.iter().copied().fold(0.0, f64::max);
        (MOST_OF_WIDEST * widest).max(self.least_rate)
    }

    /// Returns the cables that can carry the least rate, widest first.
    fn usable(&self, capacity: &[f64]) -> Vec<usize> {
        // A rest of a used cable that is due to rounding counts as zero.
        let enough = |cable: usize| {
            capacity[cable] >= self.least_rate * (1.0 - 1e-9) && capacity[cable] > 1e-9 * self.cables.capacity[cable]
        };
        let mut order: Vec<usize> = (0..capacity.len()).filter(|&cable| enough(cable)).collect();
        order.sort_by(|&a, &b| capacity[b].total_cmp(&capacity[a]));
        order
    }

    /// Grows one tree from `start`, or else where that is allowed from the ranks after it; returns its root and its
    /// cables.
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
        if self.starts == Starts::One {
            return Growing::new(self.cables, start).span(capacity, order, height);
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
        let [least, widest] = [self.least_rate, self.cables.widest_tree()].map(format_bandwidth);
        misfit!("least rate {least}: no tree over {} carries more than {widest}; lower it", self.topology.name())
    }
}
