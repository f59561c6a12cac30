//! Cuts before ranks: how much every rank can broadcast at the same time.
//!
//! If each node v broadcasts at rate x(v), all of it must leave every set S that lacks some rank. So all rates can grow
//! by a factor of at most `bandwidth out of S / x(S)`; and the least such ratio can be reached (Edmonds' branchings;
//! ForestColl, Zhao et al. 2024) if nodes that are no ranks send as much as they receive. Newton's method (Dinkelbach)
//! finds the worst S: feed every node at its rate; some rank cannot receive from all exactly when a minimum cut before
//! it has less than the sum of the rates; that cut has a smaller ratio; repeat. A flow that ends at one rank is sent on
//! to the next, so that all N ranks cost little more than one maximum flow. A reduction is a broadcast on the
//! transposed network.

use super::TOLERANCE;
use super::maxflow::FlowNetwork;
use crate::topology::{NodeId, Topology};

/// The most ranks times links for which cuts are searched, which takes a few seconds (a 64x64 torus has half of it and
/// takes two).
const MAX_WORK: usize = 1 << 27;

/// Directed links with capacities between nodes, of which the ranks are first.
pub(super) struct Links<'a> {
    /// How many nodes there are.
    pub nodes: usize,
    /// The source and the target of each link.
    pub ends: &'a [(NodeId, NodeId)],
    /// The capacity of each link.
    pub capacity: &'a [f64],
}

/// A rate that cuts allow.
#[derive(Debug, Clone)]
pub(super) struct CutRate {
    pub rate: f64,
    /// Whether each node is in the set that limits the rate: what its ranks broadcast has to leave it.
    pub inside: Vec<bool>,
    /// Whether all cuts were compared, and not only those around single ranks.
    pub is_exact: bool,
}

/// Returns the rate at which every rank can broadcast its block to all others at once, in bytes a second.
pub(super) fn all_gather_rate(topology: &Topology) -> CutRate {
    rate(topology, &vec![1.0; topology.ranks() as usize])
}

/// Returns the rate at which one rank can broadcast to all others, in bytes a second.
pub(super) fn broadcast_rate(topology: &Topology, root: NodeId) -> CutRate {
    let mut weights = vec![0.0; topology.ranks() as usize];
    weights[root] = 1.0;
    rate(topology, &weights)
}

/// Returns the least bandwidth out of any set of nodes that has rank 0 and lacks another rank.
pub(super) fn least_exit(topology: &Topology) -> CutRate {
    broadcast_rate(topology, NodeId(0))
}

fn rate(topology: &Topology, weights: &[f64]) -> CutRate {
    let ends: Vec<(NodeId, NodeId)> = topology.links().iter().map(|link| (link.source, link.target)).collect();
    let capacity: Vec<f64> = topology.links().iter().map(|link| link.bandwidth.bytes_per_second()).collect();
    let links = Links { nodes: topology.nodes().len(), ends: &ends, capacity: &capacity };
    let (guess, around) = links.first_guess(weights);
    if weights.len() * ends.len() > MAX_WORK {
        return CutRate { rate: guess, inside: around, is_exact: false };
    }
    let (rate, inside) = largest_factor(&links, weights, guess, 0..weights.len());
    CutRate { rate, inside: inside.unwrap_or(around), is_exact: true }
}

/// Returns the largest factor, at most `factor`, with which the nodes `0..weights.len()` can broadcast to `targets` at
/// the rates `weights` times the factor; and the set of nodes that asks for a factor below the given one.
fn largest_factor(
    links: &Links,
    weights: &[f64],
    factor: f64,
    targets: impl Iterator<Item = usize>,
) -> (f64, Option<Vec<bool>>) {
    let total: f64 = weights.iter().sum();
    let (mut factor, mut inside) = (factor, None);
    let mut feeding = Feeding::new(links, weights, factor);
    for target in targets {
        // A rank that was served at a higher rate is served at a lower one, so each target is tried until it is served,
        // and then never again.
        while !feeding.send_to(target, total * factor) {
            let cut = feeding.first_cut();
            let better = links.ratio(weights, &cut);
            let is_lower = better < factor * (1.0 - TOLERANCE);
            if better < factor {
                (factor, inside) = (better, Some(cut));
            }
            feeding.restart(weights, factor);
            if !is_lower {
                break;
            }
        }
    }
    (factor, inside)
}

/// Returns the largest factor, at most 1, with which nodes can broadcast to the ranks `0..ranks` at the rates `weights`
/// (not all 0) times the factor. Also returns sets of nodes, as flags, that prove a factor below 1: for each rank that
/// cannot receive `weights`, the smallest and the largest minimum cut before it.
pub(super) fn find_cuts(links: &Links, weights: &[f64], ranks: usize) -> (f64, Vec<Vec<bool>>) {
    let total: f64 = weights.iter().sum();
    let mut feeding = Feeding::new(links, weights, 1.0);
    let (mut overloaded, mut cuts) = (Vec::new(), Vec::new());
    for target in 0..ranks {
        let before = feeding.network.flow_so_far();
        if !feeding.send_to(target, total) {
            overloaded.push(target);
            cuts.extend([feeding.first_cut(), feeding.last_cut(target)]);
            feeding.network.back_to(before);
        }
    }
    cuts.sort_unstable();
    cuts.dedup();
    let least = cuts.iter().map(|cut| links.ratio(weights, cut)).fold(1.0, f64::min);
    (largest_factor(links, weights, least, overloaded.into_iter()).0, cuts)
}

/// A flow that feeds all nodes at their rates and ends at one node.
struct Feeding {
    network: FlowNetwork,
    feeds: Vec<usize>,
    source: usize,
    /// The node at which the flow ends.
    at: usize,
}

impl Feeding {
    fn new(links: &Links, weights: &[f64], factor: f64) -> Self {
        let source = links.nodes;
        let mut network = FlowNetwork::new(source + 1);
        for (&(from, to), &capacity) in links.ends.iter().zip(links.capacity) {
            network.add(from.index(), to.index(), capacity, 0.0);
        }
        let feeds = (0..weights.len()).map(|node| network.add(source, node, 0.0, 0.0)).collect();
        let mut feeding = Self { network, feeds, source, at: source };
        feeding.restart(weights, factor);
        feeding
    }

    /// Goes back to no flow, with new feeds.
    fn restart(&mut self, weights: &[f64], factor: f64) {
        for (&feed, weight) in self.feeds.iter().zip(weights) {
            self.network.set_capacity(feed, weight * factor);
        }
        self.network.reset();
        self.at = self.source;
    }

    /// Sends the flow of size `total` on to `target`; returns false if not all of it can get there.
    fn send_to(&mut self, target: usize, total: f64) -> bool {
        if self.network.augment(self.at, target, total) < total * (1.0 - TOLERANCE) {
            return false;
        }
        self.at = target;
        true
    }

    /// Returns the nodes before the first minimum cut. It must follow a call of `send_to` that has failed.
    fn first_cut(&self) -> Vec<bool> {
        let mut inside = self.network.source_side(self.at);
        inside.truncate(self.source);
        inside
    }

    /// Returns the nodes before the last minimum cut. It must follow a call of `send_to` that has failed.
    fn last_cut(&self, target: usize) -> Vec<bool> {
        let mut inside = self.network.outside_sink_side(target);
        inside.truncate(self.source);
        inside
    }
}

impl Links<'_> {
    /// Returns the least ratio of the sets that lack a single rank: the capacity into that rank over the feeds of the
    /// others. Also returns that set.
    fn first_guess(&self, weights: &[f64]) -> (f64, Vec<bool>) {
        let mut entry = vec![0.0; self.nodes];
        for (&(_, target), capacity) in self.ends.iter().zip(self.capacity) {
            entry[target] += capacity;
        }
        let total: f64 = weights.iter().sum();
        let ratios = weights.iter().zip(entry).map(|(weight, entry)| entry / (total - weight).max(0.0)).enumerate();
        let least = ratios.filter(|(_, ratio)| !ratio.is_nan()).min_by(|a, b| a.1.total_cmp(&b.1));
        let (rank, ratio) = least.expect("a rank has others to hear of");
        (ratio, (0..self.nodes).map(|node| node != rank).collect())
    }

    /// Returns the capacity out of a set over the feeds of its nodes.
    fn ratio(&self, weights: &[f64], inside: &[bool]) -> f64 {
        let leaves = |(source, target): (NodeId, NodeId)| inside[source] && !inside[target];
        let exit: f64 = self.ends.iter().zip(self.capacity).filter(|(ends, _)| leaves(**ends)).map(|(_, c)| c).sum();
        let fed: f64 = weights.iter().zip(inside).filter(|(_, inside)| **inside).map(|(weight, _)| weight).sum();
        exit / fed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::topology::{Abilities, Link, Node, Shape};
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
            source: NodeId(source),
            target: NodeId(target),
            bandwidth: Bandwidth::known(0.1 + random.unit()),
            latency: Time::ZERO,
            overhead: Time::ZERO,
            streams: None,
        };
        let links = ends.into_iter().map(&mut link).collect();
        let named = |node: u32| {
            if node < ranks {
                Node::accelerator(node.to_string())
            } else {
                Node::switch(node.to_string(), Abilities::NONE)
            }
        };
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
            let ends: Vec<(NodeId, NodeId)> = topology.links().iter().map(|link| (link.source, link.target)).collect();
            let capacity: Vec<f64> = topology.links().iter().map(|link| link.bandwidth.bytes_per_second()).collect();
            let links = Links { nodes, ends: &ends, capacity: &capacity };
            let least = cutting.map(|set| links.ratio(&vec![1.0; ranks], &set)).fold(f64::INFINITY, f64::min);
            let CutRate { rate, is_exact, inside } = all_gather_rate(&topology);
            assert!(is_exact && (rate - least).abs() < 1e-9 * least, "{rate} {least} {topology:?}");
            assert!((links.ratio(&vec![1.0; ranks], &inside) - least).abs() < 1e-9 * least, "{inside:?}");
        }
    }
}
