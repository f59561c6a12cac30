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

mod sender;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::machine::InterfaceId;
use super::router::{Ended, Router};
use super::shared::{Progress, Receipt, Shared};
use super::wires::NEVER;
use super::workload::{MessageId, ProgramId, Workload};
pub use sender::Feed;
use sender::{Interface, Issued, LastFetch};

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
    /// The interfaces of plans, and behind them that of the background, if there is one.
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

/// Returns which of `count` programs comes after one.
fn following(program: usize, count: usize) -> usize {
    if program + 1 == count { 0 } else { program + 1 }
}

impl Bidder {
    /// Says whether no more of `count` programs come before it where program `turn` is the next.
    fn may_take(self, turn: usize, count: usize) -> bool {
        let place = if self.number < turn { self.number + count } else { self.number };
        place - turn <= self.behind
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
            let mut number = self.turn;
            for _ in 0..count {
                self.issue_program(Bidder { number, behind }, now, workload, progress);
                number = following(number, count);
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
                self.turn = following(bidder.number, self.programs.len());
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
        let place_of = |id: MessageId| workload.place[id];
        let mut pending = std::mem::take(&mut self.programs[bidder.number].pending);
        let mut at = 0;
        while let Some(&id) = pending.get(at) {
            if !self.try_issue(id, bidder, now, workload, progress) {
                at += 1;
                continue;
            }
            pending.remove(at);
            if let Some(next) = workload.next_chunk[id] {
                let place = at + pending[at..].partition_point(|&other| place_of(other) < place_of(next));
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
        interface.turn_of = following(bidder.number, count);
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
                let due = output.due;
                router.sample_feed(interface.feed.output, Some(now), now);
                if due >= to {
                    return due;
                }
                now = due;
                continue;
            };
            router.sample_feed(interface.feed.output, None, now);
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
