//! Few trees of one root that together reach 95 % of that root's best rate (Wang et al., "Blink: fast and generic
//! collectives for distributed ML", MLSys 2020).
//!
//! Multiplicative weights pack trees of one root; then a branch and bound finds the fewest of them that keep 95 % of
//! the rate. Heights are not limited. An all-reduce is a reduce and a broadcast over the same tree, streamed in chunks.
//!
//! The paper leaves some choices open. The root is the centre, by latency, of the first and widest tree; rates do not
//! depend on it. Multiplicative weights stop after 20 trees for each rank, at epsilon 0.1. Where capacities differ,
//! Blink's program has whole multiples of a link's rate and relaxes them step by step; here rates are real numbers from
//! the start, and the number of trees is minimised. If the trees are limited to K and 95 % of the rate would need more,
//! the plan has the best rate of K trees.
//!
//! Cost: 20 searches for a tree for each rank, and a branch and bound with a limit of work.

use std::sync::Arc;

use super::cheapest::of_one_root_by_weights;
use super::mtree::{most_promising, share};
use super::pool::Pool;
use super::shares::total;
use super::spanning::{Rated, Resources};
use super::{Listener, Options, Planned, Proof, tell};
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::topology::Topology;

/// The step of the multiplicative weights, and how many trees they take for each rank.
const EPSILON: f64 = 0.1;
const TREES_A_RANK: usize = 20;
/// The part of the rate that is kept.
const KEPT: f64 = 0.95;

/// Trees, and how far they are from the best: in number, or in rate if that is limited.
pub(super) struct Few {
    pub rated: Vec<Rated>,
    gap: f64,
}

static SOLVED: Memory<Option<u32>, Few> = Memory::new();

/// Plans with a few trees of one root, at most as many as the options allow.
pub(super) fn plan(topology: &Arc<Topology>, options: &Options, listener: Listener) -> Result<Planned> {
    let few = solve(topology, options.trees, listener)?;
    let draft = Pool::plan(topology, "blink", &few.rated, options.pipeline);
    Ok(Planned { draft, proof: Proof { gap: Some(few.gap), ..Proof::default() } })
}

/// Finds the trees.
pub(super) fn solve(topology: &Arc<Topology>, most_trees: Option<u32>, listener: Listener) -> Result<Arc<Few>> {
    SOLVED.try_get(topology, most_trees, || find(topology, most_trees.map(|most| most as usize), listener))
}

fn find(topology: &Arc<Topology>, most_trees: Option<usize>, listener: Listener) -> Result<Few> {
    let resources = Resources::new(topology);
    let turns = TREES_A_RANK * topology.ranks() as usize;
    let packed = of_one_root_by_weights(topology, &resources, EPSILON, turns, listener)?.ok_or_else(|| {
        let name = topology.name();
        let text = "trees of one root need links that carry both ways, but those of";
        Error::new(format!("{text} {name} do not join all ranks; packing fits")).misfit()
    })?;
    let pool = Pool::new(topology, resources, packed.iter().map(|rated| rated.tree.clone()));
    let packed = pool.rates_of(&packed);
    tell(listener, &format!("blink: thinning {} trees", pool.len()))?;
    let kept = KEPT * total(&packed);
    let start = pool.columns.thinned(kept);
    let offered = most_promising(&start, &packed);
    let start: Vec<f64> = offered.iter().map(|&tree| start[tree]).collect();
    let pool = pool.select(&offered);
    let (rates, least) = pool.columns.fewest(kept, start, listener)?;
    let rated = pool.rated(&rates);
    if most_trees.is_some_and(|most| rated.len() > most) {
        let shared = share(&pool, most_trees, 0.0, vec![0.0; pool.len()], listener)?;
        return Ok(Few { rated: pool.rated(&shared.rates), gap: shared.gap });
    }
    let gap = rated.len().saturating_sub(least) as f64 / rated.len() as f64;
    Ok(Few { rated, gap })
}
