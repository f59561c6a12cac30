//! A switch that multicasts and reduces (in-network paper, sections IV-A to IV-E and V).
//!
//! Output-queued with internal speed-up: a packet waits at its input, for each virtual channel in order, crosses to the queues of
//! all its outputs that have room, in one go or in several (a busy port holds no other), and leaves as each wire is free and the next input
//! has room for it whole. Packets stay whole; the latency of the switch lies on the wires before and behind it. A port's reduction table takes in
//! operands at the rate of a wire; what it gives out crosses like what comes in. Cost: a look at every port in each cycle in which
//! something can move, a few steps a packet.

use std::collections::{HashMap, VecDeque};

use super::super::machine::{CYCLE, Wire, whole_cycles};
use super::super::wires::{NEVER, WireId, Wires};
use super::Shared;
use super::parcel::{Key, NONE, Op, Operand, Parcel};
use super::port::Sender;
use super::reduction::partial;
use super::sizes::Sizes;
use super::table::Table;

/// A packet at an input.
#[derive(Debug)]
struct Waiting {
    /// When its head is here, and all of it.
    at: u64,
    end: u64,
    parcel: Parcel,
}

/// A place where packets come in: a link, or a table's way back into the switch.
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
    Output(u32, Parcel),
    /// Into the table of a port.
    Table(u32, Parcel),
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
    queues: Vec<VecDeque<(u64, Parcel)>>,
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
    tables: Vec<Table>,
    /// Acknowledgements that are still expected of multicasts.
    acks: HashMap<Key, u32>,
    /// Time in which a table adds a flit, in parts of a cycle: that of the fastest link here.
    adder_flit: u64,
    turn: usize,
}

impl Switch {
    /// A switch with these links in and out (number, wire).
    pub fn new(incoming: &[(WireId, Wire)], outgoing: &[(WireId, Wire)], sizes: &Sizes) -> Self {
        let from_link = |&(id, wire): &(WireId, Wire)| Input {
            wire: Some(id),
            credit_delay: wire.credit_delay,
            flit: wire.flit,
            ..Input::new(sizes.channels)
        };
        let from_table = |_| Input::new(sizes.channels);
        let output = |&(id, wire): &(WireId, Wire)| Output {
            sender: Sender::new(id, wire, sizes.buffer_flits, sizes.channels),
            queues: vec![VecDeque::new(); sizes.channels],
            room: vec![sizes.queue_flits; sizes.channels],
            crossing_until: 0,
        };
        Self {
            inputs: incoming.iter().map(from_link).chain((0..outgoing.len()).map(from_table)).collect(),
            outputs: outgoing.iter().map(output).collect(),
            tables: (0..outgoing.len()).map(|_| Table::default()).collect(),
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

    fn receive(&mut self, now: u64, wires: &mut Wires<Parcel>) {
        for input in &mut self.inputs {
            while input.due <= now {
                let flits = &mut wires.flits[input.wire.expect("tables are not on a wire")];
                let (at, parcel) = flits.take_whole();
                input.due = flits.due();
                let end = at + whole_cycles(u64::from(parcel.flits) * input.flit);
                input.queues[usize::from(parcel.channel)].push_back(Waiting { at, end, parcel });
            }
        }
        self.outputs.iter_mut().for_each(|output| output.sender.take_credits(now, wires));
    }

    /// Evicts what was not touched for too long; says when to look again.
    fn time_out(&mut self, now: u64, shared: &mut Shared) -> u64 {
        let mut next = NEVER;
        if shared.facts.sizes.fabric.deterministic {
            return next;
        }
        for port in 0..self.tables.len() {
            while let Some(oldest) = self.tables[port].oldest() {
                let until = oldest + shared.facts.sizes.timeout;
                if until > now {
                    next = next.min(until);
                    break;
                }
                shared.seen.fabric.timeouts += 1;
                self.evict(port, now, shared);
            }
        }
        next
    }

    /// The least recently used entry of a port, unless all are pulls', goes on as a partial sum: to the parent or, from the root, to the home
    /// accelerator.
    fn evict(&mut self, port: usize, now: u64, shared: &mut Shared) -> bool {
        let Some(entry) = self.tables[port].evict() else { return false };
        shared.seen.fabric.evictions += 1;
        let done = self.tables[port].busy_until.max(now);
        self.give_out_partial(port, done, (entry.key, entry.onward, entry.operand), shared);
        true
    }

    /// A partial sum (its line, the edge over which it goes on) leaves a table.
    fn give_out_partial(&mut self, port: usize, at: u64, (key, edge, sum): (Key, u32, Operand), shared: &Shared) {
        let parcel = onward(key, edge, sum, at, shared);
        self.give_out(port, at, if edge == NONE { partial(parcel, shared) } else { parcel });
    }

    /// A table's packet waits at its way into the switch.
    fn give_out(&mut self, port: usize, at: u64, parcel: Parcel) {
        let first = self.inputs.len() - self.tables.len();
        self.inputs[first + port].queues[usize::from(parcel.response)].push_back(Waiting { at, end: at, parcel });
    }

    /// Packets cross to queues and tables; says when more may.
    fn cross(&mut self, now: u64, shared: &mut Shared) -> u64 {
        let (mut next, mut moved) = (NEVER, false);
        for i in 0..self.inputs.len() {
            let number = (self.turn + i) % self.inputs.len();
            for channel in (0..shared.facts.sizes.channels).rev() {
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
        let (parcel, end) = (first.parcel, first.end);
        let mut targets = std::mem::take(&mut self.inputs[number].targets[channel]);
        if targets.is_empty() && !self.decide(parcel, now, &mut targets, shared) {
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
        input.crossing_until = (now + shared.facts.sizes.crossing(parcel.flits)).max(end);
        if left == 0 {
            input.queues[channel].pop_front();
            if let Some(wire) = input.wire {
                shared.wires.give_back_whole(wire, now + input.credit_delay, channel as u8, parcel.flits);
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
    fn decide(&mut self, parcel: Parcel, now: u64, targets: &mut Vec<Target>, shared: &mut Shared) -> bool {
        if let Some(hop) = shared.facts.ways.next(parcel.way, parcel.hop) {
            targets.push(Target::Output(hop.output, parcel.onto(hop)));
            return true;
        }
        match parcel.op {
            Op::Ack => self.acknowledge(parcel, targets, shared),
            Op::Operand | Op::Answer => targets.push(self.towards_root(parcel, shared)),
            Op::Pull => {
                if !self.reserve(parcel, now, shared) {
                    return false;
                }
                multicast(parcel, targets, shared);
            }
            Op::Result | Op::Whole => {
                let copies = multicast(Parcel { op: Op::Result, response: true, ..parcel }, targets, shared);
                *self.acks.entry(parcel.key).or_default() += copies;
            }
            Op::Partial | Op::Data | Op::Flag => unreachable!("they go to accelerators"),
        }
        true
    }

    /// Pull: an entry for the answers where they come together; farther than the first switch only if there is one.
    fn reserve(&mut self, parcel: Parcel, now: u64, shared: &mut Shared) -> bool {
        let edge = shared.facts.regions.edge(parcel.edge);
        if edge.mate == NONE {
            return true;
        }
        let mate = shared.facts.regions.edge(edge.mate);
        let port = shared.facts.ways.first(mate.way).output as usize;
        let full = self.tables[port].is_full(&shared.facts.sizes);
        if !full {
            self.tables[port].open(parcel.key, edge.mate, mate.ranks, true, now);
        } else if edge.above != NONE {
            shared.seen.fabric.bypasses += 1;
        }
        !full || edge.above != NONE
    }

    /// An operand goes into the table of its line's home port here; an answer into that of the port that leads on, or without an entry past it.
    fn towards_root(&self, parcel: Parcel, shared: &Shared) -> Target {
        let above = shared.facts.regions.edge(parcel.edge).above;
        if parcel.op == Op::Operand {
            let first = shared.facts.regions.table(parcel.key.0, above);
            return Target::Table((first + parcel.key.1) % self.tables.len() as u32, parcel);
        }
        let way = shared.facts.regions.edge(above).way;
        let port = shared.facts.ways.first(way).output;
        if self.tables[port as usize].holds(parcel.key) {
            return Target::Table(port, parcel);
        }
        over(above, way, parcel, shared)
    }

    /// One acknowledgement less to wait for; the last one is passed on.
    fn acknowledge(&mut self, parcel: Parcel, targets: &mut Vec<Target>, shared: &Shared) {
        let left = self.acks.get_mut(&parcel.key).expect("acknowledgements follow a multicast");
        *left -= 1;
        if *left == 0 {
            self.acks.remove(&parcel.key);
        } else if !left.is_multiple_of(shared.facts.regions.siblings(parcel.key.0, parcel.edge)) {
            // Partial sums of one line may be under way at once.
            return;
        }
        let above = shared.facts.regions.edge(parcel.edge).above;
        if above != NONE {
            targets.push(over(above, shared.facts.regions.edge(above).back, parcel, shared));
        }
    }

    /// A packet crosses, or an operand is reduced; if that must wait: until when, as far as that is known.
    fn deliver(&mut self, target: Target, now: u64, end: u64, shared: &mut Shared) -> Result<(), u64> {
        match target {
            Target::Output(number, parcel) => {
                let output = &mut self.outputs[number as usize];
                let channel = usize::from(parcel.channel);
                if output.crossing_until > now {
                    return Err(output.crossing_until);
                }
                if output.room[channel] < parcel.flits {
                    return Err(NEVER);
                }
                output.room[channel] -= parcel.flits;
                output.crossing_until = now + shared.facts.sizes.crossing(parcel.flits);
                // What comes in slowly must be here before the wire needs it.
                let ready = end.saturating_sub(output.sender.cycles(parcel.flits));
                output.queues[channel].push_back((ready, parcel));
            }
            Target::Table(port, parcel) => {
                // Table and queues of a port share its way out of the crossbar.
                let crossing_until = &mut self.outputs[port as usize].crossing_until;
                let room_from =
                    self.tables[port as usize].busy_until.saturating_sub(shared.facts.sizes.queue_flits.into());
                if room_from.max(*crossing_until) > now {
                    return Err(room_from.max(*crossing_until));
                }
                *crossing_until = now + shared.facts.sizes.crossing(parcel.flits);
                self.reduce(port as usize, parcel, now, end, shared);
            }
        }
        Ok(())
    }

    fn reduce(&mut self, port: usize, parcel: Parcel, now: u64, end: u64, shared: &mut Shared) {
        let (key, edge) = (parcel.key, shared.facts.regions.edge(parcel.edge));
        if !self.tables[port].holds(key) {
            let above = edge.above;
            if self.tables[port].is_full(&shared.facts.sizes) && !self.evict(port, now, shared) {
                // Pulls hold all entries: it passes by, a partial sum of its own.
                self.give_out_partial(port, end, (key, above, parcel.operand), shared);
                return;
            }
            let expected =
                if above == NONE { shared.facts.regions.ranks } else { shared.facts.regions.edge(above).ranks };
            self.tables[port].open(key, above, expected, false, now);
        }
        let adding = whole_cycles(u64::from(parcel.flits) * self.adder_flit);
        let done = (self.tables[port].busy_until.max(now) + adding).max(end);
        self.tables[port].busy_until = done;
        shared.seen.arrived(&parcel, done);
        let place = shared.facts.sizes.fabric.deterministic.then_some(edge.place);
        if let Some(entry) = self.tables[port].add(key, parcel.operand, place, now) {
            let sum = onward(key, entry.onward, entry.operand, done, shared);
            let op = if entry.onward == NONE { Op::Result } else { parcel.op };
            self.give_out(port, done, Parcel { op, response: sum.response || parcel.response, ..sum });
        }
    }

    /// Packets leave; says when more may.
    fn send(&mut self, now: u64, wires: &mut Wires<Parcel>) -> u64 {
        let mut next = NEVER;
        for output in &mut self.outputs {
            let Output { sender, queues, room, .. } = output;
            let fronts = queues.iter().filter_map(VecDeque::front);
            next = fronts.map(|(ready, _)| *ready).filter(|&ready| ready > now).fold(next, u64::min);
            let first = |channel: usize| queues[channel].front().filter(|(ready, _)| *ready <= now);
            match sender.choose(now, |channel| first(channel).map(|(_, parcel)| parcel.flits)) {
                Ok(channel) => {
                    let (_, parcel) = queues[channel].pop_front().expect("it was chosen");
                    room[channel] += parcel.flits;
                    sender.send(now, parcel, wires);
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
        queued + outputs + self.tables.iter().map(Table::len).sum::<usize>() + self.acks.len()
    }
}

/// A packet that goes on over an edge of its tree.
fn over(edge: u32, way: u32, parcel: Parcel, shared: &Shared) -> Target {
    let hop = shared.facts.ways.first(way);
    Target::Output(hop.output, Parcel { edge, way, hop: 0, ..parcel }.onto(hop))
}

/// The packet that carries on a sum from a table: over an edge or, from the root, to be multicast.
fn onward(key: Key, edge: u32, operand: Operand, now: u64, shared: &Shared) -> Parcel {
    let root = edge == NONE;
    Parcel {
        op: Op::Operand,
        response: root,
        channel: 0,
        hop: 0,
        flits: shared.facts.flits(key),
        way: if root { NONE } else { shared.facts.regions.edge(edge).way },
        edge,
        key,
        operand,
        born: now,
    }
}

/// Copies over all edges of its tree that come next; how many.
fn multicast(parcel: Parcel, targets: &mut Vec<Target>, shared: &Shared) -> u32 {
    let edges = shared.facts.regions.targets(parcel.key.0, parcel.edge);
    for edge in edges.numbers() {
        targets.push(over(edge, shared.facts.regions.edge(edge).way, parcel, shared));
    }
    edges.count
}
