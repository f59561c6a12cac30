//! Cuts around ranks, and around those that share a switch, as servers do: what ranks inside have for those outside has
//! to leave, and the reverse. Such a cut is often what limits an all-to-all, and costs a look at each link.

use crate::blocks::{Blocks, share};
use crate::topology::{Link, NodeId, Topology};

/// The most nodes times links that are looked at.
const MOST_WORK: usize = 1 << 26;

/// Returns the least bytes a second for each share that a cut allows, and a price for each link: those of the cut cost
/// 1. Without a cut that limits anything, the rate is infinite.
pub(super) fn least(topology: &Topology, blocks: Option<&Blocks>) -> (f64, Vec<f64>) {
    let mut best = (f64::INFINITY, vec![0.0; topology.links().len()]);
    let most = MOST_WORK / topology.links().len().max(1);
    for node in topology.node_ids().take(most) {
        let inside = around(topology, node);
        for is_out in [true, false] {
            let crosses = |link: &Link| inside[link.source] != inside[link.target] && inside[link.source] == is_out;
            let width =
                topology.links().iter().filter(|link| crosses(link)).map(|link| link.bandwidth.bytes_per_second());
            let rate = width.sum::<f64>() / shares_across(topology, blocks, &inside, is_out);
            if rate < best.0 {
                best = (rate, topology.links().iter().map(|link| f64::from(u8::from(crosses(link)))).collect());
            }
        }
    }
    best
}

/// Returns whether each node is this one or, if this one is no rank, a rank that is joined to it.
fn around(topology: &Topology, node: NodeId) -> Vec<bool> {
    let mut inside = vec![false; topology.nodes().len()];
    inside[node] = true;
    if !topology.is_rank(node) {
        topology.targets(node).filter(|&end| topology.is_rank(end)).for_each(|end| inside[end] = true);
    }
    inside
}

/// Returns the shares that the ranks inside have for those outside, or the reverse.
fn shares_across(topology: &Topology, blocks: Option<&Blocks>, inside: &[bool], is_out: bool) -> f64 {
    let (within, without): (Vec<NodeId>, Vec<NodeId>) = topology.rank_ids().partition(|&rank| inside[rank]);
    let shares = |&giver: &NodeId| {
        let of = |&other: &NodeId| if is_out { share(blocks, giver, other) } else { share(blocks, other, giver) };
        without.iter().map(of).sum::<u64>()
    };
    within.iter().map(shares).sum::<u64>() as f64
}
