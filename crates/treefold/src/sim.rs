//! Simulators: functions from a plan and a size to a time, from fast to faithful.

pub mod analytic;
pub mod chrome;
pub mod flow;
pub mod trace;

use crate::units::Bytes;

/// What a simulation found.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Size of the vector.
    pub size: Bytes,
    /// From the first send to the last receipt.
    pub seconds: f64,
    /// Mean over links of the part of the time in which each is busy.
    pub mean_utilization: f64,
    /// The busiest link's part.
    pub max_utilization: f64,
}

impl Report {
    /// The report of a simulation in which each link worked for `busy` seconds.
    fn new(size: Bytes, seconds: f64, busy: impl Iterator<Item = f64>) -> Self {
        let (mut sum, mut max, mut count) = (0.0, 0.0f64, 0);
        for busy in busy {
            let part = if seconds > 0.0 { (busy / seconds).min(1.0) } else { 0.0 };
            (sum, max, count) = (sum + part, max.max(part), count + 1);
        }
        Self { size, seconds, mean_utilization: sum / f64::from(count.max(1)), max_utilization: max }
    }
}
