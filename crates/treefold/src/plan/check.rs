//! The oracle: does a plan compute its collective, with what the switches can do and the links can carry?
//!
//! Structure: every half is a tree in breadth-first order whose routes are paths and whose steps rise in
//! the direction of the data; switches join or fan out only if they can; no link carries more messages in a
//! step than the plan promised. Contributions: every rank gets a random 64-bit weight; per elementary span,
//! the phases are replayed on sums of weights, so a missing or doubled contribution shows with certainty
//! 1 - 2^-64, and is then explained by exact counts. Cost: linear in edges (times the cuts a span has).
//!
//! What this cannot see (a lost dependency, a race between phases) is for [`super::check_schedule`].

use super::{Collective, Direction, Half, LaneId, LaneRef, LaneRoutes, Pace, Path, Phase, Plan, Tree, for_each_step};
use crate::bail;
use crate::error::{Error, Result};
use crate::random::Random;
use crate::topology::{Kind, LinkId, NodeId, Topology};

/// Proves that `plan` computes its collective.
///
/// # Errors
/// The first fault found: where, what, and what was expected.
pub fn check(plan: &Plan) -> Result<()> {
    if plan.units == 0 {
        bail!("the plan cuts the vector into 0 units; it needs at least 1");
    }
    if plan.collective.has_blocks() && plan.units % u64::from(plan.ranks()) != 0 {
        bail!("{} units do not divide into {} blocks, one a rank", plan.units, plan.ranks());
    }
    check_lanes(plan)?;
    for (number, phase) in plan.phases.iter().enumerate() {
        let at = |error: Error| if plan.phases.len() > 1 { error.at(format!("phase {}", number + 1)) } else { error };
        TreeChecker::new(plan, phase).check().map_err(at)?;
        check_contention(plan, phase).map_err(at)?;
    }
    match plan.collective {
        Collective::AllToAll => check_all_to_all(plan),
        _ => check_contributions(plan),
    }
}

fn name(topology: &Topology, node: NodeId) -> &str {
    &topology.node(node).name
}

/// Lanes end at nodes, and the links of those that list them form a path.
fn check_lanes(plan: &Plan) -> Result<()> {
    let topology = &plan.topology;
    for lane in 0..plan.lanes.len() as LaneId {
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
        Self { plan, phase, stamp: 0, seen: vec![0; nodes], order: vec![0; nodes], step: vec![0; nodes], children: vec![0; nodes] }
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
        let root = tree.root as usize;
        (self.seen[root], self.order[root], self.children[root]) = (self.stamp, 0, 0);
        (self.step[root], self.step[root]) = (0, 0);
        let (mut count, mut last_parent, mut at_root) = (1u32, 0u32, Vec::new());
        let mut members = vec![tree.root];
        for edge in plan.half(self.phase, tree, direction) {
            let (parent, child) = (edge.parent as usize, edge.child as usize);
            if self.seen[parent] != self.stamp {
                bail!("{} hangs from {}, which is not in the tree before it", name(topology, edge.child), name(topology, edge.parent));
            }
            if self.seen[child] == self.stamp {
                bail!("{} is reached twice", name(topology, edge.child));
            }
            if self.order[parent] < last_parent {
                bail!("edge {} - {} is out of breadth-first order", name(topology, edge.parent), name(topology, edge.child));
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
        let paced = self.phase.pace != Pace::Stream;
        Ok(match direction {
            Direction::Up => at_root.into_iter().max().unwrap_or(0),
            Direction::Down if paced => at_root.into_iter().min().unwrap_or(u16::MAX),
            Direction::Down => u16::MAX,
        })
    }

    fn check_reverse(&self, lane: LaneRef) -> Result<()> {
        let topology = &self.plan.topology;
        let one_way = |link: &&LinkId| topology.reverse(**link).is_none();
        match self.plan.lanes.links(lane.lane()).iter().find(one_way) {
            Some(&link) if lane.reversed() => {
                bail!("mirrors link {}, which has no other direction", topology.describe_link(link))
            }
            _ => Ok(()),
        }
    }

    /// Steps fall from the root outwards going up, rise going down, and lie within the phase.
    fn check_step(&self, edge: super::Edge, root: NodeId, direction: Direction) -> Result<()> {
        if self.phase.pace == Pace::Stream {
            return Ok(());
        }
        let (step, before) = (edge.step, self.step[edge.parent as usize]);
        let in_order = match direction {
            Direction::Up => edge.parent == root || step < before,
            Direction::Down => step > before,
        };
        if !in_order || step == 0 || step > self.phase.steps {
            let (source, target) = edge.ends(direction);
            let topology = &self.plan.topology;
            bail!("{} -> {} in step {step} does not fit the step {before} of the edge nearer to the root", name(topology, source), name(topology, target));
        }
        Ok(())
    }

    /// Ranks may do anything; a switch is never a leaf and needs the ability to join or fan out; others only relay.
    fn check_abilities(&self, members: &[NodeId], root: NodeId, direction: Direction) -> Result<()> {
        let topology = &self.plan.topology;
        for &member in members.iter().filter(|&&member| !topology.is_rank(member)) {
            let node = topology.node(member);
            let children = self.children[member as usize];
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

/// No link carries more messages in a step than it has units of bandwidth, where the phase promises so.
fn check_contention(plan: &Plan, phase: &Phase) -> Result<()> {
    let Pace::Step { unit: Some(unit) } = phase.pace else { return Ok(()) };
    let topology = &plan.topology;
    let routes = LaneRoutes::new(topology, &plan.lanes);
    let mut used = vec![(0u16, 0u64); topology.links().len()];
    let mut fault = None;
    for_each_step(plan, phase, |step, messages| {
        for &link in messages.iter().flat_map(|message| routes.of(message.lane)) {
            let slot = &mut used[link as usize];
            *slot = if slot.0 == step { (step, slot.1 + 1) } else { (step, 1) };
            if slot.1 > units_of_bandwidth(topology.link(link).bandwidth.0, unit.0) {
                fault.get_or_insert((link, step, slot.1 - 1));
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

/// Replays all phases for every elementary span and compares with what the collective promises.
fn check_contributions(plan: &Plan) -> Result<()> {
    let cuts = Cuts::new(plan);
    let mut random = Random::new(0x7ee_f01d);
    let weights: Vec<u64> = (0..plan.ranks()).map(|_| random.bits()).collect();
    let mut weighed = Replay::new(plan, |rank| weights[rank as usize], |sum: &u64, other: &u64| sum.wrapping_add(*other));
    for interval in 0..cuts.len() {
        let fault = weighed.run(&cuts, interval).and_then(|()| weighed.compare(&cuts, interval));
        if let Err(fault) = fault {
            return Err(explain(plan, &cuts, interval).unwrap_or(fault));
        }
    }
    Ok(())
}

/// The fault of `interval` in terms of ranks: who is missing, who is counted twice.
fn explain(plan: &Plan, cuts: &Cuts, interval: usize) -> Option<Error> {
    let count = plan.ranks() as usize;
    let alone = |rank: NodeId| (0..count).map(|other| u32::from(other == rank as usize)).collect::<Vec<u32>>();
    let add = |sum: &Vec<u32>, other: &Vec<u32>| sum.iter().zip(other).map(|(a, b)| a + b).collect();
    let mut counted = Replay::new(plan, alone, add);
    counted.run(cuts, interval).ok()?;
    let topology = &plan.topology;
    let span = cuts.describe(interval);
    for rank in 0..plan.ranks() {
        let Some(expected) = counted.expected(rank, cuts.start(interval)) else { continue };
        let got = counted.state[rank as usize].as_ref()?;
        for (other, (got, expected)) in got.iter().zip(&expected).enumerate() {
            if got != expected {
                let (rank, other) = (name(topology, rank), name(topology, other as NodeId));
                return Some(Error::new(format!("{span}: {rank} ends with {other}'s contribution {got} times instead of {expected}")));
            }
        }
    }
    None
}

/// The vector cut wherever any tree's span starts or ends, and the trees of each phase over each piece.
struct Cuts {
    at: Vec<u64>,
    /// `trees[phase][interval]`.
    trees: Vec<Vec<Vec<usize>>>,
}

impl Cuts {
    fn new(plan: &Plan) -> Self {
        let mut at = vec![0, plan.units];
        at.extend(plan.trees.iter().flat_map(|tree| [tree.span.start, tree.span.end]));
        if plan.collective.has_blocks() {
            let block = plan.units / u64::from(plan.ranks());
            at.extend((0..u64::from(plan.ranks())).map(|rank| rank * block));
        }
        at.sort_unstable();
        at.dedup();
        let find = |cut: u64| at.binary_search(&cut).expect("every span's ends are cuts");
        let trees_of = |phase: &Phase| {
            let mut over = vec![Vec::new(); at.len() - 1];
            for number in phase.trees.clone() {
                let span = &plan.trees[number].span;
                over[find(span.start)..find(span.end)].iter_mut().for_each(|trees| trees.push(number));
            }
            over
        };
        let trees = plan.phases.iter().map(trees_of).collect();
        Self { at, trees }
    }

    fn len(&self) -> usize {
        self.at.len() - 1
    }

    fn start(&self, interval: usize) -> u64 {
        self.at[interval]
    }

    fn describe(&self, interval: usize) -> String {
        format!("units {}..{}", self.at[interval], self.at[interval + 1])
    }
}

/// The state of every rank while the phases of a plan are replayed on values of type `V`.
struct Replay<'a, V, I, A> {
    plan: &'a Plan,
    own: I,
    add: A,
    state: Vec<Option<V>>,
}

impl<'a, V: Clone + PartialEq, I: Fn(NodeId) -> V, A: Fn(&V, &V) -> V> Replay<'a, V, I, A> {
    fn new(plan: &'a Plan, own: I, add: A) -> Self {
        Self { plan, own, add, state: vec![None; plan.topology.nodes().len()] }
    }

    /// Whether `rank` has something to give for the unit at `start` before the plan runs.
    fn starts_with(&self, rank: NodeId, start: u64) -> bool {
        match self.plan.collective {
            Collective::AllGather => self.block_owner(start) == rank,
            Collective::Broadcast => self.plan.trees.first().is_some_and(|tree| tree.root == rank),
            _ => true,
        }
    }

    fn block_owner(&self, start: u64) -> NodeId {
        (start / (self.plan.units / u64::from(self.plan.ranks()))) as NodeId
    }

    /// What `rank` must end with for the unit at `start`; `None` when anything will do.
    fn expected(&self, rank: NodeId, start: u64) -> Option<V> {
        let all = || {
            let others = (1..self.plan.ranks()).map(&self.own);
            others.fold((self.own)(0), |sum, other| (self.add)(&sum, &other))
        };
        let root = self.plan.trees.first().map_or(0, |tree| tree.root);
        match self.plan.collective {
            Collective::AllReduce | Collective::AllToAll => Some(all()),
            Collective::ReduceScatter => (self.block_owner(start) == rank).then(all),
            Collective::Reduce => (root == rank).then(all),
            Collective::AllGather => Some((self.own)(self.block_owner(start))),
            Collective::Broadcast => Some((self.own)(root)),
        }
    }

    fn run(&mut self, cuts: &Cuts, interval: usize) -> Result<()> {
        let start = cuts.start(interval);
        for node in 0..self.plan.topology.nodes().len() as NodeId {
            let has = self.plan.topology.is_rank(node) && self.starts_with(node, start);
            self.state[node as usize] = has.then(|| (self.own)(node));
        }
        for (phase, trees) in self.plan.phases.iter().zip(&cuts.trees) {
            self.run_phase(phase, &trees[interval]).map_err(|error| error.at(cuts.describe(interval)))?;
        }
        Ok(())
    }

    /// All trees read the state before the phase; a rank that sent and received nothing ends undefined.
    fn run_phase(&mut self, phase: &Phase, trees: &[usize]) -> Result<()> {
        let plan = self.plan;
        let mut received: Vec<(NodeId, V)> = Vec::new();
        let mut sent = Vec::new();
        for tree in trees.iter().map(|&number| &plan.trees[number]) {
            let result = self.reduce(phase, tree, &mut sent)?;
            if tree.up != Half::None {
                received.push((tree.root, result.clone()));
            }
            received.extend(plan.half(phase, tree, Direction::Down).map(|edge| (edge.child, result.clone())));
        }
        sent.iter().for_each(|&node: &NodeId| self.state[node as usize] = None);
        let mut by = vec![false; self.state.len()];
        for (node, value) in received.into_iter().filter(|(node, _)| plan.topology.is_rank(*node)) {
            if std::mem::replace(&mut by[node as usize], true) {
                bail!("{} receives from two trees in one phase", name(&plan.topology, node));
            }
            self.state[node as usize] = Some(value);
        }
        Ok(())
    }

    /// The value at the root once the reduce half has run.
    fn reduce(&self, phase: &Phase, tree: &Tree, sent: &mut Vec<NodeId>) -> Result<V> {
        let topology = &self.plan.topology;
        let contributors = self.plan.half(phase, tree, Direction::Up).map(|edge| edge.child);
        let mut sum: Option<V> = None;
        for node in std::iter::once(tree.root).chain(contributors).filter(|&node| topology.is_rank(node)) {
            if node != tree.root {
                sent.push(node);
            }
            let Some(value) = &self.state[node as usize] else {
                bail!("{} sends what it does not have", name(topology, node));
            };
            sum = Some(sum.map_or_else(|| value.clone(), |sum| (self.add)(&sum, value)));
        }
        match sum {
            Some(sum) => Ok(sum),
            None => bail!("the tree at {} has no rank that contributes", name(topology, tree.root)),
        }
    }

    fn compare(&self, cuts: &Cuts, interval: usize) -> Result<()> {
        let start = cuts.start(interval);
        // The all-reduce's expectation is the same everywhere: sum it once.
        let shared = (self.plan.collective == Collective::AllReduce).then(|| self.expected(0, start)).flatten();
        for rank in 0..self.plan.ranks() {
            let expected = shared.clone().or_else(|| self.expected(rank, start));
            let got = &self.state[rank as usize];
            if expected.is_some() && *got != expected {
                let what = if got.is_some() { "a wrong result" } else { "no result" };
                bail!("{}: {} ends with {what}", cuts.describe(interval), name(&self.plan.topology, rank));
            }
        }
        Ok(())
    }
}

/// Every rank's trees together carry each block's units exactly once to every other rank.
fn check_all_to_all(plan: &Plan) -> Result<()> {
    let block = plan.units / u64::from(plan.ranks());
    let topology = &plan.topology;
    let mut spans = vec![Vec::new(); topology.nodes().len()];
    for phase in &plan.phases {
        for tree in plan.trees_of(phase).iter().filter(|tree| tree.units() > 0) {
            let reached = plan.half(phase, tree, Direction::Down).filter(|edge| topology.is_rank(edge.child)).count() as u32 + 1;
            if reached != plan.ranks() {
                bail!("the tree at {} reaches {reached} of {} ranks", name(topology, tree.root), plan.ranks());
            }
            spans[tree.root as usize].push(tree.span.clone());
        }
    }
    for rank in 0..plan.ranks() {
        let spans = &mut spans[rank as usize];
        spans.sort_unstable_by_key(|span| (span.start, span.end));
        let end = spans.iter().try_fold(0, |at, span| (span.start == at).then_some(span.end));
        if end != Some(block) && plan.ranks() > 1 {
            bail!("the trees at {} do not carry each unit of its blocks exactly once", name(topology, rank));
        }
    }
    Ok(())
}
