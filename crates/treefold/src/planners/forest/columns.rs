//! Trees that a linear program of shares lacks (column generation; the bound is Farley's, 1990).
//!
//! The prices of the program say what a byte costs on each link. If a tree costs less than those of its root do in the
//! program, then the program gets better with it. So a cheap tree of each root is added, again and again: one of those
//! within a limit of latency, or the cheapest of all. What all links can carry at these prices, over the cost of the
//! cheapest trees of all roots, bounds the rate of any trees; the search ends near it. Cost: some rounds, each with a
//! linear program and a tree for each root.

use std::collections::HashSet;

use super::grown::half;
use super::low::low_tree;
use super::parts::Tree;
use super::unequal::{MOST_TREES, Side, Solved, solve};
use crate::planners::cheapest::{Edge, arborescence};
use crate::planners::ways::{Way, Ways, latency_over};
use crate::topology::{LinkId, NodeId};

/// The most rounds, and the most edges of trees in the programs of all rounds.
const ROUNDS: usize = 30;
const MOST_EDGES: usize = 1 << 17;
/// Trees this close to the bound are good enough.
const NEAR: f64 = 3e-4;
/// What the latency of the slowest link costs, as a part of all prices: among equally cheap trees lower ones are found.
const LATENCY: f64 = 1e-6;

/// Adds trees to those of each root, which are sorted by roots, until they reach the most that trees within the limit
/// can; returns the part of the wanted rate that they reach.
pub(super) fn complete(side: &Side, trees: &mut Vec<Tree>) -> f64 {
    let mut known: HashSet<Tree> = trees.iter().cloned().collect();
    let mut ways = Ways::new(side.network(), side.stretch.is_some());
    let (mut rounds, mut edges) = (0..ROUNDS, 0);
    loop {
        let solved = solve(side, trees);
        edges += trees.len() * side.topology.ranks() as usize;
        let prices = with_latency(side, &solved);
        ways.price(&scaled(&prices));
        let found = find(side, &ways, trees);
        let is_enough = solved.reached >= bound(side, &prices, &found).min(1.0) * (1.0 - NEAR);
        let new: Vec<Tree> = found.into_iter().filter(|tree| known.insert(tree.clone())).collect();
        let is_long = rounds.next().is_none() || edges > MOST_EDGES || trees.len() + new.len() > MOST_TREES;
        if is_enough || is_long || new.is_empty() {
            return solved.reached;
        }
        trees.extend(new);
        trees.sort_by_key(|&(root, _)| root);
    }
}

/// Returns prices of which the dearest is 1.
fn scaled(prices: &[f64]) -> Vec<f64> {
    let most = prices.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    prices.iter().map(|price| price / most).collect()
}

/// Returns what a tree pays for each link, which is never nothing.
fn with_latency(side: &Side, solved: &Solved) -> Vec<f64> {
    let latency = |link: LinkId| latency_over(side.network(), link) as f64;
    let links = || LinkId::first(solved.prices.len());
    let (all, slowest) = (solved.prices.iter().sum::<f64>(), links().map(latency).fold(1.0, f64::max));
    links().map(|link| solved.prices[link] + all * LATENCY * (latency(link) / slowest + 0.1)).collect()
}

/// Returns a cheap tree of each root.
fn find(side: &Side, ways: &Ways, trees: &[Tree]) -> Vec<Tree> {
    let ranks = side.topology.ranks();
    let edges = Edges::new(ways, ranks);
    let farthest = super::farthest(side.network());
    let of_root = |root: NodeId| {
        let within = |stretch: f64| {
            let low = low_tree(ways, root, ranks, (farthest[root] as f64 * stretch) as u64);
            low.expect("the rank reaches all others").into_iter().flatten().collect()
        };
        let into: Vec<Way> = side.stretch.map_or_else(|| edges.cheapest(root), within);
        let routes = into.iter().map(|way| ways.route(way)).collect();
        (root, half(side.topology, root, routes, side.direction))
    };
    trees.chunk_by(|a, b| a.0 == b.0).map(|of| of_root(of[0].0)).collect()
}

/// Returns the most of the wanted rate that the prices allow if these trees are the cheapest.
fn bound(side: &Side, prices: &[f64], cheapest: &[Tree]) -> f64 {
    let worth = LinkId::first(prices.len()).map(|link| prices[link] / side.part(link));
    let cost = |(_, half): &Tree| half.iter().flatten().map(|&link| prices[link]).sum::<f64>();
    worth.sum::<f64>() / cheapest.iter().map(cost).sum::<f64>()
}

/// The ways between all ranks as edges.
struct Edges {
    ways: Vec<Way>,
    edges: Vec<Edge>,
    ranks: u32,
}

impl Edges {
    fn new(ways: &Ways, ranks: u32) -> Self {
        let into = |rank: NodeId| ways.into(rank).iter().map(move |&way| (way, rank));
        let all: Vec<(Way, NodeId)> = NodeId::first(ranks as usize).flat_map(into).collect();
        let edge = |(way, rank): &(Way, NodeId)| Edge { source: way.source.0, target: rank.0, cost: way.price };
        Self { edges: all.iter().map(edge).collect(), ways: all.into_iter().map(|(way, _)| way).collect(), ranks }
    }

    /// Returns the ways of the cheapest tree out of a root.
    fn cheapest(&self, root: NodeId) -> Vec<Way> {
        arborescence(self.ranks, root.0, &self.edges).into_iter().map(|edge| self.ways[edge]).collect()
    }
}
