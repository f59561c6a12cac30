//! The analytic simulator: [`crate::plan::alpha_beta`] as a report. It is the fastest, and the coarsest: every step
//! waits for the slowest message of the one before.

use super::Report;
use crate::plan::alpha_beta::Profile;
use crate::units::Bytes;

/// Reports time and link utilisation of the profiled plan for a vector of `size`.
pub fn simulate(profile: &Profile, size: Bytes) -> Report {
    Report::new(size, profile.seconds(size), profile.busy_seconds(size))
}
