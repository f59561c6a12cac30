//! In-network reduction: switches reduce operands and multicast results.
//!
//! The algorithms are those of Klenk, Jiang, Thorson and Dennison, "An in-network architecture for accelerating
//! shared-memory multiprocessor collectives" (ISCA 2020), section IV. Push: every address has a home port in the
//! network. All ranks write there, and when all have written, the home multicasts the result. Each home port has a
//! tree: a star into its switch, in which no switch reduces on the route, and a tree of switches out of it. Pull: every
//! rank asks for its part of the vector. The switches between it and the others add up their answers, and it multicasts
//! the result. Each link out of a rank has a tree. Between equally long routes the source decides (the port by which
//! data come in), as in the paper's DGX-2, or the address (the tree). A rank sends and receives the vector once, which
//! is half of what software sends. Cost: a breadth-first search a home and a rank.

pub mod steiner;

use std::collections::VecDeque;
use std::sync::Arc;

use super::options::{Options, RouteBy};
use crate::error::Result;
use crate::misfit;
use crate::plan::{Chunk, Draft, Half, LaneId, Pace, Tree};
use crate::search::BreadthFirst;
use crate::topology::{Abilities, LinkId, Node, NodeId, Topology};

/// Plans a push reduction.
pub(super) fn push(topology: &Arc<Topology>, options: &Options) -> Result<Draft> {
    let mut plan = Draft::new(topology, "innet-push", 1);
    if topology.ranks() == 1 {
        let (up, down) = (plan.streamed_half([]), plan.streamed_half([]));
        return finish(plan, vec![(NodeId(0), up, down)], Pace::Stream);
    }
    let turned = topology.transposed();
    let homes = topology.node_ids().filter(|&node| is_able(topology, node));
    let routes = homes.map(|home| (Routes::new(&turned, home, None), Routes::new(topology, home, None)));
    let routes: Vec<(Routes, Routes)> = routes.filter(|(into, out)| into.reach_all && out.reach_all).collect();
    let ports = |routes: &Routes| topology.outgoing(routes.root).len() as u32;
    let mut trees = Vec::new();
    // Neighbouring addresses have their homes in different switches.
    for port in 0..routes.iter().map(|(_, out)| ports(out)).max().unwrap_or(0) {
        for (into, out) in routes.iter().filter(|(_, out)| port < ports(out)) {
            let up = into.star(&mut plan, |rank| if options.route_by == RouteBy::Source { rank.0 } else { port });
            trees.push((out.root, up, out.tree(&mut plan, port, false)));
        }
    }
    finish(plan, trees, Pace::Stream)
}

/// Plans a pull reduction.
pub(super) fn pull(topology: &Arc<Topology>, _options: &Options) -> Result<Draft> {
    let mut plan = Draft::new(topology, "innet-pull", 1);
    let turned = topology.transposed();
    let mut trees = Vec::new();
    for rank in topology.rank_ids() {
        for &link in topology.outgoing(rank).iter().filter(|&&link| is_able(topology, topology.link(link).target)) {
            let Some(back) = topology.reverse(link) else { continue };
            let (into, out) = (Routes::new(&turned, rank, Some(back)), Routes::new(topology, rank, Some(link)));
            if into.reach_all && out.reach_all {
                let up = into.tree(&mut plan, rank.0, true);
                let down = out.tree(&mut plan, rank.0, false);
                trees.push((rank, up, down));
            }
        }
    }
    finish(plan, trees, Pace::Pulled)
}

/// Returns the plan of these trees (root, halves), each with an equal part of the vector, at this pace.
fn finish(mut plan: Draft, trees: Vec<(NodeId, Half, Half)>, pace: Pace) -> Result<Draft> {
    if trees.is_empty() {
        let has_switches = plan.topology.nodes().iter().any(Node::is_switch);
        misfit!(
            "{} needs a switch that both reduces and multicasts{}; {} has none: use multitree{}",
            plan.algorithm,
            if pace == Pace::Pulled { " and is adjacent to a rank" } else { " and reaches every rank" },
            plan.topology.name(),
            if has_switches { IN_A_FILE } else { "" }
        );
    }
    plan.units = trees.len() as u64;
    let tree = |(unit, (root, up, down))| Tree { span: unit..unit + 1, root, up, down, chunk: Chunk::Best };
    plan.push_phase(pace, (0..).zip(trees).map(tree).collect());
    Ok(plan)
}

/// The other remedy where a network has switches: a file says what they can do.
const IN_A_FILE: &str = ", or if the network is in a file, say \"reduces\": true, \"multicasts\": true of its switches";

/// Returns whether a node can be a home, or the first switch of a pull.
pub(super) fn is_able(topology: &Topology, node: NodeId) -> bool {
    let node = topology.node(node);
    node.abilities() == Abilities::BOTH
}

/// All shortest routes (in hops, through switches only) out of a root, or on the transposed network into it.
struct Routes<'a> {
    topology: &'a Topology,
    root: NodeId,
    /// The nodes from the root outwards, and their hops.
    found: BreadthFirst,
    /// The links over which shortest routes come to each node.
    last: Vec<Vec<LinkId>>,
    /// Whether there is a route to every rank.
    reach_all: bool,
}

impl<'a> Routes<'a> {
    /// Finds the routes out of `root`, or only those over the link `only`.
    fn new(topology: &'a Topology, root: NodeId, only: Option<LinkId>) -> Self {
        let nodes = topology.nodes().len();
        let (mut found, mut last) = (BreadthFirst::new(nodes), vec![Vec::new(); nodes]);
        found.start(root);
        while let Some(node) = found.visit() {
            let forwards = node == root || topology.node(node).is_switch();
            let beyond = found.hops()[node] + 1;
            for &link in topology.outgoing(node).iter().filter(|_| forwards) {
                if node == root && only.is_some_and(|only| only != link) {
                    continue;
                }
                let target = topology.link(link).target;
                found.offer(target);
                if found.hops()[target] == beyond {
                    last[target].push(link);
                }
            }
        }
        let reach_all = topology.rank_ids().all(|rank| found.reaches(rank));
        Self { topology, root, found, last, reach_all }
    }

    /// Returns the last link of the chosen route to `node`, and the node where it starts.
    fn step(&self, node: NodeId, choice: u32) -> (LinkId, NodeId) {
        let links = &self.last[node];
        let link = links[choice as usize % links.len()];
        (link, self.topology.link(link).source)
    }

    /// Returns the links of the chosen route to `node` from the nearest node before it that `counts`, last link first,
    /// and that node.
    fn route(&self, node: NodeId, choice: u32, counts: impl Fn(NodeId) -> bool) -> (Vec<LinkId>, NodeId) {
        let (first, mut at) = self.step(node, choice);
        let mut links = vec![first];
        while !counts(at) {
            let (link, before) = self.step(at, choice);
            links.push(link);
            at = before;
        }
        (links, at)
    }

    /// Returns a star out of all ranks into the root (these are routes of the transposed network), by the route that
    /// `choice` chooses for each.
    fn star(&self, plan: &mut Draft, choice: impl Fn(NodeId) -> u32) -> Half {
        let topology = Arc::clone(&plan.topology);
        let lane = |rank| {
            let (links, _) = self.route(rank, choice(rank), |node| node == self.root);
            plan.lanes.via(&topology, &links)
        };
        let lanes: Vec<LaneId> = topology.rank_ids().map(lane).collect();
        plan.streamed_half(lanes)
    }

    /// Returns the tree of chosen routes to all ranks. Its nodes are the ranks, and the switches that reduce (`up`, on
    /// routes of the transposed network) or multicast; if a switch cannot, its branches begin nearer to the root.
    fn tree(&self, plan: &mut Draft, choice: u32, up: bool) -> Half {
        let topology = Arc::clone(&plan.topology);
        let mut branches = vec![0u32; self.last.len()];
        for &node in self.found.order()[1..].iter().rev() {
            if topology.is_rank(node) || branches[node] > 0 {
                branches[self.step(node, choice).1] += 1;
            }
        }
        let is_node = |node: NodeId| {
            let Abilities { reduces, multicasts } = topology.node(node).abilities();
            let able = if up { reduces } else { multicasts };
            // The switch next to a rank that pulls has a table for its sums even if nothing else branches there.
            let joins = branches[node] > 1 || branches[node] == 1 && self.found.hops()[node] == 1;
            node == self.root || topology.is_rank(node) || joins && able
        };
        let mut children: Vec<Vec<(NodeId, Vec<LinkId>)>> = vec![Vec::new(); self.last.len()];
        for &node in self.found.order()[1..].iter().filter(|&&node| is_node(node)) {
            let (mut links, parent) = self.route(node, choice, is_node);
            if !up {
                links.reverse();
            }
            children[parent].push((node, links));
        }
        let (mut lanes, mut open) = (Vec::new(), VecDeque::from([self.root]));
        while let Some(node) = open.pop_front() {
            for (child, links) in &children[node] {
                lanes.push(plan.lanes.via(&topology, links));
                open.push_back(*child);
            }
        }
        plan.streamed_half(lanes)
    }
}
