//! Collectives, each defined by what ranks hold before and after it.
//!
//! Everything that depends on the collective follows from its definition: the proof of a plan, the buffers of a
//! schedule, a rank's part of a run, and busbw. To add a collective, add a variant to the enum and to
//! [`Collective::ALL`], and its definition.

use std::fmt;
use std::str::FromStr;

use super::Draft;
use crate::error::{Error, Result, named};

/// A collective, which a plan computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collective {
    /// Every rank ends with the sum of all vectors.
    AllReduce,
    /// Rank r ends with block r of the sum.
    ReduceScatter,
    /// Every rank ends with all blocks; rank r had block r.
    AllGather,
    /// Every rank ends with the root's vector.
    Broadcast,
    /// The root ends with the sum of all vectors.
    Reduce,
    /// Rank r ends with block r of every rank's vector.
    AllToAll,
}

/// The part of a vector that every rank holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Every rank holds a whole vector.
    Whole,
    /// Rank r holds block r.
    Block,
    /// The root holds a whole vector, and the other ranks hold nothing.
    AtRoot,
}

/// The definition of a collective: what ranks hold before and after it.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    /// The name by which users ask for it.
    pub name: &'static str,
    /// The part of a vector that each rank gives.
    pub before: Held,
    /// The part that each rank gets: of the sum if the collective reduces, or else of all that was given.
    pub after: Held,
    /// Whether the collective adds vectors up.
    pub reduces: bool,
}

impl Collective {
    /// All collectives.
    pub const ALL: [Self; 6] =
        [Self::AllReduce, Self::ReduceScatter, Self::AllGather, Self::Broadcast, Self::Reduce, Self::AllToAll];

    /// Returns what ranks hold before and after the collective.
    pub const fn definition(self) -> Definition {
        match self {
            Self::AllReduce => sum("all-reduce", Held::Whole, Held::Whole),
            Self::ReduceScatter => sum("reduce-scatter", Held::Whole, Held::Block),
            Self::AllGather => copy("all-gather", Held::Block, Held::Whole),
            Self::Broadcast => copy("broadcast", Held::AtRoot, Held::Whole),
            Self::Reduce => sum("reduce", Held::Whole, Held::AtRoot),
            Self::AllToAll => copy("all-to-all", Held::Whole, Held::Block),
        }
    }

    /// Returns whether the collective adds vectors up.
    ///
    /// ```
    /// use treefold::plan::Collective;
    ///
    /// assert!(Collective::Reduce.reduces() && !Collective::Broadcast.reduces());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn reduces(self) -> bool {
        self.definition().reduces
    }

    /// Returns whether ranks hold blocks of a vector before or after the collective.
    ///
    /// ```
    /// use treefold::plan::Collective;
    ///
    /// assert!(Collective::AllGather.has_blocks() && !Collective::AllReduce.has_blocks());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn has_blocks(self) -> bool {
        self.holds(Held::Block)
    }

    /// Returns whether the collective has a root, which gives or gets something else than the other ranks.
    ///
    /// ```
    /// use treefold::plan::Collective;
    ///
    /// assert!(Collective::Broadcast.has_root() && !Collective::AllGather.has_root());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn has_root(self) -> bool {
        self.holds(Held::AtRoot)
    }

    /// Returns whether each rank is sent a block of its own, so that vectors of different ranks never meet.
    pub fn is_personalized(self) -> bool {
        !self.reduces() && self.definition().after == Held::Block
    }

    fn holds(self, held: Held) -> bool {
        let Definition { before, after, .. } = self.definition();
        before == held || after == held
    }

    /// Returns the factor of nccl-tests from algbw to busbw for `ranks` ranks.
    ///
    /// ```
    /// use treefold::plan::Collective;
    ///
    /// assert_eq!(Collective::AllReduce.bus_factor(4), 1.5);
    /// assert_eq!(Collective::Broadcast.bus_factor(4), 1.0);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let part = f64::from(ranks.saturating_sub(1)) / f64::from(ranks);
        match (self.has_blocks(), self.has_root()) {
            (true, _) => part,
            (false, true) => 1.0,
            (false, false) => 2.0 * part,
        }
    }

    /// Returns how many units the spans of trees are cut from: those of the vector, or of a share of each block
    /// where each rank is sent its own.
    pub(super) fn units_of_a_tree(self, plan: &Draft) -> u64 {
        if self.is_personalized() { plan.units_of_a_share() } else { plan.units }
    }
}

const fn sum(name: &'static str, before: Held, after: Held) -> Definition {
    Definition { name, before, after, reduces: true }
}

const fn copy(name: &'static str, before: Held, after: Held) -> Definition {
    Definition { name, before, after, reduces: false }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.definition().name)
    }
}

impl FromStr for Collective {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        named("collective", text, &Self::ALL.map(|collective| (collective.definition().name, collective)))
    }
}
