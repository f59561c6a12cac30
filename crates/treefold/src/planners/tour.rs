//! The order in which a ring visits the ranks.
//!
//! Grids have a Hamiltonian cycle by construction, wherever one exists. Dimensions are folded two at a time: the later
//! ones form a line (or a cycle), and the first one multiplies it. With an even side that is the cycle of the MultiTree
//! authors (along the first row, and back through the columns in turns); on tori with odd sides it is a helix whose
//! rows turn so that it closes. Other networks are toured by the travelling-salesman heuristics 2-opt and Or-opt over
//! route costs, cubed so that the slowest hop counts most; with more than 512 ranks these look at near places only
//! (`tour/large.rs`). Cost: linear on grids, cubic in ranks elsewhere, and about linear for many ranks.

mod large;

use super::grid_of_ranks;
use crate::topology::{LinkId, NodeId, Topology};
use crate::units::Bytes;

/// The most ranks whose order is improved at all places: for more that costs more than rings are worth.
const MAX_IMPROVED: usize = 512;

/// Returns the ranks in the order in which a ring visits them, when each sends `chunk` to the next.
pub(super) fn ring_order(topology: &Topology, chunk: Bytes) -> Vec<NodeId> {
    ring_order_beside(topology, chunk, &vec![0; topology.links().len()])
}

/// Returns the order of a ring beside others, so many of which take each link.
pub(super) fn ring_order_beside(topology: &Topology, chunk: Bytes, rings: &[u32]) -> Vec<NodeId> {
    let is_first = rings.iter().all(|&rings| rings == 0);
    if is_first && let Some((dims, wrap)) = grid_of_ranks(topology) {
        let (cells, closed) = grid_cycle(dims, wrap);
        if closed || cells.len() > MAX_IMPROVED || dims.iter().filter(|&&d| d > 1).count() == 1 {
            return cells.iter().map(|&cell| topology.node_at(cell)).collect();
        }
    }
    let count = topology.ranks() as usize;
    if count < 3 {
        return topology.rank_ids().collect();
    }
    let hops = Hops { topology, chunk, rings };
    if count > MAX_IMPROVED {
        return large::order(&hops);
    }
    let costs = Costs::new(&hops);
    let candidates = [(0..count).collect(), nearest_neighbour(&costs)];
    let improved = candidates.into_iter().map(|order| improve(order, &costs));
    let best = improved.min_by_key(|order| costs.tour(order)).expect("there are two");
    let start = best.iter().position(|&rank| rank == 0).expect("rank 0 is on the tour");
    (0..count).map(|i| NodeId::new(best[(start + i) % count])).collect()
}

/// Returns the cells of a grid in the order of a Hamiltonian cycle, or of a path, and whether it closes.
fn grid_cycle(dims: &[u32], wrap: bool) -> (Vec<u32>, bool) {
    let Some((&rows, rest)) = dims.split_first() else { return (vec![0], true) };
    let (line, line_closes) = grid_cycle(rest, wrap);
    let columns = line.len() as u32;
    if rows == 1 {
        return (line, line_closes);
    }
    let column_closes = wrap || rows == 2;
    if columns == 1 {
        return ((0..rows).collect(), column_closes);
    }
    let (cells, closed) = product_cycle(rows, columns, column_closes, line_closes);
    (cells.into_iter().map(|(row, column)| row * columns + line[column as usize]).collect(), closed)
}

/// Returns `(row, column)` in the order of a cycle, or of a path, on a grid of `rows` x `columns`, and whether it
/// closes.
fn product_cycle(rows: u32, columns: u32, rows_wrap: bool, columns_wrap: bool) -> (Vec<(u32, u32)>, bool) {
    let transposed = |(cells, closed): (Vec<(u32, u32)>, bool)| {
        (cells.into_iter().map(|(column, row)| (row, column)).collect::<Vec<_>>(), closed)
    };
    if columns.is_multiple_of(2) {
        (comb(rows, columns), true)
    } else if rows.is_multiple_of(2) {
        transposed((comb(columns, rows), true))
    } else if rows_wrap && columns_wrap && columns <= rows {
        (helix(rows, columns), true)
    } else if rows_wrap && columns_wrap {
        transposed((helix(columns, rows), true))
    } else {
        let snake =
            |row: u32| (0..columns).map(move |i| (row, if row.is_multiple_of(2) { i } else { columns - 1 - i }));
        ((0..rows).flat_map(snake).collect(), false)
    }
}

/// Returns the cycle along row 0, then down and up through the columns from the last to the first; `columns` is even.
fn comb(rows: u32, columns: u32) -> Vec<(u32, u32)> {
    let mut cells: Vec<(u32, u32)> = (0..columns).map(|column| (0, column)).collect();
    for column in (0..columns).rev() {
        let downwards = column % 2 == 1;
        cells.extend((1..rows).map(|i| (if downwards { i } else { rows - i }, column)));
    }
    cells
}

/// Returns a cycle that goes row by row around a torus with odd sides, `columns <= rows`. A row that is walked forwards
/// ends one column earlier, a row backwards one later; `columns` more of the former close the cycle.
fn helix(rows: u32, columns: u32) -> Vec<(u32, u32)> {
    let forwards = (rows + columns) / 2;
    let mut column = 0;
    let mut cells = Vec::new();
    for row in 0..rows {
        let step = if row < forwards { 1 } else { columns - 1 };
        for i in 0..columns {
            cells.push((row, column));
            if i + 1 < columns {
                column = (column + step) % columns;
            }
        }
    }
    cells
}

/// The hops between ranks, each of which sends a chunk, beside those of other rings that take links, too.
struct Hops<'a> {
    topology: &'a Topology,
    chunk: Bytes,
    /// How many other rings take each link.
    rings: &'a [u32],
}

impl Hops<'_> {
    /// Returns the seconds of a hop; `route` is a buffer.
    fn seconds(&self, source: NodeId, target: NodeId, route: &mut Vec<LinkId>) -> f64 {
        route.clear();
        self.topology.route(source, target, route);
        route.iter().map(|&link| self.seconds_on(link)).sum()
    }

    fn seconds_on(&self, number: LinkId) -> f64 {
        let link = self.topology.link(number);
        let bytes = self.chunk.get() as f64 * f64::from(1 + self.rings[number]);
        link.delay().seconds() + link.bandwidth.seconds_for(bytes).get()
    }
}

/// The costs of sending a chunk from each rank to each other. They are whole numbers, so that every improvement is a
/// real one and improving ends.
struct Costs {
    count: usize,
    cost: Vec<i64>,
    symmetric: bool,
}

/// The largest cost of a hop, with which tours of [`MAX_IMPROVED`] hops still add up in 64 bits.
const MAX_COST: f64 = (1u64 << 40) as f64;

impl Costs {
    fn new(hops: &Hops) -> Self {
        let count = hops.topology.ranks() as usize;
        let mut seconds = vec![0.0; count * count];
        let mut route = Vec::new();
        for (i, seconds) in seconds.iter_mut().enumerate().filter(|(i, _)| i / count != i % count) {
            *seconds = hops.seconds(NodeId::new(i / count), NodeId::new(i % count), &mut route);
        }
        let scale = scale(&seconds, count);
        let cost: Vec<i64> = seconds.iter().map(|s| ((s / scale).min(1.0).powi(3) * MAX_COST) as i64).collect();
        let symmetric = (0..count * count).all(|i| cost[i] == cost[i % count * count + i / count]);
        Self { count, cost, symmetric }
    }

    fn between(&self, from: usize, to: usize) -> i64 {
        self.cost[from * self.count + to]
    }

    fn tour(&self, order: &[usize]) -> i64 {
        (0..order.len()).map(|i| self.between(order[i], order[(i + 1) % order.len()])).sum()
    }
}

/// Returns the seconds that count as slowest: far above the best hop of the rank whose best hop is worst. A pair that
/// is a million times slower than the others must not make the others look alike.
fn scale(seconds: &[f64], count: usize) -> f64 {
    let best_hop = |rank: usize| {
        let hops = (0..count).filter(|&other| other != rank);
        hops.map(|other| seconds[rank * count + other].max(seconds[other * count + rank])).fold(f64::INFINITY, f64::min)
    };
    let bottleneck = (0..count).map(best_hop).fold(f64::MIN_POSITIVE, f64::max);
    let slowest = seconds.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    slowest.min(32.0 * bottleneck)
}

fn nearest_neighbour(costs: &Costs) -> Vec<usize> {
    let mut order = vec![0];
    let mut left: Vec<usize> = (1..costs.count).collect();
    while !left.is_empty() {
        let here = order[order.len() - 1];
        let cost = |&i: &usize| costs.between(here, left[i]);
        let nearest = (0..left.len()).min_by_key(cost).expect("some are left");
        order.push(left.remove(nearest));
    }
    order
}

/// Improves a tour until nothing helps; every accepted move shortens it, so this ends.
fn improve(mut order: Vec<usize>, costs: &Costs) -> Vec<usize> {
    while (costs.symmetric && two_opt(&mut order, costs)) || or_opt(&mut order, costs) {}
    order
}

/// Reverses segments where that shortens the tour; returns whether any was reversed.
fn two_opt(order: &mut [usize], costs: &Costs) -> bool {
    let count = order.len();
    let mut improved = false;
    for i in 0..count - 2 {
        for j in i + 2..count - usize::from(i == 0) {
            let (a, b, c, d) = (order[i], order[i + 1], order[j], order[(j + 1) % count]);
            let before = costs.between(a, b) + costs.between(c, d);
            let after = costs.between(a, c) + costs.between(b, d);
            if after < before {
                order[i + 1..=j].reverse();
                improved = true;
            }
        }
    }
    improved
}

/// Moves a run of up to three ranks to a better place, without reversing it; returns whether any was moved.
fn or_opt(order: &mut [usize], costs: &Costs) -> bool {
    let count = order.len();
    for length in 1..=3.min(count - 2) {
        for start in 0..count {
            order.rotate_left(start);
            let (first, last) = (order[0], order[length - 1]);
            let (before, next) = (order[count - 1], order[length]);
            let removed = costs.between(before, first) + costs.between(last, next) - costs.between(before, next);
            let gain = |&at: &usize| {
                let (a, b) = (order[at], order[at + 1]);
                removed - (costs.between(a, first) + costs.between(last, b) - costs.between(a, b))
            };
            let best = (length..count - 1).max_by_key(gain);
            if let Some(at) = best.filter(|at| gain(at) > 0) {
                order[..=at].rotate_left(length);
                return true;
            }
            order.rotate_right(start);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::from_spec;

    fn hops_of_ring(spec: &str) -> Vec<u32> {
        let topology = from_spec(spec, None, None).unwrap();
        let order = ring_order(&topology, Bytes::known(1 << 20));
        let mut seen = order.clone();
        seen.sort_unstable();
        assert_eq!(seen, topology.rank_ids().collect::<Vec<_>>());
        (0..order.len()).map(|i| topology.hops(order[i], order[(i + 1) % order.len()])).collect()
    }

    #[test]
    fn grids_with_a_hamiltonian_cycle_get_one() {
        for spec in [
            "torus:4x4",
            "torus:3x3",
            "torus:5x3",
            "torus:3x5",
            "torus:2x2",
            "torus:3x5x7",
            "torus:4x3x3",
            "mesh:4x4",
            "mesh:4x5",
            "mesh:5x4",
            "mesh:2x3x3",
            "hypercube:5",
            "ring:7",
            "torus:1x6",
        ] {
            assert!(hops_of_ring(spec).iter().all(|&hops| hops == 1), "{spec}: {:?}", hops_of_ring(spec));
        }
    }

    #[test]
    fn the_4x4_ring_is_the_authors() {
        let topology = from_spec("torus:4x4", None, None).unwrap();
        let authors = [0, 1, 2, 3, 7, 11, 15, 14, 10, 6, 5, 9, 13, 12, 8, 4].map(NodeId);
        assert_eq!(ring_order(&topology, Bytes::known(1)), authors);
    }

    #[test]
    fn elsewhere_the_ring_is_short() {
        assert_eq!(hops_of_ring("mesh:3x3").iter().sum::<u32>(), 10);
        assert!(hops_of_ring("b4").iter().sum::<u32>() <= 14);
        let fat_tree: u32 = hops_of_ring("fattree:4,2").iter().sum();
        assert_eq!(fat_tree, 12 * 2 + 4 * 4);
    }
}
