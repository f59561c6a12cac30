//! The double binary tree (Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
//! scan", 2009), in NCCL's construction.
//!
//! Two binary trees carry half of the vector each, streamed in chunks. In tree one, rank 0 is above a tree in which a
//! rank's lowest set bit is its level, so that odd ranks are leaves. Tree two is the same on ranks that are mirrored
//! (even N) or shifted by one (odd N), so that the leaves of one are inner nodes of the other. The height is
//! logarithmic. The algorithm does not know the network, so its edges may share links. In schedule tables the trees
//! take turns in two colours, and nothing is gathered before all is reduced (`plan/tables/streams.rs`).
//! Cost: linear in the ranks.

use std::sync::Arc;

use super::Options;
use crate::error::Result;
use crate::plan::{Chunk, Draft, Half, LaneId, Pace, Tree};
use crate::topology::{NodeId, Topology};

pub(super) fn plan(topology: &Arc<Topology>, _options: &Options) -> Result<Draft> {
    let ranks = topology.ranks();
    let mut plan = Draft::new(topology, "dbtree", 2);
    let second = |rank: u32| NodeId(if ranks.is_multiple_of(2) { ranks - 1 - rank } else { (rank + 1) % ranks });
    let trees = vec![tree(&mut plan, 0, NodeId), tree(&mut plan, 1, second)];
    plan.push_phase(Pace::SubFlows, trees);
    Ok(plan)
}

/// Returns the parent of `rank` in tree one; rank 0 has none.
fn parent(rank: u32, ranks: u32) -> Option<u32> {
    if rank == 0 {
        return None;
    }
    let bit = rank & rank.wrapping_neg();
    let above = (rank ^ bit) | (bit << 1);
    Some(if above < ranks { above } else { rank ^ bit })
}

fn tree(plan: &mut Draft, half: u64, name: impl Fn(u32) -> NodeId) -> Tree {
    let ranks = plan.ranks();
    let mut children = vec![Vec::new(); ranks as usize];
    for rank in 0..ranks {
        if let Some(parent) = parent(rank, ranks) {
            children[parent as usize].push(rank);
        }
    }
    let mut order = vec![0u32];
    let mut lanes: Vec<LaneId> = Vec::new();
    for i in 0..ranks as usize {
        let rank = order[i];
        for &child in &children[rank as usize] {
            lanes.push(plan.lanes.routed(name(rank), name(child)));
            order.push(child);
        }
    }
    let down = plan.streamed_half(lanes);
    Tree { span: half..half + 1, root: name(0), up: Half::Mirror, down, chunk: Chunk::Best }
}
