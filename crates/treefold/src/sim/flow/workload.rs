//! A plan as the event loop wants it: messages, and what they wait for.
//!
//! A *part* is an edge of a tree. A *message* is what travels together: in a step-paced phase all parts with the same
//! lane and step, in a stream one part, chunk after chunk. A *gate* stands wherever a tree goes on: it awaits a run of
//! parts (all children of a node, or the one part that delivered to it) and then releases a run of parts (the node's
//! own part up, or its children's parts down). Because chunks stay in order on every edge, gates and messages need
//! counters only, whatever the number of chunks: memory is linear in the plan's edges, 60 bytes each. The next phase
//! waits at *junctions* (`junctions.rs`), which take room for up to 32 grains of each message.

use std::ops::Range;

use super::junctions::{Junctions, Received};
use super::quantities::{Amount, Rate};
use crate::plan::schedule::Csr;
use crate::plan::sums::Sums;
use crate::plan::{Direction, Edge, LaneRef, LaneRoutes, Pace, Phase, Plan, Step, Tree, order_by_step, pipeline};
use crate::sim::numbers::numbers;
use crate::topology::{LinkId, NodeId};
use crate::units::Bytes;

numbers! {
    /// A message of a workload.
    MessageId;
    /// A gate of a workload.
    GateId;
}

/// What travels together.
pub(super) struct Message {
    pub lane: LaneRef,
    /// How many chunks follow each other.
    pub chunks: u32,
    /// Bytes of one chunk.
    pub bytes: Amount,
    /// The rate that it never exceeds; infinite unless its tree is paced.
    pub rate_limit: Rate,
    /// Its parts: `Workload::parts_of[parts]`.
    pub parts: Range<u32>,
    /// Its step; `None` in streams.
    pub step: Option<Step>,
    pub phase: u16,
    /// Whether every link of its route is a port on which it keeps order, and not only the first.
    pub all_links_are_ports: bool,
}

impl Message {
    /// Returns those links of its route on which it keeps order.
    pub fn ports<'a>(&self, route: &'a [LinkId]) -> &'a [LinkId] {
        match (self.step, self.all_links_are_ports) {
            (None, _) => &[],
            (_, true) => route,
            (_, false) => &route[..1],
        }
    }
}

/// An edge of a tree.
#[derive(Clone, Copy)]
pub(super) struct Part {
    /// The message that carries it.
    pub message: MessageId,
    /// The gate that it waits for, if it does.
    pub before: Option<GateId>,
    /// The gate that waits for it, if one does.
    pub after: Option<GateId>,
}

/// Where a tree goes on: parts that wait for others.
pub(super) struct Gate {
    pub awaits: Range<u32>,
    pub releases: Range<u32>,
}

/// A plan, compiled for one size.
#[derive(Default)]
pub(super) struct Workload {
    /// The messages, phase by phase and, where there are steps, step by step.
    pub messages: Vec<Message>,
    pub parts: Vec<Part>,
    pub gates: Vec<Gate>,
    /// Parts, message by message.
    pub parts_of: Vec<u32>,
    /// The messages of each port, in order of phases and steps; those of streams have no ports.
    pub on_port: Csr<MessageId>,
    pub junctions: Junctions,
    /// The halves of all trees, in the order of their parts.
    halves: Vec<TreeHalf>,
}

/// Half of a tree.
#[derive(Clone, Copy)]
pub(super) struct TreeHalf {
    first_part: u32,
    pub tree: u32,
    /// Whether it leads to the root.
    pub reduces: bool,
}

/// Builds the workload of `plan` for a vector of `size`.
pub(super) fn compile(plan: &Plan, routes: &LaneRoutes, size: Bytes) -> Workload {
    let mut workload = Workload::default();
    let mut received = Received::new(plan);
    for (number, phase) in (0..).zip(&plan.phases) {
        let first = workload.messages.len() as u32;
        let mut compiler = Compiler::new(plan, phase, number, &mut workload, size);
        match plan.equal_sums(phase) {
            Some(sums) => compiler.append_sums(&sums),
            None => compiler.append_trees(routes),
        }
        if plan.phases.len() > 1 && !plan.collective.is_personalized() {
            let last = workload.messages.len() as u32;
            received.join(plan, &mut workload, (first..last).map(MessageId::new));
        }
    }
    workload.on_port = workload.messages_of_ports(routes, plan.topology.links().len());
    workload.junctions.link(&workload.messages);
    workload
}

impl Workload {
    /// Returns the half to which the first part of `message` belongs.
    pub fn origin(&self, message: MessageId) -> TreeHalf {
        self.half_of(self.parts_of[self.messages[message].parts.start as usize])
    }

    /// Returns the trees of the parts of `message`.
    pub fn trees_of(&self, message: MessageId) -> impl Iterator<Item = u32> {
        let parts = &self.messages[message].parts;
        self.parts_of[parts.start as usize..parts.end as usize].iter().map(|&part| self.half_of(part).tree)
    }

    /// Returns the messages of several parts that the sender of `message` must take before it sends it.
    pub fn taken_before(&self, message: MessageId) -> Vec<MessageId> {
        let parts = &self.messages[message].parts;
        let parts = self.parts_of[parts.start as usize..parts.end as usize].iter().map(|&part| part as usize);
        let gates = parts.filter_map(|part| self.parts[part].before);
        let awaited = gates.flat_map(|gate| self.gates[gate].awaits.clone());
        let messages = awaited.map(|part| self.parts[part as usize].message);
        let mut messages: Vec<_> = messages.filter(|&message| self.messages[message].parts.len() > 1).collect();
        messages.sort_unstable();
        messages.dedup();
        messages
    }

    fn half_of(&self, part: u32) -> TreeHalf {
        self.halves[self.halves.partition_point(|half| half.first_part <= part) - 1]
    }

    /// Lists the messages of each port, in the order in which they stand.
    fn messages_of_ports(&self, routes: &LaneRoutes, links: usize) -> Csr<MessageId> {
        let ports = || self.messages.iter().map(|message| message.ports(routes.of(message.lane)));
        let mut first = vec![0u64; links + 1];
        ports().flatten().for_each(|port| first[port.index() + 1] += 1);
        (0..links).for_each(|link| first[link + 1] += first[link]);
        let (mut next, mut items) = (first.clone(), vec![MessageId::new(0); first[links] as usize]);
        for (number, ports) in (0..).zip(ports()) {
            for &port in ports {
                items[next[port.index()] as usize] = MessageId::new(number);
                next[port.index()] += 1;
            }
        }
        Csr { first, items }
    }
}

/// A phase that is appended to a workload.
struct Compiler<'a> {
    plan: &'a Plan,
    phase: &'a Phase,
    number: u16,
    size: Bytes,
    /// Bytes a second for each byte that an edge carries; infinite unless trees are paced.
    limit_per_byte: f64,
    workload: &'a mut Workload,
    /// The part that carries each node's partial sums up, or the result down to it, in the tree at hand.
    part_of_node: Vec<Option<u32>>,
}

impl<'a> Compiler<'a> {
    fn new(plan: &'a Plan, phase: &'a Phase, number: u16, workload: &'a mut Workload, size: Bytes) -> Self {
        let part_of_node = vec![None; plan.topology.nodes().len()];
        Self { plan, phase, number, size, limit_per_byte: f64::INFINITY, workload, part_of_node }
    }

    /// Returns the bytes that a tree carries.
    fn bytes_of(&self, tree: &Tree) -> f64 {
        self.size.get() as f64 / self.plan.units as f64 * tree.units() as f64
    }

    fn message(&self, lane: LaneRef, step: Option<Step>) -> Message {
        Message {
            lane,
            chunks: 1,
            bytes: Amount::ZERO,
            rate_limit: Rate(f64::INFINITY),
            parts: 0..0,
            step,
            phase: self.number,
            all_links_are_ports: self.phase.pace == Pace::Ordered,
        }
    }

    /// Appends the trees of the phase.
    fn append_trees(&mut self, routes: &LaneRoutes) {
        let (plan, phase) = (self.plan, self.phase);
        let chunks: Vec<u32> = match phase.pace.is_stream() {
            true => pipeline::pipelines(plan, phase, routes).iter().map(|tree| tree.chunks(self.size)).collect(),
            false => vec![1; phase.trees.len()],
        };
        if phase.pace == Pace::Paced {
            self.limit_per_byte = 1.0 / (self.size.get() as f64 * pipeline::busiest(plan, phase, routes));
        }
        let (first_message, first_part) = (self.workload.messages.len(), self.workload.parts.len());
        for (number, chunks) in phase.trees.clone().zip(chunks) {
            let tree = &plan.trees[number];
            if tree.units() > 0 {
                let chunk_bytes = Amount(self.bytes_of(tree) / f64::from(chunks));
                self.append_tree(number as u32, tree, chunks, chunk_bytes);
            }
        }
        if phase.pace.is_stream() {
            self.workload.parts_of.extend(first_part as u32..self.workload.parts.len() as u32);
        } else {
            self.join_messages(first_message, first_part);
        }
    }

    /// Appends the messages of a phase in which equal partial sums are sent once.
    fn append_sums(&mut self, sums: &Sums) {
        let mut numbers = vec![MessageId::new(0); sums.messages.len()];
        for id in sums.in_order() {
            let message = &sums.messages[id];
            let part = self.workload.parts.len() as u32;
            numbers[id] = MessageId::new(self.workload.messages.len() as u32);
            let bytes = Amount(self.bytes_of(&self.plan.trees[message.tree]));
            let parts = part..part + 1;
            let new = Message { bytes, parts, ..self.message(message.edge.lane, message.edge.step) };
            self.workload.halves.push(TreeHalf { first_part: part, tree: message.tree as u32, reduces: true });
            self.workload.parts.push(Part { message: numbers[id], before: None, after: None });
            self.workload.parts_of.push(part);
            self.workload.messages.push(new);
        }
        for (id, message) in (0..).zip(&sums.messages) {
            let awaited = sums.sums[message.sum].parts.iter().map(|&part| numbers[part]);
            self.workload.junctions.add(awaited, numbers[id as usize]);
        }
    }

    /// Appends parts, gates and, part by part, messages of one tree.
    fn append_tree(&mut self, number: u32, tree: &Tree, chunks: u32, bytes: Amount) {
        let first_up = self.workload.parts.len() as u32;
        let up = self.append_half(number, tree, Direction::Up, chunks, bytes);
        let first_down = self.workload.parts.len() as u32;
        self.part_of_node[tree.root] = None;
        for (run, parent) in sibling_runs(&up, first_up) {
            if let Some(own_part) = self.part_of_node[parent] {
                self.append_gate(run, own_part..own_part + 1);
            }
        }
        let down = self.append_half(number, tree, Direction::Down, chunks, bytes);
        self.part_of_node[tree.root] = None;
        let into_root = first_up..first_up + up.iter().take_while(|edge| edge.parent == tree.root).count() as u32;
        for (run, parent) in sibling_runs(&down, first_down) {
            let awaited = self.part_of_node[parent].map_or_else(|| into_root.clone(), |part| part..part + 1);
            if !awaited.is_empty() {
                self.append_gate(awaited, run);
            }
        }
    }

    /// Appends parts and messages of half a tree, and returns its edges.
    fn append_half(&mut self, number: u32, tree: &Tree, direction: Direction, chunks: u32, bytes: Amount) -> Vec<Edge> {
        let edges: Vec<Edge> = self.plan.half(self.phase, tree, direction).collect();
        let is_blocks = self.plan.collective.is_personalized();
        let blocks = if is_blocks { self.plan.shares_below(tree.root, &edges) } else { vec![1; edges.len()] };
        let reduces = direction == Direction::Up;
        let first_part = self.workload.parts.len() as u32;
        self.workload.halves.push(TreeHalf { first_part, tree: number, reduces });
        for (edge, blocks) in edges.iter().zip(blocks) {
            let part = self.workload.parts.len() as u32;
            self.part_of_node[edge.child] = Some(part);
            let message = MessageId::new(self.workload.messages.len() as u32);
            self.workload.parts.push(Part { message, before: None, after: None });
            let bytes = Amount(bytes.0 * blocks as f64);
            let rate_limit = Rate(bytes.0 * f64::from(chunks) * self.limit_per_byte);
            let parts = part..part + 1;
            let message = Message { chunks, bytes, rate_limit, parts, ..self.message(edge.lane, edge.step) };
            self.workload.messages.push(message);
        }
        edges
    }

    /// Appends a gate between two runs of parts.
    fn append_gate(&mut self, awaits: Range<u32>, releases: Range<u32>) {
        let gate = Some(GateId::new(self.workload.gates.len() as u32));
        let parts = &mut self.workload.parts;
        parts[awaits.start as usize..awaits.end as usize].iter_mut().for_each(|part| part.after = gate);
        parts[releases.start as usize..releases.end as usize].iter_mut().for_each(|part| part.before = gate);
        self.workload.gates.push(Gate { awaits, releases });
    }

    /// Brings the parts of each step and lane together, and puts messages in the order of their steps.
    fn join_messages(&mut self, first_message: usize, first_part: usize) {
        let single = self.workload.messages.split_off(first_message);
        let mut messages: Vec<Message> = Vec::with_capacity(single.len());
        let mut message_on_lane: Vec<Option<usize>> = vec![None; 2 * self.plan.lanes.len()];
        for &part in &order_by_step(single.iter().map(|message| message.step), self.phase.steps) {
            let Message { lane, bytes, step, .. } = single[part as usize];
            let same_step = message_on_lane[lane.index()].filter(|&message| messages[message].step == step);
            let place = same_step.unwrap_or_else(|| {
                messages.push(self.message(lane, step));
                messages.len() - 1
            });
            message_on_lane[lane.index()] = Some(place);
            messages[place].bytes += bytes;
            messages[place].parts.end += 1;
            self.workload.parts[first_part + part as usize].message = MessageId::new((first_message + place) as u32);
        }
        let mut end = first_part as u32;
        for message in &mut messages {
            let count = std::mem::replace(&mut message.parts, end..end).end;
            end += count;
        }
        let Workload { parts, parts_of, .. } = &mut *self.workload;
        parts_of.resize(parts.len(), 0);
        for (number, part) in (first_part as u32..).zip(&parts[first_part..]) {
            let places = &mut messages[part.message.index() - first_message].parts;
            parts_of[places.end as usize] = number;
            places.end += 1;
        }
        self.workload.messages.extend(messages);
    }
}

/// Lists the runs of edges with one parent, as parts counted from `first`, and that parent.
fn sibling_runs(edges: &[Edge], first: u32) -> Vec<(Range<u32>, NodeId)> {
    let mut start = first;
    let of_run = |run: &[Edge]| {
        let parts = start..start + run.len() as u32;
        start = parts.end;
        (parts, run[0].parent)
    };
    edges.chunk_by(|a, b| a.parent == b.parent).map(of_run).collect()
}
