//! A transfer as the network carries it.

use std::ops::Range;

use super::machine::InterfaceId;
use super::options::{FlowControl, Options};
use super::workload::ELEMENT;
use crate::error::Result;
use crate::misfit;
use crate::plan::schedule::{Op, Schedule, TransferId};
use crate::plan::{LaneRef, Step};
use crate::random::Random;
use crate::sim::jobs::Placed;
use crate::sim::trace;
use crate::topology::NodeId;
use crate::units::Seconds;

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
    /// Its job.
    pub job: u16,
    /// Its lane in the job's plan.
    pub lane: LaneRef,
    /// Its routes, as rows of the workload's routes; each of its packets takes one.
    pub routes: Range<u32>,
    /// What its packets draw lots with: a seed of its own, the same whichever other jobs send.
    pub lots: u64,
    /// Its tree.
    pub tree: u32,
    /// Its chunk of the tree's span.
    pub chunk: u32,
    /// Its phase.
    pub phase: u16,
    /// Its step of the phase; `None` in streams.
    pub phase_step: Option<Step>,
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

/// Packets of a message that take one route.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// The route, as a row of the workload's routes.
    pub route: u32,
    /// Their flits.
    pub flits: u64,
    /// Whether the message's first packet is among them.
    pub is_first: bool,
}

impl Message {
    /// Counts the flits of all its packets.
    pub fn flits(&self) -> u64 {
        u64::from(self.packets - 1) * u64::from(self.packet_flits) + u64::from(self.last_flits)
    }

    /// Returns the route that packet `number` takes. Among several a hash chooses, as routers draw lots: any pattern in
    /// the numbers of messages could send all packets of a lane the same way.
    pub fn route_of(&self, number: u32) -> u32 {
        let Range { start, end } = self.routes;
        if end - start == 1 {
            return start;
        }
        let lots = self.lots | u64::from(number);
        start + Random::new(lots).below(u64::from(end - start)) as u32
    }

    /// Lists its parts that take a route each: all of it where it has one route, and else its packets.
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        let is_one = self.routes.len() == 1;
        (0..if is_one { 1 } else { self.packets }).map(move |number| Part {
            route: self.route_of(number),
            flits: if is_one { self.flits() } else { self.flits_of(number).into() },
            is_first: number == 0,
        })
    }

    /// Makes the transfer that a trace shows.
    pub fn timed(&self, times: Times, seconds: impl Fn(u64) -> Seconds) -> trace::Transfer {
        trace::Transfer {
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

/// Where a message stands among all.
#[derive(Clone, Copy)]
pub struct Place {
    /// The place of its job among those that send.
    pub job: u16,
    /// Its number among the job's messages.
    pub number: u32,
}

/// Makes the message of transfer `id`, before it has routes, steps and interfaces.
pub fn message(job: &Placed, schedule: &Schedule, id: TransferId, place: Place, options: &Options) -> Result<Message> {
    let lane = schedule.lane[id].expect("only local copies have no lane");
    let (source, target) = job.plan.lanes.ends_of(lane);
    let elements = schedule.elements_of(id);
    let bytes = elements * ELEMENT;
    let flits = bytes.div_ceil(options.flit.get()).max(1);
    if flits >= u64::from(u32::MAX) {
        misfit!(
            "a message of {bytes} bytes has {flits} flits, and fewer than 2^32 can be counted; raise flit or lower \
             the size"
        );
    }
    let payloads = bytes.div_ceil(options.payload().get()).max(1) as u32;
    let (packets, packet_flits, last_flits) = match options.flow_control {
        FlowControl::Message => (1, 1 + flits as u32, 1 + flits as u32),
        FlowControl::Packet => {
            let packet_flits = options.packet_flits();
            let full = u64::from(payloads - 1) * u64::from(packet_flits - 1);
            (payloads, packet_flits, 1 + (flits - full) as u32)
        }
    };
    Ok(Message {
        source: job.node(source),
        target: job.node(target),
        job: place.job,
        lane,
        routes: 0..0,
        lots: u64::from(place.number ^ u32::from(job.number) << 16) << 32,
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
