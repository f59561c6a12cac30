//! Peer-to-peer exchange (the MTree paper's section II, after Li et al., "Malt", EuroSys 2015): every rank sends its
//! whole vector straight to every other, and each sums up what it receives.
//!
//! N trees have the same span, one a rank: each is a star that only reduces into it, unicast over the topology's routes
//! and not pipelined. It is one message deep, so nothing is faster for small vectors; but N (N - 1) vectors are sent,
//! and on a network of few links many of them share one. A rank sends a copy of its vector, because sums arrive in the
//! vector itself.
//!
//! Unicast is our guess: the paper allows multicast in the network, which few networks between sites have. The routes
//! are those of the topology.
//!
//! Cost: N (N - 1) edges.
//!
//! In spite of its name it is only an all-reduce: its trees broadcast nothing, so that no all-to-all or other
//! collective follows from them. For these take `multitree`, or `ring`.

use std::sync::Arc;

use super::Options;
use super::ps::star;
use crate::error::Result;
use crate::misfit;
use crate::plan::{Chunk, Draft, Half, LaneId, Pace, Tree};
use crate::topology::{NodeId, Topology};

/// The most ranks: the number of messages grows with their square, and all are in flight at once.
const MAX_RANKS: u32 = 256;

pub(super) fn plan(topology: &Arc<Topology>, _options: &Options) -> Result<Draft> {
    let ranks = topology.ranks();
    if ranks > MAX_RANKS {
        misfit!(
            "p2p sends {ranks} x {} messages on {}; it is made for at most {MAX_RANKS} ranks: use multitree or ring",
            ranks - 1,
            topology.name()
        );
    }
    let mut plan = Draft::new(topology, "p2p", 1);
    let trees = topology.rank_ids().map(|rank| into(&mut plan, rank)).collect();
    plan.push_phase(Pace::Stream, trees);
    Ok(plan)
}

/// Returns the tree that reduces to `rank`.
fn into(plan: &mut Draft, rank: NodeId) -> Tree {
    let edges = star(rank, plan.ranks());
    let lanes: Vec<LaneId> = edges.into_iter().map(|(_, peer)| plan.lanes.routed(peer, rank)).collect();
    Tree { span: 0..1, root: rank, up: plan.streamed_half(lanes), down: Half::None, chunk: Chunk::One }
}
