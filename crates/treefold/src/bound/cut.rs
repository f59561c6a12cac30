//! The cut bound of reduce-scatter followed by all-gather.
//!
//! In an all-gather every rank's block must leave every set S that lacks some rank, so it takes at least
//! `|S ∩ ranks| / exit bandwidth(S)` per byte of block, and a schedule that takes no longer exists (Edmonds'
//! branchings; ForestColl, Zhao et al. 2024). The worst S is found by Newton's method (Dinkelbach): with every rank
//! fed at rate x, some rank v cannot receive from all exactly when a minimum cut before v has less than N x; that cut
//! has a better ratio; repeat. A flow that ends at one rank is sent on to the next, so that all N ranks cost little more
//! than one maximum flow. A reduce-scatter is an all-gather on the transposed network.

use super::TOLERANCE;
use super::maxflow::FlowNetwork;
use crate::topology::Topology;

/// Most ranks times links for which cuts are searched: a few seconds (a 64x64 torus has half of it and takes two).
const MAX_WORK: usize = 1 << 27;

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
    network.reset();
    let mut at = source; // Where the flow of all feeds ends so far: it is sent on from rank to rank.
    for target in 0..ranks {
        // A rank that was served at a higher rate is served at a lower one: each is looked at until it is, once.
        loop {
            let needed = rate * ranks as f64;
            if network.augment(at, target, needed) >= needed * (1.0 - TOLERANCE) {
                at = target;
                break;
            }
            let better = ratio(topology, &network.source_side(at));
            let found = better < rate * (1.0 - TOLERANCE);
            rate = rate.min(better);
            feeds.iter().for_each(|&feed| network.set_capacity(feed, rate));
            network.reset();
            at = source;
            if !found {
                break;
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::topology::{Link, Node, Shape};
    use crate::units::{Bandwidth, Time};

    /// A random network of up to seven nodes, the last few no ranks, that a one-way ring holds together.
    fn network(random: &mut Random) -> Topology {
        let nodes = 2 + random.below(6) as u32;
        let ranks = (2 + random.below(nodes as u64) as u32).min(nodes);
        let mut ends: Vec<(u32, u32)> = (0..nodes).map(|node| (node, (node + 1) % nodes)).collect();
        ends.extend(
            (0..random.below(10)).map(|_| (random.below(nodes as u64) as u32, random.below(nodes as u64) as u32)),
        );
        ends.retain(|(source, target)| source != target);
        let mut link = |(source, target)| Link {
            source,
            target,
            bandwidth: Bandwidth(0.1 + random.unit()),
            latency: Time(0),
            overhead: Time(0),
        };
        let links = ends.into_iter().map(&mut link).collect();
        let named =
            |node: u32| if node < ranks { Node::accelerator(node.to_string()) } else { Node::switch(node.to_string()) };
        Topology::new("random", (0..nodes).map(named).collect(), links, None, Shape::General).unwrap()
    }

    #[test]
    fn the_rate_is_the_least_ratio_over_all_sets() {
        let mut random = Random::new(3);
        for _ in 0..500 {
            let topology = network(&mut random);
            let nodes = topology.nodes().len();
            let sets =
                (1_u32..1 << nodes).map(|set| (0..nodes).map(|node| set >> node & 1 == 1).collect::<Vec<bool>>());
            let ranks = topology.ranks() as usize;
            let cutting = sets.filter(|set| set[..ranks].contains(&true) && set[..ranks].contains(&false));
            let least = cutting.map(|set| ratio(&topology, &set)).fold(f64::INFINITY, f64::min);
            let (rate, exact) = all_gather_rate(&topology);
            assert!(exact && (rate - least).abs() < 1e-9 * least, "{rate} {least} {topology:?}");
        }
    }
}
