//! Unequal parts for the trees of each root, where trees of one rate leave a part of the bound.
//!
//! A linear program shares each root's block among all trees of it that were found, so that the rate of the slowest
//! root is as large as the links allow. Trees with small parts are left out as long as that costs next to nothing.
//! Cost: a few linear programs with a column a tree and a row a link and a root.

use std::collections::HashSet;

use super::grown::Grown;
use crate::linear::{Program, Row};
use crate::planners::spanning::Route;
use crate::topology::{NodeId, Topology};

/// The most trees among which a block is shared.
pub(super) const MOST_TREES: usize = 1200;
/// The units of a block.
const BLOCK: u32 = 1 << 16;
/// The parts of a block from which a tree is kept, and the part of the rate that leaving others out may cost.
const LEAST_PARTS: [f64; 5] = [0.1, 0.05, 0.02, 0.01, 0.003];
const WORTH: f64 = 1e-3;
/// The least part of a block that is more than rounding.
const NOTHING: f64 = 1e-4;

/// The routes of a half of a tree.
type Half = Vec<Route>;

/// A half and its root.
type Tree<'a> = (NodeId, &'a Half);

/// Trees, and the part of its root's block that each carries.
struct Parted<'a> {
    trees: Vec<Tree<'a>>,
    parts: Vec<f64>,
}

/// Halves of trees with their roots, and how many units of its root's block each carries.
struct Shared {
    roots: Vec<NodeId>,
    halves: Vec<Half>,
    units: Vec<u32>,
    reached: f64,
}

/// Returns the forest that shares blocks unequally among the trees of others; `None` if it is no better, or there are
/// too many or no others. Cuts allow `rates` out of each root and, where that differs, into it, in bytes a second.
pub(super) fn share(topology: &Topology, found: &[Grown], rates: (f64, Option<f64>)) -> Option<Grown> {
    let best = found.iter().map(|grown| grown.reached).max_by(f64::total_cmp)?;
    // Without all trees of a forest, some root may have none.
    if found.iter().any(|grown| grown.roots.len() > MOST_TREES) {
        return None;
    }
    let down = shared(topology, found, |grown| Some(&grown.down), rates.0)?;
    let (Shared { roots, halves, units, reached }, up) = match rates.1 {
        Some(rate) => paired(down, shared(topology, found, |grown| grown.up.as_ref(), rate)?),
        None => (down, None),
    };
    (reached > best + WORTH).then(|| Grown::unequal(roots, units, BLOCK, (halves, up), reached))
}

/// Shares blocks among one half of all trees.
fn shared<'a>(
    topology: &Topology,
    found: &'a [Grown],
    halves_of: impl Fn(&'a Grown) -> Option<&'a Vec<Half>>,
    rate: f64,
) -> Option<Shared> {
    let mut order: Vec<&Grown> = found.iter().collect();
    order.sort_by(|a, b| b.reached.total_cmp(&a.reached));
    let mut known = HashSet::new();
    let halves =
        order.into_iter().flat_map(|grown| grown.roots.iter().copied().zip(halves_of(grown).into_iter().flatten()));
    let mut trees: Vec<Tree> = halves.filter(|&tree| known.insert(tree)).take(MOST_TREES).collect();
    trees.sort_by_key(|&(root, _)| root);
    let Parted { trees, parts } = without_small(topology, trees, rate)?;
    let units = whole(&trees, &parts);
    let carrying = trees.iter().zip(units).filter(|&(_, units)| units > 0);
    let (trees, units): (Vec<Tree>, Vec<u32>) = carrying.map(|(&tree, units)| (tree, units)).unzip();
    let (roots, halves): (Vec<NodeId>, Vec<Half>) = trees.into_iter().map(|(root, half)| (root, half.clone())).unzip();
    let reached = reached(topology, &halves, &units, rate);
    Some(Shared { roots, halves, units, reached })
}

/// Returns the trees that are left if those with small parts are left out, and the part of each; `None` if the solver
/// has failed.
fn without_small<'a>(topology: &Topology, trees: Vec<Tree<'a>>, rate: f64) -> Option<Parted<'a>> {
    let (parts, all) = solve(topology, &trees, rate);
    let above = |least: f64| {
        let kept = trees.iter().zip(&parts).filter(|&(_, &part)| part >= least).map(|(&tree, _)| tree);
        let kept: Vec<Tree<'a>> = kept.collect();
        (roots_of(&kept) == roots_of(&trees)).then_some(kept)
    };
    let fewer = LEAST_PARTS.iter().find_map(|&least| {
        let kept = above(least)?;
        let (parts, reached) = solve(topology, &kept, rate);
        (reached >= all * (1.0 - WORTH)).then_some(Parted { trees: kept, parts })
    });
    fewer.or_else(|| {
        let kept = above(NOTHING)?;
        let (parts, _) = solve(topology, &kept, rate);
        Some(Parted { trees: kept, parts })
    })
}

/// Returns how many roots trees have that are sorted by them.
fn roots_of(trees: &[Tree]) -> usize {
    trees.chunk_by(|a, b| a.0 == b.0).count()
}

/// Returns the part of its root's block that each tree carries, and the part of `rate` that each root then reaches.
fn solve(topology: &Topology, trees: &[Tree], rate: f64) -> (Vec<f64>, f64) {
    let links = topology.links().len();
    let free = Row { lower: f64::NEG_INFINITY, upper: 1.0, entries: Vec::new() };
    let mut rows = vec![free; links];
    for (column, (_, half)) in trees.iter().enumerate() {
        for &link in half.iter().flatten() {
            rows[link.index()].entries.push((column, rate / topology.link(link).bandwidth.bytes_per_second()));
        }
    }
    rows.retain(|row| most_use(trees, row) > 1.0);
    let by_root: Vec<&[Tree]> = trees.chunk_by(|a, b| a.0 == b.0).collect();
    let mut first = 0;
    for of_root in &by_root {
        let own = (first..first + of_root.len()).map(|column| (column, 1.0));
        rows.push(Row { lower: 0.0, upper: f64::INFINITY, entries: own.chain([(trees.len(), -1.0)]).collect() });
        first += of_root.len();
    }
    let mut cost = vec![0.0; trees.len()];
    cost.push(-1.0);
    let mut most = vec![f64::INFINITY; trees.len()];
    // Cuts allow no more; it has to be said, as links that cannot be full have no row.
    most.push(1.0);
    let mut parts = Program { cost, most, rows }.solve().values;
    let reached = parts.pop().unwrap_or(0.0);
    let mut start = 0;
    for of_root in by_root {
        let own = &mut parts[start..start + of_root.len()];
        let sum: f64 = own.iter().sum();
        own.iter_mut().for_each(|part| *part /= sum);
        start += of_root.len();
    }
    (parts, reached)
}

/// Returns the most that trees use of a link whose row this is, if each root has one block and sends it where it uses
/// the link most. Most links then are never full, and without their rows programs are much smaller.
fn most_use(trees: &[Tree], row: &Row) -> f64 {
    // A tree may enter a link more than once, where it passes a switch.
    let of_trees = row.entries.chunk_by(|a, b| a.0 == b.0).map(|of_tree| {
        let used: f64 = of_tree.iter().map(|(_, part)| part).sum();
        (trees[of_tree[0].0].0, used)
    });
    let of_trees: Vec<(NodeId, f64)> = of_trees.collect();
    let of_roots = of_trees.chunk_by(|a, b| a.0 == b.0);
    of_roots.map(|of_root| of_root.iter().map(|&(_, used)| used).fold(0.0, f64::max)).sum()
}

/// Returns parts of blocks in units, so that those of each root are a whole block. Parts that are no numbers count as
/// nothing.
fn whole(trees: &[Tree], parts: &[f64]) -> Vec<u32> {
    let mut units = Vec::with_capacity(parts.len());
    let (mut sum, mut before) = (0.0, 0);
    for (place, part) in parts.iter().enumerate() {
        sum += part;
        let is_last = trees.get(place + 1).is_none_or(|next| next.0 != trees[place].0);
        let end = if is_last { BLOCK } else { ((sum * f64::from(BLOCK)).round() as u32).clamp(before, BLOCK) };
        units.push(end - before);
        (sum, before) = if is_last { (0.0, 0) } else { (sum, end) };
    }
    units
}

/// Returns the part of `rate` that each root reaches.
fn reached(topology: &Topology, halves: &[Half], units: &[u32], rate: f64) -> f64 {
    let mut load = vec![0.0; topology.links().len()];
    for (half, &units) in halves.iter().zip(units) {
        half.iter().flatten().for_each(|&link| load[link.index()] += f64::from(units) / f64::from(BLOCK));
    }
    let uses = topology.links().iter().zip(load).map(|(link, load)| load * rate / link.bandwidth.bytes_per_second());
    1.0 / uses.fold(0.0, f64::max)
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
