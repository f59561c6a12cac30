//! Low trees of wide capacity, and the best shares for at most K of them (MTree, "Efficient inter-datacenter all-reduce
//! with multiple trees").
//!
//! GOST grows the trees (`gost.rs`); a branch and bound decides how much each tree carries (`shares/choice.rs`); each
//! tree streams its part in chunks, as many as the alpha-beta model finds best (III-C). The network must consist of
//! ranks joined by links in both directions. By default a tree takes a quarter of the widest cable at a time, and the
//! growth goes on from other ranks where one fails; the options `tree_rate="all"` and `starts="one"` give the algorithm
//! as it was published.
//!
//! Cost: n m for each tree over n ranks and m cables, and a branch and bound with a limit of work.

use std::sync::Arc;

use super::gost::{self, Grown};
use super::pool::Pool;
use super::shares::{self, Chosen, Limits, total};
use super::spanning::{Rated, Resources, greedy_shares};
use super::{Listener, Options, Planned, Proof, tell};
use crate::error::Result;
use crate::memory::Memory;
use crate::misfit;
use crate::topology::Topology;
use crate::units::format_bandwidth;

/// The most trees among which a branch and bound chooses.
const OFFERED: usize = 80;

/// A part of the rate that is rounding: equal rates of fewer trees are better.
const ROUNDING: f64 = 1e-6;

/// The trees that GOST grew, and what the chosen ones carry.
pub(super) struct Solved {
    pub grown: Arc<Grown>,
    pub shares: Vec<Rated>,
    gap: f64,
}

/// The rates of trees, and how far their sum may be from the best.
pub(super) struct Shared {
    pub rates: Vec<f64>,
    pub gap: f64,
}

static GROWN: Memory<Options, Grown> = Memory::new();
static SOLVED: Memory<Options, Solved> = Memory::new();

/// Plans with a few low trees, within the limits of the options.
pub(super) fn plan(topology: &Arc<Topology>, options: &Options, listener: Listener) -> Result<Planned> {
    let solved = solve(topology, options, listener)?;
    let draft = Pool::plan(topology, "mtree", &solved.shares, options.pipeline);
    let Grown { height, least_rate, trees } = solved.grown.as_ref();
    let proof = Proof {
        grown: Some(trees.len()),
        height_limit: Some(*height),
        least_rate: Some(least_rate.bytes_per_second()),
        gap: Some(solved.gap),
        ..Proof::default()
    };
    Ok(Planned { draft, proof })
}

/// Grows trees and shares the vector among them.
pub(super) fn solve(topology: &Arc<Topology>, options: &Options, listener: Listener) -> Result<Arc<Solved>> {
    let limits = options.limits();
    SOLVED.try_get(topology, limits.clone(), || {
        let grown = grow(topology, &limits)?;
        let pool = Pool::new(topology, Resources::new(topology), grown.trees.iter().map(|rated| rated.tree.clone()));
        let most = limits.trees.map(|most| most as usize);
        let start = widest(&grown.trees, most.unwrap_or(usize::MAX));
        let shared = share(&pool, most, grown.least_rate.bytes_per_second(), start, listener)?;
        Ok(Solved { shares: pool.rated(&shared.rates), gap: shared.gap, grown })
    })
}

/// Grows trees with GOST, within limits.
pub(super) fn grow(topology: &Arc<Topology>, limits: &Options) -> Result<Arc<Grown>> {
    GROWN.try_get(topology, limits.clone(), || gost::grow(topology, limits))
}

/// Returns the rates as they were grown of the widest trees, and 0 for all others.
fn widest(trees: &[Rated], most: usize) -> Vec<f64> {
    let mut order: Vec<usize> = (0..trees.len()).collect();
    order.sort_by(|&a, &b| trees[b].rate.total_cmp(&trees[a].rate));
    let mut rates = vec![0.0; trees.len()];
    order.into_iter().take(most).for_each(|tree| rates[tree] = trees[tree].rate);
    rates
}

/// Maximises the sum of the rates of at most `most_trees` trees, none with less than `least_rate`.
///
/// The search starts from the best of three solutions: `start`, a greedy one, and one trimmed from that of the linear
/// program.
pub(super) fn share(
    pool: &Pool,
    most_trees: Option<usize>,
    least_rate: f64,
    start: Vec<f64>,
    listener: Listener,
) -> Result<Shared> {
    let most = most_trees.unwrap_or(pool.len());
    let known = better(start, greedy_shares(&pool.resources, &pool.trees, most, least_rate));
    if total(&known) == 0.0 {
        let possible = greedy_shares(&pool.resources, &pool.trees, 1, 0.0).into_iter().fold(0.0, f64::max);
        let [least, possible] = [least_rate, possible].map(format_bandwidth);
        misfit!("least rate {least}: no tree carries as much; {possible} is possible");
    }
    let best = pool.columns.priced().rates;
    let offered = if most < pool.len() { most_promising(&known, &best) } else { (0..pool.len()).collect() };
    tell(listener, &format!("choosing among {} trees", offered.len()))?;
    let columns = pool.columns.select(&offered);
    let known: Vec<f64> = offered.iter().map(|&tree| known[tree]).collect();
    let trimmed = columns.trimmed(most, least_rate);
    let start = if total(&known) > total(&trimmed) * (1.0 + ROUNDING) { known } else { trimmed };
    let optimum = if offered.len() < pool.len() { total(&columns.priced().rates) } else { total(&best) };
    let is_near = total(&start) >= optimum * (1.0 - shares::GAP);
    let Chosen { rates, bound } = if is_near || columns.is_large() {
        Chosen { bound: optimum, rates: start }
    } else {
        columns.choose(Limits { most_trees: most, least_rate }, start, listener)?
    };
    let bound = if offered.len() < pool.len() { bound.max(total(&best)) } else { bound };
    let gap = (bound / total(&rates) - 1.0).max(0.0);
    let mut shared = vec![0.0; pool.len()];
    offered.into_iter().zip(rates).for_each(|(tree, rate)| shared[tree] = rate);
    Ok(Shared { rates: shared, gap })
}

/// Returns those rates of which the sum is larger.
fn better(a: Vec<f64>, b: Vec<f64>) -> Vec<f64> {
    if total(&b) > total(&a) { b } else { a }
}

/// Lists the trees with the largest values; a branch and bound chooses among them. The first values count most, and no
/// tree is left out that has one.
pub(super) fn most_promising(first: &[f64], then: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..first.len()).collect();
    order.sort_by(|&a, &b| first[b].total_cmp(&first[a]).then(then[b].total_cmp(&then[a])));
    order.truncate(OFFERED.max(first.iter().filter(|&&value| value > 0.0).count()));
    order.sort_unstable();
    order
}
