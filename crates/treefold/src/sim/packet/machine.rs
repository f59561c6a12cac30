//! The network as routers, interfaces and links with delays in cycles.
//!
//! An accelerator has a router if others are linked to it or route through it; its interfaces feed that router. Other
//! accelerators are end points: each of their links has an interface.

use std::ops::Range;

use super::options::{DEFAULT_CLOCK, FlowControl, Interfaces, MIN_ROUTER_CYCLES, Options};
use crate::error::Result;
use crate::ids::ids;
use crate::plan::{LaneRef, Plan, for_each_step};
use crate::sim::jobs::Placed;
use crate::topology::{Link, LinkId, NodeId, Topology};
use crate::units::Frequency;
use crate::{bail, misfit};

ids! {
    /// A place where flits come into a node: its links in, then the ways in from its interfaces.
    InputId;
    /// A place where flits leave a node: its links out, then its ejection ports, then its interfaces' ways in.
    OutputId;
    /// A network interface of a rank.
    InterfaceId;
}

/// Parts of a cycle in which links' times are counted: rates of links are not multiples of the clock.
pub const CYCLE: u64 = 1 << 20;
/// Cycles from switch allocation to the wire: crossbar and output.
const TRAVERSAL: u64 = 2;
/// The most cycles of one flit, or of one latency: they are counted exactly far beyond.
const LONGEST: f64 = 1e10;
/// Flits in the injection queue of an interface on the router's chip.
const ON_CHIP_QUEUE: u32 = 80;

/// A link or, inside a node, the route from an interface into the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    /// Its number among the outputs of the node where it starts.
    pub output: OutputId,
    /// Its number among the inputs of the node where it ends.
    pub input: InputId,
    /// Cycles from switch allocation here until a flit can be allocated a channel there.
    pub delay: u64,
    /// Cycles from a flit's leaving the buffer there until its credit is known here.
    pub credit_delay: u64,
    /// Time of a flit on the wire, in parts of a cycle: at least one cycle.
    pub flit: u64,
    /// Cycles that a message occupies it besides.
    pub overhead: u64,
    /// Cycles of propagation.
    pub latency: u64,
}

/// The time until which a wire is taken, and for how long it was, in parts of a cycle.
#[derive(Debug, Clone, Copy, Default)]
pub struct Occupancy {
    free_at: u64,
    /// Time in which it was taken.
    pub busy: u64,
}

impl Occupancy {
    /// Says whether it takes a flit in cycle `now`.
    #[inline]
    pub fn is_free(&self, now: u64) -> bool {
        self.free_at <= now * CYCLE
    }

    /// Returns the first cycle in which it takes a flit.
    #[inline]
    pub fn free_from(&self) -> u64 {
        whole_cycles(self.free_at)
    }

    /// Takes it from cycle `now` on. A wire that was waited for goes on from where it was, so that rates which are no
    /// multiple of the clock come out.
    #[inline]
    pub fn take(&mut self, now: u64, parts: u64) {
        let start = now * CYCLE;
        let base = if self.free_at + CYCLE > start { self.free_at } else { start };
        self.free_at = base + parts;
        self.busy += parts;
    }

    /// Returns the cycles from when on, and up to when, it was last taken for so many parts.
    pub fn last_taken(&self, parts: u64) -> Range<u64> {
        (self.free_at - parts) / CYCLE..self.free_at / CYCLE
    }
}

/// A link of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// The link.
    pub link: LinkId,
    /// Its number among the outputs of the node where it starts.
    pub output: OutputId,
    /// Virtual channels that may be used on it, as bits.
    pub channels: u32,
}

/// The parameters of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeParameters {
    /// Whether it is a rank of a job.
    pub is_rank: bool,
    /// Whether it has a router.
    pub has_router: bool,
    /// Interfaces between accelerator and network, by which the messages of plans go; none at a switch.
    pub interfaces: u32,
    /// Whether it has one more interface, the last, for the messages of the background.
    pub has_background: bool,
    /// Flits that an interface buffers.
    pub interface_flits: u64,
}

/// The network as a machine.
#[derive(Debug)]
pub struct Machine {
    /// The clock of all nodes.
    pub clock: Frequency,
    /// The parameters of each node.
    pub nodes: Vec<NodeParameters>,
    /// The wire of each link.
    pub links: Vec<Wire>,
    /// The wire from an interface of each node into its router.
    pub injection: Vec<Wire>,
}

impl NodeParameters {
    /// Counts all its interfaces.
    pub fn all_interfaces(&self) -> u32 {
        self.interfaces + u32::from(self.has_background)
    }
}

impl Machine {
    /// Makes the machine of `topology` on which jobs run, with or without background traffic.
    ///
    /// # Errors
    /// If a link is faster than a flit a cycle, or there are more interfaces than links.
    pub fn new(topology: &Topology, jobs: &[Placed], with_background: bool, options: &Options) -> Result<Self> {
        let clock = clock(topology, options)?;
        check_ports(topology, options)?;
        let nodes = parameters(topology, jobs, with_background, options)?;
        let timing = Timing { topology, options, clock, nodes: &nodes };
        let links = topology.link_ids().map(|link| timing.link(link)).collect();
        let injection = topology.node_ids().map(|node| timing.injection(node)).collect();
        Ok(Self { clock, nodes, links, injection })
    }

    /// Returns the least part of a link's round trip of credits that its buffers cover, of all `hops`: below 1 they
    /// limit a rate. What counts are the virtual channels that a message may use there. It is `None` without hops.
    pub fn buffer_cover(&self, hops: &[Hop], options: &Options) -> Option<f64> {
        // A message in one packet fills one virtual channel at a time.
        let is_one = options.flow_control == FlowControl::Message;
        let cover = |hop: &Hop| {
            let link = &self.links[hop.link];
            let channels = if is_one { 1 } else { hop.channels.count_ones() };
            let room = f64::from(options.buffer_flits()) * f64::from(channels);
            room * link.flit as f64 / ((link.delay + link.credit_delay + 2) as f64 * CYCLE as f64)
        };
        hops.iter().map(cover).reduce(f64::min)
    }

    /// Returns the cycles within which nothing that leaves a node is seen by another.
    pub fn lookahead(&self) -> u64 {
        self.links.iter().map(|link| link.delay.min(link.credit_delay)).min().unwrap_or(u64::MAX / 2)
    }
}

/// What decides how many cycles a wire takes.
struct Timing<'a> {
    topology: &'a Topology,
    options: &'a Options,
    clock: Frequency,
    nodes: &'a [NodeParameters],
}

impl Timing<'_> {
    /// Rounds seconds to cycles.
    fn cycles(&self, seconds: f64) -> u64 {
        (seconds * self.clock.hertz()).round() as u64
    }

    /// Returns the cycles that a node's router takes beyond the least that any router takes.
    fn pipeline(&self, node: NodeId) -> u64 {
        let node = self.topology.node(node);
        let of_kind = if node.is_switch() { MIN_ROUTER_CYCLES + 1 } else { MIN_ROUTER_CYCLES };
        let router_cycles = self.options.router_cycles.unwrap_or(of_kind);
        u64::from(router_cycles - MIN_ROUTER_CYCLES) + self.cycles(node.latency.seconds())
    }

    /// Makes the wire of a link.
    fn link(&self, id: LinkId) -> Wire {
        let Link { source, target, latency, overhead, .. } = *self.topology.link(id);
        let flit = flit_seconds(self.topology, id, self.options) * self.clock.hertz() * CYCLE as f64;
        let flit = (flit.round() as u64).max(CYCLE);
        let latency = self.cycles(latency.seconds());
        let pipeline = if self.nodes[target].has_router { self.pipeline(target) } else { 0 };
        // Beside an accelerator without a router, the interface is on the wire.
        let traversal = if self.nodes[source].has_router { TRAVERSAL } else { 0 };
        let place = |list: &[LinkId]| list.iter().position(|&other| other == id).expect("nodes list their links");
        Wire {
            output: OutputId::new(place(self.topology.outgoing(source))),
            input: InputId::new(place(self.topology.incoming(target))),
            delay: (traversal + latency + flit.div_ceil(CYCLE) - 1 + pipeline).max(1),
            credit_delay: latency + 1,
            flit,
            overhead: self.cycles(overhead.seconds()),
            latency,
        }
    }

    /// Makes the way from an interface of a node into its router.
    fn injection(&self, node: NodeId) -> Wire {
        let (output, input) = (OutputId(0), InputId(0));
        let delay = 1 + self.pipeline(node);
        Wire { output, input, delay, credit_delay: 0, flit: CYCLE, overhead: 0, latency: 0 }
    }
}

/// Refuses more ports than the accelerator with the most links could use.
fn check_ports(topology: &Topology, options: &Options) -> Result<()> {
    let links = topology.rank_ids().map(|rank| topology.outgoing(rank).len()).max().unwrap_or(0);
    if let Some(ports) = options.ports.filter(|&ports| ports as usize > links) {
        bail!(
            "{}: accelerators have {links} links at most, {ports} ports cannot all be used; lower ports",
            topology.name()
        );
    }
    Ok(())
}

/// Makes the parameters of all nodes.
fn parameters(
    topology: &Topology,
    jobs: &[Placed],
    with_background: bool,
    options: &Options,
) -> Result<Vec<NodeParameters>> {
    let passed = passed_through(topology.nodes().len(), jobs);
    let default_ports = match options.interfaces {
        Interfaces::Bound => u32::MAX,
        Interfaces::Shared => jobs.iter().map(|job| sends_at_once(job.plan)).max().unwrap_or(1),
    };
    let mut is_rank = vec![false; topology.nodes().len()];
    jobs.iter().flat_map(|job| job.ranks()).for_each(|&rank| is_rank[rank] = true);
    let of_node = |node| {
        let has_background = with_background && !topology.node(node).is_switch();
        let role = Role { is_rank: is_rank[node], passed: passed[node], has_background };
        parameters_of(topology, node, role, default_ports, options)
    };
    topology.node_ids().map(of_node).collect()
}

/// What a node is needed for.
#[derive(Clone, Copy)]
struct Role {
    is_rank: bool,
    /// Whether it is in the middle of a route.
    passed: bool,
    has_background: bool,
}

/// Makes the parameters of a node: its router and interfaces.
fn parameters_of(
    topology: &Topology,
    node: NodeId,
    Role { is_rank, passed, has_background }: Role,
    default_ports: u32,
    options: &Options,
) -> Result<NodeParameters> {
    let switch = topology.node(node).is_switch();
    let peers = topology.outgoing(node).iter().map(|&link| topology.link(link).target);
    let linked = peers.into_iter().any(|peer| !topology.node(peer).is_switch());
    // Two interfaces that share a link need a router between.
    let has_router = switch || linked || passed || has_background;
    let links = topology.outgoing(node).len().max(topology.incoming(node).len()) as u32;
    // Any interface reaches any link, so a corner of a mesh may have as many as the nodes inside.
    let most = if options.interfaces == Interfaces::Bound { links } else { u32::MAX };
    let wanted = options.ports.unwrap_or(default_ports).min(most);
    if let Some(ports) = options.ports.filter(|&ports| is_rank && !has_router && ports < links) {
        misfit!(
            "{} has no router: each of its {links} links has its own port, not {ports}; drop ports",
            topology.node(node).name
        );
    }
    let queue = options.injection_flits.unwrap_or(if has_router { ON_CHIP_QUEUE } else { options.buffer_flits() });
    let interfaces = match (is_rank, has_router) {
        (false, _) => 0,
        (true, true) => wanted,
        (true, false) => links,
    };
    let payload = u64::from(options.packet_flits()) - u64::from(options.flow_control == FlowControl::Message);
    let interface_flits = u64::from(options.interface_packets) * payload + u64::from(queue);
    Ok(NodeParameters { is_rank, has_router, interfaces, has_background, interface_flits })
}

/// Says of each node whether it is in the middle of a route.
fn passed_through(nodes: usize, jobs: &[Placed]) -> Vec<bool> {
    let mut passed = vec![false; nodes];
    for job in jobs {
        for lane in 0..job.routes.count() as u32 {
            for &link in job.routes.of(LaneRef::from_index(lane)).iter().skip(1) {
                passed[job.node(job.plan.topology.link(link).source)] = true;
            }
        }
    }
    passed
}

/// Rounds parts of a cycle up to cycles.
pub fn whole_cycles(parts: u64) -> u64 {
    parts.div_ceil(CYCLE)
}

/// Chooses the clock; refuses links for which a cycle is too long or too short.
fn clock(topology: &Topology, options: &Options) -> Result<Frequency> {
    let links = || topology.link_ids();
    let flit_seconds = |link: LinkId| flit_seconds(topology, link, options);
    let by_rate = |a: &LinkId, b: &LinkId| flit_seconds(*a).total_cmp(&flit_seconds(*b));
    let (Some(fastest), Some(slowest)) = (links().min_by(by_rate), links().max_by(by_rate)) else {
        return Ok(DEFAULT_CLOCK);
    };
    let clock_hz = options.clock.map_or(DEFAULT_CLOCK.hertz().max(1.0 / flit_seconds(fastest)), Frequency::hertz);
    if flit_seconds(fastest) * clock_hz < 1.0 - 1e-6 {
        bail!(
            "link {} carries more than a flit of {} bytes a cycle; raise clock to at least {}GHz, or flit",
            topology.describe_link(fastest),
            options.flit.get(),
            (1e-9 / flit_seconds(fastest) * 1e6 - 1e-6).ceil() / 1e6
        );
    }
    let longest = topology.links().iter().map(|link| link.delay().seconds()).fold(0.0, f64::max);
    if flit_seconds(slowest).max(longest) * clock_hz > LONGEST {
        bail!(
            "link {} takes more than {LONGEST:e} cycles for a flit, or a latency does; lower clock",
            topology.describe_link(slowest)
        );
    }
    Frequency::new(clock_hz)
}

/// Returns the seconds that a flit takes on a link.
fn flit_seconds(topology: &Topology, link: LinkId, options: &Options) -> f64 {
    topology.link(link).bandwidth.seconds_for(options.flit.get() as f64).get()
}

/// Counts the most messages that a rank starts in a step; in streams, which have no steps, it is one.
fn sends_at_once(plan: &Plan) -> u32 {
    let mut most = 1;
    let mut sends = vec![0; plan.topology.nodes().len()];
    for phase in plan.phases.iter().filter(|phase| !phase.pace.is_stream()) {
        for_each_step(plan, phase, |_, messages| {
            let sources = messages.iter().map(|message| (plan.lanes.ends_of(message.lane).0).index());
            sources.clone().for_each(|source| sends[source] += 1);
            sources.for_each(|source| most = most.max(std::mem::take(&mut sends[source])));
        });
    }
    most
}
