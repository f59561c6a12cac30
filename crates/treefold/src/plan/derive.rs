//! Plans for other collectives, derived from the trees of an all-reduce (MultiTree, VII-B).
//!
//! - A collective that adds up keeps the reduce halves of the trees, any other their broadcast halves. A collective
//!   with a root needs every tree rooted there; the others need trees rooted at the owner of each block. Where every
//!   rank is sent a block of its own (all-to-all), an edge carries only the blocks of the ranks below it.
//! - Where a plan's roots do not fit (ten trees for forty ranks), trees are *rerooted*: the new root's path to the old
//!   root along the reduce half replaces the edges into the path's nodes. That also works if links have one direction
//!   only, because each half is only walked in its own direction.

use super::{
    Chunk, Collective, Direction, Draft, Edge, Half, LaneId, MAX_UNITS, Pace, Phase, Plan, ReduceHalves, Step, Tree,
};
use crate::error::Result;
use crate::topology::{NodeId, Topology};
use crate::{bail, misfit};

/// Turns a plan of an all-reduce into one of another collective over the same trees. A collective without a root
/// ignores `root`.
///
/// # Errors
/// If the plan is not for an all-reduce, if its trees do not each reduce from and broadcast to all ranks (2D-ring
/// reduces in two phases, and peer-to-peer exchange broadcasts nothing), or if `root` is no rank.
///
/// ```
/// use std::sync::Arc;
/// use treefold::plan::check::check;
/// use treefold::plan::{Collective, derive};
/// use treefold::planners::{self, Options};
/// use treefold::topology::{NodeId, from_spec};
///
/// let mesh = Arc::new(from_spec("mesh:3x3", None, None)?);
/// let plan = planners::plan("multitree", &mesh, &Options::default())?;
/// let broadcast = derive(plan, Collective::Broadcast, NodeId(4))?;
/// check(&broadcast)?;
/// assert!(broadcast.trees.iter().all(|tree| tree.root == NodeId(4)));
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn derive(plan: Plan, collective: Collective, root: NodeId) -> Result<Plan> {
    if plan.collective != Collective::AllReduce {
        misfit!(
            "the plan is for {}; derive {collective} from an all-reduce's plan, whose trees have all halves",
            plan.collective
        );
    }
    if collective == Collective::AllReduce {
        return Ok(plan);
    }
    check_derivable(&plan, collective, root)?;
    let direction = if collective.reduces() { Direction::Up } else { Direction::Down };
    let ranks: Vec<NodeId> = plan.rank_ids().collect();
    let derived = match collective.has_root() {
        true => rerooted(&plan, collective, &[root], direction),
        false => blocks(&plan, collective, &ranks, direction),
    };
    Ok(derived.trusted())
}

/// Returns the reduce halves alone, which may end at different roots.
///
/// # Errors
/// If the plan has several phases, as then no half reduces the vector by itself.
pub(super) fn reduce_halves(plan: &Draft) -> Result<ReduceHalves> {
    let mut derived = empty_like(plan, Collective::Reduce, plan.units);
    let phase = match plan.phases.as_slice() {
        [] => return Ok(ReduceHalves::new(derived)),
        [phase] => phase,
        _ => misfit!("{} reduces in {} phases; it has no reduce half of its own", plan.algorithm, plan.phases.len()),
    };
    let mut trees = Vec::new();
    for tree in carrying(plan) {
        let edges: Vec<Edge> = plan.half(phase, tree, Direction::Up).collect();
        let edges = edges.into_iter();
        trees.push(one_half(plan, &mut derived, tree, tree.span.clone(), tree.root, edges, Direction::Up));
    }
    derived.push_phase(phase.pace, trees);
    Ok(ReduceHalves::new(derived))
}

fn check_derivable(plan: &Plan, collective: Collective, root: NodeId) -> Result<()> {
    let joins_all =
        |phase, tree| Direction::BOTH.iter().all(|&half| plan.ranks_joined(phase, tree, half) == plan.ranks());
    let of_phase = |phase| carrying(plan).all(|tree| joins_all(phase, tree));
    if plan.phases.len() > 1 || !plan.phases.iter().all(of_phase) {
        misfit!(
            "{} cannot do {collective}: its trees do not each reduce from and broadcast to all ranks; use forest, \
             which plans every collective",
            plan.algorithm
        );
    }
    if !plan.topology.is_rank(root) {
        bail!("root {root} does not exist: there are {} ranks, 0 to {}", plan.ranks(), plan.ranks() - 1);
    }
    if plan.units > MAX_UNITS / u64::from(plan.ranks()) {
        misfit!(
            "{} units for each of {} ranks are more than {MAX_UNITS}; cut the vector less often",
            plan.units,
            plan.ranks()
        );
    }
    Ok(())
}

/// Returns the trees that carry a part of the vector.
fn carrying(plan: &Draft) -> impl Iterator<Item = &Tree> {
    plan.trees.iter().filter(|tree| tree.units() > 0)
}

/// Derives a plan with a block for each rank. It has the plan's own trees if every rank is the root of an equal share,
/// or else rerooted ones.
fn blocks(plan: &Plan, collective: Collective, ranks: &[NodeId], direction: Direction) -> Draft {
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
    let mut next: Vec<u64> =
        ranks.iter().map(|&rank| if collective.is_personalized() { 0 } else { u64::from(rank) * block }).collect();
    let mut trees = Vec::new();
    for tree in carrying(plan) {
        let edges: Vec<Edge> = plan.half(phase, tree, direction).collect();
        let from_first = |(step, first): (Step, Step)| Step::new(step.get() - (first.get() - 1));
        let shifted =
            edges.into_iter().map(|edge| Edge { step: edge.step.zip(first_step).and_then(from_first), ..edge });
        let start = &mut next[tree.root];
        let span = *start..*start + tree.units();
        *start = span.end;
        trees.push(one_half(plan, &mut derived, tree, span, tree.root, shifted, direction));
    }
    derived.push_phase(phase.pace, trees);
    derived
}

/// Returns the first step in which `direction` sends anything, so that it can become step 1; streams have none.
fn first_step(plan: &Plan, phase: &Phase, direction: Direction) -> Option<Step> {
    let steps = plan.trees.iter().flat_map(|tree| plan.half(phase, tree, direction)).map(|edge| edge.step);
    steps.min().flatten()
}

/// Derives a streamed plan with every tree once for each of `roots`: over a block if the collective has blocks, or else
/// over the whole vector.
fn rerooted(plan: &Plan, collective: Collective, roots: &[NodeId], direction: Direction) -> Draft {
    let blocks = if collective.has_blocks() { u64::from(plan.ranks()) } else { 1 };
    let mut derived = empty_like(plan, collective, plan.units * blocks);
    let Some(phase) = plan.phases.first() else { return derived };
    let mut trees = Vec::new();
    for &root in roots {
        let is_cut = blocks > 1 && !collective.is_personalized();
        let offset = if is_cut { u64::from(root) * plan.units } else { 0 };
        for tree in carrying(plan) {
            let span = tree.span.start + offset..tree.span.end + offset;
            let edges = reroot(plan, phase, tree, root, direction);
            trees.push(one_half(plan, &mut derived, tree, span, root, edges.into_iter(), direction));
        }
    }
    // Trees that ran in steps are now streamed as is best; a plan that was streamed keeps its pace.
    derived.push_phase(if phase.pace.is_stream() { phase.pace } else { Pace::Stream }, trees);
    if !phase.pace.is_stream() {
        derived.trees.iter_mut().for_each(|tree| tree.chunk = Chunk::Best);
    }
    derived
}

fn empty_like(plan: &Draft, collective: Collective, units: u64) -> Draft {
    let purpose = plan.purpose.clone();
    Draft { collective, purpose, ..Draft::new(&plan.topology, plan.algorithm.clone(), units) }
}

/// Returns a tree with only this half, whose lanes are taken over from `plan`.
fn one_half(
    plan: &Draft,
    derived: &mut Draft,
    tree: &Tree,
    span: std::ops::Range<u64>,
    root: NodeId,
    edges: impl Iterator<Item = Edge>,
    direction: Direction,
) -> Tree {
    let topology = std::sync::Arc::clone(&derived.topology);
    let edges: Vec<(LaneId, Option<Step>)> = edges
        .map(|edge| {
            let lane = derived.lanes.adopt(&topology, &plan.lanes, edge.lane);
            (lane.expect("a plan only mirrors links that have a reverse"), edge.step)
        })
        .collect();
    let half = derived.own_half(edges);
    let (up, down) = if direction == Direction::Up { (half, Half::None) } else { (Half::None, half) };
    Tree { span, root, up, down, chunk: tree.chunk }
}

/// Returns the edges, breadth-first from `root`, of `tree` turned so that it grows from (or reduces into) `root`.
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
        // The walk goes from the new root to the old one, and turns each edge of the path around.
        into[edge.parent] = Some(Edge { parent: edge.child, child: edge.parent, ..edge });
        at = edge.parent;
    }
    breadth_first(&plan.topology, &into, root)
}

/// Lists the edges breadth-first, without switches that lead to no rank, as the old root's may.
fn breadth_first(topology: &Topology, into: &[Option<Edge>], root: NodeId) -> Vec<Edge> {
    let mut children: Vec<Vec<Edge>> = vec![Vec::new(); into.len()];
    for edge in into.iter().flatten() {
        children[edge.parent].push(Edge { step: None, ..*edge });
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
