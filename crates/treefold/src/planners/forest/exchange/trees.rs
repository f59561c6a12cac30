//! Trees of one rate out of every rank for blocks of ranks, so that no link carries much more than its part.
//!
//! Trees begin as those of the quickest routes. Then each rank of each tree in turn takes the route, from whichever
//! rank above it, over which its blocks and those of all below it are cheapest (rip-up and reroute, as in the routing
//! of circuits). A link's price is the rise of an exponential of what it carries. It changes after every move, has some
//! noise, so that no move is undone and done for ever, and gets steeper from pass to pass. The prices after a pass also
//! prove how much any plan can reach. Cost: for n ranks, k trees a rank and p passes, p k n^2 searches of the nodes
//! that are no ranks, of O(m log m) for m links.

use super::super::farthest;
use super::branches::{Branches, latency_of};
use crate::blocks::{Blocks, share};
use crate::bound::{exp2, rate_by_prices};
use crate::planners::spanning::Route;
use crate::planners::ways::latency_over;
use crate::random::Random;
use crate::search::Shortest;
use crate::topology::{LinkId, NodeId, Topology};

/// The most passes.
const PASSES: usize = 12;
/// So many passes that each gain less than this part of the bound end the search.
const IDLE: (usize, f64) = (4, 1e-4);
/// How steeply prices rise in the first pass: by e to this power from an unused link to a full one.
const STEEPNESS: f64 = 10.0;
/// The factor by which this power grows from pass to pass.
const STEEPER: f64 = 1.3;
/// The most that noise adds to a price, as a part of it.
const NOISE: f64 = 0.02;
/// The weight of the latency of a route against its price, so that of equally cheap ones the quickest is taken.
const TIE: f64 = 1e-4;
/// A move must save this part of its price.
const LEAST_SAVED: f64 = 1e-6;
/// Prices above two to this power are alike.
const MOST_EXPONENT: f64 = 400.0;

/// What is asked of trees.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    /// The blocks of ranks for each other; they are equal unless they are given.
    pub blocks: Option<&'a Blocks>,
    /// How many trees each rank has.
    pub trees: u32,
    /// The most that the latency of a tree may exceed that of the farthest rank, as a factor.
    pub stretch: Option<f64>,
    /// The bytes a second for each share that no plan exceeds; infinite if that is unknown.
    pub most: f64,
    /// The part of the bound with which the search ends.
    pub enough: f64,
}

/// Trees of one rate.
pub(super) struct Trees {
    /// The routes of each tree, rank by rank, in any order.
    pub trees: Vec<Vec<Route>>,
    /// The part of the bound that they reach.
    pub reached: f64,
    /// At how many links all searches have looked.
    pub work: usize,
}

/// Finds trees on a network of at least two ranks; `None` if some rank does not reach all others.
pub(super) fn trees(topology: &Topology, asked: Asked) -> Option<Trees> {
    let mut exchange = Exchange::new(topology, asked);
    exchange.plant()?;
    let (mut best, mut rate, mut reached, mut idle) = (Vec::new(), 0.0, 0.0, 0);
    let steepness = std::iter::successors(Some(STEEPNESS), |steepness| Some(steepness * STEEPER));
    for steepness in steepness.take(PASSES) {
        exchange.make_noise();
        exchange.set_prices(steepness);
        exchange.improve_all();
        exchange.prove();
        if 1.0 / exchange.seconds() > rate {
            (best, rate) = (exchange.trees.iter().map(Branches::routes).collect(), 1.0 / exchange.seconds());
        }
        // Better trees and better proofs are both gains.
        idle = if exchange.least * rate > reached + IDLE.1 { 0 } else { idle + 1 };
        reached = exchange.least * rate;
        if reached >= asked.enough || idle == IDLE.0 {
            break;
        }
    }
    Some(Trees { trees: best, reached, work: exchange.work })
}

/// The trees in the making, and what links carry.
struct Exchange<'a> {
    topology: &'a Topology,
    asked: Asked<'a>,
    /// The trees, rank by rank.
    trees: Vec<Branches>,
    /// The latency that the trees of each rank may have, in picoseconds.
    limit: Vec<u64>,
    /// The shares that each link carries.
    load: Vec<u64>,
    /// The seconds for which a share of one byte in all its trees occupies each link.
    slowness: Vec<f64>,
    /// The seconds that the busiest link needs at least.
    least: f64,
    /// The exponent of two by which a price rises with each second for which its link is busy.
    steepness: f64,
    /// The price of each link, but for the factor that depends on how many shares are added.
    weight: Vec<f64>,
    /// The latency of each link, as a part of that between the farthest ranks, but at most 2.
    latency: Vec<f64>,
    noise: Vec<f64>,
    random: Random,
    /// The cheapest routes into a rank.
    search: Shortest<f64, LinkId>,
    /// The price of the way from the root to each rank, where it is known.
    price_to: Vec<Option<f64>>,
    /// At how many links searches have looked.
    work: usize,
}

impl<'a> Exchange<'a> {
    fn new(topology: &'a Topology, asked: Asked<'a>) -> Self {
        let farthest = farthest(topology);
        let most = farthest.iter().copied().max().unwrap_or(0).max(1) as f64;
        let limit = |&farthest: &u64| asked.stretch.map_or(u64::MAX / 4, |stretch| (farthest as f64 * stretch) as u64);
        // A link that is on no quickest route may have any latency, which must not make it dear.
        let part = |link| (latency_over(topology, link) as f64 / most).min(2.0);
        let slowness =
            topology.links().iter().map(|link| link.bandwidth.seconds_for(1.0 / f64::from(asked.trees)).get());
        let slowness: Vec<f64> = slowness.collect();
        let links = slowness.len();
        let mut exchange = Self {
            topology,
            asked,
            trees: Vec::new(),
            limit: farthest.iter().map(limit).collect(),
            load: vec![0; links],
            weight: vec![1.0; links],
            slowness,
            least: 1.0 / asked.most,
            steepness: 0.0,
            latency: topology.link_ids().map(part).collect(),
            noise: vec![1.0; links],
            random: Random::new(1),
            search: Shortest::new(topology.nodes().len()),
            price_to: Vec::new(),
            work: 0,
        };
        exchange.prove();
        exchange
    }

    /// Adds the trees of the quickest routes one by one, each improved at the prices that those before it have made.
    fn plant(&mut self) -> Option<()> {
        self.set_prices(STEEPNESS);
        for root in self.topology.rank_ids() {
            for _ in 0..self.asked.trees {
                let mut tree = self.quickest(root)?;
                for (route, shares) in tree.routes_with_shares() {
                    for &link in route {
                        self.load[link] += shares;
                        self.set_price(link);
                    }
                }
                self.improve(&mut tree);
                self.trees.push(tree);
            }
        }
        Some(())
    }

    /// Returns the tree of the quickest routes out of a rank, and of equally quick ones the cheapest.
    fn quickest(&mut self, root: NodeId) -> Option<Branches> {
        let topology = self.topology;
        self.search.start(root);
        while let Some((node, cost)) = self.search.settle() {
            for &link in topology.outgoing(node) {
                let price = self.price(link, 1);
                // However dear a link is, latency decides.
                let longer = cost + self.latency[link] + TIE * price / (1.0 + price);
                self.search.offer(topology.link(link).target, longer, link);
            }
        }
        let route = |rank: NodeId| {
            let source_of = |&link: &LinkId| topology.link(link).source;
            let before = |link: &LinkId| Some(source_of(link)).filter(|&node| !topology.is_rank(node));
            let back = |link: &LinkId| before(link).and_then(|node| self.search.last_edge(node));
            let links = std::iter::successors(self.search.last_edge(rank), back);
            let mut route: Vec<LinkId> = links.collect();
            route.reverse();
            (rank == root || !route.is_empty()).then(|| Route::from(route))
        };
        let routes: Option<Vec<Route>> = topology.rank_ids().map(route).collect();
        let shares = topology.rank_ids().map(|rank| share(self.asked.blocks, root, rank)).collect();
        Some(Branches::new(topology, root, routes?, shares))
    }

    fn make_noise(&mut self) {
        let random = &mut self.random;
        self.noise.iter_mut().for_each(|noise| *noise = 1.0 + NOISE * random.unit());
    }

    fn set_prices(&mut self, steepness: f64) {
        self.steepness = steepness * std::f64::consts::LOG2_E / self.least;
        self.topology.link_ids().for_each(|link| self.set_price(link));
    }

    fn set_price(&mut self, link: LinkId) {
        let exponent = (self.load[link] as f64 * self.slowness[link] - self.least) * self.steepness;
        self.weight[link] = exp2(exponent.min(MOST_EXPONENT));
    }

    /// Returns the price of a link for so many more shares.
    fn price(&self, link: LinkId, shares: u64) -> f64 {
        let exponent = shares as f64 * self.slowness[link] * self.steepness;
        let rise = exp2(exponent.min(MOST_EXPONENT)) - 1.0;
        self.weight[link] * rise * self.noise[link] + TIE * self.latency[link]
    }

    /// Raises the seconds that are known to be needed, as the present prices prove.
    fn prove(&mut self) {
        let price = |(weight, slowness): (&f64, &f64)| (weight * slowness).max(f64::MIN_POSITIVE);
        let prices = self.weight.iter().zip(&self.slowness).map(price).collect();
        self.least = self.least.max(1.0 / rate_by_prices(self.topology, self.asked.blocks, prices));
    }

    /// Returns the seconds for which the busiest link is busy.
    fn seconds(&self) -> f64 {
        self.load.iter().zip(&self.slowness).map(|(&load, slowness)| load as f64 * slowness).fold(0.0, f64::max)
    }

    fn improve_all(&mut self) {
        let trees = self.asked.trees as usize;
        let count = self.trees.len();
        for place in (0..trees).flat_map(|number| (number..count).step_by(trees)) {
            let mut tree = std::mem::take(&mut self.trees[place]);
            self.improve(&mut tree);
            self.trees[place] = tree;
        }
    }

    /// Gives each rank of a tree the cheapest route for it and all below it.
    fn improve(&mut self, tree: &mut Branches) {
        for rank in tree.deepest_first() {
            if tree.is_loose(rank) {
                continue;
            }
            let shares = tree.shares(rank);
            self.carry(tree, rank, |load| *load -= shares);
            if let Some(route) = self.cheapest(tree, rank, shares) {
                tree.reroute(self.topology, &route);
            }
            self.carry(tree, rank, |load| *load += shares);
        }
    }

    /// Changes the loads of all links on the way to a rank.
    fn carry(&mut self, tree: &Branches, rank: NodeId, change: impl Fn(&mut u64)) {
        for &link in tree.above(rank).flat_map(|above| tree.route(above)) {
            change(&mut self.load[link]);
            self.set_price(link);
        }
    }

    /// Returns the cheapest route for the blocks of a rank; `None` if the present one is about as cheap.
    fn cheapest(&mut self, tree: &Branches, rank: NodeId, shares: u64) -> Option<Route> {
        self.price_to.clear();
        self.price_to.resize(self.topology.ranks() as usize, None);
        self.price_to[tree.root] = Some(0.0);
        // Blocks do not come from below.
        self.price_to[rank] = Some(f64::INFINITY);
        let last: f64 = tree.route(rank).iter().map(|&link| self.price(link, shares)).sum();
        let present = last + self.price_of_way(tree, tree.parent(rank), shares);
        let (mut least, mut best) = (present * (1.0 - LEAST_SAVED), None);
        self.find_routes(tree, rank, shares, least);
        for source in self.topology.rank_ids().filter(|&source| source != rank && !tree.is_loose(source)) {
            let last = self.search.cost(source);
            if last < least {
                let price = last + self.price_of_way(tree, source, shares);
                if price < least && self.fits(tree, rank, source) {
                    (least, best) = (price, Some(source));
                }
            }
        }
        best.map(|source| self.route_from(source))
    }

    /// Finds the cheapest routes into a rank that cost less than `most` and pass no other rank, but for those that are
    /// loose.
    fn find_routes(&mut self, tree: &Branches, rank: NodeId, shares: u64, most: f64) {
        self.search.start(rank);
        while let Some((node, cost)) = self.search.settle().filter(|&(_, cost)| cost < most) {
            if node == rank || !self.topology.is_rank(node) || tree.is_loose(node) {
                let links = self.topology.incoming(node);
                self.work += links.len();
                for &link in links {
                    let price = cost + self.price(link, shares);
                    self.search.offer(self.topology.link(link).source, price, link);
                }
            }
        }
    }

    /// Returns the route that was found from a rank.
    fn route_from(&self, source: NodeId) -> Route {
        let next = |&link: &LinkId| self.search.last_edge(self.topology.link(link).target);
        std::iter::successors(self.search.last_edge(source), next).collect()
    }

    /// Returns the price of sending blocks from the root to a rank; infinite if that is below the rank in question.
    fn price_of_way(&mut self, tree: &Branches, to: NodeId, shares: u64) -> f64 {
        let mut unknown = Vec::new();
        let mut rank = to;
        let mut price = loop {
            if let Some(price) = self.price_to[rank] {
                break price;
            }
            unknown.push(rank);
            rank = tree.parent(rank);
        };
        for rank in unknown.into_iter().rev() {
            price += tree.route(rank).iter().map(|&link| self.price(link, shares)).sum::<f64>();
            self.price_to[rank] = Some(price);
        }
        price
    }

    /// Returns whether a rank and all below it are reached in time if its blocks come from `source`.
    fn fits(&self, tree: &Branches, rank: NodeId, source: NodeId) -> bool {
        let latency = latency_of(self.topology, &self.route_from(source));
        tree.depth(source) + latency + tree.below(rank) <= self.limit[tree.root]
    }
}
