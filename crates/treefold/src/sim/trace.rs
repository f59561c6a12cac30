//! A trace: when each transfer started and ended, and how busy each link was.

use super::Report;
use crate::plan::LaneRef;
use crate::units::Bytes;

/// The course of a simulation.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Size of the vector.
    pub size: Bytes,
    /// From the first send to the last receipt.
    pub seconds: f64,
    /// Seconds in which each link carried anything, at whatever rate.
    pub occupied: Vec<f64>,
    /// Seconds that each link would have needed at its full rate for what it carried, overheads included.
    pub carried: Vec<f64>,
    /// Every transfer, in the order in which they left their senders; empty unless asked for.
    pub spans: Vec<Span>,
}

/// One message, or one chunk of a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Its sender, receiver and route.
    pub lane: LaneRef,
    /// The tree that it belongs to; the first of them where a message carries parts of several.
    pub tree: u32,
    /// Its phase of the plan, from 0.
    pub phase: u16,
    /// Its step of the phase, from 1; 0 in streams.
    pub step: u16,
    /// Its chunk of the stream, from 0.
    pub chunk: u32,
    /// Whether it carries partial sums towards a root.
    pub reduces: bool,
    /// The bytes that it carries.
    pub bytes: f64,
    /// When its first byte left.
    pub start: f64,
    /// When its last byte left, so that it no longer occupied its links.
    pub sent: f64,
    /// When its last byte was received.
    pub received: f64,
}

impl Trace {
    /// Reports time and utilisation.
    pub fn report(&self) -> Report {
        Report::new(self.size, self.seconds, self.carried.iter().copied())
    }
}
