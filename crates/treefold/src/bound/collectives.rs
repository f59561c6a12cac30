//! Bounds of collectives: rates for large vectors, and least times for any size.
//!
//! What a rank has to learn of others must reach it, whatever is added up or copied on the way. So the quickest flow
//! (`quickest.rs`) from some ranks to one bounds the time from below, for volumes that follow from the collective: in
//! an all-gather of S bytes over N ranks, k ranks have k S / N bytes for each other rank; a broadcast's root has S
//! bytes for each; in an all-to-all k ranks have k S / N bytes for one, or what their blocks have. The ranks that are
//! tried are those from a distance on, for each distance; in an all-reduce, where each rank has to learn S bytes about
//! each other one, pairs that are far apart. Rates follow from minimum cuts (`cut.rs`), for all-to-alls from a
//! concurrent flow (`concurrent.rs`). What holds for a collective holds for its reverse on the transposed network: a
//! reduce-scatter is the reverse of an all-gather, and a reduce that of a broadcast. Rates of all-reduces come from
//! `bound.rs`; there, a link carries nothing useful before the first byte can have come to it, nor after the last one
//! can leave it.
//!
//! Switches that multicast or reduce help to reach these bounds, and never to exceed them.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::all_reduce::{Limited, is_balanced};
use super::concurrent::concurrent_flow;
use super::latency::{self, distances};
use super::limit::Limit;
use super::quickest::{Counted, Curve};
use super::{Bound, TOLERANCE, cut};
use crate::blocks::Blocks;
use crate::topology::{NodeId, Topology};
use crate::units::{Bandwidth, Bytes, Seconds, Time};

/// The most distances from which sets of ranks are tried.
const MOST_SETS: usize = 8;
/// The most links times flows, which takes a second.
const MOST_WORK: usize = 1 << 22;
/// The most pairs of ranks that are compared for an all-reduce, and the most links times pairs.
const MOST_PAIRS: usize = 400;
const MOST_WORK_OF_PAIRS: usize = 1 << 17;
/// A part of the time that is not worth telling.
const LITTLE: f64 = 0.01;

/// A collective other than an all-reduce, whose bounds [`bounds`](super::bounds) computes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Every rank learns the blocks of all others.
    AllGather,
    /// Every rank learns the sum of its block.
    ReduceScatter,
    /// Every rank learns the root's vector.
    Broadcast(NodeId),
    /// The root learns the sum of all vectors.
    Reduce(NodeId),
    /// Every rank learns a block of every other; blocks are equal unless they are given.
    AllToAll(Option<Arc<Blocks>>),
}

/// The bounds of a collective on a network.
#[derive(Debug, Clone)]
pub struct CollectiveBounds {
    /// The rate for large vectors.
    pub rate: Bound,
    /// What limits it.
    limit_of_rate: Limit,
    /// For each link, the most by which the rate rises for each byte a second that the link gains: the dual prices of
    /// the bound. A link whose price is 0 raises it by nothing.
    pub prices: Vec<f64>,
    /// The latency between the two ranks that are farthest apart of those that learn of each other.
    pub farthest: Time,
    /// The part of the time in which no link can help.
    idle: Time,
    flows: Vec<Flow>,
}

#[derive(Debug, Clone)]
struct Flow {
    curve: Curve,
    limit: Limit,
}

impl CollectiveBounds {
    /// Computes the bounds of a collective.
    ///
    /// ```
    /// use treefold::bound::{CollectiveBounds, Kind};
    /// use treefold::topology::from_spec;
    /// use treefold::units::{parse_bandwidth, parse_bytes};
    ///
    /// let ring = from_spec("ring:5", Some(parse_bandwidth("1GB/s")?), None)?;
    /// let bounds = CollectiveBounds::new(&ring, Kind::AllGather);
    /// // A rank has two links of 1 GB/s, over which four blocks of five have to come.
    /// assert!((bounds.seconds(parse_bytes("10GB")?).get() - 4.0).abs() < 1e-3);
    /// assert!(bounds.rate.exact);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn new(topology: &Topology, kind: Kind) -> Self {
        if topology.ranks() < 2 {
            let rate = Bound { rate: Bandwidth::known(f64::INFINITY), exact: true, method: "nothing to send" };
            let nothing = Limited::of_links(topology, rate, Limit::Links(Vec::new()));
            return Self::new_of(nothing, Time::ZERO, Vec::new());
        }
        let expanded = topology.expanded();
        let transposed = || expanded.network.transposed();
        let topology = &*expanded.network;
        let mut bounds = match kind {
            Kind::AllGather => Self::of_all_gather(topology, false),
            Kind::ReduceScatter => Self::of_all_gather(&transposed(), true),
            Kind::Broadcast(root) => Self::of_broadcast(topology, root, false),
            Kind::Reduce(root) => Self::of_broadcast(&transposed(), root, true),
            Kind::AllToAll(blocks) => Self::of_all_to_all(topology, blocks.as_deref()),
        };
        bounds.rate.exact &= expanded.is_whole;
        bounds
    }

    fn of_all_gather(topology: &Topology, is_reverse: bool) -> Self {
        let cut = cut::all_gather_rate(topology);
        let rate = Bandwidth::known(f64::from(topology.ranks()) * cut.rate);
        let (exact, method) = exactness(topology, cut.is_exact);
        let limit = Limit::of_cut(topology, &cut.inside, is_reverse);
        let rate = Limited::of_links(topology, Bound { rate, exact, method }, limit);
        Self::new_of(rate, latency::farthest(topology), flows_into_each(topology, is_reverse))
    }

    fn of_broadcast(topology: &Topology, root: NodeId, is_reverse: bool) -> Self {
        let others = topology.rank_ids().filter(|&rank| rank != root);
        let flows: Vec<Flow> = others.filter_map(|rank| flow(topology, &[root], rank, 1.0, is_reverse)).collect();
        let rate = flows.iter().map(|flow| flow.curve.rate()).fold(f64::INFINITY, f64::min);
        let (exact, method) = exactness(topology, flows.len() + 1 == topology.ranks() as usize);
        let farthest = distances(topology, root).into_iter().max().unwrap_or_default();
        let limit = Limit::of_cut(topology, &cut::broadcast_rate(topology, root).inside, is_reverse);
        let bound = Bound { rate: Bandwidth::known(rate), exact, method };
        Self::new_of(Limited::of_links(topology, bound, limit), farthest, flows)
    }

    fn of_all_to_all(topology: &Topology, blocks: Option<&Blocks>) -> Self {
        let found = concurrent_flow(topology, blocks);
        let shares = blocks.map_or(u64::from(topology.ranks()), Blocks::largest);
        let rate = Bandwidth::known(shares as f64 * found.rate);
        let bound = Bound { rate, exact: found.is_exact(), method: "prices of a concurrent flow" };
        let prices = found.prices.into_iter().map(|price| shares as f64 * price).collect();
        let rate = Limited { bound, limit: found.limit, prices };
        let Some(blocks) = blocks else {
            return Self::new_of(rate, latency::farthest(topology), flows_into_each(topology, false));
        };
        let mut flows = flows_of_blocks(topology, false, |giver, receiver| blocks.share(giver, receiver), shares);
        let back = |receiver, giver| blocks.share(giver, receiver);
        flows.extend(flows_of_blocks(&topology.transposed(), true, back, shares));
        Self::new_of(rate, farthest_of_blocks(topology, blocks), flows)
    }

    fn new_of(rate: Limited, farthest: Time, flows: Vec<Flow>) -> Self {
        let Limited { bound, limit, prices } = rate;
        Self { rate: bound, limit_of_rate: limit, prices, farthest, idle: Time::ZERO, flows }
    }

    /// Computes the bounds of an all-reduce, of which the rate is known.
    pub(super) fn of_all_reduce(topology: &Topology, rate: Limited) -> Self {
        if topology.ranks() < 2 {
            return Self::new_of(rate, Time::ZERO, Vec::new());
        }
        let expanded = topology.expanded();
        let topology = &*expanded.network;
        let far = far_pairs(topology);
        let farthest = far.first().map_or(Time::ZERO, |&(time, ..)| time);
        Self { idle: latency::least_use(topology), ..Self::new_of(rate, farthest, flows_between(topology, &far)) }
    }

    /// Returns the time that the collective takes at least for vectors of `size`.
    pub fn seconds(&self, size: Bytes) -> Seconds {
        self.limited(size).map_or(Seconds::ZERO, |(seconds, _)| seconds)
    }

    /// Returns what limits the collective at a size; `None` if nothing has to be sent. Where that adds little to what
    /// the rate of large vectors asks for, it is the rate.
    pub fn limit(&self, size: Bytes) -> Option<Limit> {
        let (seconds, limit) = self.limited(size)?;
        let of_rate = self.seconds_of_rate(size);
        Some(if seconds.get() <= of_rate.get() * (1.0 + LITTLE) { self.limit_of_rate.clone() } else { limit })
    }

    /// Returns what limits the rate of large vectors.
    pub fn limit_of_rate(&self) -> &Limit {
        &self.limit_of_rate
    }

    /// Returns the time that the rate of large vectors asks for.
    fn seconds_of_rate(&self, size: Bytes) -> Seconds {
        Seconds::known(self.rate.rate.seconds_for(size.get() as f64).get() + self.idle.seconds())
    }

    fn limited(&self, size: Bytes) -> Option<(Seconds, Limit)> {
        if size.get() == 0 || self.rate.rate.bytes_per_second().is_infinite() {
            return None;
        }
        let mut worst = (self.seconds_of_rate(size), self.limit_of_rate.clone());
        let mut consider = |seconds: Seconds, limit: &Limit| {
            if seconds.get() > worst.0.get() * (1.0 + TOLERANCE) {
                worst = (seconds, limit.clone());
            }
        };
        consider(self.farthest.into(), &Limit::Farthest);
        self.flows.iter().for_each(|flow| consider(flow.curve.seconds(size), &flow.limit));
        Some(worst)
    }
}

/// Returns whether a rate of minimum cuts is exact, and how it was found.
fn exactness(topology: &Topology, is_complete: bool) -> (bool, &'static str) {
    let method = if is_complete { "minimum cuts" } else { "cuts of single ranks" };
    (is_complete && is_balanced(topology), method)
}

/// Returns the flow from some ranks to one; on a transposed network it runs the other way.
fn flow(topology: &Topology, from: &[NodeId], to: NodeId, part: f64, is_reverse: bool) -> Option<Flow> {
    let limit = if is_reverse { Limit::FlowBack(to, from.to_vec()) } else { Limit::Flow(from.to_vec(), to) };
    let at = if is_reverse { Counted::First } else { Counted::Last };
    Curve::new(topology, from, to, part, at).map(|curve| Flow { curve, limit })
}

/// Returns the latency between the ranks that are farthest apart of those that have anything for each other.
fn farthest_of_blocks(topology: &Topology, blocks: &Blocks) -> Time {
    let from = |giver| {
        let reached = topology.rank_ids().zip(distances(topology, giver));
        reached.filter(move |&(rank, _)| blocks.share(giver, rank) > 0).map(|(_, time)| time).max()
    };
    topology.rank_ids().take(latency::MAX_SOURCES).filter_map(from).max().unwrap_or_default()
}

/// Returns the flows into each rank, or some of them on large networks, from all others and from those that are far.
/// Each rank has the same for the sink.
fn flows_into_each(topology: &Topology, is_reverse: bool) -> Vec<Flow> {
    flows_of_blocks(topology, is_reverse, |_, _| 1, topology.ranks().into())
}

/// Returns the flows into each rank, as [`flows_into_each`] does, if ranks have such shares of a vector of `all` shares
/// for each other.
fn flows_of_blocks(
    topology: &Topology,
    is_reverse: bool,
    share: impl Fn(NodeId, NodeId) -> u64,
    all: u64,
) -> Vec<Flow> {
    let ranks = topology.ranks() as usize;
    let back = topology.transposed();
    let sinks = (MOST_WORK / (topology.links().len() * MOST_SETS).max(1)).clamp(1, ranks);
    let mut flows = Vec::new();
    for sink in (0..sinks).map(|place| NodeId::new(place * ranks / sinks)) {
        let far = distances(&back, sink);
        let givers: Vec<NodeId> = topology.rank_ids().filter(|&rank| rank != sink && share(rank, sink) > 0).collect();
        let steps: BTreeSet<Time> = givers.iter().map(|&rank| far[rank]).collect();
        let steps: Vec<Time> = steps.into_iter().collect();
        let every = steps.len().div_ceil(MOST_SETS).max(1);
        for least in steps.into_iter().step_by(every) {
            let from: Vec<NodeId> = givers.iter().copied().filter(|&rank| far[rank] >= least).collect();
            let shares: u64 = from.iter().map(|&rank| share(rank, sink)).sum();
            flows.extend(flow(topology, &from, sink, shares as f64 / all as f64, is_reverse));
        }
    }
    flows
}

/// A pair of ranks, and the least latency from the first to the second.
type Pair = (Time, NodeId, NodeId);

/// Returns all pairs of ranks, or some of them on large networks; the farthest are first.
fn far_pairs(topology: &Topology) -> Vec<Pair> {
    let sources = topology.rank_ids().take(latency::MAX_SOURCES);
    let mut far: Vec<Pair> = sources
        .flat_map(|source| {
            let reached = topology.rank_ids().zip(distances(topology, source));
            reached.filter(move |&(rank, _)| rank != source).map(move |(rank, time)| (time, source, rank))
        })
        .collect();
    far.sort_by_key(|&(time, source, target)| (Reverse(time), source, target));
    far
}

/// Returns the flows between the first of these pairs, each of which stands for all that are alike.
fn flows_between(topology: &Topology, far: &[Pair]) -> Vec<Flow> {
    let pairs = (MOST_WORK_OF_PAIRS / topology.links().len().max(1)).clamp(1, MOST_PAIRS);
    let mut flows: Vec<Flow> = Vec::new();
    for &(_, source, target) in far.iter().take(pairs) {
        let found = flow(topology, &[source], target, 1.0, false);
        flows.extend(found.filter(|found| flows.iter().all(|other| other.curve != found.curve)));
    }
    flows
}
