//! The ways from rank to rank: a link, or the best route through nodes that are no ranks.
//!
//! Ranks that share a switch share most of their routes. So the best routes between the nodes that are no ranks are
//! found once, and a way is a link into them, a route among them, and a link out of them. Cost: a search from each of
//! these nodes that a rank has a link to, and O(n^2 p^2) for n ranks with p links each. Where latency decides before
//! prices do, a search walks only the quickest routes, which are few.

use crate::planners::spanning::Route;
use crate::search::Shortest;
use crate::topology::{LinkId, NodeId, Topology};

/// A way from one rank to another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    /// Where it begins.
    pub source: NodeId,
    /// The time that the first byte takes, in picoseconds.
    pub latency: u64,
    /// The sum of the prices of its links.
    pub price: f64,
    /// Its first and its last link, which are the same if there is one only.
    ends: (LinkId, LinkId),
}

/// The ways into each rank under the present prices.
pub(super) struct Ways<'a> {
    topology: &'a Topology,
    /// Whether a route of less latency is better, whatever it costs.
    by_latency: bool,
    /// The ways into each rank, of which the direct ones stand first.
    into: Vec<Vec<Way>>,
    /// The ways out of each rank.
    out_of: Vec<Vec<(NodeId, usize)>>,
    /// The searches from each node that is no rank, among such nodes; `None` where no rank has a link to it.
    inner: Vec<Option<Inner>>,
}

/// A search for the best routes from a node that is no rank to other such nodes.
struct Inner {
    start: NodeId,
    /// The links out of each node that a best route may take, whatever the prices are.
    useful: Vec<Vec<LinkId>>,
    search: Shortest<f64, LinkId>,
}

impl<'a> Ways<'a> {
    /// Prepares the ways of a network. If `by_latency`, routes through switches are those of the least latency, and
    /// prices decide among these; else prices alone decide.
    pub fn new(topology: &'a Topology, by_latency: bool) -> Self {
        let inner = topology.node_ids().skip(topology.ranks() as usize);
        let is_entered =
            |node: NodeId| topology.incoming(node).iter().any(|&link| topology.is_rank(topology.link(link).source));
        let inner = inner.map(|node| is_entered(node).then(|| Inner::new(topology, node, by_latency))).collect();
        let ranks = topology.ranks() as usize;
        Self { topology, by_latency, into: vec![Vec::new(); ranks], out_of: vec![Vec::new(); ranks], inner }
    }

    /// Returns the ways into a rank.
    pub fn into(&self, rank: NodeId) -> &[Way] {
        &self.into[rank]
    }

    /// Returns the ways out of a rank: the rank to which each leads, and its place among the ways into that one.
    pub fn out_of(&self, rank: NodeId) -> &[(NodeId, usize)] {
        &self.out_of[rank]
    }

    /// Finds the ways under these prices, one a link.
    pub fn price(&mut self, prices: &[f64]) {
        if self.topology.is_direct() && !self.into[0].is_empty() {
            // The ways are the links, and only their prices have changed.
            self.into.iter_mut().flatten().for_each(|way| way.price = prices[way.ends.0]);
            return;
        }
        for inner in self.inner.iter_mut().flatten() {
            inner.search(self.topology, prices, self.by_latency);
        }
        self.out_of.iter_mut().for_each(Vec::clear);
        for rank in self.topology.rank_ids() {
            let mut ways = std::mem::take(&mut self.into[rank]);
            ways.clear();
            self.add_direct(rank, prices, &mut ways);
            if !self.topology.is_direct() {
                self.add_switched(rank, prices, &mut ways);
            }
            ways.iter().enumerate().for_each(|(place, way)| self.out_of[way.source].push((rank, place)));
            self.into[rank] = ways;
        }
    }

    /// Adds the links from other ranks.
    fn add_direct(&self, rank: NodeId, prices: &[f64], ways: &mut Vec<Way>) {
        for &link in self.topology.incoming(rank) {
            let source = self.topology.link(link).source;
            if self.topology.is_rank(source) {
                let latency = self.topology.link(link).delay().picoseconds();
                ways.push(Way { source, latency, price: prices[link], ends: (link, link) });
            }
        }
    }

    /// Adds the best way through switches from each other rank.
    fn add_switched(&self, rank: NodeId, prices: &[f64], ways: &mut Vec<Way>) {
        let last = self.last_links(rank);
        for source in self.topology.rank_ids().filter(|&source| source != rank) {
            if let Some(ends) = self.best_ends(source, &last, prices) {
                ways.push(self.measured(source, ends, prices));
            }
        }
    }

    /// Returns the links into a rank from nodes that are no ranks.
    fn last_links(&self, rank: NodeId) -> Vec<LinkId> {
        let topology = self.topology;
        let is_inner = |link: &&LinkId| !topology.is_rank(topology.link(**link).source);
        topology.incoming(rank).iter().filter(is_inner).copied().collect()
    }

    /// Returns the first and the last link of the best way through switches from a rank to one of these last links.
    fn best_ends(&self, source: NodeId, last: &[LinkId], prices: &[f64]) -> Option<(LinkId, LinkId)> {
        let topology = self.topology;
        let mut best: Option<(f64, (LinkId, LinkId))> = None;
        for &first in topology.outgoing(source).iter().filter(|&&link| !topology.is_rank(topology.link(link).target)) {
            let begun = cost_of(topology, first, prices, self.by_latency);
            let search = self.inner_from(topology.link(first).target);
            for &end in last {
                let between = search.cost(topology.link(end).source);
                let cost = begun + between + cost_of(topology, end, prices, self.by_latency);
                if cost < best.map_or(f64::INFINITY, |(least, _)| least) {
                    best = Some((cost, (first, end)));
                }
            }
        }
        best.map(|(_, ends)| ends)
    }

    /// Returns the links of the best route through switches, now that some prices have changed.
    pub fn rerouted(&mut self, (source, target): (NodeId, NodeId), prices: &[f64]) -> Route {
        let ends = self.best_ends(source, &self.last_links(target), prices).expect("there is a way through switches");
        let entered = self.topology.link(ends.0).target.index() - self.topology.ranks() as usize;
        let inner = self.inner[entered].as_mut().expect("a rank has a link to the node");
        inner.search(self.topology, prices, self.by_latency);
        self.route(&Way { source, latency: 0, price: 0.0, ends })
    }

    /// Returns the way with these ends, with its latency and its price.
    fn measured(&self, source: NodeId, ends: (LinkId, LinkId), prices: &[f64]) -> Way {
        let (first, last) = ends;
        let mut way = Way { source, latency: 0, price: 0.0, ends };
        let mut add = |link: LinkId| {
            way.latency += latency_over(self.topology, link);
            way.price += prices[link];
        };
        add(first);
        add(last);
        let search = self.inner_from(self.topology.link(first).target);
        let mut node = self.topology.link(last).source;
        while let Some(link) = search.last_edge(node) {
            add(link);
            node = self.topology.link(link).source;
        }
        way
    }

    /// Returns the search from a node that is no rank, and to which a rank has a link.
    fn inner_from(&self, node: NodeId) -> &Shortest<f64, LinkId> {
        let inner = &self.inner[node.index() - self.topology.ranks() as usize];
        &inner.as_ref().expect("a rank has a link to the node").search
    }

    /// Returns the links of a way.
    pub fn route(&self, way: &Way) -> Route {
        let (first, last) = way.ends;
        if first == last {
            return Box::new([first]);
        }
        let search = self.inner_from(self.topology.link(first).target);
        let inside: Route = search.route(self.topology.link(last).source, |link| self.topology.link(link).source);
        [&[first], &*inside, &[last]].concat().into()
    }
}

impl Inner {
    fn new(topology: &Topology, start: NodeId, by_latency: bool) -> Self {
        let nodes = topology.nodes().len();
        let useful = topology.node_ids().map(|node| inner_links(topology, node).collect()).collect();
        let mut inner = Self { start, useful, search: Shortest::new(nodes) };
        if by_latency {
            // Prices decide only among the quickest routes, so only their links are of use.
            inner.search(topology, &vec![0.0; topology.links().len()], by_latency);
            let Self { useful, search, .. } = &mut inner;
            let is_quickest = |link: LinkId, source: NodeId| {
                search.cost(source) + latency_over(topology, link) as f64 == search.cost(topology.link(link).target)
            };
            topology.node_ids().for_each(|node| useful[node].retain(|&link| is_quickest(link, node)));
        }
        inner
    }

    fn search(&mut self, topology: &Topology, prices: &[f64], by_latency: bool) {
        self.search.start(self.start);
        while let Some((node, cost)) = self.search.settle() {
            for &link in &self.useful[node] {
                let target = topology.link(link).target;
                self.search.offer(target, cost + cost_of(topology, link, prices, by_latency), link);
            }
        }
    }
}

/// Returns the links from a node to nodes that are no ranks; none if it is a rank itself.
fn inner_links(topology: &Topology, node: NodeId) -> impl Iterator<Item = LinkId> {
    let is_inner = move |&link: &LinkId| !topology.is_rank(node) && !topology.is_rank(topology.link(link).target);
    topology.outgoing(node).iter().copied().filter(is_inner)
}

/// Returns the picoseconds that a first byte takes over a link, and through the node behind it if that is no rank.
pub(super) fn latency_over(topology: &Topology, link: LinkId) -> u64 {
    let target = topology.link(link).target;
    let passed = if topology.is_rank(target) { 0 } else { topology.node(target).latency.picoseconds() };
    topology.link(link).delay().picoseconds() + passed
}

/// Returns what a link counts in a search: its price, or if `by_latency` its latency, and its price among equals.
fn cost_of(topology: &Topology, link: LinkId, prices: &[f64], by_latency: bool) -> f64 {
    // Prices are about 1 at most. Routes have few links, so that the sum of their prices stays below a picosecond.
    if by_latency { latency_over(topology, link) as f64 + prices[link] * TIE } else { prices[link] }
}

/// The weight of a price against a picosecond where latency decides.
const TIE: f64 = 1e-3;
