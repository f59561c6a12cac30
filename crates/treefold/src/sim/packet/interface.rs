//! A rank's network interface (MultiTree paper, section IV-A and Fig. 6): the schedule table in execution.
//!
//! A step is entered when the one before has been issued whole; in lockstep also only when all interfaces are idle and
//! the lockstep counter, which NOPs set, is down. Of a step, every message whose receipts are in and whose interface is
//! free is issued, several in a cycle if it must be; a stream is one step, in which an edge's chunk follows the one
//! before. An interface fetches a payload a cycle into its buffer, is free for the next message when the last one is
//! in, and sends a flit a cycle, in order. What is received whole is added up, one message after the other, or stands;
//! either clears what waits for it a cycle later.
//!
//! A rank of several jobs has a table of each. They share its interfaces and its adder, as the communicators of one
//! process do: an interface that is free serves the tables in turn, and steps in lockstep are entered in turn.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::machine::{InputId, InterfaceId, OutputId};
use super::router::{ANY_CHANNEL, Ended, Output, Router};
use super::shared::{Progress, Receipt, Shared};
use super::wires::{Head, NEVER};
use super::workload::{Message, MessageId, ProgramId, Workload};

/// Cycles from the issue of a message until its first flit leaves the interface.
const FETCH: u64 = 3;

/// An event that interfaces wait for by themselves; in one cycle they come in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A message is received.
    Received { tree: u32, message: MessageId },
    /// What waits for this message may go.
    Cleared { message: MessageId },
    /// This interface has fetched all of its messages.
    Free { interface: InterfaceId },
    /// The lockstep counter is down.
    Counter,
}

/// The place at which an interface feeds the network.
#[derive(Debug, Clone, Copy)]
pub struct Feed {
    /// The output of its node.
    pub output: OutputId,
    /// The router's input behind it, on chips with a router.
    pub input: Option<InputId>,
}

/// A message that an interface sends.
#[derive(Debug, Clone, Copy)]
struct Issued {
    message: MessageId,
    /// When its first flit may leave.
    ready: u64,
}

/// The time at which the last payload of a message can be fetched.
#[derive(Debug, Clone, Copy)]
struct LastFetch {
    /// It cannot before this many flits are sent.
    needed: u64,
    /// It cannot before this cycle.
    from: u64,
}

/// Flits of one packet that leave in a row.
#[derive(Debug, Clone, Copy)]
struct Burst {
    /// The packet, if its first flit is among them.
    head: Option<Head>,
    count: u32,
}

/// An interface of a rank.
#[derive(Debug)]
struct Interface {
    feed: Feed,
    /// Flits that fit into it.
    buffer: u64,
    queue: VecDeque<Issued>,
    /// The packet of the first message that is leaving, its flits that are still here, and its virtual channel.
    packet: u32,
    left: u32,
    channel: u8,
    turn: u8,
    /// Flits accepted and sent so far.
    accepted: u64,
    sent: u64,
    free: bool,
    /// Which of its rank's programs comes next.
    turn_of: usize,
    /// Set while the last payload cannot be fetched for want of room.
    fetching: Option<LastFetch>,
}

/// A program of a rank in execution.
#[derive(Debug)]
struct Execution {
    program: ProgramId,
    /// The step at hand, whether it has been entered, and those of its messages that are not issued.
    step: usize,
    entered: bool,
    pending: Vec<MessageId>,
    counter_down: u64,
}

/// An accelerator's interfaces, tables and adder.
#[derive(Debug)]
pub struct Table {
    /// Those of plans, and behind them that of the background, if there is one.
    interfaces: Vec<Interface>,
    /// How many interfaces plans have.
    of_plans: usize,
    timers: BinaryHeap<Reverse<(u64, Timer)>>,
    programs: Vec<Execution>,
    /// Which program is asked first.
    turn: usize,
    adder_free: u64,
}

/// A program that asks for interfaces at which at most so many others come before it.
#[derive(Debug, Clone, Copy)]
struct Bidder {
    number: usize,
    behind: usize,
}

impl Bidder {
    /// Says whether no more of `count` programs come before it where program `turn` is the next.
    fn may_take(self, turn: usize, count: usize) -> bool {
        (self.number + count - turn) % count <= self.behind
    }
}

impl Table {
    /// Makes the tables of an accelerator that feeds the network from buffers of `buffer` flits; plans have the first
    /// `of_plans` interfaces.
    pub fn new(feeds: &[Feed], of_plans: usize, buffer: u64) -> Self {
        Self {
            interfaces: feeds.iter().map(|&feed| Interface::new(feed, buffer)).collect(),
            of_plans,
            timers: BinaryHeap::new(),
            programs: Vec::new(),
            turn: 0,
            adder_free: 0,
        }
    }

    /// Adds a program, and sets its counter for the NOPs that come first; says when there is something to do first.
    pub fn start(&mut self, program: ProgramId, workload: &Workload) -> u64 {
        let Some(first) = workload.steps[program].first() else { return NEVER };
        let counter_down = u64::from(first.nops) * workload.programs[program].step_cycles;
        self.programs.push(Execution { program, step: 0, entered: false, pending: Vec::new(), counter_down });
        self.timers.push(Reverse((counter_down, Timer::Counter)));
        counter_down
    }

    /// Records when an ended message is received.
    pub fn record(&mut self, Ended { message, known }: Ended, workload: &Workload, progress: &mut Progress) {
        if workload.is_background(message) {
            progress.traffic.receive(message, known, workload.planned);
        } else {
            let tree = workload.messages[message].tree;
            self.timers.push(Reverse((known, Timer::Received { tree, message })));
        }
    }

    /// Queues a message of the background that is made in cycle `now`.
    pub fn queue_background(&mut self, message: MessageId, now: u64) {
        let interface = self.interfaces.last_mut().expect("the background has an interface");
        interface.queue.push_back(Issued { message, ready: now + FETCH });
    }

    /// Says whether nothing will happen here by itself.
    pub fn rests(&self) -> bool {
        self.timers.is_empty()
    }

    /// Says whether the interfaces may work for `cycles` without asking what leaves their buffers in the router.
    pub fn has_room(&self, cycles: u64, workload: &Workload, router: &Router) -> bool {
        let channels = usize::from(workload.virtual_channels);
        let needed = cycles + u64::from(workload.packet_flits);
        self.interfaces.iter().all(|interface| {
            let credits = &router.outputs[interface.feed.output].credits[..channels];
            credits.iter().all(|&credits| u64::from(credits) >= needed)
        })
    }

    /// Does part 3 of the cycles from `from` on and before `to`: interfaces work. Says in which there may be something
    /// to do next.
    #[inline]
    pub fn work(&mut self, from: u64, to: u64, router: &mut Router, shared: &mut Shared) -> u64 {
        let mut now = from;
        loop {
            // A timer that the interfaces set themselves must not be overtaken.
            let timer = self.next_timer();
            let fetched = self.interfaces.iter().map(|interface| interface.fetched_from(now)).min().unwrap_or(NEVER);
            let stop = timer.max(now).min(fetched).min(to);
            let mut next = NEVER;
            for number in InterfaceId::first(self.interfaces.len()) {
                next = next.min(self.send(number, now, stop, router, shared));
            }
            if stop == to {
                return next.min(self.next_timer()).max(to);
            }
            now = stop;
            let mut any = false;
            while let Some(&Reverse((at, timer))) = self.timers.peek()
                && at <= now
            {
                self.timers.pop();
                self.fire(at, timer, shared.workload, shared.progress);
                any = true;
            }
            if any {
                self.issue(now, shared.workload, shared.progress);
            }
        }
    }

    /// Says when the next timer fires.
    fn next_timer(&self) -> u64 {
        self.timers.peek().map_or(NEVER, |Reverse((at, _))| *at)
    }

    /// Does what a timer was set for.
    fn fire(&mut self, at: u64, timer: Timer, workload: &Workload, progress: &mut Progress) {
        match timer {
            Timer::Received { message: id, .. } => {
                progress.times[id].received = at;
                progress.received += 1;
                let end = match workload.messages[id].aggregation {
                    None => at,
                    Some(cycles) => {
                        self.adder_free = self.adder_free.max(at + 1) + cycles;
                        self.adder_free
                    }
                };
                let course = &mut progress.courses[usize::from(workload.messages[id].job)];
                course.end = course.end.max(end);
                course.last = course.last.max(Receipt { at, message: id });
                self.timers.push(Reverse((end + 1, Timer::Cleared { message: id })));
            }
            Timer::Cleared { message } => {
                for &later in workload.releases.row(message.index()) {
                    progress.waits[later] -= 1;
                }
            }
            Timer::Free { interface } => self.interfaces[interface].free = true,
            Timer::Counter => {}
        }
    }

    /// Issues the messages that can be issued. An interface that is free is offered to the programs in turn: first each
    /// program tries those at which it is the next, then those at which it is the next but one, too, and so on.
    fn issue(&mut self, now: u64, workload: &Workload, progress: &mut Progress) {
        let count = self.programs.len();
        for behind in 0..count {
            let first = self.turn;
            for number in (0..count).map(|number| (first + number) % count) {
                self.issue_program(Bidder { number, behind }, now, workload, progress);
            }
        }
    }

    /// Issues the messages of a program that can be issued, step by step.
    fn issue_program(&mut self, bidder: Bidder, now: u64, workload: &Workload, progress: &mut Progress) {
        let program = self.programs[bidder.number].program;
        let (steps, lockstep) = (&workload.steps[program], workload.programs[program].lockstep);
        while let Some(step) = steps.get(self.programs[bidder.number].step) {
            let idle = || self.interfaces.iter().all(|interface| interface.free);
            let execution = &self.programs[bidder.number];
            if !execution.entered {
                if lockstep && !(now >= execution.counter_down && idle()) {
                    return;
                }
                self.turn = (bidder.number + 1) % self.programs.len();
                let execution = &mut self.programs[bidder.number];
                execution.entered = true;
                execution.pending.clone_from(&step.sends);
            }
            self.issue_pending(bidder, now, workload, progress);
            let execution = &mut self.programs[bidder.number];
            if !execution.pending.is_empty() {
                return;
            }
            execution.entered = false;
            execution.step += 1;
            if let Some(next) = steps.get(execution.step)
                && next.nops > 0
            {
                execution.counter_down = now + u64::from(next.nops + 1) * workload.programs[program].step_cycles;
                self.timers.push(Reverse((execution.counter_down, Timer::Counter)));
            }
        }
    }

    /// Tries the step's messages in turn; a chunk that is issued makes place for the next on its edge.
    fn issue_pending(&mut self, bidder: Bidder, now: u64, workload: &Workload, progress: &mut Progress) {
        let step_of = |id: MessageId| workload.messages[id].step;
        let mut pending = std::mem::take(&mut self.programs[bidder.number].pending);
        let mut at = 0;
        while let Some(&id) = pending.get(at) {
            if !self.try_issue(id, bidder, now, workload, progress) {
                at += 1;
                continue;
            }
            pending.remove(at);
            if let Some(next) = workload.next_chunk[id] {
                let place = at + pending[at..].partition_point(|&other| step_of(other) <= step_of(next));
                pending.insert(place, next);
            }
        }
        self.programs[bidder.number].pending = pending;
    }

    /// Gives a message to its interface, if it waits for nothing and the interface is free for its program; says
    /// whether.
    fn try_issue(
        &mut self,
        id: MessageId,
        bidder: Bidder,
        now: u64,
        workload: &Workload,
        progress: &mut Progress,
    ) -> bool {
        if progress.waits[id] > 0 {
            return false;
        }
        let message = &workload.messages[id];
        let count = self.programs.len();
        let is_free = |interface: &Interface| interface.free && bidder.may_take(interface.turn_of, count);
        let free = match message.injector {
            Some(bound) => Some(bound).filter(|&bound| is_free(&self.interfaces[bound])),
            None => self.interfaces[..self.of_plans].iter().position(is_free).map(InterfaceId::new),
        };
        let Some(number) = free else { return false };
        progress.issued += 1;
        let interface = &mut self.interfaces[number];
        interface.turn_of = (bidder.number + 1) % count;
        interface.queue.push_back(Issued { message: id, ready: now + FETCH });
        interface.accepted += message.flits();
        let from = now + u64::from(message.payloads);
        let needed = interface.accepted.saturating_sub(interface.buffer);
        interface.free = false;
        if interface.sent >= needed {
            self.timers.push(Reverse((from + 1, Timer::Free { interface: number })));
        } else {
            interface.fetching = Some(LastFetch { needed, from });
        }
        true
    }

    /// Lets an interface send what it can from cycle `from` on and before `to`; says when it may send more.
    #[inline]
    fn send(&mut self, number: InterfaceId, from: u64, to: u64, router: &mut Router, shared: &mut Shared) -> u64 {
        let interface = &mut self.interfaces[number];
        let mut now = from;
        while let Some(&Issued { message, ready }) = interface.queue.front() {
            let output = &mut router.outputs[interface.feed.output];
            now = now.max(ready).max(output.occupancy.free_from());
            if now >= to {
                return now;
            }
            output.take_credits(now, shared.wires);
            let Some(burst) = interface.next_burst(message, to - now, output, shared.workload) else {
                if output.due >= to {
                    return output.due;
                }
                now = output.due;
                continue;
            };
            interface.send_burst(burst, now, router, shared);
            if let Some(fetched) = interface.fetch_last(burst, now) {
                self.timers.push(Reverse((fetched + 1, Timer::Free { interface: number })));
            }
            now += u64::from(burst.count);
            if interface.left == 0 {
                interface.finish_packet(message, now - 1, shared);
            }
        }
        NEVER
    }
}

impl Interface {
    /// Makes an interface that has nothing to send.
    fn new(feed: Feed, buffer: u64) -> Self {
        Self {
            feed,
            buffer,
            queue: VecDeque::new(),
            packet: 0,
            left: 0,
            channel: 0,
            turn: 0,
            accepted: 0,
            sent: 0,
            free: true,
            turn_of: 0,
            fetching: None,
        }
    }

    /// Returns its virtual channel as an index.
    fn place(&self) -> usize {
        usize::from(self.channel)
    }

    /// Returns a cycle before which it has not fetched the last payload if it starts to send at `now`.
    fn fetched_from(&self, now: u64) -> u64 {
        let ready = self.queue.front().map_or(now, |first| first.ready.max(now));
        self.fetching.map_or(NEVER, |last| ready + last.needed - self.sent)
    }

    /// Returns the flits of `message` that may leave within `cycles` cycles; before a packet's first flit it takes a
    /// virtual channel. Returns `None` if no channel has room, or its own has no credit.
    #[inline(always)]
    fn next_burst(&mut self, message: MessageId, cycles: u64, output: &Output, workload: &Workload) -> Option<Burst> {
        let begins = self.left == 0;
        if begins && !self.begin(&workload.messages[message], workload, output) {
            return None;
        }
        let credits = output.credits[self.place()];
        if credits == 0 {
            return None;
        }
        let in_a_row = if output.is_regular() { cycles.min(u64::from(u32::MAX)) as u32 } else { 1 };
        let hop = u32::from(self.feed.input.is_none());
        let head = begins.then_some(Head { message, flits: self.left, hop, first: self.packet == 0 });
        Some(Burst { head, count: self.left.min(credits).min(in_a_row) })
    }

    /// Sends flits from cycle `now` on, one a cycle.
    #[inline(always)]
    fn send_burst(&mut self, Burst { head, count }: Burst, now: u64, router: &mut Router, shared: &mut Shared) {
        if let Some(Head { message, first: true, .. }) = head {
            shared.progress.times[message].started = now;
        }
        let at = router.outputs[self.feed.output].send(now, self.channel, head, count, shared.wires);
        if let Some(input) = self.feed.input {
            let due = &mut router.inputs[input].due;
            *due = at.min(*due);
        }
        self.sent += u64::from(count);
        self.left -= count;
    }

    /// Says when the last payload is fetched, if flits that have left from cycle `now` on made the room for it.
    #[inline(always)]
    fn fetch_last(&mut self, Burst { count, .. }: Burst, now: u64) -> Option<u64> {
        let (sent, before) = (self.sent, self.sent - u64::from(count));
        let last = self.fetching.take_if(|last| last.needed <= sent)?;
        Some(last.from.max(now + last.needed - before - 1))
    }

    /// Goes on to the next packet, or to the next message if all packets of this one have left, in cycle `sent`.
    #[inline(always)]
    fn finish_packet(&mut self, message: MessageId, sent: u64, shared: &mut Shared) {
        self.packet += 1;
        if self.packet == shared.workload.messages[message].packets {
            self.packet = 0;
            self.queue.pop_front();
            shared.progress.times[message].sent = sent;
        }
    }

    /// Takes a virtual channel for the next packet, if one has room; says whether.
    fn begin(&mut self, message: &Message, workload: &Workload, output: &Output) -> bool {
        let flits = message.flits_of(self.packet);
        let allowed = match self.feed.input {
            Some(_) => ANY_CHANNEL,
            None => workload.route(message)[0].channels,
        };
        let room = workload.room(flits);
        let fits = |channel: &u8| allowed >> channel & 1 == 1 && output.credits[usize::from(*channel)] >= room;
        let channels = workload.virtual_channels;
        let Some(channel) = (0..channels).map(|i| (self.turn + i) % channels).find(fits) else { return false };
        self.turn = (channel + 1) % channels;
        self.channel = channel;
        self.left = flits;
        true
    }
}
