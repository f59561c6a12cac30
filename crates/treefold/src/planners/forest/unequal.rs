//! Unequal parts for the trees of each root, where trees of one rate leave a part of the bound.
//!
//! A linear program shares each root's block among all trees of it that were found, so that the rate of the slowest
//! root is as large as the links allow. Trees with small parts are left out as long as that costs next to nothing.
//! Cost: a few linear programs with a column a tree and a row a link and a root.

use std::collections::HashSet;

use super::columns::complete;
use super::grown::Grown;
use super::parts::{Asked, BLOCK, Entries, Half, SLACK, Tree, divide, entries, large, most_use, units};
use crate::linear::{Program, Row};
use crate::plan::Direction;
use crate::planners::spanning::{child, parent};
use crate::planners::ways::latency_over;
use crate::topology::{LinkId, NodeId, Topology};

/// The most trees among which a block is shared.
pub(super) const MOST_TREES: usize = 1200;
/// The most edges of the trees of other forests than the best among them.
const MOST_EDGES: usize = 1 << 16;
/// The parts of a block from which trees are kept: a stream that carries little has few chunks, and is long on its way.
const LEAST_PARTS: [f64; 4] = [0.0, 0.01, 0.03, 0.1];
/// The part of the bound that unequal parts must save.
const WORTH: f64 = 1e-3;
/// What a lower tree is worth, as a part of what it carries.
const LOW: f64 = 1e-3;

/// The half of trees that is shared, and the rate out of each root, or into it, that cuts allow in bytes a second.
pub(super) struct Side<'a> {
    pub topology: &'a Topology,
    /// The transposed network, where reduce halves are trees of their own.
    pub transposed: Option<&'a Topology>,
    pub direction: Direction,
    pub rate: f64,
    /// The most that the latency of a new tree may exceed that of the farthest rank, as a factor, if there is a limit.
    pub stretch: Option<f64>,
}

impl Side<'_> {
    /// Returns the network on which trees run out of their roots.
    pub fn network(&self) -> &Topology {
        if self.direction == Direction::Up { self.transposed.unwrap_or(self.topology) } else { self.topology }
    }

    /// Returns the part of a link that a tree with the whole block of its root fills.
    pub fn part(&self, link: LinkId) -> f64 {
        self.rate / self.topology.link(link).bandwidth.bytes_per_second()
    }
}

/// What a linear program says.
pub(super) struct Solved {
    /// The part of the wanted rate that each root reaches.
    pub reached: f64,
    /// What a tree pays for each link.
    pub prices: Vec<f64>,
    /// What each tree carries, in proportion to the other trees of its root.
    parts: Vec<f64>,
}

/// Halves of trees with their roots, and how many units of its root's block each carries.
struct Shared {
    roots: Vec<NodeId>,
    halves: Vec<Half>,
    units: Vec<u32>,
    reached: f64,
}

/// Returns forests that share blocks unequally among the trees of others and further ones, one with low trees and some
/// with few; none that is no better, and none if there are too many or no others. Cuts allow `rates` out of each root
/// and, on the transposed network if there is one, into it, in bytes a second.
pub(super) fn share(
    (topology, transposed): (&Topology, Option<&Topology>),
    found: &[Grown],
    rates: (f64, f64),
    stretch: Option<f64>,
) -> Vec<Grown> {
    let best = found.iter().map(|grown| grown.reached).fold(0.0, f64::max);
    // Without all trees of a forest, some root may have none.
    if found.is_empty() || found.iter().any(|grown| grown.roots.len() > MOST_TREES) {
        return Vec::new();
    }
    let side = |direction, rate| Side { topology, transposed, direction, rate, stretch };
    let down = Pool::new(side(Direction::Down, rates.0), found, |grown| Some(&grown.down));
    let up = transposed.map(|_| Pool::new(side(Direction::Up, rates.1), found, |grown| grown.up.as_ref()));
    let shares = |is_few, leasts: &[f64]| -> Vec<Grown> {
        let Some(of_down) = down.divided(is_few) else { return Vec::new() };
        let of_up = up.as_ref().map(|up| up.divided(is_few));
        let forest = |&least: &f64| {
            let half = down.shared(&of_down, least);
            let (Shared { roots, halves, units, reached }, up) = match (&up, &of_up) {
                (Some(up), Some(of_up)) => paired(half, up.shared(of_up.as_ref()?, least)),
                _ => (half, None),
            };
            (reached > best + WORTH).then(|| Grown::unequal(roots, units, BLOCK, (halves, up), reached))
        };
        leasts.iter().filter_map(forest).collect()
    };
    [shares(false, &LEAST_PARTS[..1]), shares(true, &LEAST_PARTS)].concat()
}

/// Trees among which blocks are shared, sorted by roots, and the part of the wanted rate that they reach.
struct Pool<'a> {
    side: Side<'a>,
    trees: Vec<Tree>,
    reached: f64,
}

impl<'a> Pool<'a> {
    /// Takes one half of all trees, those of the best forests first, and adds what is missing.
    fn new<'b>(side: Side<'a>, found: &'b [Grown], halves_of: impl Fn(&'b Grown) -> Option<&'b Vec<Half>>) -> Self {
        let mut order: Vec<&Grown> = found.iter().collect();
        order.sort_by(|a, b| b.reached.total_cmp(&a.reached));
        let most = MOST_TREES.min(order[0].roots.len().max(MOST_EDGES / side.topology.ranks() as usize));
        let mut known = HashSet::new();
        let halves =
            order.into_iter().flat_map(|grown| grown.roots.iter().copied().zip(halves_of(grown).into_iter().flatten()));
        let new = halves.filter(|&tree| known.insert(tree)).take(most);
        let mut trees: Vec<Tree> = new.map(|(root, half)| (root, half.clone())).collect();
        trees.sort_by_key(|&(root, _)| root);
        let reached = complete(&side, &mut trees);
        Self { side, trees, reached }
    }

    /// Divides blocks among low trees, and if `is_few`, among few of them, which reach almost as much as the best;
    /// `None` if some root would not have its whole block.
    fn divided(&self, is_few: bool) -> Option<Vec<f64>> {
        let of_links = entries_of_links(&self.side, &self.trees);
        let asked = Asked { wanted: self.reached * (1.0 - SLACK), is_few };
        divide(&self.trees, &of_links, &gains(&self.side, &self.trees), asked)
    }

    /// Returns the trees that carry at least this part of a block. They share the parts of those that are left out.
    fn shared(&self, parts: &[f64], least: f64) -> Shared {
        let places = large(&self.trees, parts, least);
        let trees: Vec<Tree> = places.iter().map(|&place| self.trees[place].clone()).collect();
        let own = || places.iter().map(|&place| parts[place]).collect();
        let parts = if least > 0.0 { solve(&self.side, &trees).parts } else { own() };
        let carrying = units(&trees, parts).into_iter();
        let (trees, units): (Vec<Tree>, Vec<u32>) =
            carrying.map(|(place, units)| (trees[place].clone(), units)).unzip();
        let (roots, halves): (Vec<NodeId>, Vec<Half>) = trees.into_iter().unzip();
        let reached = reached(&self.side, &halves, &units);
        Shared { roots, halves, units, reached }
    }
}

/// Returns what a part of each tree is worth: low trees are worth a little more than high ones.
fn gains(side: &Side, trees: &[Tree]) -> Vec<f64> {
    let heights: Vec<(f64, f64)> = trees.iter().map(|(_, half)| height(side, half)).collect();
    let most = heights.iter().fold((1e-12, 1.0), |most, height| (height.0.max(most.0), height.1.max(most.1)));
    heights.into_iter().map(|(latency, hops)| 1.0 - LOW * (latency / most.0 + hops / most.1)).collect()
}

/// Returns the picoseconds and the hops from a root to the farthest rank, or the other way.
fn height(side: &Side, half: &Half) -> (f64, f64) {
    let mut depth = vec![(0.0f64, 0.0f64); side.topology.nodes().len()];
    for route in half {
        let latency: f64 = route.iter().map(|&link| latency_over(side.network(), link) as f64).sum();
        let before = depth[parent(side.topology, route, side.direction)];
        depth[child(side.topology, route, side.direction)] = (before.0 + latency, before.1 + 1.0);
    }
    depth.into_iter().fold((0.0, 0.0), |most, depth| (most.0.max(depth.0), most.1.max(depth.1)))
}

/// Returns the links that trees may fill.
fn entries_of_links(side: &Side, trees: &[Tree]) -> Vec<Entries> {
    let parts = |(_, half): &Tree| half.iter().flatten().map(|&link| (link, side.part(link))).collect();
    let mut of_links = entries(side.topology.links().len(), trees.iter().map(parts));
    of_links.retain(|(_, entries)| most_use(trees, entries) > 1.0);
    of_links
}

/// Shares the block of each root among its trees, so that all roots reach as much as they can.
pub(super) fn solve(side: &Side, trees: &[Tree]) -> Solved {
    let of_links = entries_of_links(side, trees);
    let full: Vec<LinkId> = of_links.iter().map(|&(link, _)| link).collect();
    let row = |(_, entries)| Row { lower: f64::NEG_INFINITY, upper: 1.0, entries };
    let rows = of_links.into_iter().map(row).chain(rows_of_roots(trees)).collect();
    let mut cost = vec![0.0; trees.len()];
    cost.push(-1.0);
    let mut most = vec![f64::INFINITY; trees.len()];
    // Cuts allow no more; it has to be said, as links that cannot be full have no row.
    most.push(1.0);
    let solution = Program { cost, most, rows }.solve();
    let mut prices = vec![0.0; side.topology.links().len()];
    full.iter().zip(&solution.prices).for_each(|(&link, price)| prices[link] = price.abs() * side.part(link));
    let mut parts = solution.values;
    let reached = parts.pop().unwrap_or(0.0);
    Solved { reached, prices, parts }
}

/// Returns a row for each root: its trees carry what the last column says.
fn rows_of_roots(trees: &[Tree]) -> Vec<Row> {
    let mut first = 0;
    let row = |of_root: &[Tree]| {
        let own = (first..first + of_root.len()).map(|column| (column, 1.0));
        first += of_root.len();
        Row { lower: 0.0, upper: f64::INFINITY, entries: own.chain([(trees.len(), -1.0)]).collect() }
    };
    trees.chunk_by(|a, b| a.0 == b.0).map(row).collect()
}

/// Returns the part of the wanted rate that each root reaches.
fn reached(side: &Side, halves: &[Half], units: &[u32]) -> f64 {
    let mut load = vec![0.0; side.topology.links().len()];
    for (half, &units) in halves.iter().zip(units) {
        half.iter().flatten().for_each(|&link| load[link] += f64::from(units) / f64::from(BLOCK));
    }
    1.0 / LinkId::first(load.len()).map(|link| load[link] * side.part(link)).fold(0.0, f64::max)
}

/// Pairs reduce halves with broadcast halves: where the parts of one end, those of the other are cut.
fn paired(down: Shared, up: Shared) -> (Shared, Option<Vec<Half>>) {
    let reached = down.reached.min(up.reached);
    let mut both = Shared { roots: Vec::new(), halves: Vec::new(), units: Vec::new(), reached };
    let mut ups = Vec::new();
    let (mut a, mut b) = (0, 0);
    let (mut left_a, mut left_b) = (down.units[0], up.units[0]);
    loop {
        let units = left_a.min(left_b);
        both.roots.push(down.roots[a]);
        both.halves.push(down.halves[a].clone());
        both.units.push(units);
        ups.push(up.halves[b].clone());
        (left_a, left_b) = (left_a - units, left_b - units);
        if left_a == 0 {
            a += 1;
            left_a = if let Some(&units) = down.units.get(a) { units } else { break };
        }
        if left_b == 0 {
            b += 1;
            left_b = if let Some(&units) = up.units.get(b) { units } else { break };
        }
    }
    (both, Some(ups))
}
