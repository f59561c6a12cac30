//! Background traffic as packets: when accelerators send short messages, and when these arrive.
//!
//! A message is made at its time whatever the network does, and waits in its accelerator until the interface of the
//! background has sent those before it. Its latency is counted from then until its receiver knows it. Messages are
//! made for a window of time at once; those that have arrived leave their places to later ones.

use super::machine::{InterfaceId, Machine, OutputId};
use super::options::Options;
use super::workload::{Message, MessageId, Workload};
use crate::error::Result;
use crate::plan::LaneRef;
use crate::random::Random;
use crate::sim::background::{Background, Pairs, exponential, injection};
use crate::topology::{NodeId, Topology};
use crate::units::{Frequency, Seconds};

/// The cycles for which messages are made at once.
pub const WINDOW: u64 = 1 << 13;

/// An accelerator that sends.
#[derive(Debug)]
struct Source {
    node: NodeId,
    random: Random,
    /// When it makes its next message, and the mean of the time between two, in cycles.
    next: f64,
    gap: f64,
    targets: Vec<NodeId>,
    /// The row of the workload's routes of its first target.
    first_row: u32,
}

/// A message that is made.
#[derive(Debug, Clone, Copy)]
pub struct Made {
    /// Its number.
    pub message: MessageId,
    /// Who sends it.
    pub source: NodeId,
    /// The cycle in which it is made.
    pub at: u64,
}

/// A message that was received.
#[derive(Debug, Clone, Copy)]
struct Received {
    made: u64,
    latency: u64,
}

/// The traffic on its way.
#[derive(Debug, Default)]
pub struct Traffic {
    sources: Vec<Source>,
    /// What all messages have in common.
    template: Option<Message>,
    /// When each message under way was made, by its place behind those of plans.
    made: Vec<u64>,
    free: Vec<MessageId>,
    received: Vec<Received>,
}

/// The figures of background traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// The messages that were made before the last job ended.
    pub messages: u64,
    /// The mean time from when they were made until they were received; it is `None` if there are none.
    pub mean_latency: Option<Seconds>,
    /// The least time that 99 of 100 did not exceed; it is `None` if there are none.
    pub p99_latency: Option<Seconds>,
}

impl Traffic {
    /// Makes traffic of which nothing is sent.
    ///
    /// # Errors
    /// If a link cannot carry it.
    pub fn new(
        background: &Background,
        network: &Topology,
        pairs: &Pairs,
        workload: &Workload,
        machine: &Machine,
        options: &Options,
    ) -> Result<Self> {
        pairs.shares(network, background.load)?;
        let template = template(background, options);
        let bytes = (template.flits() * options.flit.get()) as f64;
        let mut first_row = workload.rows.last().map_or(0, |rows| rows.end) as u32;
        let mut source = |(number, &node): (usize, &NodeId)| {
            let targets = pairs.targets.row(number).to_vec();
            let row = first_row;
            first_row += targets.len() as u32;
            let gap = bytes / (background.load * injection(network, node)) * machine.clock.hertz();
            let seed = Random::new(background.seed).bits().wrapping_add(number as u64);
            let mut random = Random::new(Random::new(seed).bits());
            Source { node, next: gap * exponential(&mut random), random, gap, targets, first_row: row }
        };
        let sources = pairs.sources.iter().enumerate().map(&mut source);
        let sources = sources.filter(|source| !source.targets.is_empty()).collect();
        Ok(Self { sources, template: Some(template), ..Self::default() })
    }

    /// Says whether there is any.
    pub fn is_on(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Lists the outputs that messages of `node` may want first.
    pub fn feed(&self, node: NodeId, workload: &Workload) -> Vec<OutputId> {
        let mut outputs = Vec::new();
        for source in self.sources.iter().filter(|source| source.node == node) {
            let rows = source.first_row..source.first_row + source.targets.len() as u32;
            outputs.extend(rows.map(|row| workload.routes.row(row as usize)[0].output));
        }
        outputs.sort_unstable();
        outputs.dedup();
        outputs
    }

    /// Makes the messages of the cycles before `until`, source by source and in the order of their times.
    pub fn fill(&mut self, until: u64, workload: &mut Workload, machine: &Machine) -> Vec<Made> {
        let mut sources = std::mem::take(&mut self.sources);
        let mut all = Vec::new();
        for source in &mut sources {
            while source.next < until as f64 {
                let at = source.next as u64;
                source.next += source.gap * exponential(&mut source.random);
                let target = source.random.below(source.targets.len() as u64) as usize;
                let message = self.add(source, target, workload, machine);
                self.made[message.index() - workload.planned] = at;
                all.push(Made { message, source: source.node, at });
            }
        }
        self.sources = sources;
        all
    }

    /// Adds a message to the workload, in the place of one that has arrived if there is one.
    fn add(&mut self, source: &Source, target: usize, workload: &mut Workload, machine: &Machine) -> MessageId {
        let row = source.first_row + target as u32;
        let message = Message {
            source: source.node,
            target: source.targets[target],
            routes: row..row + 1,
            ejector: InterfaceId(machine.nodes[source.targets[target]].interfaces),
            ..self.template.clone().expect("there is traffic")
        };
        if let Some(id) = self.free.pop() {
            workload.messages[id] = message;
            return id;
        }
        workload.messages.push(message);
        self.made.push(0);
        MessageId::new(workload.messages.len() - 1)
    }

    /// Receives a message in cycle `at`; `planned` messages of plans have the first numbers.
    pub fn receive(&mut self, message: MessageId, at: u64, planned: usize) {
        let made = self.made[message.index() - planned];
        self.received.push(Received { made, latency: at - made });
        self.free.push(message);
    }

    /// Returns the figures of the messages that were made up to cycle `end`.
    pub fn figures(&self, end: u64, clock: Frequency) -> Figures {
        let counted = self.received.iter().filter(|message| message.made <= end);
        let mut latencies: Vec<u64> = counted.map(|message| message.latency).collect();
        latencies.sort_unstable();
        let (count, sum) = (latencies.len(), latencies.iter().map(|&latency| u128::from(latency)).sum::<u128>());
        let seconds = |cycles: f64| (count > 0).then(|| clock.seconds_for(cycles));
        let p99 = latencies.get((count * 99).div_ceil(100).saturating_sub(1)).map_or(0.0, |&cycles| cycles as f64);
        Figures {
            messages: count as u64,
            mean_latency: seconds(sum as f64 / count.max(1) as f64),
            p99_latency: seconds(p99),
        }
    }
}

/// Makes a message of the background: packets with heads, whatever those of plans have.
fn template(background: &Background, options: &Options) -> Message {
    let flits = background.message.get().div_ceil(options.flit.get()) as u32;
    let payload_flits = options.packet_flits() - 1;
    let packets = flits.div_ceil(payload_flits);
    Message {
        source: NodeId(0),
        target: NodeId(0),
        job: 0,
        lane: LaneRef::from_index(0),
        routes: 0..0,
        lots: 0,
        tree: 0,
        chunk: 0,
        phase: 0,
        phase_step: None,
        step: 0,
        // No message of a plan goes before it at an input.
        priority: 0,
        bytes: background.message.get(),
        packets,
        payloads: packets,
        last_flits: 1 + flits - (packets - 1) * payload_flits,
        packet_flits: options.packet_flits(),
        aggregation: None,
        injector: None,
        ejector: InterfaceId(0),
    }
}
