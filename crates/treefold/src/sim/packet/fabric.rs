//! Switches that reduce: the in-network paper's fabric of shared memory, packet by packet.
//!
//! Klenk, Jiang, Thorson and Dennison, "An in-network architecture for accelerating shared-memory multiprocessor collectives" (ISCA 2020). Wires, credits and the
//! calendar of nodes are the packet simulator's; its packets are memory operations of a line, which stay whole. Operands are values: a lost, doubled
//! or misrouted one fails the run. Cost: 0.1 to 0.2 us a packet and hop.

mod endpoint;
mod parcel;
mod regions;
mod switch;
mod table;
mod wire;

use super::machine::{CYCLE, Channel, Machine};
use super::options::{Initiation, Options};
use super::wires::{NEVER, Wires};
use super::{CYCLES_BETWEEN_QUESTIONS, FabricSeen, Outcome};
use crate::bail;
use crate::error::Result;
use crate::plan::{LaneRoutes, Plan};
use crate::sim::trace::Trace;
use crate::topology::{Kind, NodeId, Topology};
use crate::units::Bytes;
use endpoint::Endpoint;
use parcel::{Operand, Parcel};
use regions::Regions;
use switch::Switch;
use table::Key;

/// The parameters, in cycles, flits and lines.
#[derive(Debug, Clone)]
struct Sizes {
    /// Bytes of a payload.
    line: u64,
    /// Of a packet with a payload, and without.
    packet_flits: u32,
    header_flits: u32,
    /// Of a table.
    entries: usize,
    /// Whether tables evict: pulled entries stay.
    evicts: bool,
    timeout: u64,
    speedup: u32,
    queue_flits: u32,
    buffer_flits: u32,
    pulls: bool,
    barrier: bool,
    wave_lines: u64,
    waves: u32,
    memory: u64,
    memory_spread: u64,
    /// Whether requests leave in the order in which they were read.
    in_order: bool,
    seed: u64,
}

/// What was seen.
#[derive(Debug, Default)]
struct Seen {
    packets: u64,
    flits: u64,
    delivered: u64,
    latency: u64,
    evictions: u64,
    timeouts: u64,
    bypasses: u64,
    end: u64,
    fault: Option<String>,
}

impl Seen {
    fn sent(&mut self, flits: u32) {
        self.packets += 1;
        self.flits += u64::from(flits);
    }

    fn arrived(&mut self, parcel: &Parcel, now: u64) {
        self.delivered += 1;
        self.latency += now - parcel.born;
    }

    fn check(&mut self, rank: NodeId, (tree, line): Key, right: bool, first: bool) {
        if !(right && first) && self.fault.is_none() {
            let what = if first { "is wrong" } else { "came twice" };
            self.fault = Some(format!("line {line} of tree {tree} {what} at rank {rank}"));
        }
    }
}

/// What all nodes share.
struct Shared<'a> {
    wires: &'a mut Wires<Parcel>,
    regions: &'a Regions,
    sizes: &'a Sizes,
    seen: &'a mut Seen,
    /// Number of each tree's first line.
    first_line: &'a [u64],
    /// Lines of all trees.
    lines: u64,
}

/// Bits that depend on all of these and look random.
fn mixed(seed: u64, rank: u32, (tree, line): Key) -> u64 {
    let key = u64::from(tree) << 32 | u64::from(line);
    let mut z = seed.wrapping_add(u64::from(rank).wrapping_mul(0xd6e8_feb8_6659_fd93))
        ^ key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    z = (z ^ (z >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    z ^ (z >> 32)
}

impl Shared<'_> {
    /// The accelerator that adds up partial sums of a line.
    fn home_of(&self, tree: u32, line: u32) -> NodeId {
        (mixed(7, 0, (tree, line)) % u64::from(self.regions.ranks)) as NodeId
    }

    /// Cycles of a read.
    fn memory(&self, rank: NodeId, key: Key) -> u64 {
        let spread = self.sizes.memory_spread.max(1);
        self.sizes.memory + mixed(self.sizes.seed, rank, key) % spread
    }

    /// What a rank contributes to a line.
    fn operand(&self, rank: NodeId, key: Key) -> Operand {
        let bits = mixed(1, rank, key);
        Operand { count: 1, sum: bits, real: (bits >> 40) as f32 / (1 << 20) as f32 }
    }

    /// The integers of all ranks' contributions.
    fn total(&self, key: Key) -> Operand {
        let mut total = Operand::default();
        (0..self.regions.ranks).for_each(|rank| total.add(self.operand(rank, key)));
        total
    }
}

enum Node {
    Switch(Switch),
    Endpoint(Endpoint),
    /// Not on any way.
    Idle,
}

/// Simulates a plan whose trees have switches as nodes.
///
/// # Errors
/// A plan that switches cannot execute; a wave that never ends; `go_on` says no.
pub fn simulate(plan: &Plan, size: Bytes, options: &Options, go_on: &mut dyn FnMut() -> bool) -> Result<Outcome> {
    // Buffers are checked with the other sizes, for which the machine must be known.
    let options = &Options { payload: Some(Bytes(line_of(options)?)), ..options.clone() };
    Options { buffer_flits: None, ..options.clone() }.check()?;
    let routes = LaneRoutes::new(&plan.topology, &plan.lanes);
    let mut machine = Machine::new(plan, &routes, options)?;
    split_latencies(&plan.topology, &mut machine);
    let regions = Regions::new(plan, &routes, &machine, size.0, line_of(options)?)?;
    let sizes = sizes(&regions, plan, &machine, options)?;
    let mut first_line = Vec::with_capacity(regions.regions.len());
    let mut lines = 0;
    for region in &regions.regions {
        first_line.push(lines);
        lines += u64::from(region.lines);
    }
    let (mut wires, mut seen) = (Wires::new(machine.nodes.len()), Seen::default());
    for link in plan.topology.links() {
        wires.add(link.source, link.target);
    }
    let mut shared =
        Shared { wires: &mut wires, regions: &regions, sizes: &sizes, seen: &mut seen, first_line: &first_line, lines };
    let mut nodes: Vec<Node> =
        (0..machine.nodes.len() as NodeId).map(|node| build(&plan.topology, &machine, node, &shared)).collect();
    (0..plan.ranks()).for_each(|rank| shared.wires.wake(rank, 0));
    let lookahead = machine.lookahead();
    let (between, mut turns) = ((CYCLES_BETWEEN_QUESTIONS / lookahead).max(1), 0);
    loop {
        let first = shared.wires.next();
        if first == NEVER {
            break;
        }
        while let Some((node, at)) = shared.wires.take(first + lookahead) {
            let next = match &mut nodes[node as usize] {
                Node::Switch(switch) => switch.advance(at, first + lookahead, &mut shared),
                Node::Endpoint(endpoint) => endpoint.advance(at, first + lookahead, &mut shared),
                Node::Idle => NEVER,
            };
            shared.wires.rest(node, next);
            turns += 1;
            if turns % between == 0 && !go_on() {
                bail!("interrupted at cycle {at}");
            }
        }
    }
    if let Some(fault) = &seen.fault {
        bail!("a sum is not what the ranks contributed: {fault}; this is a bug of the simulator");
    }
    check_all_known(plan, &nodes)?;
    let mut carried = vec![0.0; plan.topology.links().len()];
    let mut table_peak = 0;
    for (number, node) in (0..).zip(&nodes) {
        let busy: Vec<u64> = match node {
            Node::Switch(switch) => switch.busy().collect(),
            Node::Endpoint(endpoint) => endpoint.busy().collect(),
            Node::Idle => Vec::new(),
        };
        for (&link, busy) in plan.topology.outgoing(number).iter().zip(busy) {
            carried[link as usize] = busy as f64 / CYCLE as f64 / machine.clock_hz;
        }
        if let Node::Switch(switch) = node {
            table_peak = table_peak.max(switch.table_peak());
        }
    }
    let seconds = seen.end as f64 / machine.clock_hz;
    Ok(Outcome {
        cycles: seen.end,
        clock_hz: machine.clock_hz,
        packets: seen.packets,
        flits: seen.flits,
        peaks: vec![0; carried.len()],
        buffer_cover: f64::INFINITY,
        fabric: Some(FabricSeen {
            evictions: seen.evictions,
            timeouts: seen.timeouts,
            bypasses: seen.bypasses,
            table_peak: Bytes(table_peak as u64 * sizes.line),
            mean_latency: seen.latency as f64 / seen.delivered.max(1) as f64 / machine.clock_hz,
            waves: sizes.waves,
        }),
        trace: Trace { size, seconds, occupied: carried.clone(), carried, spans: Vec::new() },
    })
}

/// Half of a switch's latency lies on the wires before it and half on those behind it; credits take as long.
fn split_latencies(topology: &Topology, machine: &mut Machine) {
    let half = |node: NodeId, clock: f64| {
        let node = topology.node(node);
        let own = if node.kind == Kind::Switch { node.latency.seconds() } else { 0.0 };
        own * clock / 2.0
    };
    for (link, channel) in topology.links().iter().zip(&mut machine.links) {
        let clock = machine.clock_hz;
        let delay = link.latency.seconds() * clock + half(link.source, clock) + half(link.target, clock);
        channel.delay = (delay.round() as u64).max(1);
        channel.credit_delay = channel.delay;
    }
}

/// Flits that a link needs under way to be busy: a credit's round trip, and a packet more.
fn round_trip(machine: &Machine, packet_flits: u32) -> u32 {
    let flits = |link: &Channel| ((link.delay + link.credit_delay) * CYCLE).div_ceil(link.flit);
    machine.links.iter().map(flits).max().unwrap_or(0) as u32 + 2 * packet_flits
}

fn sizes(regions: &Regions, plan: &Plan, machine: &Machine, options: &Options) -> Result<Sizes> {
    let (topology, fabric) = (&plan.topology, &options.fabric);
    let line = line_of(options)?;
    let pulls = regions.regions.first().is_some_and(|region| topology.is_rank(region.root));
    let packet_flits = 1 + (line / options.flit.0) as u32;
    let table = fabric.table.map_or(if pulls { 4096 } else { 256 }, |table| table.0);
    if table < line {
        bail!("a reduction table must hold a packet's payload ({line} bytes), got {table} bytes; raise --table");
    }
    if fabric.wave.0 < line {
        bail!("a wave must hold a packet's payload ({line} bytes), got {} bytes; raise --wave", fabric.wave.0);
    }
    if fabric.speedup == 0 {
        bail!("a switch must have a speed-up of at least 1, got 0");
    }
    let enough = round_trip(machine, packet_flits);
    let (buffer, queue) = (options.buffer_flits.unwrap_or(enough), fabric.queue_flits.unwrap_or(enough));
    if buffer.min(queue) < packet_flits {
        let short = buffer.min(queue);
        bail!(
            "buffers and queues must hold a whole packet ({packet_flits} flits: a header and {line} bytes), got {short} flits"
        );
    }
    let farthest = regions.farthest();
    let timeout = fabric.timeout.map_or(10 * farthest, u64::from);
    if timeout < 2 * farthest {
        bail!(
            "a timeout of {timeout} cycles is shorter than a round trip of {} cycles: sums would be evicted whenever ranks are apart; raise \
             --timeout-cycles",
            2 * farthest
        );
    }
    let tables: u64 = plan
        .topology
        .nodes()
        .iter()
        .zip(0..)
        .filter(|(node, _)| node.reduces)
        .map(|(_, node)| topology.outgoing(node).len() as u64 * table)
        .sum();
    let by_default = if pulls { 4 } else { (tables / fabric.wave.0).clamp(16, u64::from(u32::MAX)) as u32 };
    let waves = fabric.waves.unwrap_or(by_default);
    Ok(Sizes {
        line,
        packet_flits,
        header_flits: 1,
        entries: (table / line) as usize,
        evicts: !pulls,
        timeout,
        speedup: fabric.speedup,
        queue_flits: queue,
        buffer_flits: buffer,
        pulls,
        barrier: pulls && fabric.barrier,
        wave_lines: fabric.wave.0 / line,
        waves: if waves == 0 { u32::MAX } else { waves },
        memory: fabric.memory_cycles.into(),
        memory_spread: fabric.memory_spread.into(),
        in_order: fabric.initiation == Initiation::Dma,
        seed: fabric.seed,
    })
}

/// Bytes of a packet's payload, and of an entry.
fn line_of(options: &Options) -> Result<u64> {
    let (line, flit) = (options.payload.map_or(128, |payload| payload.0), options.flit.0);
    if line == 0 || flit == 0 || !line.is_multiple_of(flit) || !line.is_multiple_of(4) {
        bail!("a payload must be a multiple of the flit ({flit} bytes) and of 4 bytes, got {line} bytes");
    }
    Ok(line)
}

fn build(topology: &Topology, machine: &Machine, node: NodeId, shared: &Shared) -> Node {
    let ends = |links: &[u32]| -> Vec<(u32, Channel)> {
        links.iter().map(|&link| (link, machine.links[link as usize])).collect()
    };
    let (incoming, outgoing) = (ends(topology.incoming(node)), ends(topology.outgoing(node)));
    match topology.node(node).kind {
        Kind::Switch => Node::Switch(Switch::new(&incoming, &outgoing, shared.sizes)),
        Kind::Accelerator if topology.is_rank(node) => {
            Node::Endpoint(Endpoint::new(node, &incoming, &outgoing, shared))
        }
        Kind::Accelerator => Node::Idle,
    }
}

/// Refuses a run in which some result never came, and says which wave waits for it; nothing may be left in switches either.
fn check_all_known(plan: &Plan, nodes: &[Node]) -> Result<()> {
    for (number, node) in (0..).zip(nodes) {
        match node {
            Node::Endpoint(endpoint) if endpoint.missing > 0 => {
                let (wave, results) = endpoint.waits().unwrap_or_default();
                let name = &plan.topology.node(number).name;
                bail!("stuck: wave {wave} of {name} waits for {results} results, {} in all", endpoint.missing);
            }
            Node::Switch(switch) if switch.left() > 0 => {
                bail!(
                    "{} packets are left at {}; this is a bug of the simulator",
                    switch.left(),
                    plan.topology.node(number).name
                )
            }
            _ => {}
        }
    }
    Ok(())
}
