//! Simulators: functions from a plan and a size to a time, from fast ones to faithful ones.

pub mod analytic;
mod background;
pub mod chrome;
pub mod flow;
pub mod jobs;
mod numbers;
pub mod packet;
pub mod trace;

pub use background::Background;
pub use jobs::Job;

use std::str::FromStr;

use crate::error::{Error, Result, named};
use crate::plan::Walkable;
use crate::plan::alpha_beta::Profile;
use crate::units::{Bytes, Seconds};

/// A simulator by which `auto` chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Simulator {
    /// The analytic simulator: the alpha-beta model, step by step.
    Analytic,
    /// The flow simulator: events and shared links.
    Flow,
}

impl FromStr for Simulator {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        named("simulator", text, &[("analytic", Self::Analytic), ("flow", Self::Flow)])
    }
}

impl Simulator {
    /// Returns the time that `plan` takes for each of `sizes`.
    ///
    /// # Errors
    /// If `go_on`, which is asked now and then, returns false.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use treefold::planners::{self, Options};
    /// use treefold::sim::Simulator;
    /// use treefold::topology::from_spec;
    /// use treefold::units::parse_bytes;
    ///
    /// let ring = Arc::new(from_spec("ring:4", None, None)?);
    /// let plan = planners::plan("ring", &ring, &Options::default())?;
    /// let sizes = [parse_bytes("4KiB")?, parse_bytes("4MiB")?];
    /// let [small, large] = "flow".parse::<Simulator>()?.seconds(&plan, sizes, &mut |_| true)?;
    /// assert!(small < large && large < small * 1024.0, "latency weighs more on the small vector");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn seconds<'a, const N: usize>(
        self,
        plan: impl Into<Walkable<'a>>,
        sizes: [Bytes; N],
        go_on: &mut dyn FnMut(Seconds) -> bool,
    ) -> Result<[Seconds; N]> {
        let plan = plan.into();
        let mut seconds = [Seconds::ZERO; N];
        let profile = (self == Self::Analytic).then(|| Profile::new(plan));
        for (seconds, size) in seconds.iter_mut().zip(sizes) {
            *seconds = match &profile {
                Some(profile) => profile.seconds(size),
                None => flow::simulate(plan, size, false, go_on)?.seconds,
            };
        }
        Ok(seconds)
    }
}

/// The result of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The size of the vector.
    pub size: Bytes,
    /// The time from the start of the simulation to the last receipt.
    pub seconds: Seconds,
    /// The mean utilization of the links, from 0 to 1. The utilization of a link is the part of the whole time that the
    /// link would need at its full rate for what it carries, overheads included.
    pub mean_utilization: f64,
    /// The largest utilization of a link.
    pub max_utilization: f64,
}

impl Report {
    /// Returns the report of a simulation in which each link needed the time of `carried` at its full rate.
    fn new(size: Bytes, seconds: Seconds, carried: impl Iterator<Item = Seconds>) -> Self {
        let (mut sum, mut max, mut count) = (0.0, 0.0f64, 0);
        for needed in carried {
            let part = if seconds > Seconds::ZERO { (needed / seconds).min(1.0) } else { 0.0 };
            (sum, max, count) = (sum + part, max.max(part), count + 1);
        }
        Self { size, seconds, mean_utilization: sum / f64::from(count.max(1)), max_utilization: max }
    }
}
