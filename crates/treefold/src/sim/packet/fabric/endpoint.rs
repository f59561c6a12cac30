//! An accelerator: a request generator held back by a wave controller, memory, and what answers come in (in-network paper, section IV-F and its
//! Fig. 6).
//!
//! A wave is a number of consecutive lines; so many may be outstanding. A wave's credit comes back when all its results are in memory. Reads take a
//! fixed time and a random one. Home accelerators add up partial sums in memory.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use super::super::machine::{CYCLE, Channel};
use super::super::wires::NEVER;
use super::Shared;
use super::parcel::{Op, Operand, Parcel};
use super::regions::NONE;
use super::table::Key;
use super::wire::{CLASSES, Wire};
use crate::plan::Direction;
use crate::topology::NodeId;

/// The line of the flag that a barrier reduces.
const FLAG: u32 = u32::MAX;

/// A packet that can be sent from a cycle on; the earliest is the greatest.
#[derive(Debug)]
struct Ready {
    at: u64,
    number: u64,
    parcel: Parcel,
}

impl PartialEq for Ready {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ready {}

impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ready {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

/// A link out, and what waits for it, by class.
#[derive(Debug)]
struct Port {
    wire: Wire,
    ready: [BinaryHeap<Ready>; CLASSES],
    /// When the last request that was read by the DMA engine, in order, is ready.
    read_until: u64,
}

/// A link in.
#[derive(Debug, Clone, Copy)]
struct Incoming {
    link: u32,
    wire: Channel,
}

/// Which lines a rank asks for, in waves.
#[derive(Debug, Default)]
struct Waves {
    /// Trees, which take turns.
    trees: Vec<u32>,
    /// The place of each tree among them.
    place: Vec<u32>,
    /// Lines of the longest.
    longest: u64,
    /// The next wave, and the first that is open.
    next: u64,
    first: u64,
    /// Results that open waves still wait for.
    open: VecDeque<u32>,
    outstanding: u32,
}

/// An accelerator.
#[derive(Debug)]
pub struct Endpoint {
    rank: NodeId,
    incoming: Vec<Incoming>,
    ports: Vec<Port>,
    waves: Waves,
    started: bool,
    /// Partial sums and answers.
    sums: HashMap<Key, Operand>,
    /// Lines whose result is here.
    known: Vec<u64>,
    /// How many are not.
    pub missing: u64,
    number: u64,
}

impl Endpoint {
    /// A rank with these links in and out (number, wire).
    pub fn new(rank: NodeId, incoming: &[(u32, Channel)], outgoing: &[(u32, Channel)], shared: &Shared) -> Self {
        let regions = shared.regions;
        let own = |&tree: &u32| !shared.sizes.pulls || regions.regions[tree as usize].root == rank;
        let trees: Vec<u32> = (0..regions.regions.len() as u32).filter(own).collect();
        let mut place = vec![NONE; regions.regions.len()];
        (0..).zip(&trees).for_each(|(at, &tree)| place[tree as usize] = at);
        let longest = trees.iter().map(|&tree| regions.regions[tree as usize].lines).max().unwrap_or(0).into();
        let port = |&(link, wire): &(u32, Channel)| Port {
            wire: Wire::new(link, wire, shared.sizes.buffer_flits),
            ready: Default::default(),
            read_until: 0,
        };
        Self {
            rank,
            incoming: incoming.iter().map(|&(link, wire)| Incoming { link, wire }).collect(),
            ports: outgoing.iter().map(port).collect(),
            waves: Waves { trees, place, longest, ..Waves::default() },
            started: false,
            sums: HashMap::new(),
            known: vec![0; shared.lines.div_ceil(64) as usize],
            missing: shared.lines,
            number: 0,
        }
    }

    /// Works through the cycles from `from` on and before `horizon`; says in which there may be something to do next.
    pub fn advance(&mut self, from: u64, horizon: u64, shared: &mut Shared) -> u64 {
        if !self.started {
            self.start(from, shared);
        }
        let mut next = NEVER;
        for number in 0..self.incoming.len() {
            let Incoming { link, wire } = self.incoming[number];
            while shared.wires.flits[link as usize].due() < horizon {
                let (at, parcel) = shared.wires.flits[link as usize].take_whole();
                let tail = at + (u64::from(parcel.flits - 1) * wire.flit).div_ceil(CYCLE);
                shared.wires.give_back_whole(link, tail + wire.credit_delay, parcel.response.into(), parcel.flits);
                self.take(parcel, tail + 1, shared);
            }
            next = next.min(shared.wires.flits[link as usize].due());
        }
        for port in &mut self.ports {
            port.wire.refresh(shared.wires);
            next = next.min(port.run(from, horizon, shared));
        }
        next
    }

    fn start(&mut self, now: u64, shared: &mut Shared) {
        self.started = true;
        if shared.sizes.barrier && !self.waves.trees.is_empty() {
            self.pull(self.waves.trees[0], FLAG, now, shared);
        } else {
            self.start_waves(now, shared);
        }
    }

    fn start_waves(&mut self, now: u64, shared: &mut Shared) {
        let of_wave = shared.sizes.wave_lines;
        let all = self.waves.longest * self.waves.trees.len() as u64;
        let mut at = now;
        while self.waves.outstanding < shared.sizes.waves && self.waves.next * of_wave < all {
            let first = self.waves.next * of_wave;
            let mut lines = 0;
            for index in first..all.min(first + of_wave) {
                let trees = self.waves.trees.len() as u64;
                let (tree, line) = (self.waves.trees[(index % trees) as usize], (index / trees) as u32);
                if line < shared.regions.regions[tree as usize].lines {
                    lines += 1;
                    at += 1;
                    if shared.sizes.pulls {
                        self.pull(tree, line, at, shared)
                    } else {
                        self.push(tree, line, at, shared)
                    }
                }
            }
            self.waves.next += 1;
            self.waves.open.push_back(lines);
            self.waves.outstanding += u32::from(lines > 0);
        }
    }

    /// A result that this rank waited for is in memory.
    fn credit(&mut self, tree: u32, line: u32, now: u64, shared: &mut Shared) {
        let index = u64::from(line) * self.waves.trees.len() as u64 + u64::from(self.waves.place[tree as usize]);
        let wave = index / shared.sizes.wave_lines - self.waves.first;
        self.waves.open[wave as usize] -= 1;
        if self.waves.open[wave as usize] == 0 {
            self.waves.outstanding -= 1;
        }
        while self.waves.open.front() == Some(&0) {
            self.waves.open.pop_front();
            self.waves.first += 1;
        }
        self.start_waves(now, shared);
    }

    fn push(&mut self, tree: u32, line: u32, now: u64, shared: &mut Shared) {
        let edge = shared.regions.edge_of(tree, self.rank, Direction::Up);
        let ready = now + shared.memory(self.rank, (tree, line));
        let operand = shared.operand(self.rank, (tree, line));
        self.send(over(Op::Operand, edge, (tree, line), operand, shared), ready, shared);
    }

    fn pull(&mut self, tree: u32, line: u32, now: u64, shared: &mut Shared) {
        let top = shared.regions.targets(tree, NONE);
        for edge in top.first..top.first + top.count {
            self.send(over(Op::Pull, edge, (tree, line), Operand::default(), shared), now, shared);
        }
        self.sums.insert((tree, line), shared.operand(self.rank, (tree, line)));
    }

    /// A packet waits for its port from cycle `at` on.
    fn send(&mut self, parcel: Parcel, at: u64, shared: &mut Shared) {
        // What a switch turns into a result is a request: results drain, whatever waits for them.
        let response = !matches!(parcel.op, Op::Operand | Op::Pull | Op::Whole);
        let bare = matches!(parcel.op, Op::Pull | Op::Ack) || parcel.line == FLAG;
        let flits = if bare { shared.sizes.header_flits } else { shared.sizes.packet_flits };
        shared.seen.sent(flits);
        let port = &mut self.ports[shared.regions.ways.row(parcel.way as usize)[0] as usize];
        let mut at = at;
        if parcel.op == Op::Operand && shared.sizes.in_order {
            port.read_until = at.max(port.read_until);
            at = port.read_until;
        }
        self.number += 1;
        let parcel = Parcel { response, flits, born: at, ..parcel };
        port.ready[usize::from(response)].push(Ready { at, number: self.number, parcel });
    }

    /// A packet has arrived.
    fn take(&mut self, parcel: Parcel, now: u64, shared: &mut Shared) {
        let Parcel { edge, tree, line, operand, .. } = parcel;
        let key = (tree, line);
        shared.seen.arrived(&parcel, now);
        match parcel.op {
            Op::Result => {
                let ack = over(Op::Ack, edge, key, Operand::default(), shared);
                self.send(Parcel { way: shared.regions.edge(edge).back, ..ack }, now, shared);
                self.know(key, operand, now, shared);
            }
            Op::Pull => {
                let edge = shared.regions.edge_of(tree, self.rank, Direction::Up);
                let ready = now + shared.memory(self.rank, key);
                let operand = shared.operand(self.rank, key);
                self.send(over(Op::Answer, edge, key, operand, shared), ready, shared);
            }
            Op::Answer => {
                if let Some(sum) = self.gather(key, operand, shared) {
                    self.answered(key, sum, now, shared);
                }
            }
            Op::Partial => {
                if let Some(sum) = self.gather(key, operand, shared) {
                    let way = shared.regions.home_way(tree, self.rank, Direction::Up);
                    let ready = now + shared.memory(self.rank, key);
                    self.send(Parcel { op: Op::Whole, hop: 1, edge: NONE, way, operand: sum, ..parcel }, ready, shared);
                }
            }
            Op::Ack => {}
            Op::Operand | Op::Whole => unreachable!("they end at switches"),
        }
    }

    /// Adds to the partial sum of a line; returns it when it is whole.
    fn gather(&mut self, key: Key, operand: Operand, shared: &Shared) -> Option<Operand> {
        let sum = self.sums.entry(key).or_default();
        sum.add(operand);
        if sum.count < shared.regions.ranks { None } else { self.sums.remove(&key) }
    }

    /// Pull: all answers are here.
    fn answered(&mut self, key: Key, sum: Operand, now: u64, shared: &mut Shared) {
        if key.1 == FLAG {
            self.start_waves(now, shared);
            return;
        }
        let top = shared.regions.targets(key.0, NONE);
        for edge in top.first..top.first + top.count {
            self.send(over(Op::Result, edge, key, sum, shared), now, shared);
        }
        self.know(key, sum, now, shared);
    }

    /// A result, or with multicast partial sums a part of it, is in memory.
    fn know(&mut self, key: Key, operand: Operand, now: u64, shared: &mut Shared) {
        let (tree, line) = key;
        let whole =
            if operand.count == shared.regions.ranks { Some(operand) } else { self.gather(key, operand, shared) };
        let Some(sum) = whole else { return };
        let number = shared.first_line[tree as usize] + u64::from(line);
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        shared.seen.check(
            self.rank,
            key,
            sum == Operand { real: sum.real, ..shared.total(key) },
            self.known[word] & bit == 0,
        );
        self.known[word] |= bit;
        self.missing -= 1;
        shared.seen.end = shared.seen.end.max(now);
        if self.waves.place[tree as usize] != NONE {
            self.credit(tree, line, now, shared);
        }
    }

    /// Time in which each wire was taken, in parts of a cycle.
    pub fn busy(&self) -> impl Iterator<Item = u64> {
        self.ports.iter().map(|port| port.wire.busy)
    }

    /// What it waits for: the first open wave, and how many of its results are missing.
    pub fn waits(&self) -> Option<(u64, u32)> {
        self.waves.open.front().map(|&missing| (self.waves.first, missing))
    }
}

/// A packet that goes over an edge of its tree.
fn over(op: Op, edge: u32, (tree, line): Key, operand: Operand, shared: &Shared) -> Parcel {
    let way = shared.regions.edge(edge).way;
    Parcel { op, response: false, hop: 1, flits: 0, way, edge, tree, line, operand, born: 0 }
}

impl Port {
    /// Sends what it can from cycle `from` on and before `horizon`; says when it may send more.
    fn run(&mut self, from: u64, horizon: u64, shared: &mut Shared) -> u64 {
        let mut now = from;
        loop {
            let first = self.ready.each_ref().map(|queue| queue.peek().map(|ready| ready.at));
            let Some(earliest) = first.into_iter().flatten().min() else { return NEVER };
            now = self.wire.free_from(now.max(earliest));
            if now >= horizon {
                return now;
            }
            self.wire.take_credits(now, shared.wires);
            let flits = self.ready.each_ref().map(|queue| {
                let ready = queue.peek().filter(|ready| ready.at <= now);
                ready.map(|ready| ready.parcel.flits)
            });
            match self.wire.choose(now, flits) {
                Ok(class) => {
                    let ready = self.ready[class].pop().expect("it was chosen");
                    self.wire.send(now, ready.parcel, shared.wires);
                }
                Err(_) => {
                    let later = first.into_iter().flatten().filter(|&at| at > now).min().unwrap_or(NEVER);
                    now = later.min(self.wire.due);
                    if now >= horizon {
                        return now;
                    }
                }
            }
        }
    }
}
