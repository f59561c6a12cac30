//! The faults that a rank knows of: ranks that are gone, connections that are cut, and operations that were given up.

use std::collections::{BTreeMap, BTreeSet};

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

/// All faults that a rank has noticed, or of which others have told it.
#[derive(Debug, Default)]
pub struct Faults {
    gone: BTreeMap<NodeId, Report>,
    /// The pairs whose connection is cut, each with the end that could not be reached. Both ends notice a cut, one
    /// after the other; the first report counts.
    cut: BTreeMap<Pair, (NodeId, Report)>,
    /// The cut pairs around which the layer above has planned.
    avoided: BTreeSet<Pair>,
    /// Why operations were given up, the one at work or later ones.
    given_up: BTreeMap<u32, String>,
}

impl Faults {
    /// Records that a rank is gone; returns whether that is news.
    pub fn lose(&mut self, rank: NodeId, by: NodeId, cause: &str) -> bool {
        let is_news = !self.gone.contains_key(&rank);
        self.gone.entry(rank).or_insert_with(|| Report { by, cause: cause.to_owned() });
        is_news
    }

    /// Records that the connection between two ranks is cut; returns whether that is news.
    pub fn cut(&mut self, rank: NodeId, by: NodeId, cause: &str) -> bool {
        let is_news = !self.is_cut(rank, by);
        self.cut.entry(pair(rank, by)).or_insert_with(|| (rank, Report { by, cause: cause.to_owned() }));
        is_news
    }

    /// Returns whether the connection between two ranks is cut.
    pub fn is_cut(&self, one: NodeId, other: NodeId) -> bool {
        self.cut.contains_key(&pair(one, other))
    }

    /// Records that the plan no longer uses the connections of these pairs.
    pub fn avoid(&mut self, pairs: &[Pair]) {
        self.avoided.extend(pairs.iter().map(|&(one, other)| pair(one, other)));
    }

    /// Records that the connection between two ranks works again.
    pub fn mend(&mut self, one: NodeId, other: NodeId) {
        self.cut.remove(&pair(one, other));
        self.avoided.remove(&pair(one, other));
    }

    /// Returns the failure with which every operation ends: a rank that is gone, or else a cut connection that the plan
    /// may use.
    pub fn failure(&self) -> Option<Failure> {
        let gone = self.gone.iter().next();
        let gone = gone.map(|(&rank, Report { by, cause })| Failure::Gone { rank, by: *by, cause: cause.clone() });
        gone.or_else(|| {
            let (rank, Report { by, cause }) = &self.cut[self.pairs_to_avoid().first()?];
            Some(Failure::Cut { rank: *rank, by: *by, cause: cause.clone() })
        })
    }

    /// Returns how many ranks and connections are known to be lost.
    pub fn count(&self) -> usize {
        self.gone.len() + self.cut.len()
    }

    /// Returns the ranks that are gone.
    pub fn lost(&self) -> Vec<NodeId> {
        self.gone.keys().copied().collect()
    }

    /// Returns the cut pairs that the plan may still use.
    pub fn pairs_to_avoid(&self) -> Vec<Pair> {
        self.cut.keys().filter(|pair| !self.avoided.contains(pair)).copied().collect()
    }

    /// Returns the pairs whose connection is cut.
    pub fn cut_pairs(&self) -> Vec<Pair> {
        self.cut.keys().copied().collect()
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
