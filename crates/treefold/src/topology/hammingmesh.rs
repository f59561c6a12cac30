//! HammingMeshes (Hoefler et al., SC 2022): boards with a mesh of accelerators, and a switch for every row and column.

use super::builder::Builder;
use super::spec::{Defaults, Spec};
use super::{Shape, Topology};
use crate::error::Result;

/// The keys of a HammingMesh: the rows and columns of a board, and those of boards.
pub(super) const KEYS: [&str; 2] = ["board", "boards"];

/// Builds `hammingmesh:board=2x2,boards=4x4`. Accelerators are numbered row by row over all boards, as in a mesh. In
/// each row the accelerators at the left and right edge of every board have a cable to the row's switch, and in each
/// column those at the upper and lower edge to the column's, so that each accelerator has four cables.
pub(super) fn hammingmesh(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    let board = spec.sides("board", [2, 2])?;
    let boards = spec.sides("boards", [4, 4])?;
    let [rows, columns] = [0, 1].map(|along| u64::from(board[along]) * u64::from(boards[along]));
    let count = rows.saturating_mul(columns);
    spec.check_size(count.saturating_add(rows).saturating_add(columns), count.saturating_mul(8))?;
    let (rows, columns) = (rows as u32, columns as u32);
    let mut network = Builder::new(rows * columns, defaults);
    let of_rows = network.switches(rows);
    let of_columns = network.switches(columns);
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        let cell = row * columns + column;
        attach(&mut network, cell, [column % board[1], board[1]], [cell + 1, of_rows + row]);
        attach(&mut network, cell, [row % board[0], board[0]], [cell + columns, of_columns + column]);
    }
    network.finish(spec, Shape::General)
}

/// Adds the cables of a cell along one side of its board: at each edge to the switch, and otherwise to the next cell.
fn attach(network: &mut Builder, cell: u32, [at, side]: [u32; 2], [next, switch]: [u32; 2]) {
    if at == 0 {
        network.connect(cell, switch);
    }
    network.connect(cell, if at + 1 == side { switch } else { next });
}
