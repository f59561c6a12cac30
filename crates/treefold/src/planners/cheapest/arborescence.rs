//! Minimum arborescences (Chu and Liu 1965, Edmonds 1967), and the root whose two arborescences together are cheapest.
//!
//! Every node but the root takes its cheapest incoming arc; a cycle among those is contracted, an arc into it then
//! costs what it exceeds the cycle's own arc by, and so on. Cost: O(m) a contraction, at most n of them; few in
//! practice.

use super::super::spanning::{Priced, Route, SpanningTree, breadth_first};
use super::Arc;
use crate::plan::Direction;
use crate::topology::{NodeId, Topology};

/// Finds the cheapest pair of arborescences, a broadcast out of one root and a reduction into it, over all `roots`.
pub(super) fn cheapest_pair(topology: &Topology, arcs: Vec<Arc>, roots: &[NodeId]) -> Priced {
    let ranks = topology.ranks();
    let out: Vec<Edge> =
        arcs.iter().map(|arc| Edge { source: arc.source.0, target: arc.target.0, cost: arc.cost }).collect();
    let into: Vec<Edge> =
        out.iter().map(|&Edge { source, target, cost }| Edge { source: target, target: source, cost }).collect();
    let (cost, root) = cheapest_root(ranks, roots, &out, &into);
    let routes = |edges: &[Edge]| -> Vec<Route> {
        arborescence(ranks, root.0, edges).into_iter().map(|arc| arcs[arc].route.clone()).collect()
    };
    let down = breadth_first(topology, root, routes(&out), Direction::Down);
    let up = breadth_first(topology, root, routes(&into), Direction::Up);
    Priced { tree: SpanningTree { root, down, up: Some(up) }, cost }
}

/// Finds the cheapest of `roots`, and its cost.
fn cheapest_root(ranks: u32, roots: &[NodeId], out: &[Edge], into: &[Edge]) -> (f64, NodeId) {
    let (out, into) = (Costs::new(ranks, out), Costs::new(ranks, into));
    let priced = roots.iter().map(|&root| (out.of_arborescence(root) + into.of_arborescence(root), root));
    priced.min_by(|(a, _), (b, _)| a.total_cmp(b)).expect("at least one root")
}

/// Costs of arcs as a matrix, a row a target.
struct Costs {
    nodes: usize,
    rows: Vec<f64>,
}

impl Costs {
    fn new(nodes: u32, edges: &[Edge]) -> Self {
        let nodes = nodes as usize;
        let mut rows = vec![f64::INFINITY; nodes * nodes];
        for edge in edges {
            let cost = &mut rows[edge.target as usize * nodes + edge.source as usize];
            *cost = cost.min(edge.cost);
        }
        Self { nodes, rows }
    }

    /// Returns the cost alone of the minimum arborescence out of `root`, in O(n^2).
    ///
    /// From every node a path grows backwards along cheapest arcs until it meets what is joined to the root. A cycle on
    /// the way becomes one node; each of its arcs then costs what it costs more than the arc that it replaces (Gabow,
    /// Galil, Spencer and Tarjan 1986).
    fn of_arborescence(&self, root: NodeId) -> f64 {
        let nodes = self.nodes;
        let mut rows = self.rows.clone();
        let mut node_of: Vec<usize> = (0..nodes).collect();
        let mut is_joined = vec![false; nodes];
        let mut is_on_path = vec![false; nodes];
        is_joined[root] = true;
        let mut total = 0.0;
        let mut path: Vec<usize> = Vec::new();
        for start in 0..nodes {
            if is_joined[node_of[start]] {
                continue;
            }
            path.push(node_of[start]);
            while let Some(&node) = path.last() {
                is_on_path[node] = true;
                let row = &mut rows[node * nodes..(node + 1) * nodes];
                let outside = (0..nodes).filter(|&source| node_of[source] != node);
                let source = outside.min_by(|&a, &b| row[a].total_cmp(&row[b])).expect("another node");
                let least = row[source];
                total += least;
                row.iter_mut().for_each(|cost| *cost -= least);
                let before = node_of[source];
                if is_joined[before] {
                    path.drain(..).for_each(|node| is_joined[node] = true);
                } else if is_on_path[before] {
                    while let Some(member) = path.pop_if(|&mut member| member != before) {
                        merge(&mut rows, nodes, before, member);
                        node_of.iter_mut().filter(|node| **node == member).for_each(|node| *node = before);
                    }
                } else {
                    path.push(before);
                }
            }
        }
        total
    }
}

/// Takes the cheaper of both nodes' arcs into `node`.
fn merge(rows: &mut [f64], nodes: usize, node: usize, member: usize) {
    for source in 0..nodes {
        let cost = rows[member * nodes + source];
        let merged = &mut rows[node * nodes + source];
        *merged = merged.min(cost);
    }
}

/// An edge between nodes, of the network or of what is left after contracting cycles.
#[derive(Clone, Copy)]
pub(in crate::planners) struct Edge {
    pub source: u32,
    pub target: u32,
    pub cost: f64,
}

/// Lists the indices of the edges of the minimum arborescence out of `root`, which reaches every node.
pub(in crate::planners) fn arborescence(nodes: u32, root: u32, edges: &[Edge]) -> Vec<usize> {
    let mut cheapest_into: Vec<Option<usize>> = vec![None; nodes as usize];
    for (number, edge) in edges.iter().enumerate() {
        if edge.target != root && edge.source != edge.target {
            let best = &mut cheapest_into[edge.target as usize];
            if best.is_none_or(|best| edge.cost < edges[best].cost) {
                *best = Some(number);
            }
        }
    }
    let cheapest = |node: u32| cheapest_into[node as usize].expect("an edge leads to every node but the root");
    let Some(cycles) = contract(nodes, root, |node| edges[cheapest(node)].source) else {
        return cheapest_into.into_iter().flatten().collect();
    };
    let (mut smaller, mut original) = (Vec::with_capacity(edges.len()), Vec::with_capacity(edges.len()));
    for (number, edge) in edges.iter().enumerate() {
        let (source, target) = (cycles.of[edge.source as usize], cycles.of[edge.target as usize]);
        if source != target && edge.target != root {
            let spared = if cycles.is_cycle[target as usize] { edges[cheapest(edge.target)].cost } else { 0.0 };
            smaller.push(Edge { source, target, cost: edge.cost - spared });
            original.push(number);
        }
    }
    let chosen = arborescence(cycles.count, cycles.of[root as usize], &smaller);
    let mut chosen: Vec<usize> = chosen.into_iter().map(|edge| original[edge]).collect();
    // A cycle is opened where the chosen arc enters it; its other arcs stay.
    let mut entered = vec![false; nodes as usize];
    chosen.iter().for_each(|&edge| entered[edges[edge].target as usize] = true);
    for node in 0..nodes {
        if cycles.is_cycle[cycles.of[node as usize] as usize] && !entered[node as usize] {
            chosen.push(cheapest(node));
        }
    }
    chosen
}

/// Nodes after contraction.
struct Cycles {
    of: Vec<u32>,
    count: u32,
    is_cycle: Vec<bool>,
}

/// Contracts the cycles of cheapest incoming edges, which begin at the nodes `before`; `None` if there is none.
fn contract(nodes: u32, root: u32, before: impl Fn(u32) -> u32) -> Option<Cycles> {
    let mut of: Vec<Option<u32>> = vec![None; nodes as usize];
    let mut visited_from: Vec<Option<u32>> = vec![None; nodes as usize];
    let mut is_cycle = Vec::new();
    for start in 0..nodes {
        let mut node = start;
        while node != root && visited_from[node as usize].is_none() {
            visited_from[node as usize] = Some(start);
            node = before(node);
        }
        if node != root && visited_from[node as usize] == Some(start) && of[node as usize].is_none() {
            let mut member = node;
            while of[member as usize].is_none() {
                of[member as usize] = Some(is_cycle.len() as u32);
                member = before(member);
            }
            is_cycle.push(true);
        }
    }
    if is_cycle.is_empty() {
        return None;
    }
    let mut alone = || {
        is_cycle.push(false);
        is_cycle.len() as u32 - 1
    };
    let of = of.into_iter().map(|cycle| cycle.unwrap_or_else(&mut alone)).collect();
    Some(Cycles { of, count: is_cycle.len() as u32, is_cycle })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// The least cost over all choices of one incoming edge a node that make a tree.
    fn by_trying(nodes: u32, root: u32, edges: &[Edge]) -> f64 {
        let into = |node: u32| edges.iter().filter(move |edge| edge.target == node && node != root);
        let others: Vec<u32> = (0..nodes).filter(|&node| node != root).collect();
        let mut choices: Vec<Vec<Edge>> = vec![Vec::new()];
        for &node in &others {
            choices =
                choices.iter().flat_map(|chosen| into(node).map(|&edge| [&chosen[..], &[edge]].concat())).collect();
        }
        let is_tree = |chosen: &Vec<Edge>| others.iter().all(|&node| leads_to(root, node, chosen));
        let costs =
            choices.iter().filter(|chosen| is_tree(chosen)).map(|chosen| chosen.iter().map(|edge| edge.cost).sum());
        costs.fold(f64::INFINITY, f64::min)
    }

    fn leads_to(root: u32, mut node: u32, chosen: &[Edge]) -> bool {
        for _ in 0..=chosen.len() {
            if node == root {
                return true;
            }
            node = chosen.iter().find(|edge| edge.target == node).expect("an edge into every node").source;
        }
        false
    }

    #[test]
    fn the_cheapest_arborescence_is_found_and_its_cost_alone_too() {
        let mut random = Random::new(5);
        for case in 0..300 {
            let nodes = 2 + case % 4;
            let mut edges = Vec::new();
            for source in 0..nodes {
                for target in (0..nodes).filter(|&target| target != source) {
                    edges.push(Edge { source, target, cost: random.below(6) as f64 });
                }
            }
            let root = random.below(nodes.into()) as u32;
            let best = by_trying(nodes, root, &edges);
            let found = arborescence(nodes, root, &edges);
            let chosen: Vec<Edge> = found.iter().map(|&edge| edges[edge]).collect();
            assert_eq!(chosen.iter().map(|edge| edge.cost).sum::<f64>(), best);
            assert!((0..nodes).all(|node| leads_to(root, node, &chosen)));
            assert!((Costs::new(nodes, &edges).of_arborescence(NodeId(root)) - best).abs() < 1e-9);
        }
    }
}
