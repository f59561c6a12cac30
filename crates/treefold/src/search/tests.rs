//! Searches of random graphs, against Bellman and Ford's algorithm (1958), which knows no order of nodes.

use std::fmt::Debug;

use proptest::prelude::*;

use super::*;

const NODES: usize = 12;

/// Edges as (source, target, length). Lengths are few, so that many routes are equally long; in half of the graphs all
/// are positive.
fn graphs() -> impl Strategy<Value = Vec<(u32, u32, u32)>> {
    let nodes = 0..NODES as u32;
    (0..2u32).prop_flat_map(move |least| proptest::collection::vec((nodes.clone(), nodes.clone(), least..5), 0..60))
}

/// The costs of routes from any of `sources`, found by trying all edges until nothing changes.
fn bellman_ford<C: Cost>(edges: &[(u32, u32, u32)], sources: &[u32], cost_of: impl Fn(u32) -> C) -> Vec<C> {
    let mut least = vec![C::UNREACHED; NODES];
    sources.iter().for_each(|&source| least[source as usize] = C::ZERO);
    for _ in 0..NODES {
        for &(source, target, length) in edges {
            if least[source as usize].key() < C::UNREACHED.key() {
                let there = least[source as usize] + cost_of(length);
                let known = &mut least[target as usize];
                *known = if there.key() < known.key() { there } else { *known };
            }
        }
    }
    least
}

/// Searches from `sources`; returns the nodes in the order in which they were settled.
fn settle_all<C: Cost>(
    search: &mut Shortest<C, usize>,
    edges: &[(u32, u32, u32)],
    sources: &[u32],
    cost_of: impl Fn(u32) -> C,
) -> Vec<(u64, NodeId)> {
    search.start(NodeId(sources[0]));
    sources[1..].iter().for_each(|&source| search.restart(NodeId(source)));
    let mut settled = Vec::new();
    while let Some((node, cost)) = search.settle() {
        settled.push((cost.key(), node));
        for (edge, &(_, target, length)) in edges.iter().enumerate().filter(|(_, edge)| edge.0 == node.0) {
            search.offer(NodeId(target), cost + cost_of(length), edge);
        }
    }
    settled
}

/// Holds a search from `source` and one that also begins at `other` to Bellman and Ford.
fn agrees<C: Cost + PartialEq + Debug>(
    edges: &[(u32, u32, u32)],
    (source, other): (u32, u32),
    cost_of: impl Fn(u32) -> C + Copy,
) {
    let mut search = Shortest::new(NODES);
    for sources in [&[source, other][..], &[source]] {
        let settled = settle_all(&mut search, edges, sources, cost_of);
        let costs: Vec<C> = NodeId::first(NODES).map(|node| search.cost(node)).collect();
        assert_eq!(costs, bellman_ford(edges, sources, cost_of));
        assert!(settled.is_sorted_by_key(|(cost, _)| cost), "nodes come by their costs: {settled:?}");
        let has_length = edges.iter().all(|edge| edge.2 > 0);
        assert!(!has_length || settled.is_sorted(), "and equally far ones by their numbers: {settled:?}");
        let reached = costs.iter().filter(|cost| cost.key() < C::UNREACHED.key()).count();
        assert!(settled.len() >= reached, "every node with a route comes");
    }
    for target in NodeId::first(NODES) {
        let route: Vec<usize> = search.route(target, |edge| NodeId(edges[edge].0));
        let ends = route.iter().map(|&edge| (edges[edge].0, edges[edge].1));
        let (mut at, mut cost) = (source, C::ZERO);
        for ((from, to), &edge) in ends.zip(&route) {
            assert_eq!(from, at, "each edge begins where the one before ends");
            (at, cost) = (to, cost + cost_of(edges[edge].2));
        }
        if search.cost(target) != C::UNREACHED {
            assert_eq!((NodeId(at), cost), (target, search.cost(target)), "the route leads there for this cost");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn shortest_routes_are_those_of_bellman_and_ford(edges in graphs(), starts in (0..12u32, 0..12u32)) {
        agrees(&edges, starts, u64::from);
        agrees(&edges, starts, |length| Time::from_picoseconds(length.into()));
        // Sums of thirds are rounded; both must round them alike, from the start to the end of a route.
        agrees(&edges, starts, |length| f64::from(length) / 3.0);
    }

    #[test]
    fn breadth_first_counts_hops(edges in graphs(), start in 0..12u32) {
        let ends = |node: NodeId| edges.iter().filter(move |edge| edge.0 == node.0).map(|edge| NodeId(edge.1));
        let mut search = BreadthFirst::new(NODES);
        search.flood(NodeId(start), ends);
        let hops = bellman_ford(&edges, &[start], |_| 1u64);
        for node in NodeId::first(NODES) {
            let expected = (hops[node] != u64::UNREACHED).then_some(hops[node] as u32);
            prop_assert_eq!(search.reaches(node).then(|| search.hops()[node]), expected);
        }
        prop_assert!(search.order().is_sorted_by_key(|&node| search.hops()[node]));
        prop_assert_eq!(search.order().len(), hops.iter().filter(|&&hops| hops != u64::UNREACHED).count());
        // What is left is found by further searches, each node once.
        for node in NodeId::first(NODES) {
            if !search.reaches(node) {
                search.flood(node, ends);
            }
        }
        let mut all = search.order().to_vec();
        all.sort_unstable();
        prop_assert_eq!(all, NodeId::first(NODES).collect::<Vec<_>>());
    }
}

/// Two routes of cost 2 lead to node 3; the one that is offered first stays, and the lower node comes first.
#[test]
fn ties_go_to_what_was_offered_first() {
    let edges = [(0, 2, 1), (0, 1, 1), (2, 3, 1), (1, 3, 1)];
    let mut search = Shortest::new(NODES);
    let settled = settle_all(&mut search, &edges, &[0], u64::from);
    assert_eq!(settled.iter().map(|(_, node)| node.0).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(search.route::<Vec<usize>>(NodeId(3), |edge| NodeId(edges[edge].0)), [1, 3], "by node 1");
}

/// A node that joins a tree becomes a start without losing the edge by which the tree reaches it.
#[test]
fn a_restart_keeps_the_last_edge() {
    let mut search: Shortest<u64, usize> = Shortest::new(NODES);
    search.start(NodeId(0));
    search.offer(NodeId(1), 7, 40);
    assert_eq!((search.settle(), search.settle()), (Some((NodeId(0), 0)), Some((NodeId(1), 7))));
    search.restart(NodeId(1));
    assert_eq!(search.settle(), Some((NodeId(1), 0)));
    assert_eq!((search.settle(), search.last_edge(NodeId(1))), (None, Some(40)));
}
