//! Corners of packing programs, by the simplex method over a dictionary (Chvatal 1983): `maximise cost x` where
//! `A x <= b` and `x >= 0`, and nothing in A and b is negative.
//!
//! Nothing is sent at the start, which is feasible. The primal method takes the column that gains most along its edge
//! (steepest edge; Goldfarb and Reid 1977); after columns have been closed, the dual method (Lemke 1954) repairs what
//! that broke. Sides and gains are raised a little at random, by at most 1e-8 of themselves, because equal links make
//! many corners meet, where the methods would stand still. Cost: O(m n) a pivot for m rows and n columns, less where
//! the table is sparse; some m pivots.

use crate::random::Random;

/// The most by which a side or a gain is raised, as a part of it.
const RAISED: f64 = 1e-8;

/// The least gain for which a variable grows: with less, the method would walk long among corners that are alike.
const LEAST_GAIN: f64 = 1e-6;
/// The least factor by which a row is divided.
const LEAST_PIVOT: f64 = 1e-8;
/// The most by which the values of rows differ that limit a variable alike.
const ALIKE: f64 = 1e-10;
/// The most by which a row may be exceeded.
const VIOLATION: f64 = 1e-8;

/// A program at a corner: each basic variable as a sum over the others, which are zero.
#[derive(Clone)]
pub(crate) struct Dictionary {
    columns: usize,
    /// The factors of the variables that are zero, a row for each basic variable.
    table: Vec<f64>,
    /// The values of the basic variables.
    side: Vec<f64>,
    /// What each variable that is zero would gain.
    gain: Vec<f64>,
    /// How long the edge is along which each variable that is zero would grow, squared.
    edge: Vec<f64>,
    /// The basic variable of each row, and the other one of each column: first come the columns, then slacks of rows.
    basic: Vec<usize>,
    zero: Vec<usize>,
    /// The columns that have to be zero.
    closed: Vec<bool>,
}

impl Dictionary {
    /// Returns the program whose column `j` has these entries (row, factor), at the corner where all columns are zero.
    pub fn new(sides: &[f64], columns: &[Vec<(usize, f64)>], cost: &[f64]) -> Self {
        let (m, n) = (sides.len(), columns.len());
        let mut random = Random::new(1);
        let mut raised = |value: &f64| value * (1.0 + RAISED * random.unit());
        let (gain, side) = (cost.iter().map(&mut raised).collect(), sides.iter().map(raised).collect());
        let (mut table, mut edge) = (vec![0.0; m * n], vec![1.0; n]);
        for (column, entries) in columns.iter().enumerate() {
            for &(row, factor) in entries {
                table[row * n + column] += factor;
                edge[column] += factor * factor;
            }
        }
        let (basic, zero, closed) = ((n..n + m).collect(), (0..n).collect(), vec![false; n]);
        Self { columns: n, table, side, gain, edge, basic, zero, closed }
    }

    /// How many entries the table has, which is what a pivot costs at most.
    pub fn size(&self) -> usize {
        self.table.len()
    }

    /// Goes to the best corner; returns the number of pivots.
    pub fn solve(&mut self) -> usize {
        let most = 50 * (self.side.len() + self.columns);
        (0..most).find(|_| !self.repair() && !self.improve()).unwrap_or(most)
    }

    /// Returns the value of each column.
    pub fn values(&self) -> Vec<f64> {
        let mut values = vec![0.0; self.columns];
        for (&variable, &side) in self.basic.iter().zip(&self.side) {
            if variable < self.columns && !self.closed[variable] {
                values[variable] = side.max(0.0);
            }
        }
        values
    }

    /// Returns the price of each row.
    pub fn prices(&self) -> Vec<f64> {
        let mut prices = vec![0.0; self.side.len()];
        for (&variable, &gain) in self.zero.iter().zip(&self.gain).filter(|&(&variable, _)| variable >= self.columns) {
            prices[variable - self.columns] = (-gain).max(0.0);
        }
        prices
    }

    /// Demands that a column is zero.
    pub fn close(&mut self, column: usize) {
        self.closed[column] = true;
    }

    fn is_closed(&self, variable: usize) -> bool {
        self.closed.get(variable).is_some_and(|&closed| closed)
    }

    /// Makes a step of the primal method; returns false at the best corner.
    fn improve(&mut self) -> bool {
        let open =
            (0..self.columns).filter(|&place| self.gain[place] > LEAST_GAIN && !self.is_closed(self.zero[place]));
        let steepness = |place: usize| self.gain[place] * self.gain[place] / self.edge[place];
        let Some(entering) = open.max_by(|&a, &b| steepness(a).total_cmp(&steepness(b))) else { return false };
        let Some(leaving) = self.limiting(entering) else { return false };
        self.pivot(leaving, entering);
        true
    }

    /// Returns the row that limits the growth of the variable of a column. Of rows that limit it alike, that with the
    /// largest factor keeps rounding errors small.
    fn limiting(&self, column: usize) -> Option<usize> {
        let factor = |row: usize| self.table[row * self.columns + column];
        let room = |row: usize| self.side[row].max(0.0) / factor(row);
        let rows = || (0..self.side.len()).filter(|&row| factor(row) > LEAST_PIVOT);
        let least = rows().map(room).min_by(f64::total_cmp)?;
        let alike = rows().filter(|&row| room(row) <= least + ALIKE / factor(row));
        alike.max_by(|&a, &b| factor(a).total_cmp(&factor(b)))
    }

    /// Makes a step of the dual method; returns false if no basic variable is out of its limits.
    fn repair(&mut self) -> bool {
        let excess = |row: usize| {
            let above = if self.is_closed(self.basic[row]) { self.side[row] } else { 0.0 };
            above.max(-self.side[row])
        };
        let wrong = (0..self.side.len()).filter(|&row| excess(row) > VIOLATION);
        let Some(leaving) = wrong.max_by(|&a, &b| excess(a).total_cmp(&excess(b))) else { return false };
        let sign = self.side[leaving].signum();
        let row = &self.table[leaving * self.columns..][..self.columns];
        let ratio = |place: usize| self.gain[place].min(0.0) / (sign * row[place]);
        let able =
            (0..self.columns).filter(|&place| sign * row[place] > LEAST_PIVOT && !self.is_closed(self.zero[place]));
        // The least loss is the ratio that is nearest to zero from below.
        let Some(entering) = able.max_by(|&a, &b| ratio(a).total_cmp(&ratio(b))) else {
            // Only rounding errors lead here: nothing sent is always possible.
            self.side[leaving] = 0.0;
            return true;
        };
        self.pivot(leaving, entering);
        true
    }

    /// Exchanges the basic variable of a row for the one of a column.
    fn pivot(&mut self, leaving: usize, entering: usize) {
        let n = self.columns;
        let inverse = 1.0 / self.table[leaving * n + entering];
        let mut row: Vec<f64> = self.table[leaving * n..][..n].iter().map(|factor| factor * inverse).collect();
        let side = self.side[leaving] * inverse;
        row[entering] = inverse;
        for other in (0..self.side.len()).filter(|&other| other != leaving) {
            let entries = &mut self.table[other * n..][..n];
            let factor = std::mem::take(&mut entries[entering]);
            if factor != 0.0 {
                self.edge[entering] -= factor * factor;
                for ((entry, pivot), edge) in entries.iter_mut().zip(&row).zip(&mut self.edge) {
                    let changed = *entry - factor * pivot;
                    *edge += changed * changed - *entry * *entry;
                    *entry = changed;
                }
                self.side[other] -= factor * side;
            }
        }
        let before = &self.table[leaving * n..][..n];
        for ((edge, pivot), old) in self.edge.iter_mut().zip(&row).zip(before) {
            *edge = (*edge + pivot * pivot - old * old).max(1.0);
        }
        let gain = std::mem::take(&mut self.gain[entering]);
        self.gain.iter_mut().zip(&row).for_each(|(entry, pivot)| *entry -= gain * pivot);
        self.table[leaving * n..][..n].copy_from_slice(&row);
        self.side[leaving] = side;
        std::mem::swap(&mut self.basic[leaving], &mut self.zero[entering]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::{Program, Row};

    /// A random packing program: its columns, and its sides.
    fn random_program(random: &mut Random) -> (Vec<Vec<(usize, f64)>>, Vec<f64>) {
        let (rows, columns) = (1 + random.below(6) as usize, 1 + random.below(9) as usize);
        let mut column = || {
            let mut entries: Vec<(usize, f64)> =
                (0..rows).filter(|_| random.below(2) == 0).map(|row| (row, 1.0 + row as f64 % 2.0)).collect();
            entries.push((random.below(rows as u64) as usize, 1.0));
            entries
        };
        let columns = (0..columns).map(|_| column()).collect();
        (columns, (0..rows).map(|_| 1.0 + random.below(4) as f64).collect())
    }

    /// The best value, by the interior-point method, where some columns are closed.
    fn best(columns: &[Vec<(usize, f64)>], sides: &[f64], closed: &[usize]) -> f64 {
        let mut rows: Vec<Row> =
            sides.iter().map(|&upper| Row { lower: f64::NEG_INFINITY, upper, entries: Vec::new() }).collect();
        for (column, entries) in columns.iter().enumerate() {
            entries.iter().for_each(|&(row, factor)| rows[row].entries.push((column, factor)));
        }
        let most =
            (0..columns.len()).map(|column| if closed.contains(&column) { 0.0 } else { f64::INFINITY }).collect();
        Program { cost: vec![-1.0; columns.len()], most, rows }.solve().values.iter().sum()
    }

    #[test]
    fn corners_are_as_good_as_interior_points_also_after_columns_have_closed() {
        let mut random = Random::new(3);
        for _ in 0..300 {
            let (columns, sides) = random_program(&mut random);
            let mut dictionary = Dictionary::new(&sides, &columns, &vec![1.0; columns.len()]);
            let mut closed = Vec::new();
            for _ in 0..=columns.len() {
                dictionary.solve();
                let values = dictionary.values();
                let worth: f64 = dictionary.prices().iter().zip(&sides).map(|(price, side)| price * side).sum();
                assert!((worth - values.iter().sum::<f64>()).abs() < 1e-5 || !closed.is_empty(), "{columns:?}");
                let positive = values.iter().filter(|&&value| value > 1e-6).count();
                assert!((values.iter().sum::<f64>() - best(&columns, &sides, &closed)).abs() < 1e-5, "{columns:?}");
                assert!(positive <= sides.len() && closed.iter().all(|&column: &usize| values[column] == 0.0));
                let column = random.below(columns.len() as u64) as usize;
                dictionary.close(column);
                closed.push(column);
            }
        }
    }
}
