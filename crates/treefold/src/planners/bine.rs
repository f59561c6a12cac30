//! Bine trees and butterflies (De Sensi et al., "Bine trees: enhancing collective operations by optimizing
//! communication locality", SC 2025, arXiv 2508.17311).
//!
//! They are binomial trees and butterflies with other distances: in step s a rank exchanges with the one at distance
//! (1 - (-2)^(s+1)) / 3 (1, -1, 3, -5, 11 and so on from even ranks, the opposite from odd ones) instead of 2^s. That
//! is a third less, so that on networks with groups of near ranks, such as dragonflies and tapered fat trees, fewer
//! bytes leave a group. There are two forms. The latency form exchanges whole vectors in log2 N steps, as recursive
//! doubling does; it plans all-reduces only. The bandwidth form reduces and spreads a part for each rank in 2 log2 N
//! steps, as halving and doubling do. For an all-reduce the form is taken that the analytic model predicts to be faster
//! for the size.
//!
//! Where it departs from the paper: ranks beyond a power of two are folded, as in `recursive-doubling`.
//!
//! Cost: a tree for each rank, with N - 1 edges.

use std::sync::Arc;

use super::Options;
use super::pairwise::{Copies, swinging};
use crate::error::Result;
use crate::plan::{Collective, Draft};
use crate::topology::Topology;

pub(super) fn plan(topology: &Arc<Topology>, options: &Options) -> Result<Draft> {
    let core = 1 << topology.ranks().ilog2();
    let copies = Copies::one(topology.rank_ids().collect(), swinging(core));
    let may_exchange = options.collective == Collective::AllReduce;
    Ok(copies.faster_form(&Draft::new(topology, "bine", 1), may_exchange, options.size))
}
