//! The double binary tree (Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
//! scan", 2009), in NCCL's construction.
//!
//! Two binary trees carry half of the vector each, streamed in chunks. In tree one, rank 0 is above a tree in which a
//! rank's lowest set bit is its level, so that odd ranks are leaves. Tree two is the same on ranks that are mirrored
//! (even N) or shifted by one (odd N), so that the leaves of one are inner nodes of the other. The height is
//! logarithmic. The algorithm does not know the network, so its edges may share links. In schedule tables the trees
//! take turns in two colours, and nothing is gathered before all is reduced (`plan/tables/streams.rs`).
//! Cost: linear in the ranks.

use std::ops::Range;
use std::sync::Arc;

use super::Options;
use crate::error::Result;
use crate::plan::{Chunk, Draft, Half, LaneId, Pace, Tree};
use crate::topology::{NodeId, Topology};

pub(super) fn plan(topology: &Arc<Topology>, _options: &Options) -> Result<Draft> {
    let mut plan = Draft::new(topology, "dbtree", 2);
    let trees = [Which::One, Which::Two].map(|which| tree(&mut plan, which)).into();
    plan.push_phase(Pace::SubFlows, trees);
    Ok(plan)
}

/// One of the two trees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Which {
    One,
    Two,
}

impl Which {
    /// Returns the root of this tree over `members`, and the children of each of all ranks.
    pub fn children(self, members: &[NodeId], ranks: u32) -> (NodeId, Vec<Vec<NodeId>>) {
        let count = members.len() as u32;
        let name = |place: u32| members[self.named(place, count) as usize];
        let mut children = vec![Vec::new(); ranks as usize];
        for place in 0..count {
            if let Some(parent) = parent(place, count) {
                children[name(parent).index()].push(name(place));
            }
        }
        (name(0), children)
    }

    /// Returns who is in this tree where `rank` is in tree one.
    fn named(self, rank: u32, ranks: u32) -> u32 {
        match self {
            Self::One => rank,
            Self::Two if ranks.is_multiple_of(2) => ranks - 1 - rank,
            Self::Two => (rank + 1) % ranks,
        }
    }
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

fn tree(plan: &mut Draft, which: Which) -> Tree {
    let members: Vec<NodeId> = plan.rank_ids().collect();
    let (root, children) = which.children(&members, plan.ranks());
    let start = which as u64;
    streamed(plan, start..start + 1, root, &children)
}

/// Returns a streamed tree in which ranks have these children.
pub(super) fn streamed(plan: &mut Draft, span: Range<u64>, root: NodeId, children: &[Vec<NodeId>]) -> Tree {
    let mut order = vec![root];
    let mut lanes: Vec<LaneId> = Vec::new();
    let mut next = 0;
    while let Some(&rank) = order.get(next) {
        next += 1;
        lanes.extend(children[rank.index()].iter().map(|&child| plan.lanes.routed(rank, child)));
        order.extend(&children[rank.index()]);
    }
    let down = plan.streamed_half(lanes);
    Tree { span, root, up: Half::Mirror, down, chunk: Chunk::Best }
}
