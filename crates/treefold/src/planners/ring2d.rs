//! 2D-ring all-reduce (Ying et al., "Image classification at supercomputer scale", 2018), as published: an all-reduce
//! on each row, then one on each column.
//!
//! Four flows share the links (E, W, S, N): two quarters of the vector start along the rows, one in each direction, and
//! go on along the columns; the other two start along the columns. Each phase takes 2 (max(R, C) - 1) steps, as two
//! flows run along the longer side. Nearly twice the bytes of a flat ring are sent, because each rank reduces all of
//! its quarter in both phases. On a mesh a row is closed by the route back from its last node to its first, which
//! shares links.
//!
//! Cost: linear in the edges.

use std::sync::Arc;

use super::ring::{Ring, push_ring_phase};
use super::{Options, grid_of_ranks};
use crate::error::Result;
use crate::misfit;
use crate::plan::{Draft, LaneId, Tree};
use crate::topology::{NodeId, Topology};

/// The flows: the dimension that comes first (0 rows, 1 columns), and whether rings run forwards.
const FLOWS: [(usize, bool); 4] = [(0, true), (0, false), (1, true), (1, false)];

pub(super) fn plan(topology: &Arc<Topology>, _options: &Options) -> Result<Draft> {
    let [rows, columns] = sides(topology)?;
    // A quarter must be divisible into the chunks of both a row and a column.
    let quarter = u64::from(rows) * u64::from(columns);
    let mut plan = Draft::new(topology, "ring2d", FLOWS.len() as u64 * quarter);
    let node = |row, column| topology.node_at(row * columns + column);
    let in_rows: Vec<Vec<NodeId>> =
        (0..rows).map(|row| (0..columns).map(|column| node(row, column)).collect()).collect();
    let in_columns: Vec<Vec<NodeId>> =
        (0..columns).map(|column| (0..rows).map(|row| node(row, column)).collect()).collect();
    for phase in 0..2 {
        let (mut trees, mut lanes) = (Vec::new(), Vec::new());
        for (flow, (first, forwards)) in (0..).zip(FLOWS) {
            let lines = if (first == 0) == (phase == 0) { &in_rows } else { &in_columns };
            for line in lines {
                add_ring(&mut plan, line, forwards, flow * quarter, quarter, &mut trees, &mut lanes);
            }
        }
        push_ring_phase(&mut plan, trees, &lanes);
    }
    Ok(plan)
}

/// Adds a ring along `line` that carries the flow's quarter, which starts at unit `start`.
fn add_ring(
    plan: &mut Draft,
    line: &[NodeId],
    forwards: bool,
    start: u64,
    quarter: u64,
    trees: &mut Vec<Tree>,
    lanes: &mut Vec<LaneId>,
) {
    let order: Vec<NodeId> = if forwards { line.to_vec() } else { line.iter().rev().copied().collect() };
    let ring = Ring::routed(plan, &order);
    let chunk = quarter / line.len() as u64;
    let position = |root| line.iter().position(|&node| node == root).expect("roots are on the line") as u64;
    trees.extend(ring.trees(plan, |root| start + position(root) * chunk..start + (position(root) + 1) * chunk));
    lanes.extend(ring.lanes);
}

fn sides(topology: &Topology) -> Result<[u32; 2]> {
    if let Some((dims, _)) = grid_of_ranks(topology) {
        let sides: Vec<u32> = dims.iter().copied().filter(|&side| side > 1).collect();
        if let Ok(sides) = sides.try_into() {
            return Ok(sides);
        }
    }
    misfit!(
        "ring2d needs a 2-D torus or mesh whose nodes are all ranks; {} is not one: use multiring or multitree",
        topology.name()
    )
}
