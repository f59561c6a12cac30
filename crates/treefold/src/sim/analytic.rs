//! The analytic simulator: [`crate::plan::alpha_beta`] as a report. It is the fastest, and the coarsest: every step
//! waits for the slowest message of the one before.

use super::Report;
use crate::plan::alpha_beta::Profile;
use crate::units::Bytes;

/// Reports time and link utilisation of the profiled plan for a vector of `size`.
///
/// ```
/// use std::sync::Arc;
/// use treefold::plan::alpha_beta::Profile;
/// use treefold::planners::{self, Options};
/// use treefold::sim::analytic::simulate;
/// use treefold::topology::from_spec;
/// use treefold::units::parse_bytes;
///
/// let ring = Arc::new(from_spec("ring:4", None, None)?);
/// let plan = planners::plan("ring", &ring, &Options::default())?;
/// let profile = Profile::new(&plan);
/// let report = simulate(&profile, parse_bytes("1GiB")?);
/// assert_eq!(report.mean_utilization, report.max_utilization / 2.0, "no data goes round the other way");
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn simulate(profile: &Profile, size: Bytes) -> Report {
    Report::new(size, profile.seconds(size), profile.busy_seconds(size))
}
