//! The oracle: does a plan compute its collective, with what the switches can do and the links can carry?
//!
//! Structure: every half is a tree in breadth-first order whose routes are paths and whose steps rise in the direction
//! of the data; switches join or fan out only if they can; no link carries more messages in a step than the plan
//! promised. Contributions: every rank gets a random weight (see `weights.rs`); per elementary span, the phases are
//! replayed on sums of weights, so a missing or doubled contribution shows but for one chance in 2^60, whoever made the
//! plan, and is then explained by exact counts. Cost: linear in edges (times the cuts a span has).
//!
//! What this cannot see (a lost dependency, a race between phases) is for [`super::check_schedule`].

mod contributions;

use super::pipeline::check_chunks;
use super::{Direction, Half, LaneRef, LaneRoutes, Pace, Path, Phase, Plan, Sharing, Tree, for_each_step};
use crate::bail;
use crate::error::{Error, Result};
use crate::topology::{Kind, LinkId, NodeId, Topology};
use crate::units::Bytes;

/// Most phases of a plan: schedules number them compactly.
const MAX_PHASES: usize = u16::MAX as usize;
/// Most looks at nodes, links and lanes, once a phase: what takes a second.
const MAX_LOOKS: usize = 1 << 28;

/// Proves that `plan` computes its collective.
///
/// # Errors
/// The first fault found: where, what, and what was expected.
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// use treefold::plan::check::check;
/// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
/// let mut plan = planners::plan("ring", &ring, &Options::default())?;
/// check(&plan)?;
/// plan.trees[1].span = plan.trees[0].span.clone();
/// assert!(check(&plan).is_err(), "one part of the vector is summed twice, another not at all");
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn check(plan: &Plan) -> Result<()> {
    if plan.units == 0 {
        bail!("the plan cuts the vector into 0 units; it needs at least 1");
    }
    if plan.collective.has_blocks() && !plan.units.is_multiple_of(u64::from(plan.ranks())) {
        bail!("{} units do not divide into {} blocks, one a rank", plan.units, plan.ranks());
    }
    if plan.collective.has_root() && !plan.topology.is_rank(plan.root()) {
        let root = name(&plan.topology, plan.root());
        bail!("a {} needs a rank as root, {root} is none (the first tree says so)", plan.collective);
    }
    check_phases(plan)?;
    check_lanes(plan)?;
    for (number, phase) in plan.phases.iter().enumerate() {
        let at = |error: Error| if plan.phases.len() > 1 { error.at(format!("phase {}", number + 1)) } else { error };
        TreeChecker::new(plan, phase).check().map_err(at)?;
        check_contention(plan, phase).map_err(at)?;
    }
    check_chunks(plan, Bytes(0))?;
    match plan.collective.is_personalized() {
        true => contributions::check_personalized(plan),
        false => contributions::check_contributions(plan),
    }
}

/// Every phase costs at least a look at each node, link and lane.
fn check_phases(plan: &Plan) -> Result<()> {
    let (phases, topology) = (plan.phases.len(), &plan.topology);
    let most = MAX_PHASES.min(MAX_LOOKS / (topology.nodes().len() + topology.links().len() + plan.lanes.len()).max(1));
    if phases > most {
        bail!("{phases} phases are more than the {most} that treefold handles on a network of this size");
    }
    Ok(())
}

fn name(topology: &Topology, node: NodeId) -> &str {
    &topology.node(node).name
}

/// Lanes end at nodes, and the links of those that list them form a path.
fn check_lanes(plan: &Plan) -> Result<()> {
    let topology = &plan.topology;
    for lane in plan.lanes.ids() {
        let (source, target) = plan.lanes.ends(lane);
        if source == target {
            bail!("lane {lane} starts and ends at {}", name(topology, source));
        }
        if plan.lanes.path(lane) == Path::Routed {
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
            bail!("lane {lane} ends at {}, its links at {}", name(topology, target), name(topology, at));
        }
    }
    Ok(())
}

/// Checks the trees of one phase; its arrays are stamped with the tree so that they are cleared once only.
struct TreeChecker<'a> {
    plan: &'a Plan,
    phase: &'a Phase,
    stamp: u32,
    /// Stamp, position in breadth-first order and step of arrival of each node.
    seen: Vec<u32>,
    order: Vec<u32>,
    step: Vec<u16>,
    children: Vec<u32>,
}

impl<'a> TreeChecker<'a> {
    fn new(plan: &'a Plan, phase: &'a Phase) -> Self {
        let nodes = plan.topology.nodes().len();
        Self {
            plan,
            phase,
            stamp: 0,
            seen: vec![0; nodes],
            order: vec![0; nodes],
            step: vec![0; nodes],
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
        if last_up >= first_down {
            bail!("broadcasts in step {first_down} what is still being reduced in step {last_up}");
        }
        Ok(())
    }

    /// Returns the step of the root's last reduction, or of its first broadcast.
    fn check_half(&mut self, tree: &Tree, direction: Direction) -> Result<u16> {
        let (plan, topology) = (self.plan, &self.plan.topology);
        self.stamp += 1;
        let root = tree.root.index();
        (self.seen[root], self.order[root], self.children[root]) = (self.stamp, 0, 0);
        (self.step[root], self.step[root]) = (0, 0);
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
        let in_steps = !self.phase.pace.is_stream();
        Ok(match direction {
            Direction::Up => at_root.into_iter().max().unwrap_or(0),
            Direction::Down if in_steps => at_root.into_iter().min().unwrap_or(u16::MAX),
            Direction::Down => u16::MAX,
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

    /// Steps fall from the root outwards going up, rise going down, and lie within the phase.
    fn check_step(&self, edge: super::Edge, root: NodeId, direction: Direction) -> Result<()> {
        if self.phase.pace.is_stream() {
            if edge.step > 0 {
                bail!("an edge has step {}, but its phase is a stream, which has no steps", edge.step);
            }
            return Ok(());
        }
        let (step, before) = (edge.step, self.step[edge.parent]);
        let in_order = match direction {
            Direction::Up => edge.parent == root || step < before,
            Direction::Down => step > before,
        };
        if !in_order || step == 0 || step > self.phase.steps {
            let (source, target) = edge.ends(direction);
            let topology = &self.plan.topology;
            bail!(
                "{} -> {} in step {step} does not fit the step {before} of the edge nearer to the root",
                name(topology, source),
                name(topology, target)
            );
        }
        Ok(())
    }

    /// Ranks may do anything; a switch is never a leaf and needs the ability to join or fan out; others only relay.
    fn check_abilities(&self, members: &[NodeId], root: NodeId, direction: Direction) -> Result<()> {
        let topology = &self.plan.topology;
        for &member in members.iter().filter(|&&member| !topology.is_rank(member)) {
            let node = topology.node(member);
            let children = self.children[member];
            if node.kind == Kind::Accelerator {
                bail!("{} is no rank and only relays; it cannot be a tree node", node.name);
            }
            if children == 0 && member != root {
                bail!("switch {} is a leaf; leaves must be ranks", node.name);
            }
            if children > 1 && direction == Direction::Up && !node.reduces {
                bail!("switch {} joins {children} operands but cannot reduce", node.name);
            }
            if children > 1 && direction == Direction::Down && !node.multicasts {
                bail!("switch {} fans out to {children} but cannot multicast", node.name);
            }
        }
        Ok(())
    }
}

/// No link carries more in a step than the phase promises.
pub(crate) fn check_contention(plan: &Plan, phase: &Phase) -> Result<()> {
    let (unit, merged) = match phase.pace {
        Pace::Step(Sharing::Transfers(unit)) => (unit, false),
        Pace::Step(Sharing::Messages(unit)) => (unit, true),
        Pace::Step(Sharing::Shared) | Pace::Stream | Pace::Paced => return Ok(()),
    };
    let topology = &plan.topology;
    let routes = LaneRoutes::new(topology, &plan.lanes);
    let mut used = vec![(0u16, 0u64); topology.links().len()];
    let mut fault = None;
    for_each_step(plan, phase, |step, messages| {
        for message in messages {
            let count = if merged { 1 } else { u64::from(message.transfers) };
            for &link in routes.of(message.lane) {
                let slot = &mut used[link];
                *slot = if slot.0 == step { (step, slot.1 + count) } else { (step, count) };
                let room = units_of_bandwidth(topology.link(link).bandwidth.0, unit.0);
                if slot.1 > room {
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

/// How many messages of a step a link takes: its bandwidth in units, rounded down, at least one.
pub fn units_of_bandwidth(bandwidth: f64, unit: f64) -> u64 {
    ((bandwidth / unit * (1.0 + 1e-9)).floor() as u64).max(1)
}
