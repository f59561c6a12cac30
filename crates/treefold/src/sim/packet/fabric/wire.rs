//! The near end of a link: credits of the input behind it, and who is next.

use super::super::machine::{CYCLE, Channel};
use super::super::wires::{NEVER, Wires};
use super::parcel::Parcel;

/// Requests and responses.
pub const CLASSES: usize = 2;

/// A link's near end.
#[derive(Debug)]
pub struct Wire {
    link: u32,
    channel: Channel,
    credits: [u32; CLASSES],
    /// When the next credits come.
    pub due: u64,
    free_at: u64,
    /// Time in which it was taken, in parts of a cycle.
    pub busy: u64,
    turn: usize,
}

impl Wire {
    /// A link into an input with room for `credits` flits of each class.
    pub fn new(link: u32, channel: Channel, credits: u32) -> Self {
        Self { link, channel, credits: [credits; CLASSES], due: NEVER, free_at: 0, busy: 0, turn: 0 }
    }

    /// Looks up what was sent here since the node was last at work.
    pub fn refresh(&mut self, wires: &Wires<Parcel>) {
        self.due = wires.credits[self.link as usize].due();
    }

    /// Takes the credits that have come.
    pub fn take_credits(&mut self, now: u64, wires: &mut Wires<Parcel>) {
        while self.due <= now {
            let credits = &mut wires.credits[self.link as usize];
            let (class, count) = credits.take_whole();
            self.credits[usize::from(class)] += count;
            self.due = credits.due();
        }
    }

    /// When it can take a packet, if there is one in cycle `now`.
    pub fn free_from(&self, now: u64) -> u64 {
        self.free_at.div_ceil(CYCLE).max(now)
    }

    /// Which class sends its first packet (of so many flits); if none can: when to ask again, unless credits come.
    pub fn choose(&self, now: u64, first: [Option<u32>; CLASSES]) -> Result<usize, u64> {
        if first.iter().all(Option::is_none) {
            return Err(NEVER);
        }
        if self.free_at > now * CYCLE {
            return Err(self.free_from(now));
        }
        let fits = |&class: &usize| first[class].is_some_and(|flits| flits <= self.credits[class]);
        (0..CLASSES).map(|i| (self.turn + i) % CLASSES).find(fits).ok_or(NEVER)
    }

    /// Sends a packet.
    pub fn send(&mut self, now: u64, parcel: Parcel, wires: &mut Wires<Parcel>) {
        let class = usize::from(parcel.response);
        let base = if self.free_at + CYCLE > now * CYCLE { self.free_at } else { now * CYCLE };
        let taken = self.channel.overhead * CYCLE + u64::from(parcel.flits) * self.channel.flit;
        self.free_at = base + taken;
        self.busy += taken;
        self.turn = 1 - class;
        self.credits[class] -= parcel.flits;
        wires.send(self.link, now + self.channel.delay, class as u8, Some(parcel), parcel.flits);
    }
}
