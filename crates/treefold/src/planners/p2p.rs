//! Peer-to-peer exchange (the MTree paper's section II, after Li et al., "Malt", EuroSys 2015): every rank sends its
//! whole vector straight to every other, and each sums up what it receives.
//!
//! N trees over the same span, one a rank: a star that only reduces into it; unicast over the topology's routes, not
//! pipelined. One message deep, so nothing beats it for small vectors; N (N - 1) vectors in all, and on a network of
//! few links many of them share one. A rank sends a copy of its vector, because sums arrive in the vector itself.
//!
//! Our guess: unicast; the paper allows multicast in the network, which few networks between sites have. Its routes are
//! the topology's.

use std::sync::Arc;

use super::Options;
use super::ps::star;
use crate::bail;
use crate::error::Result;
use crate::plan::{Chunk, Half, LaneId, Pace, Plan, Tree};
use crate::topology::{NodeId, Topology};

/// Messages grow with the square of the ranks, and all are under way at once.
const MAX_RANKS: u32 = 256;

pub(super) fn plan(topology: &Arc<Topology>, _options: &Options) -> Result<Plan> {
    let ranks = topology.ranks();
    if ranks > MAX_RANKS {
        bail!(
            "p2p sends {ranks} x {} messages on {}; it is made for at most {MAX_RANKS} ranks: use multitree or ring",
            ranks - 1,
            topology.name()
        );
    }
    let mut plan = Plan::new(topology, "p2p", 1);
    let trees = topology.rank_ids().map(|rank| into(&mut plan, rank)).collect();
    plan.push_phase(Pace::Stream, trees);
    Ok(plan)
}

/// The tree that reduces to `rank`.
fn into(plan: &mut Plan, rank: NodeId) -> Tree {
    let edges = star(rank, plan.ranks());
    let lanes: Vec<(LaneId, u16)> = edges.into_iter().map(|(_, peer)| (plan.lanes.routed(peer, rank), 0)).collect();
    Tree { span: 0..1, root: rank, up: plan.own_half(lanes), down: Half::None, chunk: Chunk::One }
}
