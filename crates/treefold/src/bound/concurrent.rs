//! The rate of all-to-alls: a maximum concurrent flow between all pairs of ranks, from above. Each pair sends one
//! share, or as many as its block has.
//!
//! Give each link a price. A byte from one rank to another costs at least the cheapest route, and what all links can
//! carry is worth the sum of their bandwidths times their prices. So the rate of each pair is at most that sum over the
//! sum of the cheapest routes of all pairs (linear programming duality; Shahrokhi and Matula 1990). Any prices give a
//! valid bound; the best ones give the exact one.
//!
//! First prices come from multiplicative weights: shares are sent from rank after rank along the cheapest routes, and
//! raise the prices of their links (Garg and Koenemann 2007). What was sent are the columns of a linear program, which
//! mixes them so that the fullest link is as empty as possible, and says what each link is worth then. At these prices
//! shares are sent again (Dantzig and Wolfe 1960), until bound and flow meet.
//!
//! Cost: a search from every rank in each round, and a linear program with a row for each link.

mod cuts;
mod mixture;

use self::mixture::Mixture;
use super::limit::Limit;
use crate::blocks::{Blocks, share};
use crate::search::Shortest;
use crate::topology::{LinkId, NodeId, Topology};

/// The rounds before the first linear program, and the most ranks times links times these.
const FIRST_ROUNDS: usize = 30;
const MOST_WORK: usize = 1 << 26;
/// The least and the most linear programs, and the most ranks times links times programs.
const LEAST_PROGRAMS: usize = 2;
const MOST_PROGRAMS: usize = 40;
const MOST_PROGRAM_WORK: usize = 1 << 18;
/// The part by which the price of a link rises that the first round fills; later steps are smaller, by the
/// square root of the round. Every other program's prices stay as they are: else what it lacks may never be sent.
const STEP: f64 = 1.2;
/// A bound that some flow comes so near is exact enough.
const NEAR: f64 = 1e-4;

/// A bound on a concurrent flow.
#[derive(Debug, Clone)]
pub(crate) struct Concurrent {
    /// The most bytes a second for each share.
    pub rate: f64,
    /// The part of it that a flow reaches which was found on the way.
    pub reached: f64,
    /// The links whose prices prove it.
    pub limit: Limit,
    /// The most by which the rate rises for each byte a second that a link gains.
    pub prices: Vec<f64>,
    /// Trees of cheapest routes of which such a flow is a mean; none on large networks.
    pub trees: Vec<RoutingTree>,
}

/// The root of a tree, and the last link of the route to each node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RoutingTree {
    pub root: NodeId,
    pub into: Vec<Option<LinkId>>,
}

impl Concurrent {
    /// Returns whether no smaller rate is a bound.
    pub fn is_exact(&self) -> bool {
        self.reached >= 1.0 - NEAR
    }
}

/// Returns the most bytes a second for each share that these prices of links prove.
pub(crate) fn rate_by_prices(topology: &Topology, blocks: Option<&Blocks>, prices: Vec<f64>) -> f64 {
    Flow { prices, ..Flow::new(topology, blocks) }.bound()
}

/// Bounds the rate at which every rank can send to every other one at the same time. It is infinite if no rank has
/// anything for another one.
pub(crate) fn concurrent_flow(topology: &Topology, blocks: Option<&Blocks>) -> Concurrent {
    let (mut rate, mut best) = cuts::least(topology, blocks);
    let work = topology.ranks() as usize * topology.links().len();
    let programs = (MOST_PROGRAM_WORK / work.max(1)).clamp(LEAST_PROGRAMS, MOST_PROGRAMS);
    let rounds = (MOST_WORK / work.max(1)).clamp(1, FIRST_ROUNDS);
    let (mut flow, mut mixture) = (Flow::new(topology, blocks), Mixture::new(topology, rounds));
    let (mut reached, mut trees) = (0.0f64, Vec::new());
    for round in 1..=rounds + programs {
        let proven = flow.bound();
        if proven < rate {
            (rate, best) = (proven, flow.prices.clone());
        }
        if rate.is_infinite() || reached >= rate * (1.0 - NEAR) {
            break;
        }
        mixture.begin_round();
        let is_exact = round > rounds && (round - rounds).is_multiple_of(2);
        let step = if is_exact { 0.0 } else { STEP / (round as f64).sqrt() };
        for source in topology.rank_ids() {
            flow.send(source, rate, step, mixture.of(source));
            trees.extend(mixture.is_fine().then(|| flow.tree(source)));
        }
        if round >= rounds {
            let seconds;
            (seconds, flow.prices) = mixture.solve(rate);
            reached = reached.max(1.0 / seconds);
        }
    }
    let limit = Limit::of_prices(topology, &best);
    let worth: f64 = best.iter().zip(&flow.capacity).map(|(price, capacity)| price * capacity).sum();
    let prices = best.into_iter().map(|price| if worth > 0.0 { rate * price / worth } else { 0.0 }).collect();
    Concurrent { rate, reached: reached / rate, limit, prices, trees }
}

/// Units that were sent between all pairs of ranks, and the prices that follow.
struct Flow<'a> {
    topology: &'a Topology,
    blocks: Option<&'a Blocks>,
    capacity: Vec<f64>,
    prices: Vec<f64>,
    search: Shortest<f64, LinkId>,
}

impl<'a> Flow<'a> {
    fn new(topology: &'a Topology, blocks: Option<&'a Blocks>) -> Self {
        let capacity: Vec<f64> = topology.links().iter().map(|link| link.bandwidth.bytes_per_second()).collect();
        let prices = capacity.iter().map(|capacity| 1.0 / capacity).collect();
        let search = Shortest::new(topology.nodes().len());
        Self { topology, blocks, capacity, prices, search }
    }

    /// Returns the bound that the present prices prove.
    fn bound(&mut self) -> f64 {
        let worth: f64 = self.capacity.iter().zip(&self.prices).map(|(capacity, price)| capacity * price).sum();
        let (topology, blocks) = (self.topology, self.blocks);
        let cost = |rank: NodeId| {
            self.routes_from(rank);
            let of_block = |other| share(blocks, rank, other) as f64 * self.search.cost(other);
            topology.rank_ids().map(of_block).sum::<f64>()
        };
        worth / topology.rank_ids().map(cost).sum::<f64>()
    }

    /// Finds the cheapest routes from a rank; returns the nodes by what it costs to reach them.
    fn routes_from(&mut self, source: NodeId) -> Vec<NodeId> {
        let mut settled = Vec::with_capacity(self.topology.nodes().len());
        self.search.start(source);
        while let Some((node, so_far)) = self.search.settle() {
            settled.push(node);
            for &link in self.topology.outgoing(node) {
                self.search.offer(self.topology.link(link).target, so_far + self.prices[link], link);
            }
        }
        settled
    }

    /// Returns the tree of the cheapest routes that were found last, from this rank.
    fn tree(&self, root: NodeId) -> RoutingTree {
        RoutingTree { root, into: self.topology.node_ids().map(|node| self.search.last_edge(node)).collect() }
    }

    /// Sends the shares of a rank to all others, which adds to what was `sent` over links, and raises the prices of the
    /// links that it takes, by how much of them it would take at this rate, times `step`.
    fn send(&mut self, source: NodeId, rate: f64, step: f64, sent: &mut [f64]) {
        let mut below = vec![0.0; self.topology.nodes().len()];
        // What is sent to all nodes behind a link goes over it; the farthest nodes come first.
        for node in self.routes_from(source).into_iter().rev() {
            let is_wanted = self.topology.is_rank(node) && node != source;
            let wanted = below[node] + if is_wanted { share(self.blocks, source, node) as f64 } else { 0.0 };
            if let Some(link) = self.search.last_edge(node) {
                sent[link.index()] += wanted;
                self.prices[link] *= 1.0 + step * wanted * rate / self.capacity[link];
                below[self.topology.link(link).source] += wanted;
            }
        }
        // Only ratios of prices count. Without this they would overflow.
        let dearest =
            self.prices.iter().zip(&self.capacity).map(|(price, capacity)| price * capacity).fold(0.0, f64::max);
        self.prices.iter_mut().for_each(|price| *price /= dearest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::from_spec;

    #[test]
    fn known_rates_are_found() {
        // GB/s of a rank's whole buffer: `synthesis` has them from linear programs.
        for (spec, expected) in
            [("torus:4x4", 32.0), ("torus:8x8", 16.0), ("mesh:5x5", 13.333), ("mesh:8x8", 8.0), ("dgx2", 17.067)]
        {
            let topology = from_spec(spec, None, None).unwrap();
            let Concurrent { rate, reached, .. } = concurrent_flow(&topology, None);
            let rate = rate * f64::from(topology.ranks()) / 1e9;
            assert!(rate >= expected * 0.999 && rate <= expected * 1.001, "{spec} {rate} {reached}");
            assert!(reached > 0.999 && reached <= 1.0 + 1e-9, "{spec} {reached}");
        }
    }
}
