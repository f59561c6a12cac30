//! The wave controller of an accelerator, which holds back the generator of requests (in-network paper, section IV-F
//! and its Fig. 6).
//!
//! A wave is a number of consecutive lines; so many may be outstanding, each with a counter of what it waits for. Its
//! credit and its counter come back when all its results are in memory. A wave for which there is no counter asks again
//! after some time, and at last the host gets an error.

use std::collections::VecDeque;

use super::packet::Address;
use super::{RefusedWave, Setup, Shared};
use crate::topology::NodeId;

/// A wave that has begun.
#[derive(Debug, Clone, Copy)]
struct Begun {
    /// Lines, in order, of this wave and all before it.
    end: u64,
    /// When it began.
    from: u64,
}

/// The wave controller: it says which lines a rank may ask for.
#[derive(Debug, Default)]
pub struct Waves {
    /// The first wave that is open.
    pub first: u64,
    /// Lines that open waves still wait for.
    pub open: VecDeque<u32>,
    /// When the credits came back that no wave has.
    credits: VecDeque<u64>,
    /// When the counters were free that no wave has; `None` if there are always enough.
    counters: Option<VecDeque<u64>>,
    /// Lines, in order, of all waves so far.
    pub allowed: u64,
    /// The last waves.
    begun: VecDeque<Begun>,
}

impl Waves {
    /// Begins waves of these lines as long as there are credits and counters.
    pub fn begin(&mut self, rank: NodeId, order: &[Address], shared: &mut Shared) {
        let (setup, all) = (shared.setup, order.len() as u64);
        while self.allowed < all {
            let credit = if setup.parameters.waves.is_none() { Some(0) } else { self.credits.front().copied() };
            let Some(credit) = credit else { return };
            let tree = order[self.allowed as usize].tree;
            let Some(from) = self.allocate(credit, RefusedWave { rank, tree }, shared) else { return };
            self.credits.pop_front();
            let end = all.min(self.allowed + setup.parameters.wave_lines);
            self.open.push_back((end - self.allowed) as u32);
            self.begun.push_back(Begun { end, from });
            self.allowed = end;
        }
    }

    /// Takes a counter for the next wave, which asks for one from cycle `at` on, again and again; says when it gets
    /// one, if that is known.
    fn allocate(&mut self, at: u64, wave: RefusedWave, shared: &mut Shared) -> Option<u64> {
        let Some(counters) = &mut self.counters else { return Some(at) };
        let free = counters.pop_front()?;
        let fabric = &shared.setup.parameters.fabric;
        // Waves ask one after the other.
        let at = self.begun.back().map_or(at, |last| last.from.max(at));
        let retries = free.saturating_sub(at).div_ceil(fabric.retry_cycles.into());
        shared.stats.fabric.failed_allocations += retries;
        if retries > fabric.retries.into() {
            shared.stats.refused.get_or_insert(wave);
        }
        Some(at + retries * u64::from(fabric.retry_cycles))
    }

    /// Says when the wave of line `taken` began; lines are asked for in order.
    pub fn begin_of(&mut self, taken: u64) -> u64 {
        while self.begun[0].end <= taken {
            self.begun.pop_front();
        }
        self.begun[0].from
    }

    /// Takes a line off what its wave waits for; a wave that waits for nothing more gives its credit back.
    pub fn credit(&mut self, place: u64, now: u64, setup: &Setup) {
        let left = &mut self.open[(place / setup.parameters.wave_lines - self.first) as usize];
        *left -= 1;
        if *left == 0 {
            self.credits.push_back(now);
            self.counters.iter_mut().for_each(|counters| counters.push_back(now));
        }
        while self.open.front() == Some(&0) {
            self.open.pop_front();
            self.first += 1;
        }
    }

    /// Gives back all credits and counters at cycle `now`.
    pub fn start(&mut self, now: u64, setup: &Setup) {
        let enough = |count: u32| vec![now; u64::from(count).min(setup.lines.count()) as usize].into();
        self.credits = setup.parameters.waves.map_or_else(VecDeque::new, enough);
        self.counters = setup.parameters.fabric.counters.map(enough);
    }
}
