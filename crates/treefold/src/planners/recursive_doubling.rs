//! Recursive doubling (Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH",
//! 2005): what MPI libraries do with small vectors.
//!
//! In step s every rank exchanges all that it has summed up so far with the rank whose number differs in bit s, and
//! both add up. After log2 N steps all have the whole sum. Each step sends the whole vector, so it is only good for
//! small ones; `halving-doubling` has the same pairs, twice the steps, and sends far less. Ranks beyond a power of two
//! hand their vector to a partner first and get the result last, which takes two more steps.
//!
//! The algorithm does not know the network: the ranks keep the order that it gives. Its trees each join two ranks, so
//! it plans all-reduces only.
//!
//! Cost: N log2 N edges.

use std::sync::Arc;

use super::Options;
use super::pairwise::{Copies, by_bits};
use crate::error::Result;
use crate::plan::Draft;
use crate::topology::Topology;

pub(super) fn plan(topology: &Arc<Topology>, _options: &Options) -> Result<Draft> {
    let mut plan = Draft::new(topology, "recursive-doubling", 1);
    let core = 1 << topology.ranks().ilog2();
    Copies::one(topology.rank_ids().collect(), by_bits(core)).exchange(&mut plan);
    Ok(plan)
}
