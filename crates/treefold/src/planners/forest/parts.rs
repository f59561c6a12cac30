//! Divides the block of each root among its trees, so that they reach a wanted rate, and so that trees are few.
//!
//! A linear program has a column for each tree and a row for each link and each root. The simplex method finds corners,
//! at which no more trees carry anything than there are rows. Cost: a few hundred pivots of a table of these sizes.

use crate::linear::Dictionary;
use crate::planners::spanning::Route;
use crate::topology::{LinkId, NodeId};

/// The units of a block.
pub(super) const BLOCK: u32 = 1 << 16;
/// The part of the rate that few and low trees may cost.
pub(super) const SLACK: f64 = 5e-4;
/// The most entries of a table in which trees are left out.
const LARGEST_TABLE: usize = 1 << 18;
/// The least part of a block that is more than rounding.
const NOTHING: f64 = 1e-4;

/// The routes of a half of a tree.
pub(super) type Half = Vec<Route>;

/// A half and its root.
pub(super) type Tree = (NodeId, Half);

/// A link, and the trees that enter it, each with the part of the link that it fills with the whole block of its root.
pub(super) type Entries = (LinkId, Vec<(usize, f64)>);

/// Returns the entries of links, of the parts of them that each tree fills; a tree may enter a link more than once.
pub(super) fn entries(links: usize, trees: impl Iterator<Item = Vec<(LinkId, f64)>>) -> Vec<Entries> {
    let mut of_links: Vec<Entries> = LinkId::first(links).map(|link| (link, Vec::new())).collect();
    for (column, parts) in trees.enumerate() {
        parts.into_iter().for_each(|(link, part)| of_links[link.index()].1.push((column, part)));
    }
    of_links
}

/// How blocks are divided.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// The part of the rate that trees have to reach for which links have their entries.
    pub wanted: f64,
    /// Whether trees that carry little are left out.
    pub is_few: bool,
}

/// Divides blocks among trees that are sorted by roots; returns the part of each. Links that may be full have entries;
/// trees with larger gains are preferred. `None` if some root would not have its whole block.
pub(super) fn divide(trees: &[Tree], of_links: &[Entries], gains: &[f64], asked: Asked) -> Option<Vec<f64>> {
    let mut dictionary = packing(trees, of_links, gains, asked.wanted);
    let parts = solved(&mut dictionary, trees)?;
    let is_to_do = asked.is_few && dictionary.size() <= LARGEST_TABLE;
    Some(if is_to_do { without_small(dictionary, parts, trees) } else { parts })
}

/// Returns the places of the trees that carry at least this part of a block, or the most of their root.
pub(super) fn large(trees: &[Tree], parts: &[f64], least: f64) -> Vec<usize> {
    let mut first = 0;
    let of_root = |of_root: &[Tree]| {
        let places = first..first + of_root.len();
        first = places.end;
        let most = parts[places.clone()].iter().copied().fold(0.0, f64::max);
        places.filter(move |&place| parts[place] > 0.0 && parts[place] >= least.min(most))
    };
    trees.chunk_by(|a, b| a.0 == b.0).flat_map(of_root).collect()
}

/// Returns the places and the units of the trees that carry anything.
pub(super) fn units(trees: &[Tree], mut parts: Vec<f64>) -> Vec<(usize, u32)> {
    fill(trees, &mut parts);
    whole(trees, &parts).into_iter().enumerate().filter(|&(_, units)| units > 0).collect()
}

/// Leaves out the trees that carry least, again and again, as long as the others can take over what they carry.
fn without_small(mut dictionary: Dictionary, mut parts: Vec<f64>, trees: &[Tree]) -> Vec<f64> {
    let mut count = in_rising_order(&parts).len() / 4;
    while count > 0 {
        let mut fewer = dictionary.clone();
        in_rising_order(&parts)[..count].iter().for_each(|&tree| fewer.close(tree));
        if let Some(found) = solved(&mut fewer, trees) {
            (dictionary, parts) = (fewer, found);
            count = count.min(in_rising_order(&parts).len() / 4);
        } else {
            count /= 2;
        }
    }
    parts
}

/// Returns the program that shares the blocks of roots among trees at this part of the wanted rate.
fn packing(trees: &[Tree], of_links: &[Entries], gains: &[f64], wanted: f64) -> Dictionary {
    let mut columns: Vec<Vec<(usize, f64)>> = vec![Vec::new(); trees.len()];
    for (row, (_, entries)) in of_links.iter().enumerate() {
        entries.iter().for_each(|&(column, part)| columns[column].push((row, part * wanted)));
    }
    let mut sides = vec![1.0; of_links.len()];
    let mut rest = &mut columns[..];
    for of_root in trees.chunk_by(|a, b| a.0 == b.0) {
        let own;
        (own, rest) = rest.split_at_mut(of_root.len());
        own.iter_mut().for_each(|column| column.push((sides.len(), 1.0)));
        sides.push(1.0);
    }
    Dictionary::new(&sides, &columns, gains)
}

/// Returns the part of its root's block that each tree carries; `None` if those of some root are not a whole one.
fn solved(dictionary: &mut Dictionary, trees: &[Tree]) -> Option<Vec<f64>> {
    dictionary.solve();
    let parts: Vec<f64> = dictionary.values().into_iter().map(|part| if part > NOTHING { part } else { 0.0 }).collect();
    let mut rest = &parts[..];
    let is_whole = |of_root: &[Tree]| {
        let own;
        (own, rest) = rest.split_at(of_root.len());
        own.iter().sum::<f64>() >= 1.0 - SLACK
    };
    trees.chunk_by(|a, b| a.0 == b.0).all(is_whole).then_some(parts)
}

/// Lists the trees that carry something; those that carry least are first.
fn in_rising_order(parts: &[f64]) -> Vec<usize> {
    let mut carrying: Vec<usize> = (0..parts.len()).filter(|&tree| parts[tree] > 0.0).collect();
    carrying.sort_by(|&a, &b| parts[a].total_cmp(&parts[b]));
    carrying
}

/// Scales the parts of each root's trees so that they are a whole block.
fn fill(trees: &[Tree], parts: &mut [f64]) {
    let mut rest = parts;
    for of_root in trees.chunk_by(|a, b| a.0 == b.0) {
        let own;
        (own, rest) = rest.split_at_mut(of_root.len());
        let sum: f64 = own.iter().sum();
        own.iter_mut().for_each(|part| *part /= sum);
    }
}

/// Returns the most that trees use of a link, if each root has one block and sends it where it uses
/// the link most. Most links then are never full, and without their rows programs are much smaller.
pub(super) fn most_use(trees: &[Tree], entries: &[(usize, f64)]) -> f64 {
    // A tree may enter a link more than once, where it passes a switch.
    let of_trees = entries.chunk_by(|a, b| a.0 == b.0).map(|of_tree| {
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
