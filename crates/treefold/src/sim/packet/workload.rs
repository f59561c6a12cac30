//! The workload of a machine: a plan's messages with their routes, what each rank sends in each step, and what that
//! waits for.

use std::collections::HashMap;
use std::iter::successors;
use std::ops::Range;

use super::machine::{Hop, InterfaceId, Machine, OutputId, whole_cycles};
pub use super::message::{Message, Part, Times};
use super::message::{Place, message};
use super::options::{FlowControl, Interfaces, Options};
use super::routes::{Lists, push_routes, routes};
use crate::error::Result;
use crate::ids::ids;
use crate::plan::schedule::{Csr, TransferId};
use crate::plan::tables::{self, Entry, Opcode, Tables};
use crate::plan::{LaneRef, Pace, Plan};
use crate::sim::background::Pairs;
use crate::sim::jobs::Placed;
use crate::topology::{Expanded, NodeId};

ids! {
    /// A message of a workload.
    MessageId;
    /// What a rank does for a job.
    ProgramId;
}

/// Bytes of an element: float32.
pub const ELEMENT: u64 = 4;
/// Messages (payloads) above which the authors' simulator estimates a step by flits.
const ESTIMATED_IN_MESSAGES: u64 = 58;

/// A rank's messages of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// NOPs before it.
    pub nops: u32,
    /// Its messages, in the order in which they are tried.
    pub sends: Vec<MessageId>,
}

/// How a rank takes part in a job.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// The rank, as a node of the network.
    pub rank: NodeId,
    /// Whether it enters a step only when all the rank's interfaces are free, and waits out NOPs.
    pub lockstep: bool,
    /// Cycles of a NOP.
    pub step_cycles: u64,
}

/// The workload of a machine.
#[derive(Debug, Default)]
pub struct Workload {
    /// All messages: those of plans, job by job, and behind them those of the background that are under way.
    pub messages: Vec<Message>,
    /// How many messages plans have.
    pub planned: usize,
    /// The routes of each job's lanes that messages use, job by job and by their indices, and behind them those of the
    /// background's pairs.
    pub routes: Csr<Hop>,
    /// The rows of `routes` that each job has.
    pub rows: Vec<Range<usize>>,
    /// The programs, job by job and rank by rank.
    pub programs: Vec<Program>,
    /// The programs of each node.
    pub programs_of: Csr<ProgramId>,
    /// The steps of each program.
    pub steps: Vec<Vec<Step>>,
    /// In streams: the message of the next chunk on the same edge of the tree, which is tried once this one is issued.
    pub next_chunk: Vec<Option<MessageId>>,
    /// The place of each message among all those of its program, which is the order in which they are tried.
    pub place: Vec<u32>,
    /// How many receipts each message waits for.
    pub waits: Vec<u32>,
    /// The messages that wait for each message.
    pub releases: Csr<MessageId>,
    /// Flits for which a virtual channel must have room to be allocated.
    pub packet_flits: u32,
    /// Virtual channels of every port.
    pub virtual_channels: u8,
}

impl Workload {
    /// Compiles jobs on a network of links, and makes room for the background's messages between `pairs`.
    ///
    /// # Errors
    /// If routes need more virtual channels than there are, or there are more NOPs than tables hold.
    pub fn new(
        expanded: &Expanded,
        jobs: &[Placed],
        pairs: Option<&Pairs>,
        options: &Options,
        machine: &Machine,
    ) -> Result<Self> {
        let mut workload = Self {
            packet_flits: options.packet_flits(),
            virtual_channels: options.virtual_channels as u8,
            ..Self::default()
        };
        let mut released = Vec::new();
        for (place, job) in (0..).zip(jobs) {
            workload.add(place, job, &mut released, options)?;
        }
        workload.planned = workload.messages.len();
        workload.programs_of = workload.by_node(expanded.network.nodes().len());
        let lists = workload.list_routes(jobs, pairs);
        workload.routes = routes(expanded, &lists, options, machine)?;
        released.into_iter().for_each(|row| workload.releases.push_row(row));
        workload.bind(options, machine);
        let mut first = 0;
        for (job, Placed { plan, .. }) in jobs.iter().enumerate() {
            let step_cycles = workload.estimate(job, options, machine);
            let last = first + plan.ranks() as usize;
            workload.programs[first..last].iter_mut().for_each(|program| program.step_cycles = step_cycles);
            first = last;
        }
        Ok(workload)
    }

    /// Adds the messages and programs of a job; `place` says which of those that send it is.
    fn add(&mut self, place: u16, job: &Placed, released: &mut Vec<Vec<MessageId>>, options: &Options) -> Result<()> {
        let plan = job.plan;
        let schedule = tables::lower_for_interfaces(plan, job.size.get().div_ceil(ELEMENT), ELEMENT)?;
        let lockstep = options.lockstep.unwrap_or_else(|| tables::lockstep(plan));
        let tables = Tables::new(plan, &schedule, ELEMENT, lockstep)?;
        let mut message_of = vec![None; schedule.len()];
        for (number, id) in (0..).zip(schedule.ids().filter(|&id| !schedule.op[id].is_local())) {
            let place = Place { job: place, number };
            message_of[id] = Some(MessageId::new(self.messages.len()));
            self.messages.push(message(job, &schedule, id, place, options)?);
        }
        self.waits.resize(self.messages.len(), 0);
        self.next_chunk.resize(self.messages.len(), None);
        self.place.resize(self.messages.len(), 0);
        released.resize(self.messages.len(), Vec::new());
        for (&rank, table) in job.ranks().iter().zip(&tables.of_rank) {
            let steps = self.steps_of(table, tables::lockstep(plan), &message_of, released, options);
            let steps = if lockstep { steps } else { self.join_streams(plan, steps) };
            self.steps.push(steps);
            self.programs.push(Program { rank, lockstep, step_cycles: 0 });
        }
        Ok(())
    }

    /// Lists the programs of each node.
    fn by_node(&self, nodes: usize) -> Csr<ProgramId> {
        let mut of_node = vec![Vec::new(); nodes];
        for (id, program) in ProgramId::first(self.programs.len()).zip(&self.programs) {
            of_node[program.rank].push(id);
        }
        let mut rows = Csr::default();
        of_node.into_iter().for_each(|row| rows.push_row(row));
        rows
    }

    /// Lists the links of the routes of each job's lanes and of the background, and gives the jobs' messages their
    /// routes.
    fn list_routes<'a>(&mut self, jobs: &[Placed], pairs: Option<&'a Pairs>) -> Lists<'a> {
        let mut of_plans = Csr::default();
        for (number, job) in jobs.iter().enumerate() {
            let places = self.messages_of(number);
            let mut of_lane = vec![None; job.routes.count()];
            self.messages[places.clone()].iter().for_each(|message| of_lane[message.lane.index()] = Some(0..0));
            let start = of_plans.rows().len();
            for (lane, rows) in (0..).zip(&mut of_lane) {
                if let Some(rows) = rows {
                    *rows = push_routes(job, LaneRef::from_index(lane), &mut of_plans);
                }
            }
            for message in &mut self.messages[places] {
                message.routes = of_lane[message.lane.index()].clone().expect("its lane is used");
            }
            self.rows.push(start..of_plans.rows().len());
        }
        Lists { of_plans, of_background: pairs.map(|pairs| &pairs.routes) }
    }

    /// Returns the links of the first of a message's routes.
    pub fn first_route(&self, message: &Message) -> &[Hop] {
        self.routes.row(message.routes.start as usize)
    }

    /// Returns the hops of all routes of a job.
    pub fn hops_of(&self, job: usize) -> &[Hop] {
        let Range { start, end } = self.rows[job];
        &self.routes.items[self.routes.first[start] as usize..self.routes.first[end] as usize]
    }

    /// Says whether a message is the background's.
    pub fn is_background(&self, message: MessageId) -> bool {
        message.index() >= self.planned
    }

    /// Returns the messages of a job.
    pub fn messages_of(&self, job: usize) -> Range<usize> {
        let place =
            |job: usize| self.messages[..self.planned].partition_point(|message| usize::from(message.job) < job);
        place(job)..place(job + 1)
    }

    /// Returns for how many flits a virtual channel must have room before a packet of `flits` gets it.
    pub fn room(&self, flits: u32) -> u32 {
        flits.min(self.packet_flits)
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
        for (place, &id) in (0..).zip(steps.iter().flat_map(|step| &step.sends)) {
            self.place[id] = place;
        }
        steps
    }

    /// Makes one step of the steps of a streamed phase: each edge sends its chunks in order, and none waits for
    /// another. Sub-flows keep their steps.
    fn join_streams(&mut self, plan: &Plan, steps: Vec<Step>) -> Vec<Step> {
        let mut joined: Vec<Step> = Vec::new();
        let mut last_of_edge: HashMap<(u32, LaneRef), MessageId> = HashMap::new();
        let mut stream = None;
        for step in steps {
            let phase = self.messages[step.sends[0]].phase;
            let pace = plan.phases[usize::from(phase)].pace;
            if !pace.is_stream() || pace == Pace::SubFlows {
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
            let message = &mut self.messages[id];
            if options.interfaces == Interfaces::Bound {
                let route = message.route_of(0);
                message.routes = route..route + 1;
            }
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
        let programs = self.programs_of.row(rank).iter();
        let sends = programs.flat_map(|&program| &self.steps[program]).flat_map(|step| &step.sends);
        // Later chunks of a stream may have been bound to other ports than the first.
        for id in sends.flat_map(|&first| successors(Some(first), |&id| self.next_chunk[id])) {
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
    fn estimate(&self, job: usize, options: &Options, machine: &Machine) -> u64 {
        let messages = &self.messages[self.messages_of(job)];
        let Some(largest) = messages.iter().max_by_key(|message| message.flits()) else { return 0 };
        let interfaces = machine.nodes.iter().filter(|node| node.interfaces > 0);
        let buffer = interfaces.map(|node| node.interface_flits).max().unwrap_or(0);
        let (flits, payloads) = (largest.flits(), u64::from(largest.payloads));
        let cycles = match options.interfaces {
            Interfaces::Bound if flits <= buffer => flits,
            Interfaces::Bound => flits - buffer,
            Interfaces::Shared if payloads <= ESTIMATED_IN_MESSAGES => payloads,
            Interfaces::Shared => {
                let payload = options.payload().get() / options.flit.get();
                let each = payload + u64::from(options.flow_control == FlowControl::Packet);
                each * payloads - payload * ESTIMATED_IN_MESSAGES
            }
        };
        let slowest = self.hops_of(job).iter().map(|hop| machine.links[hop.link].flit).max().unwrap_or(0);
        whole_cycles(cycles.saturating_mul(slowest))
    }
}

/// Finds a switch that is more than a place on a route.
pub fn switch_in_trees(plan: &Plan) -> Option<NodeId> {
    let ends = plan.edges.lane.iter().flat_map(|&lane| <[NodeId; 2]>::from(plan.lanes.ends(lane)));
    ends.into_iter().find(|&node| plan.topology.node(node).is_switch())
}
