//! Routes between ranks as a probe measures them, for planners that know nothing of links.
//!
//! As in the MTree paper's section IV-A, a pair's route is the quickest one (Dijkstra by the delays of links and the
//! latencies of nodes that are passed), and its bandwidth is the mean bandwidth of its links. If the topology's own
//! route is as quick, it is taken: grids stay dimension-ordered, and [`super::stripe`] spreads routed trees over
//! planes. Cost: O(m log n) a rank, and memory for every pair, hence a limit.

use std::ops::Range;

use crate::error::Result;
use crate::misfit;
use crate::plan::{Chunk, Draft, Half, LaneId, Tree};
use crate::search::Shortest;
use crate::topology::{LinkId, NodeId, Topology};

/// The most ranks: every pair is measured, more would take seconds, and `auto` asks for these plans too.
const MAX_RANKS: u32 = 512;

/// The route from one rank to another.
struct Route {
    /// The picoseconds that a bit needs.
    delay: u64,
    /// The mean bandwidth of its links, in bytes a second.
    bandwidth: f64,
    /// Its links, unless it is the topology's own route.
    links: Option<Box<[LinkId]>>,
}

/// The routes between all ranks.
pub(super) struct Routes<'a> {
    topology: &'a Topology,
    routes: Vec<Route>,
}

impl<'a> Routes<'a> {
    /// Measures all pairs for `algorithm`.
    pub fn new(topology: &'a Topology, algorithm: &str) -> Result<Self> {
        let ranks = topology.ranks();
        if ranks > MAX_RANKS {
            misfit!(
                "{algorithm} measures every pair of ranks and is made for at most {MAX_RANKS} of them, \
                 but {} has {ranks}; use multitree or ring",
                topology.name()
            );
        }
        let mut search = Shortest::new(topology.nodes().len());
        let mut routes = Vec::with_capacity(ranks as usize * ranks as usize);
        for source in topology.rank_ids() {
            quickest(topology, source, &mut search);
            routes.extend(topology.rank_ids().map(|target| route(topology, (source, target), &search)));
        }
        Ok(Self { topology, routes })
    }

    /// Returns how many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.topology.ranks()
    }

    /// Returns the ranks.
    pub fn rank_ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + Clone + use<> {
        self.topology.rank_ids()
    }

    /// Returns the picoseconds from `a` to `b` and back.
    pub fn round_trip(&self, a: NodeId, b: NodeId) -> u64 {
        self.of(a, b).delay + self.of(b, a).delay
    }

    /// Returns the seconds that a byte takes from `a` to `b` and back besides latency; 0 from a rank to itself.
    pub fn drain(&self, a: NodeId, b: NodeId) -> f64 {
        if a == b { 0.0 } else { 1.0 / self.of(a, b).bandwidth + 1.0 / self.of(b, a).bandwidth }
    }

    /// Returns the most central of `candidates`: the one with the least sum of latencies to and from all of `others`.
    /// Of equals it is the one nearest to all ranks, then the one with the least sum of inverse bandwidths to the
    /// others, then the first.
    pub fn centre(&self, candidates: &[NodeId], others: &[NodeId]) -> NodeId {
        let cost = |&a: &NodeId| {
            let near: u64 = others.iter().map(|&b| self.round_trip(a, b)).sum();
            let far: u64 = self.rank_ids().map(|b| self.round_trip(a, b)).sum();
            ((near, far), others.iter().map(|&b| self.drain(a, b)).sum::<f64>())
        };
        let costs = candidates.iter().map(|a| (cost(a), *a));
        let least = costs.min_by(|((d, s), _), ((e, t), _)| d.cmp(e).then(s.total_cmp(t)));
        least.expect("there are candidates").1
    }

    /// Returns the tree of `edges` (parent, child), breadth-first from `root`, which sends whole vectors. Its halves
    /// mirror each other if the route of each edge is also the route back in the opposite direction.
    pub fn tree(&self, plan: &mut Draft, span: Range<u64>, root: NodeId, edges: &[(NodeId, NodeId)]) -> Tree {
        let mirrors = edges.iter().all(|&(parent, child)| self.mirrors(parent, child));
        let mut half = |up: bool| {
            let ends = edges.iter().map(|&(parent, child)| if up { (child, parent) } else { (parent, child) });
            let lanes: Vec<LaneId> = ends.map(|ends| self.lane(plan, ends)).collect();
            plan.streamed_half(lanes)
        };
        let down = half(false);
        let up = if mirrors { Half::Mirror } else { half(true) };
        Tree { span, root, up, down, chunk: Chunk::One }
    }

    fn of(&self, source: NodeId, target: NodeId) -> &Route {
        &self.routes[source.index() * self.ranks() as usize + target.index()]
    }

    fn lane(&self, plan: &mut Draft, (source, target): (NodeId, NodeId)) -> LaneId {
        match &self.of(source, target).links {
            Some(links) => plan.lanes.via(self.topology, links),
            None => plan.lanes.routed(source, target),
        }
    }

    /// Returns whether the route from `b` to `a` is the one that a mirrored lane takes.
    fn mirrors(&self, a: NodeId, b: NodeId) -> bool {
        match (&self.of(a, b).links, &self.of(b, a).links) {
            (None, None) => true,
            (Some(there), Some(back)) => {
                there.iter().rev().map(|&link| self.topology.reverse(link)).eq(back.iter().map(|&link| Some(link)))
            }
            _ => false,
        }
    }
}

/// Finds the quickest routes from `source` to all nodes, by the picoseconds that a bit needs.
fn quickest(topology: &Topology, source: NodeId, search: &mut Shortest<u64, LinkId>) {
    search.start(source);
    while let Some((node, delay)) = search.settle() {
        let pass = if node == source { 0 } else { topology.node(node).latency.picoseconds() };
        for &id in topology.outgoing(node) {
            let link = topology.link(id);
            search.offer(link.target, delay + pass + link.delay().picoseconds(), id);
        }
    }
}

/// Returns the topology's route, unless it is slower than the one that the search from `source` has found.
fn route(topology: &Topology, (source, target): (NodeId, NodeId), search: &Shortest<u64, LinkId>) -> Route {
    let delay = search.cost(target);
    let mut route = Vec::new();
    topology.route(source, target, &mut route);
    let is_quick = delay_of(topology, &route) == delay;
    if !is_quick {
        route = search.route(target, |link| topology.link(link).source);
    }
    let total: f64 = route.iter().map(|&link| topology.link(link).bandwidth.bytes_per_second()).sum();
    let bandwidth = total / route.len().max(1) as f64;
    Route { delay, bandwidth, links: (!is_quick).then(|| route.into()) }
}

fn delay_of(topology: &Topology, route: &[LinkId]) -> u64 {
    let links: u64 = route.iter().map(|&link| topology.link(link).delay().picoseconds()).sum();
    let passed = route.iter().skip(1).map(|&link| topology.node(topology.link(link).source).latency.picoseconds());
    links + passed.sum::<u64>()
}
