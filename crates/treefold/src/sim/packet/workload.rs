//! The workload of a machine: a plan's messages with their routes, what each rank sends in each step, and what that
//! waits for.

use std::collections::HashMap;
use std::ops::Range;

use super::machine::{Hop, InterfaceId, Machine, OutputId, whole_cycles};
use super::options::{FlowControl, Interfaces, Options};
use super::routes::routes;
use crate::error::Result;
use crate::ids::ids;
use crate::misfit;
use crate::plan::schedule::{Csr, Op, Schedule, TransferId};
use crate::plan::tables::{self, Entry, Opcode, Tables};
use crate::plan::{LaneRef, LaneRoutes, Plan};
use crate::random::Random;
use crate::sim::trace;
use crate::topology::{Kind, NodeId};
use crate::units::Bytes;

ids! {
    /// A message of a workload.
    MessageId;
}

/// Bytes of an element: float32.
pub const ELEMENT: u64 = 4;
/// Messages (payloads) above which the authors' simulator estimates a step by flits.
const ESTIMATED_IN_MESSAGES: u64 = 58;

/// The times at which a message's first and last flit left its sender, and at which it was received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// The cycle in which its first flit left.
    pub started: u64,
    /// The cycle in which its last flit left.
    pub sent: u64,
    /// The cycle in which its receiver knew it.
    pub received: u64,
}

/// A transfer as the network carries it.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Who sends it.
    pub source: NodeId,
    /// Who receives it.
    pub target: NodeId,
    /// Its lane.
    pub lane: LaneRef,
    /// Its routes, by their numbers in the workload; each of its packets takes one.
    pub routes: Range<u32>,
    /// Its tree.
    pub tree: u32,
    /// Its chunk of the tree's span.
    pub chunk: u32,
    /// Its phase.
    pub phase: u16,
    /// Its step of the phase, from 1; 0 in streams.
    pub phase_step: u16,
    /// Its step of the schedule tables, from 1, counted through all phases.
    pub step: u32,
    /// Rank among the channels of an input: lowest first.
    pub priority: u32,
    /// Bytes of payload.
    pub bytes: u64,
    /// Its packets.
    pub packets: u32,
    /// Payloads that the interface fetches one a cycle.
    pub payloads: u32,
    /// Flits of the last packet.
    pub last_flits: u32,
    /// Flits of every other packet.
    pub packet_flits: u32,
    /// Cycles in which the receiver adds it up; `None` if it replaces.
    pub aggregation: Option<u64>,
    /// Interface of the sender that it is bound to.
    pub injector: Option<InterfaceId>,
    /// Interface of the receiver at which it leaves the network.
    pub ejector: InterfaceId,
}

impl Message {
    /// Counts the flits of all its packets.
    pub fn flits(&self) -> u64 {
        u64::from(self.packets - 1) * u64::from(self.packet_flits) + u64::from(self.last_flits)
    }

    /// Makes the span that a trace shows.
    pub fn span(&self, times: Times, seconds: impl Fn(u64) -> f64) -> trace::Span {
        trace::Span {
            lane: self.lane,
            tree: self.tree,
            phase: self.phase,
            step: self.phase_step,
            chunk: self.chunk,
            reduces: self.aggregation.is_some(),
            bytes: self.bytes as f64,
            start: seconds(times.started),
            sent: seconds(times.sent),
            received: seconds(times.received),
        }
    }

    /// Counts the flits of packet `number`.
    pub fn flits_of(&self, number: u32) -> u32 {
        if number + 1 == self.packets { self.last_flits } else { self.packet_flits }
    }
}

/// A rank's messages of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// NOPs before it.
    pub nops: u32,
    /// Its messages, in the order in which they are tried.
    pub sends: Vec<MessageId>,
}

/// The workload of a machine.
#[derive(Debug, Default)]
pub struct Workload {
    /// All messages.
    pub messages: Vec<Message>,
    /// All routes.
    pub routes: Csr<Hop>,
    /// The steps of each rank.
    pub steps: Vec<Vec<Step>>,
    /// In streams: the message of the next chunk on the same edge of the tree, which is tried once this one is issued.
    pub next_chunk: Vec<Option<MessageId>>,
    /// How many receipts each message waits for.
    pub waits: Vec<u32>,
    /// The messages that wait for each message.
    pub releases: Csr<MessageId>,
    /// Whether a rank enters a step only when all its interfaces are free, and waits out NOPs.
    pub lockstep: bool,
    /// Cycles of a NOP.
    pub step_cycles: u64,
    /// Flits for which a virtual channel must have room to be allocated.
    pub packet_flits: u32,
    /// Virtual channels of every port.
    pub virtual_channels: u8,
}

impl Workload {
    /// Compiles `plan` for a vector of `size`.
    ///
    /// # Errors
    /// Routes need more virtual channels than there are, or there are more NOPs than tables hold.
    pub fn new(plan: &Plan, lanes: &LaneRoutes, size: Bytes, options: &Options, machine: &Machine) -> Result<Self> {
        let schedule = tables::lower_for_interfaces(plan, size.0.div_ceil(ELEMENT), ELEMENT)?;
        let lockstep = options.lockstep.unwrap_or_else(|| tables::lockstep(plan));
        let tables = Tables::new(plan, &schedule, ELEMENT, lockstep)?;
        let mut message_of = vec![None; schedule.len()];
        let mut messages = Vec::new();
        for id in schedule.ids().filter(|&id| schedule.op[id] != Op::Local) {
            message_of[id] = Some(MessageId::new(messages.len()));
            messages.push(message(plan, &schedule, id, options)?);
        }
        let routes = routes(plan, lanes, messages.iter().map(|message| message.lane), options, machine)?;
        messages.iter_mut().for_each(|message| message.routes = routes.of(message.lane));
        let mut workload = Self {
            routes: routes.hops,
            waits: vec![0; messages.len()],
            releases: Csr::default(),
            steps: Vec::with_capacity(tables.of_rank.len()),
            next_chunk: vec![None; messages.len()],
            lockstep,
            step_cycles: 0,
            packet_flits: options.packet_flits(),
            virtual_channels: options.virtual_channels as u8,
            messages,
        };
        let mut released: Vec<Vec<MessageId>> = vec![Vec::new(); workload.messages.len()];
        for table in &tables.of_rank {
            let steps = workload.steps_of(table, tables::lockstep(plan), &message_of, &mut released, options);
            let in_order = lockstep || tables::sub_flows(plan).is_some();
            let steps = if in_order { steps } else { workload.join_streams(plan, steps) };
            workload.steps.push(steps);
        }
        released.into_iter().for_each(|row| workload.releases.push_row(row));
        workload.bind(options, machine);
        workload.step_cycles = workload.estimate(options, machine);
        Ok(workload)
    }

    /// Returns for how many flits a virtual channel must have room before a packet of `flits` gets it.
    pub fn room(&self, flits: u32) -> u32 {
        flits.min(self.packet_flits)
    }

    /// Returns the route that packet `number` of a message takes. Among several a hash chooses, as routers draw lots:
    /// any pattern in the numbers of messages could send all packets of a lane the same way.
    pub fn route_of(&self, id: MessageId, number: u32) -> u32 {
        let Range { start, end } = self.messages[id].routes;
        if end - start == 1 {
            return start;
        }
        let lots = u64::from(id.0) << 32 | u64::from(number);
        start + Random::new(lots).below(u64::from(end - start)) as u32
    }

    /// Lists the steps of a rank's schedule table, and what their messages wait for.
    fn steps_of(
        &mut self,
        table: &[Entry],
        by_step: bool,
        message_of: &[Option<MessageId>],
        released: &mut [Vec<MessageId>],
        options: &Options,
    ) -> Vec<Step> {
        let id_of = |transfer: TransferId| message_of[transfer].expect("tables list no local copies");
        let mut steps: Vec<Step> = Vec::new();
        let (mut number, mut nops) = (0, 0);
        for entry in table {
            if entry.op == Opcode::Nop {
                nops += 1;
                continue;
            }
            if entry.step != number {
                number = entry.step;
                steps.push(Step { nops: std::mem::take(&mut nops), sends: Vec::new() });
            }
            let step = steps.last_mut().expect("a step was begun");
            for &send in &entry.sends {
                let id = id_of(send);
                let message = &mut self.messages[id];
                message.step = entry.step;
                message.priority = if by_step || entry.op == Opcode::Gather { entry.step } else { 0 };
                self.waits[id] = entry.waits.len() as u32;
                entry.waits.iter().for_each(|&wait| released[id_of(wait)].push(id));
                step.sends.push(id);
            }
        }
        if options.interfaces == Interfaces::Shared {
            for step in &mut steps {
                step.sends.sort_by_key(|&id| self.messages[id].tree);
            }
        }
        steps
    }

    /// Makes one step of the steps of a streamed phase: each edge sends its chunks in order, and none waits for
    /// another.
    fn join_streams(&mut self, plan: &Plan, steps: Vec<Step>) -> Vec<Step> {
        let mut joined: Vec<Step> = Vec::new();
        let mut last_of_edge: HashMap<(u32, LaneRef), MessageId> = HashMap::new();
        let mut stream = None;
        for step in steps {
            let phase = self.messages[step.sends[0]].phase;
            if !plan.phases[usize::from(phase)].pace.is_stream() {
                joined.push(step);
                continue;
            }
            if stream != Some(phase) {
                stream = Some(phase);
                joined.push(Step::default());
            }
            let first_chunks = &mut joined.last_mut().expect("a step was begun").sends;
            for id in step.sends {
                let Message { tree, lane, .. } = self.messages[id];
                match last_of_edge.insert((tree, lane), id) {
                    Some(before) => self.next_chunk[before] = Some(id),
                    None => first_chunks.push(id),
                }
            }
        }
        joined
    }

    /// Gives every message its interfaces.
    fn bind(&mut self, options: &Options, machine: &Machine) {
        let mut order: Vec<MessageId> = MessageId::first(self.messages.len()).collect();
        order.sort_by_key(|&id| {
            let message = &self.messages[id];
            (message.step, message.tree, id)
        });
        let mut turn: HashMap<(NodeId, u32), u32> = HashMap::new();
        for id in order {
            if options.interfaces == Interfaces::Bound {
                let route = self.route_of(id, 0);
                self.messages[id].routes = route..route + 1;
            }
            let message = &mut self.messages[id];
            let route = self.routes.row(message.routes.start as usize);
            let (source, target) = (&machine.nodes[message.source], &machine.nodes[message.target]);
            let port = machine.links[route[0].link].output;
            let bound = options.interfaces == Interfaces::Bound || !source.has_router;
            message.injector = bound.then_some(InterfaceId(port.0 % source.interfaces));
            message.ejector = if options.interfaces == Interfaces::Bound {
                InterfaceId(machine.links[route[route.len() - 1].link].input.0 % target.interfaces)
            } else {
                let turn = turn.entry((message.target, message.step)).or_default();
                *turn += 1;
                InterfaceId((*turn - 1) % target.interfaces)
            };
        }
    }

    /// Lists for each interface of `rank` the outputs that its messages may want first.
    pub fn feeds(&self, rank: NodeId, interfaces: u32) -> Vec<Vec<OutputId>> {
        let mut feeds = vec![Vec::new(); interfaces as usize];
        // Later chunks of a stream take the route of the first.
        for &id in self.steps[rank].iter().flat_map(|step| &step.sends) {
            let message = &self.messages[id];
            let of = |interface| message.injector.is_none_or(|bound| bound == interface);
            for interface in InterfaceId::first(interfaces as usize).filter(|&interface| of(interface)) {
                let feed: &mut Vec<OutputId> = &mut feeds[interface];
                for route in message.routes.clone() {
                    let output = self.routes.row(route as usize)[0].output;
                    if !feed.contains(&output) {
                        feed.push(output);
                    }
                }
            }
        }
        feeds
    }

    /// Estimates the cycles of a step as the interface does: by the paper's footnote 4, or by the authors' formula.
    fn estimate(&self, options: &Options, machine: &Machine) -> u64 {
        let Some(largest) = self.messages.iter().max_by_key(|message| message.flits()) else { return 0 };
        let interfaces = machine.nodes.iter().filter(|node| node.interfaces > 0);
        let buffer = interfaces.map(|node| node.interface_flits).max().unwrap_or(0);
        let (flits, payloads) = (largest.flits(), u64::from(largest.payloads));
        let cycles = match options.interfaces {
            Interfaces::Bound if flits <= buffer => flits,
            Interfaces::Bound => flits - buffer,
            Interfaces::Shared if payloads <= ESTIMATED_IN_MESSAGES => payloads,
            Interfaces::Shared => {
                let payload = options.payload().0 / options.flit.0;
                let each = payload + u64::from(options.flow_control == FlowControl::Packet);
                each * payloads - payload * ESTIMATED_IN_MESSAGES
            }
        };
        let slowest = self.routes.items.iter().map(|hop| machine.links[hop.link].flit).max().unwrap_or(0);
        whole_cycles(cycles.saturating_mul(slowest))
    }
}

/// Makes the message of transfer `id`, before it has steps and interfaces.
fn message(plan: &Plan, schedule: &Schedule, id: TransferId, options: &Options) -> Result<Message> {
    let lane = schedule.lane[id].expect("only local copies have no lane");
    let (source, target) = plan.lanes.ends_of(lane);
    let elements = schedule.elements_of(id);
    let bytes = elements * ELEMENT;
    let flits = bytes.div_ceil(options.flit.0).max(1);
    if flits >= u64::from(u32::MAX) {
        misfit!(
            "a message of {bytes} bytes has {flits} flits, and at most 2^32 can be counted; raise flit or lower \
             the size"
        );
    }
    let payloads = bytes.div_ceil(options.payload().0).max(1) as u32;
    let (packets, packet_flits, last_flits) = match options.flow_control {
        FlowControl::Message => (1, 1 + flits as u32, 1 + flits as u32),
        FlowControl::Packet => {
            let packet_flits = options.packet_flits();
            let full = u64::from(payloads - 1) * u64::from(packet_flits - 1);
            (payloads, packet_flits, 1 + (flits - full) as u32)
        }
    };
    Ok(Message {
        source,
        target,
        lane,
        routes: 0..0,
        tree: schedule.tree[id],
        chunk: schedule.chunk[id],
        phase: schedule.phase[id],
        phase_step: schedule.step[id],
        step: 0,
        priority: 0,
        bytes,
        packets,
        payloads,
        last_flits,
        packet_flits,
        aggregation: (schedule.op[id] == Op::Reduce).then(|| options.aggregation_cycles(elements)),
        injector: None,
        ejector: InterfaceId(0),
    })
}

/// Finds a switch that is more than a place on a route.
pub fn switch_in_trees(plan: &Plan) -> Option<NodeId> {
    let ends = plan.edges.lane.iter().flat_map(|&lane| <[NodeId; 2]>::from(plan.lanes.ends(lane)));
    ends.into_iter().find(|&node| plan.topology.node(node).kind == Kind::Switch)
}
