//! Recursive halving and doubling (Thakur, Rabenseifner, Gropp, "Optimization of collective communication
//! operations in MPICH", 2005).
//!
//! N binomial trees carry 1/N of the vector each. In step s of the reduce-scatter a rank exchanges half of what it
//! still holds with the rank at distance 2^(s-1); the all-gather is the mirror. It takes 2 log2 N steps, and each rank
//! sends 2 (N - 1) / N of the vector. Ranks beyond a power of two hand their vector to a partner first and get the
//! result last, which takes one more step in each direction. The algorithm does not know the network (see `hdrm`).
//!
//! Cost: N log2 N edges.

use std::sync::Arc;

use super::Options;
use crate::error::Result;
use crate::plan::{Chunk, Draft, Half, LaneId, Pace, Sharing, Step, Tree};
use crate::topology::{NodeId, Topology};

pub(super) fn plan(topology: &Arc<Topology>, _options: &Options) -> Result<Draft> {
    let order: Vec<NodeId> = topology.rank_ids().collect();
    let mut plan = Draft::new(topology, "halving-doubling", 1);
    push_binomial_trees(&mut plan, &order);
    plan.push_phase_of_all(Sharing::Shared);
    Ok(plan)
}

/// Sets the plan's units to the power of two and makes one tree a unit; the rank `order[i]` takes the part of rank i.
pub(super) fn push_binomial_trees(plan: &mut Draft, order: &[NodeId]) {
    let bits = order.len().ilog2();
    let core = 1u32 << bits;
    plan.units = core.into();
    for chunk in 0..core {
        let tree = binomial_tree(plan, order, bits, chunk);
        plan.trees.push(tree);
    }
}

impl Draft {
    /// Makes one phase in steps of all trees made so far.
    pub(super) fn push_phase_of_all(&mut self, sharing: Sharing) {
        let trees = std::mem::take(&mut self.trees);
        self.push_phase(Pace::Step(sharing), trees);
    }
}

/// Returns the tree of chunk `root`: `v` sends it in the step of the lowest bit in which `v` differs from the root.
fn binomial_tree(plan: &mut Draft, order: &[NodeId], bits: u32, root: u32) -> Tree {
    let core = 1u32 << bits;
    let extra_steps = u32::from(order.len() as u32 > core);
    let all_steps = bits + extra_steps;
    let lowest_bit = |v: u32| if v == root { bits } else { (v ^ root).trailing_zeros() };
    let mut queue = vec![root];
    let mut edges: Vec<(LaneId, Option<Step>)> = Vec::new();
    for i in 0..core as usize {
        let v = queue[i];
        let mut add = |child: u32, up_step: u32| {
            let down_step = 2 * all_steps + 1 - up_step;
            edges.push((plan.lanes.routed(order[v as usize], order[child as usize]), Step::new(down_step as u16)));
        };
        for bit in (0..lowest_bit(v)).rev() {
            add(v ^ (1 << bit), bit + 1 + extra_steps);
            queue.push(v ^ (1 << bit));
        }
        if v + core < order.len() as u32 {
            add(v + core, 1);
        }
    }
    let down = plan.own_half(edges);
    let span = u64::from(root)..u64::from(root) + 1;
    Tree { span, root: order[root as usize], up: Half::Mirror, down, chunk: Chunk::One }
}
