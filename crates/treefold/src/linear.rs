//! Linear programs, solved by the interior-point method of the clarabel library (Goulart and Chen 2024).
//!
//! An interior point lies in the middle of all optimal solutions, and so do its prices: column generation and cutting
//! planes do not stall there as they do at corners. Results depend on nothing but the program: the method stops after a
//! number of steps, and not after a time. Cost: some 20 factorisations of a sparse matrix with a row for each row and
//! column of the program. Packing programs whose matrices are full have a method of their own (`linear/dense.rs`).

mod cholesky;
mod dense;
mod dictionary;

pub(crate) use dense::{Full, Point};
pub(crate) use dictionary::Dictionary;

use clarabel::algebra::CscMatrix;
use clarabel::solver::{
    DefaultSettings, DefaultSettingsBuilder, DefaultSolution, DefaultSolver, IPSolver, SupportedConeT,
};

/// How near to the optimum the method stops, and how far constraints may be violated.
const TOLERANCE: f64 = 1e-9;
/// The most steps of the method, which needs some 10 to 40.
const MOST_STEPS: u32 = 200;

/// The constraint `lower <= sum of factor * column <= upper`, where one side may be infinite, or both are equal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub lower: f64,
    pub upper: f64,
    /// The columns and their factors.
    pub entries: Vec<(usize, f64)>,
}

/// Minimises `sum of cost * column` over columns that are not negative, and at most their `most`, which may be
/// infinite.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub cost: Vec<f64>,
    pub most: Vec<f64>,
    pub rows: Vec<Row>,
}

/// What the solver found. The values and prices may be inexact, or wrong where it has failed: those who use them prove
/// what they need.
#[derive(Debug, Clone)]
pub(crate) struct Solution {
    /// The value of each column, between 0 and its `most`.
    pub values: Vec<f64>,
    /// The price of each row: how much the minimum rises when the row's sides rise by 1.
    pub prices: Vec<f64>,
}

impl Program {
    /// Solves the program.
    pub fn solve(&self) -> Solution {
        let sides = self.sides();
        let solution = self.solved(&sides);
        let values = solution.x.iter().zip(&self.most).map(|(&value, &most)| number(value).clamp(0.0, most)).collect();
        let mut prices = vec![0.0; self.rows.len()];
        for ((row, sign), price) in sides.into_iter().zip(&solution.z) {
            prices[row] = -sign * number(*price);
        }
        Solution { values, prices }
    }

    /// Lists the rows and the signs with which they stand in the solver's form, equations first.
    fn sides(&self) -> Vec<(usize, f64)> {
        let equal = |row: &&(usize, &Row)| row.1.lower == row.1.upper;
        let numbered: Vec<(usize, &Row)> = self.rows.iter().enumerate().collect();
        let equations = numbered.iter().filter(equal).map(|&(number, _)| (number, 1.0));
        let others = numbered.iter().filter(|row| !equal(row));
        equations.chain(others.map(|&(number, row)| (number, if row.upper.is_finite() { 1.0 } else { -1.0 }))).collect()
    }

    /// Solves the program in the solver's form: `A x + s = b`, where s is 0 for equations, and else not negative. Below
    /// the rows stand the limits of the columns.
    fn solved(&self, sides: &[(usize, f64)]) -> DefaultSolution<f64> {
        let columns = self.cost.len();
        let (mut rows, mut at, mut values, mut limits) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut add = |entries: &[(usize, f64)], sign: f64, limit: f64| {
            for &(column, factor) in entries {
                rows.push(limits.len());
                at.push(column);
                values.push(sign * factor);
            }
            limits.push(limit);
        };
        for &(row, sign) in sides {
            let Row { lower, upper, entries } = &self.rows[row];
            add(entries, sign, if sign > 0.0 { *upper } else { -lower });
        }
        for (column, &most) in self.most.iter().enumerate() {
            add(&[(column, -1.0)], 1.0, 0.0);
            if most.is_finite() {
                add(&[(column, 1.0)], 1.0, most);
            }
        }
        let equations = self.rows.iter().filter(|row| row.lower == row.upper).count();
        let cones = [SupportedConeT::ZeroConeT(equations), SupportedConeT::NonnegativeConeT(limits.len() - equations)];
        let matrix = CscMatrix::new_from_triplets(limits.len(), columns, rows, at, values);
        let zero = CscMatrix::zeros((columns, columns));
        let mut solver = DefaultSolver::new(&zero, &self.cost, &matrix, &limits, &cones, settings())
            .expect("a program that was put together here has the right shape");
        solver.solve();
        solver.solution
    }
}

fn settings() -> DefaultSettings<f64> {
    DefaultSettingsBuilder::default()
        .verbose(false)
        .max_iter(MOST_STEPS)
        .max_threads(1)
        .tol_gap_abs(TOLERANCE)
        .tol_gap_rel(TOLERANCE)
        .tol_feas(TOLERANCE)
        .presolve_enable(false)
        .build()
        .expect("the settings are in range")
}

/// Returns a value, or 0 for what is none: where the solver fails, it may leave such behind.
fn number(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_prices_of_a_small_program() {
        // The most of x + 2 y where x + y <= 3, y <= 2, and x - y >= -1, x + y + z = 4.
        let row = |lower, upper, entries: &[(usize, f64)]| Row { lower, upper, entries: entries.to_vec() };
        let rows = vec![
            row(f64::NEG_INFINITY, 3.0, &[(0, 1.0), (1, 1.0)]),
            row(-1.0, f64::INFINITY, &[(0, 1.0), (1, -1.0)]),
            row(4.0, 4.0, &[(0, 1.0), (1, 1.0), (2, 1.0)]),
        ];
        let program = Program { cost: vec![-1.0, -2.0, 0.0], most: vec![f64::INFINITY, 2.5, f64::INFINITY], rows };
        let solution = program.solve();
        let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(near(&solution.values, &[1.0, 2.0, 1.0]), "{solution:?}");
        assert!(near(&solution.prices, &[-1.5, 0.5, 0.0]), "{solution:?}");
    }
}
