//! The lines of a vector: which tree reduces each, in which order ranks send them, what their sums must be.

use super::super::options::Homes;
use super::parcel::{Key, Operand};
use super::regions::{Method, Regions};
use super::sizes::Sizes;
use super::{mixed, operand};
use crate::plan::{Plan, Tree};
use crate::topology::NodeId;
use crate::units::Bytes;

/// Bytes of an element.
const ELEMENT: u128 = 4;
/// What makes the hash of homes another one than that of ways.
const SALT: u64 = 0x9e37_79b9_7f4a_7c15;

/// All lines.
#[derive(Debug, Default)]
pub struct Lines {
    /// Number of each tree's first line.
    first: Vec<u64>,
    /// By line: its place in the order.
    place: Vec<u32>,
    /// By line: the integers' sum.
    total: Vec<u64>,
    /// What is sent in turn; pushes have one order for all ranks, the others one a rank.
    orders: Vec<Vec<Key>>,
    shared: bool,
}

impl Lines {
    /// Those of `plan` for a vector of `size`.
    pub fn new(plan: &Plan, regions: &Regions, size: Bytes, sizes: &Sizes) -> Self {
        if regions.regions.is_empty() {
            return Self::default();
        }
        let mut counts: Vec<u32> = plan.trees.iter().map(|tree| lines_of(plan, tree, size, sizes.line)).collect();
        let mut lines = Self { shared: regions.method == Method::Push, ..Self::default() };
        if lines.shared && sizes.homes == Homes::Hashed {
            let order = hashed(&mut counts);
            lines.orders.push(order);
        } else {
            let owners = if lines.shared { vec![None] } else { (0..plan.ranks()).map(Some).collect::<Vec<_>>() };
            let own = |owner: Option<NodeId>| {
                let all = 0..counts.len() as u32;
                all.filter(|&tree| owner.is_none_or(|rank| regions.regions[tree as usize].root == rank)).collect()
            };
            lines.orders = owners.into_iter().map(|owner| interleaved(own(owner), &counts)).collect();
        }
        let mut count = 0;
        for &lines_of_tree in &counts {
            lines.first.push(count);
            count += u64::from(lines_of_tree);
        }
        (lines.place, lines.total) = (vec![0; count as usize], vec![0; count as usize]);
        for order in std::mem::take(&mut lines.orders) {
            for (place, &key) in (0..).zip(&order) {
                let number = lines.number(key) as usize;
                lines.place[number] = place;
                lines.total[number] =
                    regions.contributors(key.0).map(|rank| operand(rank, key).sum).fold(0, u64::wrapping_add);
            }
            lines.orders.push(order);
        }
        lines
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.place.len() as u64
    }

    /// Number of a line.
    pub fn number(&self, (tree, line): Key) -> u64 {
        self.first[tree as usize] + u64::from(line)
    }

    /// What a rank sends in turn.
    pub fn order(&self, rank: NodeId) -> &[Key] {
        &self.orders[if self.shared { 0 } else { rank as usize }]
    }

    /// Where a line stands in that order.
    pub fn place(&self, key: Key) -> u64 {
        self.place[self.number(key) as usize].into()
    }

    /// Whether `sum` is what all contributed.
    pub fn is_right(&self, key: Key, sum: Operand) -> bool {
        self.total[self.number(key) as usize] == sum.sum
    }
}

/// The accelerator that adds up partial sums of a line.
pub fn home_of(key: Key, ranks: u32) -> NodeId {
    (mixed(7, 0, key) % u64::from(ranks)) as NodeId
}

/// Trees take turns, each as often as its part of the vector is large.
fn interleaved(trees: Vec<u32>, counts: &[u32]) -> Vec<Key> {
    let count = |tree: u32| u64::from(counts[tree as usize]);
    let mut order: Vec<Key> =
        trees.iter().flat_map(|&tree| (0..counts[tree as usize]).map(move |line| (tree, line))).collect();
    // A stable sort: lines at the same part of their trees stay in the order of trees.
    let place = |(tree, line): Key| (u64::from(line) << 32) / count(tree);
    order.sort_by_key(|&key| place(key));
    order
}

/// Every line's tree by a hash of its address; `counts` are dealt anew.
fn hashed(counts: &mut [u32]) -> Vec<Key> {
    let all: u32 = counts.iter().sum();
    counts.fill(0);
    let deal = |address| {
        let tree = (mixed(SALT, 0, (0, address)) % counts.len() as u64) as u32;
        counts[tree as usize] += 1;
        (tree, counts[tree as usize] - 1)
    };
    (0..all).map(deal).collect()
}

/// Packets of a tree's span.
fn lines_of(plan: &Plan, tree: &Tree, size: Bytes, line: u64) -> u32 {
    let elements = u128::from(size.0).div_ceil(ELEMENT);
    let at = |unit: u64| elements * u128::from(unit) / u128::from(plan.units.max(1));
    ((at(tree.span.end) - at(tree.span.start)) * ELEMENT).div_ceil(line.into()) as u32
}
