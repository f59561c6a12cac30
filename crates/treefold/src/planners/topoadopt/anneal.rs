//! Simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983) over rooted spanning trees and their shares.
//!
//! A tree is a parent and a cable for every rank. A move costs one evaluation: O(trees x ranks). The number of moves
//! grows with trees and cables, and is limited by the work, so that planning takes about a second at most.

use super::Cable;
use crate::random::Random;
use crate::topology::NodeId;

/// The moves for each tree and cable, as long as the work permits.
const MOVES: usize = 400;
/// The most ranks that all evaluations together visit.
const WORK: usize = 100_000_000;
/// The temperature at the start, as a part of the time then.
const FIRST_TEMPERATURE: f64 = 0.05;
/// The temperature at the end, as a part of the time at the start.
const LAST_TEMPERATURE: f64 = 0.0005;

/// A rooted spanning tree.
#[derive(Clone)]
pub(super) struct Tree {
    pub root: NodeId,
    /// The parent of each rank but the root, and the cable to it.
    pub above: Vec<Option<Above>>,
}

/// The parent of a rank, and the number of the cable to it.
#[derive(Clone, Copy)]
pub(super) struct Above {
    pub parent: NodeId,
    pub cable: u32,
}

/// Trees, and the part of the vector that each carries.
#[derive(Clone)]
pub(super) struct Solution {
    pub trees: Vec<Tree>,
    pub shares: Vec<f64>,
}

/// Returns the best solution that annealing from `start` meets.
pub(super) fn anneal(cables: &[Cable], start: Solution, random: &mut Random) -> Solution {
    let (mut best, mut here) = (start.clone(), start);
    let ranks = here.trees[0].above.len();
    if ranks < 2 {
        return best;
    }
    let mut clock = Clock::new(ranks, cables);
    let first = clock.seconds(&here);
    let (mut least, mut time) = (first, first);
    let moves = (MOVES * here.trees.len() * cables.len()).min(WORK / (here.trees.len() * ranks));
    for number in 0..moves {
        let done = number as f64 / moves as f64;
        let temperature = first * FIRST_TEMPERATURE * (LAST_TEMPERATURE / FIRST_TEMPERATURE).powf(done);
        let undo = here.step(cables, random);
        let after = clock.seconds(&here);
        if after <= time || random.unit() < ((time - after) / temperature).exp() {
            time = after;
            if time < least {
                least = time;
                best = here.clone();
            }
        } else {
            here.undo(undo);
        }
    }
    best
}

/// The state that a move has replaced.
enum Undo {
    /// A tree.
    Tree(usize, Tree),
    /// The share that moved from the first of these trees to the second.
    Shares(usize, usize, f64),
}

impl Solution {
    /// Returns equal shares over random spanning trees with random roots.
    pub fn random(ranks: u32, cables: &[Cable], trees: usize, random: &mut Random) -> Self {
        let trees: Vec<Tree> = (0..trees).map(|_| Tree::random(ranks, cables, random)).collect();
        Self { shares: vec![1.0 / trees.len() as f64; trees.len()], trees }
    }

    /// Makes a random move: mostly another edge, sometimes another root, or a share from one tree to another.
    fn step(&mut self, cables: &[Cable], random: &mut Random) -> Undo {
        let count = self.trees.len() as u64;
        let tree = random.below(count) as usize;
        let kind = random.below(10);
        if kind < 3 && count > 1 {
            let other = (tree + 1 + random.below(count - 1) as usize) % self.trees.len();
            let moved = self.shares[tree] * if kind == 0 { 1.0 } else { 0.3 * random.unit() };
            self.shares[tree] -= moved;
            self.shares[other] += moved;
            return Undo::Shares(tree, other, moved);
        }
        let before = self.trees[tree].clone();
        match kind {
            3 => self.trees[tree].reroot(NodeId(random.below(before.above.len() as u64) as u32)),
            _ => self.trees[tree].exchange(cables, random),
        }
        Undo::Tree(tree, before)
    }

    fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Tree(tree, before) => self.trees[tree] = before,
            Undo::Shares(tree, other, moved) => {
                self.shares[tree] += moved;
                self.shares[other] -= moved;
            }
        }
    }
}

impl Tree {
    /// Joins parts that are not joined yet by cables in random order.
    fn random(ranks: u32, cables: &[Cable], random: &mut Random) -> Self {
        let mut order: Vec<u32> = (0..cables.len() as u32).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last as u64 + 1) as usize);
        }
        // Each part is a tree of its own; the part of the second end is hung below the first.
        let mut tree = Self { root: NodeId(0), above: vec![None; ranks as usize] };
        for cable in order {
            let [a, b] = cables[cable as usize].ends;
            if tree.top(a) != tree.top(b) {
                tree.turn(b, None);
                tree.above[b] = Some(Above { parent: a, cable });
            }
        }
        tree.root = tree.top(NodeId(0));
        tree.reroot(NodeId(random.below(ranks.into()) as u32));
        tree
    }

    /// Returns the top of the tree that `rank` is in.
    fn top(&self, mut rank: NodeId) -> NodeId {
        while let Some(Above { parent, .. }) = self.above[rank] {
            rank = parent;
        }
        rank
    }

    /// Makes `rank` the top of everything from it up to `last`, or to the end.
    fn turn(&mut self, rank: NodeId, last: Option<NodeId>) {
        let (mut below, mut at) = (None, rank);
        while let Some(Above { parent, cable }) = std::mem::replace(&mut self.above[at], below) {
            if Some(at) == last {
                return;
            }
            (below, at) = (Some(Above { parent: at, cable }), parent);
        }
    }

    fn reroot(&mut self, root: NodeId) {
        self.turn(root, None);
        self.root = root;
    }

    /// Replaces a random edge of the cycle that a random cable closes by that cable; the root stays.
    fn exchange(&mut self, cables: &[Cable], random: &mut Random) {
        let cable = random.below(cables.len() as u64) as u32;
        let [mut low, mut high] = cables[cable as usize].ends;
        if random.below(2) == 0 {
            (low, high) = (high, low);
        }
        let mut route = self.path_below(low, high);
        if route.is_empty() {
            (low, high) = (high, low);
            route = self.path_below(low, high);
        }
        let cut = route[random.below(route.len() as u64) as usize];
        self.turn(low, Some(cut));
        self.above[low] = Some(Above { parent: high, cable });
    }

    /// Returns the ranks from `low` upwards that are not above `high` or at it.
    fn path_below(&self, low: NodeId, high: NodeId) -> Vec<NodeId> {
        let up = |from: NodeId| std::iter::successors(Some(from), |&at| Some(self.above[at]?.parent));
        let above: Vec<NodeId> = up(high).collect();
        up(low).take_while(|rank| !above.contains(rank)).collect()
    }
}

/// Predicts completion times; it keeps its memory between uses.
struct Clock<'a> {
    cables: &'a [Cable],
    /// The seconds that a hop over each cable takes, there and back.
    hop: Vec<f64>,
    /// The seconds from the root to each rank; NaN while they are unknown.
    far: Vec<f64>,
    route: Vec<NodeId>,
}

impl<'a> Clock<'a> {
    fn new(ranks: usize, cables: &'a [Cable]) -> Self {
        Self { cables, hop: vec![0.0; cables.len()], far: vec![0.0; ranks], route: Vec::new() }
    }

    /// Returns the seconds until the last tree is done: those of its longest route, on which every hop takes the
    /// cable's delay and as long as the shares of all trees need there. That is the analytic simulator's time of a
    /// stream in one chunk, if latencies are equal in both directions.
    fn seconds(&mut self, solution: &Solution) -> f64 {
        self.hop.iter_mut().zip(self.cables).for_each(|(hop, cable)| *hop = cable.delay);
        for (tree, share) in solution.trees.iter().zip(&solution.shares) {
            for &Above { cable, .. } in tree.above.iter().flatten() {
                self.hop[cable as usize] += share * self.cables[cable as usize].drain;
            }
        }
        let trees = solution.trees.iter().zip(&solution.shares).filter(|(_, share)| **share > 0.0);
        trees.map(|(tree, _)| self.longest(tree)).fold(0.0, f64::max)
    }

    fn longest(&mut self, tree: &Tree) -> f64 {
        self.far.fill(f64::NAN);
        self.far[tree.root] = 0.0;
        let mut longest = 0.0f64;
        for rank in NodeId::first(tree.above.len()) {
            let mut at = rank;
            while self.far[at].is_nan() {
                self.route.push(at);
                at = tree.above[at].expect("only the root has no parent").parent;
            }
            let mut far = self.far[at];
            while let Some(rank) = self.route.pop() {
                let Above { cable, .. } = tree.above[rank].expect("the root's delay is known");
                far += self.hop[cable as usize];
                self.far[rank] = far;
            }
            longest = longest.max(far);
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bytes, cables};
    use super::*;
    use crate::topology::from_spec;

    /// Asserts that every rank but the root leads to the root, over cables that join it with its parent.
    fn assert_spans(tree: &Tree, cables: &[Cable]) {
        for rank in NodeId::first(tree.above.len()) {
            assert_eq!(tree.top(rank), tree.root);
            let Some(Above { parent, cable }) = tree.above[rank] else { continue };
            let ends = cables[cable as usize].ends;
            assert!(ends == [rank, parent] || ends == [parent, rank]);
        }
    }

    #[test]
    fn moves_keep_trees_spanning_and_can_be_undone() {
        let topology = from_spec("b4:skew=0.9", None, None).unwrap();
        let cables = cables(&topology, Bytes::known(1 << 30)).unwrap();
        let mut random = Random::new(7);
        let mut solution = Solution::random(topology.ranks(), &cables, 3, &mut random);
        let mut clock = Clock::new(12, &cables);
        for _ in 0..2000 {
            let before = clock.seconds(&solution);
            let undo = solution.step(&cables, &mut random);
            solution.trees.iter().for_each(|tree| assert_spans(tree, &cables));
            assert!((solution.shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            if random.below(2) == 0 {
                solution.undo(undo);
                assert!((clock.seconds(&solution) - before).abs() < 1e-9 * before);
            }
        }
    }

    #[test]
    fn annealing_is_better_than_its_start() {
        for spec in ["b4", "b4:skew=0.9", "equinix-like:skew=0.5", "idn-like", "mesh:4x4", "ring:5"] {
            let topology = from_spec(spec, None, None).unwrap();
            let cables = cables(&topology, Bytes::known(1 << 30)).unwrap();
            let mut random = Random::new(1);
            let start = Solution::random(topology.ranks(), &cables, 4, &mut random);
            let best = anneal(&cables, start.clone(), &mut random);
            let mut clock = Clock::new(topology.ranks() as usize, &cables);
            let (before, after) = (clock.seconds(&start), clock.seconds(&best));
            assert!(after < 0.8 * before, "{spec}: {before} s at the start, {after} s at the end");
            best.trees.iter().for_each(|tree| assert_spans(tree, &cables));
        }
    }
}
