//! Plans that are moved to a later state of their network.

use std::sync::Arc;

use super::{Draft, Lanes, Plan, Routing, Tree, Unproven};
use crate::topology::{Correspondence, LinkId, Topology};

impl Plan {
    /// Returns the plan with the same trees on `topology`; `None` unless that has the same ranks, and all nodes and
    /// links of the trees.
    ///
    /// The plan is not proven there: links may have become too slow for what it promises of them.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// use treefold::topology::Directions;
    /// use treefold::units::parse_bandwidth;
    ///
    /// let slow = [(("GPU0".into(), "GPU1".into()), parse_bandwidth("1GB/s")?)];
    /// let slower = Arc::new(ring.with_bandwidths(&slow, Directions::BothWays)?);
    /// let moved = plan.moved_to(&slower).expect("no link is gone");
    /// assert!(moved.prove()?.rate() < plan.rate());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn moved_to(&self, topology: &Arc<Topology>) -> Option<Unproven> {
        let names = |of: &Topology| -> Vec<String> {
            of.nodes()[..of.ranks() as usize].iter().map(|node| node.name.clone()).collect()
        };
        if names(&self.topology) != names(topology) {
            return None;
        }
        let now = Correspondence::new(&self.topology, topology);
        let lanes = moved_lanes(&self.lanes, topology, &now)?;
        let root = |tree: &Tree| Some(Tree { root: now.node[tree.root]?, ..tree.clone() });
        let trees = self.trees.iter().map(root).collect::<Option<_>>()?;
        Some(Unproven::new(Draft { topology: Arc::clone(topology), lanes, trees, ..Draft::from(self.clone()) }))
    }
}

fn moved_lanes(lanes: &Lanes, topology: &Topology, now: &Correspondence) -> Option<Lanes> {
    let mut moved = Lanes::default();
    for lane in lanes.ids() {
        let (source, target) = lanes.ends(lane);
        let ends = (now.node[source]?, now.node[target]?);
        let links: Option<Vec<LinkId>> = lanes.links(lane).iter().map(|&link| now.link[link]).collect();
        let is_routed = lanes.routing(lane) == Routing::Routed;
        if is_routed && !topology.reaches(ends.0, ends.1) {
            return None;
        }
        moved.push_listed(ends, (!is_routed).then_some(links?).as_deref());
    }
    Some(moved)
}
