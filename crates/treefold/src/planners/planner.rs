//! What a planner is: its name, what it is said to be good for, and the function that plans.

use std::sync::Arc;

use super::{Listener, Options, Planned, options};
use crate::error::Result;
use crate::plan::Draft;
use crate::topology::Topology;

/// An algorithm that makes plans.
pub struct Planner {
    /// The name that papers use, in lower case.
    pub name: &'static str,
    /// A description in a few words.
    pub summary: &'static str,
    /// The paper or library that it follows; the head of its module cites it in full.
    pub source: &'static str,
    /// The networks that it fits, and what it is good for.
    pub fits: &'static str,
    /// What planning costs, in a few words; the head of its module says more.
    pub cost: &'static str,
    /// The collectives that it plans.
    pub collectives: Collectives,
    /// Whether switches reduce in its plans.
    pub in_network: bool,
    /// Whether it plans around what links share. Others at most choose among trees or plans by what that allows.
    pub keeps_shared: bool,
    /// Whether it reads by which simulator its plan will be judged: in the packet simulator's fabric no rank can relay.
    pub reads_simulator: bool,
    /// The most ranks times links for which it takes seconds only; `auto` leaves it out on larger networks.
    pub most_work: usize,
    /// What its `Proof::gap` means; `{}` stands for the gap in percent. It is empty if the planner proves nothing.
    pub gap: &'static str,
    pub(super) plan: Plans,
}

/// The function that makes a plan of an all-reduce, or of the collective that the options name, or returns why the
/// algorithm does not fit the network and which one would. From a plan of an all-reduce others are derived.
#[derive(Clone, Copy)]
pub(super) enum Plans {
    /// It makes a plan at once.
    Quick(fn(&Arc<Topology>, &Options) -> Result<Draft>),
    /// It makes a plan at once, but on some networks it tries what takes a while, and tells what it does then.
    Telling(fn(&Arc<Topology>, &Options, Listener) -> Result<Draft>),
    /// It takes a while, tells what it does, and proves how good the plan is. It plans all-reduces.
    Proven(fn(&Arc<Topology>, &Options, Listener) -> Result<Planned>),
}

/// The collectives that an algorithm plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collectives {
    /// All-reduces, and no other.
    AllReduce,
    /// All collectives: each is a part of its all-reduce, or its blocks travel along the same trees.
    Derived,
    /// All collectives: each has a plan of its own.
    Each,
}

impl Collectives {
    /// Returns a few words for tables.
    ///
    /// ```
    /// use treefold::planners::PLANNERS;
    ///
    /// let words = |name| PLANNERS.iter().find(|one| one.name == name).map(|planner| planner.collectives.words());
    /// assert_eq!((words("ring"), words("forest"), words("p2p")), (Some("all"), Some("each"), Some("all-reduce")));
    /// ```
    pub fn words(self) -> &'static str {
        match self {
            Self::AllReduce => "all-reduce",
            Self::Derived => "all",
            Self::Each => "each",
        }
    }
}

impl Planner {
    /// Returns whether `auto` asks the planner only if the plans of all others are more than 1 % above the bound, as it
    /// takes longest.
    pub(crate) fn is_costly(&self) -> bool {
        matches!(self.plan, Plans::Proven(_))
    }

    /// Returns the names of the options that are its own: `planners/options.rs` declares which planners read each.
    ///
    /// ```
    /// let options = |name| treefold::planners::planner_named(name).map(|planner| planner.options());
    /// assert_eq!(options("innet-push")?, ["pipeline", "route_by"]);
    /// assert!(options("ring")?.is_empty());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn options(&self) -> Vec<&'static str> {
        options::of(self.name).map(|(name, _)| name).collect()
    }

    /// Returns the names of those of its options that are limits, which it keeps.
    ///
    /// ```
    /// let limits = |name| treefold::planners::planner_named(name).map(|planner| planner.limits());
    /// assert_eq!((limits("forest")?, limits("blink")?), (vec!["steps"], vec!["trees"]));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn limits(&self) -> Vec<&'static str> {
        options::of(self.name).filter(|&(_, is_limit)| is_limit).map(|(name, _)| name).collect()
    }

    /// Returns whether the planner takes seconds at most on a network.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    ///
    /// let forest = treefold::planners::planner_named("forest")?;
    /// assert!(forest.is_quick(&from_spec("torus:8x8", None, None)?));
    /// assert!(!forest.is_quick(&from_spec("torus:32x32", None, None)?));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn is_quick(&self, topology: &Topology) -> bool {
        topology.ranks() as usize * topology.links().len() <= self.most_work
    }
}
