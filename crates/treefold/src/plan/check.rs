//! The oracle, which proves that a plan computes its collective, with switches and links as they are.
//!
//! It proves two things. Structure: every half is a tree in breadth-first order whose routes are paths and whose steps
//! rise in the direction of the data; only switches that can reduce or multicast do so; no link carries more messages
//! in a step than the plan promises. Contributions: every rank gets a random weight (see `weights.rs`), and the phases
//! are replayed on sums of weights for each elementary span. A missing or doubled contribution stays unseen with a
//! probability of at most 2^-60, whoever made the plan, and exact counts then explain it. Cost: linear in the edges,
//! times the cuts that a span has.
//!
//! It cannot see a lost dependency or a race between phases; [`super::check_schedule`] does.

mod contributions;
mod references;

use super::pipeline::check_chunks;
use super::{
    Direction, Draft, Half, LaneRef, LaneRoutes, Pace, Phase, Routing, Sharing, Step, Tree, for_each_step, step_number,
};
use crate::bail;
use crate::error::{Error, Result};
use crate::topology::{LinkId, NodeId, Topology};
use crate::units::{Bandwidth, Bytes};

/// The most phases of a plan, which schedules number compactly.
const MAX_PHASES: usize = u16::MAX as usize;
/// The most visits of nodes, links and lanes, once a phase, which take a second.
const MAX_VISITS: usize = 1 << 28;

/// Proves that `plan` computes its collective.
///
/// # Errors
/// The first fault that is found: where it is, what it is, and what was expected.
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// use treefold::plan::Draft;
/// use treefold::plan::check::check;
/// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
/// let plan = planners::plan("ring", &ring, &Options::default())?;
/// check(&plan)?;
/// let mut draft = Draft::from(plan);
/// draft.trees[1].span = draft.trees[0].span.clone();
/// assert!(check(&draft).is_err(), "one part of the vector is summed twice, another not at all");
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn check(plan: &Draft) -> Result<()> {
    references::check_references(plan)?;
    if plan.units == 0 {
        bail!("the plan cuts the vector into 0 units; it needs at least 1");
    }
    check_blocks(plan)?;
    if plan.collective.has_root() && !plan.topology.is_rank(plan.root()) {
        let root = name(&plan.topology, plan.root());
        bail!("a {} needs a rank as its root, but the first tree has the root {root}, which is none", plan.collective);
    }
    check_phases(plan)?;
    check_lanes(plan)?;
    for (number, phase) in plan.phases.iter().enumerate() {
        let at = |error: Error| if plan.phases.len() > 1 { error.at(format!("phase {number}")) } else { error };
        TreeChecker::new(plan, phase).check().map_err(at)?;
        check_contention(plan, phase).map_err(at)?;
    }
    check_chunks(plan, Bytes::known(0))?;
    match plan.collective.is_personalized() {
        true => contributions::check_personalized(plan),
        false => contributions::check_contributions(plan),
    }
}

/// Checks that blocks consist of whole units, and that their sizes are given for an all-to-all of these ranks only.
fn check_blocks(plan: &Draft) -> Result<()> {
    let ranks = plan.ranks();
    if let Some(blocks) = &plan.blocks {
        if !plan.collective.is_personalized() || blocks.ranks() != ranks {
            let (collective, of) = (plan.collective, blocks.ranks());
            bail!("blocks of {of} ranks for each other do not suit an {collective} of {ranks} ranks");
        }
        if !plan.units.is_multiple_of(blocks.largest()) {
            bail!("{} units do not divide into {}, the shares of the largest vector", plan.units, blocks.largest());
        }
    } else if plan.collective.has_blocks() && !plan.units.is_multiple_of(u64::from(ranks)) {
        bail!("{} units do not divide into {ranks} blocks, one a rank", plan.units);
    }
    Ok(())
}

/// Checks that there are not too many phases, each of which costs a visit of each node, link and lane.
fn check_phases(plan: &Draft) -> Result<()> {
    let (phases, topology) = (plan.phases.len(), &plan.topology);
    let most = MAX_PHASES.min(MAX_VISITS / (topology.nodes().len() + topology.links().len() + plan.lanes.len()).max(1));
    if phases > most {
        bail!("{phases} phases are more than the {most} that treefold handles on a network of this size");
    }
    Ok(())
}

fn name(topology: &Topology, node: NodeId) -> &str {
    &topology.node(node).name
}

/// Checks that lanes have two ends, and that the links of those that list them form a path.
fn check_lanes(plan: &Draft) -> Result<()> {
    let topology = &plan.topology;
    for lane in plan.lanes.ids() {
        let (source, target) = plan.lanes.ends(lane);
        if source == target {
            bail!("lane {lane} starts and ends at {}", name(topology, source));
        }
        if plan.lanes.routing(lane) == Routing::Routed {
            continue;
        }
        let mut at = source;
        for &link in plan.lanes.links(lane) {
            if topology.link(link).source != at {
                bail!("lane {lane}: link {} does not start at {}", topology.describe_link(link), name(topology, at));
            }
            at = topology.link(link).target;
        }
        if at != target {
            bail!("lane {lane} ends at {}, but its links end at {}", name(topology, target), name(topology, at));
        }
    }
    Ok(())
}

/// Checks the trees of one phase. Its arrays are stamped with the number of the half at work, so that they are cleared
/// only once.
struct TreeChecker<'a> {
    plan: &'a Draft,
    phase: &'a Phase,
    stamp: u32,
    /// The half in which each node was met last.
    seen: Vec<u32>,
    /// The position of each node in breadth-first order.
    order: Vec<u32>,
    /// The step of the edge that leads to each node.
    step: Vec<Option<Step>>,
    /// How many children each node has.
    children: Vec<u32>,
}

impl<'a> TreeChecker<'a> {
    fn new(plan: &'a Draft, phase: &'a Phase) -> Self {
        let nodes = plan.topology.nodes().len();
        Self {
            plan,
            phase,
            stamp: 0,
            seen: vec![0; nodes],
            order: vec![0; nodes],
            step: vec![None; nodes],
            children: vec![0; nodes],
        }
    }

    fn check(mut self) -> Result<()> {
        for (number, tree) in self.plan.trees_of(self.phase).iter().enumerate() {
            let root = name(&self.plan.topology, tree.root);
            self.check_tree(tree).map_err(|error| error.at(format!("tree {number} (root {root})")))?;
        }
        Ok(())
    }

    fn check_tree(&mut self, tree: &Tree) -> Result<()> {
        let Tree { span, up, down, .. } = tree;
        let most = self.plan.collective.units_of_a_tree(self.plan);
        if span.start > span.end || span.end > most {
            bail!("its span {}..{} is not within 0..{most}", span.start, span.end);
        }
        if matches!((up, down), (Half::Mirror, Half::Mirror | Half::None) | (Half::None, Half::Mirror)) {
            bail!("a half mirrors a half that has no edges of its own");
        }
        let last_up = self.check_half(tree, Direction::Up)?;
        let first_down = self.check_half(tree, Direction::Down)?;
        if let (Some(last_up), Some(first_down)) = (last_up, first_down)
            && last_up >= first_down
        {
            bail!("it broadcasts in step {first_down}, but still reduces in step {last_up}");
        }
        Ok(())
    }

    /// Returns the step of the root's last reduction, or of its first broadcast; `None` if there is none, or no order
    /// to keep.
    fn check_half(&mut self, tree: &Tree, direction: Direction) -> Result<Option<Step>> {
        let (plan, topology) = (self.plan, &self.plan.topology);
        self.stamp += 1;
        let root = tree.root.index();
        (self.seen[root], self.order[root], self.children[root]) = (self.stamp, 0, 0);
        self.step[root] = None;
        let (mut count, mut last_parent, mut at_root) = (1u32, 0u32, Vec::new());
        let mut members = vec![tree.root];
        for edge in plan.half(self.phase, tree, direction) {
            let (parent, child) = (edge.parent.index(), edge.child.index());
            if self.seen[parent] != self.stamp {
                bail!(
                    "{} hangs from {}, which is not in the tree before it",
                    name(topology, edge.child),
                    name(topology, edge.parent)
                );
            }
            if self.seen[child] == self.stamp {
                bail!("{} is reached twice", name(topology, edge.child));
            }
            if self.order[parent] < last_parent {
                bail!(
                    "edge {} - {} is out of breadth-first order",
                    name(topology, edge.parent),
                    name(topology, edge.child)
                );
            }
            self.check_reverse(edge.lane)?;
            self.check_step(edge, tree.root, direction)?;
            if edge.parent == tree.root {
                at_root.push(edge.step);
            }
            (self.seen[child], self.order[child], self.children[child]) = (self.stamp, count, 0);
            self.step[child] = edge.step;
            self.children[parent] += 1;
            last_parent = self.order[parent];
            count += 1;
            members.push(edge.child);
        }
        self.check_abilities(&members, tree.root, direction)?;
        Ok(match direction {
            Direction::Up => at_root.into_iter().max().flatten(),
            Direction::Down => at_root.into_iter().min().flatten(),
        })
    }

    fn check_reverse(&self, lane: LaneRef) -> Result<()> {
        if !lane.reversed() {
            return Ok(());
        }
        let topology = &self.plan.topology;
        let one_way = |link: &&LinkId| topology.reverse(**link).is_none();
        if let Some(&link) = self.plan.lanes.links(lane.lane()).iter().find(one_way) {
            bail!("mirrors link {}, which has no other direction", topology.describe_link(link));
        }
        let (source, target) = self.plan.lanes.ends_of(lane);
        if !topology.reaches(source, target) {
            bail!(
                "mirrors a lane, but there is no route from {} to {}",
                name(topology, source),
                name(topology, target)
            );
        }
        Ok(())
    }

    /// Checks that steps fall from the root outwards going up, and rise going down.
    fn check_step(&self, edge: super::Edge, root: NodeId, direction: Direction) -> Result<()> {
        if self.phase.pace.is_stream() {
            if let Some(step) = edge.step {
                bail!("an edge has step {step}, but its phase is a stream, which has no steps");
            }
            return Ok(());
        }
        let (step, before) = (edge.step, self.step[edge.parent]);
        let in_order = match direction {
            Direction::Up => edge.parent == root || step < before,
            Direction::Down => step > before,
        };
        if !in_order || step.is_none() {
            let (source, target) = edge.ends(direction);
            let (topology, [step, before]) = (&self.plan.topology, [step, before].map(step_number));
            bail!(
                "{} -> {} in step {step} does not fit the step {before} of the edge nearer to the root",
                name(topology, source),
                name(topology, target)
            );
        }
        Ok(())
    }

    /// Checks that a switch is no leaf and can reduce or multicast where it has to, and that other nodes which are no
    /// ranks only forward.
    fn check_abilities(&self, members: &[NodeId], root: NodeId, direction: Direction) -> Result<()> {
        let topology = &self.plan.topology;
        for &member in members.iter().filter(|&&member| !topology.is_rank(member)) {
            let node = topology.node(member);
            let children = self.children[member];
            if !node.is_switch() {
                bail!("{} is no rank, and may only relay; it cannot be a tree node", node.name);
            }
            if children == 0 && member != root {
                bail!("switch {} is a leaf; leaves must be ranks", node.name);
            }
            if children > 1 && direction == Direction::Up && !node.reduces() {
                bail!("switch {} has to add {children} operands but cannot reduce", node.name);
            }
            if children > 1 && direction == Direction::Down && !node.multicasts() {
                bail!("switch {} has to send to {children} children but cannot multicast", node.name);
            }
        }
        Ok(())
    }
}

/// How many messages a link carries in the step in which it was used last.
#[derive(Clone, Copy)]
struct Used {
    step: Option<u16>,
    count: u64,
}

/// Checks that no link carries more in a step than the phase promises.
pub(crate) fn check_contention(plan: &Draft, phase: &Phase) -> Result<()> {
    let (slot, merged) = match phase.pace {
        Pace::Step(Sharing::Transfers(slot)) => (slot, false),
        Pace::Step(Sharing::Messages(slot)) => (slot, true),
        _ => return Ok(()),
    };
    let topology = &plan.topology;
    let routes = LaneRoutes::new(topology, &plan.lanes);
    let mut used = vec![Used { step: None, count: 0 }; topology.links().len()];
    let mut fault = None;
    for_each_step(plan, phase, |step, messages| {
        for message in messages {
            let count = if merged { 1 } else { u64::from(message.transfers) };
            for &link in routes.of(message.lane) {
                let here = &mut used[link];
                let before = if here.step == Some(step) { here.count } else { 0 };
                *here = Used { step: Some(step), count: before + count };
                let room = slots_of(topology.link(link).bandwidth, slot);
                if here.count > room {
                    fault.get_or_insert((link, step, room));
                }
            }
        }
    });
    match fault {
        None => Ok(()),
        Some((link, step, room)) => {
            bail!("link {} carries more than {room} message(s) in step {step}", topology.describe_link(link))
        }
    }
}

/// Returns how many messages a link takes in a step: its bandwidth in slots, rounded down, but at least one.
// Tests count with it what links may carry.
#[doc(hidden)]
pub fn slots_of(bandwidth: Bandwidth, slot: Bandwidth) -> u64 {
    ((bandwidth.bytes_per_second() / slot.bytes_per_second() * (1.0 + 1e-9)).floor() as u64).max(1)
}
