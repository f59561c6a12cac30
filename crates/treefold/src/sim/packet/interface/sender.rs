//! One network interface: what it fetches, and the flits that it sends.

use std::collections::VecDeque;

use super::super::machine::{InputId, OutputId};
use super::super::router::{ANY_CHANNEL, Output, Router};
use super::super::shared::Shared;
use super::super::wires::{Head, NEVER};
use super::super::workload::{Message, MessageId, Workload};

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
pub struct Issued {
    pub message: MessageId,
    /// When its first flit may leave.
    pub ready: u64,
}

/// The time at which the last payload of a message can be fetched.
#[derive(Debug, Clone, Copy)]
pub struct LastFetch {
    /// It cannot before this many flits are sent.
    pub needed: u64,
    /// It cannot before this cycle.
    pub from: u64,
}

/// Flits of one packet that leave in a row.
#[derive(Debug, Clone, Copy)]
pub struct Burst {
    /// The packet, if its first flit is among them.
    pub head: Option<Head>,
    pub count: u32,
}

/// An interface of a rank.
#[derive(Debug)]
pub struct Interface {
    pub feed: Feed,
    /// Flits that fit into it.
    pub buffer: u64,
    pub queue: VecDeque<Issued>,
    /// The packet of the first message that is leaving, its route, its flits that are still here, and its virtual
    /// channel.
    pub packet: u32,
    pub route: u32,
    pub left: u32,
    pub channel: u8,
    pub turn: u8,
    /// Flits accepted and sent so far.
    pub accepted: u64,
    pub sent: u64,
    pub free: bool,
    /// Which of its rank's programs comes next.
    pub turn_of: usize,
    /// Set while the last payload cannot be fetched for want of room.
    pub fetching: Option<LastFetch>,
}

impl Interface {
    /// Makes an interface that has nothing to send.
    pub fn new(feed: Feed, buffer: u64) -> Self {
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
            turn_of: 0,
            fetching: None,
        }
    }

    /// Returns its virtual channel as an index.
    fn place(&self) -> usize {
        usize::from(self.channel)
    }

    /// Returns a cycle before which it has not fetched the last payload if it starts to send at `now`.
    pub fn fetched_from(&self, now: u64) -> u64 {
        let ready = self.queue.front().map_or(now, |first| first.ready.max(now));
        self.fetching.map_or(NEVER, |last| ready + last.needed - self.sent)
    }

    /// Returns the flits of `message` that may leave within `cycles` cycles; before a packet's first flit it takes a
    /// virtual channel. Returns `None` if no channel has room, or its own has no credit.
    #[inline(always)]
    pub fn next_burst(
        &mut self,
        message: MessageId,
        cycles: u64,
        output: &Output,
        workload: &Workload,
    ) -> Option<Burst> {
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
        let head =
            begins.then_some(Head { message, route: self.route, flits: self.left, hop, first: self.packet == 0 });
        Some(Burst { head, count: self.left.min(credits).min(in_a_row) })
    }

    /// Sends flits from cycle `now` on, one a cycle.
    #[inline(always)]
    pub fn send_burst(&mut self, Burst { head, count }: Burst, now: u64, router: &mut Router, shared: &mut Shared) {
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
    pub fn fetch_last(&mut self, Burst { count, .. }: Burst, now: u64) -> Option<u64> {
        let (sent, before) = (self.sent, self.sent - u64::from(count));
        let last = self.fetching.take_if(|last| last.needed <= sent)?;
        Some(last.from.max(now + last.needed - before - 1))
    }

    /// Goes on to the next packet, or to the next message if all packets of this one have left, in cycle `sent`.
    #[inline(always)]
    pub fn finish_packet(&mut self, message: MessageId, sent: u64, shared: &mut Shared) {
        self.packet += 1;
        if self.packet == shared.workload.messages[message].packets {
            self.packet = 0;
            self.queue.pop_front();
            shared.progress.times[message].sent = sent;
        }
    }

    /// Takes a virtual channel for the next packet, if one has room; says whether.
    fn begin(&mut self, message: &Message, workload: &Workload, output: &Output) -> bool {
        let (flits, route) = (message.flits_of(self.packet), message.route_of(self.packet));
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
