//! Reduction tables: a fully associative table a port, with counters, least-recently-used eviction and timeouts
//! (in-network paper, sections IV-C and IV-D; its Fig. 5). A deterministic one adds operands in a fixed order, and
//! holds those that come early.

use super::packet::{Key, Operand};
use super::parameters::Parameters;

/// An entry.
#[derive(Debug, Clone)]
pub struct Entry {
    pub key: Key,
    /// The edge over which it goes on; none at the root.
    pub onward: u32,
    /// Operands to wait for.
    expected: u32,
    /// What came so far.
    pub operand: Operand,
    /// When it was last touched.
    touched: u64,
    /// Whether its operands were asked for, so that they are sure to come: it stays.
    pulled: bool,
    /// Whose operand is added next, by place.
    next: u32,
    /// Operands that came before their turn.
    early: Vec<(u32, Operand)>,
}

impl Entry {
    /// Adds an operand when it is its turn, and those that waited for it.
    fn add_in_order(&mut self, place: u32, operand: Operand) {
        self.early.push((place, operand));
        while let Some(at) = self.early.iter().position(|early| early.0 == self.next) {
            let (_, operand) = self.early.swap_remove(at);
            self.operand.add(operand);
            self.next += 1;
        }
    }
}

/// A port's table.
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
    /// Whether `key` is here.
    pub fn holds(&self, key: Key) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Whether another entry must wait for room; a deterministic table is as large as it must be.
    pub fn is_full(&self, parameters: &Parameters) -> bool {
        !parameters.fabric.deterministic && self.entries.len() >= parameters.entries
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds an empty entry.
    pub fn open(&mut self, key: Key, onward: u32, expected: u32, pulled: bool, now: u64) {
        let (operand, early) = (Operand::default(), Vec::new());
        self.entries.push(Entry { key, onward, expected, operand, touched: now, pulled, next: 0, early });
        self.peak = self.peak.max(self.entries.len() + self.early);
    }

    /// Adds to the entry of `key`, which is here, in the order of places if they are given; returns it, without keeping
    /// it, when all its operands are together.
    pub fn add(&mut self, key: Key, operand: Operand, place: Option<u32>, now: u64) -> Option<Entry> {
        let at = self.entries.iter().rposition(|entry| entry.key == key).expect("the key is here");
        let mut entry = self.entries.remove(at);
        let before = entry.early.len();
        match place {
            Some(place) => entry.add_in_order(place, operand),
            None => entry.operand.add(operand),
        }
        self.early = self.early + entry.early.len() - before;
        entry.touched = now;
        if entry.operand.count == entry.expected {
            return Some(entry);
        }
        self.entries.push(entry);
        self.peak = self.peak.max(self.entries.len() + self.early);
        None
    }

    /// Takes out the least recently used entry that may go.
    pub fn evict(&mut self) -> Option<Entry> {
        let oldest = self.entries.iter().position(|entry| !entry.pulled)?;
        Some(self.entries.remove(oldest))
    }

    /// When it was touched.
    pub fn oldest(&self) -> Option<u64> {
        self.entries.iter().find(|entry| !entry.pulled).map(|entry| entry.touched)
    }
}
