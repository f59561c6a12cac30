//! Bucket all-reduce on a torus or mesh of any number of dimensions (Jain, Sabharwal, "Optimal bucket algorithms for
//! large MPI collectives on torus interconnects", ICS 2010; what TPUs do).
//!
//! A ring along the first dimension reduces and scatters, so that each rank has a part of what its line has summed up;
//! rings along the second dimension do the same with these parts, and so on. The all-gather is the same backwards. 2 D
//! copies with a part of the vector each run at once, on a torus each in links of its own: one starts at each
//! dimension and runs forwards, another backwards. With D dimensions of length a it takes 2 D (a - 1) steps, and a link
//! carries (1/D) (N - 1) / N of the vector: as little as possible. `ring2d` reduces the whole vector twice instead.
//! On a mesh the route back from the last node of a line to its first closes the ring, which shares links.
//!
//! Each part is a tree of chains: a rank outside of the root's line passes the part on along the first dimension in
//! which it is not where the root is.
//!
//! Cost: 2 D trees for each rank, with 2 (N - 1) edges each.

use std::sync::Arc;

use super::pairwise::lane;
use super::stripe::keep_promise;
use super::{Options, grid_of_ranks};
use crate::error::Result;
use crate::misfit;
use crate::plan::{Chunk, Draft, Half, Pace, Sharing, Step, Tree};
use crate::topology::Topology;
use crate::units::Bandwidth;

pub(super) fn plan(topology: &Arc<Topology>, _options: &Options) -> Result<Draft> {
    let sides = sides(topology)?;
    let ranks = topology.ranks();
    let copies: Vec<Copy> = (0..sides.len().max(1)).flat_map(|start| both_ways(&sides, start)).collect();
    let mut plan = Draft::new(topology, "bucket", u64::from(ranks) * copies.len() as u64);
    let mut trees = Vec::with_capacity(plan.units as usize);
    for (number, copy) in (0..).zip(&copies) {
        for root in 0..ranks {
            let unit = u64::from(root) * copies.len() as u64 + number;
            let [up, down] = [true, false].map(|inwards| copy.half(&mut plan, root, inwards));
            trees.push(Tree { span: unit..unit + 1, root: topology.node_at(root), up, down, chunk: Chunk::One });
        }
    }
    plan.push_phase(Pace::Step(Sharing::Shared), trees);
    promise_links(&mut plan);
    Ok(plan)
}

/// Returns the lengths of the dimensions that have more than one node.
fn sides(topology: &Topology) -> Result<Vec<u32>> {
    match grid_of_ranks(topology) {
        Some((dims, _)) => Ok(dims.iter().copied().filter(|&side| side > 1).collect()),
        None => misfit!(
            "bucket needs a torus or mesh whose nodes are all ranks; {} is not one: use multiring or multitree",
            topology.name()
        ),
    }
}

/// Lets the only phase promise each message a link of its own, if it can.
fn promise_links(plan: &mut Draft) {
    let bandwidths = plan.topology.links().iter().map(|link| link.bandwidth.bytes_per_second());
    let narrowest = bandwidths.fold(f64::INFINITY, f64::min);
    if narrowest.is_finite() {
        plan.phases[0].pace = Pace::Step(Sharing::Messages(Bandwidth::known(narrowest)));
        keep_promise(plan);
    }
}

/// The dimensions of one copy in the order in which it reduces, and the direction of its rings.
struct Copy {
    lines: Vec<Line>,
    forwards: bool,
    /// The steps of the reduce-scatter.
    steps: u32,
}

/// A dimension of the grid.
#[derive(Clone, Copy)]
struct Line {
    side: u32,
    /// The difference of the numbers of neighbours.
    stride: u32,
    /// The steps before its own in the reduce-scatter.
    before: u32,
}

/// Returns the copies that start with the dimension `start`.
fn both_ways(sides: &[u32], start: usize) -> [Copy; 2] {
    let mut steps = 0;
    let mut line = |dimension: usize| {
        let (side, before) = (sides[dimension], steps);
        steps += side - 1;
        Line { side, stride: sides[dimension + 1..].iter().product(), before }
    };
    let lines: Vec<Line> = (0..sides.len()).map(|turn| line((start + turn) % sides.len())).collect();
    [true, false].map(|forwards| Copy { lines: lines.clone(), forwards, steps })
}

impl Copy {
    /// Returns the half of the tree of `root` that leads into it (`inwards`), or out of it in the same direction.
    fn half(&self, plan: &mut Draft, root: u32, inwards: bool) -> Half {
        let mut edges = Vec::with_capacity(plan.ranks() as usize);
        let mut queue = vec![(root, self.lines.len())];
        let mut next = 0;
        while let Some(&(at, stage)) = queue.get(next) {
            next += 1;
            for (number, line) in self.lines.iter().enumerate().take(stage + 1) {
                let child = line.neighbour(at, self.forwards != inwards);
                let distance = line.distance(root, child, self.forwards != inwards);
                if distance > 0 {
                    let reduced = line.before + line.side - distance;
                    let step = if inwards { reduced } else { 2 * self.steps + 1 - reduced };
                    edges.push((self.edge(plan, at, child, inwards), Step::new(step as u16)));
                    queue.push((child, number));
                }
            }
        }
        plan.own_half(edges)
    }

    /// Returns the lane between a parent and its child in the direction of the data.
    fn edge(&self, plan: &mut Draft, parent: u32, child: u32, inwards: bool) -> crate::plan::LaneId {
        let [parent, child] = [parent, child].map(|place| plan.topology.node_at(place));
        let (source, target) = if inwards { (child, parent) } else { (parent, child) };
        lane(plan, source, target, !self.forwards)
    }
}

impl Line {
    /// Returns the next cell along the dimension.
    fn neighbour(self, cell: u32, forwards: bool) -> u32 {
        let at = cell / self.stride % self.side;
        let next = if forwards { at + 1 } else { at + self.side - 1 } % self.side;
        cell - at * self.stride + next * self.stride
    }

    /// Returns how many hops it is from one cell of a line to another one.
    fn distance(self, from: u32, to: u32, forwards: bool) -> u32 {
        let [from, to] = [from, to].map(|cell| cell / self.stride % self.side);
        if forwards { (to + self.side - from) % self.side } else { (from + self.side - to) % self.side }
    }
}
