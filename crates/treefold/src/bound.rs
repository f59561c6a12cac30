//! What no plan can beat, as rates for large vectors.
//!
//! Three bounds: (a) for a reduce-scatter followed by an all-gather; (b) for any all-reduce, where both may overlap on
//! the same links, up to twice (a); (c) the same where switches reduce or multicast. (a) comes from minimum cuts, exact
//! where every node but the ranks can send on all that it can receive and no more, but on very large networks. For (b),
//! `lower <= b <= upper` is known cheaply: an exact (a) from below, and from above the minimum cut between ranks, all
//! links of the ranks over what 2 (N - 1) tree edges take, and the strength of the network. Where they meet, or where
//! the strength is exact (both directions of every link alike, no switches), the bound is exact; otherwise it is valid,
//! and says so. (c) is bounded by the minimum cut, which trees of switches may reach. Python closes what is left of (b)
//! and (c) by a linear program, whose cuts [`find_cuts`] finds and whose result [`Bounds::tightened`] takes.

mod cut;
mod latency;
mod maxflow;
mod strength;

pub use cut::{Links, find_cuts};

use std::collections::{BTreeMap, BTreeSet};

use crate::topology::{Kind, LinkId, Node, NodeId, Topology};
use crate::units::{Bandwidth, Bytes, Time};

/// A bound and how it was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// Bytes of the vector a second; infinite where nothing has to be sent.
    pub rate: Bandwidth,
    /// Whether no smaller rate would be a bound of this kind too.
    pub exact: bool,
    /// How it was found.
    pub method: &'static str,
}

/// The bounds of a network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Of a reduce-scatter followed by an all-gather.
    pub reduce_scatter_all_gather: Bound,
    /// Of any all-reduce without the help of switches.
    pub all_reduce: Bound,
    /// Of any all-reduce; `None` where no switch can reduce or multicast.
    pub in_network: Option<Bound>,
    /// Least latency between the two ranks that are farthest apart.
    pub farthest: Time,
}

/// Most ranks times links for which the strength is computed: a few seconds.
const MAX_STRENGTH_WORK: usize = 1 << 24;

/// Relative differences below this are rounding.
const TOLERANCE: f64 = 1e-9;

/// How far above the truth, as a part of it, a linear program's exact bound may be.
pub const PROGRAM_TOLERANCE: f64 = 1e-7;

/// Computes all bounds, as far as they need no linear program.
pub fn bounds(topology: &Topology) -> Bounds {
    let in_network = topology.nodes().iter().any(|node| node.reduces || node.multicasts);
    if topology.ranks() < 2 {
        let none = Bound { rate: Bandwidth(f64::INFINITY), exact: true, method: "nothing to send" };
        return Bounds {
            reduce_scatter_all_gather: none,
            all_reduce: none,
            in_network: in_network.then_some(none),
            farthest: Time(0),
        };
    }
    let two_phases = two_phases(topology);
    let (cut, cut_method) = least_cut(topology);
    let all_reduce = all_reduce(topology, two_phases, cut, cut_method);
    let exact = cut <= all_reduce.rate.0 * (1.0 + TOLERANCE) && all_reduce.exact
        || in_network && cut <= rate_of_planes(topology) * (1.0 + TOLERANCE);
    let in_network = in_network.then_some(Bound { rate: Bandwidth(cut), exact, method: cut_method });
    Bounds { reduce_scatter_all_gather: two_phases, all_reduce, in_network, farthest: latency::farthest(topology) }
}

/// (a): N blocks of 1/N of the vector at the rates of both phases, one after the other. Cuts do not see that a switch
/// that receives much and sends little, or the reverse, wastes the difference.
fn two_phases(topology: &Topology) -> Bound {
    let (gather, searched) = cut::all_gather_rate(topology);
    let scatter = if topology.is_symmetric() { gather } else { cut::all_gather_rate(&topology.transposed()).0 };
    let rate = Bandwidth(f64::from(topology.ranks()) / (1.0 / gather + 1.0 / scatter));
    Bound {
        rate,
        exact: searched && is_balanced(topology),
        method: if searched { "minimum cuts" } else { "cuts of single ranks" },
    }
}

/// Whether as much bandwidth enters every node that is no rank as leaves it.
fn is_balanced(topology: &Topology) -> bool {
    let balanced = |node| {
        let (into, out) = (total(topology, topology.incoming(node)), total(topology, topology.outgoing(node)));
        (into - out).abs() <= TOLERANCE * into.max(out)
    };
    topology.node_ids().skip(topology.ranks() as usize).all(balanced)
}

/// (b), from below by `two_phases` where that is exact, from above by the cheap bounds and the strength.
fn all_reduce(topology: &Topology, two_phases: Bound, cut: f64, cut_method: &'static str) -> Bound {
    let capacity = (ranks_capacity(topology), "the ranks' capacity");
    let (cheap, method) = if cut < capacity.0 { (cut, cut_method) } else { capacity };
    let reached = |rate: f64| two_phases.exact && rate <= two_phases.rate.0 * (1.0 + TOLERANCE);
    if reached(cheap) {
        return Bound { method: "minimum cuts meet the ranks' capacity", ..two_phases };
    }
    if topology.ranks() as usize * topology.links().len() > MAX_STRENGTH_WORK {
        return Bound { rate: Bandwidth(cheap), exact: false, method };
    }
    let strength = strength_of(topology, cheap);
    let method = if strength <= cheap { "graph strength" } else { method };
    let rate = strength.min(cheap);
    let exact = (topology.is_direct() && topology.is_symmetric()) || reached(rate);
    Bound { rate: Bandwidth(rate), exact, method }
}

/// The least bandwidth between any two parts of the network with ranks in both: the whole vector, or a sum of it, has
/// to pass there once each way. On large networks, of the parts that are one rank.
fn least_cut(topology: &Topology) -> (f64, &'static str) {
    let (out, _) = cut::least_exit(topology);
    let (into, _) = if topology.is_symmetric() { (out, true) } else { cut::least_exit(&topology.transposed()) };
    let (own, rate) = (own_links(topology), out.min(into));
    if rate < own * (1.0 - TOLERANCE) { (rate, "minimum cut between ranks") } else { (own, "cut of one rank") }
}

/// The least that enters or leaves one rank: the whole vector, or a sum of it, has to pass there once each way.
fn own_links(topology: &Topology) -> f64 {
    let of = |rank| total(topology, topology.incoming(rank)).min(total(topology, topology.outgoing(rank)));
    topology.rank_ids().map(of).fold(f64::INFINITY, f64::min)
}

/// What a tree in each plane carries, all together. A plane is switches that both reduce and multicast, joined by
/// cables; its tree uses each direction of a cable at most once, so it carries what the narrowest does.
fn rate_of_planes(topology: &Topology) -> f64 {
    let mut joined: BTreeMap<(NodeId, NodeId), f64> = BTreeMap::new();
    topology.links().iter().for_each(|link| *joined.entry((link.source, link.target)).or_default() += link.bandwidth.0);
    let able = |node: &Node| node.kind == Kind::Switch && node.reduces && node.multicasts;
    let mut new: Vec<bool> = topology.nodes().iter().map(able).collect();
    let mut rate = 0.0;
    for start in topology.node_ids().skip(topology.ranks() as usize) {
        let (mut narrowest, mut ranks, mut stack) = (f64::INFINITY, BTreeSet::new(), vec![start]);
        while let Some(node) = stack.pop() {
            if topology.is_rank(node) {
                ranks.insert(node);
            } else if std::mem::take(&mut new[node]) {
                for end in topology.outgoing(node).iter().map(|&link| topology.link(link).target) {
                    let back = joined.get(&(end, node)).filter(|_| topology.is_rank(end) || able(topology.node(end)));
                    narrowest = back.map_or(narrowest, |back| narrowest.min(*back).min(joined[&(node, end)]));
                    stack.extend(back.map(|_| end));
                }
            }
        }
        rate += if ranks.len() == topology.ranks() as usize { narrowest } else { 0.0 };
    }
    rate
}

/// The bandwidth of all these links.
fn total(topology: &Topology, links: &[LinkId]) -> f64 {
    links.iter().map(|&link| topology.link(link).bandwidth.0).sum()
}

/// A byte of the vector takes N - 1 tree edges up and N - 1 down; each leaves one rank and enters another.
fn ranks_capacity(topology: &Topology) -> f64 {
    let links = topology.links();
    let out: f64 = links.iter().filter(|link| topology.is_rank(link.source)).map(|link| link.bandwidth.0).sum();
    let into: f64 = links.iter().filter(|link| topology.is_rank(link.target)).map(|link| link.bandwidth.0).sum();
    out.min(into) / (2.0 * f64::from(topology.ranks() - 1))
}

/// The strength of the network with every node that is no rank joined to a rank near it, and with a cable for the two
/// directions of links. Exact for (b) on networks that are so already; a bound from above on all: whatever crosses
/// between parts of a partition into k parts with ranks in each takes at least 2 (k - 1) directed crossings.
fn strength_of(topology: &Topology, known: f64) -> f64 {
    let owner = nearest_ranks(topology);
    let mut between: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for link in topology.links() {
        let (a, b) = (owner[link.source], owner[link.target]);
        if a != b {
            *between.entry((a.min(b), a.max(b))).or_default() += link.bandwidth.0 / 2.0;
        }
    }
    let edges: Vec<(usize, usize, f64)> = between.into_iter().map(|((a, b), capacity)| (a, b, capacity)).collect();
    strength::strength(topology.ranks() as usize, &edges, known)
}

/// For each node the rank that is fewest links away, breadth-first from all ranks at once.
fn nearest_ranks(topology: &Topology) -> Vec<usize> {
    let mut owner = vec![usize::MAX; topology.nodes().len()];
    let mut queue: Vec<NodeId> = topology.rank_ids().collect();
    queue.iter().for_each(|&rank| owner[rank] = rank.index());
    let mut at = 0;
    while at < queue.len() {
        let node = queue[at];
        at += 1;
        let out = topology.outgoing(node).iter().map(|&link| topology.link(link).target);
        for next in out.chain(topology.incoming(node).iter().map(|&link| topology.link(link).source)) {
            if owner[next] == usize::MAX {
                owner[next] = owner[node];
                queue.push(next);
            }
        }
    }
    owner
}

impl Bounds {
    /// The same with what a linear program found: a rate that no all-reduce can beat, with or without the help of
    /// switches, and whether it is exact up to [`PROGRAM_TOLERANCE`]. Below an exact rate of the kind before it cannot
    /// be: that is the program's rounding.
    pub fn tightened(mut self, with_switches: bool, rate: Bandwidth, exact: bool) -> Self {
        let floor = if with_switches { self.all_reduce } else { self.reduce_scatter_all_gather };
        let bound = if with_switches { self.in_network.as_mut() } else { Some(&mut self.all_reduce) };
        let Some(bound) = bound else { return self };
        let better = rate.0 < bound.rate.0 * (1.0 - PROGRAM_TOLERANCE);
        if !better && !exact {
            return self;
        }
        let rate = if better { rate } else { bound.rate }; // Without the program's rounding where it only proves.
        let rate = if floor.exact { Bandwidth(rate.0.max(floor.rate.0)) } else { rate };
        *bound = Bound { rate, exact, method: if exact { "linear program" } else { "linear program, stopped early" } };
        self
    }

    /// No all-reduce of `size` bytes is faster than this, in seconds: what the rate allows, and the latency between the
    /// two ranks that are farthest apart, because each needs to hear of the other.
    pub fn seconds(&self, size: Bytes) -> f64 {
        let rate = self.in_network.unwrap_or(self.all_reduce).rate;
        if size.0 == 0 || rate.0.is_infinite() {
            return 0.0;
        }
        rate.seconds_for(size.0 as f64).max(self.farthest.seconds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Link, Shape, from_spec};

    fn of(spec: &str) -> Bounds {
        bounds(&from_spec(spec, Some(Bandwidth(1.0)), None).unwrap())
    }

    #[test]
    fn the_issues_values() {
        for (spec, two_phases, all_reduce) in
            [("torus:4x4", 2.1333, 2.1333), ("mesh:4x4", 1.0667, 1.6), ("dgx2", 0.5333, 0.5333), ("b4", 1.0909, 1.5)]
        {
            let bounds = of(spec);
            assert!((bounds.reduce_scatter_all_gather.rate.0 - two_phases).abs() < 1e-4, "{spec} {bounds:?}");
            assert!((bounds.all_reduce.rate.0 - all_reduce).abs() < 1e-4, "{spec} {bounds:?}");
            assert!(bounds.all_reduce.exact, "{spec} {bounds:?}");
        }
        assert_eq!(
            of("dgx2").in_network.unwrap(),
            Bound { rate: Bandwidth(1.0), exact: true, method: "cut of one rank" }
        );
        assert_eq!(of("dgx2:planes=6").in_network.unwrap().rate.0, 6.0);
        assert!(of("dgx2:planes=6").in_network.unwrap().exact);
    }

    #[test]
    fn cuts_are_not_exact_where_a_switch_receives_more_than_it_sends() {
        let link = |(source, target)| Link {
            source: NodeId(source),
            target: NodeId(target),
            bandwidth: Bandwidth(1.0),
            latency: Time(0),
            overhead: Time(0),
        };
        let ends = [(0, 2), (1, 2), (2, 3), (3, 0), (3, 1)];
        let nodes = ["u", "v"].map(Node::accelerator).into_iter().chain(["s", "w"].map(Node::switch)).collect();
        let topology = Topology::new("funnel", nodes, ends.map(link).to_vec(), None, Shape::General).unwrap();
        let bounds = bounds(&topology);
        assert!(!bounds.reduce_scatter_all_gather.exact && !bounds.all_reduce.exact, "{bounds:?}");
        assert_eq!(bounds.tightened(false, Bandwidth(0.5), true).all_reduce.rate.0, 0.5);
    }
}
