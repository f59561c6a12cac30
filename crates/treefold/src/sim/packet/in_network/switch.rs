//! A switch that multicasts and reduces (in-network paper, sections IV-A to IV-E and V).
//!
//! Output-queued with internal speed-up: a packet waits at its input, for each virtual channel in order, crosses to the
//! queues of all its outputs that have room, in one go or in several (a busy port holds no other), and leaves as each
//! wire is free and the next input has room for it whole. Packets stay whole; the latency of the switch lies on the
//! wires before and behind it. A port's reduction table takes in operands at the rate of a wire; what it gives out
//! crosses like what comes in. Cost: a look at every port in each cycle in which something can move, a few steps a
//! packet.

mod forwarding;

use std::collections::{HashMap, VecDeque};

use super::super::machine::{CYCLE, Wire, whole_cycles};
use super::super::wires::{NEVER, WireId, Wires};
use super::Shared;
use super::packet::{Key, NONE, Op, Operand, Packet};
use super::parameters::Parameters;
use super::port::Sender;
use super::reduction::partial;
use super::reduction_table::ReductionTable;
use forwarding::{multicast, onward, over};

/// A packet at an input.
#[derive(Debug)]
struct Waiting {
    /// When its head is here, and all of it.
    at: u64,
    end: u64,
    packet: Packet,
}

/// A place where packets come in: a link, or a table's route back into the switch.
#[derive(Debug, Default)]
struct Input {
    /// Its wire, unless it is a table's.
    wire: Option<WireId>,
    credit_delay: u64,
    /// Time of a flit on the link, in parts of a cycle.
    flit: u64,
    due: u64,
    queues: Vec<VecDeque<Waiting>>,
    /// Where the first packet of each queue still has to go; empty before that is decided.
    targets: Vec<Vec<Target>>,
    /// When it has sent what crosses.
    crossing_until: u64,
}

/// Where a packet goes from an input, and as what.
#[derive(Debug, Clone, Copy)]
enum Target {
    /// To an output.
    Output(u32, Packet),
    /// Into the table of a port.
    Table(u32, Packet),
}

impl Input {
    /// Not of a link.
    fn new(channels: usize) -> Self {
        let queues = std::iter::repeat_with(VecDeque::new).take(channels).collect();
        Self { due: NEVER, queues, targets: vec![Vec::new(); channels], ..Self::default() }
    }
}

/// A link out, and the queues before it.
#[derive(Debug)]
struct Output {
    sender: Sender,
    /// By virtual channel: packets, and from when on they can be sent.
    queues: Vec<VecDeque<(u64, Packet)>>,
    /// Flits for which each queue has room.
    room: Vec<u32>,
    crossing_until: u64,
}

/// A switch.
#[derive(Debug)]
pub struct Switch {
    /// Links, then tables.
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    tables: Vec<ReductionTable>,
    /// Acknowledgements that are still expected of multicasts.
    acks: HashMap<Key, u32>,
    /// Time in which a table adds a flit, in parts of a cycle: that of the fastest link here.
    adder_flit: u64,
    turn: usize,
}

impl Switch {
    /// A switch with these links in and out (number, wire).
    pub fn new(incoming: &[(WireId, Wire)], outgoing: &[(WireId, Wire)], parameters: &Parameters) -> Self {
        let from_link = |&(id, wire): &(WireId, Wire)| Input {
            wire: Some(id),
            credit_delay: wire.credit_delay,
            flit: wire.flit,
            ..Input::new(parameters.channels)
        };
        let from_table = |_| Input::new(parameters.channels);
        let output = |&(id, wire): &(WireId, Wire)| Output {
            sender: Sender::new(id, wire, parameters.buffer_flits, parameters.channels),
            queues: vec![VecDeque::new(); parameters.channels],
            room: vec![parameters.queue_flits; parameters.channels],
            crossing_until: 0,
        };
        Self {
            inputs: incoming.iter().map(from_link).chain((0..outgoing.len()).map(from_table)).collect(),
            outputs: outgoing.iter().map(output).collect(),
            tables: (0..outgoing.len()).map(|_| ReductionTable::default()).collect(),
            acks: HashMap::new(),
            adder_flit: outgoing.iter().chain(incoming).map(|(_, wire)| wire.flit).min().unwrap_or(CYCLE),
            turn: 0,
        }
    }

    /// Works through the cycles from `from` on and before `horizon`; says in which there may be something to do next.
    pub fn advance(&mut self, from: u64, horizon: u64, shared: &mut Shared) -> u64 {
        for input in &mut self.inputs {
            input.due = input.wire.map_or(NEVER, |wire| shared.wires.flits[wire].due());
        }
        self.outputs.iter_mut().for_each(|output| output.sender.refresh(shared.wires));
        let mut now = from;
        while now < horizon {
            self.receive(now, shared.wires);
            let mut next = self.time_out(now, shared);
            next = next.min(self.cross(now, shared));
            next = next.min(self.send(now, shared.wires));
            let inputs = self.inputs.iter().map(|input| input.due);
            now = inputs.chain(self.outputs.iter().map(|output| output.sender.due)).fold(next, u64::min);
        }
        now
    }

    fn receive(&mut self, now: u64, wires: &mut Wires<Packet>) {
        for input in &mut self.inputs {
            while input.due <= now {
                let flits = &mut wires.flits[input.wire.expect("tables are not on a wire")];
                let (at, packet) = flits.take_whole();
                input.due = flits.due();
                let end = at + whole_cycles(u64::from(packet.flits) * input.flit);
                input.queues[usize::from(packet.channel)].push_back(Waiting { at, end, packet });
            }
        }
        self.outputs.iter_mut().for_each(|output| output.sender.take_credits(now, wires));
    }

    /// Evicts what was not touched for too long; says when to look again.
    fn time_out(&mut self, now: u64, shared: &mut Shared) -> u64 {
        let mut next = NEVER;
        if shared.setup.parameters.fabric.deterministic {
            return next;
        }
        for port in 0..self.tables.len() {
            while let Some(oldest) = self.tables[port].oldest() {
                let until = oldest + shared.setup.parameters.timeout;
                if until > now {
                    next = next.min(until);
                    break;
                }
                shared.stats.fabric.timeouts += 1;
                self.evict(port, now, shared);
            }
        }
        next
    }

    /// The least recently used entry of a port, unless all are pulls', goes on as a partial sum: to the parent or, from
    /// the root, to the home accelerator.
    fn evict(&mut self, port: usize, now: u64, shared: &mut Shared) -> bool {
        let Some(entry) = self.tables[port].evict() else { return false };
        shared.stats.fabric.evictions += 1;
        let done = self.tables[port].busy_until.max(now);
        self.give_out_partial(port, done, (entry.key, entry.onward, entry.operand), shared);
        true
    }

    /// A partial sum (its line, the edge over which it goes on) leaves a table.
    fn give_out_partial(&mut self, port: usize, at: u64, (key, edge, sum): (Key, u32, Operand), shared: &Shared) {
        let packet = onward(key, edge, sum, at, shared);
        self.give_out(port, at, if edge == NONE { partial(packet, shared) } else { packet });
    }

    /// A table's packet waits at its way into the switch.
    fn give_out(&mut self, port: usize, at: u64, packet: Packet) {
        let first = self.inputs.len() - self.tables.len();
        self.inputs[first + port].queues[usize::from(packet.response)].push_back(Waiting { at, end: at, packet });
    }

    /// Packets cross to queues and tables; says when more may.
    fn cross(&mut self, now: u64, shared: &mut Shared) -> u64 {
        let (mut next, mut moved) = (NEVER, false);
        for i in 0..self.inputs.len() {
            let number = (self.turn + i) % self.inputs.len();
            for channel in (0..shared.setup.parameters.channels).rev() {
                match self.cross_from(number, channel, now, shared) {
                    Ok(()) => moved = true,
                    Err(at) => next = next.min(at),
                }
            }
        }
        if moved {
            self.turn = (self.turn + 1) % self.inputs.len();
            next = now + 1;
        }
        next
    }

    /// The first packet of an input's channel crosses to where it can; else says when to try again.
    fn cross_from(&mut self, number: usize, channel: usize, now: u64, shared: &mut Shared) -> Result<(), u64> {
        let input = &self.inputs[number];
        let Some(first) = input.queues[channel].front() else { return Err(NEVER) };
        let from = first.at.max(input.crossing_until);
        if from > now {
            return Err(from);
        }
        let (packet, end) = (first.packet, first.end);
        let mut targets = std::mem::take(&mut self.inputs[number].targets[channel]);
        if targets.is_empty() && !self.decide(packet, now, &mut targets, shared) {
            self.inputs[number].targets[channel] = targets;
            return Err(NEVER);
        }
        let before = targets.len();
        let again = self.deliver_all(&mut targets, now, end, shared);
        let (left, moved) = (targets.len(), targets.len() < before);
        self.inputs[number].targets[channel] = targets;
        if before > 0 && !moved {
            return Err(again);
        }
        let input = &mut self.inputs[number];
        input.crossing_until = (now + shared.setup.parameters.crossing(packet.flits)).max(end);
        if left == 0 {
            input.queues[channel].pop_front();
            if let Some(wire) = input.wire {
                shared.wires.give_back_whole(wire, now + input.credit_delay, channel as u8, packet.flits);
            }
        }
        Ok(())
    }

    /// A packet crosses to all targets that take it; the others stay in the list. Says when to try again.
    fn deliver_all(&mut self, targets: &mut Vec<Target>, now: u64, end: u64, shared: &mut Shared) -> u64 {
        let mut again = NEVER;
        targets.retain(|&target| match self.deliver(target, now, end, shared) {
            Ok(()) => false,
            Err(at) => {
                again = again.min(at);
                true
            }
        });
        again
    }

    /// Where a packet goes; says whether it may go on, which a pull may not whose first switch has no entry left.
    fn decide(&mut self, packet: Packet, now: u64, targets: &mut Vec<Target>, shared: &mut Shared) -> bool {
        if let Some(hop) = shared.setup.routes.next(packet.route, packet.hop) {
            targets.push(Target::Output(hop.output, packet.onto(hop)));
            return true;
        }
        match packet.op {
            Op::Ack => self.acknowledge(packet, targets, shared),
            Op::Operand | Op::Answer => targets.push(self.towards_root(packet, shared)),
            Op::Pull => {
                if !self.reserve(packet, now, shared) {
                    return false;
                }
                multicast(packet, targets, shared);
            }
            Op::Result | Op::Whole => {
                let copies = multicast(Packet { op: Op::Result, response: true, ..packet }, targets, shared);
                *self.acks.entry(packet.key).or_default() += copies;
            }
            Op::Partial | Op::Data | Op::Flag => unreachable!("they go to accelerators"),
        }
        true
    }

    /// Pull: an entry for the answers where they come together; farther than the first switch only if there is one.
    fn reserve(&mut self, packet: Packet, now: u64, shared: &mut Shared) -> bool {
        let edge = shared.setup.regions.edge(packet.edge);
        if edge.mate == NONE {
            return true;
        }
        let mate = shared.setup.regions.edge(edge.mate);
        let port = shared.setup.routes.first(mate.route).output as usize;
        let full = self.tables[port].is_full(&shared.setup.parameters);
        if !full {
            self.tables[port].open(packet.key, edge.mate, mate.ranks, true, now);
        } else if edge.above != NONE {
            shared.stats.fabric.bypasses += 1;
        }
        !full || edge.above != NONE
    }

    /// An operand goes into the table of its line's home port here; an answer into that of the port that leads on, or
    /// without an entry past it.
    fn towards_root(&self, packet: Packet, shared: &Shared) -> Target {
        let above = shared.setup.regions.edge(packet.edge).above;
        if packet.op == Op::Operand {
            let first = shared.setup.regions.table(packet.key.0, above);
            return Target::Table((first + packet.key.1) % self.tables.len() as u32, packet);
        }
        let route = shared.setup.regions.edge(above).route;
        let port = shared.setup.routes.first(route).output;
        if self.tables[port as usize].holds(packet.key) {
            return Target::Table(port, packet);
        }
        over(above, route, packet, shared)
    }

    /// One acknowledgement less to wait for; the last one is passed on.
    fn acknowledge(&mut self, packet: Packet, targets: &mut Vec<Target>, shared: &Shared) {
        let left = self.acks.get_mut(&packet.key).expect("acknowledgements follow a multicast");
        *left -= 1;
        if *left == 0 {
            self.acks.remove(&packet.key);
        } else if !left.is_multiple_of(shared.setup.regions.siblings(packet.key.0, packet.edge)) {
            // Partial sums of one line may be under way at once.
            return;
        }
        let above = shared.setup.regions.edge(packet.edge).above;
        if above != NONE {
            targets.push(over(above, shared.setup.regions.edge(above).back, packet, shared));
        }
    }

    /// A packet crosses, or an operand is reduced; if that must wait: until when, as far as that is known.
    fn deliver(&mut self, target: Target, now: u64, end: u64, shared: &mut Shared) -> Result<(), u64> {
        match target {
            Target::Output(number, packet) => {
                let output = &mut self.outputs[number as usize];
                let channel = usize::from(packet.channel);
                if output.crossing_until > now {
                    return Err(output.crossing_until);
                }
                if output.room[channel] < packet.flits {
                    return Err(NEVER);
                }
                output.room[channel] -= packet.flits;
                output.crossing_until = now + shared.setup.parameters.crossing(packet.flits);
                // What comes in slowly must be here before the wire needs it.
                let ready = end.saturating_sub(output.sender.cycles(packet.flits));
                output.queues[channel].push_back((ready, packet));
            }
            Target::Table(port, packet) => {
                // Table and queues of a port share its route out of the crossbar.
                let crossing_until = &mut self.outputs[port as usize].crossing_until;
                let room_from =
                    self.tables[port as usize].busy_until.saturating_sub(shared.setup.parameters.queue_flits.into());
                if room_from.max(*crossing_until) > now {
                    return Err(room_from.max(*crossing_until));
                }
                *crossing_until = now + shared.setup.parameters.crossing(packet.flits);
                self.reduce(port as usize, packet, now, end, shared);
            }
        }
        Ok(())
    }

    fn reduce(&mut self, port: usize, packet: Packet, now: u64, end: u64, shared: &mut Shared) {
        let (key, edge) = (packet.key, shared.setup.regions.edge(packet.edge));
        if !self.tables[port].holds(key) {
            let above = edge.above;
            if self.tables[port].is_full(&shared.setup.parameters) && !self.evict(port, now, shared) {
                // Pulls hold all entries: it passes by, a partial sum of its own.
                self.give_out_partial(port, end, (key, above, packet.operand), shared);
                return;
            }
            let expected =
                if above == NONE { shared.setup.regions.ranks } else { shared.setup.regions.edge(above).ranks };
            self.tables[port].open(key, above, expected, false, now);
        }
        let adding = whole_cycles(u64::from(packet.flits) * self.adder_flit);
        let done = (self.tables[port].busy_until.max(now) + adding).max(end);
        self.tables[port].busy_until = done;
        shared.stats.arrived(&packet, done);
        let place = shared.setup.parameters.fabric.deterministic.then_some(edge.place);
        if let Some(entry) = self.tables[port].add(key, packet.operand, place, now) {
            let sum = onward(key, entry.onward, entry.operand, done, shared);
            let op = if entry.onward == NONE { Op::Result } else { packet.op };
            self.give_out(port, done, Packet { op, response: sum.response || packet.response, ..sum });
        }
    }

    /// Packets leave; says when more may.
    fn send(&mut self, now: u64, wires: &mut Wires<Packet>) -> u64 {
        let mut next = NEVER;
        for output in &mut self.outputs {
            let Output { sender, queues, room, .. } = output;
            let fronts = queues.iter().filter_map(VecDeque::front);
            next = fronts.map(|(ready, _)| *ready).filter(|&ready| ready > now).fold(next, u64::min);
            let first = |channel: usize| queues[channel].front().filter(|(ready, _)| *ready <= now);
            match sender.choose(now, |channel| first(channel).map(|(_, packet)| packet.flits)) {
                Ok(channel) => {
                    let (_, packet) = queues[channel].pop_front().expect("it was chosen");
                    room[channel] += packet.flits;
                    sender.send(now, packet, wires);
                    next = now + 1;
                }
                Err(at) => next = next.min(at),
            }
        }
        next
    }

    /// Time in which each wire was taken, in parts of a cycle.
    pub fn busy(&self) -> impl Iterator<Item = u64> {
        self.outputs.iter().map(|output| output.sender.occupancy.busy)
    }

    /// Most payloads that a table ever held.
    pub fn table_peak(&self) -> usize {
        self.tables.iter().map(|table| table.peak).max().unwrap_or(0)
    }

    /// Packets that are still here, entries and acknowledgements that wait.
    pub fn left(&self) -> usize {
        let queued = self.inputs.iter().flat_map(|input| &input.queues).map(VecDeque::len).sum::<usize>();
        let outputs = self.outputs.iter().flat_map(|output| &output.queues).map(VecDeque::len).sum::<usize>();
        queued + outputs + self.tables.iter().map(ReductionTable::len).sum::<usize>() + self.acks.len()
    }
}
