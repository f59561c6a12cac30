//! The spanning-tree packing number of an undirected network, which is its strength.
//!
//! Nash-Williams and Tutte (1961): the most that edge-disjoint (fractional) spanning trees carry together is the least
//! ratio `capacity between parts / (|P| - 1)` over all partitions P of the nodes. Newton's method lowers that ratio.
//! Each round needs the partition that minimises `capacity between parts - x (|P| - 1)`, which is a Dilworth
//! truncation: it is computed greedily with one minimum cut a node (Cunningham 1985; Barahona 1992). Cost: N maximum
//! flows a round, and few rounds.

use super::maxflow::FlowNetwork;

/// An undirected edge: its two ends, and its capacity.
pub(super) type Edge = (usize, usize, f64);

/// Returns the strength of a network of at least two nodes with undirected edges, or `known` if that is less, which
/// spares rounds. Also returns the part of each node in the weakest partition, whose ratio the strength is unless
/// `known` is less.
pub(super) fn strength(nodes: usize, edges: &[Edge], known: f64) -> (f64, Vec<usize>) {
    let mut weakest: Vec<usize> = (0..nodes).collect();
    let mut rate = ratio(&weakest, edges).min(known);
    loop {
        let part = weakest_partition(nodes, edges, rate);
        if parts(&part) < 2 {
            return (rate, weakest);
        }
        let better = ratio(&part, edges);
        if better >= rate * (1.0 - 1e-12) {
            return (rate, weakest);
        }
        (rate, weakest) = (better, part);
    }
}

/// Counts the parts.
fn parts(part: &[usize]) -> usize {
    (0..part.len()).filter(|&node| part.contains(&node)).count()
}

/// Returns the capacity between the parts over their number less one.
fn ratio(part: &[usize], edges: &[Edge]) -> f64 {
    let between: f64 = edges.iter().filter(|(a, b, _)| part[*a] != part[*b]).map(|(_, _, capacity)| capacity).sum();
    between / (parts(part) - 1) as f64
}

/// Returns the partition (the part of each node, named by one of its nodes) that minimises the sum of `cut(S) / 2 - x`
/// over its parts S.
///
/// Nodes enter one by one. Node v gets the value `y(v) = min over S with v in S, S of nodes so far, of cut(S) / 2 - x -
/// y(S - v)`; minimising sets that overlap are merged.
fn weakest_partition(nodes: usize, edges: &[Edge], x: f64) -> Vec<usize> {
    let (source, sink) = (nodes, nodes + 1);
    let mut network = FlowNetwork::new(nodes + 2);
    for &(a, b, capacity) in edges {
        network.add(a, b, capacity / 2.0, capacity / 2.0);
    }
    let from_source: Vec<usize> = (0..nodes).map(|node| network.add(source, node, 0.0, 0.0)).collect();
    let to_sink: Vec<usize> = (0..nodes).map(|node| network.add(node, sink, f64::INFINITY, 0.0)).collect();
    let mut value = vec![0.0; nodes];
    let mut part: Vec<usize> = (0..nodes).collect();
    for node in 0..nodes {
        network.set_capacity(from_source[node], f64::INFINITY);
        network.set_capacity(to_sink[node], 0.0);
        network.flow(source, sink, f64::INFINITY);
        let inside = network.source_side(source);
        let others: f64 = (0..node).filter(|&other| inside[other]).map(|other| value[other]).sum();
        value[node] = half_cut(edges, &inside) - x - others;
        merge(&mut part, &inside);
        network.set_capacity(from_source[node], value[node].max(0.0));
        network.set_capacity(to_sink[node], (-value[node]).max(0.0));
    }
    part
}

/// Returns half the capacity between the nodes inside and those outside.
fn half_cut(edges: &[Edge], inside: &[bool]) -> f64 {
    edges.iter().filter(|(a, b, _)| inside[*a] != inside[*b]).map(|(_, _, capacity)| capacity).sum::<f64>() / 2.0
}

/// Merges all parts that the set touches.
fn merge(part: &mut [usize], inside: &[bool]) {
    let touched: Vec<usize> = (0..part.len()).filter(|&node| inside[node]).map(|node| part[node]).collect();
    let name = touched[0];
    part.iter_mut().filter(|part| touched.contains(part)).for_each(|part| *part = name);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Returns the least ratio over all partitions, by enumeration.
    fn by_enumeration(nodes: usize, edges: &[(usize, usize, f64)]) -> f64 {
        fn extend(part: &mut Vec<usize>, nodes: usize, edges: &[(usize, usize, f64)], least: &mut f64) {
            if part.len() == nodes {
                if parts(part) > 1 {
                    *least = least.min(ratio(part, edges));
                }
                return;
            }
            let fresh = part.iter().max().map_or(0, |last| last + 1);
            for name in 0..=fresh {
                part.push(name);
                extend(part, nodes, edges, least);
                part.pop();
            }
        }
        let mut least = f64::INFINITY;
        extend(&mut Vec::new(), nodes, edges, &mut least);
        least
    }

    #[test]
    fn strength_is_the_least_over_all_partitions() {
        let mut random = Random::new(7);
        for _ in 0..300 {
            let nodes = 2 + random.below(6) as usize;
            let mut edges: Vec<(usize, usize, f64)> =
                (1..nodes).map(|b| (random.below(b as u64) as usize, b, 1.0 + random.below(9) as f64)).collect();
            for _ in 0..random.below(10) {
                let (a, b) = (random.below(nodes as u64) as usize, random.below(nodes as u64) as usize);
                if a != b {
                    edges.push((a, b, 1.0 + random.unit()));
                }
            }
            let expected = by_enumeration(nodes, &edges);
            assert!((strength(nodes, &edges, f64::INFINITY).0 - expected).abs() < 1e-9 * expected, "{edges:?}");
        }
    }
}
