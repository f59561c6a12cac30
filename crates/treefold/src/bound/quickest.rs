//! Quickest flows: how long a volume takes from some nodes to one, latency and bandwidth together (Ford and Fulkerson
//! 1958; Burkard, Dlaska and Klinz 1993).
//!
//! Of a flow that is sent over paths of latencies t with rates f, `sum f (T - t)` bytes have arrived at time T. The
//! best flow of each value is found by augmenting along quickest paths; after each of them, with the value v and the
//! cost c = sum t f, at most `v T - c` bytes can have arrived by T unless a longer path is used as well. So a volume V
//! takes the least of `(V + c) / v` over all these flows.
//!
//! The flow simulator lets a message occupy all links of its route at once, and adds the latency of the route at its
//! end. So that no prediction is below the bound, the latency of a route through switches counts at its last link, as
//! that of the quickest route over this link; in the reverse of a collective it counts at the first one. Routes that
//! pass ranks are taken for several, so their predictions may be earlier than the bound by some latencies. Cost: a
//! search for each augmentation, of which there are hardly more than the sink has links.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::search::Shortest;
use crate::topology::{Link, LinkId, NodeId, Topology};
use crate::units::{Bytes, Seconds, Time};

/// The most augmentations of a flow. Fewer give a shorter time, which is a bound all the same only if the last flow is
/// the largest one; so a curve that would need more is dropped.
const MOST_PATHS: usize = 4096;

/// The times in which volumes get from some nodes to another.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Curve {
    /// The part of the vector's size that has to get there.
    pub part: f64,
    /// The value of each flow in bytes a second, and the bytes that are under way in it.
    flows: Vec<(f64, f64)>,
}

impl Curve {
    /// Finds the flows from `sources` to `sink`, over which `part` of the vector has to go; `None` if no path leads
    /// there, or there are too many.
    pub fn new(topology: &Topology, sources: &[NodeId], sink: NodeId, part: f64, at: Counted) -> Option<Self> {
        let mut search = Search::new(topology, at);
        let (mut flows, mut value, mut cost) = (Vec::new(), 0.0, 0.0);
        while let Some((seconds, rate)) = search.augment(sources, sink) {
            (value, cost) = (value + rate, cost + rate * seconds);
            flows.push((value, cost));
            if flows.len() > MOST_PATHS {
                return None;
            }
        }
        (!flows.is_empty()).then_some(Self { part, flows })
    }

    /// Returns the rate to which the time of large vectors tends.
    pub fn rate(&self) -> f64 {
        self.flows.last().map_or(0.0, |&(value, _)| value / self.part)
    }

    /// Returns the least time for a vector of `size`.
    pub fn seconds(&self, size: Bytes) -> Seconds {
        let volume = self.part * size.get() as f64;
        let times = self.flows.iter().map(|&(value, cost)| (volume + cost) / value);
        Seconds::known(times.fold(f64::INFINITY, f64::min))
    }
}

/// The link of a route from rank to rank at which its latency counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    /// The first link.
    First,
    /// The last link.
    Last,
}

/// Returns the seconds that count at each link.
fn seconds_of_links(topology: &Topology, at: Counted) -> Vec<f64> {
    // The least latency from any rank to each node that is none, or from there to any rank.
    let mut search = Shortest::<Time, ()>::new(topology.nodes().len());
    let is_last = at == Counted::Last;
    let ends = |link: &Link| if is_last { [link.source, link.target] } else { [link.target, link.source] };
    let onward = |node| if is_last { topology.outgoing(node) } else { topology.incoming(node) };
    let passing = |node: NodeId| if topology.is_rank(node) { Time::ZERO } else { topology.node(node).latency };
    search.start(NodeId(0));
    topology.rank_ids().skip(1).for_each(|rank| search.restart(rank));
    while let Some((node, time)) = search.settle() {
        for &link in onward(node) {
            let [_, next] = ends(topology.link(link));
            if !topology.is_rank(next) {
                search.offer(next, time + passing(node) + topology.link(link).delay(), ());
            }
        }
    }
    let counted = |link: &Link| {
        let [near, far] = ends(link);
        if topology.is_rank(far) { (search.cost(near) + passing(near) + link.delay()).seconds() } else { 0.0 }
    };
    topology.links().iter().map(counted).collect()
}

/// A flow in the making.
struct Search<'a> {
    topology: &'a Topology,
    /// The seconds that count at each link.
    seconds: Vec<f64>,
    capacity: Vec<f64>,
    /// What each link carries.
    flow: Vec<f64>,
    /// The potential of each node, which keeps the lengths of all residual links from being negative.
    potential: Vec<f64>,
}

/// A step of a path: a link, forwards or back.
type Hop = (LinkId, bool);

impl<'a> Search<'a> {
    fn new(topology: &'a Topology, at: Counted) -> Self {
        let capacity = topology.links().iter().map(|link| link.bandwidth.bytes_per_second()).collect::<Vec<f64>>();
        Self {
            topology,
            seconds: seconds_of_links(topology, at),
            flow: vec![0.0; capacity.len()],
            capacity,
            potential: vec![0.0; topology.nodes().len()],
        }
    }

    /// Sends as much as fits along the quickest path; returns its latency and its rate.
    fn augment(&mut self, sources: &[NodeId], sink: NodeId) -> Option<(f64, f64)> {
        let (distance, by) = self.shortest(sources);
        if distance[sink].is_infinite() {
            return None;
        }
        let potentials = self.potential.iter_mut().zip(&distance);
        potentials.filter(|(_, far)| far.is_finite()).for_each(|(potential, far)| *potential += far);
        let mut hops = Vec::new();
        let mut node = sink;
        while let Some((link, forwards)) = by[node] {
            hops.push((link, forwards));
            node = if forwards { self.topology.link(link).source } else { self.topology.link(link).target };
        }
        let rate = hops.iter().map(|&hop| self.residual(hop)).fold(f64::INFINITY, f64::min);
        for &(link, forwards) in &hops {
            self.flow[link] += if forwards { rate } else { -rate };
        }
        let seconds =
            hops.iter().map(|&(link, forwards)| if forwards { self.seconds[link] } else { -self.seconds[link] });
        Some((seconds.sum::<f64>().max(0.0), rate))
    }

    /// Returns what more a link can take, or take back; what is due to rounding counts as nothing.
    fn residual(&self, (link, forwards): Hop) -> f64 {
        let left = if forwards { self.capacity[link] - self.flow[link] } else { self.flow[link] };
        if left > 1e-9 * self.capacity[link] { left } else { 0.0 }
    }

    /// Searches the quickest residual paths from the sources (Dijkstra, over lengths that potentials make positive).
    fn shortest(&self, sources: &[NodeId]) -> (Vec<f64>, Vec<Option<Hop>>) {
        let nodes = self.topology.nodes().len();
        let (mut distance, mut by) = (vec![f64::INFINITY; nodes], vec![None; nodes]);
        let mut queue = BinaryHeap::new();
        for &source in sources {
            distance[source] = 0.0;
            queue.push(Reverse((0u64, source)));
        }
        while let Some(Reverse((bits, node))) = queue.pop() {
            if bits != distance[node].to_bits() {
                continue;
            }
            let out = self.topology.outgoing(node).iter().map(|&link| (link, true));
            let back = self.topology.incoming(node).iter().map(|&link| (link, false));
            for hop in out.chain(back).filter(|&hop| self.residual(hop) > 0.0) {
                let (link, forwards) = hop;
                let ends = self.topology.link(link);
                let (next, length) =
                    if forwards { (ends.target, self.seconds[link]) } else { (ends.source, -self.seconds[link]) };
                let reduced = (length + self.potential[node] - self.potential[next]).max(0.0);
                if distance[node] + reduced < distance[next] {
                    distance[next] = distance[node] + reduced;
                    by[next] = Some(hop);
                    queue.push(Reverse((distance[next].to_bits(), next)));
                }
            }
        }
        (distance, by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::from_spec;
    use crate::units::{parse_bandwidth, parse_bytes, parse_time};

    #[test]
    fn a_volume_takes_the_quick_path_alone_or_both() {
        let rate = parse_bandwidth("1GB/s").unwrap();
        let ring = from_spec("ring:5", Some(rate), Some(parse_time("1ms").unwrap())).unwrap();
        let curve = Curve::new(&ring, &[NodeId(0)], NodeId(1), 1.0, Counted::Last).unwrap();
        assert_eq!(curve.flows, [(1e9, 1e6), (2e9, 5e6)], "one way has one link, the other four");
        let seconds = |size| curve.seconds(parse_bytes(size).unwrap()).get();
        // What arrives in the first 4 ms came the quick way, at 1 GB/s after 1 ms.
        assert!((seconds("1MB") - 2e-3).abs() < 1e-12 && (seconds("3MB") - 4e-3).abs() < 1e-12);
        assert!((seconds("13MB") - 9e-3).abs() < 1e-12, "3 MB by then, and 10 MB at 2 GB/s");
    }

    #[test]
    fn flows_give_way_to_each_other() {
        // The quickest path from 0 to 3 goes over 1 -> 2 and blocks both others; the second one sends back over it.
        let text = r#"{"format": "treefold-topology", "version": 1, "name": "n",
            "nodes": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}], "links": [
            {"source": "a", "target": "b", "bandwidth_Bps": 1e9, "latency_s": 0.001, "both_ways": true},
            {"source": "a", "target": "c", "bandwidth_Bps": 1e9, "latency_s": 0.003, "both_ways": true},
            {"source": "b", "target": "c", "bandwidth_Bps": 1e9, "latency_s": 0.001, "both_ways": true},
            {"source": "b", "target": "d", "bandwidth_Bps": 1e9, "latency_s": 0.003, "both_ways": true},
            {"source": "c", "target": "d", "bandwidth_Bps": 1e9, "latency_s": 0.001, "both_ways": true}]}"#;
        let topology = Topology::from_json(text).unwrap();
        let curve = Curve::new(&topology, &[NodeId(0)], NodeId(3), 1.0, Counted::Last).unwrap();
        let expected = [(1e9, 3e6), (2e9, 8e6)];
        for ((value, cost), (right, right_cost)) in curve.flows.iter().zip(expected) {
            assert!((value - right).abs() < 1.0 && (cost - right_cost).abs() < 1.0, "{:?}", curve.flows);
        }
        assert_eq!(curve.flows.len(), 2);
    }
}
