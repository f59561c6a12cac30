//! A switch that multicasts and reduces (in-network paper, sections IV-A to IV-E and V).
//!
//! Output-queued with internal speed-up: what comes in is routed at once, in order for each virtual channel, and waits
//! for its outputs alone; every output takes in the oldest packet that fits into its queue, at a multiple of the rate
//! of its wire. So nothing waits behind a packet for another output, except behind a pull that has no entry in its
//! first table. Copies of a multicast cross by themselves, and the buffer of the input is free when the last one has
//! crossed. A packet leaves as its wire is free and the next input has room for it whole; the latency of the switch
//! lies on the wires before and behind it. A port's reduction table takes in operands at the rate of a wire; what it
//! gives out crosses like what comes in. Cost: a look at every port in each cycle in which something can move, a few
//! steps a packet.

mod forwarding;
mod ports;

use std::collections::{HashMap, VecDeque};

use super::super::levels::Level;
use super::super::machine::{CYCLE, OutputId, whole_cycles};
use super::super::wires::{NEVER, Wires};
use super::Shared;
use super::packet::{Address, Op, Packet};
use super::parameters::Parameters;
use super::port::{LinkEnd, Sender};
use super::reduction::partial;
use super::reduction_table::{HeldPayloads, ReductionTable};
use super::retry::Receiver;
use forwarding::{multicast, onward, over};
use ports::{Held, Input, Output, Pending, Queued, Target, Waiting};

/// A switch at work.
#[derive(Debug)]
pub struct Switch {
    /// Links, then tables.
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    tables: Vec<ReductionTable>,
    /// The payloads in all tables, if they are sampled.
    held_payloads: Option<Box<HeldPayloads>>,
    /// Acknowledgements that are still expected of multicasts.
    acks: HashMap<Address, u32>,
    /// Time of a flit on the fastest link here, in which a table adds one, in parts of a cycle.
    flit: u64,
    /// Buffers of inputs whose packets have not crossed to all their outputs.
    held: Held,
    /// Where the packet at hand goes; empty between packets.
    targets: Vec<Target>,
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
            held_payloads: parameters.samples.then(Box::default),
            acks: HashMap::new(),
            flit: outgoing.iter().chain(incoming).map(|link| link.wire.flit).min().unwrap_or(CYCLE),
            held: Held::default(),
            targets: Vec::new(),
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
            next = next.min(self.admit(now, shared));
            next = next.min(self.cross(now, shared));
            next = next.min(self.send(now, shared.wires));
            if let Some(held) = &mut self.held_payloads {
                held.count(now, self.tables.iter().map(ReductionTable::payloads).sum());
            }
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
                    input.wait(packet.channel.into(), Waiting { at, end, packet, stalled: false });
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
        let channel = usize::from(packet.op.is_response());
        self.inputs[first + port.index()].wait(channel, Waiting { at, end: at, packet, stalled: false });
    }

    /// Routes what is at the inputs, so that it waits for its outputs; says when there may be more.
    fn admit(&mut self, now: u64, shared: &mut Shared) -> u64 {
        let mut next = NEVER;
        for number in 0..self.inputs.len() {
            if self.inputs[number].ready <= now {
                self.inputs[number].ready = NEVER;
                for channel in 0..shared.setup.parameters.channels {
                    self.admit_from(number, channel, now, shared);
                }
            }
            // What waits for an entry is looked at whenever the switch is at work, as entries come free then; it is at
            // links, and what comes later is at tables.
            next = next.min(Some(self.inputs[number].ready).filter(|&ready| ready > now).unwrap_or(NEVER));
        }
        next
    }

    /// Routes the packets of an input's channel, up to a pull that must wait.
    fn admit_from(&mut self, number: usize, channel: usize, now: u64, shared: &mut Shared) {
        while let Some(&Waiting { at, end, packet, .. }) = self.inputs[number].queues[channel].front() {
            let mut targets = std::mem::take(&mut self.targets);
            let goes_on = at <= now && self.decide(packet, now, &mut targets, shared);
            if goes_on {
                self.inputs[number].queues[channel].pop_front();
                let held = self.held.hold(number, channel as u8, packet.flits, targets.len());
                for target in targets.drain(..) {
                    self.outputs[target.port].expect(Pending { since: now, end, held, target });
                }
                // A packet that ends here, as an acknowledgement may, frees its buffer at once.
                self.give_back(held, now, shared.wires);
            }
            self.targets = targets;
            if !goes_on {
                if at <= now {
                    let first = self.inputs[number].queues[channel].front_mut().expect("it waits");
                    shared.stats.fabric.stalls += u64::from(!first.stalled);
                    first.stalled = true;
                }
                self.inputs[number].ready = self.inputs[number].ready.min(at);
                return;
            }
        }
    }

    /// Frees the buffer of an input if the packet in it has crossed to all its outputs.
    fn give_back(&mut self, held: u32, now: u64, wires: &mut Wires<Packet>) {
        let Some(buffer) = self.held.release(held) else { return };
        let input = &self.inputs[buffer.input as usize];
        if let Some(wire) = input.wire {
            wires.give_back_whole(wire, now + input.credit_delay, buffer.channel, buffer.flits);
        }
    }

    /// Lets packets cross to queues and tables; says when more may.
    fn cross(&mut self, now: u64, shared: &mut Shared) -> u64 {
        let (mut next, mut moved) = (NEVER, false);
        for port in OutputId::first(self.outputs.len()) {
            while self.outputs[port].pending > 0 {
                match self.choose(port, now, &shared.setup.parameters) {
                    Ok(list) => self.take_in(port, list, now, shared),
                    Err(at) => {
                        next = next.min(at);
                        break;
                    }
                }
                moved = true;
            }
        }
        if moved { now + 1 } else { next }
    }

    /// Chooses the list of a port whose first packet crosses to it, the oldest that can; else says when to try again.
    fn choose(&self, port: OutputId, now: u64, parameters: &Parameters) -> Result<usize, u64> {
        let output = &self.outputs[port];
        let room_from = self.tables[port].busy_until.saturating_sub(parameters.queue_flits.into());
        let (mut chosen, mut again) = (None, NEVER);
        for (list, first) in output.lists.iter().enumerate() {
            let Some(first) = first.front() else { continue };
            if list == output.queues.len() && room_from > now {
                again = again.min(room_from);
            } else if (list == output.queues.len() || output.room[list] >= first.target.packet.flits)
                && chosen.is_none_or(|(since, _)| first.since < since)
            {
                chosen = Some((first.since, list));
            }
        }
        let Some((_, list)) = chosen else { return Err(again) };
        if output.crossing.is_free(now) { Ok(list) } else { Err(output.crossing.free_from()) }
    }

    /// Lets the first packet of a list cross to its port.
    fn take_in(&mut self, port: OutputId, list: usize, now: u64, shared: &mut Shared) {
        let output = &mut self.outputs[port];
        let Pending { end, held, target, .. } = output.lists[list].pop_front().expect("it was chosen");
        let packet = target.packet;
        output.pending -= 1;
        output
            .crossing
            .take(now, u64::from(packet.flits) * self.flit / u64::from(shared.setup.parameters.fabric.speedup));
        if list == output.queues.len() {
            self.reduce(port, packet, now, end, shared);
        } else {
            output.room[list] -= packet.flits;
            // What comes in slowly must be here before the wire needs it.
            let ready = end.saturating_sub(output.sender.cycles(packet.flits));
            output.queues[list].push_back(Queued { ready, packet });
            output.queued += 1;
        }
        self.give_back(held, now, shared.wires);
    }

    /// Decides where a packet goes; returns whether it may go on. A pull may not if its first switch has no entry left.
    fn decide(&mut self, packet: Packet, now: u64, targets: &mut Vec<Target>, shared: &mut Shared) -> bool {
        if let Some(hop) = packet.route.and_then(|route| shared.setup.routes.next(route, packet.hop)) {
            targets.push(Target::output(hop, packet));
            return true;
        }
        match packet.op {
            Op::Ack => self.acknowledge(packet, targets, shared),
            Op::Operand | Op::Answer | Op::Whole => targets.push(self.towards_root(packet, shared)),
            Op::Pull => {
                if !self.reserve(packet, now, shared) {
                    return false;
                }
                multicast(packet, targets, shared);
            }
            Op::Done => {
                multicast(packet, targets, shared);
            }
            Op::Result => {
                let copies = multicast(packet, targets, shared);
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

    /// Decides where an operand goes, or a home accelerator's sum: to the table of its line's home port here; or an
    /// answer, to the table of the port that leads on, or without an entry there to the port itself, which only happens
    /// behind the first switch of its pull.
    fn towards_root(&self, packet: Packet, shared: &mut Shared) -> Target {
        let (address, regions) = (packet.address(), &shared.setup.regions);
        let above = packet.edge.and_then(|edge| regions.edge(edge).above);
        if let Some(above) = above
            && packet.op == Op::Operand
            && regions.edge(above).below.count == 1
        {
            // On the way from the home to one rank nothing else comes in.
            return over(above, regions.edge(above).route, packet, shared);
        }
        if packet.op != Op::Answer {
            return Target::table(regions.home(address, above, self.tables.len()), packet);
        }
        let above = above.expect("answers end at the rank that is the root");
        let route = regions.edge(above).route;
        let port = shared.setup.routes.first(route).output;
        if self.tables[port].holds(address) {
            return Target::table(port, packet);
        }
        if regions.edge(above).mate.is_some_and(|pulled| regions.edge(pulled).above.is_none()) {
            shared.stats.fault(|| format!("an answer for {address} has no entry at its pull's first switch"));
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

    /// Adds an operand to its line's sum in a table; a whole sum goes on. It never waits: what leaves the table has
    /// room behind it, so that requests which end here cannot wait for those that begin here.
    fn reduce(&mut self, port: OutputId, packet: Packet, now: u64, end: u64, shared: &mut Shared) {
        let (address, regions) = (packet.address(), &shared.setup.regions);
        if packet.op == Op::Whole {
            self.give_out(port, end, Packet { op: Op::Result, ..packet });
            return;
        }
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
        let adding = whole_cycles(u64::from(packet.flits) * self.flit);
        let done = (self.tables[port].busy_until.max(now) + adding).max(end);
        self.tables[port].busy_until = done;
        shared.stats.arrived(&packet, done);
        let place = shared.setup.parameters.fabric.deterministic.then_some(edge.place);
        let combine = shared.setup.parameters.reducer.combine;
        if let Some(entry) = self.tables[port].add(address, packet.operand, combine, place, now) {
            let sum = onward(address, entry.onward, entry.operand, done, shared);
            let op = if entry.onward.is_none() { Op::Result } else { packet.op };
            self.give_out(port, done, Packet { op, ..sum });
        }
    }

    /// Lets packets leave; says when more may.
    fn send(&mut self, now: u64, wires: &mut Wires<Packet>) -> u64 {
        let mut next = NEVER;
        for output in self.outputs.iter_mut().filter(|output| output.queued > 0) {
            let Output { sender, queues, room, .. } = output;
            let fronts = queues.iter().filter_map(VecDeque::front);
            next = fronts.map(|first| first.ready).filter(|&ready| ready > now).fold(next, u64::min);
            let first = |channel: usize| queues[channel].front().filter(|first| first.ready <= now);
            match sender.choose(now, |channel| first(channel).map(|first| first.packet.flits)) {
                Ok(channel) => {
                    let Queued { packet, .. } = queues[channel].pop_front().expect("it was chosen");
                    room[channel] += packet.flits;
                    output.queued -= 1;
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

    /// Returns the payloads in all tables over time, if they are sampled.
    pub fn payloads(&self) -> Option<&Level> {
        self.held_payloads.as_ref().map(|held| &held.level)
    }

    /// Counts the packets that are still here, and the entries and acknowledgements that wait.
    pub fn left(&self) -> usize {
        let at_inputs = self.inputs.iter().flat_map(|input| &input.queues).map(VecDeque::len).sum::<usize>();
        let at_outputs = self.outputs.iter().map(|output| output.pending + output.queued).sum::<usize>();
        at_inputs + at_outputs + self.tables.iter().map(ReductionTable::len).sum::<usize>() + self.acks.len()
    }
}
