//! PAT, parallel aggregated trees (Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at
//! scale", 2025, arXiv 2506.20252; NCCL 2.23 and later).
//!
//! It is Bruck's all-gather with its distances reversed: the first step goes to the rank farthest away and carries one
//! block, and the last one goes to the next rank and carries half of them. So most bytes stay near. The reduce-scatter
//! is the same backwards. It takes 2 ceil(log2 N) steps for an all-reduce, and each rank sends 2 (N - 1) / N of the
//! vector.
//!
//! Where it departs from the paper: NCCL aggregates only as many blocks as its buffers hold, and takes more steps for
//! larger vectors. Here vectors are their own buffers, and all blocks of a step go at once.
//!
//! Cost: a tree for each rank, with N - 1 edges.

use std::sync::Arc;

use super::Options;
use super::bruck::backwards;
use super::pairwise::Copies;
use crate::error::Result;
use crate::plan::Draft;
use crate::topology::Topology;

pub(super) fn plan(topology: &Arc<Topology>, _options: &Options) -> Result<Draft> {
    let mut plan = Draft::new(topology, "pat", 1);
    let nearest_first = backwards(topology.ranks() as usize);
    Copies::one(topology.rank_ids().collect(), nearest_first).spread(&mut plan);
    Ok(plan)
}
