//! The packet simulator: cycle by cycle, flit by flit (MultiTree paper, sections IV and V; its Table III).
//!
//! It simulates virtual cut-through with virtual channels, credits and routed links (`router`), and network interfaces
//! that execute schedule tables (`interface`). Nothing is global: a node at work sees only what has arrived. What
//! leaves a node reaches no other for at least the shortest link's latency, so nodes take turns to run that far ahead
//! (`wires`), each from one cycle in which it has something to do to the next; the result is that of a loop over all
//! nodes in every cycle (`tests/suite/packet_oracle.rs`). Cost: 0.25 us a packet and link where none contend, 50 to 100
//! ns a flit and router where they do, whatever the size of the network.
//!
//! In networks whose switches reduce, `in_network` takes the place of routers and interfaces.
//!
//! Several jobs are one workload; what runs beside them is `traffic`. A single plan is the only job.
//!
//! From its issue to its receipt, a message that meets no other takes, in cycles: its flits, the latency of each link,
//! 3 for each router (4 for a switch), and 3 more (5 where the routers are the accelerators' own).

mod classes;
mod deadlock;
// The binding shows the formats of flits.
#[doc(hidden)]
pub mod flit;
mod in_network;
mod interface;
mod levels;
// The oracle of the tests shares the compiled machine and workload.
#[doc(hidden)]
pub mod machine;
mod message;
mod node;
pub mod options;
pub mod readers;
mod router;
mod routes;
mod sampling;
mod shared;
mod stream;
mod traffic;
mod wires;
#[doc(hidden)]
pub mod workload;

pub use in_network::{RegionEntry, region_entries};
pub use options::{FlowControl, Interfaces, Options, Switches};
pub use traffic::Figures;

use super::Watch;
use super::background::{Background, Pairs};
use super::jobs::{Job, Placed, place, routes_of};
use super::trace::Trace;
use crate::error::{Error, Result};
use crate::number::Operator;
use crate::plan::{Plan, Walkable};
use crate::topology::{Abilities, Link, NodeId, Topology};
use crate::units::{Bytes, Frequency, Seconds};
use crate::{bail, misfit};
use interface::Table;
use machine::{CYCLE, Machine, Wire};
use node::{Node, build};
use shared::{Progress, Shared};
use traffic::{Made, Traffic, WINDOW};
use wires::{Head, NEVER, Nodes, Wires, take_turns, take_turns_until};
use workload::{Message, Part, ProgramId, Workload};

/// The outcome of a packet simulation.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What all event simulators report.
    pub trace: Trace,
    /// The cycles from the start of the simulation to the last receipt or sum; with shared interfaces they last until
    /// the last credit is back, as the authors count.
    pub cycles: u64,
    /// The clock of the machine, by which cycles are times.
    pub clock: Frequency,
    /// The number of packets that were sent.
    pub packets: u64,
    /// The number of flits that were sent, heads included.
    pub flits: u64,
    /// The most flits that a virtual channel's buffer at the end of each link ever held.
    pub peaks: Vec<u32>,
    /// The least fraction, over all links, of a link's credit round trip that its buffers cover for a message; below 1
    /// they limit its rate. It is `None` in a fabric, and if nothing is sent.
    pub buffer_cover: Option<f64>,
    /// What only a fabric reports; it is `None` if routers ran.
    pub fabric: Option<FabricStats>,
}

/// What the simulation of a fabric also reports.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FabricStats {
    /// The number of entries that left their table before all their operands were there.
    pub evictions: u64,
    /// The number of entries that were evicted because nothing touched them for too long.
    pub timeouts: u64,
    /// The number of pulls that found no free entry behind their first switch.
    pub bypasses: u64,
    /// The number of pulls that had to wait for an entry at their first switch.
    pub stalls: u64,
    /// The number of times that a wave asked for a counter and found none.
    pub failed_allocations: u64,
    /// The number of packets that were sent once more over a link, as they arrived corrupt, or behind one that did.
    pub retransmissions: u64,
    /// The number of packets that arrived once more on a link, and were dropped.
    pub duplicates: u64,
    /// The operator by which switches reduced; it is `None` where they reduce nothing.
    pub op: Option<Operator>,
    /// The size of a port's table; it is `None` where nothing is reduced, or where tables are as large as they must be.
    pub table: Option<Bytes>,
    /// The cycles after which an untouched entry is evicted; it is `None` where nothing is pushed, or where `table` is
    /// `None`.
    pub timeout: Option<u64>,
    /// The most bytes that a table ever held.
    pub table_peak: Bytes,
    /// The mean time from when a packet was ready until it arrived.
    pub mean_latency: Seconds,
    /// The number of waves that could be outstanding; it is `None` if any number could.
    pub waves: Option<u32>,
    /// The bytes that all accelerators together read from memory.
    pub reads: u64,
    /// The bytes that all accelerators together wrote to memory.
    pub writes: u64,
    /// A digest of the bits of all results in floating point; it is `None` where software adds, which computes none.
    pub digest: Option<u64>,
}

/// Simulates `plan` for a vector of `size` (rounded up to elements of four bytes).
///
/// # Errors
/// If the machine cannot work, or not with this network or plan; if there is a deadlock; or if `watch` ends the
/// simulation.
///
/// ```
/// use std::sync::Arc;
/// use treefold::planners;
/// use treefold::sim::Watch;
/// use treefold::sim::packet::{Options, simulate};
/// use treefold::topology::from_spec;
/// use treefold::units::parse_bytes;
///
/// let ring = Arc::new(from_spec("ring:4", None, None)?);
/// let plan = planners::plan("ring", &ring, &planners::Options::default())?;
/// let outcome = simulate(&plan, parse_bytes("4KiB")?, &Options::default(), Watch::NOTHING)?;
/// assert_eq!(outcome.clock.seconds_for(outcome.cycles as f64), outcome.trace.seconds);
/// assert_eq!(outcome.packets, 24 * 4, "24 messages of 1 KiB, in packets of 256 bytes");
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn simulate<'a>(plan: impl Into<Walkable<'a>>, size: Bytes, options: &Options, watch: Watch) -> Result<Outcome> {
    let plan = plan.into();
    if in_network::applies(plan.walked(), options)? {
        refuse_shared(&plan.topology)?;
        return in_network::simulate(plan.walked(), size, options, watch);
    }
    let together = Together { jobs: &[Job::new(plan, size)], background: None };
    let [outcome] = <[Outcome; 1]>::try_from(together.simulate(options, Sending::All, watch)?.jobs)
        .expect("one job has one outcome");
    Ok(outcome)
}

/// Jobs that begin at once on the network of the first, with or without background traffic.
#[derive(Debug, Clone, Copy)]
pub struct Together<'a> {
    /// The jobs.
    pub jobs: &'a [Job<'a>],
    /// The traffic beside them.
    pub background: Option<Background>,
}

/// The outcomes of jobs, and the figures of the traffic beside them.
#[derive(Debug, Clone)]
pub struct Outcomes {
    /// The outcome of each job. Cycles, transfers and what links carried are the job's own; peaks are of all jobs.
    pub jobs: Vec<Outcome>,
    /// The figures of the background traffic; it is `None` if there is no such traffic.
    pub background: Option<Figures>,
}

/// Which jobs send; the machine is the same in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// All jobs and the background.
    All,
    /// One job, with this number.
    Only(usize),
}

impl Together<'_> {
    /// Simulates the jobs; see [`simulate`].
    ///
    /// # Errors
    /// As for [`simulate`]; if the jobs' networks differ in more than their ranks; if a job would run on a fabric; or
    /// if the background is more than a link can carry.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners;
    /// use treefold::sim::packet::{Options, Sending, Together};
    /// use treefold::sim::{Background, Job, Watch};
    /// use treefold::units::Bytes;
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("ring", &ring, &planners::Options::default())?;
    /// let job = Job::new(&plan, Bytes::known(4096));
    /// let background = Background { load: 0.1, message: Bytes::known(64), seed: 1 };
    /// let together = Together { jobs: &[job], background: Some(background) };
    /// let [all, alone] = [Sending::All, Sending::Only(0)]
    ///     .map(|sending| together.simulate(&Options::default(), sending, Watch::NOTHING).unwrap());
    /// assert!(all.jobs[0].cycles > alone.jobs[0].cycles, "short messages take some of the links");
    /// assert!(all.background.unwrap().messages > 0);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn simulate(&self, options: &Options, sending: Sending, watch: Watch) -> Result<Outcomes> {
        let routes = routes_of(self.jobs);
        let jobs = place(self.jobs, &routes)?;
        self.check(options)?;
        let plain = &*self.jobs[0].plan.topology;
        let expanded = plain.with_conduits();
        let network = &*expanded.network;
        let background = self.background.filter(|background| background.load > 0.0);
        let pairs = background.map(|_| Pairs::new(plain)).transpose()?;
        let machine = Machine::new(network, &jobs, pairs.is_some(), options)?;
        let senders = match sending {
            Sending::All => &jobs[..],
            Sending::Only(job) => &jobs[job..=job],
        };
        let workload = Workload::new(&expanded, senders, pairs.as_ref(), options, &machine)?;
        let mut progress = Progress::new(&workload);
        if let (Some(background), Some(pairs), Sending::All) = (background, &pairs, sending) {
            progress.traffic = Traffic::new(&background, plain, pairs, &workload, &machine, options)?;
        }
        let mut run = Run::new(network, &machine, workload, progress, options);
        let record = watch.transfers;
        if record {
            sampling::begin(&mut run.nodes);
        }
        run.run(watch)?;
        if run.progress.received < run.workload.planned {
            return Err(deadlock::report(network, &run.workload, &run.progress, &run.nodes));
        }
        Ok(run.outcomes(senders, network, options, record))
    }

    /// Refuses what routers do not run.
    fn check(&self, options: &Options) -> Result<()> {
        for plan in self.jobs.iter().map(|job| job.plan.walked()) {
            if in_network::applies(plan, options)? {
                misfit!(
                    "{} on {} would run on a fabric, where one job runs at a time, without background traffic; use the \
                     flow simulator, or set switches=routers if no plan needs its switches to reduce or multicast",
                    plan.algorithm,
                    plan.topology.name()
                );
            }
            options.check().map_err(|error| kind_for(plan, options, error))?;
        }
        if let (Some(kept), None) = (options.kept_channels, self.background) {
            bail!("kept_channels={kept} keeps virtual channels for background traffic, and there is none; drop it");
        }
        self.background.map_or(Ok(()), |background| background.check())
    }
}

/// Refuses a machine on which no plan for a network runs, whatever the planner.
///
/// # Errors
/// If a parameter cannot work; the error says its value and the remedy.
///
/// ```
/// use treefold::sim::packet::{Options, check};
/// use treefold::topology::from_spec;
/// use treefold::units::Bytes;
///
/// let torus = from_spec("torus:4x4", None, None)?;
/// let machine = Options { payload: Some(Bytes::known(100)), ..Options::default() };
/// assert!(check(&torus, &machine).unwrap_err().to_string().contains("multiple of the flit (16 bytes), got 100"));
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn check(topology: &Topology, options: &Options) -> Result<()> {
    let may_add = || topology.nodes().iter().any(|node| node.abilities() != Abilities::NONE);
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

/// Refuses capacities that links share, where switches reduce.
fn refuse_shared(network: &Topology) -> Result<()> {
    let Some(first) = network.shared().first() else { return Ok(()) };
    misfit!(
        "{}: a fabric does not count what links share, such as '{}'; use the flow simulator, or set switches=routers \
         if no plan needs its switches to reduce or multicast",
        network.name(),
        first.name
    )
}

struct Run<'a> {
    machine: &'a Machine,
    workload: Workload,
    nodes: Vec<Node>,
    wires: Wires,
    progress: Progress,
}

impl<'a> Run<'a> {
    fn new(
        network: &Topology,
        machine: &'a Machine,
        workload: Workload,
        progress: Progress,
        options: &Options,
    ) -> Self {
        let mut wires = Wires::new(machine.nodes.len());
        for link in network.links() {
            wires.add(link.source, link.target);
        }
        let mut nodes: Vec<Node> =
            network.node_ids().map(|node| build(network, machine, node, options, &mut wires)).collect();
        for (node, parameters) in network.node_ids().zip(&machine.nodes).filter(|(_, node)| node.has_router) {
            nodes[node].feeds = workload.feeds(node, parameters.interfaces);
            if parameters.has_background {
                nodes[node].feeds.push(progress.traffic.feed(node, &workload));
            }
        }
        Self { machine, workload, nodes, wires, progress }
    }

    fn run(&mut self, mut watch: Watch) -> Result<()> {
        let (lookahead, clock) = (self.machine.lookahead(), self.machine.clock);
        let go_on = &mut |cycle| watch.goes_on(clock.seconds_for(cycle as f64));
        self.start();
        let mut until = 0;
        while self.progress.traffic.is_on() && self.progress.received < self.workload.planned && !self.is_stuck() {
            until += WINDOW;
            self.make_background(until);
            take_turns_until(until, self, lookahead, go_on)?;
            if !go_on(until) {
                return Err(Error::interrupted(format!("interrupted at cycle {until}")));
            }
        }
        take_turns(self, lookahead, go_on)
    }

    /// Gives every rank its programs.
    fn start(&mut self) {
        for id in ProgramId::first(self.workload.programs.len()) {
            let rank = self.workload.programs[id].rank;
            let table = self.nodes[rank].table.as_mut().expect("ranks have tables");
            let at = table.start(id, &self.workload);
            if at < NEVER {
                self.wires.wake(rank, at);
            }
        }
    }

    /// Says whether no job goes on, whatever the background does.
    fn is_stuck(&self) -> bool {
        let rest = |node: &Node| node.table.as_ref().is_none_or(Table::rests);
        self.progress.issued == self.progress.received && self.nodes.iter().all(rest)
    }

    /// Makes the messages of the background of the cycles before `until`.
    fn make_background(&mut self, until: u64) {
        for Made { message, source, at } in self.progress.traffic.fill(until, &mut self.workload, self.machine) {
            self.progress.make_room(message, &self.workload);
            self.nodes[source].table.as_mut().expect("accelerators have tables").queue_background(message, at);
            self.wires.wake(source, at);
        }
    }

    fn outcomes(&self, jobs: &[Placed], network: &Topology, options: &Options, record: bool) -> Outcomes {
        let jobs: Vec<Outcome> =
            (0..).zip(jobs).map(|(number, job)| self.outcome(number, job, network, options, record)).collect();
        let end = jobs.iter().map(|job| job.cycles).max().unwrap_or(0);
        let traffic = &self.progress.traffic;
        let background = traffic.is_on().then(|| traffic.figures(end, self.machine.clock));
        Outcomes { jobs, background }
    }

    fn outcome(&self, number: usize, job: &Placed, network: &Topology, options: &Options, record: bool) -> Outcome {
        let (machine, workload, course) = (self.machine, &self.workload, &self.progress.courses[number]);
        let places = workload.messages_of(number);
        let messages = &workload.messages[places.clone()];
        let tail = (!messages.is_empty()).then(|| workload.first_route(&workload.messages[course.last.message]).last());
        let tail = tail.flatten().filter(|_| options.interfaces == Interfaces::Shared);
        let credits = tail.map_or(0, |hop| course.last.at + machine.links[hop.link].latency);
        let cycles = course.end.max(credits);
        let seconds = |cycle: u64| machine.clock.seconds_for(cycle as f64);
        let peak = |(link, wire): (&Link, &Wire)| self.nodes[link.target].router.peak(wire.input);
        let plain = &job.plan.topology;
        let mut carried = carried(messages, workload, machine);
        carried.truncate(plain.num_capacities());
        let recorded = if record { messages } else { &[] };
        let times = &self.progress.times[places];
        let transfers = recorded.iter().zip(times).map(|(message, times)| message.timed(*times, seconds));
        Outcome {
            cycles,
            clock: machine.clock,
            packets: messages.iter().map(|message| u64::from(message.packets)).sum(),
            flits: messages.iter().map(Message::flits).sum(),
            peaks: network.links().iter().zip(&machine.links).take(plain.links().len()).map(peak).collect(),
            buffer_cover: machine.buffer_cover(workload.hops_of(number), options),
            fabric: None,
            trace: Trace {
                size: job.size,
                seconds: seconds(cycles),
                occupied: carried.clone(),
                carried,
                transfers: transfers.collect(),
                uncertainty: Seconds::ZERO,
                samples: sampling::samples_of(&self.nodes, network, machine, cycles, plain),
            },
        }
    }
}

/// Returns the time for which messages take each link.
fn carried(messages: &[Message], workload: &Workload, machine: &Machine) -> Vec<Seconds> {
    let mut busy = vec![0u64; machine.links.len()];
    for message in messages {
        for Part { route, flits, is_first } in message.parts() {
            for hop in workload.routes.row(route as usize) {
                let wire = &machine.links[hop.link];
                let overhead = if is_first { wire.overhead * CYCLE } else { 0 };
                busy[hop.link] += overhead + flits * wire.flit;
            }
        }
    }
    busy.into_iter().map(|parts| machine.clock.seconds_for(parts as f64 / CYCLE as f64)).collect()
}

impl Nodes<Head> for Run<'_> {
    fn wires(&mut self) -> &mut Wires {
        &mut self.wires
    }

    fn advance(&mut self, node: NodeId, from: u64, horizon: u64) -> u64 {
        let shared = Shared { workload: &self.workload, progress: &mut self.progress, wires: &mut self.wires };
        self.nodes[node].advance(from, horizon, shared)
    }
}
