//! Grows trees where switches, or accelerators that are no ranks, are between the ranks (III-C3).
//!
//! From a node of the tree, the network is searched breadth-first over free links, through nodes that are no ranks,
//! until a rank is met that the tree lacks; then all links of the route are taken. So children on the same switch are
//! found first. The search does not walk past other switches that have ranks. On a BiGraph, where the paper's text
//! would cross two trunks to reach a node that a sibling reaches over one, that makes 31 steps of 43 (the authors' code
//! stops there too). Only if that adds nothing in a step, a second round walks on, so that every network gets its
//! trees. A tree's pointer only moves forward in a round.
//!
//! Cost: one search an edge, and one a node and step that finds nothing; a search visits switches only.

use std::collections::HashMap;

use super::remaining::Remaining;
use super::{Forest, Ground, MAX_STEPS_OF_HALF, RouteId, RoutesFound};
use crate::planners::options::{NeighborOrder, TreeOrder};
use crate::topology::{LinkId, NodeId};

/// A tree that is growing.
struct Growing {
    has: Vec<bool>,
    /// The nodes in the order in which they joined.
    nodes: Vec<NodeId>,
    pointer: usize,
    known: usize,
    edges: Vec<(RouteId, u16)>,
}

/// A breadth-first search over free links. It is not one of [`crate::search`]: it ends at the first rank that a tree
/// lacks and marks nodes from which it does not go on, and its arrays are stamped, so that the many searches that visit
/// a few switches do not clear them.
struct Search {
    /// Whether to walk past switches that have ranks.
    far: bool,
    /// Whether a rank is directly below each node.
    beside_ranks: Vec<bool>,
    /// How many messages each link can still take in this step.
    left: Vec<u32>,
    stamp: u32,
    /// The stamp of the search that came to each node last.
    seen: Vec<u32>,
    /// The link by which the search came to each node.
    via: Vec<LinkId>,
    queue: Vec<NodeId>,
}

impl Search {
    /// Returns the links from `start` to the nearest rank that `tree` lacks.
    fn find(&mut self, ground: &Ground, tree: &Growing, start: NodeId) -> Option<Vec<LinkId>> {
        self.stamp += 1;
        self.seen[start] = self.stamp;
        self.queue.clear();
        self.queue.push(start);
        let mut at = 0;
        while at < self.queue.len() {
            let node = self.queue[at];
            at += 1;
            let links = ground.topology.outgoing(node);
            for i in 0..links.len() {
                let link = links
                    [if ground.settings.neighbor_order == NeighborOrder::Reversed { links.len() - 1 - i } else { i }];
                let next = ground.topology.link(link).target;
                let is_rank = ground.topology.is_rank(next);
                if self.left[link] == 0 || self.seen[next] == self.stamp || (is_rank && tree.has[next]) {
                    continue;
                }
                self.seen[next] = self.stamp;
                self.via[next] = link;
                if is_rank {
                    return Some(self.route(ground, start, next));
                }
                if self.far || self.may_pass(ground, start, node) {
                    self.queue.push(next);
                }
            }
        }
        None
    }

    /// Returns whether a near search goes on from `node` to further switches. It does not go on from a switch with
    /// ranks of its own, unless that is the start's: those ranks, once they are in the tree, reach what lies beyond
    /// with less of the network.
    fn may_pass(&self, ground: &Ground, start: NodeId, node: NodeId) -> bool {
        let first_hop = || ground.topology.link(self.via[node]).source == start;
        !self.beside_ranks[node] || node == start || first_hop()
    }

    fn route(&self, ground: &Ground, start: NodeId, end: NodeId) -> Vec<LinkId> {
        let mut links = Vec::new();
        let mut node = end;
        while node != start {
            let link = self.via[node];
            links.push(link);
            node = ground.topology.link(link).source;
        }
        links.reverse();
        links
    }
}

/// Grows a tree from every root; returns `None` if it takes more steps than a plan can hold.
pub(super) fn grow(ground: &Ground) -> Option<Forest> {
    let nodes = ground.topology.nodes().len();
    let ranks = ground.topology.ranks() as usize;
    let mut trees: Vec<Growing> = ground.settings.roots.iter().map(|&root| Growing::new(root, nodes)).collect();
    let mut search = Search {
        far: false,
        beside_ranks: beside_ranks(ground),
        left: ground.room.clone(),
        stamp: 0,
        seen: vec![0; nodes],
        via: vec![LinkId(0); nodes],
        queue: Vec::new(),
    };
    let mut remaining = (ground.settings.tree_order == TreeOrder::RemainingHeight)
        .then(|| Remaining::new(ground.topology, ground.settings.roots));
    let mut routes = RouteTable::default();
    let mut step = 0;
    let mut unfinished: Vec<usize> = (0..trees.len()).filter(|_| ranks > 1).collect();
    while !unfinished.is_empty() {
        step += 1;
        if step > MAX_STEPS_OF_HALF {
            return None;
        }
        search.left.copy_from_slice(&ground.room);
        if let Some(remaining) = &mut remaining {
            for &tree in &unfinished {
                trees[tree].joined().for_each(|node| remaining.join(tree, node));
            }
            unfinished.sort_by_key(|&tree| (std::cmp::Reverse(remaining.height(tree)), tree));
        }
        unfinished.iter().for_each(|&tree| trees[tree].known = trees[tree].nodes.len());
        let before: usize = trees.iter().map(|tree| tree.nodes.len()).sum();
        for far in [false, true] {
            search.far = far;
            unfinished.iter().for_each(|&tree| trees[tree].pointer = 0);
            let mut in_turn = unfinished.clone();
            while !in_turn.is_empty() {
                in_turn.retain(|&tree| trees[tree].add_node(step as u16, ground, &mut search, &mut routes));
            }
            if trees.iter().map(|tree| tree.nodes.len()).sum::<usize>() > before {
                break;
            }
        }
        unfinished.retain(|&tree| trees[tree].nodes.len() < ranks);
    }
    let edges = trees.into_iter().flat_map(|tree| tree.edges).collect();
    Some(Forest { edges, edges_a_tree: ranks - 1, steps: step as u16, routes: RoutesFound::Rows(routes.rows) })
}

fn beside_ranks(ground: &Ground) -> Vec<bool> {
    let topology = ground.topology;
    let has_rank = |node| topology.outgoing(node).iter().any(|&link| topology.is_rank(topology.link(link).target));
    topology.node_ids().map(has_rank).collect()
}

/// The routes found so far, which are far fewer than the edges.
#[derive(Default)]
struct RouteTable {
    rows: Vec<Box<[LinkId]>>,
    ids: HashMap<Box<[LinkId]>, RouteId>,
}

impl RouteTable {
    fn id(&mut self, links: Vec<LinkId>) -> RouteId {
        let links: Box<[LinkId]> = links.into();
        let rows = &mut self.rows;
        *self.ids.entry(links).or_insert_with_key(|links| {
            rows.push(links.clone());
            RouteId::new(rows.len() - 1)
        })
    }
}

impl Growing {
    fn new(root: NodeId, nodes: usize) -> Self {
        let mut has = vec![false; nodes];
        has[root] = true;
        Self { has, nodes: vec![root], pointer: 0, known: 0, edges: Vec::new() }
    }

    /// Returns the nodes that have joined since the last step began.
    fn joined(&self) -> impl Iterator<Item = NodeId> {
        self.nodes[self.known..].iter().copied()
    }

    /// Adds one rank over free links; returns false if this step has none for this tree.
    fn add_node(&mut self, step: u16, ground: &Ground, search: &mut Search, routes: &mut RouteTable) -> bool {
        while self.pointer < self.known {
            let Some(links) = search.find(ground, self, self.nodes[self.pointer]) else {
                self.pointer += 1;
                continue;
            };
            links.iter().for_each(|&link| search.left[link] -= 1);
            let child = ground.topology.link(links[links.len() - 1]).target;
            self.has[child] = true;
            self.nodes.push(child);
            self.edges.push((routes.id(links), step));
            return true;
        }
        false
    }
}
