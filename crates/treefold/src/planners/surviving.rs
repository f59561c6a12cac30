//! Which trees of a plan still stand when its network has changed.
//!
//! Nodes are known by name, links by their ends' names and their number among parallel ones. A tree stands when every link that
//! it needs is still there; ranks that are gone may go with it as leaves; new ranks are not reached by any old tree.
//! Cost: linear in the plan.

use std::collections::HashMap;

use super::forest::{Route, SpanningTree, breadth_first, ends};
use crate::plan::{Direction, Half, LaneRoutes, Plan, Tree};
use crate::topology::{LinkId, NodeId, Topology};

/// The trees of `plan`, an all-reduce in one phase, that stand on `topology`, each with its part of the vector.
pub fn surviving(plan: &Plan, topology: &Topology) -> Vec<(SpanningTree, f64)> {
    let [phase] = &plan.phases[..] else { return Vec::new() };
    let routes = LaneRoutes::new(&plan.topology, &plan.lanes);
    let now = Now::new(&plan.topology, topology);
    let standing = |tree: &Tree| {
        let half = |direction| -> Vec<Vec<LinkId>> {
            plan.half(phase, tree, direction).map(|edge| routes.of(edge.lane).to_vec()).collect()
        };
        let root = now.node[tree.root].filter(|&root| topology.is_rank(root))?;
        let down = now.half(topology, root, half(Direction::Down), false)?;
        let up = match tree.up {
            Half::Mirror if mirrors(topology, &down) => None,
            _ => Some(now.half(topology, root, half(Direction::Up), true)?),
        };
        Some((SpanningTree { root, down, up }, tree.units() as f64 / plan.units as f64))
    };
    plan.trees_of(phase).iter().filter_map(standing).collect()
}

/// Whether every link of `routes` has a reverse.
fn mirrors(topology: &Topology, routes: &[Route]) -> bool {
    routes.iter().flatten().all(|&link| topology.reverse(link).is_some())
}

/// What the old nodes and links are now.
struct Now {
    node: Vec<Option<NodeId>>,
    link: Vec<Option<LinkId>>,
}

impl Now {
    fn new(old: &Topology, new: &Topology) -> Self {
        let by_name: HashMap<&str, NodeId> =
            new.node_ids().zip(new.nodes()).map(|(id, node)| (node.name.as_str(), id)).collect();
        let by_ends: HashMap<_, LinkId> = new.link_ids().zip(keys(new)).map(|(id, key)| (key, id)).collect();
        Self {
            node: old.nodes().iter().map(|node| by_name.get(node.name.as_str()).copied()).collect(),
            link: keys(old).map(|key| by_ends.get(&key).copied()).collect(),
        }
    }

    /// A half on the new network: routes to ranks that are gone are cut off, the others must all be there and reach
    /// every rank.
    fn half(&self, topology: &Topology, root: NodeId, routes: Vec<Vec<LinkId>>, towards: bool) -> Option<Vec<Route>> {
        let mut standing: Vec<Route> = Vec::new();
        for route in routes {
            let links: Option<Route> = route.iter().map(|&link| self.link[link]).collect();
            match links {
                Some(links) if topology.is_rank(ends(topology, &links, towards).1) => standing.push(links),
                _ => {}
            }
        }
        // What is left is a tree with one route less than ranks, or it is in pieces.
        let all = standing.len() + 1 == topology.ranks() as usize;
        let ordered = breadth_first(topology, root, standing, towards);
        (all && ordered.len() + 1 == topology.ranks() as usize).then_some(ordered)
    }
}

/// The names of each link's ends, and its number among the links between them.
fn keys(topology: &Topology) -> impl Iterator<Item = (&str, &str, usize)> {
    let mut seen: HashMap<(NodeId, NodeId), usize> = HashMap::new();
    topology.links().iter().map(move |link| {
        let count = seen.entry((link.source, link.target)).or_default();
        *count += 1;
        (topology.node(link.source).name.as_str(), topology.node(link.target).name.as_str(), *count)
    })
}
