//! The latency of the quickest route (Dijkstra) between the two ranks that are farthest apart.

use crate::search::Shortest;
use crate::topology::{NodeId, Topology};
use crate::units::Time;

/// The most ranks from which routes are searched. If there are more, some are enough for a lower bound.
const MAX_SOURCES: usize = 512;

/// Returns the largest of the least latencies between ranks.
pub(super) fn farthest(topology: &Topology) -> Time {
    let mut search = Shortest::new(topology.nodes().len());
    let sources = topology.rank_ids().take(MAX_SOURCES);
    sources.map(|source| farthest_from(topology, source, &mut search)).max().unwrap_or_default()
}

fn farthest_from(topology: &Topology, source: NodeId, search: &mut Shortest<Time, ()>) -> Time {
    search.start(source);
    while let Some((node, time)) = search.settle() {
        let pass = if node == source { Time::ZERO } else { topology.node(node).latency };
        for link in topology.outgoing(node).iter().map(|&link| topology.link(link)) {
            search.offer(link.target, time + pass + link.delay(), ());
        }
    }
    topology.rank_ids().map(|rank| search.cost(rank)).max().unwrap_or_default()
}
