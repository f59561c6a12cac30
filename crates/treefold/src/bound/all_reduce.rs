//! Rates of all-reduces, and the links that limit them.
//!
//! There are three rates: (a) bounds a reduce-scatter followed by an all-gather; (b) bounds any all-reduce, where both
//! may overlap on the same links, and is up to twice (a); (c) bounds any all-reduce with the help of switches that
//! reduce or multicast.
//!
//! (a) comes from minimum cuts. It is exact where every node that is no rank can send as much as it can receive, except
//! on very large networks. An exact (a) bounds (b) from below. From above it is bounded by the minimum cut between
//! ranks, by the bandwidth of the ranks' links divided by the 2 (N - 1) edges of a tree, and by the strength of the
//! network. (b) is exact where the bounds from below and above meet, or where the strength is exact (on networks
//! without switches whose links have the same bandwidth in both directions); elsewhere it is valid and says that it may
//! not be exact. (c) is the minimum cut, which trees of switches may reach. Where (b) or (c) is not exact, a linear
//! program tightens it (`program.rs`).

use std::collections::{BTreeMap, BTreeSet};

use super::limit::Limit;
use super::{Bound, TOLERANCE, cut, program, strength};
use crate::search::BreadthFirst;
use crate::topology::{Abilities, Expanded, LinkId, NodeId, Topology};
use crate::units::Bandwidth;

/// The most ranks times links for which the strength is computed, which takes a few seconds.
const MAX_STRENGTH_WORK: usize = 1 << 24;

/// The rates of a network's bounds.
#[derive(Debug, Clone)]
pub(super) struct Rates {
    pub two_phases: Bound,
    pub all_reduce: Limited,
    pub in_network: Option<Limited>,
}

/// A bound, and what causes it.
#[derive(Debug, Clone)]
pub(super) struct Limited {
    pub bound: Bound,
    pub limit: Limit,
    /// For each link, the most by which the rate rises for each byte a second that the link gains.
    pub prices: Vec<f64>,
}

/// A rate in bytes a second, how it was found, and what causes it.
type Found = (f64, &'static str, Limit);

/// Computes all rates.
pub(super) fn rates(topology: &Topology) -> Rates {
    by_cuts(topology).tightened(topology)
}

/// Computes all rates, as far as that needs no linear program.
pub(super) fn by_cuts(topology: &Topology) -> Rates {
    let expanded = topology.expanded();
    let topology = &*expanded.network;
    let in_network = topology.nodes().iter().any(|node| node.abilities() != Abilities::NONE);
    if topology.ranks() < 2 {
        let two_phases = Bound { rate: Bandwidth::known(f64::INFINITY), exact: true, method: "nothing to send" };
        let none = Limited::of_links(topology, two_phases, Limit::Links(Vec::new()));
        return Rates { two_phases, in_network: in_network.then(|| none.clone()), all_reduce: none };
    }
    let two_phases = two_phases(&expanded);
    let cut = least_cut(topology);
    let all_reduce = all_reduce(topology, two_phases, cut.clone(), expanded.is_whole);
    let (rate, method, limit) = cut;
    let exact = rate <= all_reduce.bound.rate.bytes_per_second() * (1.0 + TOLERANCE) && all_reduce.bound.exact
        || in_network && expanded.is_whole && rate <= rate_of_planes(topology) * (1.0 + TOLERANCE);
    let bound = Bound { rate: Bandwidth::known(rate), exact, method };
    Rates { two_phases, all_reduce, in_network: in_network.then_some(Limited::of_links(topology, bound, limit)) }
}

/// Computes (a): N blocks of 1/N of the vector at the rates of both phases, one after the other. It is not exact where
/// a switch can receive more than it can send, or the reverse: cuts do not see that the difference is wasted.
fn two_phases(expanded: &Expanded) -> Bound {
    let topology = &*expanded.network;
    let gather = cut::all_gather_rate(topology);
    let scatter = if topology.is_symmetric() { gather.rate } else { cut::all_gather_rate(&topology.transposed()).rate };
    Bound {
        rate: Bandwidth::known(f64::from(topology.ranks()) / (1.0 / gather.rate + 1.0 / scatter)),
        exact: gather.is_exact && expanded.is_whole && is_balanced(topology),
        method: if gather.is_exact { "minimum cuts" } else { "cuts of single ranks" },
    }
}

/// Returns whether every node that is no rank can send as much as it can receive.
pub(super) fn is_balanced(topology: &Topology) -> bool {
    let balanced = |node| {
        let (into, out) = (total(topology, topology.incoming(node)), total(topology, topology.outgoing(node)));
        (into - out).abs() <= TOLERANCE * into.max(out)
    };
    topology.node_ids().skip(topology.ranks() as usize).all(balanced)
}

/// Computes (b): from below by `two_phases` where that is exact, from above by the cheap bounds and the strength. It is
/// not exact if these do not see all that links share.
fn all_reduce(topology: &Topology, two_phases: Bound, cut: Found, sees_all: bool) -> Limited {
    let capacity = ranks_capacity(topology);
    let (cheap, method, limit) = if cut.0 < capacity.0 { cut } else { capacity };
    let reached = |rate: f64| two_phases.exact && rate <= two_phases.rate.bytes_per_second() * (1.0 + TOLERANCE);
    if reached(cheap) {
        let bound = Bound { method: "minimum cuts meet the ranks' capacity", ..two_phases };
        return Limited::of_links(topology, bound, limit);
    }
    if topology.ranks() as usize * topology.links().len() > MAX_STRENGTH_WORK {
        return Limited::of_links(topology, Bound { rate: Bandwidth::known(cheap), exact: false, method }, limit);
    }
    let (strength, parts) = strength_of(topology, cheap);
    // Where no partition is weaker than the cheap bound, the strength is that bound, and its partition is any.
    let is_weaker = strength < cheap * (1.0 - TOLERANCE);
    let (rate, method, limit) = if is_weaker { (strength, "graph strength", parts) } else { (cheap, method, limit) };
    let exact = sees_all && ((topology.is_direct() && topology.is_symmetric()) || reached(rate));
    Limited::of_links(topology, Bound { rate: Bandwidth::known(rate), exact, method }, limit)
}

/// Returns the least bandwidth between any two parts of the network with ranks in both, over which the whole vector, or
/// a sum of it, has to pass in each direction. On large networks only parts of a single rank are compared.
fn least_cut(topology: &Topology) -> Found {
    let mut cut = cut::least_exit(topology);
    let mut limit = Limit::of_cut(topology, &cut.inside, false);
    if !topology.is_symmetric() {
        let back = topology.transposed();
        let into = cut::least_exit(&back);
        if into.rate < cut.rate {
            limit = Limit::of_cut(&back, &into.inside, true);
            cut = into;
        }
    }
    let (own, own_limit) = own_links(topology);
    if cut.rate < own * (1.0 - TOLERANCE) {
        (cut.rate, "minimum cut between ranks", limit)
    } else {
        (own, "cut of one rank", own_limit)
    }
}

/// Returns the least bandwidth into or out of a rank, over which the whole vector, or a sum of it, has to pass.
fn own_links(topology: &Topology) -> (f64, Limit) {
    let of = |rank| [(topology.incoming(rank), true), (topology.outgoing(rank), false)].map(|side| (rank, side));
    let sides = topology.rank_ids().flat_map(of).map(|(rank, (links, into))| (total(topology, links), rank, into));
    let (least, rank, into) = sides.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are ranks");
    let inside: Vec<bool> = topology.node_ids().map(|node| (node == rank) != into).collect();
    (least, Limit::of_cut(topology, &inside, false))
}

/// Returns the rate of a tree in each plane, all planes together. A plane is a set of switches that both reduce and
/// multicast and that cables join. Its tree uses each direction of a cable at most once, so its rate is that of the
/// narrowest cable.
fn rate_of_planes(topology: &Topology) -> f64 {
    let mut joined: BTreeMap<(NodeId, NodeId), f64> = BTreeMap::new();
    for link in topology.links() {
        *joined.entry((link.source, link.target)).or_default() += link.bandwidth.bytes_per_second();
    }
    let able = |node: NodeId| topology.node(node).abilities() == Abilities::BOTH;
    let mut switches = BreadthFirst::new(topology.nodes().len());
    let mut rate = 0.0;
    for start in topology.node_ids().filter(|&node| able(node)) {
        if switches.reaches(start) {
            continue;
        }
        let (mut narrowest, mut ranks) = (f64::INFINITY, BTreeSet::new());
        switches.start(start);
        while let Some(node) = switches.visit() {
            for end in topology.targets(node).filter(|&end| topology.is_rank(end) || able(end)) {
                let Some(back) = joined.get(&(end, node)) else { continue };
                narrowest = narrowest.min(*back).min(joined[&(node, end)]);
                if topology.is_rank(end) {
                    ranks.insert(end);
                } else {
                    switches.offer(end);
                }
            }
        }
        rate += if ranks.len() == topology.ranks() as usize { narrowest } else { 0.0 };
    }
    rate
}

/// Returns the bandwidth of all these links together.
fn total(topology: &Topology, links: &[LinkId]) -> f64 {
    links.iter().map(|&link| topology.link(link).bandwidth.bytes_per_second()).sum()
}

/// Returns the rate that the ranks' links allow: a byte of the vector takes N - 1 tree edges up and N - 1 down, each of
/// which leaves one rank and enters another.
fn ranks_capacity(topology: &Topology) -> Found {
    let links =
        |is_at: &dyn Fn(LinkId) -> bool| -> Vec<LinkId> { topology.link_ids().filter(|&link| is_at(link)).collect() };
    let sides = [
        links(&|link| topology.is_rank(topology.link(link).source)),
        links(&|link| topology.is_rank(topology.link(link).target)),
    ];
    let [out, into] = [0, 1].map(|side| total(topology, &sides[side]));
    let [leaving, entering] = sides;
    let rate = out.min(into) / (2.0 * f64::from(topology.ranks() - 1));
    (rate, "the ranks' capacity", Limit::Links(if out <= into { leaving } else { entering }))
}

/// Returns the strength of the network after two changes: each node that is no rank is joined to a rank near it, and
/// the links of both directions between two nodes become a cable. It is exact for (b) on networks that are so already,
/// and a bound from above on all: whatever crosses between the parts of a partition into k parts with ranks in each
/// takes at least 2 (k - 1) directed crossings. The links between the parts limit it.
fn strength_of(topology: &Topology, known: f64) -> (f64, Limit) {
    let owner = nearest_ranks(topology);
    let mut between: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for link in topology.links() {
        let (Some(a), Some(b)) = (owner[link.source], owner[link.target]) else { continue };
        if a != b {
            *between.entry((a.min(b), a.max(b))).or_default() += link.bandwidth.bytes_per_second() / 2.0;
        }
    }
    let edges: Vec<(usize, usize, f64)> = between.into_iter().map(|((a, b), capacity)| (a, b, capacity)).collect();
    let (strength, part) = strength::strength(topology.ranks() as usize, &edges, known);
    let part_of = |node: NodeId| owner[node].map(|rank| part[rank]);
    let crosses = |&link: &LinkId| part_of(topology.link(link).source) != part_of(topology.link(link).target);
    (strength, Limit::Links(topology.link_ids().filter(crosses).collect()))
}

/// Returns for each node the rank that is fewest links away, searched breadth-first from all ranks at once; `None` for
/// a node that no links join to a rank.
fn nearest_ranks(topology: &Topology) -> Vec<Option<usize>> {
    let mut owner = vec![None; topology.nodes().len()];
    let mut queue: Vec<NodeId> = topology.rank_ids().collect();
    queue.iter().for_each(|&rank| owner[rank] = Some(rank.index()));
    let mut at = 0;
    while at < queue.len() {
        let node = queue[at];
        at += 1;
        let out = topology.outgoing(node).iter().map(|&link| topology.link(link).target);
        for next in out.chain(topology.incoming(node).iter().map(|&link| topology.link(link).source)) {
            if owner[next].is_none() {
                owner[next] = owner[node];
                queue.push(next);
            }
        }
    }
    owner
}

impl Limited {
    /// Returns a bound that is a part of what all links of its limit carry together.
    pub(super) fn of_links(topology: &Topology, bound: Bound, limit: Limit) -> Self {
        let links = limit.links();
        let price = bound.rate.bytes_per_second() / total(topology, links);
        let mut prices = vec![0.0; topology.links().len()];
        links.iter().for_each(|&link| prices[link] = price);
        Self { bound, limit, prices }
    }

    /// Returns the bound with the rate that a linear program finds. The rate cannot be below an exact bound of the
    /// weaker kind, which is the floor: a difference is the program's rounding.
    fn programmed(self, topology: &Topology, with_switches: bool, floor: Bound) -> Self {
        let known = self.bound;
        let Some(found) = program::solve(topology, known.rate.bytes_per_second(), with_switches) else { return self };
        let (proven, is_exact) = (found.upper, found.is_exact());
        let better = proven < known.rate.bytes_per_second() * (1.0 - program::GAP);
        if !better && !is_exact {
            return self;
        }
        // A program that only proves the bound exact does not change it by its rounding.
        let rate = if better { Bandwidth::known(proven) } else { known.rate };
        let rate = if floor.exact && floor.rate > rate { floor.rate } else { rate };
        let method = if is_exact { "linear program" } else { "linear program, stopped early" };
        let (limit, prices) = if better { (found.limit, found.prices) } else { (self.limit, self.prices) };
        Self { bound: Bound { rate, exact: is_exact, method }, limit, prices }
    }
}

impl Rates {
    /// Returns the rates with those of linear programs for all-reduces, with and without the help of switches, where
    /// they are not exact.
    fn tightened(mut self, topology: &Topology) -> Self {
        if !self.all_reduce.bound.exact {
            self.all_reduce = self.all_reduce.programmed(topology, false, self.two_phases);
        }
        if let Some(known) = self.in_network.take() {
            let floor = self.all_reduce.bound;
            self.in_network = Some(if known.bound.exact { known } else { known.programmed(topology, true, floor) });
        }
        self
    }
}
