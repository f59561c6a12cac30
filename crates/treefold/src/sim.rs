//! Simulators: functions from a plan and a size to a time, from fast ones to faithful ones.

pub mod analytic;
mod background;
pub mod causes;
pub mod chrome;
pub mod critical;
pub mod flow;
pub mod heat;
// Tests place jobs for the oracle of the packet simulator.
#[doc(hidden)]
pub mod jobs;
pub mod listing;
mod measured;
mod numbers;
pub mod packet;
pub mod samples;
pub mod trace;
mod trace_file;

pub use background::Background;
pub use jobs::Job;

use std::str::FromStr;

use crate::error::{Error, Result, named};
use crate::plan::Walkable;
use crate::plan::alpha_beta::Profile;
use crate::units::{Bytes, Seconds};

/// What a caller of a simulation wants besides its outcome: a list of all transfers, or a say in whether it goes on.
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// use treefold::sim::{Watch, flow::simulate};
/// use treefold::units::{Bytes, Seconds};
/// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
/// # let plan = planners::plan("ring", &ring, &Options::default())?;
/// let size = Bytes::known(1 << 20);
/// assert!(simulate(&plan, size, Watch::NOTHING)?.transfers.is_empty());
/// assert_eq!(simulate(&plan, size, Watch::TRANSFERS)?.transfers.len(), 24);
/// let patient = &mut |simulated: Seconds| simulated.get() < 60.0;
/// assert!(simulate(&plan, size, Watch::asking(patient)).is_ok());
/// # Ok::<(), treefold::error::Error>(())
/// ```
#[derive(Default)]
pub struct Watch<'a> {
    /// Whether the trace lists the transfers and, of the packet simulator, has samples.
    pub transfers: bool,
    /// The function that long simulations ask now and then whether to go on; it gets the time that is simulated so far.
    /// If it returns false, they end with an error that is an interruption.
    pub go_on: Option<&'a mut (dyn FnMut(Seconds) -> bool + 'a)>,
}

impl Watch<'static> {
    /// The simulation lists no transfers, and goes on to its end.
    pub const NOTHING: Self = Self { transfers: false, go_on: None };
    /// The simulation lists its transfers, and goes on to its end.
    pub const TRANSFERS: Self = Self { transfers: true, go_on: None };
}

impl<'a> Watch<'a> {
    /// Returns a watch with which a simulation asks `go_on` now and then. It lists no transfers.
    pub fn asking(go_on: &'a mut (dyn FnMut(Seconds) -> bool + 'a)) -> Self {
        Self { transfers: false, go_on: Some(go_on) }
    }

    /// Asks whether to go on, now that so much time is simulated.
    fn goes_on(&mut self, simulated: Seconds) -> bool {
        self.go_on.as_mut().is_none_or(|go_on| go_on(simulated))
    }
}

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
    /// Returns the time that `plan` takes for each of `sizes`; no transfers are listed.
    ///
    /// # Errors
    /// If `watch` ends the simulation, or if the plan asks for more chunks than treefold handles.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use treefold::planners::{self, Options};
    /// use treefold::sim::{Simulator, Watch};
    /// use treefold::topology::from_spec;
    /// use treefold::units::parse_bytes;
    ///
    /// let ring = Arc::new(from_spec("ring:4", None, None)?);
    /// let plan = planners::plan("ring", &ring, &Options::default())?;
    /// let sizes = [parse_bytes("4KiB")?, parse_bytes("4MiB")?];
    /// let [small, large] = "flow".parse::<Simulator>()?.seconds(&plan, sizes, Watch::NOTHING)?;
    /// assert!(small < large && large < small * 1024.0, "latency weighs more on the small vector");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn seconds<'a, const N: usize>(
        self,
        plan: impl Into<Walkable<'a>>,
        sizes: [Bytes; N],
        mut watch: Watch,
    ) -> Result<[Seconds; N]> {
        let plan = plan.into();
        let mut seconds = [Seconds::ZERO; N];
        let profile = (self == Self::Analytic).then(|| Profile::new(plan));
        for (seconds, size) in seconds.iter_mut().zip(sizes) {
            *seconds = match &profile {
                Some(profile) => profile.seconds(size),
                None => flow::simulate(plan, size, Watch::asking(&mut |simulated| watch.goes_on(simulated)))?.seconds,
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
