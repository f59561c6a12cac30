//! The Cholesky factor of a full, symmetric, positive matrix, in blocks (LAPACK's right-looking order).
//!
//! Almost all work is the update of what lies right of a block, in tiles of 4 by 4 numbers that stay in registers.
//! Cost: n^3 / 6 multiplications, at one to two a cycle.

/// How many columns are eliminated before what is right of them is updated.
const BLOCK: usize = 48;
/// The side of a tile.
const TILE: usize = 4;
/// The least pivot, as a part of the diagonal: below it, a row is a sum of others but for rounding errors, and is left
/// out.
const LEAST_PIVOT: f64 = 1e-14;
/// The pivot of a row that is left out.
const NONE: f64 = 1e64;

/// A lower triangular matrix, row by row; what is right of the diagonal has no meaning.
pub(super) struct Factor {
    rows: usize,
    entries: Vec<f64>,
}

impl Factor {
    /// Factorises a matrix, of which only the part up to the diagonal is read.
    pub fn new(matrix: Vec<f64>, rows: usize) -> Self {
        let mut factor = Self { rows, entries: matrix };
        let diagonal: Vec<f64> = (0..rows).map(|row| factor.entries[row * rows + row]).collect();
        for first in (0..rows).step_by(BLOCK) {
            let behind = (first + BLOCK).min(rows);
            for (row, &before) in diagonal.iter().enumerate().skip(first) {
                factor.eliminate(row, first, behind, before);
            }
            factor.update(first, behind);
        }
        factor
    }

    /// Computes the entries of a row in the columns of a block, whose rows above are done.
    fn eliminate(&mut self, row: usize, first: usize, behind: usize, diagonal: f64) {
        let rows = self.rows;
        let (above, below) = self.entries.split_at_mut(row * rows);
        let line = &mut below[..rows];
        for column in first..behind.min(row) {
            let other = &above[column * rows..][..rows];
            line[column] = (line[column] - dot(&line[first..column], &other[first..column])) / other[column];
        }
        if row < behind {
            let pivot = line[row] - dot(&line[first..row], &line[first..row]);
            line[row] = if pivot > LEAST_PIVOT * diagonal { pivot.sqrt() } else { NONE };
        }
    }

    /// Subtracts what a block eliminates from all rows below it, right of it.
    fn update(&mut self, first: usize, behind: usize) {
        let rows = self.rows;
        // The block's entries of four rows at a time, column by column; rows that do not exist are zero.
        let tiles: Vec<Vec<[f64; TILE]>> = (behind..rows)
            .step_by(TILE)
            .map(|row| {
                let entry = |place: usize, column: usize| {
                    if row + place < rows { self.entries[(row + place) * rows + column] } else { 0.0 }
                };
                (first..behind).map(|column| std::array::from_fn(|place| entry(place, column))).collect()
            })
            .collect();
        for (down, left) in tiles.iter().enumerate() {
            for (right, upper) in tiles[..=down].iter().enumerate() {
                let tile = product(left, upper);
                let (row, column) = (behind + down * TILE, behind + right * TILE);
                let width = TILE.min(rows - column);
                for (place, sums) in tile.iter().enumerate().take(rows - row) {
                    let line = &mut self.entries[(row + place) * rows + column..][..width];
                    line.iter_mut().zip(sums).for_each(|(entry, sum)| *entry -= sum);
                }
            }
        }
    }

    /// Solves the equations of the matrix for a right side, in place.
    pub fn solve(&self, side: &mut [f64]) {
        let line = |row: usize| &self.entries[row * self.rows..][..=row];
        for row in 0..self.rows {
            let line = line(row);
            side[row] = (side[row] - dot(&line[..row], &side[..row])) / line[row];
        }
        for row in (0..self.rows).rev() {
            let line = line(row);
            side[row] /= line[row];
            let value = side[row];
            side[..row].iter_mut().zip(line).for_each(|(entry, factor)| *entry -= factor * value);
        }
    }
}

/// Returns the sums over all columns of the products of each of four rows with each of four others.
fn product(left: &[[f64; TILE]], upper: &[[f64; TILE]]) -> [[f64; TILE]; TILE] {
    let mut sums = [[0.0; TILE]; TILE];
    for (left, upper) in left.iter().zip(upper) {
        for (sums, left) in sums.iter_mut().zip(left) {
            sums.iter_mut().zip(upper).for_each(|(sum, upper)| *sum += left * upper);
        }
    }
    sums
}

/// Returns a sum of products, in four parts.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (parts, others) = (a.chunks_exact(TILE), b.chunks_exact(TILE));
    let rest: f64 = parts.remainder().iter().zip(others.remainder()).map(|(a, b)| a * b).sum();
    let mut sums = [0.0; TILE];
    for (a, b) in parts.zip(others) {
        (0..TILE).for_each(|place| sums[place] += a[place] * b[place]);
    }
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn a_factor_solves_its_equations() {
        let mut random = Random::new(1);
        for rows in [1, 2, 5, 47, 48, 49, 131] {
            let roots: Vec<f64> = (0..rows * rows).map(|_| random.unit() - 0.5).collect();
            let entry = |a: usize, b: usize| {
                let sum: f64 = (0..rows).map(|k| roots[a * rows + k] * roots[b * rows + k]).sum();
                sum + if a == b { 0.1 } else { 0.0 }
            };
            let matrix: Vec<f64> = (0..rows * rows).map(|place| entry(place / rows, place % rows)).collect();
            let wanted: Vec<f64> = (0..rows).map(|_| random.unit()).collect();
            let mut side: Vec<f64> = matrix.chunks(rows).map(|line| dot(line, &wanted)).collect();
            Factor::new(matrix, rows).solve(&mut side);
            assert!(side.iter().zip(&wanted).all(|(a, b)| (a - b).abs() < 1e-9), "{rows}: {side:?} {wanted:?}");
        }
    }
}
