//! Planners: functions that make a plan for a topology, of an all-reduce or each collective, one file per algorithm.
//!
//! To add a planner, add a file with a function `plan`, and a line in [`PLANNERS`].

mod blink;
pub mod cheapest;
mod dbtree;
pub(crate) mod forest;
pub mod gost;
mod halving_doubling;
mod hdrm;
mod in_network;
mod innet;
mod mtree;
mod multiring;
mod multitree;
pub mod options;
mod p2p;
mod packing;
mod plink;
mod pool;
mod proof;
mod ps;
mod psld;
mod ring;
mod ring2d;
mod routes;
mod shares;
pub mod spanning;
mod stripe;
pub mod surviving;
mod topoadopt;
mod tour;

use std::sync::Arc;

pub use options::{Heights, Options, Starts, TreeRate};
pub use proof::Proof;

use crate::blocks::Blocks;
use crate::error::{Error, Result, named};
use crate::options::Options as _;
use crate::plan::{Chunk, Collective, Draft, Plan, derive};
use crate::topology::{NodeId, Topology};
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
    /// What its `Proof::gap` means; `{}` stands for the gap in percent. It is empty if the planner proves nothing.
    pub gap: &'static str,
    plan: Plans,
}

/// The function that makes a plan of an all-reduce, or of the collective that the options name, or returns why the
/// algorithm does not fit the network and which one would. From a plan of an all-reduce others are derived.
#[derive(Clone, Copy)]
enum Plans {
    /// It makes a plan at once.
    Quick(fn(&Arc<Topology>, &Options) -> Result<Draft>),
    /// It takes a while, tells what it does, and proves how good the plan is. It plans all-reduces.
    Proven(fn(&Arc<Topology>, &Options, Listener) -> Result<Planned>),
}

/// A function that long work tells what it does. If it returns false, the work ends with an error that is an
/// interruption.
pub type Listener<'a> = &'a mut dyn FnMut(&str) -> bool;

/// A draft, and what its planner proved.
struct Planned {
    draft: Draft,
    proof: Proof,
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
/// use treefold::planners::{self, Options, PLANNERS};
/// use treefold::topology::from_spec;
///
/// let line = Arc::new(from_spec("line:4", None, None)?);
/// let refuses = |name| planners::plan(name, &line, &Options::default()).is_err();
/// let names = PLANNERS.iter().map(|planner| planner.name);
/// assert_eq!(names.filter(|name| refuses(name)).next(), Some("ring2d"), "a line has no rows and columns");
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
        most_work: 1 << 20,
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
    Planner {
        most_work: 300_000,
        gap: "the bound is at most {} above this rate",
        ..proven(
            "packing",
            "spanning trees with the largest total rate, packed by column generation, streamed",
            packing::plan,
        )
    },
    Planner {
        in_network: true,
        gap: "the in-network bound is at most {} above this rate",
        ..proven(
            "innet",
            "trees of switches that reduce and multicast, packed by column generation, streamed",
            innet::plan,
        )
    },
    Planner {
        most_work: 300_000,
        gap: "the best choice of the trees that were grown is at most {} above this rate",
        ..proven(
            "mtree",
            "low spanning trees over links of high bandwidth, with shares by a branch and bound (MTree), streamed",
            mtree::plan,
        )
    },
    Planner {
        most_work: 30_000,
        gap: "at most {} of the trees might not be needed",
        ..proven(
            "blink",
            "the fewest trees of one root that together reach 95 % of that root's best rate (Blink), streamed",
            blink::plan,
        )
    },
];

/// Returns a planner of all-reduces that makes a plan at once.
const fn planner(
    name: &'static str,
    summary: &'static str,
    plan: fn(&Arc<Topology>, &Options) -> Result<Draft>,
) -> Planner {
    usual(name, summary, Plans::Quick(plan))
}

/// Returns a planner of all-reduces that needs linear programs and proves how good its plans are.
const fn proven(
    name: &'static str,
    summary: &'static str,
    plan: fn(&Arc<Topology>, &Options, Listener) -> Result<Planned>,
) -> Planner {
    usual(name, summary, Plans::Proven(plan))
}

/// Returns a planner with what is usual: it is quick on every network, and in its plans switches only forward.
const fn usual(name: &'static str, summary: &'static str, plan: Plans) -> Planner {
    let (collectives, in_network, most_work) = (Collectives::Derived, false, usize::MAX);
    Planner { name, summary, collectives, in_network, most_work, gap: "", plan }
}

impl Planner {
    /// Returns whether `auto` asks the planner only if the plans of all others are more than 1 % above the bound, as it
    /// takes longest.
    pub(crate) fn is_costly(&self) -> bool {
        matches!(self.plan, Plans::Proven(_))
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

/// The most ranks: one tree for each has a thousand million edges in all. More would not fit into memory, nor their
/// steps into 16 bits.
const MAX_RANKS: u32 = 1 << 14;

/// Returns the planner of this name.
///
/// # Errors
/// If the name is unknown.
///
/// ```
/// assert!(treefold::planners::planner_named("innet")?.in_network);
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn planner_named(algorithm: &str) -> Result<&'static Planner> {
    let known: Vec<(&str, &Planner)> = PLANNERS.iter().map(|planner| (planner.name, planner)).collect();
    named("algorithm", algorithm, &known)
}

/// Returns whether any switch of a network both reduces and multicasts.
///
/// ```
/// use treefold::{planners::is_fabric, topology::from_spec};
///
/// assert!(is_fabric(&from_spec("dgx2", None, None)?) && !is_fabric(&from_spec("ring:4", None, None)?));
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn is_fabric(topology: &Topology) -> bool {
    topology.node_ids().any(|node| !topology.is_rank(node) && in_network::is_able(topology, node))
}

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
    plan_with_proof(algorithm, topology, options, &mut |_| true).map(|(plan, _)| plan)
}

/// Makes a plan with the algorithm of this name, as [`plan`] does, and tells `listener` what it does. Returns the plan,
/// and what the planner proved about it.
///
/// # Errors
/// If the name is unknown, the algorithm does not fit the network, or `listener` returns false.
///
/// ```
/// use std::sync::Arc;
/// use treefold::planners::{self, Options};
/// use treefold::topology::from_spec;
///
/// let b4 = Arc::new(from_spec("b4", None, None)?);
/// let (_, proof) = planners::plan_with_proof("packing", &b4, &Options::default(), &mut |_| true)?;
/// assert!(proof.gap.is_some_and(|gap| gap < 1e-3));
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn plan_with_proof(
    algorithm: &str,
    topology: &Arc<Topology>,
    options: &Options,
    listener: Listener,
) -> Result<(Plan, Proof)> {
    let planner = planner_named(algorithm)?;
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
    if let Some(blocks) = &options.blocks {
        check_blocks(blocks, topology, options.collective)?;
    }
    let Planned { draft, proof } = match planner.plan {
        Plans::Quick(plan) => Planned { draft: stripe::stripe(plan(topology, options)?), proof: Proof::default() },
        Plans::Proven(_) if topology.ranks() == 1 => alone(algorithm, topology),
        Plans::Proven(plan) => {
            tell(listener, algorithm)?;
            plan(topology, options, listener)?
        }
    };
    let plan = if options.pipeline { draft } else { unpipelined(draft) }.trusted();
    if plan.collective == options.collective {
        let proof = proof.of(&plan);
        return Ok((plan, proof));
    }
    // What a planner proves of an all-reduce does not hold for what is derived from it.
    Ok((derived(plan, options)?, Proof::default()))
}

/// Derives the plan of the collective that the options name from that of an all-reduce.
fn derived(plan: Plan, options: &Options) -> Result<Plan> {
    let plan = derive(plan, options.collective, options.root)?;
    if plan.collective.is_personalized() { plan.with_blocks(options.blocks.clone()) } else { Ok(plan) }
}

/// Checks that blocks of these sizes suit the network and the collective.
fn check_blocks(blocks: &Blocks, topology: &Topology, collective: Collective) -> Result<()> {
    if !collective.is_personalized() {
        bail!("blocks have sizes in an all-to-all only; an {collective} needs none");
    }
    if blocks.ranks() != topology.ranks() {
        let (of, name, ranks) = (blocks.ranks(), topology.name(), topology.ranks());
        bail!("blocks are for {of} ranks, but {name} has {ranks}: give a row and a column for each rank");
    }
    Ok(())
}

/// Tells a listener what is done now.
pub(crate) fn tell(listener: Listener, task: &str) -> Result<()> {
    if listener(task) { Ok(()) } else { Err(Error::interrupted(format!("interrupted while planning ({task})"))) }
}

/// Returns the plan for a single rank: one tree, which sends nothing.
fn alone(algorithm: &str, topology: &Arc<Topology>) -> Planned {
    let tree = spanning::SpanningTree { root: NodeId(0), down: Vec::new(), up: None };
    let draft = spanning::plan(topology, algorithm, &[spanning::Rated { tree, rate: 1.0 }], Chunk::Best);
    Planned { draft, proof: Proof::default() }
}

/// Returns the plan with all streamed trees sending their parts whole.
fn unpipelined(mut plan: Draft) -> Draft {
    for phase in plan.phases.iter().filter(|phase| phase.pace.is_stream()) {
        plan.trees[phase.trees.clone()].iter_mut().for_each(|tree| tree.chunk = Chunk::One);
    }
    plan
}
