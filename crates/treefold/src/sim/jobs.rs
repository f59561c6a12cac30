//! Jobs: plans that run at the same time on one network, each with a vector of its own.
//!
//! The network is that of the first job. The other jobs' networks may differ from it only in which accelerators are
//! ranks: ranks are numbered first, so a node has a number of its own in each job, and is found by its place. Links
//! have the same numbers in all of them.

use std::sync::Arc;

use crate::bail;
use crate::error::Result;
use crate::plan::{LaneRoutes, Plan, Walkable};
use crate::topology::{Link, Node, NodeId, Topology};
use crate::units::Bytes;

/// A plan and the size of its vector.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// The plan, or reduce halves.
    pub plan: Walkable<'a>,
    /// The size of its vector.
    pub size: Bytes,
}

impl<'a> Job<'a> {
    /// Returns the job that runs `plan` for a vector of `size`.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// use treefold::sim::Job;
    /// use treefold::units::parse_bytes;
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// let job = Job::new(&plan, parse_bytes("1MiB")?);
    /// assert_eq!((job.plan.trees.len(), job.size.get()), (4, 1 << 20));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn new(plan: impl Into<Walkable<'a>>, size: Bytes) -> Self {
        Self { plan: plan.into(), size }
    }
}

/// A job in the network of all jobs.
pub struct Placed<'a> {
    /// Its number among all jobs, from 0.
    pub number: u16,
    /// The plan.
    pub plan: &'a Plan,
    /// The size of its vector.
    pub size: Bytes,
    /// The routes of the plan's lanes.
    pub routes: &'a LaneRoutes,
    /// The network's number of each node of the plan.
    nodes: Vec<NodeId>,
}

impl<'a> Placed<'a> {
    /// Places job `number` in a network; `routes` are those of its plan's lanes.
    pub fn new(number: u16, job: Job<'a>, routes: &'a LaneRoutes, network: &Topology) -> Self {
        let plan = job.plan.walked();
        let own = &plan.topology;
        let nodes = own.node_ids().map(|node| network.node_at(own.place(node))).collect();
        Self { number, plan, size: job.size, routes, nodes }
    }

    /// Places the only job of a network.
    pub fn alone(plan: &'a Plan, size: Bytes, routes: &'a LaneRoutes) -> Self {
        Self::new(0, Job::new(plan, size), routes, &plan.topology)
    }

    /// Returns the network's number of a node of the plan.
    pub fn node(&self, node: NodeId) -> NodeId {
        self.nodes[node]
    }

    /// Returns the network's numbers of the plan's ranks.
    pub fn ranks(&self) -> &[NodeId] {
        &self.nodes[..self.plan.ranks() as usize]
    }
}

/// Finds the routes of each job's lanes.
pub fn routes_of(jobs: &[Job]) -> Vec<LaneRoutes> {
    jobs.iter().map(|job| LaneRoutes::new(&job.plan.topology, &job.plan.lanes)).collect()
}

/// Places jobs in the network of the first; `routes` are those of [`routes_of`].
///
/// # Errors
/// If there is no job, or their networks differ in more than which accelerators are ranks.
pub fn place<'a>(jobs: &[Job<'a>], routes: &'a [LaneRoutes]) -> Result<Vec<Placed<'a>>> {
    check(jobs)?;
    let network = &jobs[0].plan.topology;
    let numbered = (0..).zip(jobs.iter().zip(routes));
    Ok(numbered.map(|(number, (&job, routes))| Placed::new(number, job, routes, network)).collect())
}

/// Refuses jobs that cannot run together.
fn check(jobs: &[Job]) -> Result<()> {
    let Some(first) = jobs.first() else { bail!("there is no job to simulate; give one plan at least") };
    let network = &first.plan.topology;
    let others = (1..).zip(jobs).filter(|(_, job)| !Arc::ptr_eq(&job.plan.topology, network));
    for (number, job) in others {
        if let Some(what) = difference(network, &job.plan.topology) {
            bail!(
                "job {number} ({} on {}) needs the network of job 1 ({} on {}), but {what}; plan all jobs for one \
                 network, and choose the ranks of each",
                job.plan.algorithm,
                job.plan.topology.name(),
                first.plan.algorithm,
                network.name()
            );
        }
    }
    Ok(())
}

/// Says in what two networks differ besides their ranks, if they do.
fn difference(ours: &Topology, theirs: &Topology) -> Option<String> {
    let counts = |of: &Topology| (of.nodes().len(), of.links().len());
    if counts(ours) != counts(theirs) {
        let [(our_nodes, our_links), (nodes, links)] = [counts(ours), counts(theirs)];
        return Some(format!("it has {nodes} nodes and {links} links instead of {our_nodes} and {our_links}"));
    }
    let mut places = 0..ours.nodes().len() as u32;
    let of_nodes = places.find_map(|place| {
        let [our, their] = [ours, theirs].map(|of| of.node(of.node_at(place)));
        different_nodes(our, their)
    });
    let of_links =
        || ours.link_ids().find_map(|link| different_links(ours, theirs, ours.link(link), theirs.link(link)));
    let of_shared = || (ours.shared() != theirs.shared()).then(|| "its links share other capacities".to_owned());
    of_nodes.or_else(of_links).or_else(of_shared)
}

/// Says in what two nodes at one place differ.
fn different_nodes(ours: &Node, theirs: &Node) -> Option<String> {
    let Node { name, .. } = theirs;
    let kind = |node: &Node| if node.is_switch() { "a switch" } else { "an accelerator" };
    if ours.name != *name {
        return Some(format!("it has a node {name} where that has {}", ours.name));
    }
    if ours.is_switch() != theirs.is_switch() {
        return Some(format!("{name} is {} instead of {}", kind(theirs), kind(ours)));
    }
    let is_same = (ours.kind, ours.latency) == (theirs.kind, theirs.latency);
    (!is_same).then(|| format!("{name} reduces, multicasts or delays there as it does not here"))
}

/// Says in what two links with one number differ.
fn different_links(ours: &Topology, theirs: &Topology, our: &Link, their: &Link) -> Option<String> {
    let ends = |of: &Topology, link: &Link| [link.source, link.target].map(|end| of.place(end));
    let name = |of: &Topology, link: &Link| {
        let [source, target] = [link.source, link.target].map(|end| &of.node(end).name);
        format!("{source} -> {target}")
    };
    if ends(ours, our) != ends(theirs, their) {
        return Some(format!("it has a link {} where that has {}", name(theirs, their), name(ours, our)));
    }
    let our_name = || name(ours, our);
    if our.bandwidth != their.bandwidth {
        return Some(format!("link {} has {} instead of {}", our_name(), their.bandwidth, our.bandwidth));
    }
    let delays = |link: &Link| (link.latency, link.overhead);
    (delays(our) != delays(their)).then(|| {
        let shown = |link: &Link| format!("latency {} and overhead {}", link.latency, link.overhead);
        format!("link {} has {} instead of {}", our_name(), shown(their), shown(our))
    })
}
