//! The trees of a network: grown once, and kept for all sizes.

use std::sync::Arc;

use super::bundles::Bundles;
use super::packed::{Packed, Wanted, pack};
use super::{exchange, unequal};
use crate::blocks::Blocks;
use crate::bound::{all_gather_rate, broadcast_rate};
use crate::memory::Memory;
use crate::plan::Direction;
use crate::planners::spanning::{Route, breadth_first};
use crate::topology::{LinkId, NodeId, Topology};

/// The limits on latency that are tried, as factors of that of the farthest rank; higher trees may carry more.
const STRETCHES: [Option<f64>; 4] = [Some(1.0), Some(1.25), Some(1.5), None];
/// The numbers of trees for each rank that are tried.
const TREES: [u32; 9] = [1, 2, 3, 4, 6, 7, 8, 12, 16];
/// The most trees in all, if there is more than one for each root.
const MOST_TREES: u32 = 512;
/// The work of one pass with a tree for each root from which a network is large, and the work after which no more
/// forests are grown: a few seconds.
const LARGE: usize = 1 << 24;
const MOST_WORK: usize = 1 << 29;
/// The most passes of a search.
const PASSES: usize = 10;
/// Trees that reach this part of the bound end the search for higher ones: on small networks, of so many ranks times
/// links, and on others.
const ENOUGH_IF_SMALL: f64 = 0.998;
const ENOUGH: f64 = 0.995;
const SMALL: usize = 1 << 14;
/// From this part of the bound on, sharing blocks unequally is tried on networks that are not small.
const NEARLY_ENOUGH: f64 = 0.95;
/// Several trees a rank that carry less than this part of the best are not kept.
const WORTH: f64 = 0.9;

/// Where trees begin, and what their edges carry.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Roots {
    /// Every rank has trees, and each edge of a tree carries the same.
    Every,
    /// One rank has trees.
    Only(NodeId),
    /// Every rank has trees, whose edges carry a block for each rank below; blocks are equal unless they are given.
    Personalized(Option<Arc<Blocks>>),
}

/// Trees out of each rank or all out of one, root by root: the broadcast halves, and the reduce halves where the
/// directions of the network differ.
#[derive(Debug, Clone)]
pub(super) struct Grown {
    /// The most trees that a root has.
    pub trees: u32,
    /// The root of each tree.
    pub roots: Vec<NodeId>,
    /// How many units of its root's block each tree carries, and how many a block has.
    pub units: Vec<u32>,
    pub block: u32,
    /// The routes of each broadcast half, breadth-first, rank by rank.
    pub down: Vec<Vec<Route>>,
    /// The routes of each reduce half in the same order; `None` if they are those of `down` in the opposite direction.
    pub up: Option<Vec<Vec<Route>>>,
    /// The part of the bound that the trees reach, of the slower half.
    pub reached: f64,
}

/// Broadcast halves, and the reduce halves where the directions of the network differ.
pub(super) type Halves = (Vec<Vec<Route>>, Option<Vec<Vec<Route>>>);

impl Grown {
    /// Returns trees that carry the same; every root has so many. Every rank is a root, or `only_root` is.
    pub fn equal(trees: u32, only_root: Option<NodeId>, halves: Halves, reached: f64) -> Self {
        let root = |number| only_root.unwrap_or_else(|| NodeId::new(number / trees as usize));
        let roots: Vec<NodeId> = (0..halves.0.len()).map(root).collect();
        let units = vec![1; roots.len()];
        Self::unequal(roots, units, trees, halves, reached)
    }

    /// Returns trees with these roots that carry unequal parts of blocks.
    pub fn unequal(roots: Vec<NodeId>, units: Vec<u32>, block: u32, (down, up): Halves, reached: f64) -> Self {
        let trees = roots.chunk_by(|a, b| a == b).map(<[NodeId]>::len).max().unwrap_or(1) as u32;
        Self { trees, roots, units, block, down, up, reached }
    }

    /// Keeps only so many links, the first ones, of all routes.
    fn keep_links(&mut self, links: usize) {
        for route in self.down.iter_mut().chain(self.up.iter_mut().flatten()).flatten() {
            *route = route.iter().copied().filter(|link| link.index() < links).collect();
        }
    }
}

static MEMORY: Memory<Roots, Vec<Grown>> = Memory::new();

/// Returns forests for a network: higher ones that carry more, and lower ones or with fewer trees. What links of one
/// node share is a switch for them (`topology/expanded.rs`).
pub(super) fn forests(topology: &Arc<Topology>, roots: Roots) -> Arc<Vec<Grown>> {
    MEMORY.get(topology, roots.clone(), || {
        let mut found = grow(&topology.expanded().network, roots);
        if !topology.shared().is_empty() {
            found.iter_mut().for_each(|grown| grown.keep_links(topology.links().len()));
        }
        found
    })
}

fn grow(topology: &Topology, roots: Roots) -> Vec<Grown> {
    let only_root = if let Roots::Only(root) = roots { Some(root) } else { None };
    match roots {
        _ if topology.ranks() < 2 => {
            vec![Grown::equal(1, only_root, (vec![Vec::new()], None), 1.0)]
        }
        Roots::Personalized(blocks) => exchange::grow(topology, blocks.as_deref()),
        _ => packed(topology, only_root),
    }
}

/// Returns forests whose edges all carry the same: those that take each bundle for one link, and others. Every rank is
/// a root, or `only_root` is.
fn packed(topology: &Topology, only_root: Option<NodeId>) -> Vec<Grown> {
    let own = packed_on(topology, only_root);
    let Some(bundles) = Bundles::of(topology) else { return own };
    // These are mostly faster, so they come first: the time of others need be found only as far as it is no longer.
    let wide = packed_on(&bundles.merged, only_root);
    let is_alike = is_alike(topology);
    wide.iter().map(|grown| bundles.stranded(grown, is_alike)).chain(own).collect()
}

/// Returns forests that take each link for itself.
fn packed_on(topology: &Topology, only_root: Option<NodeId>) -> Vec<Grown> {
    let transposed = (!is_alike(topology)).then(|| topology.transposed());
    let mut search = Search { topology, transposed: transposed.as_ref(), only_root, found: Vec::new(), work: 0 };
    for stretch in STRETCHES {
        search.attempt_all(stretch);
        let is_shared = search.is_worth_sharing(stretch);
        if is_shared {
            search.share(stretch);
        }
        if (is_shared || stretch != STRETCHES[0]) && search.is_enough() {
            break;
        }
    }
    let (best, mut found) = (search.best(), search.found);
    found.retain(|grown| grown.trees == 1 || grown.reached >= best * WORTH);
    found
}

/// A search for forests.
struct Search<'a> {
    topology: &'a Topology,
    /// The transposed network, if the directions of the network differ.
    transposed: Option<&'a Topology>,
    only_root: Option<NodeId>,
    found: Vec<Grown>,
    /// How much has been done, in looks at pairs of links.
    work: usize,
}

impl Search<'_> {
    /// Returns whether a tree for each root takes long.
    fn is_large(&self) -> bool {
        let roots = self.only_root.map_or(self.topology.ranks(), |_| 1);
        work_of_tree(self.topology) * roots as usize > LARGE
    }

    fn is_small(&self) -> bool {
        self.topology.ranks() as usize * self.topology.links().len() <= SMALL
    }

    /// Returns the part of the bound that is good enough.
    fn enough(&self) -> f64 {
        if self.is_small() { ENOUGH_IF_SMALL } else { ENOUGH }
    }

    /// Returns whether blocks are to be shared unequally. The programs of larger networks take long, so trees of one
    /// rate have to come near the bound first.
    fn is_worth_sharing(&self, stretch: Option<f64>) -> bool {
        let is_ready = self.is_small() || stretch.is_none() || self.best() >= NEARLY_ENOUGH;
        is_ready && !self.is_enough() && !self.is_large()
    }

    /// Returns the most that any forest reaches.
    fn best(&self) -> f64 {
        self.found.iter().map(|grown| grown.reached).fold(0.0, f64::max)
    }

    fn is_enough(&self) -> bool {
        self.best() >= self.enough()
    }

    /// Grows forests with several numbers of trees for each root. On large networks only numbers are tried with which
    /// links can be full, if there are any.
    fn attempt_all(&mut self, stretch: Option<f64>) {
        let roots = self.only_root.map_or(self.topology.ranks(), |_| 1);
        let is_few = |trees: &u32| *trees == 1 || trees * roots <= MOST_TREES;
        let numbers: Vec<u32> = TREES.into_iter().filter(is_few).collect();
        let first = numbers.iter().position(|&trees| self.is_large() && self.most(trees) >= self.enough());
        for &trees in &numbers[first.unwrap_or(0)..] {
            self.attempt(trees, stretch);
        }
    }

    /// Grows a forest, unless it cannot be better than others, or too much has been done.
    fn attempt(&mut self, trees: u32, stretch: Option<f64>) {
        let best = self.best().min(self.enough());
        let is_affordable = self.found.is_empty() || self.work < MOST_WORK;
        let most = self.most(trees);
        if is_affordable && (trees == 1 || most > best) {
            self.grow(trees, stretch, most);
        }
    }

    /// Returns the most that trees of this number can reach.
    fn most(&self, trees: u32) -> f64 {
        let most = |network| most_reached(network, trees, self.only_root);
        most(self.topology).min(self.transposed.map_or(1.0, most))
    }

    /// Grows `trees` trees out of each root, and into it where its directions differ: then its transpose follows.
    fn grow(&mut self, trees: u32, stretch: Option<f64>, most: f64) {
        let mut pack = |network: &Topology| {
            let rate = rate(network, self.only_root);
            let wanted = Wanted { trees, root: self.only_root, rate, stretch, passes: PASSES, enough: most };
            let packed = pack(network, wanted)?;
            let grown: usize = packed.trees.iter().map(|of_root| of_root.len() * packed.passes).sum();
            self.work += grown * work_of_tree(network);
            Some(packed)
        };
        let Some(down) = pack(self.topology) else { return };
        let up = match self.transposed.map(&mut pack) {
            Some(None) => return,
            up => up.flatten(),
        };
        let reached = up.as_ref().map_or(down.reached, |up| up.reached.min(down.reached));
        let topology = self.topology;
        let halves = |packed: Packed, direction| -> Vec<Vec<Route>> {
            let of_rank = |(root, trees): (usize, Vec<Vec<Route>>)| {
                trees.into_iter().map(move |routes| half(topology, NodeId::new(root), routes, direction))
            };
            packed.trees.into_iter().enumerate().flat_map(of_rank).collect()
        };
        let (down, up) = (halves(down, Direction::Down), up.map(|up| halves(up, Direction::Up)));
        self.found.push(Grown::equal(trees, self.only_root, (down, up), reached));
    }

    /// Adds the forest that shares blocks unequally among the trees of others and further ones, if it is better.
    fn share(&mut self, stretch: Option<f64>) {
        let rate = |network| rate(network, self.only_root);
        let rates = (rate(self.topology), self.transposed.map_or(0.0, rate));
        self.found.extend(unequal::share((self.topology, self.transposed), &self.found, rates, stretch));
    }
}

/// Returns at how many pairs of links a search for a tree looks.
fn work_of_tree(topology: &Topology) -> usize {
    let count = |is_meant: &dyn Fn(NodeId, NodeId) -> bool| {
        topology.links().iter().filter(|link| is_meant(link.source, link.target)).count()
    };
    let is_rank = |node| topology.is_rank(node);
    let direct = count(&|source, target| is_rank(source) && is_rank(target));
    let entering = count(&|source, target| is_rank(source) && !is_rank(target));
    let leaving = count(&|source, target| !is_rank(source) && is_rank(target));
    direct + entering * leaving
}

/// Returns whether both directions of every cable are alike, so that broadcast halves backwards are good reduce halves.
fn is_alike(topology: &Topology) -> bool {
    let delay = |link| topology.link(link).delay();
    let is_alike = |link| topology.reverse(link).is_some_and(|back| delay(back) == delay(link));
    topology.is_symmetric() && topology.link_ids().all(is_alike)
}

/// Returns the rate out of each root that cuts allow.
fn rate(topology: &Topology, only_root: Option<NodeId>) -> f64 {
    only_root.map_or_else(|| all_gather_rate(topology), |root| broadcast_rate(topology, root))
}

/// Returns the most that `trees` trees out of each root can reach of the rate that cuts allow, because every tree
/// enters each rank but its root once, over a link that carries whole trees.
pub(super) fn most_reached(topology: &Topology, trees: u32, only_root: Option<NodeId>) -> f64 {
    let rate = rate(topology, only_root);
    let wanted = f64::from(trees) * only_root.map_or(f64::from(topology.ranks() - 1), |_| 1.0);
    let of_rank = |rank| {
        let room = |&link: &LinkId| topology.link(link).bandwidth.bytes_per_second() / (rate / f64::from(trees));
        let rooms: Vec<f64> = topology.incoming(rank).iter().map(room).collect();
        let fits =
            |reached: f64| rooms.iter().map(|room| (room / reached * (1.0 + 1e-9)).floor()).sum::<f64>() >= wanted;
        // A link is full at a part of its own; at the largest part at which all trees fit, some link is.
        let parts = rooms.iter().flat_map(|&room| (1..=wanted as u32).map(move |load| room / f64::from(load)));
        parts.chain([1.0]).filter(|&part| part <= 1.0 + 1e-9 && fits(part)).fold(0.0, f64::max)
    };
    topology.rank_ids().filter(|&rank| Some(rank) != only_root).map(of_rank).fold(1.0, f64::min)
}

/// Returns the routes of a half breadth-first. Those of a reduce half were found on the transposed network.
pub(super) fn half(topology: &Topology, root: NodeId, mut routes: Vec<Route>, direction: Direction) -> Vec<Route> {
    if direction == Direction::Up {
        routes.iter_mut().for_each(|route| route.reverse());
    }
    breadth_first(topology, root, routes, direction)
}
