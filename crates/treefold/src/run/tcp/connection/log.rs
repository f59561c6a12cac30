//! What was sent over one of several streams, until the peer says that it has come. If the stream breaks, the rest goes
//! over the others, and nothing comes twice: each end tells the other how many frames it has used, and how much of the
//! one that was broken.
//!
//! Cost: a copy of what is sent, as an operation may overwrite it, and the memory of what is under way.

use std::collections::VecDeque;

use super::Part;
use crate::run::message::Message;
use crate::run::tcp::frame::Frame;

/// After how many frames of messages a stream tells its other end that they have come.
pub const CONFIRMED: u64 = 4;

/// A frame of a message.
#[derive(Debug)]
pub struct Sent {
    pub frame: Frame,
    pub body: Message,
    /// The part whose operation waits until it has left; `None` if it has.
    pub owes: Option<(u32, Part)>,
}

/// The frames that were sent over a stream and have not been confirmed.
#[derive(Debug, Default)]
pub struct Log {
    sent: VecDeque<Sent>,
    /// How many frames before these were sent.
    confirmed: u64,
    /// The memory of confirmed ones, which is used again.
    spare: Vec<Message>,
}

impl Log {
    pub fn push(&mut self, sent: Sent) {
        self.sent.push_back(sent);
    }

    /// Returns memory for the body of a frame.
    pub fn spare(&mut self) -> Message {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes memory back for a later frame.
    pub fn give_back(&mut self, body: Message) {
        self.spare.push(body);
    }

    /// Forgets the frames up to the number `count`; returns whether so many were sent.
    pub fn confirm(&mut self, count: u64) -> bool {
        let known = count.saturating_sub(self.confirmed).min(self.sent.len() as u64);
        self.spare.extend(self.sent.drain(..known as usize).map(|sent| sent.body));
        self.confirmed += known;
        self.confirmed >= count
    }

    /// Returns all frames behind the number `count`, of the first of which `usable` bytes have come; `None` if not so
    /// much was sent.
    pub fn rest(&mut self, count: u64, usable: u64) -> Option<VecDeque<Sent>> {
        if !self.confirm(count) || usable > self.sent.front().map_or(0, |sent| sent.frame.length) {
            return None;
        }
        let mut rest = std::mem::take(&mut self.sent);
        self.confirmed += rest.len() as u64;
        if let Some(Sent { frame, body, .. }) = rest.front_mut() {
            (frame.from, frame.length) = (frame.from + usable, frame.length - usable);
            *body = Message::of(&body.bytes()[usable as usize..]);
        }
        Some(rest)
    }
}
