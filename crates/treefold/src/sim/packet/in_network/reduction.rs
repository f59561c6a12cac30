//! In-network plans at an accelerator: a request generator held back by a wave controller, memory, and what answers
//! come in (in-network paper, section IV-F and its Fig. 6).
//!
//! A wave is a number of consecutive lines; so many may be outstanding. A wave's credit comes back when all its results
//! are in memory. Reads take a fixed time and a random one. Home accelerators add up partial sums in memory.

use std::collections::{HashMap, VecDeque};

use super::super::options::{Credit, EvictionPolicy, Initiation};
use super::lines::home_of;
use super::packet::{FLAG, Key, NONE, Op, Operand, Packet};
use super::port::Ports;
use super::regions::Method;
use super::{Setup, Shared, mixed, operand};
use crate::plan::Direction;
use crate::topology::NodeId;

/// Which lines a rank may ask for: the wave controller.
#[derive(Debug, Default)]
struct Waves {
    /// The first wave that is open.
    first: u64,
    /// Lines that open waves still wait for.
    open: VecDeque<u32>,
    /// When the credits came back that no wave has.
    credits: VecDeque<u64>,
    /// Lines, in order, of all waves so far; and where each of the last ones ends, and when it began.
    allowed: u64,
    begun: VecDeque<(u64, u64)>,
}

impl Waves {
    /// Begins waves of `all` lines as long as there are credits.
    fn begin(&mut self, all: u64, setup: &Setup) {
        while self.allowed < all {
            let from = if setup.parameters.waves.is_none() { Some(0) } else { self.credits.pop_front() };
            let Some(from) = from else { return };
            let end = all.min(self.allowed + setup.parameters.wave_lines);
            self.open.push_back((end - self.allowed) as u32);
            self.begun.push_back((end, from));
            self.allowed = end;
        }
    }

    /// When the wave of line `taken` began; lines are asked for in order.
    fn begin_of(&mut self, taken: u64) -> u64 {
        while self.begun[0].0 <= taken {
            self.begun.pop_front();
        }
        self.begun[0].1
    }

    /// A line that a wave waited for is done.
    fn credit(&mut self, place: u64, now: u64, setup: &Setup) {
        let left = &mut self.open[(place / setup.parameters.wave_lines - self.first) as usize];
        *left -= 1;
        if *left == 0 {
            self.credits.push_back(now);
        }
        while self.open.front() == Some(&0) {
            self.open.pop_front();
            self.first += 1;
        }
    }
}

/// A rank's part.
#[derive(Debug)]
pub struct Reduction {
    rank: NodeId,
    waves: Waves,
    /// Of those who wait for others.
    barrier: Barrier,
    /// Allowed lines of which the next request is picked: place, when its wave began.
    candidates: VecDeque<(u64, u64)>,
    /// Lines of the order that became candidates.
    taken: u64,
    issued: u32,
    /// The engine issues a request a cycle.
    free_at: u64,
    /// The port that has no room for the next request.
    blocked: Option<u32>,
    /// Partial sums and answers.
    sums: HashMap<Key, Operand>,
    /// Acknowledgements that came, where a multicast has several.
    acks: HashMap<Key, u32>,
    /// Lines whose result is here.
    known: Vec<u64>,
    missing: u64,
}

/// Whether all others are known to be ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Barrier {
    /// To be asked.
    Ahead,
    /// Asked.
    Waits,
    /// Passed.
    Passed,
}

impl Reduction {
    /// Nothing asked for, nothing known but what is the rank's own.
    pub fn new(rank: NodeId, setup: &Setup) -> Self {
        let all = setup.lines.count();
        let own = |&&(tree, _): &&Key| setup.regions.method(tree) == Method::Write;
        let own = if all == 0 { 0 } else { setup.lines.order(rank).iter().filter(own).count() as u64 };
        let mut reduction = Self {
            rank,
            waves: Waves::default(),
            barrier: if setup.parameters.barrier { Barrier::Ahead } else { Barrier::Passed },
            candidates: VecDeque::new(),
            taken: 0,
            issued: 0,
            free_at: 0,
            blocked: None,
            sums: HashMap::new(),
            acks: HashMap::new(),
            known: vec![0; all.div_ceil(64) as usize],
            missing: all - own,
        };
        reduction.start(0, setup);
        reduction
    }

    /// All credits are there from cycle `now` on.
    fn start(&mut self, now: u64, setup: &Setup) {
        let waves = setup.parameters.waves.map_or(0, |waves| u64::from(waves).min(setup.lines.count()));
        self.waves.credits = (0..waves).map(|_| now).collect();
        self.free_at = now;
    }

    /// Asks for what waves and ports allow.
    pub fn issue(&mut self, now: u64, ports: &mut Ports, shared: &mut Shared) {
        if shared.setup.lines.count() == 0 {
            return;
        }
        let order = shared.setup.lines.order(self.rank);
        if self.barrier != Barrier::Passed {
            if self.barrier == Barrier::Ahead && !order.is_empty() {
                self.barrier = Barrier::Waits;
                self.pull((order[0].0, FLAG), now, ports, shared);
            }
            return;
        }
        self.waves.begin(order.len() as u64, shared.setup);
        self.free_at = self.free_at.max(now);
        self.blocked = None;
        loop {
            while self.candidates.len() < shared.setup.parameters.fabric.reorder as usize
                && self.taken < self.waves.allowed
            {
                self.candidates.push_back((self.taken, self.waves.begin_of(self.taken)));
                self.taken += 1;
            }
            let Some(pick) = self.pick(shared.setup) else { return };
            let (place, begun) = self.candidates[pick];
            let key = order[place as usize];
            let port = self.port_of(key, shared.setup);
            if !ports.has_room(port, shared.setup) {
                self.blocked = Some(port);
                return;
            }
            self.candidates.swap_remove_front(pick);
            self.issued += 1;
            self.free_at = self.free_at.max(begun) + 1;
            self.request(key, self.free_at, ports, shared);
        }
    }

    /// Whether a request may be issued now that could not before ports sent.
    pub fn goes_on(&self, ports: &Ports, setup: &Setup) -> bool {
        self.blocked.is_some_and(|port| ports.has_room(port, setup))
    }

    /// Which candidate is next.
    fn pick(&self, setup: &Setup) -> Option<usize> {
        let random = || mixed(setup.parameters.fabric.seed, self.rank.0, (NONE, self.issued)) as usize;
        match self.candidates.len() {
            0 => None,
            1 => Some(0),
            many => Some(random() % many),
        }
    }

    /// The port of a line's request.
    fn port_of(&self, key: Key, setup: &Setup) -> u32 {
        let edge = match setup.regions.method(key.0) {
            Method::Push => setup.regions.edge_of(key.0, self.rank, Direction::Up),
            Method::Pull | Method::Write => setup.regions.targets(key.0, NONE).first,
        };
        setup.routes.first(setup.regions.edge(edge).route).output
    }

    fn request(&mut self, key: Key, now: u64, ports: &mut Ports, shared: &mut Shared) {
        let own = operand(self.rank, key);
        match shared.setup.regions.method(key.0) {
            Method::Push => {
                let edge = shared.setup.regions.edge_of(key.0, self.rank, Direction::Up);
                self.send_read(over(Op::Operand, edge, key, own, shared), now, ports, shared);
            }
            Method::Pull => self.pull(key, now, ports, shared),
            Method::Write => {
                shared.stats.fabric.reads += shared.setup.payload(shared.setup.flits(key));
                let ready = now + shared.memory(self.rank, key);
                self.multicast(key, own, ready, ports, shared);
            }
        }
    }

    /// Sends what must be read first.
    fn send_read(&mut self, packet: Packet, now: u64, ports: &mut Ports, shared: &mut Shared) {
        shared.stats.fabric.reads += shared.setup.payload(packet.flits);
        let ready = now + shared.memory(self.rank, packet.key);
        let in_order = packet.op == Op::Operand && shared.setup.parameters.fabric.initiation == Initiation::Dma;
        ports.send(packet, ready, in_order, shared);
    }

    fn pull(&mut self, key: Key, now: u64, ports: &mut Ports, shared: &mut Shared) {
        for edge in shared.setup.regions.targets(key.0, NONE).numbers() {
            ports.send(over(Op::Pull, edge, key, Operand::default(), shared), now, false, shared);
        }
        shared.stats.fabric.reads += shared.setup.payload(shared.setup.flits(key));
        self.sums.insert(key, operand(self.rank, key));
    }

    /// The result goes to all others.
    fn multicast(&mut self, key: Key, sum: Operand, now: u64, ports: &mut Ports, shared: &mut Shared) {
        for edge in shared.setup.regions.targets(key.0, NONE).numbers() {
            ports.send(over(Op::Result, edge, key, sum, shared), now, false, shared);
        }
    }

    /// A packet has arrived.
    pub fn take(&mut self, packet: Packet, now: u64, ports: &mut Ports, shared: &mut Shared) {
        let Packet { edge, key, operand: value, .. } = packet;
        match packet.op {
            Op::Result => {
                ports.acknowledge(packet, shared.setup.regions.edge(edge).back, now, shared);
                self.result(key, value, now, shared);
            }
            Op::Pull => {
                let edge = shared.setup.regions.edge_of(key.0, self.rank, Direction::Up);
                self.send_read(over(Op::Answer, edge, key, operand(self.rank, key), shared), now, ports, shared);
            }
            Op::Answer => {
                if let Some(sum) = self.gather(key, value, shared) {
                    self.answered(key, sum, now, ports, shared);
                }
            }
            Op::Partial => {
                shared.stats.fabric.writes += shared.setup.payload(packet.flits);
                if let Some(sum) = self.gather(key, value, shared) {
                    let route = shared.setup.regions.home_route(key.0, self.rank, Direction::Up);
                    let whole = Packet { op: Op::Whole, edge: NONE, route, operand: sum, ..packet };
                    self.send_read(whole, now, ports, shared);
                }
            }
            Op::Ack => self.acknowledged(key, now, shared),
            Op::Operand | Op::Whole => unreachable!("they end at switches"),
            Op::Data | Op::Flag => unreachable!("software's"),
        }
    }

    /// Adds to the partial sum of a line; returns it when it is whole.
    fn gather(&mut self, key: Key, operand: Operand, shared: &Shared) -> Option<Operand> {
        let sum = self.sums.entry(key).or_default();
        sum.add(operand);
        if sum.count < shared.setup.regions.ranks { None } else { self.sums.remove(&key) }
    }

    /// Pull: all answers are here.
    fn answered(&mut self, key: Key, sum: Operand, now: u64, ports: &mut Ports, shared: &mut Shared) {
        if key.1 == FLAG {
            self.barrier = Barrier::Passed;
            self.start(now, shared.setup);
            return;
        }
        self.multicast(key, sum, now, ports, shared);
        self.know(key, sum, now, shared);
        if shared.setup.parameters.fabric.credit == Credit::Result {
            self.waves.credit(shared.setup.lines.place(self.rank, key), now, shared.setup);
        }
    }

    /// Everybody has what this rank multicast.
    fn acknowledged(&mut self, key: Key, now: u64, shared: &mut Shared) {
        let parameters = &shared.setup.parameters;
        let credits = match shared.setup.regions.method(key.0) {
            Method::Push => false,
            Method::Pull => parameters.fabric.credit == Credit::Acknowledgement,
            Method::Write => true,
        };
        // A multicast over several links of its rank has an acknowledgement of each.
        let top = shared.setup.regions.targets(key.0, NONE).count;
        if credits && self.is_last(key, top) {
            self.waves.credit(shared.setup.lines.place(self.rank, key), now, shared.setup);
        }
    }

    fn is_last(&mut self, key: Key, of: u32) -> bool {
        let stats = self.acks.entry(key).or_default();
        *stats += 1;
        *stats == of && self.acks.remove(&key).is_some()
    }

    /// A result, or a part of it, is in memory.
    fn result(&mut self, key: Key, value: Operand, now: u64, shared: &mut Shared) {
        let is_whole = value.count == shared.setup.regions.expected(key.0);
        let whole = if is_whole { Some(value) } else { self.gather(key, value, shared) };
        let Some(sum) = whole else {
            shared.stats.fabric.writes += shared.setup.payload(shared.setup.flits(key));
            return;
        };
        self.know(key, sum, now, shared);
        if shared.setup.regions.method(key.0) == Method::Push {
            self.waves.credit(shared.setup.lines.place(self.rank, key), now, shared.setup);
        }
    }

    fn know(&mut self, key: Key, sum: Operand, now: u64, shared: &mut Shared) {
        let number = shared.setup.lines.number(key);
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        let line = || format!("line {} of tree {}", key.1, key.0);
        if self.known[word] & bit != 0 {
            shared.stats.fault(|| format!("{} came twice to rank {}", line(), self.rank));
            return;
        }
        if !shared.setup.lines.is_right(key, sum, shared.setup.regions.expected(key.0)) {
            shared.stats.fault(|| format!("{} is not at rank {} what the ranks contributed", line(), self.rank));
        }
        self.known[word] |= bit;
        self.missing -= 1;
        shared.stats.fabric.writes += shared.setup.payload(shared.setup.flits(key));
        *shared.stats.fabric.digest.get_or_insert(0) ^= mixed(sum.real.to_bits().into(), self.rank.0, key);
        shared.stats.end = shared.stats.end.max(now);
    }

    /// What it still waits for, or has and should not.
    pub fn waits(&self, setup: &Setup) -> Option<String> {
        if self.missing == 0 {
            let left = self.sums.len() + self.acks.len() + self.candidates.len() + self.waves.open.len();
            return (left > 0).then(|| format!("has {left} sums, acknowledgements, requests and waves left"));
        }
        if self.barrier != Barrier::Passed {
            return Some("waits for others at the barrier".to_owned());
        }
        let wave =
            self.waves.open.front().map(|lines| format!("wave {} waits for {lines} results, ", self.waves.first));
        let all = setup.lines.count();
        Some(format!("{}{} of {all} lines are missing", wave.unwrap_or_default(), self.missing))
    }
}

/// A packet that goes over an edge of its tree.
fn over(op: Op, edge: u32, key: Key, operand: Operand, shared: &Shared) -> Packet {
    let flits = if op == Op::Pull { shared.setup.parameters.header_flits } else { shared.setup.flits(key) };
    Packet { operand, ..Packet::new(op, (edge, shared.setup.regions.edge(edge).route), key, flits) }
}

/// Where a partial sum goes that leaves the table of a tree's root.
pub fn partial(packet: Packet, shared: &Shared) -> Packet {
    match shared.setup.parameters.fabric.eviction_policy {
        EvictionPolicy::Multicast => Packet { op: Op::Result, ..packet },
        EvictionPolicy::Home => {
            let home = home_of(packet.key, shared.setup.regions.ranks);
            let route = shared.setup.regions.home_route(packet.key.0, home, Direction::Down);
            Packet { op: Op::Partial, route, ..packet }
        }
    }
}
