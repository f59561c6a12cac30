//! Swing (De Sensi, Bonato, Saam, Hoefler, "Swing: short-cutting rings for higher bandwidth allreduce", NSDI 2024,
//! arXiv 2401.09356).
//!
//! Around a ring, a rank exchanges at the distances 1, -1, 3, -5, 11 and so on, where recursive doubling has 1, 2, 4:
//! it swings from side to side, and stays nearer. On a torus of D dimensions the steps take turns at the dimensions.
//! Ranks have 2 D ports, so 2 D copies with a part of the vector each run at once: one starts at each dimension, and
//! each has a mirror image. The latency form exchanges whole parts in log2 N steps, and the bandwidth form reduces and
//! spreads a part for each rank in 2 log2 N steps. Its links carry little more than the least possible (the load of a
//! link on `torus:8x8` is 0.54 of the vector instead of 0.49). For an all-reduce the form is taken that the analytic
//! model predicts to be faster for the size; other collectives have the bandwidth form.
//!
//! On networks that are no tori, the ranks in their order are the ring. The bandwidth form fits rings of any even
//! length: where two ranks would send the same part to a third, the first one does. The latency form would add some
//! vectors twice there, and needs powers of two.
//!
//! Where it departs from the paper: a dimension of odd length is refused, although the paper has a way for one.
//!
//! Cost: 2 D trees for each rank, with N - 1 edges each.

use std::sync::Arc;

use super::pairwise::{Copies, Targets, swinging};
use super::{Options, grid_of_ranks};
use crate::error::Result;
use crate::misfit;
use crate::plan::{Collective, Draft};
use crate::topology::{NodeId, Topology};

pub(super) fn plan(topology: &Arc<Topology>, options: &Options) -> Result<Draft> {
    let (sides, order) = rings(topology);
    if let Some(odd) = sides.iter().find(|side| !side.is_multiple_of(2)) {
        let of = if sides.len() > 1 { "ranks along every dimension" } else { "ranks" };
        misfit!(
            "swing needs an even number of {of}, and {} has {odd}: use recursive-doubling, bine or multitree",
            topology.name()
        );
    }
    let copies = Copies { order, targets: copies(&sides), mirrored: true };
    let may_exchange = options.collective == Collective::AllReduce && sides.iter().all(|side| side.is_power_of_two());
    Ok(copies.faster_form(&Draft::new(topology, "swing", 1), may_exchange, options.size))
}

/// Returns the lengths of the rings along the dimensions of a torus, and its ranks row by row; of any other network,
/// one ring of all ranks. A single rank has no ring.
fn rings(topology: &Topology) -> (Vec<usize>, Vec<NodeId>) {
    let ranks = topology.ranks();
    let (dims, order) = match grid_of_ranks(topology) {
        Some((dims, true)) => (dims.to_vec(), (0..ranks).map(|place| topology.node_at(place)).collect()),
        _ => (vec![ranks], topology.rank_ids().collect()),
    };
    (dims.into_iter().filter(|&side| side > 1).map(|side| side as usize).collect(), order)
}

/// Returns the steps of each copy: for each dimension those that start with it, and their mirror image.
fn copies(sides: &[usize]) -> Vec<Targets> {
    let starts = 0..sides.len().max(1);
    starts.flat_map(|start| [false, true].map(|mirrored| turns(sides, start, mirrored))).collect()
}

/// Returns the steps of one copy, in which the dimensions take turns until each has made all of its own.
fn turns(sides: &[usize], start: usize, mirrored: bool) -> Targets {
    let of_dimension: Vec<Targets> = (0..sides.len()).map(|dimension| along(sides, dimension, mirrored)).collect();
    let rounds = of_dimension.iter().map(Vec::len).max().unwrap_or(0);
    let turns = (0..rounds).flat_map(|round| (0..sides.len()).map(move |turn| (round, (start + turn) % sides.len())));
    turns.filter_map(|(round, dimension)| of_dimension[dimension].get(round).cloned()).collect()
}

/// Returns Swing's steps along one dimension of a torus, for all of its cells.
fn along(sides: &[usize], dimension: usize, mirrored: bool) -> Targets {
    let (side, stride) = (sides[dimension], sides[dimension + 1..].iter().product::<usize>());
    let cells: usize = sides.iter().product();
    // The mirror image of a ring turns around the rank 0, which stays where it is.
    let image = |at: usize| if mirrored { (side - at) % side } else { at };
    let target = |cell: usize, targets: &[usize]| {
        let at = cell / stride % side;
        cell - at * stride + image(targets[image(at)]) * stride
    };
    swinging(side).iter().map(|targets| (0..cells).map(|cell| target(cell, targets)).collect()).collect()
}
