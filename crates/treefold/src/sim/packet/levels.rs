//! Levels over time: how many there are of something in each cycle, summed over windows.
//!
//! A level is kept by its changes. Each window has the sum of its changes, and what they add to the sum of the level
//! over the cycles of this window; those of the windows before it add the same to each cycle. So changes may come in
//! any order, as nodes run ahead of each other and an input ahead of another one; and a change in each of many cycles,
//! as a run of flits is, costs a step a window. When a change comes later than all windows, pairs of windows are
//! merged until it does not. All numbers are whole, so that nothing is rounded. Memory: 16 bytes a window.

use std::ops::Range;

use crate::sim::samples::{Quantity, Samples};

/// The most windows of a level; at the end there are more than half as many.
const MOST_WINDOWS: u64 = 256;

/// The changes in a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Window {
    /// Their sum.
    change: i64,
    /// What they add to the sum of the level over the window's cycles.
    sum: i64,
}

/// A number of things that changes over time.
#[derive(Debug, Clone, Default)]
pub struct Level {
    /// The logarithm of the cycles of a window.
    shift: u32,
    windows: Vec<Window>,
    /// The last cycle of a change.
    last: u64,
}

impl Level {
    /// Changes the level by `by` from cycle `at` on.
    pub fn add(&mut self, at: u64, by: i64) {
        self.add_run(at, 1, by);
    }

    /// Raises the level by 1 in these cycles.
    pub fn add_span(&mut self, cycles: Range<u64>) {
        self.add(cycles.start, 1);
        self.add(cycles.end, -1);
    }

    /// Changes the level by `by` in each of `count` cycles from `at` on.
    pub fn add_run(&mut self, mut at: u64, mut count: u64, by: i64) {
        let last = at + count - 1;
        while last >> self.shift >= MOST_WINDOWS {
            self.coarsen();
        }
        self.last = self.last.max(last);
        let place = (last >> self.shift) as usize;
        if self.windows.len() <= place {
            self.windows.resize(place + 1, Window::default());
        }
        while count > 0 {
            let place = at >> self.shift;
            let left = ((place + 1) << self.shift) - at;
            let here = count.min(left);
            let window = &mut self.windows[place as usize];
            window.change += by * here as i64;
            window.sum += by * (here * left - here * (here - 1) / 2) as i64;
            at += here;
            count -= here;
        }
    }

    /// Merges pairs of windows.
    fn coarsen(&mut self) {
        let width = 1i64 << self.shift;
        let merged = |pair: &[Window]| {
            let (first, second) = (pair[0], pair.get(1).copied().unwrap_or_default());
            Window { change: first.change + second.change, sum: first.sum + first.change * width + second.sum }
        };
        self.windows = self.windows.chunks(2).map(merged).collect();
        self.shift += 1;
    }

    /// Returns the sums of the level over each of `count` windows of 2^`shift` cycles.
    fn sums(&self, shift: u32, count: usize) -> Vec<f64> {
        let mut coarse = self.clone();
        while coarse.shift < shift {
            coarse.coarsen();
        }
        let mut level = 0;
        let windows = coarse.windows.iter().copied().chain(std::iter::repeat(Window::default()));
        let sum = |Window { change, sum }: Window| {
            let whole = (level << shift) + sum;
            level += change;
            whole as f64
        };
        windows.take(count).map(sum).collect()
    }
}

/// A condition that holds at some times: its level is 1 then, and 0 at all others.
#[derive(Debug, Clone, Default)]
pub struct Condition {
    pub level: Level,
    /// The cycle from which on it holds, as far as is known.
    from: Option<u64>,
}

impl Condition {
    /// Records that, as seen in cycle `now`, it will hold from a cycle on that is not earlier, or will not hold.
    pub fn set(&mut self, from: Option<u64>, now: u64) {
        if let (Some(old), Some(new)) = (self.from, from)
            && old <= now
            && new <= now
        {
            return;
        }
        if let Some(old) = self.from.filter(|&old| old < now) {
            self.level.add_span(old..now);
        }
        self.from = from;
    }
}

/// Returns the samples of levels, one for each item, in a trace that ends at cycle `end`.
pub fn samples(quantity: Quantity, scale: f64, end: u64, levels: &[&Level]) -> Samples {
    let mut shift = levels.iter().map(|level| level.shift).max().unwrap_or(0);
    while end.div_ceil(1 << shift) > MOST_WINDOWS {
        shift += 1;
    }
    let windows = end.div_ceil(1 << shift).max(1) as usize;
    let sampled = levels.iter().map(|level| level.last).fold(end, u64::max);
    let sums = levels.iter().flat_map(|level| level.sums(shift, windows)).collect();
    Samples { quantity, width: 1 << shift, end, sampled, scale, sums }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn sums_are_those_of_a_list_of_all_cycles() {
        let mut random = Random::new(7);
        for _ in 0..50 {
            let mut level = Level::default();
            let mut changes = vec![0i64; 5000];
            for _ in 0..40 {
                let (at, count) = (random.below(4000), 1 + random.below(900));
                level.add_run(at, count, 3);
                changes[at as usize..(at + count) as usize].iter_mut().for_each(|change| *change += 3);
            }
            let found = samples(Quantity::Buffers, 1.0, 5000, &[&level]);
            let mut now = 0;
            let levels: Vec<i64> = changes
                .iter()
                .map(|change| {
                    now += change;
                    now
                })
                .collect();
            let sums = levels.chunks(found.width as usize).map(|window| window.iter().sum::<i64>() as f64);
            // The last window reaches beyond the list.
            let last = found.windows() - 1;
            assert_eq!(found.sums[..last], sums.collect::<Vec<_>>()[..last]);
        }
    }

    #[test]
    fn a_condition_counts_the_cycles_in_which_it_holds() {
        let mut condition = Condition::default();
        condition.set(Some(5), 3);
        condition.set(None, 4);
        condition.set(Some(6), 6);
        condition.set(Some(8), 8);
        condition.set(Some(12), 10);
        condition.set(None, 15);
        let found = samples(Quantity::Credits, 1.0, 20, &[&condition.level]);
        assert_eq!(found.sums.iter().sum::<f64>(), 4.0 + 3.0, "it held from 6 to 10 and from 12 to 15");
    }
}
