//! A switch that multicasts and reduces (in-network paper, sections IV-A to IV-E and V).
//!
//! Output-queued with internal speed-up: a packet waits at its input, for each class (requests, responses) in order, crosses to the queues of
//! all its outputs that have room, in one go or in several (a busy port holds no other), and leaves as each wire is free and the next input
//! has room for it whole. Packets stay whole; the latency of the switch lies on the wires before and behind it. A port's reduction table takes in
//! operands at the rate of a wire; what it gives out crosses like what comes in. Cost: a look at every port in each cycle in which
//! something can move, a few steps a packet.

use std::collections::{HashMap, VecDeque};

use super::super::machine::{CYCLE, Channel};
use super::super::wires::{NEVER, Wires};
use super::parcel::{Op, Parcel};
use super::regions::NONE;
use super::table::{Entry, Key, Table};
use super::wire::{CLASSES, Wire};
use super::{Shared, Sizes};
use crate::plan::Direction;

/// A packet at an input.
#[derive(Debug)]
struct Waiting {
    /// When its head and its tail are here.
    at: u64,
    tail: u64,
    parcel: Parcel,
}

/// A place where packets come in: a link, or a table's way back into the switch.
#[derive(Debug, Default)]
struct Input {
    link: Option<u32>,
    credit_delay: u64,
    /// Time of a flit on the link, in parts of a cycle.
    flit: u64,
    due: u64,
    queues: [VecDeque<Waiting>; CLASSES],
    /// Where the first packet of each queue still has to go; empty before that is decided.
    targets: [Vec<Target>; CLASSES],
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

/// A link out, and the queues before it.
#[derive(Debug)]
struct Output {
    wire: Wire,
    queues: [VecDeque<Parcel>; CLASSES],
    /// Flits for which each queue has room.
    room: [u32; CLASSES],
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
    turn: usize,
}

impl Switch {
    /// A switch with these links in and out (number, wire).
    pub fn new(incoming: &[(u32, Channel)], outgoing: &[(u32, Channel)], sizes: &Sizes) -> Self {
        let from_link = |&(link, wire): &(u32, Channel)| Input {
            link: Some(link),
            credit_delay: wire.credit_delay,
            flit: wire.flit,
            due: NEVER,
            ..Input::default()
        };
        let from_table = |_| Input { due: NEVER, ..Input::default() };
        let output = |&(link, wire): &(u32, Channel)| Output {
            wire: Wire::new(link, wire, sizes.buffer_flits),
            queues: Default::default(),
            room: [sizes.queue_flits; CLASSES],
            crossing_until: 0,
        };
        Self {
            inputs: incoming.iter().map(from_link).chain((0..outgoing.len()).map(from_table)).collect(),
            outputs: outgoing.iter().map(output).collect(),
            tables: (0..outgoing.len()).map(|_| Table::default()).collect(),
            acks: HashMap::new(),
            turn: 0,
        }
    }

    /// Works through the cycles from `from` on and before `horizon`; says in which there may be something to do next.
    pub fn advance(&mut self, from: u64, horizon: u64, shared: &mut Shared) -> u64 {
        for input in &mut self.inputs {
            input.due = input.link.map_or(NEVER, |link| shared.wires.flits[link as usize].due());
        }
        self.outputs.iter_mut().for_each(|output| output.wire.refresh(shared.wires));
        let mut now = from;
        while now < horizon {
            self.receive(now, shared.wires);
            let mut next = self.time_out(now, shared);
            next = next.min(self.cross(now, shared));
            next = next.min(self.send(now, shared.wires));
            let inputs = self.inputs.iter().map(|input| input.due);
            now = inputs.chain(self.outputs.iter().map(|output| output.wire.due)).fold(next, u64::min);
        }
        now
    }

    fn receive(&mut self, now: u64, wires: &mut Wires<Parcel>) {
        for input in &mut self.inputs {
            while input.due <= now {
                let flits = &mut wires.flits[input.link.expect("tables are not on a wire") as usize];
                let (at, parcel) = flits.take_whole();
                input.due = flits.due();
                let tail = at + (u64::from(parcel.flits - 1) * input.flit).div_ceil(CYCLE);
                input.queues[usize::from(parcel.response)].push_back(Waiting { at, tail, parcel });
            }
        }
        self.outputs.iter_mut().for_each(|output| output.wire.take_credits(now, wires));
    }

    /// Evicts what was not touched for too long; says when to look again.
    fn time_out(&mut self, now: u64, shared: &mut Shared) -> u64 {
        let mut next = NEVER;
        if !shared.sizes.evicts {
            return next;
        }
        for port in 0..self.tables.len() {
            while let Some(oldest) = self.tables[port].oldest() {
                let until = oldest + shared.sizes.timeout;
                if until > now {
                    next = next.min(until);
                    break;
                }
                shared.seen.timeouts += 1;
                self.evict(port, now, shared);
            }
        }
        next
    }

    /// The least recently used entry of a port goes on as a partial sum: to the parent or, from the root, to the home accelerator.
    fn evict(&mut self, port: usize, now: u64, shared: &mut Shared) {
        let entry = self.tables[port].evict();
        shared.seen.evictions += 1;
        let parcel = onward(&entry, now, shared);
        let (tree, line) = entry.key;
        let parcel = if entry.onward == NONE {
            let home = shared.home_of(tree, line);
            Parcel { op: Op::Partial, way: shared.regions.home_way(tree, home, Direction::Down), ..parcel }
        } else {
            parcel
        };
        self.give_out(port, now, parcel);
    }

    /// A table's packet waits at its way into the switch.
    fn give_out(&mut self, port: usize, at: u64, parcel: Parcel) {
        let first = self.inputs.len() - self.tables.len();
        self.inputs[first + port].queues[usize::from(parcel.response)].push_back(Waiting { at, tail: at, parcel });
    }

    /// Packets cross to queues and tables; says when more may.
    fn cross(&mut self, now: u64, shared: &mut Shared) -> u64 {
        let (mut next, mut moved) = (NEVER, false);
        for i in 0..self.inputs.len() {
            let number = (self.turn + i) % self.inputs.len();
            for class in (0..CLASSES).rev() {
                match self.cross_from(number, class, now, shared) {
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

    /// The first packet of an input's class crosses to where it can; else says when to try again.
    fn cross_from(&mut self, number: usize, class: usize, now: u64, shared: &mut Shared) -> Result<(), u64> {
        let input = &self.inputs[number];
        let Some(first) = input.queues[class].front() else { return Err(NEVER) };
        let from = first.at.max(input.crossing_until);
        if from > now {
            return Err(from);
        }
        let (flits, tail) = (first.parcel.flits, first.tail);
        if input.targets[class].is_empty() {
            let mut targets = std::mem::take(&mut self.inputs[number].targets[class]);
            let parcel = self.inputs[number].queues[class][0].parcel;
            let stalls = !self.decide(parcel, now, &mut targets, shared);
            self.inputs[number].targets[class] = targets;
            if stalls {
                return Err(NEVER);
            }
        }
        let mut targets = std::mem::take(&mut self.inputs[number].targets[class]);
        let (mut again, before) = (NEVER, targets.len());
        targets.retain(|&target| match self.deliver(target, now, shared) {
            Ok(()) => false,
            Err(at) => {
                again = again.min(at);
                true
            }
        });
        let (left, moved) = (targets.len(), targets.len() < before);
        self.inputs[number].targets[class] = targets;
        if before > 0 && !moved {
            return Err(again);
        }
        let input = &mut self.inputs[number];
        input.crossing_until = (now + u64::from(flits.div_ceil(shared.sizes.speedup))).max(tail + 1);
        if left == 0 {
            input.queues[class].pop_front();
            if let Some(link) = input.link {
                shared.wires.give_back_whole(link, now + input.credit_delay, class as u8, flits);
            }
        }
        Ok(())
    }

    /// Where a packet goes; says whether it may go on, which a pull may not whose first switch has no entry left.
    fn decide(&mut self, parcel: Parcel, now: u64, targets: &mut Vec<Target>, shared: &mut Shared) -> bool {
        let way = shared.regions.ways.row(parcel.way as usize);
        if let Some(&output) = way.get(usize::from(parcel.hop)) {
            targets.push(Target::Output(output, Parcel { hop: parcel.hop + 1, ..parcel }));
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
                *self.acks.entry((parcel.tree, parcel.line)).or_default() += copies;
            }
            Op::Partial => unreachable!("partial sums go to accelerators"),
        }
        true
    }

    /// Pull: an entry for the answers where they come together; farther than the first switch only if there is one.
    fn reserve(&mut self, parcel: Parcel, now: u64, shared: &mut Shared) -> bool {
        let edge = shared.regions.edge(parcel.edge);
        if edge.mate == NONE {
            return true;
        }
        let mate = shared.regions.edge(edge.mate);
        let port = shared.regions.ways.row(mate.way as usize)[0] as usize;
        let full = self.tables[port].len() >= shared.sizes.entries;
        if !full {
            self.tables[port].open((parcel.tree, parcel.line), edge.mate, mate.ranks, now);
        } else if edge.above != NONE {
            shared.seen.bypasses += 1;
        }
        !full || edge.above != NONE
    }

    /// An operand goes into the table of the port that leads on, if it is for it; an answer without an entry passes by.
    fn towards_root(&self, parcel: Parcel, shared: &Shared) -> Target {
        let (tree, line) = (parcel.tree, parcel.line);
        let above = shared.regions.edge(parcel.edge).above;
        if above == NONE {
            return Target::Table(shared.regions.regions[tree as usize].port, parcel);
        }
        let way = shared.regions.edge(above).way;
        let port = shared.regions.ways.row(way as usize)[0];
        if parcel.op == Op::Answer && !self.tables[port as usize].holds((tree, line)) {
            return Target::Output(port, Parcel { edge: above, way, hop: 1, ..parcel });
        }
        Target::Table(port, parcel)
    }

    /// One acknowledgement less to wait for; the last one is passed on.
    fn acknowledge(&mut self, parcel: Parcel, targets: &mut Vec<Target>, shared: &Shared) {
        let key = (parcel.tree, parcel.line);
        let left = self.acks.get_mut(&key).expect("acknowledgements follow a multicast");
        *left -= 1;
        if *left > 0 {
            return;
        }
        self.acks.remove(&key);
        let above = shared.regions.edge(parcel.edge).above;
        if above != NONE {
            let way = shared.regions.edge(above).back;
            let output = shared.regions.ways.row(way as usize)[0];
            targets.push(Target::Output(output, Parcel { edge: above, way, hop: 1, ..parcel }));
        }
    }

    /// A packet crosses, or an operand is reduced; if that must wait: until when, as far as that is known.
    fn deliver(&mut self, target: Target, now: u64, shared: &mut Shared) -> Result<(), u64> {
        match target {
            Target::Output(number, parcel) => {
                let output = &mut self.outputs[number as usize];
                let class = usize::from(parcel.response);
                if output.crossing_until > now {
                    return Err(output.crossing_until);
                }
                if output.room[class] < parcel.flits {
                    return Err(NEVER);
                }
                output.room[class] -= parcel.flits;
                output.crossing_until = now + u64::from(parcel.flits.div_ceil(shared.sizes.speedup));
                output.queues[class].push_back(parcel);
            }
            Target::Table(port, parcel) => {
                let table = &mut self.tables[port as usize];
                let room_from = table.busy_until.saturating_sub(shared.sizes.queue_flits.into());
                if table.crossing_until.max(room_from) > now {
                    return Err(table.crossing_until.max(room_from));
                }
                table.crossing_until = now + u64::from(parcel.flits.div_ceil(shared.sizes.speedup));
                self.reduce(port as usize, parcel, now, shared);
            }
        }
        Ok(())
    }

    fn reduce(&mut self, port: usize, parcel: Parcel, now: u64, shared: &mut Shared) {
        let key = (parcel.tree, parcel.line);
        if !self.tables[port].holds(key) {
            if self.tables[port].len() >= shared.sizes.entries {
                self.evict(port, now, shared);
            }
            let above = shared.regions.edge(parcel.edge).above;
            let expected = if above == NONE { shared.regions.ranks } else { shared.regions.edge(above).ranks };
            self.tables[port].open(key, above, expected, now);
        }
        let done = self.tables[port].busy_until.max(now) + u64::from(parcel.flits);
        self.tables[port].busy_until = done;
        shared.seen.arrived(&parcel, done);
        if let Some(entry) = self.tables[port].add(key, parcel.operand, now) {
            let sum = onward(&entry, done, shared);
            let op = if entry.onward == NONE { Op::Result } else { parcel.op };
            self.give_out(port, done, Parcel { op, response: sum.response || parcel.response, ..sum });
        }
    }

    /// Packets leave; says when more may.
    fn send(&mut self, now: u64, wires: &mut Wires<Parcel>) -> u64 {
        let mut next = NEVER;
        for output in &mut self.outputs {
            let Output { wire, queues, room, .. } = output;
            let fronts = [queues[0].front(), queues[1].front()];
            match wire.choose(now, fronts.map(|front| front.map(|parcel| parcel.flits))) {
                Ok(class) => {
                    let parcel = queues[class].pop_front().expect("it was chosen");
                    room[class] += parcel.flits;
                    wire.send(now, parcel, wires);
                    next = now + 1;
                }
                Err(at) => next = next.min(at),
            }
        }
        next
    }

    /// Time in which each wire was taken, in parts of a cycle.
    pub fn busy(&self) -> impl Iterator<Item = u64> {
        self.outputs.iter().map(|output| output.wire.busy)
    }

    /// Most entries that a table ever had.
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

/// The packet that carries on what an entry holds.
fn onward(entry: &Entry, now: u64, shared: &Shared) -> Parcel {
    let (tree, line) = entry.key;
    let root = entry.onward == NONE;
    Parcel {
        op: Op::Operand,
        response: root,
        hop: 0,
        flits: shared.sizes.packet_flits,
        way: if root { shared.regions.empty_way } else { shared.regions.edge(entry.onward).way },
        edge: entry.onward,
        tree,
        line,
        operand: entry.operand,
        born: now,
    }
}

/// Copies over all edges of its tree that come next; how many.
fn multicast(parcel: Parcel, targets: &mut Vec<Target>, shared: &Shared) -> u32 {
    let edges = shared.regions.targets(parcel.tree, parcel.edge);
    for edge in edges.first..edges.first + edges.count {
        let way = shared.regions.edge(edge).way;
        let output = shared.regions.ways.row(way as usize)[0];
        targets.push(Target::Output(output, Parcel { edge, way, hop: 1, ..parcel }));
    }
    edges.count
}
