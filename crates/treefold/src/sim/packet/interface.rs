//! A rank's network interface (MultiTree paper, section IV-A and Fig. 6): the schedule table in execution.
//!
//! A step is entered when the one before has been issued whole; in lockstep also only when all interfaces are idle and
//! the lockstep counter, which NOPs set, is down. Of a step, every message whose receipts are in and whose interface is
//! free is issued, several in a cycle if it must be; a stream is one step, in which an edge's chunk follows the one
//! before. An interface fetches a payload a cycle into its buffer, is free for the next message when the last one is
//! in, and sends a flit a cycle, in order. What is received whole is added up, one message after the other, or stands;
//! either clears what waits for it a cycle later.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::machine::{InputId, InterfaceId, OutputId};
use super::router::{ANY_CHANNEL, Ended, Output, Router};
use super::shared::{Progress, Receipt, Shared};
use super::wires::{Head, NEVER};
use super::workload::{MessageId, Step, Workload};

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
    /// The packet of the first message that is leaving, its route, its flits that are still here, and its virtual
    /// channel.
    packet: u32,
    route: u32,
    left: u32,
    channel: u8,
    turn: u8,
    /// Flits accepted and sent so far.
    accepted: u64,
    sent: u64,
    free: bool,
    /// Set while the last payload cannot be fetched for want of room.
    fetching: Option<LastFetch>,
}

/// A rank's interfaces, table and adder.
#[derive(Debug)]
pub struct Table {
    interfaces: Vec<Interface>,
    timers: BinaryHeap<Reverse<(u64, Timer)>>,
    /// The step at hand, whether it has been entered, and those of its messages that are not issued.
    step: usize,
    entered: bool,
    pending: Vec<MessageId>,
    counter_down: u64,
    adder_free: u64,
}

impl Table {
    /// Makes the table of a rank that feeds the network from buffers of `buffer` flits.
    pub fn new(feeds: &[Feed], buffer: u64) -> Self {
        Self {
            interfaces: feeds.iter().map(|&feed| Interface::new(feed, buffer)).collect(),
            timers: BinaryHeap::new(),
            step: 0,
            entered: false,
            pending: Vec::new(),
            counter_down: 0,
            adder_free: 0,
        }
    }

    /// Sets the counter for the NOPs that come first; says when there is something to do first.
    pub fn start(&mut self, steps: &[Step], workload: &Workload) -> u64 {
        let Some(first) = steps.first() else { return NEVER };
        self.counter_down = u64::from(first.nops) * workload.step_cycles;
        self.timers.push(Reverse((self.counter_down, Timer::Counter)));
        self.counter_down
    }

    /// Records when an ended message is received.
    pub fn record(&mut self, Ended { message, known }: Ended, workload: &Workload) {
        let tree = workload.messages[message].tree;
        self.timers.push(Reverse((known, Timer::Received { tree, message })));
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
                self.issue(now, shared.steps, shared.workload, shared.progress);
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
                progress.end = progress.end.max(end);
                progress.last = progress.last.max(Receipt { at, message: id });
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

    /// Issues the messages that can be issued, step by step.
    fn issue(&mut self, now: u64, steps: &[Step], workload: &Workload, progress: &mut Progress) {
        while let Some(step) = steps.get(self.step) {
            if !self.entered {
                let idle = self.interfaces.iter().all(|interface| interface.free);
                if workload.lockstep && !(idle && now >= self.counter_down) {
                    return;
                }
                self.entered = true;
                self.pending.clone_from(&step.sends);
            }
            self.issue_pending(now, workload, progress);
            if !self.pending.is_empty() {
                return;
            }
            self.entered = false;
            self.step += 1;
            if let Some(next) = steps.get(self.step)
                && next.nops > 0
            {
                self.counter_down = now + u64::from(next.nops + 1) * workload.step_cycles;
                self.timers.push(Reverse((self.counter_down, Timer::Counter)));
            }
        }
    }

    /// Tries the step's messages in turn; a chunk that is issued makes place for the next on its edge.
    fn issue_pending(&mut self, now: u64, workload: &Workload, progress: &mut Progress) {
        let step_of = |id: MessageId| workload.messages[id].step;
        let mut pending = std::mem::take(&mut self.pending);
        let mut at = 0;
        while let Some(&id) = pending.get(at) {
            if !self.try_issue(id, now, workload, progress) {
                at += 1;
                continue;
            }
            pending.remove(at);
            if let Some(next) = workload.next_chunk[id] {
                let place = at + pending[at..].partition_point(|&other| step_of(other) <= step_of(next));
                pending.insert(place, next);
            }
        }
        self.pending = pending;
    }

    /// Gives a message to its interface, if it waits for nothing and the interface is free; says whether.
    fn try_issue(&mut self, id: MessageId, now: u64, workload: &Workload, progress: &mut Progress) -> bool {
        if progress.waits[id] > 0 {
            return false;
        }
        let message = &workload.messages[id];
        let free = match message.injector {
            Some(bound) => Some(bound).filter(|&bound| self.interfaces[bound].free),
            None => self.interfaces.iter().position(|interface| interface.free).map(InterfaceId::new),
        };
        let Some(number) = free else { return false };
        let interface = &mut self.interfaces[number];
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
            route: 0,
            left: 0,
            channel: 0,
            turn: 0,
            accepted: 0,
            sent: 0,
            free: true,
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
        if begins && !self.begin(message, workload, output) {
            return None;
        }
        let credits = output.credits[self.place()];
        if credits == 0 {
            return None;
        }
        let in_a_row = if output.is_regular() { cycles.min(u64::from(u32::MAX)) as u32 } else { 1 };
        let hop = u32::from(self.feed.input.is_none());
        let head =
            begins.then_some(Head { message, route: self.route, flits: self.left, hop, first: self.packet == 0 });
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
    fn begin(&mut self, message: MessageId, workload: &Workload, output: &Output) -> bool {
        let flits = workload.messages[message].flits_of(self.packet);
        let route = workload.route_of(message, self.packet);
        let allowed = match self.feed.input {
            Some(_) => ANY_CHANNEL,
            None => workload.routes.row(route as usize)[0].channels,
        };
        let room = workload.room(flits);
        let fits = |channel: &u8| allowed >> channel & 1 == 1 && output.credits[usize::from(*channel)] >= room;
        let channels = workload.virtual_channels;
        let Some(channel) = (0..channels).map(|i| (self.turn + i) % channels).find(fits) else { return false };
        self.turn = (channel + 1) % channels;
        self.channel = channel;
        self.route = route;
        self.left = flits;
        true
    }
}
