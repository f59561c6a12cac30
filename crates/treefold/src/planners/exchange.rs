//! Latency-optimal exchanges: each rank has a tree of its own into it, which only reduces, and no root broadcasts.
//!
//! That is what recursive doubling is on a hypercube, and the latency form of Swing on a torus (De Sensi et al., NSDI
//! 2024), for any network. All trees take the quickest routes, so the sum is everywhere after little more than the
//! latency between the farthest two ranks, where trees that reduce to a root and broadcast from it take up to twice as
//! long. Where trees agree on a partial sum and on where it goes, it is sent once (`plan/sums.rs`). So of several next
//! ranks on quickest routes, a rank chooses the first in an order of directions which is the same everywhere, as
//! dimension-ordered routing does: then whole rows are added up before columns. Or it prefers one to which another tree
//! already sends the same sum; both are tried. On grids each part of the vector takes the dimensions in an order of its
//! own. List scheduling says when messages leave, and how many parts are best.
//!
//! It is for small vectors only: every rank sends its whole vector several times.
//!
//! Cost: O(n^2 d) for n ranks with d quickest next ranks each, for each part of the vector, and the sums of all trees.

use std::collections::HashMap;
use std::sync::Arc;

use super::order::{Message, Runs, in_order};
use super::ways::Ways;
use super::{Options, grid_of_ranks, spanning::Route};
use crate::error::Result;
use crate::misfit;
use crate::plan::schedule::Csr;
use crate::plan::{Chunk, Draft, Half, LaneId, Pace, Step, Tree};
use crate::search::Shortest;
use crate::topology::{NodeId, Topology};
use crate::units::Bytes;

/// The most ranks: the number of edges grows with their square.
const MAX_RANKS: u32 = 256;
/// The numbers of parts of the vector that are tried, unless the network is a grid.
const PARTS: [usize; 3] = [1, 2, 4];
/// The part of the time that more messages must save.
const WORTH: f64 = 0.005;

pub(super) fn plan(topology: &Arc<Topology>, options: &Options) -> Result<Draft> {
    let ranks = topology.ranks();
    if ranks > MAX_RANKS {
        misfit!(
            "exchange has a tree of {ranks} ranks for each of them on {}; it is made for at most {MAX_RANKS} ranks: \
             use multitree or dbtree",
            topology.name()
        );
    }
    let network = Network::new(topology);
    let parts: Vec<usize> = match grid_of_ranks(topology) {
        Some((dims, _)) => (1..=2 * dims.len()).collect(),
        None => PARTS.into(),
    };
    let forms = parts.into_iter().flat_map(|parts| [(parts, true), (parts, false)]);
    let exchanges = forms.filter_map(|(parts, reuses)| Exchange::new(&network, parts, reuses, options.size));
    let all: Vec<(Exchange, f64)> = exchanges.collect();
    let least = all.iter().map(|&(_, seconds)| seconds).fold(f64::INFINITY, f64::min);
    match all.into_iter().find(|&(_, seconds)| seconds <= least * (1.0 + WORTH)) {
        Some((exchange, _)) => Ok(exchange.draft(&network)),
        None => misfit!("exchange takes too many steps on {}: use multitree or dbtree", topology.name()),
    }
}

/// A way from a rank to another, on which it need not pass a third.
struct Hop {
    target: NodeId,
    latency: u64,
    route: Route,
    /// The order in which ways are preferred where nothing else decides.
    direction: (usize, u64),
}

/// How far it is from a rank to another: the picoseconds, shifted by some bits that hold the least number of ways that
/// takes.
type Distance = u64;

/// The bits of the number of ways, of which there are fewer than ranks.
const WAYS: u32 = MAX_RANKS.ilog2() + 1;

/// The network as ranks see it.
struct Network<'a> {
    topology: &'a Arc<Topology>,
    /// The ways out of each rank.
    out_of: Vec<Vec<Hop>>,
    /// How far it is from each rank to each other, target after target.
    distance: Vec<Vec<Distance>>,
    /// How many directions there are that take turns in coming first.
    dimensions: usize,
}

impl<'a> Network<'a> {
    fn new(topology: &'a Arc<Topology>) -> Self {
        let mut ways = Ways::new(topology, true);
        ways.price(&vec![0.0; topology.links().len()]);
        let ways = &ways;
        let mut out_of: Vec<Vec<Hop>> = topology.rank_ids().map(|_| Vec::new()).collect();
        for target in topology.rank_ids() {
            for way in ways.into(target) {
                let direction = direction(topology, way.source, target, way.latency);
                let hop = Hop { target, latency: way.latency, route: ways.route(way), direction };
                out_of[way.source].push(hop);
            }
        }
        let mut search = Shortest::new(topology.ranks() as usize);
        let mut to = |target| {
            search.start(target);
            while let Some((node, distance)) = search.settle() {
                let farther = |latency: u64| distance + (latency << WAYS) + 1;
                ways.into(node).iter().for_each(|way| search.offer(way.source, farther(way.latency), ()));
            }
            topology.rank_ids().map(|source| search.cost(source)).collect()
        };
        let distance = topology.rank_ids().map(&mut to).collect();
        Self { topology, out_of, distance, dimensions: grid_of_ranks(topology).map_or(1, |(dims, _)| dims.len()) }
    }

    /// Returns the ways out of `source` that are on quickest routes to `root`, by their places.
    fn quickest(&self, source: NodeId, root: NodeId) -> impl Iterator<Item = usize> {
        let (to, here) = (&self.distance[root], self.distance[root][source]);
        // Where links have no latency, the number of ways keeps routes from turning back.
        let is_quickest =
            move |hop: &Hop| to[hop.target] < here && hop.latency + (to[hop.target] >> WAYS) == here >> WAYS;
        self.out_of[source].iter().enumerate().filter(move |(_, hop)| is_quickest(hop)).map(|(place, _)| place)
    }

    /// Returns the order in which the ways out of ranks are preferred in a part of the vector: dimensions take turns in
    /// being the first, and then their two directions do.
    fn preference(&self, hop: &Hop, part: usize) -> (usize, u64) {
        let (dimension, along) = hop.direction;
        let turned = (dimension + self.dimensions - part % self.dimensions) % self.dimensions;
        let is_mirrored = part / self.dimensions % 2 == 1;
        (turned, if is_mirrored { u64::MAX - along } else { along })
    }
}

/// Returns the dimension and the direction of a way on a grid; elsewhere what is near comes first, then what has a low
/// number.
fn direction(topology: &Topology, source: NodeId, target: NodeId, latency: u64) -> (usize, u64) {
    let Some((dims, _)) = grid_of_ranks(topology) else { return (0, (latency << 16) + u64::from(target)) };
    let (mut a, mut b) = (topology.place(source), topology.place(target));
    for (dimension, &side) in dims.iter().enumerate().rev() {
        if a % side != b % side {
            return (dimension, u64::from((b + side - a % side) % side != 1));
        }
        (a, b) = (a / side, b / side);
    }
    unreachable!("a link leads to another node")
}

/// A message: the way out of a rank, and the sum that it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Sent {
    source: NodeId,
    way: usize,
    sum: usize,
}

/// The trees of all ranks for each part of the vector, with the messages that they share.
struct Exchange {
    parts: usize,
    /// Whether a way over which another tree sends the same sum is preferred to the first direction.
    reuses: bool,
    messages: Vec<Sent>,
    /// The messages that are added up in each message's sum.
    after: Csr<u32>,
    /// The message out of each rank in the tree into each root, part by part and root by root; none out of the root.
    trees: Vec<Vec<Option<u32>>>,
    steps: Vec<Step>,
}

/// The partial sums and messages of a part of the vector that are known.
#[derive(Default)]
struct Known {
    sums: HashMap<(NodeId, Vec<u32>), usize>,
    messages: HashMap<Sent, u32>,
}

impl Exchange {
    /// Returns the exchange in so many parts, and the seconds that it takes; `None` if it has too many steps.
    fn new(network: &Network, parts: usize, reuses: bool, size: Bytes) -> Option<(Self, f64)> {
        let (messages, after, trees) = (Vec::new(), Csr::default(), Vec::new());
        let mut exchange = Self { parts, reuses, messages, after, trees, steps: Vec::new() };
        for part in 0..parts {
            let mut known = Known::default();
            for root in network.topology.rank_ids() {
                let tree = exchange.tree(network, root, part, &mut known);
                exchange.trees.push(tree);
            }
        }
        let bytes = size.get() as f64 / parts as f64;
        let of = |sent: &Sent| &network.out_of[sent.source][sent.way].route;
        let message = |sent| Message::new(network.topology, of(sent), bytes, Runs::Forwards);
        let messages = exchange.messages.iter().map(message).collect();
        let (steps, seconds) = in_order(network.topology, messages, &exchange.after, f64::INFINITY)?;
        exchange.steps = steps;
        Some((exchange, seconds))
    }

    /// Grows the tree into `root`; returns the message out of each rank. The farthest ranks come first, so that all
    /// that a rank adds up is known when it chooses a way.
    fn tree(&mut self, network: &Network, root: NodeId, part: usize, known: &mut Known) -> Vec<Option<u32>> {
        let mut order: Vec<NodeId> = network.topology.rank_ids().filter(|&rank| rank != root).collect();
        order.sort_by_key(|&rank| std::cmp::Reverse(network.distance[root][rank]));
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); order.len() + 1];
        let mut out_of = vec![None; order.len() + 1];
        for source in order {
            let mut parts = std::mem::take(&mut into[source]);
            parts.sort_unstable();
            let new = known.sums.len();
            let sum = *known.sums.entry((source, parts.clone())).or_insert(new);
            let cost = |&way: &usize| {
                let is_new = self.reuses && !known.messages.contains_key(&Sent { source, way, sum });
                (is_new, network.preference(&network.out_of[source][way], part))
            };
            let way = network.quickest(source, root).min_by_key(cost).expect("every rank reaches the root");
            let message = self.message(Sent { source, way, sum }, parts, known);
            out_of[source] = Some(message);
            into[network.out_of[source][way].target].push(message);
        }
        out_of
    }

    /// Returns the number of a message, which is a new one if no tree has sent it.
    fn message(&mut self, sent: Sent, parts: Vec<u32>, known: &mut Known) -> u32 {
        let new = self.messages.len() as u32;
        let message = *known.messages.entry(sent).or_insert(new);
        if message == new {
            self.messages.push(sent);
            self.after.push_row(parts);
        }
        message
    }

    /// Returns the plan.
    fn draft(&self, network: &Network) -> Draft {
        let mut draft = Draft::new(network.topology, "exchange", self.parts as u64);
        let lanes: Vec<LaneId> =
            self.messages.iter().map(|sent| draft.lanes.via(network.topology, self.route(network, sent))).collect();
        let ranks = network.topology.ranks() as usize;
        let mut trees = Vec::with_capacity(self.trees.len());
        for (number, out_of) in self.trees.iter().enumerate() {
            let (root, part) = (NodeId::new(number % ranks), (number / ranks) as u64);
            let edges = self.breadth_first(network, root, out_of);
            let edges = edges.into_iter().map(|message| (lanes[message as usize], Some(self.steps[message as usize])));
            let up = draft.own_half(edges);
            trees.push(Tree { span: part..part + 1, root, up, down: Half::None, chunk: Chunk::One });
        }
        draft.push_phase(Pace::Ordered, trees);
        draft
    }

    fn route<'a>(&self, network: &'a Network, sent: &Sent) -> &'a Route {
        &network.out_of[sent.source][sent.way].route
    }

    /// Returns the messages of a tree, breadth-first from its root.
    fn breadth_first(&self, network: &Network, root: NodeId, out_of: &[Option<u32>]) -> Vec<u32> {
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); out_of.len()];
        for &message in out_of.iter().flatten() {
            let Sent { source, way, .. } = self.messages[message as usize];
            into[network.out_of[source][way].target].push(message);
        }
        let mut edges = into[root].clone();
        let mut next = 0;
        while let Some(&message) = edges.get(next) {
            edges.extend_from_slice(&into[self.messages[message as usize].source]);
            next += 1;
        }
        edges
    }
}
