//! Planners: functions that make a plan for a topology, of an all-reduce or each collective, one file per algorithm.
//!
//! To add a planner, add a file with a function `plan`, and an entry in [`PLANNERS`] (`planners/table.rs`).

mod bine;
mod blink;
mod bruck;
mod bucket;
pub mod cheapest;
mod dbtree;
mod direct;
mod exchange;

pub(crate) mod forest;
pub mod gost;
mod groups;
mod halving_doubling;
mod hdrm;
mod hierarchical;
mod in_network;
mod innet;
mod mtree;
mod multiring;
mod multitree;
mod nccl;
pub mod options;
mod order;
mod ordering;
mod p2p;
mod packing;
mod pairwise;
mod pat;
mod planner;
mod plink;
mod pool;
mod proof;
mod ps;
mod psld;
mod recursive_doubling;
mod ring;
mod ring2d;
mod routes;
mod shares;
pub mod spanning;
mod stripe;
pub mod surviving;
mod swing;
mod table;
mod topoadopt;
mod tour;
mod ways;

use std::sync::Arc;

pub use options::{Heights, Level, Options, Starts, TreeRate};
use planner::Plans;
pub use planner::{Collectives, Planner};
pub use proof::Proof;
pub use table::{PLANNERS, planner_named};

use crate::blocks::Blocks;
use crate::bound::{self, CollectiveBounds, Kind};
use crate::error::{Error, Result};
use crate::options::Options as _;
use crate::plan::{Chunk, Collective, Draft, Plan, derive};
use crate::topology::{NodeId, Shape, Topology};
use crate::{bail, misfit};

/// A function that long work tells what it does. If it returns false, the work ends with an error that is an
/// interruption.
pub type Listener<'a> = &'a mut dyn FnMut(&str) -> bool;

/// A draft, and what its planner proved.
struct Planned {
    draft: Draft,
    proof: Proof,
}

/// The most ranks: one tree for each has a thousand million edges in all. More would not fit into memory, nor their
/// steps into 16 bits.
const MAX_RANKS: u32 = 1 << 14;

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

/// Returns what bounds the time of the collective that the options name, with its root or blocks.
///
/// ```
/// use std::sync::Arc;
/// use treefold::plan::Collective;
/// use treefold::planners::{Options, bounds_of};
/// use treefold::topology::from_spec;
/// use treefold::units::Bytes;
///
/// let torus = Arc::new(from_spec("torus:4x4", None, None)?);
/// let of = |collective| Options { collective, ..Options::default() };
/// let least = |collective| bounds_of(&torus, &of(collective)).seconds(Bytes::known(1 << 30));
/// assert!(least(Collective::AllGather) < least(Collective::AllReduce));
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn bounds_of(topology: &Arc<Topology>, options: &Options) -> Arc<CollectiveBounds> {
    let kind = match options.collective {
        Collective::AllReduce => return Arc::clone(&bound::kept(topology).of_sizes),
        Collective::AllGather => Kind::AllGather,
        Collective::ReduceScatter => Kind::ReduceScatter,
        Collective::Broadcast => Kind::Broadcast(options.root),
        Collective::Reduce => Kind::Reduce(options.root),
        Collective::AllToAll => Kind::AllToAll(options.blocks.clone()),
    };
    bound::of_collective(topology, kind)
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
        Plans::Telling(plan) => {
            Planned { draft: stripe::stripe(plan(topology, options, listener)?), proof: Proof::default() }
        }
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

/// Returns the sides of a grid whose nodes are all ranks, and whether it is closed to a torus.
fn grid_of_ranks(topology: &Topology) -> Option<(&[u32], bool)> {
    match topology.shape() {
        Shape::Grid { dims, wrap } if topology.is_direct() => Some((dims, *wrap)),
        _ => None,
    }
}

/// Returns the least common multiple; `None` if it is too large for a number.
fn lcm(a: u64, b: u64) -> Option<u64> {
    let gcd = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (a / gcd(a, b)).checked_mul(b)
}
