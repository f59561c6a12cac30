//! The search over numbers of chunks: the fewest rounds a chunk that any of them takes in the steps that there are.

use super::fitting::{Fitted, Timed, fit};
use crate::bound::{all_gather_rate, broadcast_rate};
use crate::planners::forest::grown::most_reached;
use crate::planners::ways::Ways;
use crate::search::BreadthFirst;
use crate::topology::{NodeId, Topology};

/// The numbers of chunks of each root that are tried.
const CHUNKS: [u32; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16];
/// How much may be searched for each number of steps, as [`Network::work`] counts it, but for what comes first.
const WORK: u64 = 40_000_000;
/// So many numbers of steps one after the other that save no rounds end the search.
const IDLE: u32 = 2;
/// Numbers of rounds that differ by less than this part are equal.
const ROUNDING: f64 = 1e-9;

/// A network with what a search wants to know of it.
pub(super) struct Network<'a> {
    pub topology: &'a Topology,
    /// The roots of the trees, each rank or only one.
    pub roots: Vec<NodeId>,
    /// The bandwidth of each link, in that of the narrowest one.
    pub slots: Vec<f64>,
    /// The rounds a chunk that cuts allow at best, if one link or the other is always busy.
    pub least: f64,
    /// How much it takes to grow a tree, for each step: about the number of ways and what it takes to find them.
    pub work: u64,
    only_root: Option<NodeId>,
}

/// The messages of all trees of one half, as those of an all-gather or a broadcast.
#[derive(Clone)]
pub(super) struct Schedule {
    /// How many chunks each root sends.
    pub chunks: u32,
    /// The last step.
    pub last: usize,
    /// The trees, chunk by chunk, root by root.
    pub trees: Vec<Vec<Timed>>,
}

impl<'a> Network<'a> {
    pub fn new(topology: &'a Topology, only_root: Option<NodeId>) -> Self {
        let bandwidths = || topology.links().iter().map(|link| link.bandwidth.bytes_per_second());
        let narrowest = bandwidths().fold(f64::INFINITY, f64::min);
        let rate = only_root.map_or_else(|| all_gather_rate(topology), |root| broadcast_rate(topology, root));
        let (ranks, links) = (u64::from(topology.ranks()), topology.links().len() as u64);
        let through_switches = if topology.is_direct() { 0 } else { 4 * ranks * ranks };
        Self {
            topology,
            roots: only_root.map_or_else(|| topology.rank_ids().collect(), |root| vec![root]),
            slots: bandwidths().map(|bandwidth| bandwidth / narrowest).collect(),
            least: narrowest / rate,
            work: links + through_switches,
            only_root,
        }
    }

    /// Returns how many ways lie between a root and the rank that is farthest from it.
    pub fn hops(&self) -> u32 {
        let mut ways = Ways::new(self.topology, true);
        ways.price(&vec![1.0; self.slots.len()]);
        let farthest = |&root: &NodeId| {
            let mut search = BreadthFirst::new(self.topology.ranks() as usize);
            search.flood(root, |rank| ways.out_of(rank).iter().map(|&(next, _)| next));
            search.hops().iter().copied().max().unwrap_or(0)
        };
        self.roots.iter().map(farthest).max().unwrap_or(0)
    }

    /// Returns the fewest rounds a chunk that are possible with so many chunks, as trees are whole.
    fn least_with(&self, chunks: u32) -> f64 {
        self.least / most_reached(self.topology, chunks, self.only_root)
    }
}

/// The best schedule so far, and how many rounds a chunk it has.
struct Best {
    rounds: f64,
    schedule: Schedule,
}

/// Returns the best schedules that are found of at most `most` steps, which must be enough to reach every rank. Each
/// has more steps than the one before, and fewer rounds. A higher limit adds schedules, and changes none.
pub(super) fn schedules(network: &Network, most: u32) -> Vec<Schedule> {
    let hops = network.hops();
    let (mut best, mut found, mut rounds, mut idle) = (None, Vec::new(), f64::INFINITY, 0);
    // With twice the steps that the farthest rank needs, data may wait as often as they travel.
    for steps in hops..=most.min(2 * hops + 2) {
        search(network, steps as usize, WORK, &mut best);
        let Best { rounds: fewest, schedule } = best.as_ref().expect("there are enough steps");
        idle += 1;
        if *fewest < rounds * (1.0 - ROUNDING) {
            found.push(schedule.clone());
            (rounds, idle) = (*fewest, 0);
        }
        if idle == IDLE || rounds <= network.least * (1.0 + ROUNDING) {
            break;
        }
    }
    found
}

/// Looks for a better schedule of so many steps. Numbers of chunks with which links can be full come first.
fn search(network: &Network, steps: usize, mut left: u64, best: &mut Option<Best>) {
    let mut candidates: Vec<(f64, u32)> = CHUNKS.iter().map(|&chunks| (network.least_with(chunks), chunks)).collect();
    candidates.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    for (least, chunks) in candidates {
        let once = network.work * (steps * network.roots.len()) as u64 * u64::from(chunks);
        if best.as_ref().is_some_and(|best| once > left || !best.is_behind(least, chunks, steps)) {
            continue;
        }
        let mut share = left / 2;
        left -= share;
        let Some(fitted) = fit(network, chunks, steps, &mut share) else { continue };
        left += share;
        let rounds = fitted.lengths.iter().sum::<f64>() / f64::from(chunks);
        let schedule = Schedule::new(chunks, fitted);
        if best.as_ref().is_none_or(|best| best.is_behind(rounds, chunks, schedule.last)) {
            *best = Some(Best { rounds, schedule });
        }
    }
}

impl Best {
    /// Returns whether another schedule is better: with fewer rounds, or as many and fewer steps, or as many of both
    /// and fewer chunks.
    fn is_behind(&self, rounds: f64, chunks: u32, steps: usize) -> bool {
        let is_equal = rounds <= self.rounds * (1.0 + ROUNDING);
        let is_less = rounds < self.rounds * (1.0 - ROUNDING);
        is_less || (is_equal && (steps, chunks) < (self.schedule.last, self.schedule.chunks))
    }
}

impl Schedule {
    /// Leaves out steps in which nothing is sent.
    fn new(chunks: u32, fitted: Fitted) -> Self {
        let mut last = 0;
        let numbers: Vec<usize> = fitted
            .lengths
            .iter()
            .map(|&length| {
                last += usize::from(length > 0.0);
                last
            })
            .collect();
        let mut trees = fitted.trees;
        trees.iter_mut().flatten().for_each(|timed| timed.step = numbers[timed.step - 1]);
        Self { chunks, last, trees }
    }
}
