//! Reduction trees with switches as inner nodes, which are cheap under given prices of links: `innet` packs them.
//!
//! The algorithm is that of Takahashi and Matsuyama, "An approximate solution for the Steiner problem in graphs"
//! (1980): the rank that is nearest to the tree joins it by its cheapest route, until all have joined. A tree costs at
//! most twice as much as the best one if links cost the same in both directions. Routes begin at ranks and at switches
//! that can multicast (or reduce, in the reduce half); other switches only forward. It is one run of Dijkstra's
//! algorithm, in which each node that joins the tree starts anew at price 0. Cost: O(m log m) for each half, a few
//! times over.

use crate::error::Result;
use crate::plan::Direction;
use crate::planners::Listener;
use crate::planners::cheapest::{TRIED, spread, weighted};
use crate::planners::spanning::{Priced, Rated, Resources, Route, SpanningTree, breadth_first};
use crate::search::Shortest;
use crate::topology::{LinkId, NodeId, Topology};

/// A network for both halves of a tree.
pub struct Halves<'a> {
    topology: &'a Topology,
    turned: Topology,
    /// Whether ranks forward data of other ranks.
    ranks_relay: bool,
    /// Whether a half can mirror the other one.
    mirrors: bool,
    /// The nodes at which trees may be rooted.
    pub roots: Vec<NodeId>,
}

impl<'a> Halves<'a> {
    /// Prepares `topology`. Ranks are only leaves of trees, unless `ranks_relay`.
    pub fn new(topology: &'a Topology, ranks_relay: bool) -> Self {
        let (turned, roots) = (topology.transposed(), Vec::new());
        let mut halves = Self { topology, turned, ranks_relay, mirrors: false, roots };
        let alike = |node: NodeId| halves.joins(node) == halves.fans_out(node);
        halves.mirrors = topology.is_symmetric() && topology.node_ids().all(alike);
        let can = |&node: &NodeId| halves.joins(node) && halves.fans_out(node);
        halves.roots = topology.node_ids().filter(can).collect();
        halves
    }

    fn fans_out(&self, node: NodeId) -> bool {
        let able = self.topology.node(node);
        if self.topology.is_rank(node) { self.ranks_relay } else { able.multicasts() }
    }

    fn joins(&self, node: NodeId) -> bool {
        let able = self.topology.node(node);
        if self.topology.is_rank(node) { self.ranks_relay } else { able.reduces() }
    }

    /// Returns a cheap tree of `root` under `prices`, one a resource, if there is a tree.
    pub fn cheap_tree(&self, resources: &Resources, prices: &[f64], root: NodeId) -> Option<Priced> {
        self.searched(resources, prices, root, &mut Shortest::new(self.topology.nodes().len()))
    }

    fn searched(
        &self,
        resources: &Resources,
        prices: &[f64],
        root: NodeId,
        search: &mut Shortest<f64, LinkId>,
    ) -> Option<Priced> {
        let topology = self.topology;
        let of = |link: LinkId| resources.price(link, prices);
        if self.mirrors {
            let both = |link: LinkId| of(link) + topology.reverse(link).map_or(0.0, of);
            let (cost, routes) = grow(topology, root, both, |node| self.fans_out(node), search)?;
            let (root, routes) = below_single(topology, root, routes);
            let down = breadth_first(topology, root, routes, Direction::Down);
            return Some(Priced { tree: SpanningTree { root, down, up: None }, cost });
        }
        let (down_cost, down) = grow(topology, root, of, |node| self.fans_out(node), search)?;
        let (up_cost, mut up) = grow(&self.turned, root, of, |node| self.joins(node), search)?;
        up.iter_mut().for_each(|route| route.reverse());
        let down = breadth_first(topology, root, down, Direction::Down);
        let up = breadth_first(topology, root, up, Direction::Up);
        Some(Priced { tree: SpanningTree { root, down, up: Some(up) }, cost: down_cost + up_cost })
    }

    /// Finds trees by multiplicative weights, whose roots take turns; there are none if no tree reaches all ranks.
    pub fn by_weights(
        &self,
        resources: &Resources,
        epsilon: f64,
        most: usize,
        listener: Listener,
    ) -> Result<Vec<Rated>> {
        let able: Vec<NodeId> = self.roots.iter().copied().filter(|&node| !self.topology.is_rank(node)).collect();
        let roots = if able.is_empty() { &self.roots } else { &able };
        let mut search = Shortest::new(self.topology.nodes().len());
        let next = |turn: usize, prices: &[f64]| {
            let tried = spread(roots, turn, TRIED.min(roots.len()));
            let trees = tried.filter_map(|root| self.searched(resources, prices, root, &mut search));
            trees.min_by(|a, b| a.cost.total_cmp(&b.cost)).map(|priced| priced.tree)
        };
        Ok(weighted(resources, epsilon, most, listener, next)?.unwrap_or_default())
    }
}

/// Returns the routes of a tree out of `root`, and the sum of their prices; `None` if it does not reach all ranks.
fn grow(
    topology: &Topology,
    root: NodeId,
    price: impl Fn(LinkId) -> f64,
    branches: impl Fn(NodeId) -> bool,
    search: &mut Shortest<f64, LinkId>,
) -> Option<(f64, Vec<Route>)> {
    let mut inside = vec![false; topology.nodes().len()];
    let mut parts: Vec<Vec<LinkId>> = Vec::new();
    let (mut cost, mut missing) = (0.0, topology.ranks() - u32::from(topology.is_rank(root)));
    inside[root] = true;
    search.start(root);
    while let Some((node, far)) = search.settle() {
        if topology.is_rank(node) && !inside[node] {
            missing -= 1;
            cost += far;
            join(topology, node, search, &mut inside, &branches, &mut parts);
            continue;
        }
        for &link in topology.outgoing(node) {
            let target = topology.link(link).target;
            if !inside[target] {
                search.offer(target, far + price(link), link);
            }
        }
    }
    (missing == 0).then(|| (cost, contracted(topology, root, parts)))
}

/// Makes the cheapest route to `rank` a part of the tree, and cuts it at nodes where others may branch off; from there
/// the search goes on.
fn join(
    topology: &Topology,
    rank: NodeId,
    search: &mut Shortest<f64, LinkId>,
    inside: &mut [bool],
    branches: &impl Fn(NodeId) -> bool,
    parts: &mut Vec<Vec<LinkId>>,
) {
    let (mut node, mut part) = (rank, Vec::new());
    while !inside[node] {
        if branches(node) || node == rank {
            if !part.is_empty() {
                part.reverse();
                parts.push(std::mem::take(&mut part));
            }
            inside[node] = true;
        }
        if branches(node) {
            search.restart(node);
        }
        let link = search.last_edge(node).expect("a route leads back to the tree");
        part.push(link);
        node = topology.link(link).source;
    }
    part.reverse();
    parts.push(part);
}

/// Joins parts through switches at which nothing branches to one route.
fn contracted(topology: &Topology, root: NodeId, parts: Vec<Vec<LinkId>>) -> Vec<Route> {
    let nodes = topology.nodes().len();
    let (mut children, mut into) = (vec![0u32; nodes], vec![None; nodes]);
    for (number, part) in parts.iter().enumerate() {
        children[topology.link(part[0]).source] += 1;
        into[topology.link(part[part.len() - 1]).target] = Some(number);
    }
    let stays = |node: NodeId| node == root || topology.is_rank(node) || children[node] > 1;
    let mut routes = Vec::new();
    for part in parts.iter().filter(|part| stays(topology.link(part[part.len() - 1]).target)) {
        let (mut route, mut node) = (part.clone(), topology.link(part[0]).source);
        while !stays(node) {
            let before = &parts[into[node].expect("only the root has none")];
            route.splice(0..0, before.iter().copied());
            node = topology.link(before[0]).source;
        }
        routes.push(route.into());
    }
    routes
}

/// Drops a root that is a switch with only one child.
fn below_single(topology: &Topology, root: NodeId, mut routes: Vec<Route>) -> (NodeId, Vec<Route>) {
    let mut of_root = routes.iter().enumerate().filter(|(_, route)| topology.link(route[0]).source == root);
    match (of_root.next(), of_root.next()) {
        (Some((only, _)), None) if !topology.is_rank(root) => {
            let route = routes.remove(only);
            below_single(topology, topology.link(route[route.len() - 1]).target, routes)
        }
        _ => (root, routes),
    }
}
