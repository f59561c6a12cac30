//! The oracle of the packet simulator: every flit an object, every node visited in every cycle, nothing clever.

use std::collections::{HashMap, VecDeque};

use treefold::sim::Job;
use treefold::sim::jobs::{place, routes_of};
use treefold::sim::packet::machine::{CYCLE, Machine};
use treefold::sim::packet::workload::{MessageId, ProgramId, Workload};
use treefold::sim::packet::{Interfaces, Options};
use treefold::topology::{LinkId, NodeId, Topology};

#[derive(Clone, Copy, Debug)]
struct Flit {
    message: usize,
    route: usize,
    hop: usize,
    head: bool,
    tail: bool,
    first: bool,
    /// Flits of its packet.
    packet: u32,
}

/// A port of a node: its links first, then its interfaces.
type Port = (NodeId, usize);
/// A virtual channel of a port.
type Channel = (NodeId, usize, usize);

/// Messages to add up: when they were received, tree, message.
type Queue = Vec<(u64, u32, usize)>;

#[derive(Default)]
struct Interface {
    queue: VecDeque<(usize, u64)>,
    /// Flits of the front message that have left.
    gone: u64,
    channel: usize,
    turn: usize,
    fetched: u64,
    sent: u64,
    /// Payloads, in flits, that are still to be fetched.
    to_fetch: VecDeque<u64>,
    fetch_from: u64,
    busy: bool,
}

struct World<'a> {
    topology: &'a Topology,
    machine: &'a Machine,
    workload: &'a Workload,
    options: &'a Options,
    flits_under_way: Vec<(u64, Port, usize, Flit)>,
    credits_under_way: Vec<(u64, Port, usize)>,
    buffers: HashMap<Channel, VecDeque<Flit>>,
    /// Output and channel that the packet at the front of a buffer has been given.
    given: HashMap<Channel, (usize, usize)>,
    taken: HashMap<Channel, bool>,
    credits: HashMap<Channel, u32>,
    free_at: HashMap<Port, u64>,
    /// Round-robin pointers: of outputs over inputs, inputs over outputs, inputs over channels, channels over buffers,
    /// buffers over channels.
    turns: HashMap<(u8, NodeId, usize, usize), usize>,
    interfaces: HashMap<Port, Interface>,
    packets_left: Vec<u32>,
    known: Vec<(u64, usize)>,
    adder: HashMap<NodeId, (u64, Queue)>,
    cleared: Vec<(u64, usize)>,
    waits: Vec<u32>,
    /// The step of each program.
    step: Vec<usize>,
    entered: Vec<bool>,
    counter_down: Vec<u64>,
    /// Which program of a node enters a step first, and which has an interface first.
    first_program: HashMap<NodeId, usize>,
    next_program: HashMap<Port, usize>,
    issued: Vec<bool>,
    received: Vec<u64>,
    /// The end of each job.
    end: Vec<u64>,
    last: Vec<(u64, usize)>,
    samples: Samples,
}

/// What it sees in each cycle: of each node the flits in its buffers, and of each link whether it is free and flits
/// want it, all of them in vain for want of credit, and whether flits of two or more inputs want it.
#[derive(Default)]
pub struct Samples {
    pub buffers: Vec<Vec<u32>>,
    pub credits: Vec<Vec<u32>>,
    pub contention: Vec<Vec<u32>>,
}

impl Samples {
    /// Returns those of a network's nodes and links, behind which those that stand for shared capacities are numbered.
    fn of(mut self, network: &Topology) -> Self {
        self.buffers.truncate(network.nodes().len());
        self.credits.truncate(network.links().len());
        self.contention.truncate(network.links().len());
        self
    }
}

/// What it sees of jobs.
pub struct Seen {
    /// Cycles of each job.
    pub cycles: Vec<u64>,
    /// When each message was received.
    pub received: Vec<u64>,
    pub samples: Samples,
}

/// Adds a number in a cycle.
fn note(row: &mut Vec<u32>, cycle: u64, count: u32) {
    row.resize(row.len().max(cycle as usize + 1), 0);
    row[cycle as usize] += count;
}

/// Simulates jobs.
pub fn watch(jobs: &[Job], options: &Options) -> Seen {
    let routes = routes_of(jobs);
    let placed = place(jobs, &routes).unwrap();
    let expanded = jobs[0].plan.topology.with_conduits();
    let topology = &*expanded.network;
    let machine = Machine::new(topology, &placed, false, options).unwrap();
    let workload = Workload::new(&expanded, &placed, None, options, &machine).unwrap();
    let (count, programs) = (workload.messages.len(), workload.programs.len());
    let mut world = World {
        topology,
        machine: &machine,
        workload: &workload,
        options,
        flits_under_way: vec![],
        credits_under_way: vec![],
        buffers: HashMap::new(),
        given: HashMap::new(),
        taken: HashMap::new(),
        credits: HashMap::new(),
        free_at: HashMap::new(),
        turns: HashMap::new(),
        interfaces: HashMap::new(),
        packets_left: workload.messages.iter().map(|message| message.packets).collect(),
        known: vec![],
        adder: HashMap::new(),
        cleared: vec![],
        waits: workload.waits.clone(),
        step: vec![0; programs],
        entered: vec![false; programs],
        counter_down: ProgramId::first(programs).map(|program| first_counter(&workload, program)).collect(),
        first_program: HashMap::new(),
        next_program: HashMap::new(),
        issued: vec![false; count],
        received: vec![0; count],
        end: vec![0; jobs.len()],
        last: vec![(0, 0); jobs.len()],
        samples: Samples {
            buffers: vec![vec![]; topology.nodes().len()],
            credits: vec![vec![]; topology.links().len()],
            contention: vec![vec![]; topology.links().len()],
        },
    };
    let mut now = 0;
    while world.received.contains(&0) || !world.adder.values().all(|(free, queue)| *free < now && queue.is_empty()) {
        for node in topology.node_ids() {
            world.cycle(now, node);
            world.look(now, node);
        }
        now += 1;
        assert!(now < 20_000_000, "the oracle never ends");
    }
    let tail = |(at, id): (u64, usize)| match options.interfaces {
        Interfaces::Shared if at > 0 => {
            at + machine.links[workload.first_route(&workload.messages[id]).last().unwrap().link].latency
        }
        _ => 0,
    };
    let cycles = world.end.iter().zip(&world.last).map(|(&end, &last)| end.max(tail(last))).collect();
    Seen { cycles, received: world.received, samples: world.samples.of(&jobs[0].plan.topology) }
}

fn first_counter(workload: &Workload, program: ProgramId) -> u64 {
    workload.steps[program].first().map_or(0, |step| u64::from(step.nops) * workload.programs[program].step_cycles)
}

/// How far `place` is behind `turn` in a round of `count`.
fn behind(place: usize, turn: usize, count: usize) -> usize {
    (place + count - turn) % count
}

impl World<'_> {
    fn links_in(&self, node: NodeId) -> usize {
        self.topology.incoming(node).len()
    }

    fn links_out(&self, node: NodeId) -> usize {
        self.topology.outgoing(node).len()
    }

    fn ports(&self, node: NodeId) -> usize {
        self.machine.nodes[node].interfaces as usize
    }

    fn has_router(&self, node: NodeId) -> bool {
        self.machine.nodes[node].has_router
    }

    fn channels(&self) -> usize {
        self.options.virtual_channels as usize
    }

    fn turn(&mut self, kind: u8, node: NodeId, a: usize, b: usize) -> &mut usize {
        self.turns.entry((kind, node, a, b)).or_default()
    }

    /// Credits of an output; interfaces' ways into the router are outputs after links and ejection ports.
    fn credit(&mut self, node: NodeId, output: usize, channel: usize) -> &mut u32 {
        let full = self.options.buffer_flits();
        self.credits.entry((node, output, channel)).or_insert(full)
    }

    fn is_ejection(&self, node: NodeId, output: usize) -> bool {
        self.has_router(node) && (self.links_out(node)..self.links_out(node) + self.ports(node)).contains(&output)
    }

    fn has_credit(&mut self, node: NodeId, output: usize, channel: usize, flits: u32) -> bool {
        self.is_ejection(node, output) || *self.credit(node, output, channel) >= flits
    }

    fn wire_free(&self, node: NodeId, output: usize, now: u64) -> bool {
        self.free_at.get(&(node, output)).copied().unwrap_or(0) <= now * CYCLE
    }

    fn wanted_output(&self, node: NodeId, flit: &Flit) -> usize {
        let message = &self.workload.messages[flit.message];
        match self.workload.routes.row(flit.route).get(flit.hop) {
            Some(hop) => self.topology.outgoing(node).iter().position(|&link| link == hop.link).unwrap(),
            None => self.links_out(node) + message.ejector.index(),
        }
    }

    fn cycle(&mut self, now: u64, node: NodeId) {
        if self.has_router(node) {
            self.switch(now, node);
        }
        self.arrive(now, node);
        if self.machine.nodes[node].is_rank {
            self.receive(now, node);
            self.issue(now, node);
            for interface in 0..self.ports(node) {
                self.inject(now, node, interface);
                self.fetch(now, node, interface);
            }
        }
        if self.has_router(node) {
            self.allocate(node);
        }
    }

    fn inputs(&self, node: NodeId) -> usize {
        self.links_in(node) + self.ports(node)
    }

    fn outputs(&self, node: NodeId) -> usize {
        self.links_out(node) + 2 * self.ports(node)
    }

    fn switch(&mut self, now: u64, node: NodeId) {
        let (inputs, outputs, channels) = (self.inputs(node), self.outputs(node), self.channels());
        // What each input offers each output.
        let mut offers: HashMap<(usize, usize), usize> = HashMap::new();
        for input in 0..inputs {
            for channel in 0..channels {
                let Some(&(output, theirs)) = self.given.get(&(node, input, channel)) else { continue };
                let some = self.buffers.get(&(node, input, channel)).is_some_and(|buffer| !buffer.is_empty());
                if !some || !self.has_credit(node, output, theirs, 1) || !self.wire_free(node, output, now) {
                    continue;
                }
                let turn = *self.turn(2, node, input, 0);
                let key = |channel: usize| {
                    let flit = self.buffers[&(node, input, channel)][0];
                    (self.workload.messages[flit.message].priority, behind(channel, turn, channels))
                };
                let better = offers.get(&(input, output)).is_none_or(|&other| key(channel) < key(other));
                if better {
                    offers.insert((input, output), channel);
                }
            }
        }
        let mut grants: HashMap<usize, Vec<usize>> = HashMap::new();
        for output in 0..outputs {
            let turn = *self.turn(0, node, output, 0);
            let asking = (0..inputs).filter(|&input| offers.contains_key(&(input, output)));
            if let Some(input) = asking.min_by_key(|&input| behind(input, turn, inputs)) {
                grants.entry(input).or_default().push(output);
            }
        }
        for (input, granted) in grants {
            let turn = *self.turn(1, node, input, 0);
            let output = granted.into_iter().min_by_key(|&output| behind(output, turn, outputs)).unwrap();
            let channel = offers[&(input, output)];
            *self.turn(0, node, output, 0) = (input + 1) % inputs;
            *self.turn(1, node, input, 0) = (output + 1) % outputs;
            *self.turn(2, node, input, 0) = (channel + 1) % channels;
            let flit = self.buffers.get_mut(&(node, input, channel)).unwrap().pop_front().unwrap();
            let (_, theirs) = self.given[&(node, input, channel)];
            if input < self.links_in(node) {
                let link = self.topology.incoming(node)[input];
                let back = self.machine.links[link].credit_delay;
                self.credits_under_way.push((now + back, self.source_port(link), channel));
            } else {
                let feeder = self.links_out(node) + self.ports(node) + input - self.links_in(node);
                *self.credit(node, feeder, channel) += 1;
            }
            if flit.tail {
                self.taken.remove(&(node, output, theirs));
                self.given.remove(&(node, input, channel));
            }
            if self.is_ejection(node, output) {
                self.occupy(now, (node, output), CYCLE, 0);
                self.leave(flit, now + 4);
            } else {
                self.transmit(now, node, output, theirs, flit);
            }
        }
    }

    fn source_port(&self, link: LinkId) -> Port {
        let source = self.topology.link(link).source;
        (source, self.topology.outgoing(source).iter().position(|&other| other == link).unwrap())
    }

    fn occupy(&mut self, now: u64, port: Port, flit: u64, overhead: u64) {
        let free = self.free_at.entry(port).or_insert(0);
        let begin = if *free + CYCLE > now * CYCLE { *free } else { now * CYCLE };
        *free = begin + flit + overhead * CYCLE;
    }

    fn transmit(&mut self, now: u64, node: NodeId, output: usize, channel: usize, flit: Flit) {
        let link = self.topology.outgoing(node)[output];
        let wire = self.machine.links[link];
        let overhead = if flit.head && flit.first { wire.overhead } else { 0 };
        self.occupy(now, (node, output), wire.flit, overhead);
        *self.credit(node, output, channel) -= 1;
        let target = self.topology.link(link).target;
        let input = self.topology.incoming(target).iter().position(|&other| other == link).unwrap();
        let flit = Flit { hop: flit.hop + 1, ..flit };
        self.flits_under_way.push((now + wire.delay + overhead, (target, input), channel, flit));
    }

    /// The flit is out of the network.
    fn leave(&mut self, flit: Flit, known: u64) {
        if flit.tail {
            self.packets_left[flit.message] -= 1;
            if self.packets_left[flit.message] == 0 {
                self.known.push((known, flit.message));
            }
        }
    }

    fn arrive(&mut self, now: u64, node: NodeId) {
        let (due, rest) =
            std::mem::take(&mut self.flits_under_way).into_iter().partition(|f| f.0 == now && f.1.0 == node);
        self.flits_under_way = rest;
        for (_, (_, input), channel, flit) in Vec::from_iter::<Vec<_>>(due) {
            if self.has_router(node) {
                self.buffers.entry((node, input, channel)).or_default().push_back(flit);
            } else {
                let link = self.topology.incoming(node)[input];
                let back = self.machine.links[link].credit_delay;
                self.credits_under_way.push((now + back, self.source_port(link), channel));
                self.leave(flit, now + 1);
            }
        }
        let due: Vec<_> = self.credits_under_way.extract_if(.., |c| c.0 == now && c.1.0 == node).collect();
        for (_, (_, output), channel) in due {
            *self.credit(node, output, channel) += 1;
        }
    }

    /// Receipts, the adder, what they clear.
    fn receive(&mut self, now: u64, node: NodeId) {
        let workload = self.workload;
        let mut due: Vec<_> =
            self.known.extract_if(.., |(at, id)| *at == now && workload.messages[*id].target == node).collect();
        due.sort_by_key(|&(_, id)| (workload.messages[id].tree, id));
        for (_, id) in due {
            self.received[id] = now;
            let job = usize::from(workload.messages[id].job);
            self.last[job] = self.last[job].max((now, id));
            if workload.messages[id].aggregation.is_some() {
                let tree = workload.messages[id].tree;
                self.adder.entry(node).or_default().1.push((now, tree, id));
            } else {
                self.end[job] = self.end[job].max(now);
                self.cleared.push((now + 1, id));
            }
        }
        let (free, queue) = self.adder.entry(node).or_default();
        while *free <= now && queue.first().is_some_and(|&(at, _, _)| at < now) {
            let (_, _, id) = queue.remove(0);
            *free = now + workload.messages[id].aggregation.unwrap();
            let job = usize::from(workload.messages[id].job);
            self.end[job] = self.end[job].max(*free);
            self.cleared.push((*free + 1, id));
        }
        for (_, id) in self.cleared.extract_if(.., |(at, id)| *at == now && workload.messages[*id].target == node) {
            workload.releases.row(id).iter().for_each(|&later| self.waits[later] -= 1);
        }
    }

    /// Lets the programs of a node issue: first where each is the next to be served, then anywhere.
    fn issue(&mut self, now: u64, node: NodeId) {
        let count = self.workload.programs_of.row(node).len();
        for behind in 0..count {
            let first = self.first_program.get(&node).copied().unwrap_or(0);
            for number in (0..count).map(|number| (first + number) % count) {
                self.issue_program(now, node, number, behind);
            }
        }
    }

    fn issue_program(&mut self, now: u64, node: NodeId, number: usize, behind: usize) {
        let workload = self.workload;
        let programs = workload.programs_of.row(node);
        let program = programs[number];
        while let Some(step) = workload.steps[program].get(self.step[program]) {
            if !self.entered[program] {
                let ports = self.ports(node);
                let idle = (0..ports).all(|i| !self.interfaces.entry((node, i)).or_default().busy);
                if workload.programs[program].lockstep && (!idle || now < self.counter_down[program]) {
                    return;
                }
                self.entered[program] = true;
                self.first_program.insert(node, (number + 1) % programs.len());
            }
            // All chunks of all edges, in the order of the table; of each edge those before must have gone.
            let mut chunks = step.sends.clone();
            let mut before = vec![None; workload.messages.len()];
            for i in 0.. {
                let Some(&id) = chunks.get(i) else { break };
                if let Some(next) = workload.next_chunk[id] {
                    before[next] = Some(id);
                    chunks.push(next);
                }
            }
            if chunks.len() > step.sends.len() {
                chunks.sort_by_key(|&id| workload.place[id]);
            }
            for &id in &chunks {
                if before[id].is_none_or(|before: MessageId| self.issued[before]) {
                    self.try_issue(now, node, id.index(), (number, behind));
                }
            }
            if chunks.iter().any(|&id| !self.issued[id]) {
                return;
            }
            self.entered[program] = false;
            self.step[program] += 1;
            if let Some(next) = workload.steps[program].get(self.step[program]).filter(|next| next.nops > 0) {
                self.counter_down[program] = now + (u64::from(next.nops) + 1) * workload.programs[program].step_cycles;
            }
        }
    }

    fn try_issue(&mut self, now: u64, node: NodeId, id: usize, (program, most): (usize, usize)) {
        let message = &self.workload.messages[id];
        if self.issued[id] || self.waits[id] > 0 {
            return;
        }
        let programs = self.workload.programs_of.row(node).len();
        let free = |world: &mut Self, i: usize| {
            let turn = world.next_program.get(&(node, i)).copied().unwrap_or(0);
            !world.interfaces.entry((node, i)).or_default().busy && self::behind(program, turn, programs) <= most
        };
        let chosen = match message.injector {
            Some(bound) => Some(bound.index()).filter(|&i| free(self, i)),
            None => (0..self.ports(node)).find(|&i| free(self, i)),
        };
        let Some(chosen) = chosen else { return };
        self.issued[id] = true;
        self.next_program.insert((node, chosen), (program + 1) % programs);
        let interface = self.interfaces.get_mut(&(node, chosen)).unwrap();
        interface.queue.push_back((id, now + 3));
        interface.busy = true;
        interface.fetch_from = now + 1;
        let whole = message.flits();
        let each = u64::from(self.options.packet_flits());
        let mut left = whole;
        // A payload has a head flit of its own only where it is a packet.
        let mut size = each;
        while left > 0 {
            interface.to_fetch.push_back(size.min(left));
            left -= size.min(left);
            if message.packets == 1 && message.payloads > 1 {
                size = each - 1;
            }
        }
        assert_eq!(interface.to_fetch.len(), message.payloads as usize);
    }

    fn inject(&mut self, now: u64, node: NodeId, number: usize) {
        let inside = self.has_router(node);
        let output = if inside { self.links_out(node) + self.ports(node) + number } else { number };
        let mut interface = self.interfaces.remove(&(node, number)).unwrap_or_default();
        let next = self.next_flit(now, node, output, &mut interface);
        let has_some = interface.queue.front().is_some_and(|&(_, from)| from <= now);
        if next.is_none() && has_some && !inside && self.wire_free(node, output, now) {
            note(&mut self.samples.credits[self.topology.outgoing(node)[output].index()], now, 1);
        }
        if let Some(flit) = next {
            let channel = interface.channel;
            if inside {
                *self.credit(node, output, channel) -= 1;
                let at = now + self.machine.injection[node].delay;
                self.flits_under_way.push((at, (node, self.links_in(node) + number), channel, flit));
            } else {
                self.transmit(now, node, output, channel, flit);
            }
        }
        self.interfaces.insert((node, number), interface);
    }

    fn next_flit(&mut self, now: u64, node: NodeId, output: usize, interface: &mut Interface) -> Option<Flit> {
        let &(id, from) = interface.queue.front()?;
        let message = &self.workload.messages[id];
        if from > now || !self.wire_free(node, output, now) {
            return None;
        }
        let number = (interface.gone / u64::from(message.packet_flits)) as u32;
        let place = interface.gone - u64::from(number) * u64::from(message.packet_flits);
        let packet = message.flits_of(number);
        if place == 0 {
            let allowed = if self.has_router(node) { u32::MAX } else { self.workload.first_route(message)[0].channels };
            let need = packet.min(self.options.packet_flits());
            let channels = self.channels();
            let order: Vec<usize> = (0..channels).map(|i| (interface.turn + i) % channels).collect();
            let fits = |&channel: &usize| allowed >> channel & 1 == 1 && *self.credit(node, output, channel) >= need;
            interface.channel = order.into_iter().find(fits)?;
            interface.turn = (interface.channel + 1) % channels;
        } else if *self.credit(node, output, interface.channel) == 0 {
            return None;
        }
        interface.gone += 1;
        interface.sent += 1;
        let tail = place + 1 == u64::from(packet);
        if interface.gone == message.flits() {
            interface.gone = 0;
            interface.queue.pop_front();
        }
        let route = message.route_of(number) as usize;
        Some(Flit { message: id, route, hop: 0, head: place == 0, tail, first: number == 0, packet })
    }

    /// Notes what a node's buffers and links show at the end of a cycle.
    fn look(&mut self, now: u64, node: NodeId) {
        let mut wanting: Vec<Vec<(usize, bool, bool)>> = vec![vec![]; self.links_out(node)];
        let mut flits = 0;
        let channels = self.channels();
        for place in 0..self.inputs(node) * channels {
            let (input, channel) = (place / channels, place % channels);
            let Some(buffer) = self.buffers.get(&(node, input, channel)).filter(|buffer| !buffer.is_empty()) else {
                continue;
            };
            flits += buffer.len() as u32;
            let flit = buffer[0];
            let output = self.wanted_output(node, &flit);
            if output < wanting.len() {
                let (goes, starves) = self.may_go(node, output, self.given.get(&(node, input, channel)).copied(), flit);
                wanting[output].push((input, goes, starves));
            }
        }
        note(&mut self.samples.buffers[node.index()], now, flits);
        for (output, wants) in wanting.iter().enumerate() {
            let link = self.topology.outgoing(node)[output];
            let is_starved = wants.iter().any(|want| want.2) && !wants.iter().any(|want| want.1);
            if is_starved && self.wire_free(node, output, now + 1) {
                note(&mut self.samples.credits[link.index()], now + 1, 1);
            }
            if wants.iter().any(|want| want.0 != wants[0].0) {
                note(&mut self.samples.contention[link.index()], now + 1, 1);
            }
        }
    }

    /// Whether the flit at the front of a buffer can go, and whether it lacks nothing but credit.
    fn may_go(&mut self, node: NodeId, output: usize, given: Option<(usize, usize)>, flit: Flit) -> (bool, bool) {
        if let Some((_, channel)) = given {
            let goes = *self.credit(node, output, channel) > 0;
            return (goes, !goes);
        }
        let hop = self.workload.routes.row(flit.route)[flit.hop];
        let need = flit.packet.min(self.options.packet_flits());
        let free: Vec<usize> = (0..self.channels())
            .filter(|channel| hop.channels >> channel & 1 == 1 && !self.taken.contains_key(&(node, output, *channel)))
            .collect();
        (false, !free.is_empty() && free.iter().all(|&channel| *self.credit(node, output, channel) < need))
    }

    fn fetch(&mut self, now: u64, node: NodeId, number: usize) {
        let buffer = self.machine.nodes[node].interface_flits;
        let interface = self.interfaces.get_mut(&(node, number)).unwrap();
        let Some(&flits) = interface.to_fetch.front() else {
            interface.busy = false;
            return;
        };
        if now >= interface.fetch_from && interface.fetched + flits - interface.sent <= buffer {
            interface.fetched += flits;
            interface.to_fetch.pop_front();
        }
        // The cycle after the last fetch sees it free.
        if interface.to_fetch.is_empty() {
            interface.busy = false;
        }
    }

    fn allocate(&mut self, node: NodeId) {
        let (inputs, outputs, channels) = (self.inputs(node), self.outputs(node), self.channels());
        let mut asking: Vec<(usize, Flit, usize)> = vec![];
        for input in 0..inputs {
            for channel in 0..channels {
                let front = self.buffers.get(&(node, input, channel)).and_then(|buffer| buffer.front().copied());
                if let Some(flit) = front.filter(|_| !self.given.contains_key(&(node, input, channel))) {
                    assert!(flit.head, "a packet without a channel starts with its head");
                    asking.push((input * channels + channel, flit, self.wanted_output(node, &flit)));
                }
            }
        }
        let mut grants: HashMap<usize, Vec<(usize, usize)>> = HashMap::new();
        for output in 0..outputs {
            for channel in 0..channels {
                if self.taken.contains_key(&(node, output, channel)) {
                    continue;
                }
                let turn = *self.turn(3, node, output, channel);
                let mut best: Option<usize> = None;
                for &(place, flit, wanted) in &asking {
                    let hop = self.workload.routes.row(flit.route).get(flit.hop);
                    let allowed = hop.is_none_or(|hop| hop.channels >> channel & 1 == 1);
                    let need = flit.packet.min(self.options.packet_flits());
                    if wanted == output && allowed && self.has_credit(node, output, channel, need) {
                        let key = |place| behind(place, turn, inputs * channels);
                        if best.is_none_or(|other| key(place) < key(other)) {
                            best = Some(place);
                        }
                    }
                }
                if let Some(place) = best {
                    grants.entry(place).or_default().push((output, channel));
                }
            }
        }
        for (place, granted) in grants {
            let (input, own) = (place / channels, place % channels);
            let turn = *self.turn(4, node, input, own);
            let &(output, channel) = granted.iter().min_by_key(|grant| behind(grant.1, turn, channels)).unwrap();
            self.given.insert((node, input, own), (output, channel));
            self.taken.insert((node, output, channel), true);
            *self.turn(3, node, output, channel) = (place + 1) % (inputs * channels);
            *self.turn(4, node, input, own) = (channel + 1) % channels;
        }
    }
}
