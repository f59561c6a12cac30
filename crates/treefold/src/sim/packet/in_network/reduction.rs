//! In-network plans at an accelerator: the generator of requests, memory, and the answers that come in (in-network
//! paper, section IV-F and its Fig. 6).
//!
//! The wave controller (`waves`) says which lines it may ask for. Reads take a fixed time and a random one. Home
//! accelerators add up partial sums in memory.

use std::collections::{HashMap, VecDeque};

use super::super::machine::OutputId;
use super::super::options::{Credit, EvictionPolicy, Initiation};
use super::lines::home_of;
use super::operand::Operand;
use super::packet::{Address, EdgeId, Line, Op, Packet, Subject};
use super::port::Ports;
use super::regions::Method;
use super::waves::Waves;
use super::{Setup, Shared, mixed};
use crate::plan::Direction;
use crate::topology::NodeId;

/// The bits from which random numbers for picking requests are made; the bits of every line's address are less.
const PICKS: u64 = (u32::MAX as u64) << 32;

/// A rank's part of an in-network plan.
#[derive(Debug)]
pub struct Reduction {
    rank: NodeId,
    waves: Waves,
    barrier: Barrier,
    /// Allowed lines of which the next request is picked.
    candidates: VecDeque<Candidate>,
    /// Lines of the order that became candidates.
    taken: u64,
    issued: u32,
    /// The engine issues a request a cycle.
    free_at: u64,
    /// The port that has no room for the next request.
    blocked: Option<OutputId>,
    /// Partial sums and answers.
    sums: HashMap<Address, Sum>,
    /// Acknowledgements that came, where a multicast has several.
    acks: HashMap<Address, u32>,
    /// Lines whose result is here.
    known: Vec<u64>,
    missing: u64,
}

/// The sum of the operands of a line that are here or on their way from the memory of this accelerator.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    operand: Operand,
    /// When those from its own memory are here.
    loaded: u64,
}

/// A line that may be asked for.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    /// Its place in the rank's order.
    place: u64,
    /// When its wave began.
    begun: u64,
}

/// The barrier at which a rank waits until all others are known to be ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Barrier {
    /// The others have not been asked.
    Ahead,
    /// The others have been asked, and have not all answered.
    Waits,
    /// All others are ready, or the rank need not wait for them.
    Passed,
}

impl Reduction {
    /// Makes a rank that has asked for nothing, and knows nothing but its own lines.
    pub fn new(rank: NodeId, setup: &Setup) -> Self {
        let all = setup.lines.count();
        let trees = 0..setup.regions.regions.len() as u32;
        let missing =
            trees.filter(|&tree| setup.regions.serves(tree, rank)).map(|tree| setup.lines.of_tree(tree)).sum();
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
            missing,
        };
        reduction.start(0, setup);
        reduction
    }

    /// Gives the waves all their credits at cycle `now`.
    fn start(&mut self, now: u64, setup: &Setup) {
        self.waves.start(now, setup);
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
                self.pull(Address::flag(order[0].tree), now, ports, shared);
            }
            return;
        }
        self.waves.begin(self.rank, order, shared);
        self.free_at = self.free_at.max(now);
        self.blocked = None;
        loop {
            while self.candidates.len() < shared.setup.parameters.fabric.reorder as usize
                && self.taken < self.waves.allowed
            {
                let begun = self.waves.begin_of(self.taken);
                self.candidates.push_back(Candidate { place: self.taken, begun });
                self.taken += 1;
            }
            let Some(pick) = self.pick(shared.setup) else { return };
            let Candidate { place, begun } = self.candidates[pick];
            let address = order[place as usize];
            self.blocked = self.port_of(address, shared.setup).filter(|&port| !ports.has_room(port, shared.setup));
            if self.blocked.is_some() {
                return;
            }
            self.candidates.swap_remove_front(pick);
            self.issued += 1;
            self.free_at = self.free_at.max(begun) + 1;
            self.request(address, self.free_at, ports, shared);
        }
    }

    /// Says whether a request may be issued now that could not before ports sent.
    pub fn goes_on(&self, ports: &Ports, setup: &Setup) -> bool {
        self.blocked.is_some_and(|port| ports.has_room(port, setup))
    }

    /// Picks the next candidate.
    fn pick(&self, setup: &Setup) -> Option<usize> {
        let random = || mixed(setup.parameters.fabric.seed, self.rank.0, PICKS | u64::from(self.issued)) as usize;
        match self.candidates.len() {
            0 => None,
            1 => Some(0),
            many => Some(random() % many),
        }
    }

    /// Returns the port of a line's request; a push that ends here needs none.
    fn port_of(&self, address: Address, setup: &Setup) -> Option<OutputId> {
        let edge = match setup.regions.method(address.tree) {
            Method::Push if setup.regions.ends_at(address.tree, self.rank) => return None,
            Method::Push => setup.regions.edge_up(address.tree, self.rank),
            Method::Pull | Method::Write => setup.regions.top(address.tree).first(),
        };
        Some(setup.routes.first(setup.regions.edge(edge).route).output)
    }

    /// Sends the request for a line, as its tree is used.
    fn request(&mut self, address: Address, now: u64, ports: &mut Ports, shared: &mut Shared) {
        let own = shared.setup.parameters.reducer.operand(self.rank, address);
        match shared.setup.regions.method(address.tree) {
            // It is in the memory to which the others' operands are added.
            Method::Push if shared.setup.regions.ends_at(address.tree, self.rank) => {
                if let Some(sum) = self.gather(address, own, shared) {
                    self.reduced(address, sum.operand, now, ports, shared);
                }
            }
            Method::Push => {
                let edge = shared.setup.regions.edge_up(address.tree, self.rank);
                self.send_read(over(Op::Operand, edge, address, own, shared), now, ports, shared);
            }
            Method::Pull => self.pull(address, now, ports, shared),
            Method::Write => {
                let ready = self.load(address, now, shared);
                self.multicast(address, own, ready, ports, shared);
            }
        }
    }

    /// Loads a line from the memory of this accelerator; returns when it is here. A load of a region's address is never
    /// a multicast: the accelerator that issues it serves it, and nothing crosses the network (in-network paper,
    /// section IV-A).
    fn load(&self, address: Address, now: u64, shared: &mut Shared) -> u64 {
        shared.stats.fabric.reads += shared.setup.payload(shared.setup.flits(address));
        now + shared.memory(self.rank, Subject::Line(address))
    }

    /// Sends a packet whose payload must be read first.
    fn send_read(&mut self, packet: Packet, now: u64, ports: &mut Ports, shared: &mut Shared) {
        let ready = self.load(packet.address(), now, shared);
        let in_order = packet.op == Op::Operand && shared.setup.parameters.fabric.initiation == Initiation::Dma;
        ports.send(packet, ready, in_order, shared);
    }

    /// Asks all others for their operands of a line.
    fn pull(&mut self, address: Address, now: u64, ports: &mut Ports, shared: &mut Shared) {
        for edge in shared.setup.regions.top(address.tree).numbers() {
            ports.send(over(Op::Pull, edge, address, Operand::default(), shared), now, false, shared);
        }
        let loaded = self.load(address, now, shared);
        let operand = shared.setup.parameters.reducer.operand(self.rank, address);
        self.sums.insert(address, Sum { operand, loaded });
    }

    /// Sends the result to all others.
    fn multicast(&mut self, address: Address, sum: Operand, now: u64, ports: &mut Ports, shared: &mut Shared) {
        for edge in shared.setup.regions.top(address.tree).numbers() {
            ports.send(over(Op::Result, edge, address, sum, shared), now, false, shared);
        }
    }

    /// Takes in a packet that has arrived.
    pub fn take(&mut self, packet: Packet, now: u64, ports: &mut Ports, shared: &mut Shared) {
        let (address, value) = (packet.address(), packet.operand);
        match packet.op {
            Op::Result => {
                ports.acknowledge(packet, shared.setup.regions.edge(packet.came_over()).back, now, shared);
                self.result(address, value, now, shared);
            }
            Op::Pull => {
                let edge = shared.setup.regions.edge_up(address.tree, self.rank);
                let own = shared.setup.parameters.reducer.operand(self.rank, address);
                let answer = over(Op::Answer, edge, address, own, shared);
                self.send_read(answer, now, ports, shared);
            }
            Op::Answer => {
                if let Some(sum) = self.gather(address, value, shared) {
                    self.answered(address, sum.operand, now.max(sum.loaded), ports, shared);
                }
            }
            Op::Partial => {
                shared.stats.fabric.writes += shared.setup.payload(packet.flits);
                if let Some(sum) = self.gather(address, value, shared) {
                    let route = Some(shared.setup.regions.home_route(address.tree, self.rank, Direction::Up));
                    let whole = Packet { op: Op::Whole, edge: None, route, operand: sum.operand, ..packet };
                    self.send_read(whole, now, ports, shared);
                }
            }
            Op::Operand => match self.gather(address, value, shared) {
                Some(sum) => self.reduced(address, sum.operand, now, ports, shared),
                None => shared.stats.fabric.writes += shared.setup.payload(packet.flits),
            },
            Op::Ack => self.acknowledged(address, now, shared),
            Op::Done => self.waves.credit(shared.setup.lines.place(self.rank, address), now, shared.setup),
            Op::Whole => unreachable!("it ends at a switch"),
            Op::Data | Op::Flag => unreachable!("software sends them"),
        }
    }

    /// Adds to the partial sum of a line; returns it when it is whole.
    fn gather(&mut self, address: Address, operand: Operand, shared: &Shared) -> Option<Sum> {
        let sum = self.sums.entry(address).or_default();
        sum.operand.add(operand, shared.setup.parameters.reducer.combine);
        if sum.operand.count < shared.setup.regions.ranks { None } else { self.sums.remove(&address) }
    }

    /// Push into this rank alone: tells those who contributed that the sum is here, so that they may send more.
    fn reduced(&mut self, address: Address, sum: Operand, now: u64, ports: &mut Ports, shared: &mut Shared) {
        self.know(address, sum, now, shared);
        self.waves.credit(shared.setup.lines.place(self.rank, address), now, shared.setup);
        for edge in shared.setup.regions.top(address.tree).numbers() {
            ports.send(over(Op::Done, edge, address, Operand::default(), shared), now, false, shared);
        }
    }

    /// Pull: goes on when all answers are here.
    fn answered(&mut self, address: Address, sum: Operand, now: u64, ports: &mut Ports, shared: &mut Shared) {
        if address.line == Line::Flag {
            self.barrier = Barrier::Passed;
            self.start(now, shared.setup);
            return;
        }
        let alone = shared.setup.regions.is_alone(address.tree);
        if !alone {
            self.multicast(address, sum, now, ports, shared);
        }
        self.know(address, sum, now, shared);
        if alone || shared.setup.parameters.fabric.credit == Credit::Result {
            self.waves.credit(shared.setup.lines.place(self.rank, address), now, shared.setup);
        }
    }

    /// Counts an acknowledgement of what this rank multicast; the last one may give back a wave's credit.
    fn acknowledged(&mut self, address: Address, now: u64, shared: &mut Shared) {
        let parameters = &shared.setup.parameters;
        let credits = match shared.setup.regions.method(address.tree) {
            Method::Push => false,
            Method::Pull => parameters.fabric.credit == Credit::Acknowledgement,
            Method::Write => true,
        };
        // A multicast over several links of its rank has an acknowledgement of each.
        let top = shared.setup.regions.top(address.tree).count;
        if credits && self.is_last(address, top) {
            self.waves.credit(shared.setup.lines.place(self.rank, address), now, shared.setup);
        }
    }

    /// Says whether an acknowledgement is the last of `of`.
    fn is_last(&mut self, address: Address, of: u32) -> bool {
        let count = self.acks.entry(address).or_default();
        *count += 1;
        *count == of && self.acks.remove(&address).is_some()
    }

    /// Writes a result, or a part of it, to memory.
    fn result(&mut self, address: Address, value: Operand, now: u64, shared: &mut Shared) {
        let is_whole = value.count == shared.setup.regions.expected(address.tree);
        let mut gather = || self.gather(address, value, shared).map(|sum| sum.operand);
        let whole = if is_whole { Some(value) } else { gather() };
        let Some(sum) = whole else {
            shared.stats.fabric.writes += shared.setup.payload(shared.setup.flits(address));
            return;
        };
        self.know(address, sum, now, shared);
        if shared.setup.regions.method(address.tree) == Method::Push {
            self.waves.credit(shared.setup.lines.place(self.rank, address), now, shared.setup);
        }
    }

    /// Records that the result of a line is known, and checks it.
    fn know(&mut self, address: Address, sum: Operand, now: u64, shared: &mut Shared) {
        let number = shared.setup.lines.number(address);
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if self.known[word] & bit != 0 {
            shared.stats.fault(|| format!("{address} came twice to rank {}", self.rank));
            return;
        }
        if !shared.setup.parameters.reducer.agrees(sum, shared.setup.lines.total(address)) {
            shared.stats.fault(|| format!("{address} is not at rank {} what the ranks contributed", self.rank));
        }
        self.known[word] |= bit;
        self.missing -= 1;
        shared.stats.fabric.writes += shared.setup.payload(shared.setup.flits(address));
        *shared.stats.fabric.digest.get_or_insert(0) ^= mixed(sum.element.into(), self.rank.0, address.bits());
        shared.stats.end = shared.stats.end.max(now);
    }

    /// Says what it still waits for, or has and should not.
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

/// Makes a packet that goes over an edge of its tree.
fn over(op: Op, edge: EdgeId, address: Address, operand: Operand, shared: &Shared) -> Packet {
    let without_payload = matches!(op, Op::Pull | Op::Done);
    let flits = if without_payload { shared.setup.parameters.header_flits } else { shared.setup.flits(address) };
    let route = shared.setup.regions.edge(edge).route;
    Packet { edge: Some(edge), operand, ..Packet::new(op, route, Subject::Line(address), flits) }
}

/// Sends a partial sum that leaves the table of a tree's root where it must go.
pub fn partial(packet: Packet, shared: &Shared) -> Packet {
    match shared.setup.parameters.fabric.eviction_policy {
        EvictionPolicy::Multicast => Packet { op: Op::Result, ..packet },
        EvictionPolicy::Home => {
            let home = home_of(packet.address(), shared.setup.regions.ranks);
            let route = shared.setup.regions.home_route(packet.address().tree, home, Direction::Down);
            Packet { op: Op::Partial, route: Some(route), ..packet }
        }
    }
}
