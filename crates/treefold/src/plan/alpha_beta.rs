//! The alpha-beta model of a whole plan: phases in steps are added up step by step, and streamed phases are pipelines.
//!
//! A step lasts as long as its slowest message: the latency of its route, plus the time that the busiest link of the
//! route needs for everything that it carries in this step, so that contention counts. The next step starts when the
//! last message of a step has arrived. In an ordered phase nobody waits for a step, see `plan/ordered.rs`. A stream
//! lasts as long as its slowest tree, see [`super::pipeline`]. As the time of each step is the largest of a few lines
//! `latency + slope x size`, a plan is reduced to those lines once, and then gives its time for any size. The module
//! lies below planners and simulators, because planners choose by it too. Cost: linear in the plan's edges times the
//! length of routes, once; then linear in its steps.

use std::collections::HashSet;

use super::ordered::OrderedPhase;
use super::pipeline::{TreePipeline, drafted, largest_overhead, route_latency};
use super::{Draft, LaneRoutes, LinkLoads, Message, Pace, Phase, Walkable, for_each_step};
use crate::topology::Topology;
use crate::units::{Bytes, Seconds};

/// A line that gives seconds as a function of the size: `latency + slope * bytes`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    latency: f64,
    slope: f64,
}

/// The load of a link in a step.
#[derive(Clone, Copy, Default)]
struct Demand {
    units: u64,
    messages: u32,
}

/// A plan reduced to the lines that decide its time.
pub struct Profile {
    /// The lines of each step, whose largest decides, and how many steps in a row have the same lines.
    steps: Vec<(Vec<Line>, u32)>,
    streams: Vec<Vec<TreePipeline>>,
    ordered: Vec<OrderedPhase>,
    /// The seconds a byte of the vector for which each link is busy, overheads not included.
    busy: Vec<f64>,
}

impl Profile {
    /// Reduces `plan` to its profile.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use treefold::plan::alpha_beta::Profile;
    /// use treefold::planners::{self, Options};
    /// use treefold::topology::from_spec;
    /// use treefold::units::parse_bytes;
    ///
    /// let ring = Arc::new(from_spec("ring:8", None, None)?);
    /// let plan = planners::plan("ring", &ring, &Options::default())?;
    /// let profile = Profile::new(&plan);
    /// // Each of 2 (8 - 1) steps takes 150 ns, and an eighth of the vector at 16 GB/s.
    /// let seconds = 14.0 * (150e-9 + 16e6 / 8.0 / 16e9);
    /// assert!((profile.seconds(parse_bytes("16MB")?).get() - seconds).abs() < 1e-12);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn new<'a>(plan: impl Into<Walkable<'a>>) -> Self {
        Self::of(plan.into().draft())
    }

    /// Reduces what a planner has drafted to its profile.
    pub(crate) fn of(plan: &Draft) -> Self {
        let routes = LaneRoutes::new(&plan.topology, &plan.lanes);
        let (steps, streams, ordered) = (Vec::new(), Vec::new(), Vec::new());
        let mut profile = Self { steps, streams, ordered, busy: busy(plan, &routes) };
        for phase in &plan.phases {
            if phase.pace == Pace::Ordered {
                profile.ordered.push(OrderedPhase::new(plan, phase, &routes));
            } else if phase.pace.is_stream() {
                profile.streams.push(drafted(plan, phase, &routes));
            } else {
                profile.add_steps(plan, phase, &routes);
            }
        }
        profile
    }

    /// Returns the time for a vector of `size`.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// use treefold::plan::alpha_beta::Profile;
    /// use treefold::units::parse_bytes;
    ///
    /// let profile = Profile::new(&plan);
    /// assert!(profile.seconds(parse_bytes("1KiB")?) < profile.seconds(parse_bytes("1MiB")?));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn seconds(&self, size: Bytes) -> Seconds {
        if size.get() == 0 {
            return Seconds::ZERO;
        }
        let bytes = size.get() as f64;
        let of_step = |lines: &[Line]| lines.iter().map(|line| line.latency + line.slope * bytes).fold(0.0, f64::max);
        let steps: f64 = self.steps.iter().map(|(lines, count)| of_step(lines) * f64::from(*count)).sum();
        let of_tree = |tree: &TreePipeline| tree.seconds(size, tree.chunks(size)).get();
        let of_stream =
            |trees: &Vec<TreePipeline>| trees.iter().filter(|tree| tree.share > 0.0).map(of_tree).fold(0.0, f64::max);
        let ordered: f64 = self.ordered.iter().map(|phase| phase.seconds(size)).sum();
        Seconds::known(steps + self.streams.iter().map(of_stream).sum::<f64>() + ordered)
    }

    /// Returns the time for which each link is busy, for a vector of `size`.
    pub(crate) fn busy_seconds(&self, size: Bytes) -> impl Iterator<Item = Seconds> {
        self.busy.iter().map(move |busy| Seconds::known(busy * size.get() as f64))
    }

    fn add_steps(&mut self, plan: &Draft, phase: &Phase, routes: &LaneRoutes) {
        let mut demand = vec![Demand::default(); plan.topology.num_capacities()];
        for_each_step(plan, phase, |_, messages| {
            for message in messages {
                for &link in routes.capacities(message.lane) {
                    demand[link].units += message.units;
                    demand[link].messages += 1;
                }
            }
            let lines = envelope(plan, messages, routes, &demand);
            for &link in messages.iter().flat_map(|message| routes.capacities(message.lane)) {
                demand[link] = Demand::default();
            }
            match self.steps.last_mut() {
                Some((last, count)) if *last == lines => *count += 1,
                _ => self.steps.push((lines, 1)),
            }
        });
    }
}

/// Returns the seconds a byte of the vector for which each link and each shared capacity is busy.
fn busy(plan: &Draft, routes: &LaneRoutes) -> Vec<f64> {
    LinkLoads::of(plan, routes).seconds(&plan.topology, plan.units)
}

/// Returns the lines of which each is the largest for some size.
fn envelope(plan: &Draft, messages: &[Message], routes: &LaneRoutes, demand: &[Demand]) -> Vec<Line> {
    let topology: &Topology = &plan.topology;
    let mut seen = HashSet::new();
    let mut lines: Vec<Line> = Vec::new();
    for message in messages {
        let route = routes.of(message.lane);
        let latency = route_latency(topology, route);
        let own = largest_overhead(topology, route);
        for &id in routes.capacities(message.lane) {
            let Demand { units, messages } = demand[id];
            let overhead = if topology.as_shared(id).is_some() { own } else { topology.link(id).overhead.seconds() };
            let line = Line {
                latency: latency + f64::from(messages - 1) * overhead,
                slope: topology.bandwidth(id).seconds_for(units as f64 / plan.units as f64).get(),
            };
            if seen.insert((line.latency.to_bits(), line.slope.to_bits())) {
                lines.push(line);
            }
        }
    }
    lines.sort_by(|a, b| b.latency.total_cmp(&a.latency).then(b.slope.total_cmp(&a.slope)));
    let mut steepest = f64::NEG_INFINITY;
    lines.retain(|line| {
        let rises = line.slope > steepest;
        steepest = steepest.max(line.slope);
        rises
    });
    lines
}
