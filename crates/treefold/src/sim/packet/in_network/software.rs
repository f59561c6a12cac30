//! Plans without switches on a fabric of shared memory: data, fence, flag (in-network paper, sections III and V).
//!
//! A message is a series of writes into the receiver's mailbox, read from memory in order, and a flag behind them: at
//! once, if the network keeps the order, or when all writes are acknowledged. The receiver sees the flag; after the
//! cost of synchronisation the messages that waited for it begin.

use std::collections::{HashMap, VecDeque};

use super::super::machine::{Machine, OutputId};
use super::super::options::{Fence, Options};
use super::super::workload::{Message, MessageId, Workload};
use super::packet::{Op, Packet, Subject};
use super::port::Ports;
use super::{Setup, Shared};
use crate::error::Result;
use crate::misfit;
use crate::plan::{LaneRef, LaneRoutes, Plan};
use crate::sim::jobs::Placed;
use crate::topology::NodeId;
use crate::units::Bytes;

/// Makes the workload of `plan`.
///
/// # Errors
/// If a route has no route back for acknowledgements.
pub fn compile(
    plan: &Plan,
    size: Bytes,
    options: &Options,
    lane_routes: &LaneRoutes,
    machine: &Machine,
) -> Result<Workload> {
    // Ranks wait for flags, not for steps.
    let options = &Options { lockstep: Some(false), ..options.clone() };
    let job = Placed::alone(plan, size, lane_routes);
    let mut workload = Workload::new(&plan.topology.with_conduits(), &[job], None, options, machine)?;
    for message in &workload.messages {
        if lane_routes.of(message.lane.reverse()).is_empty() {
            let [from, to] = [message.source, message.target].map(|node| plan.topology.node(node).name.as_str());
            misfit!("acknowledgements cannot come back from {to} to {from}: a link has no reverse; add it");
        }
    }
    // A stream's next chunk waits until this one has left.
    for next in workload.next_chunk.iter().flatten() {
        workload.waits[*next] += 1;
    }
    Ok(workload)
}

/// Lists the lanes that packets and their acknowledgements use.
pub fn lanes(workload: &Workload) -> Vec<LaneRef> {
    workload.messages.iter().flat_map(|message| [message.lane, message.lane.reverse()]).collect()
}

/// A message that leaves packet by packet.
#[derive(Debug, Clone, Copy)]
struct Stream {
    message: MessageId,
    /// The next packet, and when it may be read.
    next: u32,
    from: u64,
}

/// A rank's part of a plan without switches.
#[derive(Debug)]
pub struct Software {
    rank: NodeId,
    started: bool,
    /// The messages of each port, in the order in which they may leave.
    streams: Vec<VecDeque<Stream>>,
    /// Acknowledgements that messages still wait for.
    unacknowledged: HashMap<MessageId, u32>,
}

impl Software {
    /// Makes the software of a rank with so many ports, which has sent nothing.
    pub fn new(rank: NodeId, ports: usize) -> Self {
        Self { rank, started: false, streams: vec![VecDeque::new(); ports], unacknowledged: HashMap::new() }
    }

    /// Sends what ports have room for.
    pub fn issue(&mut self, now: u64, ports: &mut Ports, shared: &mut Shared) {
        if !self.started {
            self.started = true;
            for &id in shared.setup.workload.steps[self.rank].iter().flat_map(|step| &step.sends) {
                if shared.progress.waits[id] == 0 {
                    self.begin(id, now, shared);
                }
            }
        }
        for port in OutputId::first(self.streams.len()) {
            while ports.has_room(port, shared.setup)
                && let Some(stream) = self.streams[port].pop_front()
            {
                let Stream { message, next, from } = stream;
                let at = from.max(now);
                self.write(message, next, at, ports, shared);
                if next + 1 < shared.setup.workload.messages[message].packets {
                    self.queue(port, Stream { next: next + 1, from: at + 1, ..stream }, shared.setup);
                } else {
                    self.sent(message, at, ports, shared);
                }
            }
        }
    }

    /// Says whether a packet may be sent now that could not before ports sent.
    pub fn goes_on(&self, ports: &Ports, setup: &Setup) -> bool {
        let mut streams = OutputId::first(self.streams.len()).zip(&self.streams);
        streams.any(|(port, streams)| !streams.is_empty() && ports.has_room(port, setup))
    }

    /// Says what it still waits for.
    pub fn waits(&self) -> Option<String> {
        let left = self.streams.iter().map(VecDeque::len).sum::<usize>() + self.unacknowledged.len();
        (left > 0).then(|| format!("has {left} messages that did not leave or were not acknowledged"))
    }

    /// Lets the packets of a message leave from now on.
    fn begin(&mut self, id: MessageId, now: u64, shared: &mut Shared) {
        let lane = shared.setup.workload.messages[id].lane;
        let port = shared.setup.routes.first(lane.into()).output;
        self.queue(port, Stream { message: id, next: 0, from: now }, shared.setup);
        shared.progress.times[id].started = now;
        if shared.setup.parameters.fabric.fence == Fence::Acknowledged {
            self.unacknowledged.insert(id, shared.setup.workload.messages[id].packets);
        }
    }

    /// Puts a stream in its place at a port: messages of earlier steps and chunks leave first, others take turns.
    fn queue(&mut self, port: OutputId, stream: Stream, setup: &Setup) {
        let turn = |stream: &Stream| {
            let Message { phase, phase_step, chunk, .. } = setup.workload.messages[stream.message];
            (phase, phase_step, chunk)
        };
        let streams = &mut self.streams[port];
        let place = streams.iter().rposition(|other| turn(other) <= turn(&stream)).map_or(0, |place| place + 1);
        streams.insert(place, stream);
    }

    /// Sends a packet of a message.
    fn write(&mut self, id: MessageId, number: u32, now: u64, ports: &mut Ports, shared: &mut Shared) {
        let message = &shared.setup.workload.messages[id];
        let subject = Subject::Message { message: id, packet: number };
        let packet = Packet::new(Op::Data, message.lane.into(), subject, message.flits_of(number));
        shared.stats.fabric.reads += shared.setup.payload(packet.flits);
        let ready = now + shared.memory(self.rank, subject);
        ports.send(packet, ready, true, shared);
    }

    /// Sends what may follow when all data of a message are on their way.
    fn sent(&mut self, id: MessageId, now: u64, ports: &mut Ports, shared: &mut Shared) {
        shared.progress.times[id].sent = now;
        if shared.setup.parameters.fabric.fence == Fence::Ordered {
            self.flag(id, now, true, ports, shared);
        }
        if let Some(next) = shared.setup.workload.next_chunk[id] {
            self.release(next, now, shared);
        }
    }

    /// Sends the flag of a message, at once or behind what was sent before it.
    fn flag(&mut self, id: MessageId, now: u64, in_order: bool, ports: &mut Ports, shared: &mut Shared) {
        let message = &shared.setup.workload.messages[id];
        let subject = Subject::Message { message: id, packet: message.packets };
        let flag = Packet::new(Op::Flag, message.lane.into(), subject, shared.setup.parameters.flag_flits);
        ports.send(flag, now, in_order, shared);
    }

    /// Takes off one thing for which a message waits; if it was the last, the message begins.
    fn release(&mut self, id: MessageId, now: u64, shared: &mut Shared) {
        shared.progress.waits[id] -= 1;
        if shared.progress.waits[id] == 0 {
            self.begin(id, now, shared);
        }
    }

    /// Takes in a packet that has arrived.
    pub fn take(&mut self, packet: Packet, now: u64, ports: &mut Ports, shared: &mut Shared) {
        let Subject::Message { message: id, packet: number } = packet.subject else {
            unreachable!("requests of in-network plans");
        };
        match packet.op {
            Op::Ack => self.acknowledged(id, now, ports, shared),
            Op::Data => {
                let bytes = shared.setup.payload(packet.flits);
                shared.stats.fabric.writes += bytes;
                // What is to be added is read from the mailbox, beside the rank's own.
                if shared.setup.workload.messages[id].aggregation.is_some() {
                    shared.stats.fabric.reads += bytes;
                }
                shared.progress.packet_left(id);
                acknowledge(packet, id, now, ports, shared);
            }
            Op::Flag => {
                if shared.progress.packets[id] > 0 {
                    shared.stats.fault(|| format!("the flag of message {id} came before its data"));
                }
                debug_assert_eq!(number, shared.setup.workload.messages[id].packets);
                acknowledge(packet, id, now, ports, shared);
                self.received(id, now + shared.setup.parameters.sync, shared);
            }
            _ => unreachable!("requests of in-network plans"),
        }
    }

    /// Counts an acknowledgement; behind the last one the flag of the message leaves.
    fn acknowledged(&mut self, id: MessageId, now: u64, ports: &mut Ports, shared: &mut Shared) {
        let Some(left) = self.unacknowledged.get_mut(&id) else { return };
        *left -= 1;
        if *left == 0 {
            self.unacknowledged.remove(&id);
            self.flag(id, now, false, ports, shared);
        }
    }

    /// Records that a message is received, and lets begin what waited for it.
    fn received(&mut self, id: MessageId, now: u64, shared: &mut Shared) {
        let progress = &mut *shared.progress;
        progress.received += 1;
        progress.times[id].received = now;
        shared.stats.end = shared.stats.end.max(now);
        for &next in shared.setup.workload.releases.row(id.index()) {
            self.release(next, now, shared);
        }
    }
}

/// Answers a packet of a message.
fn acknowledge(packet: Packet, message: MessageId, now: u64, ports: &mut Ports, shared: &mut Shared) {
    let back = shared.setup.workload.messages[message].lane.reverse();
    ports.acknowledge(packet, back.into(), now, shared);
}
