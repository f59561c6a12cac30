//! The usage of a connection, from which the controller learns how fast it is.

use std::time::{Duration, Instant};

/// The least time between two marks of a course.
const GAP: Duration = Duration::from_millis(2);
/// A course has fewer marks than this; where there were more, every other one is dropped.
const MOST_MARKS: usize = 512;

/// The bytes that a connection carried while more waited, and the time that this took. They are counted only while the
/// kernel's queue is full and the peer runs the same operation: otherwise the peer is slow, and not the connection.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// The bytes that left while others waited.
    pub bytes: u64,
    /// The time in which they left.
    pub time: Duration,
    /// The bytes that have left in all operations.
    written: u64,
    /// How many bytes had left by when since the last call of `read`.
    course: Course,
    /// When the queue became full, and the bytes that had left by then.
    since: Option<Mark>,
    /// When the queue was last seen full, and the bytes that had left by then.
    last: Option<Mark>,
}

/// A moment, the bytes that had left by then, and for how long others had waited.
#[derive(Debug, Clone, Copy)]
struct Mark {
    at: Instant,
    written: u64,
    waited: Duration,
}

/// How many bytes had left by when since a count began.
#[derive(Debug, Clone)]
struct Course {
    /// The bytes that had left in all operations when the count began.
    begun: u64,
    marks: Vec<Mark>,
    gap: Duration,
}

impl Default for Course {
    fn default() -> Self {
        Self { begun: 0, marks: Vec::new(), gap: GAP }
    }
}

impl Course {
    fn add(&mut self, mark: Mark) {
        if let [.., before, last] = self.marks.as_mut_slice()
            && mark.at - before.at < self.gap
        {
            *last = mark;
            return;
        }
        self.marks.push(mark);
        if self.marks.len() >= MOST_MARKS {
            // The first and the last one stay.
            let mut number = 0;
            self.marks.retain(|_| {
                number += 1;
                number == 1 || number % 2 == 0
            });
            self.gap *= 2;
        }
    }

    /// Returns the bytes that had left by a moment, and the seconds for which others had waited, as if both had grown
    /// evenly between marks.
    fn by(&self, at: Instant) -> (f64, f64) {
        let after = self.marks.partition_point(|mark| mark.at < at);
        let sent = |mark: &Mark| ((mark.written - self.begun) as f64, mark.waited.as_secs_f64());
        match (after.checked_sub(1).map(|before| &self.marks[before]), self.marks.get(after)) {
            (Some(from), Some(to)) => {
                let part = (at - from.at).as_secs_f64() / (to.at - from.at).as_secs_f64();
                let ((bytes, waited), (later_bytes, later_waited)) = (sent(from), sent(to));
                (bytes + part * (later_bytes - bytes), waited + part * (later_waited - waited))
            }
            (Some(last), None) => sent(last),
            (None, _) => (0.0, 0.0),
        }
    }
}

impl Usage {
    /// Records that bytes have left for the kernel.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.written += bytes as u64;
        self.mark(Instant::now());
    }

    /// Returns the bytes that have left in all operations.
    pub fn written(&self) -> u64 {
        self.written
    }

    fn mark(&mut self, at: Instant) {
        let now = self.since.zip(self.last).map_or(Duration::ZERO, |(since, last)| last.at - since.at);
        self.course.add(Mark { at, written: self.written, waited: self.time + now });
    }

    /// Returns the bytes that had left by a moment since the last call of `read`, and the seconds for which others had
    /// waited.
    pub fn by(&self, at: Instant) -> (f64, f64) {
        self.course.by(at)
    }

    /// Records that the kernel takes no more of an operation that the peer has begun.
    pub(super) fn full(&mut self) {
        let now = Mark { at: Instant::now(), written: self.written, waited: Duration::ZERO };
        self.since = self.since.or(Some(now));
        self.last = Some(now);
        self.mark(now.at);
    }

    /// Records that nothing waits.
    pub(super) fn empty(&mut self) {
        if let (Some(since), Some(last)) = (self.since.take(), self.last) {
            self.time += last.at - since.at;
            self.bytes += last.written - since.written;
        }
    }

    /// Returns the bytes and the time that were counted, and begins to count anew.
    pub fn read(&mut self) -> (u64, Duration) {
        let busy = self.since.is_some();
        self.empty();
        if busy {
            self.since = self.last;
        }
        self.course = Course { begun: self.written, ..Course::default() };
        (std::mem::take(&mut self.bytes), std::mem::take(&mut self.time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(milliseconds: u64, begun: Instant) -> Instant {
        begun + Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_course_grows_evenly_between_marks_and_begins_with_the_count() {
        let (begun, waited) = (Instant::now(), Duration::from_millis);
        let mut course = Course { begun: 1000, ..Course::default() };
        assert_eq!(course.by(begun), (0.0, 0.0));
        for (at, written, waits) in [(10, 1000, 0), (20, 3000, 0), (40, 7000, 20)] {
            course.add(Mark { at: after(at, begun), written, waited: waited(waits) });
        }
        assert_eq!(course.by(after(5, begun)), (0.0, 0.0));
        assert_eq!(course.by(after(15, begun)), (1000.0, 0.0));
        let (bytes, seconds) = course.by(after(30, begun));
        assert!((bytes - 4000.0).abs() < 1e-6 && (seconds - 0.01).abs() < 1e-9);
        assert_eq!(course.by(after(90, begun)), (6000.0, 0.02));
    }

    #[test]
    fn a_long_course_has_few_marks_and_the_same_growth() {
        let begun = Instant::now();
        let mut course = Course::default();
        for at in 0..100_000 {
            course.add(Mark { at: after(at, begun), written: 10 * at, waited: Duration::ZERO });
        }
        assert!(course.marks.len() < MOST_MARKS);
        for at in [0, 12_345, 54_321, 99_999] {
            let (bytes, _) = course.by(after(at, begun));
            assert!((bytes - 10.0 * at as f64).abs() < 1.0, "{bytes} by {at} ms");
        }
    }
}
