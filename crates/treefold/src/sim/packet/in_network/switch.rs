//! A switch that multicasts and reduces (in-network paper, sections IV-A to IV-E and V).
//!
//! Output-queued with internal speed-up: a packet waits at its input, for each virtual channel in order, crosses to the
//! queues of all its outputs that have room, in one go or in several (a busy port holds no other), and leaves as each
//! wire is free and the next input has room for it whole. Packets stay whole; the latency of the switch lies on the
//! wires before and behind it. A port's reduction table takes in operands at the rate of a wire; what it gives out
//! crosses like what comes in. Cost: a look at every port in each cycle in which something can move, a few steps a
//! packet.

mod forwarding;
mod ports;

use std::collections::{HashMap, VecDeque};

use super::super::machine::{CYCLE, OutputId, whole_cycles};
use super::super::wires::{NEVER, Wires};
use super::Shared;
use super::packet::{Address, Op, Packet};
use super::parameters::Parameters;
use super::port::{LinkEnd, Sender};
use super::reduction::partial;
use super::reduction_table::ReductionTable;
use super::retry::Receiver;
use forwarding::{multicast, onward, over};
use ports::{Input, Output, Queued, Target, Waiting};

/// A switch at work.
#[derive(Debug)]
pub struct Switch {
    /// Links, then tables.
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    tables: Vec<ReductionTable>,
    /// Acknowledgements that are still expected of multicasts.
    acks: HashMap<Address, u32>,
    /// Time in which a table adds a flit, in parts of a cycle: that of the fastest link here.
    adder_flit: u64,
    turn: usize,
}

impl Switch {
    /// Makes a switch with these links in and out.
    pub fn new(incoming: &[LinkEnd], outgoing: &[LinkEnd], parameters: &Parameters) -> Self {
        let from_links = incoming.iter().map(|link| Input::of_link(link, parameters));
        let from_tables = outgoing.iter().map(|_| Input::of_table(parameters));
        Self {
            inputs: from_links.chain(from_tables).collect(),
            outputs: outgoing.iter().map(|link| Output::new(link, parameters)).collect(),
            tables: outgoing.iter().map(|_| ReductionTable::default()).collect(),
            acks: HashMap::new(),
            adder_flit: outgoing.iter().chain(incoming).map(|link| link.wire.flit).min().unwrap_or(CYCLE),
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
        self.outputs.iter_mut().fold(now, |next, output| next.min(output.sender.retry(horizon, shared.wires)))
    }

    /// Takes in the packets and credits that have arrived.
    fn receive(&mut self, now: u64, wires: &mut Wires<Packet>) {
        for input in &mut self.inputs {
            while input.due <= now {
                let flits = &mut wires.flits[input.wire.expect("tables are not on a wire")];
                let (at, packet) = flits.take_whole();
                input.due = flits.due();
                let end = at + whole_cycles(u64::from(packet.flits) * input.flit);
                if input.receiver.as_mut().is_none_or(|receiver| receiver.keeps(&packet, end, wires)) {
                    let waiting = Waiting { at, end, packet, stalled: false };
                    input.queues[usize::from(packet.channel)].push_back(waiting);
                }
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
        for port in OutputId::first(self.tables.len()) {
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

    /// Sends the least recently used entry of a port on as a partial sum, to the parent or, from the root, to the home
    /// accelerator; says whether there is one, as pulls' entries stay.
    fn evict(&mut self, port: OutputId, now: u64, shared: &mut Shared) -> bool {
        let Some(entry) = self.tables[port].evict() else { return false };
        shared.stats.fabric.evictions += 1;
        let done = self.tables[port].busy_until.max(now);
        self.give_out_partial(port, done, onward(entry.address, entry.onward, entry.operand, done, shared), shared);
        true
    }

    /// Lets a partial sum leave a table.
    fn give_out_partial(&mut self, port: OutputId, at: u64, sum: Packet, shared: &Shared) {
        self.give_out(port, at, if sum.edge.is_none() { partial(sum, shared) } else { sum });
    }

    /// Lets a table's packet wait at its way into the switch.
    fn give_out(&mut self, port: OutputId, at: u64, packet: Packet) {
        let first = self.inputs.len() - self.tables.len();
        self.inputs[first + port.index()].queues[usize::from(packet.response)].push_back(Waiting {
            at,
            end: at,
            packet,
            stalled: false,
        });
    }

    /// Lets packets cross to queues and tables; says when more may.
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

    /// Lets the first packet of an input's channel cross to where it can; else says when to try again.
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
            let first = self.inputs[number].queues[channel].front_mut().expect("it waits");
            shared.stats.fabric.stalls += u64::from(!first.stalled);
            first.stalled = true;
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

    /// Lets a packet cross to all targets that take it; the others stay in the list. Says when to try again.
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

    /// Decides where a packet goes; returns whether it may go on. A pull may not if its first switch has no entry left.
    fn decide(&mut self, packet: Packet, now: u64, targets: &mut Vec<Target>, shared: &mut Shared) -> bool {
        if let Some(hop) = packet.route.and_then(|route| shared.setup.routes.next(route, packet.hop)) {
            targets.push(Target::Output { output: hop.output, packet: packet.onto(hop) });
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
            Op::Done => {
                multicast(packet, targets, shared);
            }
            Op::Result | Op::Whole => {
                let copies = multicast(Packet { op: Op::Result, response: true, ..packet }, targets, shared);
                *self.acks.entry(packet.address()).or_default() += copies;
            }
            Op::Partial | Op::Data | Op::Flag => unreachable!("they go to accelerators"),
        }
        true
    }

    /// Pull: opens an entry for the answers where they come together; says whether the pull may go on, which it may
    /// without an entry behind its first switch.
    fn reserve(&mut self, packet: Packet, now: u64, shared: &mut Shared) -> bool {
        let edge = shared.setup.regions.edge(packet.came_over());
        let Some(onward) = edge.mate else { return true };
        let mate = shared.setup.regions.edge(onward);
        let port = shared.setup.routes.first(mate.route).output;
        let full = self.tables[port].is_full(&shared.setup.parameters);
        if !full {
            self.tables[port].open(packet.address(), Some(onward), mate.ranks, true, now);
        } else if edge.above.is_some() {
            shared.stats.fabric.bypasses += 1;
        }
        !full || edge.above.is_some()
    }

    /// Decides where an operand goes, the table of its line's home port here; or an answer, the table of the port that
    /// leads on, or without an entry there the port itself.
    fn towards_root(&self, packet: Packet, shared: &Shared) -> Target {
        let (address, above) = (packet.address(), shared.setup.regions.edge(packet.came_over()).above);
        if let Some(above) = above
            && packet.op == Op::Operand
            && shared.setup.regions.edge(above).below.count == 1
        {
            // On the way from the home to one rank nothing else comes in.
            return over(above, shared.setup.regions.edge(above).route, packet, shared);
        }
        if packet.op == Op::Operand {
            let first = shared.setup.regions.table(address.tree, above);
            return Target::Table { port: OutputId((first + address.line()) % self.tables.len() as u32), packet };
        }
        let above = above.expect("answers end at the rank that is the root");
        let route = shared.setup.regions.edge(above).route;
        let port = shared.setup.routes.first(route).output;
        if self.tables[port].holds(address) {
            return Target::Table { port, packet };
        }
        over(above, route, packet, shared)
    }

    /// Counts an acknowledgement, and passes on the last one of a multicast.
    fn acknowledge(&mut self, packet: Packet, targets: &mut Vec<Target>, shared: &Shared) {
        let (address, edge) = (packet.address(), packet.came_over());
        let left = self.acks.get_mut(&address).expect("acknowledgements follow a multicast");
        *left -= 1;
        if *left == 0 {
            self.acks.remove(&address);
        } else if !left.is_multiple_of(shared.setup.regions.siblings(address.tree, edge)) {
            // Partial sums of one line may be under way at once.
            return;
        }
        if let Some(above) = shared.setup.regions.edge(edge).above {
            targets.push(over(above, shared.setup.regions.edge(above).back, packet, shared));
        }
    }

    /// Lets a packet cross, or reduces an operand; if that must wait, says until when, as far as that is known.
    fn deliver(&mut self, target: Target, now: u64, end: u64, shared: &mut Shared) -> Result<(), u64> {
        match target {
            Target::Output { output, packet } => {
                let output = &mut self.outputs[output];
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
                output.queues[channel].push_back(Queued { ready, packet });
            }
            Target::Table { port, packet } => {
                // Table and queues of a port share its way out of the crossbar.
                let crossing_until = &mut self.outputs[port].crossing_until;
                let room_from = self.tables[port].busy_until.saturating_sub(shared.setup.parameters.queue_flits.into());
                if room_from.max(*crossing_until) > now {
                    return Err(room_from.max(*crossing_until));
                }
                *crossing_until = now + shared.setup.parameters.crossing(packet.flits);
                self.reduce(port, packet, now, end, shared);
            }
        }
        Ok(())
    }

    /// Adds an operand to its line's sum in a table; a whole sum goes on.
    fn reduce(&mut self, port: OutputId, packet: Packet, now: u64, end: u64, shared: &mut Shared) {
        let (address, regions) = (packet.address(), &shared.setup.regions);
        let edge = regions.edge(packet.came_over());
        if !self.tables[port].holds(address) {
            if self.tables[port].is_full(&shared.setup.parameters) && !self.evict(port, now, shared) {
                // Pulls hold all entries: it passes by, a partial sum of its own.
                self.give_out_partial(port, end, onward(address, edge.above, packet.operand, end, shared), shared);
                return;
            }
            let expected = edge.above.map_or(regions.ranks, |above| regions.edge(above).ranks);
            self.tables[port].open(address, edge.above, expected, false, now);
        }
        let adding = whole_cycles(u64::from(packet.flits) * self.adder_flit);
        let done = (self.tables[port].busy_until.max(now) + adding).max(end);
        self.tables[port].busy_until = done;
        shared.stats.arrived(&packet, done);
        let place = shared.setup.parameters.fabric.deterministic.then_some(edge.place);
        let combine = shared.setup.parameters.reducer.combine;
        if let Some(entry) = self.tables[port].add(address, packet.operand, combine, place, now) {
            let sum = onward(address, entry.onward, entry.operand, done, shared);
            let op = if entry.onward.is_none() { Op::Result } else { packet.op };
            self.give_out(port, done, Packet { op, response: sum.response || packet.response, ..sum });
        }
    }

    /// Lets packets leave; says when more may.
    fn send(&mut self, now: u64, wires: &mut Wires<Packet>) -> u64 {
        let mut next = NEVER;
        for output in &mut self.outputs {
            let Output { sender, queues, room, .. } = output;
            let fronts = queues.iter().filter_map(VecDeque::front);
            next = fronts.map(|first| first.ready).filter(|&ready| ready > now).fold(next, u64::min);
            let first = |channel: usize| queues[channel].front().filter(|first| first.ready <= now);
            match sender.choose(now, |channel| first(channel).map(|first| first.packet.flits)) {
                Ok(channel) => {
                    let Queued { packet, .. } = queues[channel].pop_front().expect("it was chosen");
                    room[channel] += packet.flits;
                    sender.send(now, packet, wires);
                    next = now + 1;
                }
                Err(at) => next = next.min(at),
            }
        }
        next
    }

    /// Lists the near ends of the links out.
    pub fn senders(&self) -> impl Iterator<Item = &Sender> {
        self.outputs.iter().map(|output| &output.sender)
    }

    /// Lists the far ends of the links in, where packets arrive corrupt.
    pub fn receivers(&self) -> impl Iterator<Item = &Receiver> {
        self.inputs.iter().filter_map(|input| input.receiver.as_ref())
    }

    /// Returns the most payloads that a table ever held.
    pub fn table_peak(&self) -> usize {
        self.tables.iter().map(|table| table.peak).max().unwrap_or(0)
    }

    /// Counts the packets that are still here, and the entries and acknowledgements that wait.
    pub fn left(&self) -> usize {
        let queued = self.inputs.iter().flat_map(|input| &input.queues).map(VecDeque::len).sum::<usize>();
        let outputs = self.outputs.iter().flat_map(|output| &output.queues).map(VecDeque::len).sum::<usize>();
        queued + outputs + self.tables.iter().map(ReductionTable::len).sum::<usize>() + self.acks.len()
    }
}
