//! Points in time, or on a virtual clock, that can be ordered.

/// A finite number, ordered as numbers are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Instant(pub f64);

impl Eq for Instant {}

impl PartialOrd for Instant {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Instant {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
