//! The other collectives, from the same trees (MultiTree, VII-B).
//!
//! - all-gather keeps the broadcast halves of the trees rooted at each block's owner, reduce-scatter the
//!   reduce halves; broadcast and reduce need every tree rooted at one rank; all-to-all sends along the
//!   all-gather's trees, where an edge carries only the blocks of the ranks below it.
//! - Where a plan's roots do not fit (ten trees for forty ranks), trees are *rerooted*: the new root's path
//!   to the old root along the reduce half replaces the edges into the path's nodes. That works on one-way
//!   links too, because each half is only walked in its own direction.

use std::fmt;
use std::str::FromStr;

use super::{Chunk, Direction, Edge, Half, LaneId, MAX_UNITS, Pace, Phase, Plan, Tree};
use crate::bail;
use crate::error::{Error, Result, named};
use crate::topology::{NodeId, Topology};

/// What a plan computes.
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
    /// Rank r ends with block r of every rank.
    AllToAll,
}

impl Collective {
    /// All of them, with their names.
    pub const NAMES: [(Self, &'static str); 6] = [
        (Self::AllReduce, "all-reduce"),
        (Self::ReduceScatter, "reduce-scatter"),
        (Self::AllGather, "all-gather"),
        (Self::Broadcast, "broadcast"),
        (Self::Reduce, "reduce"),
        (Self::AllToAll, "all-to-all"),
    ];

    /// nccl-tests' factor from algbw to busbw for `ranks` ranks.
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let part = f64::from(ranks.saturating_sub(1)) / f64::from(ranks);
        match self {
            Self::AllReduce => 2.0 * part,
            Self::ReduceScatter | Self::AllGather | Self::AllToAll => part,
            Self::Broadcast | Self::Reduce => 1.0,
        }
    }

    /// Whether results are owned block by block.
    pub(super) fn has_blocks(self) -> bool {
        matches!(self, Self::ReduceScatter | Self::AllGather | Self::AllToAll)
    }

    /// Whether one rank broadcasts, or gets the sum.
    pub fn has_root(self) -> bool {
        matches!(self, Self::Broadcast | Self::Reduce)
    }

    /// What the spans of trees are cut from: the vector, or for all-to-all one block of it.
    pub(super) fn units_of_a_tree(self, plan: &Plan) -> u64 {
        if self == Self::AllToAll { plan.units / u64::from(plan.ranks()) } else { plan.units }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name) = Self::NAMES.iter().find(|(collective, _)| collective == self).expect("all are listed");
        f.pad(name)
    }
}

impl FromStr for Collective {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        named("collective", text, &Self::NAMES.map(|(collective, name)| (name, collective)))
    }
}

/// Turns an all-reduce plan into another collective over the same trees. `root` is for broadcast and reduce.
///
/// # Errors
/// A plan whose trees do not each reduce from and broadcast to all ranks (2D-ring reduces in two phases, peer-to-peer
/// exchange broadcasts nothing), or a root that is no rank.
pub fn derive(plan: Plan, collective: Collective, root: NodeId) -> Result<Plan> {
    if collective == Collective::AllReduce {
        return Ok(plan);
    }
    check_derivable(&plan, collective, root)?;
    let ranks: Vec<NodeId> = plan.rank_ids().collect();
    let derived = match collective {
        Collective::AllReduce => plan,
        Collective::ReduceScatter => blocks(&plan, collective, &ranks, Direction::Up),
        Collective::AllGather | Collective::AllToAll => blocks(&plan, collective, &ranks, Direction::Down),
        Collective::Broadcast => rerooted(&plan, collective, &[root], Direction::Down),
        Collective::Reduce => rerooted(&plan, collective, &[root], Direction::Up),
    };
    Ok(derived)
}

/// The reduce halves alone, every tree into its own root: what the MTree paper simulates as its reduce. Where trees
/// have several roots the parts of the sum end in several places, so that [`super::check::check`] refuses it as a
/// reduce.
///
/// # Errors
/// A plan of several phases, where a half is no reduction of its own.
pub fn reduce_halves(plan: &Plan) -> Result<Plan> {
    let mut derived = empty_like(plan, Collective::Reduce, plan.units);
    let phase = match plan.phases.as_slice() {
        [] => return Ok(derived),
        [phase] => phase,
        _ => bail!("{} reduces in {} phases; it has no reduce half of its own", plan.algorithm, plan.phases.len()),
    };
    let mut trees = Vec::new();
    for tree in carrying(plan) {
        let edges: Vec<Edge> = plan.half(phase, tree, Direction::Up).collect();
        let edges = edges.into_iter();
        trees.push(one_half(plan, &mut derived, tree, tree.span.clone(), tree.root, edges, Direction::Up));
    }
    derived.push_phase(phase.pace, trees);
    Ok(derived)
}

fn check_derivable(plan: &Plan, collective: Collective, root: NodeId) -> Result<()> {
    let joins_all =
        |phase, tree| Direction::BOTH.iter().all(|&half| plan.ranks_joined(phase, tree, half) == plan.ranks());
    let of_phase = |phase| carrying(plan).all(|tree| joins_all(phase, tree));
    if plan.phases.len() > 1 || !plan.phases.iter().all(of_phase) {
        bail!(
            "{} cannot do {collective}: its trees do not each reduce from and broadcast to all ranks; use ring \
             or multitree",
            plan.algorithm
        );
    }
    if !plan.topology.is_rank(root) {
        bail!("root {root} does not exist: there are {} ranks, 0 to {}", plan.ranks(), plan.ranks() - 1);
    }
    if plan.units > MAX_UNITS / u64::from(plan.ranks()) {
        bail!(
            "{} units for each of {} ranks are more than {MAX_UNITS}; cut the vector less often",
            plan.units,
            plan.ranks()
        );
    }
    Ok(())
}

/// The trees that carry anything.
fn carrying(plan: &Plan) -> impl Iterator<Item = &Tree> {
    plan.trees.iter().filter(|tree| tree.units() > 0)
}

/// One block a rank: the plan's own trees where every rank is root of an equal share, else rerooted ones.
fn blocks(plan: &Plan, collective: Collective, ranks: &[NodeId], direction: Direction) -> Plan {
    let mut share = vec![0u64; plan.topology.nodes().len()];
    carrying(plan).for_each(|tree| share[tree.root] += tree.units());
    let (of_ranks, of_switches) = share.split_at(ranks.len());
    let is_fair = of_ranks.iter().all(|&units| units * ranks.len() as u64 == plan.units);
    if !is_fair || of_switches.iter().any(|&units| units > 0) {
        return rerooted(plan, collective, ranks, direction);
    }
    let mut derived = empty_like(plan, collective, plan.units);
    let Some(phase) = plan.phases.first() else { return derived };
    let block = derived.units / ranks.len() as u64;
    let first_step = first_step(plan, phase, direction);
    let mut next: Vec<u64> = ranks
        .iter()
        .map(|&rank| if collective == Collective::AllToAll { 0 } else { u64::from(rank) * block })
        .collect();
    let mut trees = Vec::new();
    for tree in carrying(plan) {
        let edges: Vec<Edge> = plan.half(phase, tree, direction).collect();
        let shifted = edges.into_iter().map(|edge| Edge { step: edge.step.saturating_sub(first_step - 1), ..edge });
        let start = &mut next[tree.root];
        let span = *start..*start + tree.units();
        *start = span.end;
        trees.push(one_half(plan, &mut derived, tree, span, tree.root, shifted, direction));
    }
    derived.push_phase(phase.pace, trees);
    derived
}

/// The first step in which `direction` sends anything, so that it can become step 1.
fn first_step(plan: &Plan, phase: &Phase, direction: Direction) -> u16 {
    let steps = plan.trees.iter().flat_map(|tree| plan.half(phase, tree, direction)).map(|edge| edge.step);
    steps.min().unwrap_or(1).max(1)
}

/// Every tree once for each of `roots`, streamed: with one root over the whole vector, with all over a block each.
fn rerooted(plan: &Plan, collective: Collective, roots: &[NodeId], direction: Direction) -> Plan {
    let mut derived = empty_like(plan, collective, plan.units * roots.len() as u64);
    let Some(phase) = plan.phases.first() else { return derived };
    let mut trees = Vec::new();
    for &root in roots {
        let offset =
            if collective == Collective::AllToAll || roots.len() == 1 { 0 } else { u64::from(root) * plan.units };
        for tree in carrying(plan) {
            let span = tree.span.start + offset..tree.span.end + offset;
            let edges = reroot(plan, phase, tree, root, direction);
            trees.push(one_half(plan, &mut derived, tree, span, root, edges.into_iter(), direction));
        }
    }
    // What took its turn in steps may stream as is best now; what streamed keeps its way.
    derived.push_phase(if phase.pace.is_stream() { phase.pace } else { Pace::Stream }, trees);
    if !phase.pace.is_stream() {
        derived.trees.iter_mut().for_each(|tree| tree.chunk = Chunk::Best);
    }
    derived
}

fn empty_like(plan: &Plan, collective: Collective, units: u64) -> Plan {
    let (size, judged_by) = (plan.size, plan.judged_by.clone());
    Plan { collective, size, judged_by, ..Plan::new(&plan.topology, plan.algorithm.clone(), units) }
}

/// A tree with only this half, its lanes taken over from `plan`.
fn one_half(
    plan: &Plan,
    derived: &mut Plan,
    tree: &Tree,
    span: std::ops::Range<u64>,
    root: NodeId,
    edges: impl Iterator<Item = Edge>,
    direction: Direction,
) -> Tree {
    let topology = std::sync::Arc::clone(&derived.topology);
    let edges: Vec<(LaneId, u16)> = edges
        .map(|edge| {
            let lane = derived.lanes.adopt(&topology, &plan.lanes, edge.lane);
            (lane.expect("a plan only mirrors links that have a reverse"), edge.step)
        })
        .collect();
    let half = derived.own_half(edges);
    let (up, down) = if direction == Direction::Up { (half, Half::None) } else { (Half::None, half) };
    Tree { span, root, up, down, chunk: tree.chunk }
}

/// The edges, breadth-first from `root`, of `tree` turned so that it grows from (or reduces into) `root`.
fn reroot(plan: &Plan, phase: &Phase, tree: &Tree, root: NodeId, direction: Direction) -> Vec<Edge> {
    let opposite = if direction == Direction::Up { Direction::Down } else { Direction::Up };
    let nodes = plan.topology.nodes().len();
    let mut towards_root: Vec<Option<Edge>> = vec![None; nodes];
    plan.half(phase, tree, opposite).for_each(|edge| towards_root[edge.child] = Some(edge));
    let mut into: Vec<Option<Edge>> = vec![None; nodes];
    plan.half(phase, tree, direction).for_each(|edge| into[edge.child] = Some(edge));
    into[root] = None;
    let mut at = root;
    while let Some(edge) = towards_root[at] {
        // Walking from the new root to the old one, each edge of the path now points the other way.
        into[edge.parent] = Some(Edge { parent: edge.child, child: edge.parent, ..edge });
        at = edge.parent;
    }
    breadth_first(&plan.topology, &into, root)
}

/// Without switches that lead to no rank, as the old root's may.
fn breadth_first(topology: &Topology, into: &[Option<Edge>], root: NodeId) -> Vec<Edge> {
    let mut children: Vec<Vec<Edge>> = vec![Vec::new(); into.len()];
    for edge in into.iter().flatten() {
        children[edge.parent].push(Edge { step: 0, ..*edge });
    }
    let mut edges: Vec<Edge> = children[root].clone();
    let mut next = 0;
    while next < edges.len() {
        let child = (edges[next].child).index();
        edges.extend_from_slice(&children[child]);
        next += 1;
    }
    let mut wanted: Vec<bool> = NodeId::first(into.len()).map(|node| topology.is_rank(node)).collect();
    edges.iter().rev().for_each(|edge| wanted[edge.parent] |= wanted[edge.child]);
    edges.retain(|edge| wanted[edge.child]);
    edges
}
