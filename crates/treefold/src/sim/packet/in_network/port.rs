//! Links out: the near end of any, with the credits of the input behind it; and an accelerator's, with what waits for
//! it.

use std::collections::BTreeMap;

use super::super::levels::Level;
use super::super::machine::{CYCLE, Occupancy, OutputId, Wire, whole_cycles};
use super::super::wires::{NEVER, WireId, Wires};
use super::operand::Operand;
use super::packet::{Op, Packet, RouteId};
use super::parameters::Parameters;
use super::retry::Retry;
use super::{Setup, Shared};

/// A link as the node at one end of it sees it.
#[derive(Debug, Clone, Copy)]
pub struct LinkEnd {
    /// The wire's number.
    pub id: WireId,
    pub wire: Wire,
}

/// The near end of a link.
#[derive(Debug)]
pub struct Sender {
    link: LinkEnd,
    /// Flits for which the input behind it has room, by virtual channel.
    credits: Vec<u32>,
    /// When the next credits come.
    pub due: u64,
    pub occupancy: Occupancy,
    turn: usize,
    /// The packets on it: one, or none; only if it is sampled, and nothing arrives corrupt.
    taken: Option<Box<Level>>,
    /// Sends again what arrives corrupt, if anything does.
    pub retry: Option<Box<Retry>>,
}

impl Sender {
    /// Makes a link on which nothing was sent.
    pub fn new(link: LinkEnd, parameters: &Parameters) -> Self {
        let credits = vec![parameters.buffer_flits; parameters.channels];
        let retry = Retry::new(link, parameters).map(Box::new);
        let taken = parameters.samples.then(Box::default);
        Self { link, credits, due: NEVER, occupancy: Occupancy::default(), turn: 0, taken, retry }
    }

    /// Looks up what was sent here since the node was last at work.
    #[inline]
    pub fn refresh(&mut self, wires: &Wires<Packet>) {
        self.due = wires.credits[self.link.id].due();
    }

    /// Takes in the credits that are back in cycle `now`.
    #[inline]
    pub fn take_credits(&mut self, now: u64, wires: &mut Wires<Packet>) {
        while self.due <= now {
            let credits = &mut wires.credits[self.link.id];
            let (channel, flits) = credits.take_whole();
            self.credits[usize::from(channel)] += flits;
            self.due = credits.due();
        }
    }

    /// Chooses the virtual channel that sends its first packet, whose flits `first` counts; if none can, says when to
    /// ask again, unless credits come.
    #[inline]
    pub fn choose(&self, now: u64, first: impl Fn(usize) -> Option<u32>) -> Result<usize, u64> {
        let channels = self.credits.len();
        let fits = |&channel: &usize| first(channel).is_some_and(|flits| flits <= self.credits[channel]);
        let turns = (self.turn..channels).chain(0..self.turn);
        match turns.into_iter().find(fits) {
            Some(_) if !self.occupancy.is_free(now) => Err(self.occupancy.free_from()),
            chosen => chosen.ok_or(NEVER),
        }
    }

    /// Returns the cycles that so many flits take.
    pub fn cycles(&self, flits: u32) -> u64 {
        whole_cycles(u64::from(flits) * self.link.wire.flit)
    }

    /// Sends a packet.
    #[inline]
    pub fn send(&mut self, now: u64, packet: Packet, wires: &mut Wires<Packet>) {
        let channel = usize::from(packet.channel);
        let parts = self.link.wire.overhead * CYCLE + u64::from(packet.flits) * self.link.wire.flit;
        self.occupancy.take(now, parts);
        self.turn = (channel + 1) % self.credits.len();
        self.credits[channel] -= packet.flits;
        match &mut self.retry {
            Some(retry) => retry.send(now, packet, wires),
            None => {
                if let Some(taken) = &mut self.taken {
                    taken.add_span(self.occupancy.last_taken(parts));
                }
                wires.send(self.link.id, now + self.link.wire.delay, packet.channel, Some(packet), packet.flits);
            }
        }
    }

    /// Sends again before `horizon` what arrived corrupt; says when there may be more.
    #[inline]
    pub fn retry(&mut self, horizon: u64, wires: &mut Wires<Packet>) -> u64 {
        self.retry.as_mut().map_or(NEVER, |retry| retry.advance(horizon, wires))
    }

    /// Returns the number of packets on the wire over time, if it is sampled.
    pub fn taken(&self) -> Option<&Level> {
        self.retry.as_ref().map_or(self.taken.as_deref(), |retry| retry.taken.as_deref())
    }

    /// Returns for how long the wire was taken, in parts of a cycle.
    pub fn busy(&self) -> u64 {
        self.retry.as_ref().map_or(self.occupancy.busy, |retry| retry.occupancy.busy)
    }
}

/// The links out of an accelerator.
#[derive(Debug)]
pub struct Ports {
    list: Vec<Port>,
    /// Packets that were sent so far.
    number: u64,
}

/// A packet's turn at its port: by readiness, then in the order in which packets were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    /// From which cycle on it can be sent.
    ready: u64,
    /// Its number among the packets of the accelerator.
    number: u64,
}

/// A link out, and what waits for it by virtual channel.
#[derive(Debug)]
struct Port {
    sender: Sender,
    waiting: Vec<BTreeMap<Turn, Packet>>,
    /// Requests among them.
    requests: usize,
    /// When the last request that was read in order is ready.
    read_until: u64,
}

impl Ports {
    /// Makes ports of these links, at which nothing waits.
    pub fn new(outgoing: &[LinkEnd], parameters: &Parameters) -> Self {
        let port = |&link: &LinkEnd| Port {
            sender: Sender::new(link, parameters),
            waiting: vec![BTreeMap::new(); parameters.channels],
            requests: 0,
            read_until: 0,
        };
        Self { list: outgoing.iter().map(port).collect(), number: 0 }
    }

    /// Says whether a port takes another request.
    pub fn has_room(&self, port: OutputId, setup: &Setup) -> bool {
        self.list[port].requests < setup.parameters.fabric.window as usize
    }

    /// Lets a packet wait for its port from cycle `at` on, or in order: then not before those that were sent before it.
    pub fn send(&mut self, packet: Packet, at: u64, in_order: bool, shared: &mut Shared) {
        shared.stats.packets += 1;
        shared.stats.flits += u64::from(packet.flits);
        let hop = shared.setup.routes.first(packet.route.expect("it leaves the rank"));
        let port = &mut self.list[hop.output];
        let mut at = at;
        if in_order {
            port.read_until = at.max(port.read_until);
            at = port.read_until;
        }
        self.number += 1;
        let packet = Packet { born: at, hop: 0, ..packet }.onto(hop);
        port.requests += usize::from(!packet.op.is_response());
        port.waiting[usize::from(packet.channel)].insert(Turn { ready: at, number: self.number }, packet);
    }

    /// Answers a write, over the route `back`.
    pub fn acknowledge(&mut self, packet: Packet, back: RouteId, now: u64, shared: &mut Shared) {
        let flits = shared.setup.parameters.header_flits;
        let ack = Packet { op: Op::Ack, route: Some(back), flits, operand: Operand::default(), ..packet };
        self.send(ack, now, false, shared);
    }

    /// Sends what it can from cycle `from` on and before `horizon`; says when it may send more.
    pub fn run(&mut self, from: u64, horizon: u64, shared: &mut Shared) -> u64 {
        let mut next = NEVER;
        for port in &mut self.list {
            port.sender.refresh(shared.wires);
            next = next.min(port.run(from, horizon, shared.wires));
            next = next.min(port.sender.retry(horizon, shared.wires));
        }
        next
    }

    /// Lists the near ends of the links.
    pub fn senders(&self) -> impl Iterator<Item = &Sender> {
        self.list.iter().map(|port| &port.sender)
    }
}

impl Port {
    /// Sends what it can from cycle `from` on and before `horizon`; says when it may send more.
    fn run(&mut self, from: u64, horizon: u64, wires: &mut Wires<Packet>) -> u64 {
        let mut now = from;
        loop {
            let first = || self.waiting.iter().filter_map(|queue| queue.first_key_value().map(|(turn, _)| turn.ready));
            let Some(earliest) = first().min() else { return NEVER };
            now = self.sender.occupancy.free_from().max(now).max(earliest);
            if now >= horizon {
                return now;
            }
            self.sender.take_credits(now, wires);
            let flits = |channel: usize| {
                let first = self.waiting[channel].first_key_value().filter(|(turn, _)| turn.ready <= now);
                first.map(|(_, packet)| packet.flits)
            };
            match self.sender.choose(now, flits) {
                Ok(channel) => {
                    let (_, packet) = self.waiting[channel].pop_first().expect("it was chosen");
                    self.requests -= usize::from(!packet.op.is_response());
                    self.sender.send(now, packet, wires);
                }
                Err(_) => {
                    let later = first().filter(|&at| at > now).min().unwrap_or(NEVER);
                    now = later.min(self.sender.due);
                    if now >= horizon {
                        return now;
                    }
                }
            }
        }
    }
}
