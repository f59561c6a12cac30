//! The entries that the fabric manager writes into the tables of multicast regions (MCR tables; in-network paper,
//! section IV-A, its Fig. 2), for people to read: the simulator's own regions, by switch.

use super::super::machine::Machine;
use super::super::options::Options;
use super::super::workload::switch_in_trees;
use super::regions::{self, Edges, Regions};
use super::routes::Routes;
use crate::error::Result;
use crate::plan::{LaneRoutes, Walkable};
use crate::sim::jobs::Placed;
use crate::topology::NodeId;
use crate::units::Bytes;

/// The entry of a switch for a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionEntry {
    /// The switch.
    pub switch: NodeId,
    /// The node from which packets come; `None` at a root.
    pub source: Option<NodeId>,
    /// The nodes to which the switch forwards them.
    pub targets: Vec<NodeId>,
    /// The ranks whose operands are in the sum that leaves the switch.
    pub operands: u32,
}

/// Lists the entries that the switches of `plan` get for a region, as the simulator has them; trees of many home ports
/// multicast alike, and then share an entry. A plan without switches has none.
///
/// # Errors
/// The simulator cannot execute the plan.
///
/// ```
/// use std::sync::Arc;
/// use treefold::planners::{self, Options};
/// use treefold::sim::packet::region_entries;
/// use treefold::topology::from_spec;
///
/// let topology = Arc::new(from_spec("dgx2:planes=1", None, None)?);
/// let plan = planners::plan("innet-push", &topology, &Options::default())?;
/// let entries = region_entries(&plan)?;
/// assert!(entries.iter().all(|entry| entry.source.is_some() || entry.operands == 16), "roots add up all");
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn region_entries<'a>(plan: impl Into<Walkable<'a>>) -> Result<Vec<RegionEntry>> {
    let plan = plan.into().walked();
    if switch_in_trees(plan).is_none() {
        return Ok(Vec::new());
    }
    let lane_routes = LaneRoutes::new(&plan.topology, &plan.lanes);
    let job = Placed::alone(plan, Bytes::known(0), &lane_routes);
    let machine = Machine::new(&plan.topology, &[job], false, &super::with_payload(&Options::default()))?;
    let mut routes = Routes::new(&plan.topology, &lane_routes, &machine, &regions::lanes(plan))?;
    let regions = Regions::new(plan, &lane_routes, &machine, &mut routes)?;
    let mut entries: Vec<RegionEntry> = Vec::new();
    for entry in (0..regions.regions.len()).flat_map(|tree| of_tree(&regions, tree)) {
        if !plan.topology.is_rank(entry.switch) && !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    Ok(entries)
}

/// Lists the entries of a tree's nodes, breadth-first from its root.
fn of_tree(regions: &Regions, tree: usize) -> Vec<RegionEntry> {
    let region = regions.regions[tree];
    let entry = |switch, source, targets: Edges| RegionEntry {
        switch,
        source,
        targets: targets.numbers().map(|edge| regions.edge(edge).child).collect(),
        operands: targets.numbers().map(|edge| regions.edge(edge).ranks).sum(),
    };
    let mut entries = vec![entry(region.root, None, region.top)];
    let mut open: Vec<_> = region.top.numbers().map(|edge| (region.root, edge)).collect();
    let mut next = 0;
    while let Some(&(parent, number)) = open.get(next) {
        next += 1;
        let edge = regions.edge(number);
        if edge.below.count > 0 {
            entries.push(entry(edge.child, Some(parent), edge.below));
            open.extend(edge.below.numbers().map(|below| (edge.child, below)));
        }
    }
    entries
}
