//! The analytic simulator: [`crate::plan::alpha_beta`] as a report. The fastest, and the coarsest: every step waits for
//! the slowest message of the one before.

use super::Report;
use crate::plan::alpha_beta::Profile;
use crate::units::Bytes;

/// Time and link utilisation of the profiled plan for a vector of `size`.
pub fn simulate(profile: &Profile, size: Bytes) -> Report {
    let seconds = profile.seconds(size);
    let (mut sum, mut max, mut count) = (0.0, 0.0f64, 0);
    for busy in profile.busy_seconds(size) {
        let part = if seconds > 0.0 { (busy / seconds).min(1.0) } else { 0.0 };
        (sum, max, count) = (sum + part, max.max(part), count + 1);
    }
    Report { size, seconds, mean_utilization: sum / f64::from(count.max(1)), max_utilization: max }
}
