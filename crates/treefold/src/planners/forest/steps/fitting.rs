//! Trees that fit into steps of given lengths, and the shortest steps into which they fit.
//!
//! Within each step every link has room for so many chunks. Trees that use a full link are taken out and grown again,
//! at prices that rise with how much a link has too much now and with how often it had before (negotiated congestion,
//! as routers of circuits do: McMurchie and Ebeling, PathFinder, FPGA 1995), until all fit. Then steps are shortened
//! one by one, by as little as empties the busiest links by a chunk, as long as the trees can be made to fit again.
//! Cost: a cheap tree through time (`growing.rs`) for each tree in trouble and pass; the sum of all is limited.

use super::growing::cheap_tree;
use super::searching::Network;
use crate::planners::spanning::Route;
use crate::planners::ways::Ways;
use crate::random::Random;
use crate::topology::{LinkId, NodeId};

/// The most passes over the trees in trouble.
const PASSES: usize = 30;
/// The passes of the first search, which is for the shape of the steps.
const FIRST_PASSES: usize = 6;
/// How much dearer a link gets in the first pass for each chunk that it has too many, and by which factor from pass to
/// pass that rises.
const PRESSURE: (f64, f64) = (0.5, 1.3);
/// How much dearer a link stays for each chunk that it had too many in a pass.
const MEMORY: f64 = 0.5;
/// Prices differ at random by this part, so that equal trees do not all take the same links.
const NOISE: f64 = 1e-2;
/// Relative differences below this one are rounding.
const ROUNDING: f64 = 1e-9;

/// A route of a tree, and the step in which it is used.
#[derive(Debug, Clone)]
pub(super) struct Timed {
    pub route: Route,
    pub step: usize,
}

/// Trees out of the roots, root by root, whose messages fit into steps.
#[derive(Debug, Clone)]
pub(super) struct Fitted {
    pub trees: Vec<Vec<Timed>>,
    /// The length of each step, in the time that a chunk takes over the narrowest link.
    pub lengths: Vec<f64>,
}

pub(super) struct Fitting<'a> {
    network: &'a Network<'a>,
    ways: Vec<Ways<'a>>,
    trees: Vec<Vec<Timed>>,
    /// How many chunks each link carries in each step.
    load: Vec<Vec<u32>>,
    random: Random,
    /// How much more may be searched, as [`Network::work`] counts it.
    left: &'a mut u64,
}

/// Returns trees for `chunks` chunks of each root in `steps` steps, which are as short as was found; `None` if there
/// are too few steps.
pub(super) fn fit(network: &Network, chunks: u32, steps: usize, left: &mut u64) -> Option<Fitted> {
    let mut fitting = Fitting::new(network, chunks, steps, left);
    let least = network.least * f64::from(chunks);
    fitting.settle(&vec![least / steps as f64; steps], FIRST_PASSES)?;
    while fitting.lengths().iter().sum::<f64>() > least * (1.0 + ROUNDING) && fitting.shorten()? {}
    let lengths = fitting.lengths();
    Some(Fitted { trees: fitting.trees, lengths })
}

impl<'a> Fitting<'a> {
    fn new(network: &'a Network, chunks: u32, steps: usize, left: &'a mut u64) -> Self {
        let load = vec![vec![0; network.topology.links().len()]; steps];
        Self {
            network,
            ways: (0..steps).map(|_| Ways::new(network.topology, true)).collect(),
            trees: vec![Vec::new(); network.roots.len() * chunks as usize],
            load,
            random: Random::new(1),
            left,
        }
    }

    /// Returns the length that each step has with what the links carry.
    fn lengths(&self) -> Vec<f64> {
        self.load.iter().map(|load| load.iter().zip(&self.network.slots).map(time_of).fold(0.0, f64::max)).collect()
    }

    /// Shortens a step, if there is one that can be shortened; returns whether there was.
    fn shorten(&mut self) -> Option<bool> {
        let lengths = self.lengths();
        let mut attempts: Vec<(u32, usize, f64)> = (0..lengths.len())
            .filter(|&step| lengths[step] > 0.0)
            .map(|step| self.shorter(step, lengths[step]))
            .collect();
        // The fewer chunks have to go elsewhere, the likelier it is that they can.
        attempts.sort_by_key(|&(excess, step, _)| (excess, step));
        let before = (self.trees.clone(), self.load.clone());
        for (_, step, shorter) in attempts {
            let mut wanted = lengths.clone();
            wanted[step] = shorter;
            if self.settle(&wanted, PASSES)? {
                return Some(true);
            }
            (self.trees, self.load) = before.clone();
        }
        Some(false)
    }

    /// Returns how many chunks are too many in a step of the next smaller length, the step, and that length.
    fn shorter(&self, step: usize, length: f64) -> (u32, usize, f64) {
        let (load, slots) = (&self.load[step], &self.network.slots);
        let emptied = |(&load, &slots): (&u32, &f64)| {
            let is_busiest = time_of((&load, &slots)) >= length * (1.0 - ROUNDING);
            time_of((&(load - u32::from(is_busiest)), &slots))
        };
        let shorter = load.iter().zip(slots).map(emptied).fold(0.0, f64::max);
        let excess = load.iter().zip(slots).map(|(&load, &slots)| load.saturating_sub(room(slots, shorter))).sum();
        (excess, step, shorter)
    }

    /// Moves trees until all fit into steps of these lengths; returns whether they do, or `None` if some tree has too
    /// few steps. Trees that have not been grown yet are grown in any case.
    fn settle(&mut self, lengths: &[f64], passes: usize) -> Option<bool> {
        let rooms: Vec<Vec<u32>> = lengths
            .iter()
            .map(|&length| self.network.slots.iter().map(|&slots| room(slots, length)).collect())
            .collect();
        let mut memory: Vec<Vec<f64>> = rooms.iter().map(|rooms| vec![0.0; rooms.len()]).collect();
        let mut pressure = PRESSURE.0;
        for _ in 0..passes {
            for number in 0..self.trees.len() {
                if self.is_in_trouble(number, &rooms) {
                    self.replace(number, &rooms, &memory, pressure)?;
                }
            }
            let mut is_full = false;
            for (step, memory) in memory.iter_mut().enumerate() {
                for ((load, room), memory) in self.load[step].iter().zip(&rooms[step]).zip(memory) {
                    *memory += MEMORY * f64::from(load.saturating_sub(*room));
                    is_full |= load > room;
                }
            }
            if !is_full || *self.left == 0 {
                return Some(!is_full);
            }
            pressure *= PRESSURE.1;
        }
        Some(false)
    }

    /// Returns whether a tree is missing or uses a link that carries too much; when the search has to end, no more are.
    fn is_in_trouble(&self, number: usize, rooms: &[Vec<u32>]) -> bool {
        let tree = &self.trees[number];
        let is_over = |timed: &Timed, link: LinkId| self.load[timed.step - 1][link] > rooms[timed.step - 1][link];
        let has_full_link = || tree.iter().any(|timed| timed.route.iter().any(|&link| is_over(timed, link)));
        tree.is_empty() || (*self.left > 0 && has_full_link())
    }

    /// Takes a tree out, if it is there, and grows another one in its place.
    fn replace(&mut self, number: usize, rooms: &[Vec<u32>], memory: &[Vec<f64>], pressure: f64) -> Option<()> {
        *self.left = self.left.saturating_sub(self.network.work * self.load.len() as u64);
        for timed in std::mem::take(&mut self.trees[number]) {
            timed.route.iter().for_each(|&link| self.load[timed.step - 1][link] -= 1);
        }
        for step in 0..self.load.len() {
            let excess = |link: LinkId| f64::from((self.load[step][link] + 1).saturating_sub(rooms[step][link]));
            let noise = |random: &mut Random| 1.0 + NOISE * random.unit();
            let price = |link| (1.0 + memory[step][link]) * (1.0 + pressure * excess(link)) * noise(&mut self.random);
            let prices: Vec<f64> = LinkId::first(self.network.slots.len()).map(price).collect();
            self.ways[step].price(&prices);
        }
        let tree = cheap_tree(&self.ways, self.root(number), self.network.topology.ranks())?;
        for hop in tree.iter().flatten() {
            let route = self.ways[hop.step - 1].route(&hop.way);
            route.iter().for_each(|&link| self.load[hop.step - 1][link] += 1);
            self.trees[number].push(Timed { route, step: hop.step });
        }
        Some(())
    }

    fn root(&self, number: usize) -> NodeId {
        // Chunk by chunk, so that no root has its pick before the others.
        self.network.roots[number % self.network.roots.len()]
    }
}

/// Returns how long a link is busy.
fn time_of((&load, &slots): (&u32, &f64)) -> f64 {
    f64::from(load) / slots
}

/// Returns how many chunks a link of so many slots carries in a step of this length.
fn room(slots: f64, length: f64) -> u32 {
    (slots * length * (1.0 + ROUNDING) + ROUNDING).floor() as u32
}
