//! The load of each link and each shared capacity under a plan, and the shape of its trees.

use super::{Direction, Draft, LaneRoutes, Plan};
use crate::topology::{LinkId, Topology};
use crate::units::Bandwidth;

/// The units of the vector that each link carries over the whole plan, and behind the links each shared capacity.
pub struct LinkLoads(pub Vec<u64>);

/// The heights and fanouts of a plan's trees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TreeShape {
    /// The most edges between a root and a leaf.
    pub max_height: u32,
    /// The mean height of the trees.
    pub mean_height: f64,
    /// The most children of any node in any half.
    pub max_fanout: u32,
    /// The mean over all trees of the largest fanout in each.
    pub mean_max_fanout: f64,
}

impl LinkLoads {
    /// Adds up the units that all transfers put on the links of their routes.
    pub fn new(plan: &Plan, routes: &LaneRoutes) -> Self {
        Self::of(plan, routes)
    }

    /// Adds up the units of what a planner has drafted.
    pub(super) fn of(plan: &Draft, routes: &LaneRoutes) -> Self {
        let mut loads = vec![0; plan.topology.num_capacities()];
        for phase in &plan.phases {
            plan.visit_transfers(phase, |_, message| {
                for &link in routes.capacities(message.lane) {
                    loads[link] += message.units;
                }
            });
        }
        Self(loads)
    }

    /// Returns the seconds that each link and each shared capacity takes for a byte of the vector.
    pub(super) fn seconds(&self, topology: &Topology, units: u64) -> Vec<f64> {
        let seconds = |(load, bandwidth): (&u64, Bandwidth)| bandwidth.seconds_for(*load as f64 / units as f64).get();
        self.0.iter().zip(topology.bandwidths()).map(seconds).collect()
    }
}

/// Returns the links with the largest load, in rising order; none if no link has a load.
pub(crate) fn busiest_of(loads: &[f64]) -> Vec<LinkId> {
    let most = loads.iter().copied().fold(0.0, f64::max);
    let is_busiest = |&link: &LinkId| most > 0.0 && loads[link] >= most * (1.0 - ALIKE);
    LinkId::first(loads.len()).filter(is_busiest).collect()
}

/// Loads that differ by less than this part are alike: whoever upgrades one of these links wants to know of the others.
const ALIKE: f64 = 1e-3;

impl Plan {
    /// Returns the rate to which the algbw of large vectors tends: the inverse of the longest time that a link or a
    /// shared capacity needs for each byte of the vector. It is `None` when nothing is sent.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// assert!(plan.rate().is_some());
    /// let alone = Arc::new(treefold::topology::from_spec("ring:1", None, None)?);
    /// assert!(planners::plan("ring", &alone, &Options::default())?.rate().is_none(), "nothing is sent");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn rate(&self) -> Option<Bandwidth> {
        let most = self.seconds_of_links().into_iter().fold(0.0, f64::max);
        (most > 0.0).then(|| Bandwidth::known(1.0 / most))
    }

    /// Returns the links and shared capacities that limit the rate, all that are within 0.1 % of the busiest; none when nothing is sent.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use treefold::planners::{self, Options};
    /// use treefold::topology::{Directions, from_spec};
    /// use treefold::units::parse_bandwidth;
    ///
    /// let ring = from_spec("ring:4", None, None)?;
    /// let narrow = [(("GPU2".into(), "GPU3".into()), parse_bandwidth("3GB/s")?)];
    /// let narrow = Arc::new(ring.with_bandwidths(&narrow, Directions::OneWay)?);
    /// let plan = planners::plan("ring", &narrow, &Options::default())?;
    /// let busiest = plan.busiest_links();
    /// assert_eq!(busiest.iter().map(|&link| plan.topology.describe_link(link)).collect::<Vec<_>>(), ["GPU2 -> GPU3"]);
    /// let rate = plan.rate().expect("a ring sends");
    /// assert!((rate.seconds_for(2e9).get() - 1.0).abs() < 1e-9, "each link carries 2 (4 - 1) / 4 of the vector");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn busiest_links(&self) -> Vec<LinkId> {
        busiest_of(&self.seconds_of_links())
    }

    /// Returns the seconds that each link and each shared capacity takes for a byte of the vector.
    fn seconds_of_links(&self) -> Vec<f64> {
        let routes = LaneRoutes::new(&self.topology, &self.lanes);
        LinkLoads::new(self, &routes).seconds(&self.topology, self.units)
    }

    /// Returns the heights and fanouts of all trees; the height of a tree is that of its taller half.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// let shape = planners::plan("ps", &ring, &Options::default())?.shape();
    /// assert_eq!((shape.max_height, shape.max_fanout), (1, 3), "all ranks send to the server");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn shape(&self) -> TreeShape {
        let mut depth = vec![0u32; self.topology.nodes().len()];
        let (mut max_height, mut sum, mut max_fanout, mut sum_fanout) = (0, 0u64, 0, 0u64);
        for phase in &self.phases {
            for tree in self.trees_of(phase) {
                let mut fanout = 0;
                let halves = Direction::BOTH.map(|direction| {
                    depth[tree.root] = 0;
                    let (mut height, mut siblings, mut last_parent) = (0, 0, None);
                    for edge in self.half(phase, tree, direction) {
                        depth[edge.child] = depth[edge.parent] + 1;
                        height = height.max(depth[edge.child]);
                        siblings = if last_parent == Some(edge.parent) { siblings + 1 } else { 1 };
                        last_parent = Some(edge.parent);
                        fanout = fanout.max(siblings);
                    }
                    height
                });
                let height = halves[0].max(halves[1]);
                max_height = max_height.max(height);
                max_fanout = max_fanout.max(fanout);
                sum += u64::from(height);
                sum_fanout += u64::from(fanout);
            }
        }
        let mean = |sum: u64| if self.trees.is_empty() { 0.0 } else { sum as f64 / self.trees.len() as f64 };
        TreeShape { max_height, mean_height: mean(sum), max_fanout, mean_max_fanout: mean(sum_fanout) }
    }
}
