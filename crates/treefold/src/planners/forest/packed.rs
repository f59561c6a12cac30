//! Trees of one rate out of every rank, as many out of each, so that no link carries much more than its part.
//!
//! One tree after the other is grown where links are cheap; a link's price rises exponentially with what it carries,
//! and changes after every tree (multiplicative weights; Garg and Koenemann 2007). Then trees are taken out one by one
//! and grown again (rip-up and reroute, as in the routing of circuits), at prices that rise ever more steeply. Cost: a
//! low tree (`low.rs`) for each root, tree and pass.

use super::low::low_tree;
use crate::bound::exp2;
use crate::planners::spanning::Route;
use crate::planners::ways::Ways;
use crate::random::Random;
use crate::topology::{LinkId, NodeId, Topology};

/// The factor for the price of a link out of a root that no tree of the root takes.
const UNUSED: f64 = 0.5;
/// How steeply prices rise in the first pass and in the last one: by e to this power from an unused link to a full one.
const STEEPNESS: (f64, f64) = (30.0, 200.0);
/// The most that a link costs which is too narrow for one tree, and the binary logarithm of that.
const DEAREST: f64 = 64.0;
const MOST_STEEP: f64 = 6.0;
/// A packing this close to the bound is good enough.
const NEAR: f64 = 1e-9;

/// What is asked of a packing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// How many trees each root has.
    pub trees: u32,
    /// The only root, if it is not each rank.
    pub root: Option<NodeId>,
    /// The rate out of each root that cuts allow, in bytes a second.
    pub rate: f64,
    /// The most that the latency of a tree may exceed that of the farthest rank, as a factor; `None` if there is no
    /// limit, and routes through switches need not be the quickest.
    pub stretch: Option<f64>,
    /// The most passes.
    pub passes: usize,
    /// The part of the rate at which the search ends.
    pub enough: f64,
}

/// Trees of one rate.
#[derive(Debug, Clone)]
pub(super) struct Packed {
    /// The trees out of each rank, each as its routes in any order.
    pub trees: Vec<Vec<Vec<Route>>>,
    /// The rate out of each rank that the trees reach together, over the wanted one.
    pub reached: f64,
    /// How many passes the search has taken.
    pub passes: usize,
}

/// Packs trees on a network of at least two ranks; `None` if some rank does not reach all others.
pub(super) fn pack(topology: &Topology, wanted: Wanted) -> Option<Packed> {
    let mut packing = Packing::new(topology, wanted);
    let mut best = Packed { trees: Vec::new(), reached: 0.0, passes: 0 };
    packing.search(&mut best)?;
    if has_single_ports(topology) && !best.is_enough(wanted) {
        packing.is_crowded = true;
        packing.search(&mut best)?;
    }
    Some(best)
}

/// Returns whether some rank has one link only, and that to a switch.
fn has_single_ports(topology: &Topology) -> bool {
    let has_one = |rank| matches!(topology.outgoing(rank), &[link] if !topology.is_rank(topology.link(link).target));
    topology.rank_ids().any(has_one)
}

impl Packed {
    fn is_enough(&self, wanted: Wanted) -> bool {
        self.reached >= wanted.enough.min(1.0) * (1.0 - NEAR)
    }
}

fn steepness(pass: usize, passes: usize) -> f64 {
    STEEPNESS.0 + (STEEPNESS.1 - STEEPNESS.0) * pass as f64 / passes.max(2) as f64
}

struct Packing<'a> {
    topology: &'a Topology,
    wanted: Wanted,
    ways: Ways<'a>,
    /// How many trees each link has room for.
    room: Vec<f64>,
    /// How many trees each link carries.
    load: Vec<u32>,
    trees: Vec<Vec<Vec<Route>>>,
    /// The latency to the farthest rank from each rank.
    farthest: Vec<u64>,
    steepness: f64,
    prices: Vec<f64>,
    noise: Vec<f64>,
    /// The scale of prices: what the fullest link carries, and the room of the narrowest one.
    most: f64,
    least_room: f64,
    /// Whether a search has left links too full.
    is_crowded: bool,
}

impl<'a> Packing<'a> {
    fn new(topology: &'a Topology, wanted: Wanted) -> Self {
        let one = wanted.rate / f64::from(wanted.trees);
        let room = topology.links().iter().map(|link| link.bandwidth.bytes_per_second() / one).collect();
        let links = topology.links().len();
        let mut random = Random::new(1);
        let of_rank = |rank| {
            let is_root = wanted.root.is_none_or(|root| root == rank);
            if is_root { vec![Vec::new(); wanted.trees as usize] } else { Vec::new() }
        };
        Self {
            topology,
            wanted,
            ways: Ways::new(topology, wanted.stretch.is_some()),
            room,
            load: vec![0; links],
            trees: topology.rank_ids().map(of_rank).collect(),
            farthest: super::farthest(topology),
            steepness: STEEPNESS.0,
            prices: vec![0.0; links],
            noise: (0..links).map(|_| 1.0 + 1e-6 * random.unit()).collect(),
            most: 1.0,
            least_room: 1.0,
            is_crowded: false,
        }
    }

    /// Returns the rate that the trees reach together, over the wanted one.
    fn reached(&self) -> f64 {
        1.0 / self.use_of_links().fold(0.0, f64::max)
    }

    fn use_of_links(&self) -> impl Iterator<Item = f64> {
        self.load.iter().zip(&self.room).map(|(&load, room)| f64::from(load) / room)
    }

    /// Takes a tree out, if it is there, and grows another one in its place.
    fn replace(&mut self, root: NodeId, number: usize) -> Option<()> {
        for link in std::mem::take(&mut self.trees[root][number]).iter().flatten() {
            self.load[*link] -= 1;
        }
        self.set_prices();
        self.favour_unused_links(root);
        self.ways.price(&self.prices);
        let limit = self.wanted.stretch.map_or(u64::MAX / 4, |stretch| (self.farthest[root] as f64 * stretch) as u64);
        let into = low_tree(&self.ways, root, self.topology.ranks(), limit)?;
        let routes: Vec<Route> = into.iter().flatten().map(|way| self.ways.route(way)).collect();
        self.trees[root][number] = routes.into_iter().map(|route| self.take(route)).collect();
        Some(())
    }

    /// Replaces all trees, pass by pass, until they are enough or get no better; `None` if some rank does not reach all
    /// others.
    fn search(&mut self, best: &mut Packed) -> Option<()> {
        let is_root = |rank: &NodeId| self.wanted.root.is_none_or(|root| root == *rank);
        let roots: Vec<NodeId> = self.topology.rank_ids().filter(is_root).collect();
        let mut idle = 0;
        for pass in 0..self.wanted.passes {
            self.steepness = steepness(pass, self.wanted.passes);
            for number in 0..self.wanted.trees {
                for &root in &roots {
                    self.replace(root, number as usize)?;
                }
            }
            self.relieve();
            idle += 1;
            if self.reached() > best.reached * (1.0 + NEAR) {
                *best = Packed { trees: self.trees.clone(), reached: self.reached(), passes: best.passes };
                idle = 0;
            }
            best.passes += 1;
            if best.is_enough(self.wanted) || idle >= 2 {
                break;
            }
        }
        Some(())
    }

    /// Puts a route in. If it passes switches, it may be found once more: routes of one tree may share links, and
    /// prices know now of those before it. That is done if its rank has several ports; and if a link of it is full, but
    /// not before a search without that has left links too full. Other routes stay, so that messages of one sender meet
    /// few others.
    fn take(&mut self, route: Route) -> Route {
        let has_ports = || self.topology.outgoing(self.topology.link(route[0]).source).len() > 1;
        let is_full = |&link: &LinkId| self.next(link) > 1.0 + NEAR;
        if route.len() > 1 && (has_ports() || self.is_crowded && route.iter().any(is_full)) {
            self.take_again(&route)
        } else {
            self.counted(route)
        }
    }

    /// Puts in the cheapest route between the ends of one that passes switches.
    fn take_again(&mut self, route: &[LinkId]) -> Route {
        let ends = (self.topology.link(route[0]).source, self.topology.link(route[route.len() - 1]).target);
        let route = self.ways.rerouted(ends, &self.prices);
        self.counted(route)
    }

    fn counted(&mut self, route: Route) -> Route {
        self.count(&route, |load| load + 1);
        route
    }

    /// Changes what the links of a route carry, and their prices.
    fn count(&mut self, route: &[LinkId], changed: impl Fn(u32) -> u32) {
        for &link in route {
            self.load[link] = changed(self.load[link]);
            self.prices[link] = self.price(link);
        }
    }

    /// Puts routes through switches that pass one of the fullest links elsewhere, one by one.
    fn relieve(&mut self) {
        self.set_prices();
        let most = self.use_of_links().fold(0.0, f64::max) * (1.0 - NEAR);
        for root in self.topology.rank_ids() {
            for number in 0..self.trees[root].len() {
                for place in 0..self.trees[root][number].len() {
                    let route = &self.trees[root][number][place];
                    let is_full = |&link: &LinkId| f64::from(self.load[link]) / self.room[link] >= most.max(1.0);
                    if route.len() > 1 && route.iter().any(is_full) {
                        let route = route.clone();
                        self.count(&route, |load| load - 1);
                        self.trees[root][number][place] = self.take_again(&route);
                    }
                }
            }
        }
    }

    /// Makes those links out of a root cheaper for its trees that none of them takes: no link should be idle until what
    /// others send has come to it. Links to switches are busy anyway.
    fn favour_unused_links(&mut self, root: NodeId) {
        if !self.topology.is_direct() {
            return;
        }
        for &link in self.topology.outgoing(root) {
            if !self.trees[root].iter().flatten().any(|route| route.contains(&link)) {
                self.prices[link] *= UNUSED;
            }
        }
    }

    /// Sets the price of each link; the dearest one has about 1, except that links which are too narrow for one tree
    /// are dearer. They do not set the scale, on which all others would be free.
    fn set_prices(&mut self) {
        let is_any_wide = self.room.iter().any(|&room| room >= 1.0);
        let links = LinkId::first(self.load.len());
        let scale = links.filter(|&link| self.room[link] >= 1.0 || !is_any_wide);
        self.most = scale.clone().map(|link| self.next(link)).fold(0.0, f64::max);
        self.least_room = scale.map(|link| self.room[link]).fold(f64::INFINITY, f64::min);
        LinkId::first(self.load.len()).for_each(|link| self.prices[link] = self.price(link));
    }

    /// Returns the part of a link that is full with one tree more, so that narrow links are dear from the beginning.
    fn next(&self, link: LinkId) -> f64 {
        f64::from(self.load[link] + 1) / self.room[link]
    }

    /// Returns the price of a link on the present scale.
    fn price(&self, link: LinkId) -> f64 {
        let steep = (self.next(link) - self.most) * self.steepness * std::f64::consts::LOG2_E;
        let price = exp2(steep.min(MOST_STEEP)) * self.least_room / self.room[link] + 1e-9;
        price.min(DEAREST) * self.noise[link]
    }
}
