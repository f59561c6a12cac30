//! Mixes what was sent between ranks in several rounds, so that the fullest link is as empty as possible.
//!
//! The linear program has a column for each round of each rank, or of each group of ranks on large networks: how much
//! of the round counts. What counts adds up to 1 for each group. Each link has a row: it is no busier than the fullest
//! one, which the program minimises. The rows' prices are what links are worth.

use crate::linear::{Program, Row};
use crate::topology::{NodeId, Topology};

/// About the most links times columns of the first program.
const MOST_ENTRIES: usize = 1 << 17;
/// The least price of a link, as a part of the mean one: of free routes, the shortest is taken.
const LEAST_PRICE: f64 = 1e-6;

/// What was sent in all rounds so far.
pub(super) struct Mixture {
    capacity: Vec<f64>,
    ranks: usize,
    groups: usize,
    /// The bytes on each link, round by round and group by group, if each share has one.
    sent: Vec<Vec<f64>>,
}

impl Mixture {
    pub fn new(topology: &Topology, rounds: usize) -> Self {
        let capacity: Vec<f64> = topology.links().iter().map(|link| link.bandwidth.bytes_per_second()).collect();
        let ranks = topology.ranks() as usize;
        let groups = (MOST_ENTRIES / (rounds * capacity.len()).max(1)).clamp(1, ranks);
        Self { capacity, ranks, groups, sent: Vec::new() }
    }

    /// Returns whether each rank is a group of its own.
    pub fn is_fine(&self) -> bool {
        self.groups == self.ranks
    }

    /// Begins a round in which nothing was sent yet.
    pub fn begin_round(&mut self) {
        let links = self.capacity.len();
        self.sent.extend((0..self.groups).map(|_| vec![0.0; links]));
    }

    /// Returns what a rank's group has sent over each link in this round.
    pub fn of(&mut self, source: NodeId) -> &mut [f64] {
        let place = self.sent.len() - self.groups + source.index() % self.groups;
        &mut self.sent[place]
    }

    /// Returns the seconds for which the fullest link of the best mixture is busy, and the price of a byte on each
    /// link; about so many bytes of each share can go in a second.
    pub fn solve(&self, rate: f64) -> (f64, Vec<f64>) {
        let solution = self.program(rate).solve();
        let links = self.capacity.len();
        let paid: Vec<f64> = solution.prices[..links].iter().map(|price| (-price).max(0.0)).collect();
        let least = LEAST_PRICE * paid.iter().sum::<f64>() / links as f64;
        let prices = paid.iter().zip(&self.capacity).map(|(price, capacity)| price.max(least) / capacity).collect();
        (self.fullest(&solution.values), prices)
    }

    /// Returns the seconds for which the fullest link is busy if rounds count in these proportions.
    fn fullest(&self, parts: &[f64]) -> f64 {
        let mut totals = vec![0.0; self.groups];
        parts[1..].iter().enumerate().for_each(|(column, part)| totals[column % self.groups] += part);
        let mut busy = vec![0.0; self.capacity.len()];
        for (column, (sent, part)) in
            self.sent.iter().zip(&parts[1..]).enumerate().filter(|(_, (_, part))| **part > 0.0)
        {
            let part = part / totals[column % self.groups];
            busy.iter_mut().zip(sent).for_each(|(busy, sent)| *busy += sent * part);
        }
        busy.iter().zip(&self.capacity).map(|(bytes, capacity)| bytes / capacity).fold(0.0, f64::max)
    }

    /// Puts the program together. Its first column is how busy the fullest link is, if `rate` makes it about 1.
    fn program(&self, rate: f64) -> Program {
        let columns = self.sent.len() + 1;
        let mut cost = vec![0.0; columns];
        cost[0] = 1.0;
        let of_link = |(link, capacity): (usize, &f64)| {
            let sent = self.sent.iter().enumerate().filter(|(_, sent)| sent[link] > 0.0);
            let busy = sent.map(|(column, sent)| (column + 1, sent[link] * rate / capacity));
            Row { lower: f64::NEG_INFINITY, upper: 0.0, entries: std::iter::once((0, -1.0)).chain(busy).collect() }
        };
        let of_group = |group: usize| {
            let columns = (group..self.sent.len()).step_by(self.groups);
            Row { lower: 1.0, upper: 1.0, entries: columns.map(|column| (column + 1, 1.0)).collect() }
        };
        let links = self.capacity.iter().enumerate().map(of_link);
        let rows = links.chain((0..self.groups).map(of_group)).collect();
        Program { cost, most: vec![f64::INFINITY; columns], rows }
    }
}
