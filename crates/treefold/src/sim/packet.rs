//! The packet simulator: cycle by cycle, flit by flit (MultiTree paper, sections IV and V; its Table III).
//!
//! Virtual cut-through with virtual channels, credits and routed links (`router`), network interfaces that execute
//! schedule tables (`interface`), and nothing global: a node at work sees only what has arrived. What leaves a node
//! reaches no other for at least the shortest link's latency, so nodes take turns to run that far ahead (`wires`), each
//! from one cycle in which it has something to do to the next; the result is that of a loop over all nodes in every
//! cycle (`tests/suite/packet_oracle.rs`). Cost: 0.25 us a packet and link where none contend, 50 to 100 ns a
//! flit and router where they do, whatever the size of the network.
//!
//! In networks whose switches reduce, `in_network` takes the place of routers and interfaces.
//!
//! Cycles of a message that meets no other, from its issue to its receipt: its flits, each link's latency, 3 a router
//! (4 a switch) and 3 (5 where the routers are the accelerators' own).

mod classes;
mod deadlock;
pub mod flit;
mod in_network;
mod interface;
pub mod machine;
pub mod options;
mod router;
mod routes;
mod shared;
mod stream;
mod wires;
pub mod workload;

pub use in_network::{RegionEntry, region_entries};
pub use options::{FlowControl, Interfaces, Options, Switches};

use super::trace::Trace;
use crate::error::{Error, Result};
use crate::number::Operator;
use crate::plan::{LaneRoutes, Plan};
use crate::topology::{LinkId, NodeId, Topology};
use crate::units::Bytes;
use interface::{Feed, Table};
use machine::{CYCLE, InputId, Machine, OutputId, Wire};
use router::{Group, Input, Output, Router};
use shared::{Progress, Shared};
use stream::{Pair, Split, Stretch};
use wires::{Head, NEVER, Nodes, Wires, take_turns};
use workload::{Step, Workload};

/// The outcome of a packet simulation.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// What all event simulators report.
    pub trace: Trace,
    /// From the first issue to the last receipt or sum; with shared interfaces until the last credit is back, as the
    /// authors count.
    pub cycles: u64,
    /// Cycles a second.
    pub clock_hz: f64,
    /// Packets sent.
    pub packets: u64,
    /// Flits sent, heads included.
    pub flits: u64,
    /// Most flits that a virtual channel's buffer at the end of each link ever held.
    pub peaks: Vec<u32>,
    /// The least part of its credits' round trip that a link's buffers cover for a message; below 1 they limit its
    /// rate. `None` in a fabric, and if nothing is sent.
    pub buffer_cover: Option<f64>,
    /// What only a fabric reports.
    pub fabric: Option<FabricStats>,
}

/// What the simulation of a fabric reports besides.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FabricStats {
    /// Entries that left their table before all their operands were there.
    pub evictions: u64,
    /// Evicted entries that were not touched for too long.
    pub timeouts: u64,
    /// Pulls that found no entry behind their first switch.
    pub bypasses: u64,
    /// Pulls that had to wait for an entry at their first switch.
    pub stalls: u64,
    /// How often a wave asked for a counter and found none.
    pub failed_allocations: u64,
    /// Packets that were sent once more over a link, as they arrived corrupt, or behind one that did.
    pub retransmissions: u64,
    /// Packets that arrived once more on a link, and were dropped.
    pub duplicates: u64,
    /// The operator by which switches reduced; `None` where nothing is reduced in them.
    pub op: Option<Operator>,
    /// The size of a port's table; `None` where nothing is reduced, or tables are as large as they must be.
    pub table: Option<Bytes>,
    /// Cycles after which an untouched entry is evicted; `None` where `table` is.
    pub timeout: Option<u64>,
    /// Most that a table ever held.
    pub table_peak: Bytes,
    /// From a packet's readiness to its arrival, in seconds.
    pub mean_latency: f64,
    /// Waves that could be outstanding, unless any number could.
    pub waves: Option<u32>,
    /// Bytes that accelerators read from memory, all together.
    pub reads: u64,
    /// Bytes that accelerators wrote to memory, all together.
    pub writes: u64,
    /// A digest of the bits of all results in floating point; software's are not computed.
    pub digest: Option<u64>,
}

/// Simulates `plan` for a vector of `size` (rounded up to elements of four bytes); the trace lists its spans if
/// `record` says so. Long simulations ask `go_on` now and then, with the seconds that they have simulated.
///
/// # Errors
/// The machine cannot work, or not with this network or plan; there is a deadlock; `go_on` says no.
///
/// ```
/// use std::sync::Arc;
/// use treefold::planners;
/// use treefold::sim::packet::{Options, simulate};
/// use treefold::topology::from_spec;
/// use treefold::units::parse_bytes;
///
/// let ring = Arc::new(from_spec("ring:4", None, None)?);
/// let plan = planners::plan("ring", &ring, &planners::Options::default())?;
/// let outcome = simulate(&plan, parse_bytes("4KiB")?, &Options::default(), false, &mut |_| true)?;
/// assert_eq!(outcome.cycles as f64 / outcome.clock_hz, outcome.trace.seconds);
/// assert_eq!(outcome.packets, 24 * 4, "24 messages of 1 KiB, in packets of 256 bytes");
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn simulate(
    plan: &Plan,
    size: Bytes,
    options: &Options,
    record: bool,
    go_on: &mut dyn FnMut(f64) -> bool,
) -> Result<Outcome> {
    if in_network::applies(plan, options)? {
        return in_network::simulate(plan, size, options, record, go_on);
    }
    options.check().map_err(|error| kind_for(plan, options, error))?;
    let routes = LaneRoutes::new(&plan.topology, &plan.lanes);
    let machine = Machine::new(plan, &routes, options)?;
    let workload = Workload::new(plan, &routes, size, options, &machine)?;
    let mut run = Run::new(&plan.topology, &machine, &workload, options);
    run.run(&machine, go_on)?;
    if run.progress.received < workload.messages.len() {
        return Err(deadlock::report(&plan.topology, &workload, &run.progress, &run.nodes));
    }
    Ok(run.outcome(plan, size, options, &machine, record))
}

/// Refuses a machine on which no plan for a network runs, whatever the planner.
///
/// # Errors
/// A parameter cannot work; the error says its value and the remedy.
///
/// ```
/// use treefold::sim::packet::{Options, check};
/// use treefold::topology::from_spec;
/// use treefold::units::Bytes;
///
/// let torus = from_spec("torus:4x4", None, None)?;
/// let machine = Options { payload: Some(Bytes(100)), ..Options::default() };
/// assert!(check(&torus, &machine).unwrap_err().to_string().contains("multiple of the flit (16 bytes), got 100"));
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn check(topology: &Topology, options: &Options) -> Result<()> {
    let may_add = || topology.nodes().iter().any(|node| node.reduces || node.multicasts);
    match options.switches {
        Some(Switches::Routers) => options.check(),
        Some(Switches::Fabric) => in_network::check(options),
        None if in_network::is_default(topology) => in_network::check(options),
        // The plans whose trees have switches run on a fabric, and the others on routers.
        None if may_add() => options.check().or_else(|error| in_network::check(options).map_err(|_| error)),
        None => options.check(),
    }
}

/// Returns the error of a machine that refuses a plan: it is a misfit if the machine runs other plans for the network.
fn kind_for(plan: &Plan, options: &Options, error: Error) -> Error {
    if check(&plan.topology, options).is_ok() { error.misfit() } else { error }
}

/// A node at work.
struct Node {
    router: Router,
    table: Option<Table>,
    /// Whether flits that arrive have arrived: it has interfaces, but no router.
    end_point: bool,
    /// The outputs that each interface's messages want.
    feeds: Vec<Vec<OutputId>>,
}

struct Run<'a> {
    workload: &'a Workload,
    nodes: Vec<Node>,
    wires: Wires,
    progress: Progress,
}

impl<'a> Run<'a> {
    fn new(topology: &Topology, machine: &Machine, workload: &'a Workload, options: &Options) -> Self {
        let mut wires = Wires::new(machine.nodes.len());
        for link in topology.links() {
            wires.add(link.source, link.target);
        }
        let mut nodes: Vec<Node> =
            topology.node_ids().map(|node| build(topology, machine, node, options, &mut wires)).collect();
        for rank in topology.rank_ids().filter(|&rank| machine.nodes[rank].has_router) {
            nodes[rank].feeds = workload.feeds(rank, machine.nodes[rank].interfaces);
        }
        let progress = Progress::new(workload);
        Self { workload, nodes, wires, progress }
    }

    fn run(&mut self, machine: &Machine, go_on: &mut dyn FnMut(f64) -> bool) -> Result<()> {
        for (rank, steps) in NodeId::first(self.workload.steps.len()).zip(&self.workload.steps) {
            let table = self.nodes[rank].table.as_mut().expect("ranks have tables");
            let at = table.start(steps, self.workload);
            if at < NEVER {
                self.wires.wake(rank, at);
            }
        }
        take_turns(self, machine.lookahead(), &mut |cycle| go_on(cycle as f64 / machine.clock_hz))
    }

    fn outcome(&self, plan: &Plan, size: Bytes, options: &Options, machine: &Machine, record: bool) -> Outcome {
        let last = self.workload.messages.get(self.progress.last.message.index());
        let tail = last.and_then(|last| self.workload.routes.row(last.lane.index()).last());
        let tail = tail.filter(|_| options.interfaces == Interfaces::Shared);
        let credits = tail.map_or(0, |hop| self.progress.last.at + machine.links[hop.link].latency);
        let cycles = self.progress.end.max(credits);
        let seconds = |cycle: u64| cycle as f64 / machine.clock_hz;
        let (mut carried, mut peaks) = (Vec::new(), Vec::new());
        for (link, wire) in plan.topology.links().iter().zip(&machine.links) {
            let busy = self.nodes[link.source].router.outputs[wire.output].occupancy.busy;
            carried.push(busy as f64 / CYCLE as f64 / machine.clock_hz);
            peaks.push(self.nodes[link.target].router.peak(wire.input));
        }
        let messages = &self.workload.messages;
        let recorded = if record { messages.as_slice() } else { &[] };
        let spans = recorded.iter().zip(&self.progress.times).map(|(message, times)| message.span(*times, seconds));
        Outcome {
            cycles,
            clock_hz: machine.clock_hz,
            packets: messages.iter().map(|message| u64::from(message.packets)).sum(),
            flits: messages.iter().map(workload::Message::flits).sum(),
            peaks,
            buffer_cover: machine.buffer_cover(&self.workload.routes, options),
            fabric: None,
            trace: Trace { size, seconds: seconds(cycles), occupied: carried.clone(), carried, spans: spans.collect() },
        }
    }
}

impl Nodes<Head> for Run<'_> {
    fn wires(&mut self) -> &mut Wires {
        &mut self.wires
    }

    fn advance(&mut self, node: NodeId, from: u64, horizon: u64) -> u64 {
        let steps: &[Step] = self.workload.steps.get(node.index()).map_or(&[], |steps| steps);
        let shared = Shared { steps, workload: self.workload, progress: &mut self.progress, wires: &mut self.wires };
        self.nodes[node].advance(from, horizon, shared)
    }
}

/// Makes a node with its ports; adds the interfaces' ways into its router to the wires.
fn build(topology: &Topology, machine: &Machine, node: NodeId, options: &Options, wires: &mut Wires) -> Node {
    let parameters = machine.nodes[node];
    let wire = |link: &LinkId| machine.links[*link];
    let from_link = |link: &LinkId| Input::new((*link).into(), wire(link).credit_delay, None);
    let mut inputs: Vec<Input> = topology.incoming(node).iter().map(from_link).collect();
    let mut outputs: Vec<Output> = topology
        .outgoing(node)
        .iter()
        .map(|link| Output::new(Some((*link).into()), wire(link), options.buffer_flits(), options.packet_flits()))
        .collect();
    let links = outputs.len() as u32;
    let mut feeds = Vec::new();
    let inside = machine.injection[node];
    if parameters.has_router {
        outputs.extend((0..parameters.interfaces).map(|_| Output::ejection(Wire { delay: 0, ..inside })));
        for _ in 0..parameters.interfaces {
            let wire = wires.add(node, node);
            feeds.push(Feed { output: OutputId::new(outputs.len()), input: Some(InputId::new(inputs.len())) });
            inputs.push(Input::new(wire, 0, Some(OutputId::new(outputs.len()))));
            outputs.push(Output::new(Some(wire), inside, options.buffer_flits(), 0));
        }
    } else {
        feeds.extend(OutputId::first(parameters.interfaces as usize).map(|output| Feed { output, input: None }));
    }
    let table = topology.is_rank(node).then(|| Table::new(&feeds, parameters.interface_flits));
    let router = Router::new(inputs, outputs, links, options.virtual_channels);
    Node { router, table, end_point: !parameters.has_router, feeds: Vec::new() }
}

impl Node {
    /// Works through the cycles from `from` on and before `horizon`; says in which there may be something to do next.
    fn advance(&mut self, from: u64, horizon: u64, mut shared: Shared) -> u64 {
        self.router.refresh(from, shared.wires);
        if self.end_point {
            self.router.absorb(horizon, &mut shared);
            let next = self.work(from, horizon, &mut shared);
            return next.min(self.router.next_flit_due());
        }
        let Split { mut pairs, mut group, ejects } =
            self.router.split(horizon, &self.feeds, shared.workload, shared.wires);
        let first_interface = InputId::new(self.router.inputs.len() - self.feeds.len());
        let inside = |input: InputId| input >= first_interface;
        let room =
            self.table.as_ref().is_none_or(|table| table.has_room(horizon - from, shared.workload, &self.router));
        let apart = room && !ejects && !group.inputs.iter().any(|&input| inside(input));
        if !apart {
            for Pair { input, output } in pairs.extract_if(.., |pair| inside(pair.input)) {
                group.inputs.push(input);
                group.outputs.push(output);
            }
            group.inputs.sort_unstable();
        }
        let mut next = NEVER;
        for &pair in pairs.iter().filter(|pair| !inside(pair.input)) {
            next = next.min(self.run_pair(pair, from, horizon, &mut shared));
        }
        if apart {
            next = next.min(self.work(from, horizon, &mut shared));
            for &pair in pairs.iter().filter(|pair| inside(pair.input)) {
                next = next.min(self.run_pair(pair, from, horizon, &mut shared));
            }
        }
        if !apart || !group.inputs.is_empty() {
            next = next.min(self.run_group(&group, from, horizon, !apart, &mut shared));
        }
        next.min(self.router.next_flit_due())
    }

    /// Lets the interfaces work in these cycles; says when they may have something to do next.
    fn work(&mut self, from: u64, to: u64, shared: &mut Shared) -> u64 {
        let Some(table) = &mut self.table else { return NEVER };
        self.router.ended.drain(..).for_each(|ended| table.record(ended, shared.workload));
        table.work(from, to, &mut self.router, shared)
    }

    /// Runs an input and an output that nobody else wants; says when they may have something to do next.
    fn run_pair(&mut self, pair: Pair, from: u64, horizon: u64, shared: &mut Shared) -> u64 {
        let mut now = from;
        while now < horizon {
            match self.router.stream(pair, now, horizon, shared) {
                Stretch::Done(next) => return next,
                Stretch::Disturbed(at) => {
                    let outputs = if pair.output.0 < self.router.links { vec![pair.output] } else { Vec::new() };
                    let group = Group { inputs: vec![pair.input], outputs };
                    for &output in &group.outputs {
                        self.router.outputs[output].take_credits(at.saturating_sub(1), shared.wires);
                    }
                    now = self.cycle(at, &group, false, shared);
                }
            }
        }
        now
    }

    /// Runs ports that contend, and the interfaces if they work `with` them, cycle by cycle; says when they may have
    /// something to do next.
    fn run_group(&mut self, group: &Group, from: u64, horizon: u64, with: bool, shared: &mut Shared) -> u64 {
        let mut now = from;
        while now < horizon {
            now = self.cycle(now, group, with, shared);
        }
        now
    }

    /// Runs one cycle; says which is the next in which there may be something to do.
    fn cycle(&mut self, now: u64, group: &Group, with_table: bool, shared: &mut Shared) -> u64 {
        let (mut active, mut retry) = (false, NEVER);
        match self.router.switch(now, &group.inputs, shared) {
            Ok(()) => active = true,
            Err(at) => retry = at,
        }
        active |= self.router.receive(now, group, shared);
        let table = if with_table { self.work(now, now + 1, shared) } else { NEVER };
        active |= self.router.allocate(&group.inputs);
        if active { now + 1 } else { retry.min(self.router.next_arrival(group)).min(table) }
    }
}
