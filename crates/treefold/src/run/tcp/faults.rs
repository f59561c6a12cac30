//! What is known to be wrong between the ranks: who is gone, which ways are cut, what was given up.

use std::collections::{BTreeMap, BTreeSet};

/// Why an operation has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A rank's process is gone, or does not answer.
    Gone {
        /// Which.
        rank: u32,
        /// Who noticed.
        by: u32,
        /// How that showed: the sentence goes on behind the rank's name.
        cause: String,
    },
    /// The way between two ranks does not work.
    Cut {
        /// One of them.
        rank: u32,
        /// The other, who noticed.
        by: u32,
        /// How that showed.
        cause: String,
    },
    /// Ranks disagree, or one gave up.
    GivenUp(String),
    /// The caller did not want to go on.
    Interrupted,
}

/// Two ranks, the lower one first.
pub type Way = (u32, u32);

fn way(one: u32, other: u32) -> Way {
    (one.min(other), one.max(other))
}

/// All that a rank has noticed or heard.
#[derive(Debug, Default)]
pub struct Faults {
    /// Ranks that are gone: who noticed, and how.
    gone: BTreeMap<u32, (u32, String)>,
    /// Ways that are cut: the end that did not answer, who noticed, and how. Both ends find out, one after the other.
    cut: BTreeMap<Way, (u32, u32, String)>,
    /// Those around which the layer above has planned.
    avoided: BTreeSet<Way>,
    /// Operations that were given up, this one or later ones.
    given_up: BTreeMap<u32, String>,
}

impl Faults {
    /// A rank is gone; says whether that is news.
    pub fn lose(&mut self, rank: u32, by: u32, cause: &str) -> bool {
        let is_news = !self.gone.contains_key(&rank);
        self.gone.entry(rank).or_insert_with(|| (by, cause.to_owned()));
        is_news
    }

    /// The way between two ranks is cut; says whether that is news.
    pub fn cut(&mut self, rank: u32, by: u32, cause: &str) -> bool {
        let is_news = !self.is_cut(rank, by);
        self.cut.entry(way(rank, by)).or_insert_with(|| (rank, by, cause.to_owned()));
        is_news
    }

    /// Whether the way between two ranks is cut.
    pub fn is_cut(&self, one: u32, other: u32) -> bool {
        self.cut.contains_key(&way(one, other))
    }

    /// The plan has no use for these ways any more.
    pub fn avoid(&mut self, ways: &[Way]) {
        self.avoided.extend(ways.iter().map(|&(one, other)| way(one, other)));
    }

    /// The way between two ranks works again.
    pub fn mend(&mut self, one: u32, other: u32) {
        self.cut.remove(&way(one, other));
        self.avoided.remove(&way(one, other));
    }

    /// What every operation ends with: that a rank is gone, else that a way is cut which the plan may use.
    pub fn failure(&self) -> Option<Failure> {
        let gone = self.gone.iter().next();
        let gone = gone.map(|(&rank, (by, cause))| Failure::Gone { rank, by: *by, cause: cause.clone() });
        gone.or_else(|| {
            let (rank, by, cause) = &self.cut[self.ways_to_avoid().first()?];
            Some(Failure::Cut { rank: *rank, by: *by, cause: cause.clone() })
        })
    }

    /// How many ranks and ways are known to be lost.
    pub fn count(&self) -> usize {
        self.gone.len() + self.cut.len()
    }

    /// Ranks that are gone.
    pub fn lost(&self) -> Vec<u32> {
        self.gone.keys().copied().collect()
    }

    /// Ways that are cut and that the plan may still use.
    pub fn ways_to_avoid(&self) -> Vec<Way> {
        self.cut.keys().filter(|way| !self.avoided.contains(way)).copied().collect()
    }

    /// Ways that are cut.
    pub fn ways(&self) -> Vec<Way> {
        self.cut.keys().copied().collect()
    }

    /// Operation `sequence` was given up.
    pub fn give_up(&mut self, sequence: u32, cause: String) {
        self.given_up.entry(sequence).or_insert(cause);
    }

    /// Why operation `sequence`, which begins, was given up by others already; earlier ones are forgotten.
    pub fn given_up(&mut self, sequence: u32) -> Option<String> {
        self.given_up = self.given_up.split_off(&sequence);
        self.given_up.remove(&sequence)
    }
}
