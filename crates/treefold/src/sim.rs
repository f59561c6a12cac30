//! Simulators: functions from a plan and a size to a time, from fast to faithful.

pub mod analytic;

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
