//! The alpha-beta model of a stream, whose chunks are pipelined through a tree.
//!
//! It is the model of MTree, III-C, corrected where the paper's equations do not fit its text. Over a path whose links
//! share their bandwidth with other trees, `count` chunks take `latency + path / count + (count - 1) (overhead +
//! slowest / count)`. Propagation latency delays a chunk but does not occupy a link; only the overhead of a message
//! limits how small a chunk may be. A chunk waits for the chunks of all other trees on its links, which is `overhead`,
//! and for the first chunk a part of `latency`. Where a tree has several paths, latency, path and overhead are each
//! that of the path with the most, which may be different ones, so that the model's time is never too low; on a chain
//! it is the paper's equation (2). The best count is therefore `sqrt((path - slowest) / overhead)`, and without
//! overhead the largest one allowed.

use super::{Chunk, Direction, Draft, LaneRef, LaneRoutes, Pace, Phase, Tree, Walkable};
use crate::error::Result;
use crate::misfit;
use crate::topology::{LinkId, Topology};
use crate::units::{Bytes, Seconds, Time};

/// The least bytes of a chunk, which is not smaller than a packet (MultiTree, Table III).
const MIN_CHUNK_BYTES: f64 = 256.0;
/// The most chunks: more gain less than 1 % on trees of ten levels, and cost memory when they are lowered.
const MAX_CHUNKS: f64 = 1024.0;

/// The figures that decide the time of one tree in a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TreePipeline {
    /// The latency and overhead of the longest path up and down again.
    pub latency: Seconds,
    /// The sum, over the edges of the longest path, of the times in which their links carry the spans of all trees that
    /// use them, in seconds a byte of the vector.
    pub path_per_byte: f64,
    /// The largest of these times of one edge, to which the time of large vectors tends, in seconds a byte of the
    /// vector.
    pub slowest_per_byte: f64,
    /// The overhead on the busiest link when every tree sends one chunk.
    pub overhead: Seconds,
    /// The part of the vector that the tree carries.
    pub share: f64,
    chunk: Chunk,
}

impl TreePipeline {
    /// Returns the time for a vector of `size` in `count` chunks.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("dbtree", &ring, &Options::default())?;
    /// use treefold::plan::{LaneRoutes, pipeline::pipelines};
    /// use treefold::units::parse_bytes;
    ///
    /// let routes = LaneRoutes::new(&ring, &plan.lanes);
    /// let trees = pipelines(&plan, &plan.phases[0], &routes);
    /// let size = parse_bytes("64MiB")?;
    /// let best = trees[0].chunks(size);
    /// assert!(trees[0].seconds(size, best) < trees[0].seconds(size, 1), "chunks follow each other");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn seconds(&self, size: Bytes, count: u32) -> Seconds {
        let (size, count) = (size.get() as f64, f64::from(count));
        let (path, slowest) = (size * self.path_per_byte, size * self.slowest_per_byte);
        let first = self.latency.get() + path / count;
        Seconds::known(first + (count - 1.0) * (self.overhead.get() + slowest / count))
    }

    /// Returns the pipeline of messages that cost at least `overhead`.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("dbtree", &ring, &Options::default())?;
    /// use treefold::plan::{LaneRoutes, pipeline::pipelines};
    /// use treefold::units::parse_bytes;
    ///
    /// let routes = LaneRoutes::new(&ring, &plan.lanes);
    /// let trees = pipelines(&plan, &plan.phases[0], &routes);
    /// use treefold::units::parse_time;
    ///
    /// let size = parse_bytes("64MiB")?;
    /// assert!(trees[0].with_overhead(parse_time("1ms")?).chunks(size) < trees[0].chunks(size));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn with_overhead(self, overhead: Time) -> Self {
        Self { overhead: self.overhead.max(overhead.into()), ..self }
    }

    /// Returns how many chunks the tree's span is cut into for a vector of `size`.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("dbtree", &ring, &Options::default())?;
    /// use treefold::plan::{LaneRoutes, pipeline::pipelines};
    /// use treefold::units::parse_bytes;
    ///
    /// let routes = LaneRoutes::new(&ring, &plan.lanes);
    /// let trees = pipelines(&plan, &plan.phases[0], &routes);
    /// assert_eq!(trees[0].chunks(parse_bytes("256B")?), 1);
    /// assert!(trees[0].chunks(parse_bytes("64MiB")?) > 1);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn chunks(&self, size: Bytes) -> u32 {
        let bytes = size.get() as f64 * self.share;
        let count = match self.chunk {
            Chunk::One => 1.0,
            Chunk::Count(_) | Chunk::Bytes(_) => return self.chunk.asked(bytes),
            Chunk::Best => {
                let fill = size.get() as f64 * (self.path_per_byte - self.slowest_per_byte);
                let best = if self.overhead > Seconds::ZERO { (fill / self.overhead.get()).sqrt() } else { MAX_CHUNKS };
                best.min(bytes / MIN_CHUNK_BYTES).min(MAX_CHUNKS).floor()
            }
        };
        count.max(1.0) as u32
    }
}

impl Chunk {
    /// Returns how many chunks the plan itself asks for where a tree carries `bytes`.
    fn asked(self, bytes: f64) -> u32 {
        match self {
            Self::One | Self::Best => 1,
            Self::Count(count) => count.max(1),
            Self::Bytes(chunk) => (bytes / chunk.max(1) as f64).ceil().max(1.0) as u32,
        }
    }
}

/// The most transfers that the chunks of a plan may make; simulators and transports need seconds and some hundred
/// megabytes for them.
const MAX_CHUNKED_TRANSFERS: u64 = 1 << 20;

/// Refuses a plan that itself asks for so many chunks, for a vector of `size`, that nothing could run it.
///
/// # Errors
/// If the chunks make more transfers than treefold handles.
pub(crate) fn check_chunks(plan: &Draft, size: Bytes) -> Result<()> {
    let streamed = plan.phases.iter().filter(|phase| phase.pace.is_stream());
    let of_phase = |phase| plan.trees_of(phase).iter().map(move |tree| chunked_transfers(plan, phase, tree, size));
    let all: u64 = streamed.flat_map(of_phase).sum();
    if all > MAX_CHUNKED_TRANSFERS {
        misfit!(
            "the plan's chunks make {all} transfers; treefold handles {MAX_CHUNKED_TRANSFERS}, so use fewer chunks"
        );
    }
    Ok(())
}

/// Returns how many transfers a tree makes for which the plan itself asks for several chunks; a tree without edges has
/// one of its own, the root's.
fn chunked_transfers(plan: &Draft, phase: &Phase, tree: &Tree, size: Bytes) -> u64 {
    let share = plan.part_of(tree);
    match tree.chunk.asked(size.get() as f64 * share) {
        1 => 0,
        chunks => u64::from(chunks) * plan.edges_of(phase, tree).max(1),
    }
}

/// The load that all transfers of a phase together put on each link and each shared capacity: units of the vector, and
/// seconds of overheads.
struct Demand {
    units: Vec<u64>,
    overheads: Vec<f64>,
    /// If trees are paced, the seconds a byte of the vector that the busiest link needs, which every edge takes.
    seconds_per_byte: Option<f64>,
}

/// Returns the seconds a byte of the vector that the busiest link or shared capacity needs for all that a phase puts
/// on it.
pub(crate) fn busiest(plan: &Draft, phase: &Phase, routes: &LaneRoutes) -> f64 {
    Demand::new(plan, phase, routes).busiest(plan)
}

impl Demand {
    fn new(plan: &Draft, phase: &Phase, routes: &LaneRoutes) -> Self {
        let capacities = plan.topology.num_capacities();
        let mut demand = Self { units: vec![0; capacities], overheads: vec![0.0; capacities], seconds_per_byte: None };
        plan.visit_transfers(phase, |_, message| {
            let overhead = largest_overhead(&plan.topology, routes.of(message.lane));
            for &link in routes.capacities(message.lane) {
                demand.units[link] += message.units;
                demand.overheads[link] += overhead;
            }
        });
        if phase.pace == Pace::Paced {
            demand.seconds_per_byte = Some(demand.busiest(plan));
        }
        demand
    }

    fn busiest(&self, plan: &Draft) -> f64 {
        let part = |units: u64| units as f64 / plan.units as f64;
        let loads = self.units.iter().zip(plan.topology.bandwidths());
        let seconds = loads.map(|(&units, bandwidth)| bandwidth.seconds_for(part(units)));
        seconds.max().unwrap_or_default().get()
    }
}

/// Returns the pipelines of a streamed phase's trees, in order. A tree that carries nothing has a share of zero.
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
/// # let plan = planners::plan("dbtree", &ring, &Options::default())?;
/// use treefold::plan::{LaneRoutes, pipeline::pipelines};
///
/// let routes = LaneRoutes::new(&ring, &plan.lanes);
/// let trees = pipelines(&plan, &plan.phases[0], &routes);
/// assert_eq!(trees.len(), 2);
/// assert!((trees[0].share - 0.5).abs() < 1e-12 && trees[0].latency > plan.topology.links()[0].latency.into());
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn pipelines<'a>(plan: impl Into<Walkable<'a>>, phase: &Phase, routes: &LaneRoutes) -> Vec<TreePipeline> {
    drafted(plan.into().draft(), phase, routes)
}

/// Returns the pipelines of what a planner has drafted.
pub(super) fn drafted(plan: &Draft, phase: &Phase, routes: &LaneRoutes) -> Vec<TreePipeline> {
    let demand = Demand::new(plan, phase, routes);
    plan.trees_of(phase).iter().map(|tree| pipeline(plan, phase, tree, routes, &demand)).collect()
}

fn pipeline(plan: &Draft, phase: &Phase, tree: &Tree, routes: &LaneRoutes, demand: &Demand) -> TreePipeline {
    let share = plan.part_of(tree);
    let (none, path_per_byte, slowest_per_byte, chunk) = (Seconds::ZERO, 0.0, 0.0, tree.chunk);
    let mut all = TreePipeline { latency: none, path_per_byte, slowest_per_byte, overhead: none, share, chunk };
    if tree.units() == 0 {
        return all;
    }
    let mut to_root = vec![(0.0f64, 0.0f64); plan.topology.nodes().len()];
    for direction in Direction::BOTH {
        to_root[tree.root] = (0.0, 0.0);
        let (mut latency, mut path) = (0.0f64, 0.0f64);
        for edge in plan.half(phase, tree, direction) {
            let cost = EdgeCost::new(plan, edge.lane, routes, demand);
            let (latency_before, path_before) = to_root[edge.parent];
            let here = (latency_before + cost.latency, path_before + cost.drain);
            to_root[edge.child] = here;
            (latency, path) = (latency.max(here.0), path.max(here.1));
            all.slowest_per_byte = all.slowest_per_byte.max(cost.drain);
            all.overhead = all.overhead.max(Seconds::known(cost.overhead));
        }
        all.latency = all.latency + Seconds::known(latency);
        all.path_per_byte += path;
    }
    all
}

/// The cost of an edge while every tree of the phase shares the links.
struct EdgeCost {
    latency: f64,
    /// The seconds a byte of the vector until the busiest link of the route has carried the spans of all its trees.
    drain: f64,
    overhead: f64,
}

impl EdgeCost {
    fn new(plan: &Draft, lane: LaneRef, routes: &LaneRoutes, demand: &Demand) -> Self {
        let topology = &plan.topology;
        let route = routes.of(lane);
        let own = largest_overhead(topology, route);
        let mut cost = Self { latency: route_latency(topology, route), drain: 0.0, overhead: own };
        for &id in routes.capacities(lane) {
            let part = demand.units[id] as f64 / plan.units as f64;
            cost.drain = cost.drain.max(topology.bandwidth(id).seconds_for(part).get());
        }
        match demand.seconds_per_byte {
            // Paced trees leave each other their time on a link.
            Some(seconds) => cost.drain = seconds,
            None => {
                cost.overhead = route.iter().map(|&id| demand.overheads[id]).fold(own, f64::max);
                // The first chunk also waits for the first chunks of the others; its own overhead is part of the
                // latency.
                cost.latency += cost.overhead - own;
            }
        }
        cost
    }
}

/// Returns the seconds for which a message occupies each link of its route besides its bytes: the overhead of the link
/// with the largest one.
pub(super) fn largest_overhead(topology: &Topology, route: &[LinkId]) -> f64 {
    route.iter().map(|&id| topology.link(id).overhead.seconds()).fold(0.0, f64::max)
}

/// Returns the seconds that the first byte of a message needs: for links, overheads, and the nodes that it passes.
pub(crate) fn route_latency(topology: &Topology, route: &[LinkId]) -> f64 {
    let overheads = route.iter().map(|&link| topology.link(link).overhead).sum::<Time>();
    (propagation(topology, route) + overheads).seconds()
}

/// Returns the seconds for which a message of `bytes` occupies its route: as many as the slowest link needs for them
/// and its overhead, or what links share for them, as often as they share it.
pub(crate) fn seconds_on(topology: &Topology, capacities: &[LinkId], bytes: f64) -> f64 {
    let of_each = |&id: &LinkId| match topology.as_shared(id) {
        Some(shared) => times(capacities, id) * shared.bandwidth.seconds_for(bytes).get(),
        None => topology.link(id).overhead.seconds() + topology.bandwidth(id).seconds_for(bytes).get(),
    };
    capacities.iter().map(of_each).fold(0.0, f64::max)
}

/// Notes in `free` until when a message of `bytes` that starts at a time occupies its route: all links for the seconds
/// of [`seconds_on`]; and what links share for no longer than it needs itself, so that other links go on sharing it.
pub(crate) fn occupy(
    topology: &Topology,
    capacities: &[LinkId],
    bytes: f64,
    (start, busy): (f64, f64),
    free: &mut [f64],
) {
    for &id in capacities {
        free[id] = match topology.as_shared(id) {
            Some(shared) => free[id].max(start) + shared.bandwidth.seconds_for(bytes).get(),
            None => start + busy,
        };
    }
}

/// Returns how often a route occupies a capacity.
fn times(capacities: &[LinkId], id: LinkId) -> f64 {
    capacities.iter().filter(|&&other| other == id).count() as f64
}

/// Returns the bandwidth that one message on a route has: that of its slowest link, or its part of what links share.
pub(crate) fn bandwidth_of(topology: &Topology, capacities: &[LinkId]) -> f64 {
    let of_each = |&id: &LinkId| topology.bandwidth(id).bytes_per_second() / times(capacities, id);
    capacities.iter().map(of_each).fold(f64::INFINITY, f64::min)
}

/// Returns the seconds from when a message of `bytes`, which occupies its route for `busy` seconds, has left the route
/// until it is received. Alone it takes all delays of its route and the time of the slowest link or shared capacity.
pub(crate) fn seconds_behind(topology: &Topology, capacities: &[LinkId], bytes: f64, busy: f64) -> f64 {
    let route = &capacities[..capacities.partition_point(|&id| topology.as_shared(id).is_none())];
    if capacities.len() == 1 {
        return propagation(topology, route).seconds();
    }
    let slowest = bytes / bandwidth_of(topology, capacities);
    (route_latency(topology, route) - (busy - slowest)).max(0.0)
}

/// Returns the time for which a byte is under way: on links, and in the nodes that it passes. A switch or relay from
/// which a tree sends it on counts as passed.
fn propagation(topology: &Topology, route: &[LinkId]) -> Time {
    let sources = route.iter().map(|&link| topology.link(link).source);
    let passed = sources.enumerate().filter(|&(hop, node)| hop > 0 || !topology.is_rank(node));
    let passed = passed.map(|(_, node)| topology.node(node).latency);
    let links = route.iter().map(|&link| topology.link(link).latency);
    links.chain(passed).sum::<Time>()
}
