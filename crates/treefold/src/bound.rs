//! Bounds: rates for large vectors that no plan can exceed.
//!
//! Least times of any size, and other collectives' rates, are in `bound/collectives.rs`. Of all-reduces there are three
//! rates: (a) bounds a reduce-scatter followed by an all-gather; (b) bounds any all-reduce, where both may overlap on
//! the same links, and is up to twice (a); (c) bounds any all-reduce with the help of switches that reduce or
//! multicast.
//!
//! (a) comes from minimum cuts. It is exact where every node that is no rank can send as much as it can receive, except
//! on very large networks. An exact (a) bounds (b) from below. From above it is bounded by the minimum cut between
//! ranks, by the bandwidth of the ranks' links divided by the 2 (N - 1) edges of a tree, and by the strength of the
//! network. (b) is exact where the bounds from below and above meet, or where the strength is exact (on networks
//! without switches whose links have the same bandwidth in both directions); elsewhere it is valid and says that it may
//! not be exact. (c) is the minimum cut, which trees of switches may reach. Where (b) or (c) is not exact, a linear
//! program tightens it (`bound/program.rs`).

mod collectives;
mod concurrent;
mod cut;
mod latency;
mod maxflow;
mod powers;
mod program;
mod quickest;
mod strength;

pub use collectives::{CollectiveBounds, Kind, Limit};
pub(crate) use concurrent::{all_to_all_rate, rate_by_prices};
pub(crate) use latency::distances_passing;
pub(crate) use powers::exp2;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::memory::Memory;
use crate::search::BreadthFirst;
use crate::topology::{Abilities, LinkId, NodeId, Topology};
use crate::units::{Bandwidth, Bytes, Seconds};

/// A bound, and how it was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// The bytes of the vector a second; infinite where nothing has to be sent.
    pub rate: Bandwidth,
    /// Whether the bound is exact: no smaller rate would be a bound.
    pub exact: bool,
    /// The method that has found it.
    pub method: &'static str,
}

/// The bounds of a network.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// The bound of a reduce-scatter followed by an all-gather.
    pub reduce_scatter_all_gather: Bound,
    /// The bound of any all-reduce without the help of switches.
    pub all_reduce: Bound,
    /// The bound of any all-reduce with the help of switches; `None` where no switch can reduce or multicast.
    pub in_network: Option<Bound>,
    /// The least times of any all-reduce, with the help of switches where they can.
    pub of_sizes: Arc<CollectiveBounds>,
}

/// The rates of a network's bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rates {
    two_phases: Bound,
    all_reduce: Bound,
    in_network: Option<Bound>,
}

/// The most ranks times links for which the strength is computed, which takes a few seconds.
const MAX_STRENGTH_WORK: usize = 1 << 24;

/// Relative differences below this one are rounding.
const TOLERANCE: f64 = 1e-9;

/// Returns the rate at which every rank can broadcast its block to all others at once, in bytes a second, as far as
/// cuts limit it.
pub(crate) fn all_gather_rate(topology: &Topology) -> f64 {
    cut::all_gather_rate(topology).rate
}

/// Returns the rate at which a rank can broadcast to all others, in bytes a second, as far as cuts limit it.
pub(crate) fn broadcast_rate(topology: &Topology, root: NodeId) -> f64 {
    cut::broadcast_rate(topology, root).rate
}

/// Returns the rate that no all-reduce exceeds in which switches only forward, in bytes a second.
pub(crate) fn all_reduce_rate(topology: &Arc<Topology>) -> f64 {
    rates(topology).all_reduce.rate.bytes_per_second()
}

/// Returns the rate that no all-reduce exceeds in which switches help, in bytes a second; `None` if none can.
pub(crate) fn in_network_rate(topology: &Arc<Topology>) -> Option<f64> {
    Some(rates(topology).in_network?.rate.bytes_per_second())
}

fn rates(topology: &Arc<Topology>) -> Arc<Rates> {
    static RATES: Memory<(), Rates> = Memory::new();
    RATES.get(topology, (), || by_cuts(topology).tightened(topology))
}

/// Returns all bounds, as [`bounds`] does; those of the last networks are kept.
///
/// ```
/// use std::sync::Arc;
/// use treefold::bound::{bounds, kept};
/// use treefold::topology::from_spec;
///
/// let ring = Arc::new(from_spec("ring:8", None, None)?);
/// assert_eq!(kept(&ring).all_reduce, bounds(&ring).all_reduce);
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn kept(topology: &Arc<Topology>) -> Arc<Bounds> {
    static BOUNDS: Memory<(), Bounds> = Memory::new();
    BOUNDS.get(topology, (), || Bounds::new(topology, *rates(topology)))
}

/// Returns the bounds of a collective, as [`CollectiveBounds::new`] does; those of the last networks are kept.
///
/// ```
/// use std::sync::Arc;
/// use treefold::bound::{Kind, of_collective};
/// use treefold::topology::from_spec;
///
/// let ring = Arc::new(from_spec("ring:8", None, None)?);
/// assert!(of_collective(&ring, Kind::AllGather).rate.exact);
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn of_collective(topology: &Arc<Topology>, kind: Kind) -> Arc<CollectiveBounds> {
    static OF_COLLECTIVES: Memory<Kind, CollectiveBounds> = Memory::new();
    OF_COLLECTIVES.get(topology, kind.clone(), || CollectiveBounds::new(topology, kind))
}

/// Computes all bounds.
///
/// ```
/// use treefold::bound::bounds;
/// use treefold::topology::from_spec;
/// use treefold::units::parse_bandwidth;
///
/// let ring = bounds(&from_spec("ring:8", Some(parse_bandwidth("7GB/s")?), None)?);
/// // A rank has two links of 7 GB/s, over which 2 (8 - 1) / 8 of the vector have to go.
/// assert!((ring.all_reduce.rate.seconds_for(8e9).get() - 1.0).abs() < 1e-9);
/// assert!(ring.all_reduce.exact && ring.in_network.is_none());
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn bounds(topology: &Topology) -> Bounds {
    Bounds::new(topology, by_cuts(topology).tightened(topology))
}

/// Computes all rates, as far as that needs no linear program.
fn by_cuts(topology: &Topology) -> Rates {
    let in_network = topology.nodes().iter().any(|node| node.abilities() != Abilities::NONE);
    if topology.ranks() < 2 {
        let none = Bound { rate: Bandwidth::known(f64::INFINITY), exact: true, method: "nothing to send" };
        return Rates { two_phases: none, all_reduce: none, in_network: in_network.then_some(none) };
    }
    let two_phases = two_phases(topology);
    let (cut, cut_method) = least_cut(topology);
    let all_reduce = all_reduce(topology, two_phases, cut, cut_method);
    let exact = cut <= all_reduce.rate.bytes_per_second() * (1.0 + TOLERANCE) && all_reduce.exact
        || in_network && cut <= rate_of_planes(topology) * (1.0 + TOLERANCE);
    let in_network = in_network.then_some(Bound { rate: Bandwidth::known(cut), exact, method: cut_method });
    Rates { two_phases, all_reduce, in_network }
}

/// Computes (a): N blocks of 1/N of the vector at the rates of both phases, one after the other. It is not exact where
/// a switch can receive more than it can send, or the reverse: cuts do not see that the difference is wasted.
fn two_phases(topology: &Topology) -> Bound {
    let gather = cut::all_gather_rate(topology);
    let scatter = if topology.is_symmetric() { gather } else { cut::all_gather_rate(&topology.transposed()) };
    let rate = Bandwidth::known(f64::from(topology.ranks()) / (1.0 / gather.rate + 1.0 / scatter.rate));
    Bound {
        rate,
        exact: gather.is_exact && is_balanced(topology),
        method: if gather.is_exact { "minimum cuts" } else { "cuts of single ranks" },
    }
}

/// Returns whether every node that is no rank can send as much as it can receive.
fn is_balanced(topology: &Topology) -> bool {
    let balanced = |node| {
        let (into, out) = (total(topology, topology.incoming(node)), total(topology, topology.outgoing(node)));
        (into - out).abs() <= TOLERANCE * into.max(out)
    };
    topology.node_ids().skip(topology.ranks() as usize).all(balanced)
}

/// Computes (b): from below by `two_phases` where that is exact, from above by the cheap bounds and the strength.
fn all_reduce(topology: &Topology, two_phases: Bound, cut: f64, cut_method: &'static str) -> Bound {
    let capacity = (ranks_capacity(topology), "the ranks' capacity");
    let (cheap, method) = if cut < capacity.0 { (cut, cut_method) } else { capacity };
    let reached = |rate: f64| two_phases.exact && rate <= two_phases.rate.bytes_per_second() * (1.0 + TOLERANCE);
    if reached(cheap) {
        return Bound { method: "minimum cuts meet the ranks' capacity", ..two_phases };
    }
    if topology.ranks() as usize * topology.links().len() > MAX_STRENGTH_WORK {
        return Bound { rate: Bandwidth::known(cheap), exact: false, method };
    }
    let strength = strength_of(topology, cheap);
    let method = if strength <= cheap { "graph strength" } else { method };
    let rate = strength.min(cheap);
    let exact = (topology.is_direct() && topology.is_symmetric()) || reached(rate);
    Bound { rate: Bandwidth::known(rate), exact, method }
}

/// Returns the least bandwidth between any two parts of the network with ranks in both, over which the whole vector, or
/// a sum of it, has to pass in each direction. On large networks only parts of a single rank are compared.
fn least_cut(topology: &Topology) -> (f64, &'static str) {
    let out = cut::least_exit(topology).rate;
    let into = if topology.is_symmetric() { out } else { cut::least_exit(&topology.transposed()).rate };
    let (own, rate) = (own_links(topology), out.min(into));
    if rate < own * (1.0 - TOLERANCE) { (rate, "minimum cut between ranks") } else { (own, "cut of one rank") }
}

/// Returns the least bandwidth into or out of a rank, over which the whole vector, or a sum of it, has to pass.
fn own_links(topology: &Topology) -> f64 {
    let of = |rank| total(topology, topology.incoming(rank)).min(total(topology, topology.outgoing(rank)));
    topology.rank_ids().map(of).fold(f64::INFINITY, f64::min)
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
fn ranks_capacity(topology: &Topology) -> f64 {
    let links = topology.links();
    let out: f64 =
        links.iter().filter(|link| topology.is_rank(link.source)).map(|link| link.bandwidth.bytes_per_second()).sum();
    let into: f64 =
        links.iter().filter(|link| topology.is_rank(link.target)).map(|link| link.bandwidth.bytes_per_second()).sum();
    out.min(into) / (2.0 * f64::from(topology.ranks() - 1))
}

/// Returns the strength of the network after two changes: each node that is no rank is joined to a rank near it, and
/// the links of both directions between two nodes become a cable. It is exact for (b) on networks that are so already,
/// and a bound from above on all: whatever crosses between the parts of a partition into k parts with ranks in each
/// takes at least 2 (k - 1) directed crossings.
fn strength_of(topology: &Topology, known: f64) -> f64 {
    let owner = nearest_ranks(topology);
    let mut between: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for link in topology.links() {
        let (Some(a), Some(b)) = (owner[link.source], owner[link.target]) else { continue };
        if a != b {
            *between.entry((a.min(b), a.max(b))).or_default() += link.bandwidth.bytes_per_second() / 2.0;
        }
    }
    let edges: Vec<(usize, usize, f64)> = between.into_iter().map(|((a, b), capacity)| (a, b, capacity)).collect();
    strength::strength(topology.ranks() as usize, &edges, known)
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

impl Bound {
    /// Returns the bound with the rate that a linear program finds. The rate cannot be below an exact bound of the
    /// weaker kind, which is the floor: a difference is the program's rounding.
    fn programmed(self, topology: &Topology, with_switches: bool, floor: Self) -> Self {
        let Some(found) = program::solve(topology, self.rate.bytes_per_second(), with_switches) else { return self };
        let better = found.upper < self.rate.bytes_per_second() * (1.0 - program::GAP);
        if !better && !found.is_exact() {
            return self;
        }
        // A program that only proves the bound exact does not change it by its rounding.
        let rate = if better { Bandwidth::known(found.upper) } else { self.rate };
        let rate = if floor.exact && floor.rate > rate { floor.rate } else { rate };
        let method = if found.is_exact() { "linear program" } else { "linear program, stopped early" };
        Self { rate, exact: found.is_exact(), method }
    }
}

impl Rates {
    /// Returns the rates with those of linear programs for all-reduces, with and without the help of switches, where
    /// they are not exact.
    fn tightened(mut self, topology: &Topology) -> Self {
        if !self.all_reduce.exact {
            self.all_reduce = self.all_reduce.programmed(topology, false, self.two_phases);
        }
        if let Some(known) = self.in_network.filter(|known| !known.exact) {
            self.in_network = Some(known.programmed(topology, true, self.all_reduce));
        }
        self
    }
}

impl Bounds {
    fn new(topology: &Topology, rates: Rates) -> Self {
        let Rates { two_phases, all_reduce, in_network } = rates;
        let of_sizes = Arc::new(CollectiveBounds::of_all_reduce(topology, in_network.unwrap_or(all_reduce)));
        Self { reduce_scatter_all_gather: two_phases, all_reduce, in_network, of_sizes }
    }

    /// Returns the time that any all-reduce of `size` bytes takes at least: that which the rate allows, or the quickest
    /// flow of so many bytes from one rank to another, as each has to learn all of every other's part of the sum.
    ///
    /// ```
    /// use treefold::bound::bounds;
    /// use treefold::topology::from_spec;
    /// use treefold::units::{Seconds, parse_bytes, parse_time};
    ///
    /// let line = bounds(&from_spec("line:5", None, Some(parse_time("1ms")?))?);
    /// let of_a_byte = line.seconds(parse_bytes("1")?);
    /// assert!((of_a_byte / Seconds::known(4e-3) - 1.0).abs() < 1e-6, "the ends are four links apart");
    /// assert!(line.seconds(parse_bytes("1GB")?) > Seconds::known(4e-3));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn seconds(&self, size: Bytes) -> Seconds {
        self.of_sizes.seconds(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Link, Node, Shape, from_spec};
    use crate::units::Time;

    fn of(spec: &str) -> Bounds {
        bounds(&from_spec(spec, Some(Bandwidth::known(1.0)), None).unwrap())
    }

    #[test]
    fn the_issues_values() {
        for (spec, two_phases, all_reduce) in
            [("torus:4x4", 2.1333, 2.1333), ("mesh:4x4", 1.0667, 1.6), ("dgx2", 0.5333, 0.5333), ("b4", 1.0909, 1.5)]
        {
            let bounds = of(spec);
            assert!(
                (bounds.reduce_scatter_all_gather.rate.bytes_per_second() - two_phases).abs() < 1e-4,
                "{spec} {bounds:?}"
            );
            assert!((bounds.all_reduce.rate.bytes_per_second() - all_reduce).abs() < 1e-4, "{spec} {bounds:?}");
            assert!(bounds.all_reduce.exact, "{spec} {bounds:?}");
        }
        assert_eq!(
            of("dgx2").in_network.unwrap(),
            Bound { rate: Bandwidth::known(1.0), exact: true, method: "cut of one rank" }
        );
        assert_eq!(of("dgx2:planes=6").in_network.unwrap().rate.bytes_per_second(), 6.0);
        assert!(of("dgx2:planes=6").in_network.unwrap().exact);
    }

    #[test]
    fn cuts_are_not_exact_where_a_switch_receives_more_than_it_sends() {
        let link = |(source, target)| Link {
            source: NodeId(source),
            target: NodeId(target),
            bandwidth: Bandwidth::known(1.0),
            latency: Time::ZERO,
            overhead: Time::ZERO,
        };
        let ends = [(0, 2), (1, 2), (2, 3), (3, 0), (3, 1)];
        let nodes = ["u", "v"]
            .map(Node::accelerator)
            .into_iter()
            .chain(["s", "w"].map(|name| Node::switch(name, Abilities::NONE)))
            .collect();
        let topology = Topology::new("funnel", nodes, ends.map(link).to_vec(), None, Shape::General).unwrap();
        let bounds = bounds(&topology);
        assert!(!bounds.reduce_scatter_all_gather.exact && !by_cuts(&topology).all_reduce.exact, "{bounds:?}");
        assert!((bounds.all_reduce.rate.bytes_per_second() - 0.5).abs() < 1e-7 && bounds.all_reduce.exact);
    }
}
