//! How much each of many trees carries: linear programs in which trees are columns and resources are rows.
//!
//! Capacities are scaled to 1, and rates to fractions of the widest tree's rate, so that tolerances mean the same on
//! every network. Results depend on the trees alone: no program has a limit of time.
//!
//! Where links share capacities, a tree may use a third of all resources, many of them more than once. Such programs
//! are solved as full ones (`linear/dense.rs`), from what is known and no more exactly than is asked for.

mod choice;
mod corner;
#[cfg(test)]
mod tests;

pub(super) use choice::{Chosen, GAP, Limits};

use super::spanning::{Resources, Usage};
use crate::linear::{Dictionary, Full, Point, Program, Row, Solution};
#[cfg(test)]
use crate::random::Random;
use corner::Corner;

/// The most entries of a table in which the simplex method finds a corner.
const LARGEST_TABLE: usize = 1 << 17;
/// The part of a capacity that all trees together must exceed for it to matter.
const FILLED: f64 = 1.0 - 1e-6;

/// A program is a full one if trees use one in so many rows in the mean. Links that share nothing stay with the method
/// for sparse programs: a single one packs them in most cases.
const FULL: usize = 8;
/// The most rows of a full program for each tree: with more, eliminating trees first is cheaper.
const MOST_ROWS: f64 = 1.5;
/// How near to the optimum an interior point is, as a part of it.
const EXACT: f64 = 1e-9;

/// What each tree takes of which capacity.
#[derive(Clone)]
pub(super) struct Columns {
    capacity: Vec<f64>,
    usage: Vec<Vec<Usage>>,
    /// Whether links share capacities, so that trees may use a good part of all resources.
    are_long: bool,
}

/// The optimum, and a price for each resource.
#[derive(Default)]
pub(super) struct Priced {
    pub rates: Vec<f64>,
    pub prices: Vec<f64>,
}

impl Columns {
    /// Returns the capacities of a network, without trees.
    pub fn new(resources: &Resources) -> Self {
        let capacity = resources.capacity.iter().map(|capacity| capacity.bytes_per_second()).collect();
        Self { capacity, usage: Vec::new(), are_long: resources.are_shared() }
    }

    /// Adds a tree that uses this.
    pub fn push(&mut self, usage: Vec<Usage>) {
        self.usage.push(usage);
    }

    /// Returns the trees with these numbers.
    pub fn select(&self, trees: &[usize]) -> Self {
        let usage = trees.iter().map(|&tree| self.usage[tree].clone()).collect();
        Self { capacity: self.capacity.clone(), usage, are_long: self.are_long }
    }

    /// Returns the number of trees.
    pub fn len(&self) -> usize {
        self.usage.len()
    }

    /// Returns the number of trees times the number of resources.
    pub fn entries(&self) -> usize {
        self.capacity.len() * self.len()
    }

    /// Returns how many resources the trees use, all together.
    pub fn uses(&self) -> usize {
        self.usage.iter().map(Vec::len).sum()
    }

    /// Returns whether a corner takes a good part of a second.
    pub fn is_large(&self) -> bool {
        self.entries() > LARGEST_TABLE
    }

    /// Returns the capacities in bytes a second.
    pub fn capacity(&self) -> &[f64] {
        &self.capacity
    }

    /// Returns the rate of each tree if it had the network for itself.
    fn alone(&self) -> Vec<f64> {
        let most = |&Usage { resource, count }: &Usage| self.capacity[resource] / f64::from(count);
        self.usage.iter().map(|usage| usage.iter().map(most).fold(f64::INFINITY, f64::min)).collect()
    }

    /// Returns the part of each capacity that is used at these rates.
    pub fn load(&self, rates: &[f64]) -> Vec<f64> {
        let mut load = vec![0.0; self.capacity.len()];
        for (usage, rate) in self.usage.iter().zip(rates).filter(|(_, rate)| **rate > 0.0) {
            for &Usage { resource, count } in usage {
                load[resource.index()] += rate * f64::from(count) / self.capacity[resource];
            }
        }
        load
    }

    /// Scales rates down, if necessary, so that no load exceeds its capacity.
    pub fn fitted(&self, rates: Vec<f64>) -> Vec<f64> {
        let most = self.load(&rates).into_iter().fold(1.0, f64::max);
        rates.into_iter().map(|rate| rate / most).collect()
    }

    /// Maximises the sum of the rates. The prices lie in the middle of all optimal ones.
    pub fn priced(&self) -> Priced {
        self.interior(&vec![1.0; self.len()])
    }

    /// Maximises the sum of the rates. Where trees use a good part of all resources, it starts from what is known of
    /// the first trees, and ends within a part `gap` of the optimum.
    pub fn priced_near(&self, known: &Priced, gap: f64) -> Priced {
        self.solved(&vec![1.0; self.len()], known, gap.max(EXACT))
    }

    /// Maximises the sum of gains times rates by an interior point.
    fn interior(&self, gains: &[f64]) -> Priced {
        self.solved(gains, &Priced::default(), EXACT)
    }

    fn solved(&self, gains: &[f64], known: &Priced, gap: f64) -> Priced {
        let program = Scaled::new(self);
        let is_full = self.are_long && program.is_full();
        let found = if is_full { program.near(self, gains, known, gap) } else { program.sparse(gains) };
        let rates = self.fitted(found.values.iter().map(|value| value * program.scale).collect());
        if total(&rates) > 0.0 || self.len() == 0 {
            return Priced { rates, prices: self.prices(&program, &found.prices) };
        }
        // The interior-point method may fail where bandwidths are very unlike.
        let mut dictionary = program.dictionary(gains);
        dictionary.solve();
        let rates = corner::simplex_rates(self, &program, &dictionary);
        Priced { rates, prices: self.prices(&program, &dictionary.prices()) }
    }

    /// Returns the price of each resource, where those of rows are known.
    fn prices(&self, program: &Scaled, of_rows: &[f64]) -> Vec<f64> {
        let mut prices = vec![0.0; self.capacity.len()];
        for (&resource, price) in program.resources.iter().zip(of_rows) {
            prices[resource] = price.abs() / self.capacity[resource];
        }
        prices
    }

    /// Maximises the sum of the rates, each times `1 + bonus`, and returns a corner, where few rates are positive.
    pub fn corner(&self, bonus: &[f64]) -> Vec<f64> {
        let gains: Vec<f64> = bonus.iter().map(|bonus| 1.0 + bonus).collect();
        Corner::new(self, gains).rates()
    }

    /// Returns rates of at most `most_trees` trees, none below `least_rate`; good, but not the best.
    ///
    /// The program is solved at a corner, where few trees carry anything. As long as they are too many, the trees that
    /// carry least are closed, and it is solved again. If none is closed, the result is all but the optimum.
    pub fn trimmed(&self, most_trees: usize, least_rate: f64) -> Vec<f64> {
        let [rates] = self.trimmed_in_turn([(most_trees, least_rate)]);
        rates
    }

    /// Returns `trimmed` rates under several limits, each tighter than the one before.
    pub fn trimmed_in_turn<const COUNT: usize>(&self, limits: [(usize, f64); COUNT]) -> [Vec<f64>; COUNT] {
        let mut corner = Corner::of_equal_gains(self);
        limits.map(|(most_trees, least_rate)| self.trim(&mut corner, most_trees, least_rate))
    }

    fn trim(&self, corner: &mut Corner, most_trees: usize, least_rate: f64) -> Vec<f64> {
        let (of_excess, of_all) = if self.is_large() { (2, 32) } else { (4, 64) };
        loop {
            let rates = corner.rates();
            let carrying = in_rising_order(&rates);
            let low = carrying.iter().filter(|&&tree| rates[tree] < least_rate * (1.0 - 1e-6)).count();
            let excess = low.max(carrying.len().saturating_sub(most_trees));
            if excess == 0 {
                return rates;
            }
            corner.close(&carrying[..(excess / of_excess).max(carrying.len() / of_all).clamp(1, excess)]);
        }
    }

    /// Returns rates of few trees that carry `rate` together; trees that carry least are closed as in `trimmed`.
    pub fn thinned(&self, rate: f64) -> Vec<f64> {
        let mut corner = Corner::new(self, vec![1.0; self.len()]);
        let mut rates = corner.rates();
        let mut count = in_rising_order(&rates).len() / 4;
        while count > 0 {
            let mut fewer = corner.clone();
            fewer.close(&in_rising_order(&rates)[..count]);
            let found = fewer.rates();
            if total(&found) >= rate {
                (corner, rates) = (fewer, found);
                let left = in_rising_order(&rates).len();
                count = (left / 4).max(1).min(left - 1);
            } else {
                count /= 2;
            }
        }
        rates
    }
}

/// Returns the sum of rates.
pub(super) fn total(rates: &[f64]) -> f64 {
    rates.iter().sum()
}

/// Lists the trees that carry something; those that carry least are first.
fn in_rising_order(rates: &[f64]) -> Vec<usize> {
    let mut carrying: Vec<usize> = (0..rates.len()).filter(|&tree| rates[tree] > 0.0).collect();
    carrying.sort_by(|&a, &b| rates[a].total_cmp(&rates[b]));
    carrying
}

/// The program in parts of capacities, without the resources that all trees together cannot fill.
#[derive(Clone)]
struct Scaled {
    /// The rate of each tree if it had the network for itself, in bytes a second.
    alone: Vec<f64>,
    /// The unit of rates, in bytes a second.
    scale: f64,
    /// The resource of each row.
    resources: Vec<usize>,
    /// The rows of each tree, and its factors there.
    columns: Vec<Vec<(usize, f64)>>,
}

impl Scaled {
    fn new(of: &Columns) -> Self {
        let alone = of.alone();
        let scale = alone.iter().copied().fold(0.0, f64::max);
        let most = of.load(&alone);
        let resources: Vec<usize> = (0..most.len()).filter(|&resource| most[resource] >= FILLED).collect();
        let mut row_of = vec![None; most.len()];
        resources.iter().enumerate().for_each(|(row, &resource)| row_of[resource] = Some(row));
        let entry = |&Usage { resource, count }: &Usage| {
            Some((row_of[resource.index()]?, f64::from(count) * scale / of.capacity[resource]))
        };
        let columns = of.usage.iter().map(|usage| usage.iter().filter_map(entry).collect()).collect();
        Self { alone, scale, resources, columns }
    }

    fn rows(&self) -> usize {
        self.resources.len()
    }

    /// Returns whether trees use a good part of all rows, in the mean, and rows are not many more than trees.
    fn is_full(&self) -> bool {
        let entries: usize = self.columns.iter().map(Vec::len).sum();
        let are_few = self.rows() as f64 <= MOST_ROWS * self.columns.len() as f64;
        are_few && entries > 0 && entries * FULL >= self.rows() * self.columns.len()
    }

    /// Solves the program as a sparse one.
    fn sparse(&self, gains: &[f64]) -> Point {
        let mut rows = vec![Row { lower: f64::NEG_INFINITY, upper: 1.0, entries: Vec::new() }; self.rows()];
        for (tree, entries) in self.columns.iter().enumerate() {
            entries.iter().for_each(|&(row, factor)| rows[row].entries.push((tree, factor)));
        }
        let cost = gains.iter().map(|gain| -gain).collect();
        let Solution { values, prices } = Program { cost, most: vec![f64::INFINITY; gains.len()], rows }.solve();
        Point { values, prices }
    }

    /// Solves the program as a full one, from what is known.
    fn near(&self, of: &Columns, gains: &[f64], known: &Priced, gap: f64) -> Point {
        let values = known.rates.iter().map(|rate| rate / self.scale).collect();
        let of_row = |&resource: &usize| known.prices.get(resource).map(|price| price * of.capacity[resource]);
        let prices = self.resources.iter().filter_map(of_row).collect();
        Full { rows: self.rows(), columns: &self.columns, gains }.solve(&Point { values, prices }, gap)
    }

    /// Returns the program for the simplex method.
    fn dictionary(&self, gains: &[f64]) -> Dictionary {
        Dictionary::new(&vec![1.0; self.rows()], &self.columns, gains)
    }
}
