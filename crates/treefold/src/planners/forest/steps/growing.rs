//! Cheap trees through time: every rank has a tree's data by the last step, and a way has a price in each step.
//!
//! The network is laid out in time: a way leads from a rank before a step to another rank after it, and to wait costs
//! nothing. The rank that is cheapest to reach joins next, over the cheapest path from any rank that has the data by
//! then (Takahashi and Matsuyama 1980). Then each rank takes a cheaper way into it, in any step after its parent's and
//! before its children's, until none finds one. Cost: for n ranks, s steps and w ways, O(s w) times the few times that
//! a path gets cheaper, and O(n^2).

use crate::planners::ways::{Way, Ways};
use crate::topology::NodeId;

/// The most rounds in which ranks look for cheaper ways.
const ROUNDS: usize = 8;
/// A rank that the data have not reached.
const NEVER: usize = usize::MAX;
/// No way: the data wait at the rank.
const WAIT: u32 = u32::MAX;

/// The way into a rank, and the step in which it is used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hop {
    pub way: Way,
    pub step: usize,
}

/// A tree in the making. Steps count from 1, and times from 0: a step leads from one time to the next.
struct Growing<'a, 'b> {
    /// The ways of each step, the first one first.
    ways: &'a [Ways<'b>],
    into: Vec<Option<Hop>>,
    /// The step after which each rank has the data; 0 for the root.
    arrival: Vec<usize>,
    /// The least price of bringing the data to each rank by each time.
    cost: Vec<Vec<f64>>,
    /// The place of the way by which they come in the step before that time, at that price; `WAIT` if they are there.
    last: Vec<Vec<u32>>,
    /// The time for which each rank is noted last as cheaper to reach.
    noted: Vec<usize>,
}

/// Returns the hop into each rank of a cheap tree out of `root`; `None` if there are too few steps.
pub(super) fn cheap_tree(ways: &[Ways], root: NodeId, ranks: u32) -> Option<Vec<Option<Hop>>> {
    let (times, count) = (ways.len() + 1, ranks as usize);
    let mut tree = Growing {
        ways,
        into: vec![None; count],
        arrival: vec![NEVER; count],
        cost: vec![vec![f64::INFINITY; count]; times],
        last: vec![vec![WAIT; count]; times],
        noted: vec![NEVER; count],
    };
    tree.reach(root, 0);
    for _ in 1..count {
        let missing = NodeId::first(count).filter(|&rank| tree.arrival[rank] == NEVER);
        let next = missing.min_by(|&a, &b| tree.cost[times - 1][a].total_cmp(&tree.cost[times - 1][b]));
        // A path may have brought in several ranks.
        let Some(next) = next else { break };
        if tree.cost[times - 1][next].is_infinite() {
            return None;
        }
        tree.join(next);
    }
    tree.improve(root);
    Some(tree.into)
}

impl Growing<'_, '_> {
    /// Notes that a rank has the data at a time, and what gets cheaper by that.
    fn reach(&mut self, rank: NodeId, time: usize) {
        self.arrival[rank] = time;
        (self.cost[time][rank], self.last[time][rank]) = (0.0, WAIT);
        self.noted.fill(NEVER);
        let (mut cheaper, mut next) = (vec![rank], Vec::new());
        for now in time..self.ways.len() {
            let ways = &self.ways[now];
            for &rank in &cheaper {
                let so_far = self.cost[now][rank];
                self.offer(now + 1, rank, so_far, WAIT, &mut next);
                for &(target, place) in ways.out_of(rank) {
                    let cost = so_far + ways.into(target)[place].price;
                    self.offer(now + 1, target, cost, place as u32, &mut next);
                }
            }
            (cheaper, next) = (next, cheaper);
            next.clear();
        }
    }

    fn offer(&mut self, time: usize, rank: NodeId, cost: f64, place: u32, cheaper: &mut Vec<NodeId>) {
        if cost < self.cost[time][rank] {
            (self.cost[time][rank], self.last[time][rank]) = (cost, place);
            if self.noted[rank] != time {
                self.noted[rank] = time;
                cheaper.push(rank);
            }
        }
    }

    /// Joins a rank over its cheapest path. Ranks on the path that would have got the data later get them from it.
    fn join(&mut self, rank: NodeId) {
        let (mut rank, mut time, mut path) = (rank, self.ways.len(), Vec::new());
        while self.arrival[rank] > time {
            let place = self.last[time][rank];
            time -= 1;
            if place != WAIT {
                let ways = &self.ways[time];
                let way = ways.into(rank)[place as usize];
                path.push((rank, Hop { way, step: time + 1 }));
                rank = way.source;
            }
        }
        for (rank, hop) in path.into_iter().rev() {
            self.into[rank] = Some(hop);
            self.reach(rank, hop.step);
        }
    }

    /// Lets each rank take cheaper ways in place of its own. No circle can close, as steps rise along every path.
    fn improve(&mut self, root: NodeId) {
        let count = self.into.len();
        let mut due: Vec<usize> = NodeId::first(count).map(|rank| self.first_use(rank)).collect();
        for _ in 0..ROUNDS {
            let mut has_moved = false;
            for rank in NodeId::first(count).filter(|&rank| rank != root) {
                let Some(hop) = self.into[rank] else { continue };
                let best = self.cheapest(rank, hop, due[rank]);
                if best.way.price < hop.way.price {
                    self.into[rank] = Some(best);
                    self.arrival[rank] = best.step;
                    due[hop.way.source] = self.first_use(hop.way.source);
                    due[best.way.source] = due[best.way.source].min(best.step);
                    has_moved = true;
                }
            }
            if !has_moved {
                return;
            }
        }
    }

    /// Returns the first step in which a rank passes the data on; a step after the last one if it does not.
    fn first_use(&self, rank: NodeId) -> usize {
        let sent = self.into.iter().flatten().filter(|hop| hop.way.source == rank);
        sent.map(|hop| hop.step).min().unwrap_or(self.ways.len() + 1)
    }

    /// Returns the cheapest hop into a rank before the step in which it passes the data on.
    fn cheapest(&self, rank: NodeId, present: Hop, due: usize) -> Hop {
        let mut best = present;
        for (ways, step) in self.ways.iter().zip(1..due) {
            for way in ways.into(rank) {
                let is_there = self.arrival[way.source] < step;
                if is_there && way.price < best.way.price * (1.0 - 1e-9) {
                    best = Hop { way: *way, step };
                }
            }
        }
        best
    }
}
