//! The best rates of at most K trees, none below a least rate: MTree's program (1), and Blink's fewest trees.
//!
//! A branch and bound, best bound first: in the linear program of a node, tree i may carry x of the most M that it
//! could carry alone, and counts as x / M of a tree; a branch takes or leaves the tree that counts most. In each node
//! the trees that carry most are tried alone. Then single trees are exchanged as long as that is better. Cost: a linear
//! program for each node and each try, with a limit on the work of all.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::corner::NOTHING;
use super::{Columns, Scaled, total};
use crate::error::Result;
use crate::linear::Dictionary;
use crate::planners::{Listener, tell};

/// A choice this close to the best is good enough, and that close if it was found without a search.
const NEAR: f64 = 0.005;
pub(in crate::planners) const GAP: f64 = 0.01;
/// The most entries of tables that are computed.
const MOST_WORK: usize = 1 << 29;
/// What a program costs before the first pivot, for each of its entries.
const OF_A_TRY: usize = 16;
/// A part of the least rate that is no rounding error.
const WHOLE: f64 = 1.0 - 1e-9;

/// Rates of the chosen trees, and a bound on their sum for any choice, in bytes a second.
pub(in crate::planners) struct Chosen {
    pub rates: Vec<f64>,
    pub bound: f64,
}

/// What is searched for.
#[derive(Clone, Copy)]
enum Goal {
    /// The largest sum of rates.
    Most,
    /// Any choice with this sum of rates.
    AtLeast(f64),
}

impl Columns {
    /// Chooses trees with the largest sum of rates within the limits. `start` is a choice.
    pub fn choose(&self, limits: Limits, start: Vec<f64>, listener: Listener) -> Result<Chosen> {
        self.choose_within(limits, start, &mut Work { done: 0, listener })
    }

    fn choose_within(&self, limits: Limits, start: Vec<f64>, work: &mut Work) -> Result<Chosen> {
        let mut search = Search::new(self, limits, Goal::Most, start);
        search.improve(work)?;
        search.branch(work)?;
        search.improve(work)?;
        Ok(search.chosen())
    }

    /// Chooses the fewest trees that carry `rate` together; `start` carries as much. Returns the best rates of so many,
    /// and the least number of trees that may suffice.
    pub fn fewest(&self, rate: f64, start: Vec<f64>, listener: Listener) -> Result<(Vec<f64>, usize)> {
        let count = |rates: &[f64]| rates.iter().filter(|&&rate| rate > 0.0).count();
        let (mut best, mut least) = (start, 1);
        let mut work = Work { done: 0, listener };
        while count(&best) > least {
            let most = count(&best) - 1;
            let start = self.trimmed(most, 0.0);
            let mut search =
                Search::new(self, Limits { most_trees: most, least_rate: 0.0 }, Goal::AtLeast(rate), start);
            search.branch(&mut work)?;
            let Chosen { rates, bound } = search.chosen();
            if total(&rates) < rate {
                let refuted =
                    |trees: &usize| *trees <= most && (bound < rate || self.relaxed(*trees, &mut work) < rate);
                least = 1 + (1..).take_while(refuted).count();
                break;
            }
            best = rates;
        }
        let limits = Limits { most_trees: count(&best), least_rate: 0.0 };
        Ok((self.choose_within(limits, best, &mut work)?.rates, least))
    }

    /// Returns a bound on the sum of the rates of so many trees.
    fn relaxed(&self, most_trees: usize, work: &mut Work) -> f64 {
        let limits = Limits { most_trees, least_rate: 0.0 };
        let search = Search::new(self, limits, Goal::Most, vec![0.0; self.len()]);
        search.solve(&vec![State::Free; self.len()], work).map_or(0.0, |node| node.bound)
    }
}

/// What a choice has to keep: the most trees, and the least rate of each, in bytes a second.
#[derive(Clone, Copy)]
pub(in crate::planners) struct Limits {
    pub most_trees: usize,
    pub least_rate: f64,
}

/// The entries of tables that were computed, and who is told that the work goes on.
struct Work<'a> {
    done: usize,
    listener: Listener<'a>,
}

impl Work<'_> {
    fn goes_on(&mut self) -> Result<bool> {
        tell(self.listener, "choosing trees")?;
        Ok(self.done < MOST_WORK)
    }
}

/// Whether a tree is among the chosen ones.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Free,
    Taken,
    Left,
}

/// A part of all choices: what is known of the trees, the bound on their sum, and how far each counts.
struct Node {
    states: Vec<State>,
    bound: f64,
    counts: Vec<f64>,
    rates: Vec<f64>,
}

struct Search<'a> {
    columns: &'a Columns,
    program: Scaled,
    limits: Limits,
    goal: Goal,
    best: Vec<f64>,
    /// The largest bound of a part that is not searched any more.
    bound: f64,
}

impl<'a> Search<'a> {
    fn new(columns: &'a Columns, limits: Limits, goal: Goal, start: Vec<f64>) -> Self {
        Self { columns, program: Scaled::new(columns), limits, goal, best: start, bound: 0.0 }
    }

    fn chosen(self) -> Chosen {
        let bound = self.bound.max(total(&self.best));
        Chosen { rates: self.best, bound }
    }

    /// Returns whether a part with this bound may hold what is searched for.
    fn is_worth(&self, bound: f64) -> bool {
        match self.goal {
            Goal::Most => bound > total(&self.best) * (1.0 + NEAR),
            Goal::AtLeast(rate) => total(&self.best) < rate && bound >= rate * (1.0 - 1e-9),
        }
    }

    /// Searches the parts of all choices, those with the largest bounds first.
    fn branch(&mut self, work: &mut Work) -> Result<()> {
        let usable = |&alone: &f64| if alone < self.limits.least_rate * WHOLE { State::Left } else { State::Free };
        let states = self.program.alone.iter().map(usable).collect::<Vec<State>>();
        let mut open: BinaryHeap<Node> = self.solve(&states, work).into_iter().collect();
        while let Some(node) = open.pop() {
            if !self.is_worth(node.bound) || !work.goes_on()? {
                // All other parts have smaller bounds.
                self.bound = node.bound;
                break;
            }
            self.round(&node, work);
            let counting = (0..self.columns.len()).filter(|&tree| node.states[tree] == State::Free);
            let counting = counting.filter(|&tree| node.counts[tree] > NOTHING);
            let Some(tree) = counting.max_by(|&a, &b| node.counts[a].total_cmp(&node.counts[b])) else {
                self.take(node.rates); // only taken trees carry anything, and all of them enough
                continue;
            };
            for state in [State::Taken, State::Left] {
                let mut states = node.states.clone();
                states[tree] = state;
                open.extend(self.solve(&states, work));
            }
        }
        Ok(())
    }

    /// Solves the linear program of a part; `None` if there is no choice in it.
    fn solve(&self, states: &[State], work: &mut Work) -> Option<Node> {
        let scale = self.program.scale;
        let least = self.limits.least_rate / scale;
        let taken = states.iter().filter(|state| **state == State::Taken).count();
        let trees: Vec<usize> = (0..states.len()).filter(|&tree| states[tree] != State::Left).collect();
        let count_row = self.program.rows();
        let mut sides = vec![1.0; count_row + 1];
        sides[count_row] = self.limits.most_trees.checked_sub(taken)? as f64;
        let mut columns = Vec::with_capacity(trees.len());
        for &tree in &trees {
            let mut column = self.program.columns[tree].clone();
            if states[tree] == State::Taken {
                column.iter().for_each(|&(row, factor)| sides[row] -= least * factor);
            } else {
                column.push((count_row, scale / self.program.alone[tree]));
            }
            columns.push(column);
        }
        if sides.iter().any(|&side| side < -1e-9) {
            return None;
        }
        sides.iter_mut().for_each(|side| *side = side.max(0.0));
        let mut dictionary = Dictionary::new(&sides, &columns, &vec![1.0; columns.len()]);
        work.done += OF_A_TRY * columns.iter().map(Vec::len).sum::<usize>() + dictionary.solve() * dictionary.size();
        let (mut rates, mut counts) = (vec![0.0; states.len()], vec![0.0; states.len()]);
        for (&tree, value) in trees.iter().zip(dictionary.values()) {
            let least = if states[tree] == State::Taken { self.limits.least_rate } else { 0.0 };
            rates[tree] = value * scale + least;
            counts[tree] = rates[tree] / self.program.alone[tree];
        }
        Some(Node { states: states.to_vec(), bound: total(&rates), counts, rates })
    }

    /// Tries the trees alone that carry most in a part.
    fn round(&mut self, node: &Node, work: &mut Work) {
        let weight = |tree: usize| (node.states[tree] == State::Taken, node.rates[tree]);
        let mut trees: Vec<usize> = (0..self.columns.len()).filter(|&tree| node.rates[tree] > 0.0).collect();
        trees.sort_by(|&a, &b| weight(b).partial_cmp(&weight(a)).unwrap_or(Ordering::Equal));
        trees.truncate(self.limits.most_trees);
        self.consider(&trees, work);
    }

    /// Exchanges single trees of the best choice as long as that is better.
    fn improve(&mut self, work: &mut Work) -> Result<()> {
        let count = self.columns.len();
        let (mut next, mut idle) = (0, if count > self.limits.most_trees { 0 } else { count });
        while idle < count && work.goes_on()? {
            idle = if self.exchange(next, work) { 0 } else { idle + 1 };
            next = (next + 1) % count;
        }
        Ok(())
    }

    /// Puts a tree in the place of a chosen one, if that is better.
    fn exchange(&mut self, tree: usize, work: &mut Work) -> bool {
        let chosen: Vec<usize> = (0..self.best.len()).filter(|&tree| self.best[tree] > 0.0).collect();
        let in_place_of = |place: usize| {
            let mut trees = chosen.clone();
            trees[place] = tree;
            trees
        };
        !chosen.contains(&tree) && (0..chosen.len()).any(|place| self.consider(&in_place_of(place), work))
    }

    /// Takes the best rates of some trees if they are the best so far; returns whether they are. Trees that would carry
    /// less than the least rate are left out, or carry just as much as that.
    fn consider(&mut self, trees: &[usize], work: &mut Work) -> bool {
        let part = self.columns.select(trees);
        work.done += OF_A_TRY * trees.len() * (trees.len() + self.program.columns.first().map_or(0, Vec::len));
        let mut rates = vec![0.0; self.columns.len()];
        let trimmed = part.trimmed(self.limits.most_trees, self.limits.least_rate);
        trees.iter().zip(trimmed).for_each(|(&tree, rate)| rates[tree] = rate);
        let is_better = self.take(rates);
        if self.limits.least_rate == 0.0 {
            return is_better;
        }
        let mut states = vec![State::Left; self.columns.len()];
        trees.iter().for_each(|&tree| states[tree] = State::Taken);
        let held = self.solve(&states, work);
        held.is_some_and(|node| self.take(node.rates)) || is_better
    }

    /// Takes rates that keep the limits, if they are the best so far; returns whether they are.
    fn take(&mut self, rates: Vec<f64>) -> bool {
        let nothing = NOTHING * self.program.scale;
        let rates =
            self.columns.fitted(rates.into_iter().map(|rate| if rate > nothing { rate } else { 0.0 }).collect());
        let is_better = total(&rates) > total(&self.best) * (1.0 + 1e-6);
        if is_better {
            self.best = rates;
        }
        is_better
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Node {}

impl PartialOrd for Node {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Node {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bound.total_cmp(&other.bound)
    }
}
