//! One phase of a plan as the event loop wants it: messages, and the gates between them.
//!
//! A *part* is an edge of a tree. A *message* is what travels together: in a step-paced phase all parts with the same
//! lane and step, in a stream one part, chunk after chunk. A *gate* stands wherever a tree goes on: it awaits a run of
//! parts (all children of a node, or the one part that delivered to it) and then releases a run of parts (the node's
//! own part up, or its children's parts down). Because chunks stay in order on every edge, gates and messages need
//! counters only, whatever the number of chunks: memory is linear in the plan's edges, 60 bytes each.

use std::ops::Range;

use super::quantities::{Amount, Rate};
use crate::plan::schedule::Csr;
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

/// A phase, compiled for one size.
#[derive(Default)]
pub(super) struct Workload {
    pub messages: Vec<Message>,
    pub parts: Vec<Part>,
    pub gates: Vec<Gate>,
    /// Parts, message by message.
    pub parts_of: Vec<u32>,
    /// The messages of each port, in order of steps; in streams there are no ports.
    pub on_port: Csr<MessageId>,
    /// Whether every link of a route is a port, and not only the first.
    pub all_links_are_ports: bool,
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

/// Builds the workload of `phase` for a vector of `size`.
pub(super) fn compile(plan: &Plan, phase: &Phase, routes: &LaneRoutes, size: Bytes) -> Workload {
    let mut compiler = Compiler::new(plan, phase);
    let chunks: Vec<u32> = match phase.pace.is_stream() {
        true => pipeline::pipelines(plan, phase, routes).iter().map(|tree| tree.chunks(size)).collect(),
        false => vec![1; phase.trees.len()],
    };
    if phase.pace == Pace::Paced {
        compiler.limit_per_byte = 1.0 / (size.get() as f64 * pipeline::busiest(plan, phase, routes));
    }
    let bytes_per_unit = size.get() as f64 / plan.units as f64;
    for (number, chunks) in phase.trees.clone().zip(chunks) {
        let tree = &plan.trees[number];
        if tree.units() > 0 {
            let chunk_bytes = Amount(bytes_per_unit * tree.units() as f64 / f64::from(chunks));
            compiler.append_tree(number as u32, tree, chunks, chunk_bytes);
        }
    }
    if phase.pace.is_stream() {
        compiler.workload.parts_of = (0..compiler.workload.parts.len() as u32).collect();
    } else {
        compiler.messages_of_steps(routes);
    }
    compiler.workload
}

impl Workload {
    /// Returns the half to which the first part of `message` belongs.
    pub fn origin(&self, message: MessageId) -> TreeHalf {
        let part = self.parts_of[self.messages[message].parts.start as usize];
        self.halves[self.halves.partition_point(|half| half.first_part <= part) - 1]
    }

    /// Returns those links of a message's route on which it keeps order.
    pub fn ports<'a>(&self, route: &'a [LinkId]) -> &'a [LinkId] {
        if self.all_links_are_ports { route } else { &route[..1] }
    }

    /// Lists the messages of each port, in the order in which they stand.
    fn messages_of_ports(&self, routes: &LaneRoutes, links: usize) -> Csr<MessageId> {
        let ports = || self.messages.iter().map(|message| self.ports(routes.of(message.lane)));
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

struct Compiler<'a> {
    plan: &'a Plan,
    phase: &'a Phase,
    /// Bytes a second for each byte that an edge carries; infinite unless trees are paced.
    limit_per_byte: f64,
    workload: Workload,
    /// The part that carries each node's partial sums up, or the result down to it, in the tree at hand.
    part_of_node: Vec<Option<u32>>,
}

impl<'a> Compiler<'a> {
    fn new(plan: &'a Plan, phase: &'a Phase) -> Self {
        let part_of_node = vec![None; plan.topology.nodes().len()];
        Self { plan, phase, limit_per_byte: f64::INFINITY, workload: Workload::default(), part_of_node }
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
            self.workload.parts.push(Part { message: MessageId::new(part), before: None, after: None });
            let bytes = Amount(bytes.0 * blocks as f64);
            let (lane, step) = (edge.lane, edge.step);
            self.workload.messages.push(Message {
                lane,
                chunks,
                bytes,
                rate_limit: Rate(bytes.0 * f64::from(chunks) * self.limit_per_byte),
                parts: part..part + 1,
                step,
            });
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

    /// Brings the parts of each step and lane together, and puts the messages of each port in order of their steps.
    fn messages_of_steps(&mut self, routes: &LaneRoutes) {
        let Workload { messages: single, parts, parts_of, .. } = &mut self.workload;
        let mut messages: Vec<Message> = Vec::with_capacity(single.len());
        let mut message_on_lane: Vec<Option<MessageId>> = vec![None; 2 * self.plan.lanes.len()];
        for &part in &order_by_step(single.iter().map(|message| message.step), self.phase.steps) {
            let Message { lane, bytes, step, .. } = single[part as usize];
            let same_step = message_on_lane[lane.index()].filter(|&message| messages[message].step == step);
            let id = same_step.unwrap_or_else(|| {
                let (bytes, rate_limit) = (Amount::ZERO, Rate(f64::INFINITY));
                messages.push(Message { lane, chunks: 1, bytes, rate_limit, parts: 0..0, step });
                MessageId::new(messages.len() as u32 - 1)
            });
            message_on_lane[lane.index()] = Some(id);
            let message = &mut messages[id];
            message.bytes += bytes;
            message.parts.end += 1;
            parts[part as usize].message = id;
        }
        let mut end = 0;
        for message in &mut messages {
            let count = std::mem::replace(&mut message.parts, end..end).end;
            end += count;
        }
        *parts_of = vec![0; parts.len()];
        for (number, part) in (0..).zip(parts.iter()) {
            let places = &mut messages[part.message].parts;
            parts_of[places.end as usize] = number;
            places.end += 1;
        }
        *single = messages;
        self.workload.all_links_are_ports = self.phase.pace == Pace::Ordered;
        self.workload.on_port = self.workload.messages_of_ports(routes, self.plan.topology.links().len());
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
