//! Probes of idle links, and round trips: what a rank measures of a link while no operation uses it.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::connection::BURST;
use super::frame::{Frame, HEADER, Kind};
use crate::ids::NodeId;

/// How long a probe measures a link, unless fewer than `LEAST` bytes leave in that time.
pub const MEASURED: Duration = Duration::from_millis(300);
/// The least bytes of a measurement, so that what the kernel keeps unsent does not count.
const LEAST: u64 = 1 << 20;
/// The longest time of a probe after it has warmed up.
const LONGEST: Duration = Duration::from_secs(3);
/// The round trips that pass before a probe measures: TCP doubles its rate in each, from ten packets on.
const WARM_UP: u32 = 10;
/// The last round trips of which the least counts: what was slowed down by a busy processor or queue is not the least.
const TRIPS: usize = 8;

/// Returns the frame of a probe, which says nothing.
pub fn frame() -> &'static [u8] {
    static FRAME: OnceLock<Vec<u8>> = OnceLock::new();
    FRAME.get_or_init(|| Frame::new(Kind::Probe, 0, 0, NodeId(0)).with_body(&[0; BURST - HEADER]))
}

/// A probe at work: frames that say nothing, as many as the link takes.
pub struct Probe {
    /// The bytes that have gone.
    written: u64,
    /// When it begins to measure, and when it ends at the latest.
    from: Instant,
    until: Instant,
    is_stopped: bool,
    /// The first and the last moment at which the kernel's queue was full, with the bytes that had gone by then.
    full: Option<[(Instant, u64); 2]>,
}

impl Probe {
    /// Begins a probe of a link whose round trips take so long.
    pub fn new(now: Instant, round_trip: Duration) -> Self {
        let from = now + round_trip * WARM_UP;
        Self { written: 0, from, until: from + LONGEST, is_stopped: false, full: None }
    }

    /// Records that so many bytes have gone.
    pub fn gone(&mut self, bytes: usize) {
        self.written += bytes as u64;
    }

    /// Records that the kernel takes no more.
    pub fn full(&mut self, now: Instant) {
        if now >= self.from {
            let mark = (now, self.written);
            self.full = Some([self.full.map_or(mark, |[first, _]| first), mark]);
        }
    }

    /// Ends the probe without a result.
    pub fn stop(&mut self) {
        (self.is_stopped, self.full) = (true, None);
    }

    /// Returns whether it sends no further frame.
    pub fn is_over(&self, now: Instant) -> bool {
        self.is_stopped || now >= self.until || self.measured().is_some()
    }

    /// Returns the bytes that have gone while others waited, and how long that took, if they are enough.
    pub fn measured(&self) -> Option<(u64, Duration)> {
        let [(first, before), (last, after)] = self.full?;
        (last - first >= MEASURED && after - before >= LEAST).then(|| (after - before, last - first))
    }
}

/// The round trips of a connection.
#[derive(Debug, Default)]
pub struct RoundTrips {
    /// The number of the last question.
    number: u32,
    /// When it was asked, and how many bytes of bodies had come by then.
    asked: Option<(Instant, u64)>,
    /// Whether it has been answered.
    is_answered: bool,
    last: std::collections::VecDeque<Duration>,
}

impl RoundTrips {
    /// Returns whether it is time to ask again.
    pub fn is_due(&self, now: Instant, every: Duration) -> bool {
        self.asked.is_none_or(|(at, _)| now - at >= every)
    }

    /// Records a question; returns its number. `received` counts the bytes of bodies that have come.
    pub fn ask(&mut self, now: Instant, received: u64) -> u32 {
        (self.asked, self.is_answered) = (Some((now, received)), false);
        self.number = self.number.wrapping_add(1);
        self.number
    }

    /// Records an answer. It does not count if bodies came before it, as it has then waited behind them.
    pub fn answer(&mut self, number: u32, now: Instant, received: u64) {
        let Some((asked, before)) = self.asked.filter(|_| number == self.number && !self.is_answered) else { return };
        self.is_answered = true;
        if received == before {
            self.last.push_back(now - asked);
            self.last.drain(..self.last.len().saturating_sub(TRIPS));
        }
    }

    /// Returns the least of the last few round trips, if the other end has answered the last question.
    pub fn fresh(&self) -> Option<Duration> {
        self.last.iter().min().copied().filter(|_| self.is_answered)
    }

    /// Returns the least of the last few round trips, once there are enough.
    pub fn least(&self) -> Option<Duration> {
        self.last.iter().min().copied().filter(|_| self.last.len() == TRIPS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_counts_only_what_left_after_it_warmed_up() {
        let start = Instant::now();
        let mut probe = Probe::new(start, Duration::from_millis(10));
        for step in 0..=6u32 {
            probe.gone(1 << 20);
            probe.full(start + step * Duration::from_millis(100));
        }
        // The first full queue that counts is at 100 ms: from there 5 MiB left in half a second.
        assert_eq!(probe.measured(), Some((5 << 20, Duration::from_millis(500))));
        assert!(probe.is_over(start));
        probe.stop();
        assert_eq!(probe.measured(), None);
    }

    #[test]
    fn the_least_of_the_last_round_trips_counts_and_none_that_waited_behind_data() {
        let (start, mut trips) = (Instant::now(), RoundTrips::default());
        for milliseconds in [1, 9, 8, 7, 6, 5, 9, 9, 9] {
            let number = trips.ask(start, 0);
            trips.answer(number, start + Duration::from_millis(milliseconds), 0);
        }
        assert_eq!(trips.least(), Some(Duration::from_millis(5)), "the first is forgotten");
        let number = trips.ask(start, 0);
        assert_eq!(trips.fresh(), None, "it is not answered yet");
        trips.answer(number, start, 1);
        trips.answer(number, start, 0);
        assert_eq!(trips.least(), Some(Duration::from_millis(5)), "data came before the answer");
    }
}
