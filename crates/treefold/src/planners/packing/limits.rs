//! The best trees within limits: at most K trees, none too high, none that carries too little.
//!
//! Trees of equal rate (`cheapest/disjoint.rs`) come close to the bound, together with the widest trees in the capacity
//! that they leave. If that is not close enough, a branch and bound (`shares/choice.rs`) chooses among all known trees
//! and those of MTree and Blink; it starts from the best of their solutions, so the result is never worse.

use std::sync::Arc;

use super::{EQUAL_TREES, GAP, best_of, fitting, keeps, of_equal_rate, pack, shortest_trees, sum};
use crate::error::Result;
use crate::memory::Memory;
use crate::misfit;
use crate::planners::cheapest::cheapest_tree;
use crate::planners::pool::Pool;
use crate::planners::shares::{self, total};
use crate::planners::spanning::{Rated, Resources, SpanningTree};
use crate::planners::{Heights, Listener, Options, blink, gost, mtree, planner_named};
use crate::topology::{NodeId, Topology};

/// How many random starts MTree gets for a choice of trees, and the most ranks times links for that.
const SEEDS: u64 = 16;
const GROWN_AGAIN: usize = 30_000;

static CHOSEN: Memory<Options, Vec<Rated>> = Memory::new();

/// Returns trees within the limits, whose rates together are at least those of MTree and Blink.
pub(super) fn choose(topology: &Arc<Topology>, options: &Options, listener: Listener) -> Result<Arc<Vec<Rated>>> {
    let limits = options.limits();
    CHOSEN.try_get(topology, limits.clone(), || search(topology, &limits, listener))
}

fn search(topology: &Arc<Topology>, limits: &Options, listener: Listener) -> Result<Vec<Rated>> {
    let packing = pack(topology, listener)?;
    let few = few(topology, limits.trees.map_or(EQUAL_TREES, |most| most as usize));
    if keeps(topology, &few, limits) && sum(&few) >= packing.bound * (1.0 - GAP) {
        return Ok(few);
    }
    let mut pool = Pool::new(topology, Resources::new(topology), packing.pool.trees.iter().cloned());
    let mut starts = vec![few];
    pool.extend(shortest_trees(topology, limits.heights));
    add_solved(&mut pool, &mut starts, topology, limits, listener)?;
    pool.extend(starts.iter().flatten().map(|rated| rated.tree.clone()));
    let pool = low_enough(&pool, limits)?;
    starts.retain(|start| keeps(topology, start, limits));
    let start = starts.into_iter().max_by(|a, b| sum(a).total_cmp(&sum(b))).unwrap_or_default();
    if sum(&start) >= packing.bound * (1.0 - shares::GAP) {
        return Ok(start);
    }
    let least = limits.least_rate.map_or(0.0, |rate| rate.bytes_per_second());
    let start = pool.rates_of(&start);
    let shared = mtree::share(&pool, limits.trees.map(|most| most as usize), least, start, listener)?;
    Ok(pool.rated(&shared.rates))
}

/// Adds the trees of MTree and Blink, and their solutions, if they fit the network and do not take long.
fn add_solved(
    pool: &mut Pool,
    starts: &mut Vec<Vec<Rated>>,
    topology: &Arc<Topology>,
    limits: &Options,
    listener: Listener,
) -> Result<()> {
    if let Some(solved) = fitting(mtree::solve(topology, limits, listener))? {
        pool.extend(solved.grown.trees.iter().map(|rated| rated.tree.clone()));
        starts.push(solved.shares.clone());
        pool.extend(grown_again(topology, limits)?);
    }
    if planner_named("blink")?.is_quick(topology)
        && let Some(few) = fitting(blink::solve(topology, limits.trees, listener))?
    {
        starts.push(few.rated.clone());
    }
    Ok(())
}

/// Returns the trees that MTree grows from some random starts, which are low; none on large networks.
pub(super) fn grown_again(topology: &Arc<Topology>, limits: &Options) -> Result<Vec<SpanningTree>> {
    let is_small = topology.ranks() as usize * topology.links().len() <= GROWN_AGAIN;
    let mut trees = Vec::new();
    for seed in 0..if is_small { SEEDS } else { 0 } {
        let grown = fitting(gost::grow(topology, &Options { seed, ..limits.clone() }))?;
        trees.extend(grown.into_iter().flat_map(|grown| grown.trees).map(|rated| rated.tree));
    }
    Ok(trees)
}

/// Returns the trees within the limit of height.
fn low_enough(pool: &Pool, limits: &Options) -> Result<Pool> {
    let heights = pool.heights(limits.heights);
    let lowest = heights.iter().copied().min().unwrap_or(0);
    let highest = heights.into_iter().max().unwrap_or(0);
    let most = limits.height.map_or(highest, u64::from);
    if lowest > most {
        let unit = if limits.heights == Heights::Hops { "hops" } else { "times the smallest latency" };
        misfit!(
            "height {most}: the lowest tree that was found has a height of {lowest} {unit}; allow a height of {lowest}"
        );
    }
    Ok(pool.within(most, limits.heights))
}

/// Returns the best `most` trees that consist of trees of equal rate and the widest trees in the capacity left.
fn few(topology: &Arc<Topology>, most: usize) -> Vec<Rated> {
    let none = Pool::new(topology, Resources::new(topology), []);
    let equal = of_equal_rate(topology);
    let started = std::iter::once(&none).chain(equal.iter().filter(|pool| pool.len() <= most));
    let filled: Vec<Vec<Rated>> = started.map(|pool| filled_up(topology, pool, most)).collect();
    let best = filled.iter().map(|rated| sum(rated)).fold(0.0, f64::max);
    let wide = filled.into_iter().filter(|rated| sum(rated) >= best * (1.0 - 1e-6));
    wide.min_by_key(Vec::len).expect("there is a start")
}

/// Adds the widest tree in the capacity that is left, until there are `most` trees or the rate no longer grows.
fn filled_up(topology: &Topology, pool: &Pool, most: usize) -> Vec<Rated> {
    let roots: Vec<NodeId> = topology.rank_ids().collect();
    let mut pool = pool.clone();
    let mut rates = best_of(&pool);
    while pool.len() < most {
        let load = pool.columns.load(&rates);
        let capacity = pool.columns.capacity().iter().zip(load);
        let left: Vec<f64> = capacity.map(|(capacity, load)| capacity * (1.0 - load).max(0.0)).collect();
        let widest = left.iter().copied().fold(0.0, f64::max);
        // If narrow cables are expensive, the narrowest cable of the cheapest tree is as wide as possible.
        let prices: Vec<f64> = left.iter().map(|left| widest - left).collect();
        let before = pool.len();
        pool.extend([cheapest_tree(topology, &pool.resources, &prices, &roots).tree]);
        let more = best_of(&pool);
        if pool.len() == before || total(&more) <= total(&rates) * (1.0 + 1e-9) {
            break;
        }
        rates = more;
    }
    pool.rated(&rates)
}
