//! The trees of a network: grown once, and kept for all sizes.

use std::sync::Arc;

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
/// The numbers that are tried besides, where links are so unequal that fewer trees do not fill them.
const MORE_TREES: [u32; 6] = [20, 24, 32, 40, 48, 64];
/// The most trees in all, if there is more than one for each root.
const MOST_TREES: u32 = 512;
/// The most passes of a search.
const PASSES: usize = 10;
/// Trees that reach this part of the bound end the search for higher ones.
const ENOUGH: f64 = 0.995;
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
}

static MEMORY: Memory<Roots, Vec<Grown>> = Memory::new();

/// Returns forests for a network: higher ones that carry more, and lower ones or with fewer trees.
pub(super) fn forests(topology: &Arc<Topology>, roots: Roots) -> Arc<Vec<Grown>> {
    MEMORY.get(topology, roots.clone(), || grow(topology, roots))
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

/// Returns forests whose edges all carry the same. Every rank is a root, or `only_root` is.
fn packed(topology: &Topology, only_root: Option<NodeId>) -> Vec<Grown> {
    let roots = only_root.map_or(topology.ranks(), |_| 1);
    let mut found: Vec<Grown> = Vec::new();
    let transposed = (!is_alike(topology)).then(|| topology.transposed());
    let attempt = |found: &mut Vec<Grown>, trees: u32, stretch| {
        let best = found.iter().map(|grown| grown.reached).fold(0.0, f64::max).min(ENOUGH);
        let is_few = trees == 1 || trees * roots <= MOST_TREES;
        let most = |network| most_reached(network, trees, only_root);
        if is_few && (trees == 1 || most(topology).min(transposed.as_ref().map_or(1.0, most)) > best) {
            found.extend(forest((topology, transposed.as_ref()), trees, only_root, stretch));
        }
    };
    let is_enough = |found: &[Grown]| found.iter().any(|grown| grown.reached >= ENOUGH);
    for stretch in STRETCHES {
        TREES.into_iter().for_each(|trees| attempt(&mut found, trees, stretch));
        if stretch.is_none_or(|stretch| stretch >= 1.5) {
            for trees in MORE_TREES {
                if !is_enough(&found) {
                    attempt(&mut found, trees, stretch);
                }
            }
        }
        // Where there are more trees than a program takes, it is tried before higher ones are grown.
        let are_many = found.iter().map(|grown| grown.roots.len()).sum::<usize>() > unequal::MOST_TREES;
        let is_shared = (are_many || stretch.is_none()) && !is_enough(&found);
        if is_shared {
            let rates = (rate(topology, only_root), transposed.as_ref().map(|network| rate(network, only_root)));
            found.extend(unequal::share(topology, &found, rates));
        }
        if (is_shared || stretch != STRETCHES[0]) && is_enough(&found) {
            break;
        }
    }
    let best = found.iter().map(|grown| grown.reached).fold(0.0, f64::max);
    found.retain(|grown| grown.trees == 1 || grown.reached >= best * WORTH);
    found
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

/// Returns `trees` trees out of each root, and into it where its directions differ: then its transpose follows.
fn forest(
    (topology, transposed): (&Topology, Option<&Topology>),
    trees: u32,
    only_root: Option<NodeId>,
    stretch: Option<f64>,
) -> Option<Grown> {
    let pack = |network: &Topology| {
        let rate = rate(network, only_root);
        pack(network, Wanted { trees, root: only_root, rate, stretch, passes: PASSES })
    };
    let down = pack(topology)?;
    let up = match transposed {
        Some(transposed) => Some(pack(transposed)?),
        None => None,
    };
    let reached = up.as_ref().map_or(down.reached, |up| up.reached.min(down.reached));
    let halves = |packed: Packed, direction| -> Vec<Vec<Route>> {
        let of_rank = |(root, trees): (usize, Vec<Vec<Route>>)| {
            trees.into_iter().map(move |routes| half(topology, NodeId::new(root), routes, direction))
        };
        packed.trees.into_iter().enumerate().flat_map(of_rank).collect()
    };
    let (down, up) = (halves(down, Direction::Down), up.map(|up| halves(up, Direction::Up)));
    Some(Grown::equal(trees, only_root, (down, up), reached))
}

/// Returns the routes of a half breadth-first. Those of a reduce half were found on the transposed network.
fn half(topology: &Topology, root: NodeId, mut routes: Vec<Route>, direction: Direction) -> Vec<Route> {
    if direction == Direction::Up {
        routes.iter_mut().for_each(|route| route.reverse());
    }
    breadth_first(topology, root, routes, direction)
}
