//! Packing programs whose columns are long: `maximise gain x` where `A x <= 1` and `x >= 0`, and nothing in A is
//! negative. An interior-point method (Mehrotra 1992) that may begin where it ended before, and end early.
//!
//! Every step solves `(A D A' + E) y = b` with diagonal D and E. Where each column uses a good part of the rows, that
//! matrix is full, so it is factorised as a full one (Cholesky), in blocks that stay in registers; methods for sparse
//! matrices look in vain for zeros. All points keep to all rows, and their prices cover all gains: wherever the method
//! ends, the sum of prices is a bound on the optimum. Its points stay away from corners, which is what column
//! generation needs: prices of a rough solution in the middle are better than exact ones at a corner (Gondzio,
//! Gonzalez-Brevis and Munari 2013: New developments in the primal-dual column generation technique).
//!
//! Cost: m^3 / 6 multiplications a step for m rows, and half the squares of the lengths of columns: some 50 ms for 600
//! rows and as many columns. 10 to 20 steps, a few from a solution of most columns.

use super::cholesky::Factor;

/// The most steps.
const MOST_STEPS: usize = 60;
/// The part of the way to the nearest limit that a step goes.
const STEP: f64 = 0.99;
/// A step that goes less far than this was made too far from the middle, where a step towards it comes first.
const SHORT: f64 = 0.1;
/// A step that goes less far than this leads nowhere.
const NONE: f64 = 1e-6;
/// The room that a start leaves below each row, and above each gain, as a part of it.
const ROOM: f64 = 1e-3;

/// A program: the entries (row, factor) of each column, at least one, in rising order of rows, and what each column
/// gains.
pub(crate) struct Full<'a> {
    pub rows: usize,
    pub columns: &'a [Vec<(usize, f64)>],
    pub gains: &'a [f64],
}

/// What each column carries, and what each row costs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Point {
    pub values: Vec<f64>,
    pub prices: Vec<f64>,
}

/// A point with the room in each row, and what each column costs above its gain. Directions have the same form.
#[derive(Clone, Default)]
struct Inner {
    values: Vec<f64>,
    room: Vec<f64>,
    prices: Vec<f64>,
    excess: Vec<f64>,
}

impl Full<'_> {
    /// Returns a point whose gains are within a part `gap` of the optimum. It starts near `from`, whose prices may be
    /// too low, and in which values may be missing.
    pub fn solve(&self, from: &Point, gap: f64) -> Point {
        let mut at = self.start(from);
        for _ in 0..MOST_STEPS {
            if at.products() <= gap * at.prices.iter().sum::<f64>() {
                break;
            }
            let Some(next) = self.step(&at) else { break };
            at = next;
        }
        Point { values: at.values, prices: at.prices }
    }

    /// Returns a point inside of all limits.
    fn start(&self, from: &Point) -> Inner {
        let mut prices = if from.prices.is_empty() { vec![1.0; self.rows] } else { from.prices.clone() };
        let mean = prices.iter().sum::<f64>() / self.rows as f64;
        prices.iter_mut().for_each(|price| *price = price.max(ROOM * mean));
        let costs = self.costs(&prices);
        let raise = self.gains.iter().zip(&costs).map(|(gain, cost)| gain / cost).fold(0.0, f64::max) * (1.0 + ROOM);
        prices.iter_mut().for_each(|price| *price *= raise);
        let excess: Vec<f64> = costs.iter().zip(self.gains).map(|(cost, gain)| cost * raise - gain).collect();
        // What is missing gets as much as lies in the middle between the two limits.
        let worth = prices.iter().sum::<f64>();
        let middle = ROOM * worth / (self.rows + self.columns.len()) as f64;
        let mut values: Vec<f64> = excess.iter().map(|excess| middle / excess).collect();
        values.iter_mut().zip(&from.values).for_each(|(value, &before)| *value = value.max(before));
        let most = self.loads(&values).into_iter().fold(0.0, f64::max) * (1.0 + ROOM);
        values.iter_mut().for_each(|value| *value /= most);
        let room = self.loads(&values).into_iter().map(|load| 1.0 - load).collect();
        Inner { values, room, prices, excess }
    }

    /// Makes a step; `None` if rounding errors leave no way to go.
    fn step(&self, at: &Inner) -> Option<Inner> {
        let factor = Factor::new(self.matrix(at), self.rows);
        let count = (self.rows + self.columns.len()) as f64;
        let mean = at.products() / count;
        let straight = self.direction(&factor, at, &Inner::default(), 0.0);
        let reached = at.moved(&straight, 1.0).0.products() / count;
        let centred = self.direction(&factor, at, &straight, mean * (reached / mean).powi(3));
        let (next, far) = at.moved(&centred, STEP);
        let (next, far) = if far >= SHORT {
            (next, far)
        } else {
            at.moved(&self.direction(&factor, at, &Inner::default(), mean / 2.0), STEP)
        };
        (far >= NONE && next.products().is_finite()).then_some(next)
    }

    /// Returns the full matrix of a step, of which only the part below the diagonal counts.
    fn matrix(&self, at: &Inner) -> Vec<f64> {
        let rows = self.rows;
        let mut matrix = vec![0.0; rows * rows];
        for row in 0..rows {
            matrix[row * rows + row] = at.room[row] / at.prices[row];
        }
        for (column, (value, excess)) in self.columns.iter().zip(at.values.iter().zip(&at.excess)) {
            for (place, &(row, factor)) in column.iter().enumerate() {
                let (weight, line) = (factor * value / excess, &mut matrix[row * rows..][..rows]);
                column[..=place].iter().for_each(|&(other, factor)| line[other] += weight * factor);
            }
        }
        matrix
    }

    /// Returns the direction in which all products come to `target`; `known` is what of the second order is known.
    fn direction(&self, factor: &Factor, at: &Inner, known: &Inner, target: f64) -> Inner {
        let second = |a: &[f64], b: &[f64], place: usize| a.get(place).map_or(0.0, |a| a * b[place]);
        let of_columns: Vec<f64> = (0..self.columns.len())
            .map(|j| target - at.values[j] * at.excess[j] - second(&known.values, &known.excess, j))
            .collect();
        let of_rows: Vec<f64> = (0..self.rows)
            .map(|i| target - at.room[i] * at.prices[i] - second(&known.room, &known.prices, i))
            .collect();
        let parts: Vec<f64> = of_columns.iter().zip(&at.excess).map(|(part, excess)| part / excess).collect();
        let mut prices = self.loads(&parts);
        prices.iter_mut().enumerate().for_each(|(row, price)| *price += of_rows[row] / at.prices[row]);
        factor.solve(&mut prices);
        let excess = self.costs(&prices);
        let values: Vec<f64> =
            (0..excess.len()).map(|j| (of_columns[j] - at.values[j] * excess[j]) / at.excess[j]).collect();
        let room = self.loads(&values).into_iter().map(|load| -load).collect();
        Inner { values, room, prices, excess }
    }

    /// Returns what each row carries.
    fn loads(&self, values: &[f64]) -> Vec<f64> {
        let mut loads = vec![0.0; self.rows];
        for (column, value) in self.columns.iter().zip(values) {
            column.iter().for_each(|&(row, factor)| loads[row] += factor * value);
        }
        loads
    }

    /// Returns what each column costs.
    fn costs(&self, prices: &[f64]) -> Vec<f64> {
        self.columns.iter().map(|column| column.iter().map(|&(row, factor)| factor * prices[row]).sum()).collect()
    }
}

impl Inner {
    /// Returns the sum of all products of a value and its excess, and of a room and its price, which is how far the
    /// gains are from the sum of prices.
    fn products(&self) -> f64 {
        let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        sum(&self.values, &self.excess) + sum(&self.room, &self.prices)
    }

    /// Goes this part of the way to the nearest limit, values and prices each on their own, and at most the whole step.
    /// Returns also the shorter of both.
    fn moved(&self, by: &Self, part: f64) -> (Self, f64) {
        let far = |from: &[f64], by: &[f64]| {
            let limits = from.iter().zip(by).filter(|(_, by)| **by < 0.0).map(|(from, by)| from / -by);
            limits.fold(f64::INFINITY, f64::min)
        };
        let of_values = (part * far(&self.values, &by.values).min(far(&self.room, &by.room))).min(1.0);
        let of_prices = (part * far(&self.prices, &by.prices).min(far(&self.excess, &by.excess))).min(1.0);
        let along =
            |from: &[f64], by: &[f64], part: f64| from.iter().zip(by).map(|(from, by)| from + part * by).collect();
        let moved = Self {
            values: along(&self.values, &by.values, of_values),
            room: along(&self.room, &by.room, of_values),
            prices: along(&self.prices, &by.prices, of_prices),
            excess: along(&self.excess, &by.excess, of_prices),
        };
        (moved, of_values.min(of_prices))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::{Program, Row};
    use crate::random::Random;

    /// Random columns, of which some are alike, with factors that differ by up to `apart`.
    fn columns(random: &mut Random, rows: usize, count: usize, apart: f64) -> Vec<Vec<(usize, f64)>> {
        let factor: Vec<f64> = (0..rows).map(|_| apart.powf(random.unit())).collect();
        let mut column = || {
            let must = random.below(rows as u64) as usize;
            let uses = (0..rows).filter(|&row| row == must || random.below(3) == 0).collect::<Vec<_>>();
            uses.into_iter().map(|row| (row, factor[row] * (1 + random.below(2)) as f64)).collect()
        };
        (0..count).map(|_| column()).collect()
    }

    fn exact(rows: usize, columns: &[Vec<(usize, f64)>], gains: &[f64]) -> f64 {
        let mut of_rows = vec![Row { lower: f64::NEG_INFINITY, upper: 1.0, entries: Vec::new() }; rows];
        for (column, entries) in columns.iter().enumerate() {
            entries.iter().for_each(|&(row, factor)| of_rows[row].entries.push((column, factor)));
        }
        let cost = gains.iter().map(|gain| -gain).collect();
        let values = Program { cost, most: vec![f64::INFINITY; gains.len()], rows: of_rows }.solve().values;
        values.iter().zip(gains).map(|(value, gain)| value * gain).sum()
    }

    /// Every point keeps to its rows, covers all gains, and lies within its gap, from wherever it started.
    #[test]
    fn points_are_as_near_as_they_have_to_be() {
        let mut random = Random::new(1);
        for (rows, count, apart) in [(1, 1, 1.0), (1, 7, 1.0), (5, 2, 10.0), (9, 30, 1e4), (40, 60, 100.0)] {
            for _ in 0..20 {
                let columns = columns(&mut random, rows, count, apart);
                let gains: Vec<f64> = (0..count).map(|_| 1.0 + 1e-3 * random.unit()).collect();
                let best = exact(rows, &columns, &gains);
                let fewer = count.div_ceil(2);
                let first = Full { rows, columns: &columns[..fewer], gains: &gains[..fewer] };
                let program = Full { rows, columns: &columns, gains: &gains };
                for (start, gap) in [(1e-2, 1e-3), (1e-9, 1e-9), (1e-3, 1e-9)] {
                    let point = program.solve(&first.solve(&Point::default(), start), gap);
                    let of: f64 = point.values.iter().zip(&gains).map(|(value, gain)| value * gain).sum();
                    let worth: f64 = point.prices.iter().sum();
                    let case = format!("{rows} rows, {count} columns, {apart}, {gap}: {of} {worth} {best}");
                    assert!((1.0 - of / worth) <= gap + 1e-12 && of <= best * (1.0 + 1e-7), "{case}");
                    assert!(worth >= best * (1.0 - 1e-7), "{case}");
                    let is_covered = |(cost, gain): (&f64, &f64)| *cost >= gain * (1.0 - 1e-9);
                    assert!(program.costs(&point.prices).iter().zip(&gains).all(is_covered), "{case}");
                    assert!(program.loads(&point.values).iter().all(|&load| load <= 1.0 + 1e-9), "{case}");
                }
            }
        }
    }
}
