//! Ring all-reduce (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
//! workstations", 2009; Baidu, 2017).
//!
//! N trees carry 1/N of the vector each. Both halves of a tree are chains in the same direction around one ring. Part r
//! starts at the rank after r, gathers N - 1 contributions on its route to r, and goes around once more with the
//! result. It takes 2 (N - 1) steps; each rank sends 2 (N - 1) / N of the vector, which is optimal for one link a rank.
//! This is the papers' baseline, which uses one link of each node; see `multiring` for the strong one. The ring is
//! short (see `tour`), unless a caller gave the order of the ranks (`in_given_order`): then it visits them in that
//! order.
//!
//! Cost: linear in the edges, of which there are N (N - 1).

use std::sync::Arc;

use super::{Options, tour};
use crate::error::Result;
use crate::plan::{Chunk, Draft, LaneId, LaneRef, LaneRoutes, Pace, Sharing, Step, Tree};
use crate::topology::{NodeId, Topology};
use crate::units::{Bandwidth, Bytes};

pub(super) fn plan(topology: &Arc<Topology>, options: &Options) -> Result<Draft> {
    let ranks = topology.ranks();
    let mut plan = Draft::new(topology, "ring", ranks.into());
    let order = if topology.is_ordered() {
        topology.rank_ids().collect()
    } else {
        tour::ring_order(topology, Bytes::known(options.size.get() / u64::from(ranks)))
    };
    let ring = Ring::routed(&mut plan, &order);
    let trees = ring.trees(&mut plan, |root| u64::from(root)..u64::from(root) + 1);
    push_ring_phase(&mut plan, trees, &ring.lanes);
    Ok(plan)
}

/// The ranks in the order in which a ring visits them, and the lane out of each.
pub(super) struct Ring {
    pub order: Vec<NodeId>,
    pub lanes: Vec<LaneId>,
}

impl Ring {
    /// Returns a ring whose hops the topology routes.
    pub fn routed(plan: &mut Draft, order: &[NodeId]) -> Self {
        let count = order.len();
        let hops = (0..count).filter(|_| count > 1).map(|i| (order[i], order[(i + 1) % count]));
        let lanes = hops.map(|(from, to)| plan.lanes.routed(from, to)).collect();
        Self { order: order.to_vec(), lanes }
    }

    /// Returns one tree a rank; `span` returns the span of the tree that is rooted there.
    pub fn trees(&self, plan: &mut Draft, span: impl Fn(NodeId) -> std::ops::Range<u64>) -> Vec<Tree> {
        let count = self.order.len();
        let hops = count - 1;
        let tree = |(position, &root): (usize, &NodeId)| {
            let lane = |i: usize| self.lanes[(position + i) % count];
            let up = plan
                .own_half((1..=hops).map(|distance| (lane(count - distance), Step::new((count - distance) as u16))));
            let down =
                plan.own_half((0..hops).map(|distance| (lane(distance), Step::new((hops + 1 + distance) as u16))));
            Tree { span: span(root), root, up, down, chunk: Chunk::One }
        };
        self.order.iter().enumerate().map(tree).collect()
    }
}

/// Appends rings that run at the same time, with equal parts of the vector, of which each rank has one for every ring.
pub(super) fn push_rings(plan: &mut Draft, rings: &[Ring]) {
    let (count, mut trees) = (rings.len() as u64, Vec::new());
    for (number, ring) in (0..).zip(rings) {
        trees.extend(ring.trees(plan, |root| {
            let start = u64::from(root) * count + number;
            start..start + 1
        }));
    }
    let lanes: Vec<LaneId> = rings.iter().flat_map(|ring| ring.lanes.iter().copied()).collect();
    push_ring_phase(plan, trees, &lanes);
}

/// Appends rings that run at the same time and use all `lanes` in every step.
pub(super) fn push_ring_phase(plan: &mut Draft, trees: Vec<Tree>, lanes: &[LaneId]) {
    let sharing = exclusive_unit(plan, lanes).map_or(Sharing::Shared, Sharing::Transfers);
    plan.push_phase(Pace::Step(sharing), trees);
}

/// Returns the narrowest bandwidth among the links of `lanes`, so that each may be promised a link of its own; `None`
/// if two of them share a link.
pub(super) fn exclusive_unit(plan: &Draft, lanes: &[LaneId]) -> Option<Bandwidth> {
    let topology = &plan.topology;
    let routes = LaneRoutes::new(topology, &plan.lanes);
    let mut used = vec![false; topology.links().len()];
    let mut narrowest = f64::INFINITY;
    for &link in lanes.iter().flat_map(|&lane| routes.of(LaneRef::new(lane, false))) {
        if std::mem::replace(&mut used[link], true) {
            return None;
        }
        narrowest = narrowest.min(topology.link(link).bandwidth.bytes_per_second());
    }
    narrowest.is_finite().then_some(Bandwidth::known(narrowest))
}
