//! Latencies of quickest routes (Dijkstra): between the two ranks that are farthest apart, and over each link.

use crate::search::{Cost, Shortest};
use crate::topology::{Link, NodeId, Topology};
use crate::units::Time;

/// The most ranks from which routes are searched. If there are more, some are enough for a lower bound.
pub(super) const MAX_SOURCES: usize = 512;

/// Returns the largest of the least latencies between ranks.
pub(super) fn farthest(topology: &Topology) -> Time {
    topology.rank_ids().take(MAX_SOURCES).flat_map(|source| distances(topology, source)).max().unwrap_or_default()
}

/// Returns the least latency from a rank to each rank.
pub(super) fn distances(topology: &Topology, source: NodeId) -> Vec<Time> {
    distances_passing(topology, source, |node| topology.node(node).latency)
}

/// Returns the least latency from a rank to each rank, where ranks on the way may take the data and send them on.
pub(crate) fn distances_relayed(topology: &Topology, source: NodeId) -> Vec<Time> {
    distances_passing(topology, source, |node| through(topology, node))
}

/// Returns the time that data take through a node; none through a rank, which takes them and sends them on.
fn through(topology: &Topology, node: NodeId) -> Time {
    if topology.is_rank(node) { Time::ZERO } else { topology.node(node).latency }
}

/// Returns the least latency from a rank to each rank, where routes take the time `passing` at each node on their way.
fn distances_passing(topology: &Topology, source: NodeId, passing: impl Fn(NodeId) -> Time) -> Vec<Time> {
    let mut search = Shortest::<Time, ()>::new(topology.nodes().len());
    search.start(source);
    while let Some((node, time)) = search.settle() {
        let pass = if node == source { Time::ZERO } else { passing(node) };
        for link in topology.outgoing(node).iter().map(|&link| topology.link(link)) {
            search.offer(link.target, time + pass + link.delay(), ());
        }
    }
    topology.rank_ids().map(|rank| search.cost(rank)).collect()
}

/// Returns the least latency of any route from rank to rank: whatever link a byte takes, so much of the time passes
/// before it comes there and after it has left. Overheads do not count, as they keep only their own links busy; nor do
/// links that no rank can reach, or that lead to none.
pub(super) fn least_use(topology: &Topology) -> Time {
    let (before, after) = (nearest(topology, true), nearest(topology, false));
    let of = |link: &Link| Some(before[link.source]? + link.latency + after[link.target]?);
    topology.links().iter().filter_map(of).min().unwrap_or_default()
}

/// Returns the latency from the nearest rank to each node, and through it if it is no rank; or else from there on.
/// `None` stands where no route leads.
fn nearest(topology: &Topology, is_before: bool) -> Vec<Option<Time>> {
    let passing = |node: NodeId| through(topology, node);
    let mut search = Shortest::<Time, ()>::new(topology.nodes().len());
    search.start(NodeId(0));
    topology.rank_ids().skip(1).for_each(|rank| search.restart(rank));
    while let Some((node, time)) = search.settle() {
        let links = if is_before { topology.outgoing(node) } else { topology.incoming(node) };
        for link in links.iter().map(|&link| topology.link(link)) {
            let next = if is_before { link.target } else { link.source };
            search.offer(next, time + passing(node) + link.latency, ());
        }
    }
    let is_reached = |node: NodeId| search.cost(node) != Time::UNREACHED;
    topology.node_ids().map(|node| is_reached(node).then(|| search.cost(node) + passing(node))).collect()
}
