//! Direct exchange of parts, called two-shot (Thakur, Rabenseifner, Gropp, "Optimization of collective communication
//! operations in MPICH", 2005, for its reduce-scatter; TensorRT-LLM, vLLM and MSCCL++ have it for all-reduces of GPUs
//! on one switch).
//!
//! Every rank sends the i-th part of its vector straight to rank i, which adds up all that it receives and sends the
//! sum straight back to all. N stars carry 1/N of the vector each. It takes two steps, and each rank sends
//! 2 (N - 1) / N of the vector, which is optimal; `p2p` takes one step, and sends whole vectors. It is good where every
//! two ranks have a way of their own, as on a switch that does not block; on networks of few links many messages share
//! one.
//!
//! Cost: N (N - 1) edges.

use std::sync::Arc;

use super::Options;
use super::ps::star;
use crate::error::Result;
use crate::misfit;
use crate::plan::{Chunk, Draft, Half, LaneId, Pace, Sharing, Step, Tree};
use crate::topology::{NodeId, Topology};

/// The most ranks: the number of messages grows with their square, and all of a step are in flight at once.
const MAX_RANKS: u32 = 256;

pub(super) fn plan(topology: &Arc<Topology>, _options: &Options) -> Result<Draft> {
    let ranks = topology.ranks();
    if ranks > MAX_RANKS {
        misfit!(
            "direct sends {ranks} x {} messages in a step on {}; it is made for at most {MAX_RANKS} ranks: use \
             halving-doubling or ring",
            ranks - 1,
            topology.name()
        );
    }
    let mut plan = Draft::new(topology, "direct", ranks.into());
    let trees = topology.rank_ids().map(|rank| around(&mut plan, rank)).collect();
    plan.push_phase(Pace::Step(Sharing::Shared), trees);
    Ok(plan)
}

/// Returns the star that reduces the part of `rank` to it and sends the sum back.
fn around(plan: &mut Draft, rank: NodeId) -> Tree {
    let lanes: Vec<LaneId> =
        star(rank, plan.ranks()).into_iter().map(|(_, peer)| plan.lanes.routed(rank, peer)).collect();
    let down = plan.own_half(lanes.into_iter().map(|lane| (lane, Step::new(2))));
    let part = u64::from(rank);
    Tree { span: part..part + 1, root: rank, up: Half::Mirror, down, chunk: Chunk::One }
}
