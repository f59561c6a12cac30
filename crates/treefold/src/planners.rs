//! Planners: functions that make a plan of an all-reduce for a topology, one file per algorithm.
//!
//! To add a planner, add a file with a function `plan`, and a line in [`PLANNERS`].

mod dbtree;
pub mod forest;
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
mod stripe;
pub mod surviving;
mod topoadopt;
mod tour;

use std::sync::Arc;

pub use options::{Heights, Options, Starts, TreeRate};

use crate::error::{Result, named};
use crate::misfit;
use crate::options::Options as _;
use crate::plan::{Chunk, Draft, Plan};
use crate::topology::Topology;

/// An algorithm that makes plans.
pub struct Planner {
    /// The name that papers use, in lower case.
    pub name: &'static str,
    /// A description in a few words.
    pub summary: &'static str,
    /// Whether switches reduce in its plans.
    pub in_network: bool,
    /// The function that makes a plan of an all-reduce, or returns why the algorithm does not fit the network and which
    /// one would.
    pub plan: fn(&Arc<Topology>, &Options) -> Result<Draft>,
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
    Planner { name: "ring", summary: "one ring, one direction", in_network: false, plan: ring::plan },
    Planner {
        name: "multiring",
        summary: "a ring in each direction; on 2-D tori two edge-disjoint Hamiltonian cycles in each direction",
        in_network: false,
        plan: multiring::plan,
    },
    Planner {
        name: "ring2d",
        summary: "rings along rows and columns, four at once",
        in_network: false,
        plan: ring2d::plan,
    },
    Planner { name: "dbtree", summary: "NCCL's double binary tree, streamed", in_network: false, plan: dbtree::plan },
    Planner {
        name: "halving-doubling",
        summary: "recursive halving and doubling",
        in_network: false,
        plan: halving_doubling::plan,
    },
    Planner {
        name: "hdrm",
        summary: "halving-doubling with ranks mapped to a BiGraph",
        in_network: false,
        plan: hdrm::plan,
    },
    Planner {
        name: "multitree",
        summary: "one tree for each rank, scheduled without contention",
        in_network: false,
        plan: multitree::plan,
    },
    Planner {
        name: "ps",
        summary: "one parameter server, to which all ranks send and which sends to all",
        in_network: false,
        plan: ps::plan,
    },
    Planner { name: "p2p", summary: "every rank sends its vector to every other", in_network: false, plan: p2p::plan },
    Planner {
        name: "psld",
        summary: "several parameter servers, each with a part of the vector in proportion to its bandwidth",
        in_network: false,
        plan: psld::plan,
    },
    Planner {
        name: "plink",
        summary: "two levels: groups of nearby ranks, each with an aggregator",
        in_network: false,
        plan: plink::plan,
    },
    Planner {
        name: "topoadopt",
        summary: "a few spanning trees and their shares, by simulated annealing",
        in_network: false,
        plan: topoadopt::plan,
    },
    Planner {
        name: "innet-pull",
        summary: "each rank pulls its part of the sum through switches that add it up",
        in_network: true,
        plan: in_network::pull,
    },
    Planner {
        name: "innet-push",
        summary: "each part of the vector goes to a home switch, which reduces and multicasts it",
        in_network: true,
        plan: in_network::push,
    },
];

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
    let plan = stripe::stripe((planner.plan)(topology, options)?);
    Ok(if options.pipeline { plan } else { unpipelined(plan) }.trusted())
}

/// Returns the plan with all streamed trees sending their parts whole.
fn unpipelined(mut plan: Draft) -> Draft {
    for phase in plan.phases.iter().filter(|phase| phase.pace.is_stream()) {
        plan.trees[phase.trees.clone()].iter_mut().for_each(|tree| tree.chunk = Chunk::One);
    }
    plan
}
