//! What is under way between nodes: flits one way, credits the other. Flits that follow each other cycle by cycle are
//! kept as one run, so that an undisturbed packet is one record.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::workload::MessageId;
use crate::error::{Error, Result};
use crate::ids::{LinkId, NodeId, ids};
use crate::misfit;

ids! {
    /// A wire between two nodes: a link, which has the same number, or an interface's way into its router.
    WireId;
}

impl From<LinkId> for WireId {
    fn from(link: LinkId) -> Self {
        Self(link.0)
    }
}

/// How many cycles of a node's work pass between two questions whether to go on.
const CYCLES_BETWEEN_QUESTIONS: u64 = 1 << 19;
/// After so many cycles time can no longer be counted in parts of a cycle.
const MOST_CYCLES: u64 = 1 << 43;
/// Later than any cycle. It stands for the time of what is not known to happen, so that the earliest of several times
/// is just their minimum.
pub const NEVER: u64 = u64::MAX;

/// The head of a packet, as the next router sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Message that it belongs to.
    pub message: MessageId,
    /// Its route.
    pub route: u32,
    /// Its flits.
    pub flits: u32,
    /// Links of the route that it will have used on arrival.
    pub hop: u32,
    /// Whether it is the message's first.
    pub first: bool,
}

/// Flits of one virtual channel, one a cycle from `at` on.
#[derive(Debug, Clone, Copy)]
pub struct Run<P> {
    /// When the first arrives.
    pub at: u64,
    /// How many.
    pub count: u32,
    /// Their virtual channel.
    pub channel: u8,
    /// The packet whose first flit opens the run.
    pub head: Option<P>,
}

/// Flits on their way to a node's input.
#[derive(Debug)]
pub struct Flits<P> {
    runs: VecDeque<Run<P>>,
}

impl<P: Copy> Flits<P> {
    /// Adds `count` flits that arrive from cycle `at` on, later than all before them.
    fn push(&mut self, at: u64, channel: u8, head: Option<P>, count: u32) {
        if let Some(last) = self.runs.back_mut()
            && head.is_none()
            && last.channel == channel
            && last.at + u64::from(last.count) == at
        {
            last.count += count;
        } else {
            self.runs.push_back(Run { at, count, channel, head });
        }
    }

    /// Says when the next flit arrives.
    pub fn due(&self) -> u64 {
        self.runs.front().map_or(NEVER, |run| run.at)
    }

    /// Returns the run that arrives next.
    pub fn first(&self) -> Option<&Run<P>> {
        self.runs.front()
    }

    /// Lists the packets whose heads arrive before `horizon`.
    pub fn heads(&self, horizon: u64) -> impl Iterator<Item = &P> {
        self.runs.iter().take_while(move |run| run.at < horizon).filter_map(|run| run.head.as_ref())
    }

    /// Takes a packet that travels whole; returns when its head arrives, and the packet.
    pub fn take_whole(&mut self) -> (u64, P) {
        let run = self.runs.pop_front().expect("a packet is due");
        (run.at, run.head.expect("it travels whole"))
    }

    /// Takes the next `count` flits, which must be of one run; returns their channel, and the packet if its head is
    /// among them.
    pub fn take(&mut self, count: u32) -> (u8, Option<P>) {
        let run = self.runs.front_mut().expect("flits are due");
        let flits = (run.channel, run.head.take());
        run.at += u64::from(count);
        run.count -= count;
        if run.count == 0 {
            self.runs.pop_front();
        }
        flits
    }
}

/// Credits of one virtual channel, one a cycle from `at` on.
#[derive(Debug, Clone, Copy)]
struct CreditRun {
    at: u64,
    count: u32,
    channel: u8,
}

/// Credits on their way back to a node's output.
#[derive(Debug, Default)]
pub struct Credits {
    runs: VecDeque<CreditRun>,
}

impl Credits {
    /// Adds `count` credits that arrive from cycle `at` on.
    fn push(&mut self, at: u64, channel: u8, count: u32) {
        if let Some(last) = self.runs.back_mut()
            && last.channel == channel
            && last.at + u64::from(last.count) == at
        {
            last.count += count;
        } else {
            self.runs.push_back(CreditRun { at, count, channel });
        }
    }

    /// Says when the next credit arrives.
    pub fn due(&self) -> u64 {
        self.runs.front().map_or(NEVER, |run| run.at)
    }

    /// Takes the credits of a packet; returns their channel, and how many they are.
    pub fn take_whole(&mut self) -> (u8, u32) {
        let CreditRun { count, channel, .. } = self.runs.pop_front().expect("a credit is due");
        (channel, count)
    }

    /// Takes the credits of the next run that arrive up to cycle `now`; returns their channel, and how many they are.
    pub fn take(&mut self, now: u64) -> (u8, u32) {
        let run = self.runs.front_mut().expect("a credit is due");
        let taken = run.count.min((now - run.at + 1).min(u64::from(u32::MAX)) as u32);
        let credits = (run.channel, taken);
        run.at += u64::from(taken);
        run.count -= taken;
        if run.count == 0 {
            self.runs.pop_front();
        }
        credits
    }
}

/// An acknowledgement on its way back to where a wire starts.
#[derive(Debug, Clone, Copy)]
pub struct Ack {
    pub at: u64,
    /// The number of the first packet that has not arrived.
    pub next: u16,
}

/// The nodes at which a wire starts and ends.
#[derive(Debug, Clone, Copy)]
struct Ends {
    source: NodeId,
    target: NodeId,
}

/// Everything under way, and which node has something to do when.
#[derive(Debug)]
pub struct Wires<P = Head> {
    /// The flits on each wire.
    pub flits: Vec<Flits<P>>,
    /// The credits on each wire.
    pub credits: Vec<Credits>,
    /// The acknowledgements on each wire; only where packets may be corrupt.
    pub acks: Vec<VecDeque<Ack>>,
    /// The ends of each wire.
    ends: Vec<Ends>,
    /// The first cycle in which each node has something to do; 0 while it is at work.
    next: Vec<u64>,
    calendar: BinaryHeap<Reverse<(u64, NodeId)>>,
}

impl<P: Copy> Wires<P> {
    /// Makes wires for `nodes` nodes, between which there are none yet.
    pub fn new(nodes: usize) -> Self {
        let (flits, credits, acks, ends, calendar) = Default::default();
        Self { flits, credits, acks, ends, next: vec![NEVER; nodes], calendar }
    }

    /// Adds a wire between two nodes; returns its number.
    pub fn add(&mut self, source: NodeId, target: NodeId) -> WireId {
        self.flits.push(Flits { runs: VecDeque::new() });
        self.credits.push(Credits::default());
        self.acks.push(VecDeque::new());
        self.ends.push(Ends { source, target });
        WireId::new(self.ends.len() - 1)
    }

    /// Sends `count` flits, which arrive from cycle `at` on; the first may be a packet's head.
    pub fn send(&mut self, wire: WireId, at: u64, channel: u8, head: Option<P>, count: u32) {
        self.flits[wire].push(at, channel, head, count);
        self.wake(self.ends[wire].target, at);
    }

    /// Gives back `count` credits, one a cycle from cycle `at` on.
    pub fn give_back(&mut self, wire: WireId, at: u64, channel: u8, count: u32) {
        self.credits[wire].push(at, channel, count);
        self.wake(self.ends[wire].source, at);
    }

    /// Gives back the credits of a whole packet at once.
    pub fn give_back_whole(&mut self, wire: WireId, at: u64, channel: u8, count: u32) {
        self.credits[wire].runs.push_back(CreditRun { at, count, channel });
        self.wake(self.ends[wire].source, at);
    }

    /// Acknowledges, at cycle `at`, all packets before number `next`.
    pub fn acknowledge(&mut self, wire: WireId, at: u64, next: u16) {
        self.acks[wire].push_back(Ack { at, next });
        self.wake(self.ends[wire].source, at);
    }

    /// Records that `node` has something to do at cycle `at`.
    pub fn wake(&mut self, node: NodeId, at: u64) {
        let next = &mut self.next[node];
        if at < *next {
            *next = at;
            self.calendar.push(Reverse((at, node)));
        }
    }

    /// Says in which cycle any node has something to do first.
    pub fn next(&mut self) -> u64 {
        while let Some(&Reverse((at, node))) = self.calendar.peek() {
            if self.next[node] == at {
                return at;
            }
            self.calendar.pop();
        }
        NEVER
    }

    /// Takes a node that has something to do before `horizon`, and says when. The node is at work until it rests.
    pub fn take(&mut self, horizon: u64) -> Option<(NodeId, u64)> {
        let at = self.next();
        if at >= horizon {
            return None;
        }
        let Reverse((_, node)) = self.calendar.pop().expect("there is a next");
        self.next[node] = 0;
        Some((node, at))
    }

    /// Ends the work of a node, which has nothing to do before cycle `until`.
    pub fn rest(&mut self, node: NodeId, until: u64) {
        self.next[node] = NEVER;
        if until < NEVER {
            self.wake(node, until);
        }
    }
}

/// Nodes between which packets `P` are under way.
pub trait Nodes<P> {
    /// Returns what is under way.
    fn wires(&mut self) -> &mut Wires<P>;
    /// Lets a node work from cycle `from` on and before `horizon`; says in which there may be something to do next.
    fn advance(&mut self, node: NodeId, from: u64, horizon: u64) -> u64;
}

/// Lets nodes take turns until none has anything to do. What leaves a node reaches no other within `lookahead` cycles,
/// so each may run that far ahead (Chandy and Misra's conservative simulation, 1979).
///
/// # Errors
/// If `go_on`, which is asked now and then with the cycle, says no, or there are more cycles than can be counted.
pub fn take_turns<P: Copy>(
    nodes: &mut impl Nodes<P>,
    lookahead: u64,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<()> {
    take_turns_until(NEVER, nodes, lookahead, go_on)
}

/// Lets nodes take turns until none has anything to do before cycle `until`; see [`take_turns`].
///
/// # Errors
/// As for [`take_turns`].
pub fn take_turns_until<P: Copy>(
    until: u64,
    nodes: &mut impl Nodes<P>,
    lookahead: u64,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<()> {
    let (between, mut turns) = ((CYCLES_BETWEEN_QUESTIONS / lookahead).max(1), 0);
    loop {
        let first = nodes.wires().next();
        if first >= until {
            return Ok(());
        }
        if first > MOST_CYCLES {
            misfit!("{first} cycles are more than can be counted exactly; lower clock or the size");
        }
        let horizon = (first + lookahead).min(until);
        while let Some((node, at)) = nodes.wires().take(horizon) {
            let next = nodes.advance(node, at, horizon);
            nodes.wires().rest(node, next);
            turns += 1;
            if turns % between == 0 && !go_on(at) {
                return Err(Error::interrupted(format!("interrupted at cycle {at}")));
            }
        }
    }
}
