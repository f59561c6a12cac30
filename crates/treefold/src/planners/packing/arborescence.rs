//! Minimum arborescences (Chu and Liu 1965, Edmonds 1967), and the root whose two together are cheapest.
//!
//! Every node but the root takes its cheapest incoming arc; a cycle among those is contracted, arcs into it cost what they cost
//! more than the cycle's own, and so on. Cost: O(m) a contraction, at most n of them; few in practice.

use super::super::forest::{Route, SpanningTree, breadth_first};
use super::Arc;
use crate::topology::{NodeId, Topology};

/// The cheapest broadcast arborescence out of and reduce arborescence into one root, the best of `roots`, and their
/// cost.
pub(super) fn cheapest_pair(topology: &Topology, arcs: Vec<Arc>, roots: &[NodeId]) -> (f64, SpanningTree) {
    let ranks = topology.ranks();
    let out: Vec<Edge> =
        arcs.iter().map(|arc| Edge { source: arc.source, target: arc.target, cost: arc.cost }).collect();
    let into: Vec<Edge> =
        out.iter().map(|&Edge { source, target, cost }| Edge { source: target, target: source, cost }).collect();
    let (cost, root) = cheapest_root(ranks, roots, &out, &into);
    let routes = |edges: &[Edge]| -> Vec<Route> {
        arborescence(ranks, root, edges).into_iter().map(|arc| arcs[arc].route.clone()).collect()
    };
    let down = breadth_first(topology, root, routes(&out), false);
    let up = breadth_first(topology, root, routes(&into), true);
    (cost, SpanningTree { root, down, up: Some(up) })
}

/// The cheapest of `roots`, and its cost. The cheapest arcs into every other node are a bound from below: roots whose
/// bound is no better than what has been found are not looked at.
fn cheapest_root(ranks: u32, roots: &[NodeId], out: &[Edge], into: &[Edge]) -> (f64, NodeId) {
    let least = |edges: &[Edge]| {
        let mut least = vec![f64::INFINITY; ranks as usize];
        edges.iter().for_each(|edge| least[edge.target as usize] = least[edge.target as usize].min(edge.cost));
        least
    };
    let (least_out, least_into) = (least(out), least(into));
    let all: f64 = least_out.iter().chain(&least_into).sum();
    let bound = |root: NodeId| all - least_out[root as usize] - least_into[root as usize];
    let mut order: Vec<NodeId> = roots.to_vec();
    order.sort_by(|&a, &b| bound(a).total_cmp(&bound(b)));
    let mut best = (f64::INFINITY, order[0]);
    for root in order {
        if bound(root) >= best.0 {
            break;
        }
        let found = cost(ranks, root, out) + cost(ranks, root, into);
        if found < best.0 {
            best = (found, root);
        }
    }
    best
}

#[derive(Clone, Copy)]
struct Edge {
    source: NodeId,
    target: NodeId,
    cost: f64,
}

const NONE: u32 = u32::MAX;

/// Cost of the minimum arborescence out of `root`.
fn cost(ranks: u32, root: NodeId, edges: &[Edge]) -> f64 {
    arborescence(ranks, root, edges).into_iter().map(|edge| edges[edge].cost).sum()
}

/// Indices of the edges of the minimum arborescence out of `root`, which reaches every node.
fn arborescence(nodes: u32, root: NodeId, edges: &[Edge]) -> Vec<usize> {
    let mut cheapest = vec![NONE; nodes as usize];
    for (number, edge) in (0..).zip(edges) {
        if edge.target != root && edge.source != edge.target {
            let best = &mut cheapest[edge.target as usize];
            if *best == NONE || edge.cost < edges[*best as usize].cost {
                *best = number;
            }
        }
    }
    let Some(cycles) = contract(nodes, root, edges, &cheapest) else {
        return cheapest.into_iter().filter(|&edge| edge != NONE).map(|edge| edge as usize).collect();
    };
    let (mut smaller, mut original) = (Vec::with_capacity(edges.len()), Vec::with_capacity(edges.len()));
    for (number, edge) in edges.iter().enumerate() {
        let (source, target) = (cycles.of[edge.source as usize], cycles.of[edge.target as usize]);
        if source != target && edge.target != root {
            let spared = if cycles.is_cycle[target as usize] {
                edges[cheapest[edge.target as usize] as usize].cost
            } else {
                0.0
            };
            smaller.push(Edge { source, target, cost: edge.cost - spared });
            original.push(number);
        }
    }
    let chosen = arborescence(cycles.count, cycles.of[root as usize], &smaller);
    let mut chosen: Vec<usize> = chosen.into_iter().map(|edge| original[edge]).collect();
    // A cycle is opened where the chosen arc enters it; its other arcs stay.
    let mut entered = vec![false; nodes as usize];
    chosen.iter().for_each(|&edge| entered[edges[edge].target as usize] = true);
    for node in 0..nodes as usize {
        if cycles.is_cycle[cycles.of[node] as usize] && !entered[node] {
            chosen.push(cheapest[node] as usize);
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

/// Contracts the cycles among the cheapest incoming edges; `None` if there is none.
fn contract(nodes: u32, root: NodeId, edges: &[Edge], cheapest: &[u32]) -> Option<Cycles> {
    let mut of = vec![NONE; nodes as usize];
    let mut visited_from = vec![NONE; nodes as usize];
    let mut is_cycle = Vec::new();
    for start in 0..nodes {
        let mut node = start;
        while node != root && visited_from[node as usize] == NONE {
            visited_from[node as usize] = start;
            node = edges[cheapest[node as usize] as usize].source;
        }
        if node != root && visited_from[node as usize] == start && of[node as usize] == NONE {
            let mut member = node;
            while of[member as usize] == NONE {
                of[member as usize] = is_cycle.len() as u32;
                member = edges[cheapest[member as usize] as usize].source;
            }
            is_cycle.push(true);
        }
    }
    if is_cycle.is_empty() {
        return None;
    }
    for cycle in &mut of {
        if *cycle == NONE {
            *cycle = is_cycle.len() as u32;
            is_cycle.push(false);
        }
    }
    Some(Cycles { of, count: is_cycle.len() as u32, is_cycle })
}
