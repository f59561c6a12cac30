//! The latency of the quickest route (Dijkstra) between the two ranks that are farthest apart.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::topology::{NodeId, Topology};
use crate::units::Time;

/// The most ranks from which routes are searched. If there are more, some are enough for a lower bound.
const MAX_SOURCES: usize = 512;

/// The distance of a node that no route has reached yet: infinitely far.
const UNREACHED: Time = Time::from_picoseconds(u64::MAX);

/// Returns the largest of the least latencies between ranks.
pub(super) fn farthest(topology: &Topology) -> Time {
    let sources = topology.rank_ids().take(MAX_SOURCES);
    sources.map(|source| farthest_from(topology, source)).max().unwrap_or_default()
}

fn farthest_from(topology: &Topology, source: NodeId) -> Time {
    let mut least = vec![UNREACHED; topology.nodes().len()];
    least[source] = Time::ZERO;
    let mut queue = BinaryHeap::from([Reverse((Time::ZERO, source))]);
    while let Some(Reverse((time, node))) = queue.pop() {
        if time > least[node] {
            continue;
        }
        let pass = if node == source { Time::ZERO } else { topology.node(node).latency };
        for link in topology.outgoing(node).iter().map(|&link| topology.link(link)) {
            let there = time + pass + link.delay();
            if there < least[link.target] {
                least[link.target] = there;
                queue.push(Reverse((there, link.target)));
            }
        }
    }
    least[..topology.ranks() as usize].iter().copied().max().unwrap_or_default()
}
