//! The cut bound of reduce-scatter followed by all-gather.
//!
//! In an all-gather every rank's block must leave every set S that lacks some rank, so it takes at least
//! `|S ∩ ranks| / exit bandwidth(S)` per byte of block, and a schedule that takes no longer exists (Edmonds'
//! branchings; ForestColl, Zhao et al. 2024). The worst S is found by Newton's method (Dinkelbach): with every rank
//! fed at rate x, some rank v cannot receive from all exactly when a minimum cut before v has less than N x; that cut
//! has a better ratio; repeat. Converges in a few rounds of N maximum flows. A reduce-scatter is an all-gather on the
//! transposed network.

use super::maxflow::FlowNetwork;
use crate::topology::Topology;

/// Most ranks times links for which cuts are searched: about a second.
const MAX_WORK: usize = 1 << 21;

/// The most that every rank can feed to all others at once, in bytes a second of block, and whether it is exact: on
/// networks too large to search, only the cuts round single ranks are looked at.
pub(super) fn all_gather_rate(topology: &Topology) -> (f64, bool) {
    let ranks = topology.ranks() as usize;
    if ranks * topology.links().len() > MAX_WORK {
        return (first_guess(topology), false);
    }
    let source = topology.nodes().len();
    let mut network = FlowNetwork::new(source + 1);
    for link in topology.links() {
        network.add(link.source as usize, link.target as usize, link.bandwidth.0, 0.0);
    }
    let mut rate = first_guess(topology);
    let feeds: Vec<usize> = (0..ranks).map(|rank| network.add(source, rank, rate, 0.0)).collect();
    // A rank that was served at a higher rate is served at a lower one: each is looked at until it is, once.
    for target in 0..ranks {
        loop {
            feeds.iter().for_each(|&feed| network.set_capacity(feed, rate));
            let needed = rate * ranks as f64;
            if network.flow(source, target, needed) >= needed * (1.0 - 1e-9) {
                break;
            }
            let better = ratio(topology, &network.source_side(source));
            if better >= rate {
                break;
            }
            rate = better;
        }
    }
    (rate, true)
}

/// The ratio of the sets that leave out one rank: what that rank's links let in, shared by the others.
fn first_guess(topology: &Topology) -> f64 {
    let entry = |rank| topology.incoming(rank).iter().map(|&link| topology.link(link).bandwidth.0).sum::<f64>();
    let others = f64::from(topology.ranks() - 1);
    (0..topology.ranks()).map(|rank| entry(rank) / others).fold(f64::INFINITY, f64::min)
}

/// Exit bandwidth of a set over its ranks.
fn ratio(topology: &Topology, inside: &[bool]) -> f64 {
    let leaves = |link: &&crate::topology::Link| inside[link.source as usize] && !inside[link.target as usize];
    let exit: f64 = topology.links().iter().filter(leaves).map(|link| link.bandwidth.0).sum();
    let ranks = (0..topology.ranks() as usize).filter(|&rank| inside[rank]).count();
    exit / ranks as f64
}
