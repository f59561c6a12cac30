//! Planners: functions that make a plan of an all-reduce for a topology, one file per algorithm.
//!
//! To add a planner, add a file with a function `plan`, and a line in [`PLANNERS`].

mod dbtree;
pub(crate) mod forest;
pub mod gost;
mod halving_doubling;
mod hdrm;
// The binding packs its trees, for a planner in Python.
#[doc(hidden)]
pub mod in_network;
mod multiring;
mod multitree;
pub mod options;
mod p2p;
pub mod packing;
mod plink;
mod ps;
mod psld;
mod ring;
mod ring2d;
mod routes;
pub mod spanning;
mod stripe;
pub mod surviving;
mod topoadopt;
mod tour;

use std::sync::Arc;

pub use options::{Heights, Options, Starts, TreeRate};

use crate::error::{Result, named};
use crate::options::Options as _;
use crate::plan::{Chunk, Draft, Plan, derive};
use crate::topology::Topology;
use crate::{bail, misfit};

/// An algorithm that makes plans.
pub struct Planner {
    /// The name that papers use, in lower case.
    pub name: &'static str,
    /// A description in a few words.
    pub summary: &'static str,
    /// The collectives that it plans.
    pub collectives: Collectives,
    /// Whether switches reduce in its plans.
    pub in_network: bool,
    /// The most ranks times links for which it takes seconds only; `auto` leaves it out on larger networks.
    pub most_work: usize,
    /// The function that makes a plan of an all-reduce, or of the collective that the options name, or returns why the
    /// algorithm does not fit the network and which one would. From a plan of an all-reduce others are derived.
    pub plan: Plans,
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

/// All algorithms of the core.
///
/// ```
/// use std::sync::Arc;
/// use treefold::planners::{Options, PLANNERS};
/// use treefold::topology::from_spec;
///
/// let line = Arc::new(from_spec("line:4", None, None)?);
/// let refuses = |name| PLANNERS.iter().any(|one| one.name == name && (one.plan)(&line, &Options::default()).is_err());
/// assert!(refuses("ring2d"), "a line has no rows and columns");
/// assert!(!refuses("ring"));
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub const PLANNERS: &[Planner] = &[
    planner("ring", "one ring, one direction", ring::plan),
    planner(
        "multiring",
        "a ring in each direction; on 2-D tori two edge-disjoint Hamiltonian cycles in each direction",
        multiring::plan,
    ),
    Planner {
        collectives: Collectives::AllReduce,
        ..planner("ring2d", "rings along rows and columns, four at once", ring2d::plan)
    },
    planner("dbtree", "NCCL's double binary tree, streamed", dbtree::plan),
    planner("halving-doubling", "recursive halving and doubling", halving_doubling::plan),
    planner("hdrm", "halving-doubling with ranks mapped to a BiGraph", hdrm::plan),
    planner("multitree", "one tree for each rank, scheduled without contention", multitree::plan),
    Planner {
        collectives: Collectives::Each,
        most_work: 300_000,
        ..planner("forest", "trees out of every rank at the best rate, with an order of messages", forest::plan)
    },
    planner("ps", "one parameter server, to which all ranks send and which sends to all", ps::plan),
    Planner {
        collectives: Collectives::AllReduce,
        ..planner("p2p", "every rank sends its vector to every other", p2p::plan)
    },
    planner(
        "psld",
        "several parameter servers, each with a part of the vector in proportion to its bandwidth",
        psld::plan,
    ),
    planner("plink", "two levels: groups of nearby ranks, each with an aggregator", plink::plan),
    planner("topoadopt", "a few spanning trees and their shares, by simulated annealing", topoadopt::plan),
    Planner {
        in_network: true,
        ..planner("innet-pull", "each rank pulls its part of the sum through switches that add it up", in_network::pull)
    },
    Planner {
        in_network: true,
        ..planner(
            "innet-push",
            "each part of the vector goes to a home switch, which reduces and multicasts it",
            in_network::push,
        )
    },
];

type Plans = fn(&Arc<Topology>, &Options) -> Result<Draft>;

/// Returns a planner of all-reduces, from which others are derived; it is quick on every network, and in its plans
/// switches only forward.
const fn planner(name: &'static str, summary: &'static str, plan: Plans) -> Planner {
    Planner { name, summary, collectives: Collectives::Derived, in_network: false, most_work: usize::MAX, plan }
}

impl Planner {
    /// Returns whether the planner takes seconds at most on a network.
    ///
    /// ```
    /// use treefold::planners::PLANNERS;
    /// use treefold::topology::from_spec;
    ///
    /// let forest = PLANNERS.iter().find(|planner| planner.name == "forest").expect("it is a planner");
    /// assert!(forest.is_quick(&from_spec("torus:8x8", None, None)?));
    /// assert!(!forest.is_quick(&from_spec("torus:32x32", None, None)?));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn is_quick(&self, topology: &Topology) -> bool {
        topology.ranks() as usize * topology.links().len() <= self.most_work
    }
}

/// The most ranks: one tree for each has a thousand million edges in all. More would not fit into memory, nor their
/// steps into 16 bits.
const MAX_RANKS: u32 = 1 << 14;

/// Makes a plan with the algorithm of this name.
///
/// # Errors
/// If the name is unknown, or the algorithm does not fit the network.
///
/// ```
/// use std::sync::Arc;
/// use treefold::planners::{self, Options};
/// use treefold::topology::from_spec;
///
/// let line = Arc::new(from_spec("line:4", None, None)?);
/// let plan = planners::plan("dbtree", &line, &Options::default())?;
/// assert_eq!(plan.trees.len(), 2);
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn plan(algorithm: &str, topology: &Arc<Topology>, options: &Options) -> Result<Plan> {
    let known: Vec<(&str, &Planner)> = PLANNERS.iter().map(|planner| (planner.name, planner)).collect();
    let planner = named("algorithm", algorithm, &known)?;
    if topology.ranks() > MAX_RANKS {
        misfit!(
            "{} ranks are more than the {MAX_RANKS} that treefold plans for; choose some of them",
            topology.ranks()
        );
    }
    options.check_ranges()?;
    if options.collective.has_root() && !topology.is_rank(options.root) {
        let (root, ranks) = (options.root, topology.ranks());
        bail!("root {root} does not exist: there are {ranks} ranks, 0 to {}", ranks - 1);
    }
    let plan = stripe::stripe((planner.plan)(topology, options)?);
    let plan = if options.pipeline { plan } else { unpipelined(plan) }.trusted();
    if plan.collective == options.collective { Ok(plan) } else { derive(plan, options.collective, options.root) }
}

/// Returns the plan with all streamed trees sending their parts whole.
fn unpipelined(mut plan: Draft) -> Draft {
    for phase in plan.phases.iter().filter(|phase| phase.pace.is_stream()) {
        plan.trees[phase.trees.clone()].iter_mut().for_each(|tree| tree.chunk = Chunk::One);
    }
    plan
}
