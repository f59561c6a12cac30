//! Corners of packing programs, where few trees carry anything, also after trees have been closed.
//!
//! The simplex method goes from one corner to the next in a few pivots. Where its table is large, it would take long.
//! There gains are tilted at random, so that one corner is better than all others, and the interior-point method comes
//! near it.

use super::{Columns, Scaled};
use crate::linear::Dictionary;
use crate::random::Random;

/// The largest scaled rate that counts as none.
pub(super) const NOTHING: f64 = 1e-7;
/// The part by which gains of trees differ at random, where they would be equal or the simplex method would take long.
const TILT: f64 = 2e-5;
/// The largest scaled rate near a corner that counts as none.
const LITTLE: f64 = 3e-5;

/// A program that is solved at a corner.
#[derive(Clone)]
pub(super) struct Corner<'a> {
    columns: &'a Columns,
    solver: Solver,
}

#[derive(Clone)]
enum Solver {
    Simplex(Box<(Scaled, Dictionary)>),
    /// The gains of all trees, and the trees that are not closed.
    InteriorPoint(Vec<f64>, Vec<usize>),
}

impl<'a> Corner<'a> {
    /// Returns the program that maximises the sum of gains times rates.
    pub fn new(columns: &'a Columns, gains: Vec<f64>) -> Self {
        let solver = if columns.is_large() {
            Solver::InteriorPoint(tilted(gains), (0..columns.len()).collect())
        } else {
            let program = Scaled::new(columns);
            let dictionary = program.dictionary(&gains);
            Solver::Simplex(Box::new((program, dictionary)))
        };
        Self { columns, solver }
    }

    /// Returns the program that maximises the sum of rates. Where all gains are equal, the simplex method may go round
    /// and round among corners of the same rate, so they are tilted: the sum is the largest but for `TILT`.
    pub fn of_equal_gains(columns: &'a Columns) -> Self {
        let gains = vec![1.0; columns.len()];
        Self::new(columns, if columns.is_large() { gains } else { tilted(gains) })
    }

    /// Returns the best rates.
    pub fn rates(&mut self) -> Vec<f64> {
        match &mut self.solver {
            Solver::Simplex(solver) => {
                let (program, dictionary) = &mut **solver;
                dictionary.solve();
                simplex_rates(self.columns, program, dictionary)
            }
            Solver::InteriorPoint(gains, open) => {
                let rates = near_corner(self.columns, gains, open);
                // Trees that carry nothing are left out, since that saves most of the time.
                open.retain(|&tree| rates[tree] > 0.0);
                rates
            }
        }
    }

    /// Demands that these trees carry nothing.
    pub fn close(&mut self, trees: &[usize]) {
        match &mut self.solver {
            Solver::Simplex(solver) => trees.iter().for_each(|&tree| solver.1.close(tree)),
            Solver::InteriorPoint(_, open) => open.retain(|tree| !trees.contains(tree)),
        }
    }
}

/// Returns gains that differ a little at random.
fn tilted(gains: Vec<f64>) -> Vec<f64> {
    let mut random = Random::new(1);
    gains.into_iter().map(|gain| gain + TILT * random.unit()).collect()
}

/// Returns the rates at the corner of a dictionary.
pub(super) fn simplex_rates(columns: &Columns, program: &Scaled, dictionary: &Dictionary) -> Vec<f64> {
    let rate = |value: f64| if value > NOTHING { value * program.scale } else { 0.0 };
    columns.fitted(dictionary.values().into_iter().map(rate).collect())
}

/// Returns rates near the best corner of the open trees.
fn near_corner(columns: &Columns, gains: &[f64], open: &[usize]) -> Vec<f64> {
    let part = columns.select(open);
    let gains: Vec<f64> = open.iter().map(|&tree| gains[tree]).collect();
    let least = LITTLE * part.alone().into_iter().fold(0.0, f64::max);
    let mut rates = vec![0.0; columns.len()];
    for (&tree, rate) in open.iter().zip(part.interior(&gains).rates) {
        rates[tree] = if rate > least { rate } else { 0.0 };
    }
    columns.fitted(rates)
}
