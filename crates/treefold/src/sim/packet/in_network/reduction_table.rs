//! Reduction tables: a fully associative table a port, with counters, least-recently-used eviction and timeouts
//! (in-network paper, sections IV-C and IV-D; its Fig. 5). A deterministic one adds operands in a fixed order, and
//! holds those that come early.

use super::super::levels::Level;
use super::operand::Operand;
use super::packet::{Address, EdgeId};
use super::parameters::Parameters;
use crate::number::Combine;

/// A sum of which operands are missing.
#[derive(Debug, Clone)]
pub struct Entry {
    pub address: Address,
    /// The edge over which it goes on; at the root there is none.
    pub onward: Option<EdgeId>,
    /// How many operands make it whole.
    expected: u32,
    /// The sum of what came so far.
    pub operand: Operand,
    /// When it was last touched.
    touched: u64,
    /// Whether its operands were asked for, so that they are sure to come: it stays.
    pulled: bool,
    /// Whose operand is added next, by place.
    next: u32,
    /// Operands that came before their turn.
    early: Vec<Early>,
}

/// An operand that came before its turn.
#[derive(Debug, Clone)]
struct Early {
    place: u32,
    operand: Operand,
}

impl Entry {
    /// Adds an operand when it is its turn, and those that waited for it.
    fn add_in_order(&mut self, place: u32, operand: Operand, combine: Combine) {
        self.early.push(Early { place, operand });
        while let Some(at) = self.early.iter().position(|early| early.place == self.next) {
            let Early { operand, .. } = self.early.swap_remove(at);
            self.operand.add(operand, combine);
            self.next += 1;
        }
    }
}

/// The reduction table of a port.
#[derive(Debug, Default)]
pub struct ReductionTable {
    /// The least recently used first.
    entries: Vec<Entry>,
    /// Operands that came before their turn.
    early: usize,
    /// When it has taken in all operands of its queue.
    pub busy_until: u64,
    /// Most payloads at a time.
    pub peak: usize,
}

impl ReductionTable {
    /// Says whether an address has an entry.
    pub fn holds(&self, address: Address) -> bool {
        self.entries.iter().any(|entry| entry.address == address)
    }

    /// Says whether another entry must wait for room; a deterministic table is as large as it must be.
    pub fn is_full(&self, parameters: &Parameters) -> bool {
        !parameters.fabric.deterministic && self.entries.len() >= parameters.entries
    }

    /// Counts the entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Counts the payloads that it holds: sums, and operands that came before their turn.
    pub fn payloads(&self) -> usize {
        self.entries.len() + self.early
    }

    /// Adds an empty entry.
    pub fn open(&mut self, address: Address, onward: Option<EdgeId>, expected: u32, pulled: bool, now: u64) {
        let (operand, early) = (Operand::default(), Vec::new());
        self.entries.push(Entry { address, onward, expected, operand, touched: now, pulled, next: 0, early });
        self.peak = self.peak.max(self.payloads());
    }

    /// Adds to the entry of `address`, which is here, in the order of places if they are given; returns it, without
    /// keeping it, when all its operands are together.
    pub fn add(
        &mut self,
        address: Address,
        operand: Operand,
        combine: Combine,
        place: Option<u32>,
        now: u64,
    ) -> Option<Entry> {
        let at = self.entries.iter().rposition(|entry| entry.address == address).expect("it has an entry");
        let mut entry = self.entries.remove(at);
        let before = entry.early.len();
        match place {
            Some(place) => entry.add_in_order(place, operand, combine),
            None => entry.operand.add(operand, combine),
        }
        self.early = self.early + entry.early.len() - before;
        entry.touched = now;
        if entry.operand.count == entry.expected {
            return Some(entry);
        }
        self.entries.push(entry);
        self.peak = self.peak.max(self.payloads());
        None
    }

    /// Takes out the least recently used entry that may go.
    pub fn evict(&mut self) -> Option<Entry> {
        let oldest = self.entries.iter().position(|entry| !entry.pulled)?;
        Some(self.entries.remove(oldest))
    }

    /// Says when the least recently used entry that may go was touched.
    pub fn oldest(&self) -> Option<u64> {
        self.entries.iter().find(|entry| !entry.pulled).map(|entry| entry.touched)
    }
}

/// The payloads that the tables of a switch hold over time.
#[derive(Debug, Default)]
pub struct HeldPayloads {
    pub level: Level,
    now: usize,
}

impl HeldPayloads {
    /// Records how many they hold from cycle `at` on.
    pub fn count(&mut self, at: u64, payloads: usize) {
        if payloads != self.now {
            self.level.add(at, payloads as i64 - self.now as i64);
            self.now = payloads;
        }
    }
}
