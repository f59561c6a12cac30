//! Switches that reduce and multicast: the in-network paper's fabric of shared memory, packet by packet.
//!
//! Klenk, Jiang, Thorson and Dennison, "An in-network architecture for accelerating shared-memory multiprocessor
//! collectives" (ISCA 2020). Wires, credits and the calendar of nodes are the packet simulator's; its packets are
//! memory operations of a line, which stay whole and are acknowledged. In-network plans are executed by requests,
//! switches' tables and multicasts; all others by writes of data, fences and flags. Operands are values: a lost,
//! doubled or misrouted one fails the run. Cost: 0.1 to 0.2 us a packet and hop.

mod endpoint;
mod lines;
mod operand;
mod packet;
mod parameters;
mod port;
mod reduction;
mod reduction_table;
mod region_tables;
mod regions;
mod retry;
mod routes;
mod sampling;
mod software;
mod switch;
mod waves;

pub use region_tables::{RegionEntry, region_entries};

use super::machine::{CYCLE, Machine};
use super::options::{FlowControl, Options, Switches};
use super::readers::Reader;
use super::shared::Progress;
use super::wires::{Nodes, Wires, take_turns};
use super::workload::{self, Workload};
use super::{FabricStats, Outcome};
use crate::error::Result;
use crate::plan::{LaneRoutes, Plan};
use crate::sim::Watch;
use crate::sim::jobs::Placed;
use crate::sim::trace::Trace;
use crate::topology::{Abilities, LinkId, NodeId, Topology};
use crate::units::{Bytes, Seconds};
use crate::{bail, misfit};
use endpoint::Endpoint;
use lines::Lines;
use packet::{Address, Line, Packet, Subject};
use parameters::Parameters;
use port::{LinkEnd, Sender};
use regions::{Method, Regions};
use retry::Receiver;
use routes::Routes;
use switch::Switch;

/// The parts of a simulation that do not change while it runs.
struct Setup {
    parameters: Parameters,
    routes: Routes,
    /// The trees of an in-network plan; other plans have none.
    regions: Regions,
    lines: Lines,
    /// The messages of all other plans.
    workload: Workload,
}

/// The figures that are counted while it runs.
#[derive(Debug, Default)]
struct Stats {
    packets: u64,
    flits: u64,
    delivered: u64,
    latency: u64,
    end: u64,
    fabric: FabricStats,
    /// The first wave that asked for a counter too often.
    refused: Option<RefusedWave>,
    fault: Option<String>,
}

/// A wave that got no counter.
#[derive(Debug, Clone, Copy)]
struct RefusedWave {
    rank: NodeId,
    /// The tree of its first line.
    tree: u32,
}

impl Stats {
    /// Counts a packet that has arrived.
    fn arrived(&mut self, packet: &Packet, now: u64) {
        self.delivered += 1;
        self.latency += now - packet.born;
    }

    /// Keeps the first thing that is wrong.
    fn fault(&mut self, what: impl FnOnce() -> String) {
        self.fault.get_or_insert_with(what);
    }
}

/// The things that all nodes share.
struct Shared<'a> {
    wires: &'a mut Wires<Packet>,
    setup: &'a Setup,
    stats: &'a mut Stats,
    /// How far the messages of software are.
    progress: &'a mut Progress,
}

impl Setup {
    /// Says whether switches work in trees, rather than software sending messages.
    fn in_network(&self) -> bool {
        !self.regions.regions.is_empty()
    }

    /// Returns the flits of a packet with a line's operand, sum or flag.
    fn flits(&self, address: Address) -> u32 {
        match address.line {
            Line::Data(_) => self.lines.flits(address, &self.parameters),
            Line::Flag => self.parameters.header_flits,
        }
    }

    /// Returns the bytes of a packet's payload.
    fn payload(&self, flits: u32) -> u64 {
        u64::from(flits - self.parameters.header_flits) * self.parameters.flit
    }
}

impl Shared<'_> {
    /// Returns the cycles that a rank's read of a packet's payload takes.
    fn memory(&self, rank: NodeId, subject: Subject) -> u64 {
        let parameters = &self.setup.parameters;
        u64::from(parameters.fabric.memory_cycles)
            + mixed(parameters.fabric.seed, rank.0, subject.bits()) % u64::from(parameters.fabric.memory_spread.max(1))
    }
}

/// Mixes bits that depend on all of these and look random.
fn mixed(seed: u64, rank: u32, bits: u64) -> u64 {
    let mut z = seed.wrapping_add(u64::from(rank).wrapping_mul(0xd6e8_feb8_6659_fd93))
        ^ bits.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    z = (z ^ (z >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    z ^ (z >> 32)
}

/// A node at work.
enum Node {
    Switch(Switch),
    Endpoint(Box<Endpoint>),
}

impl Node {
    /// Lists the near ends of the links out.
    fn senders(&self) -> Box<dyn Iterator<Item = &Sender> + '_> {
        match self {
            Self::Switch(switch) => Box::new(switch.senders()),
            Self::Endpoint(endpoint) => Box::new(endpoint.senders()),
        }
    }

    /// Lists the far ends of the links in, where packets arrive corrupt.
    fn receivers(&self) -> Box<dyn Iterator<Item = &Receiver> + '_> {
        match self {
            Self::Switch(switch) => Box::new(switch.receivers()),
            Self::Endpoint(endpoint) => Box::new(endpoint.receivers()),
        }
    }
}

/// All nodes, and what they share.
struct World {
    nodes: Vec<Node>,
    wires: Wires<Packet>,
    setup: Setup,
    stats: Stats,
    progress: Progress,
}

impl Nodes<Packet> for World {
    fn wires(&mut self) -> &mut Wires<Packet> {
        &mut self.wires
    }

    fn advance(&mut self, node: NodeId, from: u64, horizon: u64) -> u64 {
        let Self { nodes, wires, setup, stats, progress } = self;
        let shared = &mut Shared { wires, setup, stats, progress };
        match &mut nodes[node] {
            Node::Switch(switch) => switch.advance(from, horizon, shared),
            Node::Endpoint(endpoint) => endpoint.advance(from, horizon, shared),
        }
    }
}

/// Says whether `plan` runs on a fabric.
///
/// # Errors
/// If routers are asked for, and switches work in trees.
pub fn applies(plan: &Plan, options: &Options) -> Result<bool> {
    let in_trees = workload::switch_in_trees(plan);
    if let (Some(Switches::Routers), Some(switch)) = (options.switches, in_trees) {
        let name = &plan.topology.node(switch).name;
        misfit!("switch {name} reduces or multicasts in this plan, and routers only forward: set switches=fabric");
    }
    let by_default = in_trees.is_some() || is_default(&plan.topology);
    Ok(options.switches.map_or(by_default, |switches| switches == Switches::Fabric))
}

/// Returns whether all plans for a network run on a fabric unless the options say otherwise.
pub fn is_default(topology: &Topology) -> bool {
    topology.nodes().iter().any(|node| node.abilities() == Abilities::BOTH && node.latency.picoseconds() > 0)
}

/// Lists what reads options when a fabric runs `plan`.
///
/// # Errors
/// If switches cannot execute the plan.
pub fn readers(plan: &Plan) -> Result<Vec<Reader>> {
    if workload::switch_in_trees(plan).is_none() {
        return Ok(vec![Reader::Software]);
    }
    let of_phase = |phase| plan.trees_of(phase).iter().map(move |tree| regions::method(plan, phase, tree));
    let methods = plan.phases.iter().flat_map(of_phase).collect::<Result<Vec<_>>>()?;
    let reader = |method: &Method| match method {
        Method::Push => Reader::Push,
        Method::Pull => Reader::Pull,
        Method::Write => Reader::Multicast,
    };
    Ok(methods.iter().map(reader).collect())
}

/// Simulates a plan on a fabric.
///
/// # Errors
/// If switches cannot execute the plan, a wave never ends, or `watch` ends the simulation.
pub fn simulate(plan: &Plan, size: Bytes, options: &Options, mut watch: Watch) -> Result<Outcome> {
    let in_network = workload::switch_in_trees(plan).is_some();
    check(options).map_err(|error| super::kind_for(plan, options, error))?;
    let options = &with_payload(options);
    let lane_routes = LaneRoutes::new(&plan.topology, &plan.lanes);
    let job = Placed::alone(plan, size, &lane_routes);
    let mut machine = Machine::new(&plan.topology, &[job], false, options)?;
    split_latencies(&plan.topology, &mut machine);
    let samples = watch.transfers && in_network;
    let mut world = World::new(plan, size, options, &lane_routes, &machine, samples)?;
    plan.rank_ids().for_each(|rank| world.wires.wake(rank, 0));
    take_turns(&mut world, machine.lookahead(), &mut |cycle| watch.goes_on(machine.clock.seconds_for(cycle as f64)))?;
    world.host_error(plan)?;
    if let Some(what) = world.left(plan) {
        misfit!("stuck: {what}");
    }
    if let Some(fault) = &world.stats.fault {
        bail!("{fault}; this is a bug of the simulator");
    }
    Ok(world.outcome(plan, size, &machine, watch.transfers))
}

/// Returns the options with the payload of a fabric's packets.
fn with_payload(options: &Options) -> Options {
    Options { payload: options.payload.or(Some(Bytes::known(128))), ..options.clone() }
}

/// Refuses options with which no fabric works.
pub fn check(options: &Options) -> Result<()> {
    let options = with_payload(options);
    // Buffers are checked with the other parameters, for which the machine must be known.
    Options { buffer_flits: Some(u32::MAX), ..options.clone() }.check()?;
    let payload = options.payload().get();
    if !payload.is_multiple_of(workload::ELEMENT) {
        bail!("a fabric's payload must be a multiple of {} bytes, got {payload} bytes", workload::ELEMENT);
    }
    if options.flow_control == FlowControl::Message {
        bail!("a fabric's packets carry {payload} bytes each: drop flow_control=message, or set switches=routers");
    }
    Ok(())
}

/// Lays half of a switch's latency on the wires before it and half on those behind it; credits take as long.
fn split_latencies(topology: &Topology, machine: &mut Machine) {
    let half = |node: NodeId, clock: f64| {
        let node = topology.node(node);
        let own = if node.is_switch() { node.latency.seconds() } else { 0.0 };
        own * clock / 2.0
    };
    for (link, channel) in topology.links().iter().zip(&mut machine.links) {
        let clock = machine.clock.hertz();
        let delay = link.latency.seconds() * clock + half(link.source, clock) + half(link.target, clock);
        channel.delay = (delay.round() as u64).max(1);
        channel.credit_delay = channel.delay;
    }
}

impl World {
    fn new(
        plan: &Plan,
        size: Bytes,
        options: &Options,
        lane_routes: &LaneRoutes,
        machine: &Machine,
        samples: bool,
    ) -> Result<Self> {
        let (topology, in_network) = (&plan.topology, workload::switch_in_trees(plan).is_some());
        let workload = if in_network {
            Workload::default()
        } else {
            software::compile(plan, size, options, lane_routes, machine)?
        };
        let used = if in_network { regions::lanes(plan) } else { software::lanes(&workload) };
        let mut routes = Routes::new(topology, lane_routes, machine, &used)?;
        let regions =
            if in_network { Regions::new(plan, lane_routes, machine, &mut routes)? } else { Regions::default() };
        let parameters = Parameters { samples, ..Parameters::new(&regions, &routes, topology, machine, options)? };
        let lines = Lines::new(plan, &regions, size, &parameters)?;
        let mut wires = Wires::new(machine.nodes.len());
        for link in topology.links() {
            wires.add(link.source, link.target);
        }
        let progress = Progress::new(&workload);
        let setup = Setup { parameters, routes, regions, lines, workload };
        let nodes = NodeId::first(machine.nodes.len()).map(|node| build(topology, machine, node, &setup));
        Ok(Self { nodes: nodes.collect(), wires, setup, stats: Stats::default(), progress })
    }

    /// Fails with the first error that retries did not mend, which the host must hear of.
    fn host_error(&self, plan: &Plan) -> Result<()> {
        let topology = &plan.topology;
        let fabric = &self.setup.parameters.fabric;
        let links = |node: NodeId| topology.outgoing(node).iter().zip(self.nodes[node].senders());
        let broken = NodeId::first(self.nodes.len()).flat_map(links).filter_map(|(&link, sender)| {
            let at = sender.retry.as_ref().and_then(|retry| retry.broken);
            at.map(|at| (at, link))
        });
        if let Some((at, link)) = broken.min() {
            bail!(
                "link {} gave up in cycle {at}: {} retries brought no packet across; lower error_rate (it is {}), \
                 raise retries, or plan without the link",
                topology.describe_link(link),
                fabric.retries,
                fabric.error_rate
            );
        }
        if let Some(RefusedWave { rank, tree }) = self.stats.refused {
            let root = self.setup.regions.regions[tree as usize].root;
            let [rank, root] = [rank, root].map(|node| &topology.node(node).name);
            bail!(
                "{rank} found no counter for a wave to region {tree} of {root} in {} retries: raise counters (now {}), \
                 retries or retry_cycles, or lower waves or wave",
                fabric.retries,
                fabric.counters.unwrap_or_default()
            );
        }
        Ok(())
    }

    /// Says what never came, and which wave waits for it; nothing may be left in switches either.
    fn left(&self, plan: &Plan) -> Option<String> {
        let of_node = |(number, node): (NodeId, &Node)| {
            let name = &plan.topology.node(number).name;
            match node {
                Node::Endpoint(endpoint) => endpoint.waits(&self.setup).map(|what| format!("{name} {what}")),
                Node::Switch(switch) if switch.left() > 0 => {
                    Some(format!("{} packets and sums are left at {name}", switch.left()))
                }
                Node::Switch(_) => None,
            }
        };
        let (received, messages) = (self.progress.received, self.setup.workload.messages.len());
        let unreceived =
            || (received < messages).then(|| format!("{} of {messages} messages are missing", messages - received));
        NodeId::first(self.nodes.len()).zip(&self.nodes).find_map(of_node).or_else(unreceived)
    }

    /// Says whether a tree is executed by this method.
    fn uses(&self, method: Method) -> bool {
        self.setup.regions.regions.iter().any(|region| region.method == method)
    }

    /// Says whether switches reduce.
    fn reduces(&self) -> bool {
        self.uses(Method::Push) || self.uses(Method::Pull)
    }

    fn outcome(&self, plan: &Plan, size: Bytes, machine: &Machine, record: bool) -> Outcome {
        let seconds = |cycles: u64| machine.clock.seconds_for(cycles as f64);
        let mut carried = vec![Seconds::ZERO; plan.topology.links().len()];
        for (id, node) in plan.topology.node_ids().zip(&self.nodes) {
            for (&link, sender) in plan.topology.outgoing(id).iter().zip(node.senders()) {
                carried[link] = machine.clock.seconds_for(sender.busy() as f64 / CYCLE as f64);
            }
        }
        let stats = &self.stats;
        let retries = self.nodes.iter().flat_map(Node::senders).filter_map(|sender| sender.retry.as_ref());
        let receivers = self.nodes.iter().flat_map(Node::receivers);
        let peak = self.nodes.iter().map(|node| if let Node::Switch(switch) = node { switch.table_peak() } else { 0 });
        let table_peak = Bytes::known(peak.max().unwrap_or(0) as u64 * self.setup.parameters.line);
        let reduces = self.reduces();
        let bounded = !self.setup.parameters.fabric.deterministic;
        let mean_latency = machine.clock.seconds_for(stats.latency as f64 / stats.delivered.max(1) as f64);
        let messages = if record { self.setup.workload.messages.as_slice() } else { &[] };
        let transfers =
            messages.iter().zip(&self.progress.times).map(|(message, times)| message.timed(*times, seconds));
        Outcome {
            cycles: stats.end,
            clock: machine.clock,
            packets: stats.packets,
            flits: stats.flits,
            peaks: Vec::new(),
            buffer_cover: None,
            fabric: Some(FabricStats {
                mean_latency,
                table_peak,
                table: (bounded && reduces)
                    .then(|| Bytes::known(self.setup.parameters.entries as u64 * self.setup.parameters.line)),
                timeout: (bounded && self.uses(Method::Push)).then_some(self.setup.parameters.timeout),
                op: reduces.then_some(self.setup.parameters.fabric.op),
                retransmissions: retries.map(|retry| retry.retransmissions).sum(),
                duplicates: receivers.map(|receiver| receiver.duplicates).sum(),
                waves: self.setup.parameters.waves.filter(|_| self.setup.in_network()),
                ..stats.fabric.clone()
            }),
            trace: Trace {
                size,
                seconds: seconds(stats.end),
                occupied: carried.clone(),
                carried,
                transfers: transfers.collect(),
                uncertainty: Seconds::ZERO,
                samples: sampling::samples_of(self, &plan.topology),
            },
        }
    }
}

/// Makes a node with its links.
fn build(topology: &Topology, machine: &Machine, node: NodeId, setup: &Setup) -> Node {
    let ends = |links: &[LinkId]| -> Vec<LinkEnd> {
        links.iter().map(|&link| LinkEnd { id: link.into(), wire: machine.links[link] }).collect()
    };
    let (incoming, outgoing) = (ends(topology.incoming(node)), ends(topology.outgoing(node)));
    if topology.is_rank(node) {
        Node::Endpoint(Box::new(Endpoint::new(node, &incoming, &outgoing, setup)))
    } else {
        // Accelerators that are no ranks pass packets on.
        Node::Switch(Switch::new(&incoming, &outgoing, &setup.parameters))
    }
}
