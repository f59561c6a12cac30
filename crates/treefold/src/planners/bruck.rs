//! Bruck's all-gather, and its reverse as the reduce-scatter (Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient
//! algorithms for all-to-all communications in multiport message-passing systems", IEEE TPDS 1997).
//!
//! In step s of the all-gather a rank sends all blocks that it has to the rank 2^s before it, but in the last step only
//! those that are missing there. That takes the fewest steps for any number of ranks, 2 ceil(log2 N) for an all-reduce,
//! and each rank sends 2 (N - 1) / N of the vector. Most bytes go farthest: `pat` has the opposite order.
//!
//! The algorithm does not know the network: the ranks keep the order that it gives.
//!
//! Cost: a tree for each rank, with N - 1 edges.

use std::sync::Arc;

use super::Options;
use super::pairwise::{Copies, Targets};
use crate::error::Result;
use crate::plan::Draft;
use crate::topology::Topology;

pub(super) fn plan(topology: &Arc<Topology>, _options: &Options) -> Result<Draft> {
    let mut plan = Draft::new(topology, "bruck", 1);
    let farthest_first = backwards(topology.ranks() as usize).into_iter().rev().collect();
    Copies::one(topology.rank_ids().collect(), farthest_first).spread(&mut plan);
    Ok(plan)
}

/// Returns the steps in which every one of `count` ranks sends to the one 1, 2, 4 and so on before it.
pub(super) fn backwards(count: usize) -> Targets {
    let steps = count.next_power_of_two().ilog2();
    (0..steps).map(|step| (0..count).map(|rank| (rank + count - (1 << step)) % count).collect()).collect()
}
