//! Rings on all links, which are a strong baseline.
//!
//! On any network, the ring of `ring` runs once in each direction, with half of the vector each. On a 2-D torus there
//! are two edge-disjoint Hamiltonian cycles (Kotzig 1973 proves that they exist when both sides are at least 3), each
//! in both directions, with a quarter each. Then all four links of a node work in every step, and the plan meets the
//! bound of reduce-scatter plus all-gather. It takes 2 (N - 1) steps.
//!
//! The cycles are constructed by colours: row cables are red and column cables blue. Swapping the colours of a unit
//! square joins (or splits) the cycles of both colours. A staircase of squares joins rows and columns at the same time;
//! a search over further squares joins the rest. Cost: quadratic in N at worst.

use std::sync::Arc;

use super::ring::{Ring, push_rings};
use super::{Options, tour};
use crate::error::Result;
use crate::plan::Draft;
use crate::random::Random;
use crate::topology::{LinkId, NodeId, Shape, Topology};
use crate::units::Bytes;

pub(super) fn plan(topology: &Arc<Topology>, options: &Options) -> Result<Draft> {
    let ranks = u64::from(topology.ranks());
    let cycles = torus_cycles(topology);
    let count = if cycles.is_some() { 4 } else { 2 };
    let mut plan = Draft::new(topology, "multiring", ranks * count);
    let rings: Vec<Ring> = match cycles {
        Some(cycles) => cycles.iter().flat_map(|cycle| both_ways(&mut plan, cycle)).collect(),
        None => {
            let mut order = tour::ring_order(topology, Bytes::known(options.size.get() / (2 * ranks)));
            let there = Ring::routed(&mut plan, &order);
            order[1..].reverse();
            vec![there, Ring::routed(&mut plan, &order)]
        }
    };
    push_rings(&mut plan, &rings);
    Ok(plan)
}

/// Returns a cycle of links as a ring, and the same cycle in the opposite direction.
fn both_ways(plan: &mut Draft, cycle: &[LinkId]) -> [Ring; 2] {
    let topology = Arc::clone(&plan.topology);
    let mut ring = |links: Vec<LinkId>| Ring {
        order: links.iter().map(|&link| topology.link(link).source).collect(),
        lanes: links.iter().map(|&link| plan.lanes.link(&topology, link)).collect(),
    };
    let back = cycle.iter().rev().map(|&link| topology.reverse(link).expect("tori have both directions")).collect();
    [ring(cycle.to_vec()), ring(back)]
}

/// Returns two edge-disjoint Hamiltonian cycles as links, if the network is a 2-D torus whose nodes are all ranks.
fn torus_cycles(topology: &Topology) -> Option<[Vec<LinkId>; 2]> {
    let Shape::Grid { dims, wrap: true } = topology.shape() else { return None };
    let sides: Vec<u32> = dims.iter().copied().filter(|&side| side > 1).collect();
    let &[rows, columns] = sides.as_slice() else { return None };
    if !topology.is_direct() {
        return None;
    }
    let red = Colouring::new(rows as usize, columns as usize).decompose()?;
    Some([true, false].map(|colour| red.cycle(topology, colour)))
}

/// The cables of a torus in two colours, with two cables of each colour at every node.
///
/// Cable `2 c` leaves cell `c` to the right, and `2 c + 1` downwards; a row of two has two parallel cables.
#[derive(Clone)]
struct Colouring {
    rows: usize,
    columns: usize,
    red: Vec<bool>,
}

impl Colouring {
    fn new(rows: usize, columns: usize) -> Self {
        let red = (0..2 * rows * columns).map(|cable| cable % 2 == 0).collect();
        Self { rows, columns, red }
    }

    fn right(&self, cell: usize) -> usize {
        cell / self.columns * self.columns + (cell + 1) % self.columns
    }

    fn below(&self, cell: usize) -> usize {
        (cell + self.columns) % (self.rows * self.columns)
    }

    fn ends(&self, cable: usize) -> (usize, usize) {
        let cell = cable / 2;
        (cell, if cable.is_multiple_of(2) { self.right(cell) } else { self.below(cell) })
    }

    /// Returns the top, bottom, left and right cable of the unit square whose upper left corner is `cell`.
    fn square(&self, cell: usize) -> [usize; 4] {
        [2 * cell, 2 * self.below(cell), 2 * cell + 1, 2 * self.right(cell) + 1]
    }

    /// Swaps the colours of a unit square; returns false, and changes nothing, if its sides are not coloured in pairs.
    fn swap(&mut self, cell: usize) -> bool {
        let [top, bottom, left, right] = self.square(cell);
        let paired =
            self.red[top] == self.red[bottom] && self.red[left] == self.red[right] && self.red[top] != self.red[left];
        if paired {
            [top, bottom, left, right].into_iter().for_each(|cable| self.red[cable] = !self.red[cable]);
        }
        paired
    }

    /// Returns the four cables at each cell.
    fn cables_at(&self) -> Vec<[usize; 4]> {
        let mut at = vec![Vec::with_capacity(4); self.rows * self.columns];
        for cable in 0..self.red.len() {
            let (a, b) = self.ends(cable);
            at[a].push(cable);
            at[b].push(cable);
        }
        at.into_iter().map(|cables| cables.try_into().expect("four cables at every cell of a torus")).collect()
    }

    /// Walks the cycle of one colour from `start`; returns `(cable, from)` for each step.
    fn walk(&self, cables_at: &[[usize; 4]], colour: bool, start: usize) -> Vec<(usize, usize)> {
        let (mut cell, mut last, mut steps) = (start, None, Vec::new());
        loop {
            let mut next = cables_at[cell].iter().filter(|&&cable| self.red[cable] == colour && Some(cable) != last);
            let cable = *next.next().expect("two cables of each colour meet at every cell");
            steps.push((cable, cell));
            let (a, b) = self.ends(cable);
            (cell, last) = (if a == cell { b } else { a }, Some(cable));
            if cell == start {
                return steps;
            }
        }
    }

    fn count_cycles(&self, cables_at: &[[usize; 4]]) -> usize {
        let count = |colour| {
            let mut seen = vec![false; cables_at.len()];
            let mut cycles = 0;
            for start in 0..cables_at.len() {
                if !seen[start] {
                    cycles += 1;
                    self.walk(cables_at, colour, start).into_iter().for_each(|(_, cell)| seen[cell] = true);
                }
            }
            cycles
        };
        count(true) + count(false)
    }

    /// Colours the two Hamiltonian cycles of a torus with a side of two, if they exist: each zigzags along the other
    /// side and crosses over one of the two parallel cables each time. It closes only if that side is even.
    fn zigzag(mut self) -> Option<Self> {
        let (long, along) = if self.rows == 2 { (self.columns, 0) } else { (self.rows, 1) };
        for cable in 0..self.red.len() {
            let (row, column) = (cable / 2 / self.columns, cable / 2 % self.columns);
            let across = if along == 0 { row } else { column };
            self.red[cable] = if cable % 2 == along { (row + column) % 2 == 1 } else { across == 0 };
        }
        (long % 2 == 0).then_some(self)
    }

    /// Swaps squares until each colour is one cycle; returns `None` for the tori of 2 x odd, which have no two such
    /// cycles.
    fn decompose(mut self) -> Option<Self> {
        if self.rows.min(self.columns) == 2 {
            return self.zigzag();
        }
        let cables_at = self.cables_at();
        for i in 0..self.rows.min(self.columns) - 1 {
            self.swap(i * self.columns + i);
        }
        let mut random = Random::new(0x2c1c1e);
        let cells = (self.rows * self.columns) as u64;
        let mut cycles = self.count_cycles(&cables_at);
        let mut tries = 0;
        while cycles > 2 {
            tries += 1;
            if tries > 64 * cells {
                return None;
            }
            let square = random.below(cells) as usize;
            if !self.swap(square) {
                continue;
            }
            let now = self.count_cycles(&cables_at);
            if now <= cycles {
                cycles = now;
            } else {
                self.swap(square);
            }
        }
        Some(self)
    }

    /// Returns one colour's cycle from cell 0 as links of `topology`.
    fn cycle(&self, topology: &Topology, colour: bool) -> Vec<LinkId> {
        let link = |(cable, from): (usize, usize)| {
            let (a, b) = self.ends(cable);
            let to = if a == from { b } else { a };
            link_of(topology, topology.node_at(from as u32), topology.node_at(to as u32), a > b)
        };
        self.walk(&self.cables_at(), colour, 0).into_iter().map(link).collect()
    }
}

/// Returns the link between neighbours; of two parallel ones, the second for the cable that closes the row.
fn link_of(topology: &Topology, from: NodeId, to: NodeId, closes: bool) -> LinkId {
    let between: Vec<LinkId> =
        topology.outgoing(from).iter().copied().filter(|&link| topology.link(link).target == to).collect();
    between[usize::from(closes).min(between.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_torus_splits_into_two_hamiltonian_cycles() {
        for rows in 2..10 {
            for columns in 2..10 {
                let red = Colouring::new(rows, columns).decompose();
                let impossible = rows.min(columns) == 2 && rows.max(columns) % 2 == 1;
                assert_eq!(red.is_none(), impossible, "{rows}x{columns}");
                let cycles = red.map_or(2, |red| red.count_cycles(&red.cables_at()));
                assert_eq!(cycles, 2, "{rows}x{columns}");
            }
        }
    }
}
