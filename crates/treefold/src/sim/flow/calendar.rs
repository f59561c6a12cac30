//! Events in the order of their times. Regular plans make thousands of events for one moment: those share one heap
//! entry as long as they come in a row.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::phase::Event;
use super::quantities::Instant;

/// Events to come.
#[derive(Default)]
pub(super) struct Calendar {
    heap: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Events of each heap entry.
    days: Vec<Vec<Event>>,
    empty_days: Vec<u32>,
    /// Time and day of the last event that was put in.
    latest: Option<(Instant, u32)>,
}

impl Calendar {
    /// Puts `event` at `time`.
    pub fn push(&mut self, time: Instant, event: Event) {
        let day = match self.latest {
            Some((latest, day)) if latest == time => day,
            _ => self.new_day(time),
        };
        self.days[day as usize].push(event);
    }

    /// Makes a heap entry for events at a time, and returns its number.
    fn new_day(&mut self, time: Instant) -> u32 {
        let day = self.empty_days.pop().unwrap_or_else(|| {
            self.days.push(Vec::new());
            self.days.len() as u32 - 1
        });
        self.heap.push(Reverse((time, day)));
        self.latest = Some((time, day));
        day
    }

    /// Returns the time of the next events.
    pub fn next_time(&self) -> Option<Instant> {
        self.heap.peek().map(|&Reverse((time, _))| time)
    }

    /// Swaps some of the next events into `events`, which must be empty.
    pub fn take(&mut self, events: &mut Vec<Event>) {
        let Some(Reverse((_, day))) = self.heap.pop() else { return };
        std::mem::swap(&mut self.days[day as usize], events);
        self.empty_days.push(day);
        if self.latest.is_some_and(|(_, latest)| latest == day) {
            self.latest = None;
        }
    }
}
