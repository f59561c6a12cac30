//! Reduction tables: a fully associative table a port, with counters, least-recently-used eviction and timeouts (in-network paper, sections
//! IV-C and IV-D; its Fig. 5).

use super::parcel::Operand;

/// An address under reduction: tree and line.
pub type Key = (u32, u32);

/// An entry.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub key: Key,
    /// The edge over which it goes on; none at the root.
    pub onward: u32,
    /// Operands to wait for.
    pub expected: u32,
    /// What came so far.
    pub operand: Operand,
    /// When it was last touched.
    pub touched: u64,
}

/// A port's table.
#[derive(Debug, Default)]
pub struct Table {
    /// The least recently used first.
    entries: Vec<Entry>,
    /// When the operand that crosses is in its queue.
    pub crossing_until: u64,
    /// When it has taken in all operands of its queue.
    pub busy_until: u64,
    /// Most entries at a time.
    pub peak: usize,
}

impl Table {
    /// Whether `key` is here.
    pub fn holds(&self, key: Key) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds an empty entry.
    pub fn open(&mut self, key: Key, onward: u32, expected: u32, now: u64) {
        self.entries.push(Entry { key, onward, expected, operand: Operand::default(), touched: now });
        self.peak = self.peak.max(self.entries.len());
    }

    /// Adds to the entry of `key`, which is here; returns it, without keeping it, when all its operands are together.
    pub fn add(&mut self, key: Key, operand: Operand, now: u64) -> Option<Entry> {
        let at = self.entries.iter().rposition(|entry| entry.key == key).expect("the key is here");
        let mut entry = self.entries.remove(at);
        entry.operand.add(operand);
        entry.touched = now;
        if entry.operand.count == entry.expected {
            return Some(entry);
        }
        self.entries.push(entry);
        None
    }

    /// Takes out the least recently used entry.
    pub fn evict(&mut self) -> Entry {
        self.entries.remove(0)
    }

    /// When the least recently used entry was touched.
    pub fn oldest(&self) -> Option<u64> {
        self.entries.first().map(|entry| entry.touched)
    }
}
