//! The faults that a rank knows of: ranks that are gone, connections that are cut, and operations that were given up.

use std::collections::BTreeMap;

use crate::ids::NodeId;

/// Why an operation has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A rank's process is gone, or does not answer.
    Gone {
        /// The rank that is gone.
        rank: NodeId,
        /// The rank that noticed it.
        by: NodeId,
        /// How it was noticed, as a predicate that follows the rank's name.
        cause: String,
    },
    /// The connection between two ranks does not work.
    Cut {
        /// The rank that could not be reached.
        rank: NodeId,
        /// The rank that noticed it.
        by: NodeId,
        /// How it was noticed.
        cause: String,
    },
    /// Ranks disagree, or one of them has given up; the text says why.
    GivenUp(String),
    /// The caller did not want to go on.
    Interrupted,
}

/// Two ranks, the lower one first.
pub type Pair = (NodeId, NodeId);

fn pair(one: NodeId, other: NodeId) -> Pair {
    (one.min(other), one.max(other))
}

/// A fault: the rank that has noticed it, and the cause.
#[derive(Debug)]
struct Report {
    by: NodeId,
    cause: String,
}

/// The last cut of a pair's connection.
#[derive(Debug)]
struct Cut {
    /// The end that could not be reached.
    rank: NodeId,
    /// The life of the connection: how often the pair had lost its connection before.
    life: u32,
    report: Report,
}

/// All faults that a rank has noticed, or of which others have told it.
#[derive(Debug, Default)]
pub struct Faults {
    gone: BTreeMap<NodeId, Report>,
    /// The pairs whose connection is cut, or was. Both ends notice a cut, one after the other; the first report counts.
    cut: BTreeMap<Pair, Cut>,
    /// The life from which on the layer above uses a pair's connections: `None` where it has planned around the pair,
    /// and 0 for pairs that are not listed.
    used_from: BTreeMap<Pair, Option<u32>>,
    /// How many faults have been news.
    news: usize,
    /// Why operations were given up, the one at work or later ones.
    given_up: BTreeMap<u32, String>,
}

impl Faults {
    /// Records that a rank is gone; returns whether that is news.
    pub fn lose(&mut self, rank: NodeId, by: NodeId, cause: &str) -> bool {
        let is_news = !self.gone.contains_key(&rank);
        self.news += usize::from(is_news);
        self.gone.entry(rank).or_insert_with(|| Report { by, cause: cause.to_owned() });
        is_news
    }

    /// Records that the connection of this life between two ranks is cut; returns whether that is news.
    pub fn cut(&mut self, rank: NodeId, by: NodeId, life: u32, cause: &str) -> bool {
        let is_news = !self.is_cut(rank, by, life);
        if is_news {
            let report = Report { by, cause: cause.to_owned() };
            self.cut.insert(pair(rank, by), Cut { rank, life, report });
            self.news += 1;
        }
        is_news
    }

    /// Returns whether the connection of this life between two ranks is cut.
    pub fn is_cut(&self, one: NodeId, other: NodeId, life: u32) -> bool {
        self.cut.get(&pair(one, other)).is_some_and(|cut| cut.life >= life)
    }

    /// Returns the life of the next connection between two ranks that were cut off from each other, if both are there.
    pub fn next_life(&self, one: NodeId, other: NodeId) -> Option<u32> {
        let is_gone = [one, other].iter().any(|rank| self.gone.contains_key(rank));
        self.cut.get(&pair(one, other)).filter(|_| !is_gone).and_then(|cut| cut.life.checked_add(1))
    }

    /// Records from which life on plans use the connections of these pairs, `None` if they use none; and that they may
    /// use those of all other pairs.
    pub fn use_from(&mut self, lives: &[(Pair, Option<u32>)]) {
        self.used_from = lives.iter().map(|&((a, b), life)| (pair(a, b), life)).collect();
    }

    /// Returns the life from which on plans use the connections of two ranks; `None` if they use none.
    pub fn first_used(&self, one: NodeId, other: NodeId) -> Option<u32> {
        self.used_from.get(&pair(one, other)).copied().unwrap_or(Some(0))
    }

    /// Returns whether plans use the connection of this life between two ranks.
    pub fn is_used(&self, one: NodeId, other: NodeId, life: u32) -> bool {
        self.first_used(one, other).is_some_and(|first| first <= life)
    }

    /// Records that a connection was made anew, which plans may use at once; returns its life.
    pub fn mend(&mut self, one: NodeId, other: NodeId) -> u32 {
        let Some(life) = self.next_life(one, other) else { return 0 };
        self.used_from.insert(pair(one, other), Some(life));
        life
    }

    /// Returns the failure with which every operation ends: a rank that is gone, or else a cut connection that the plan
    /// may use.
    pub fn failure(&self) -> Option<Failure> {
        let gone = self.gone.iter().next();
        let gone = gone.map(|(&rank, Report { by, cause })| Failure::Gone { rank, by: *by, cause: cause.clone() });
        gone.or_else(|| {
            let Cut { rank, report, .. } = &self.cut[self.pairs_to_avoid().first()?];
            Some(Failure::Cut { rank: *rank, by: report.by, cause: report.cause.clone() })
        })
    }

    /// Returns how many ranks and connections were lost.
    pub fn count(&self) -> usize {
        self.news
    }

    /// Returns the ranks that are gone.
    pub fn lost(&self) -> Vec<NodeId> {
        self.gone.keys().copied().collect()
    }

    /// Returns the cut pairs that the plan may still use.
    pub fn pairs_to_avoid(&self) -> Vec<Pair> {
        let is_used = |&(&(one, other), cut): &(&Pair, &Cut)| self.is_used(one, other, cut.life);
        self.cut.iter().filter(is_used).map(|(&pair, _)| pair).collect()
    }

    /// Returns the pairs whose connection is cut, or is not used since it was.
    pub fn cut_pairs(&self) -> Vec<Pair> {
        let is_cut =
            |&(&(one, other), cut): &(&Pair, &Cut)| self.first_used(one, other).is_none_or(|first| first <= cut.life);
        self.cut.iter().filter(is_cut).map(|(&pair, _)| pair).collect()
    }

    /// Returns the life of each pair's last connection that was cut.
    pub fn lives(&self) -> Vec<(Pair, u32)> {
        self.cut.iter().map(|(&pair, cut)| (pair, cut.life)).collect()
    }

    /// Records that operation `sequence` was given up.
    pub fn give_up(&mut self, sequence: u32, cause: String) {
        self.given_up.entry(sequence).or_insert(cause);
    }

    /// Returns why others have already given up operation `sequence`, which begins, if they have; forgets earlier
    /// operations.
    pub fn given_up(&mut self, sequence: u32) -> Option<String> {
        self.given_up = self.given_up.split_off(&sequence);
        self.given_up.remove(&sequence)
    }
}
