//! A trace: when each transfer started and ended, and how busy each link was.

use super::Report;
use super::samples::{Quantity, Samples};
use crate::plan::{LaneRef, Step, busiest_of};
use crate::topology::LinkId;
use crate::units::{Bytes, Seconds};

/// The course of a simulation.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// The size of the vector.
    pub size: Bytes,
    /// The time from the start of the simulation to the last receipt.
    pub seconds: Seconds,
    /// The time in which each link carried anything, at whatever rate.
    pub occupied: Vec<Seconds>,
    /// The time that each link would have needed at its full rate for what it carried, overheads included.
    pub carried: Vec<Seconds>,
    /// All transfers if they were asked for, and none if not. The flow simulator lists them by when their last bytes
    /// left; the packet simulator's order means nothing, and it lists none of a plan in whose trees there are switches.
    pub transfers: Vec<Transfer>,
    /// How far the clocks of a run may have been apart; nothing if the trace was simulated.
    pub uncertainty: Seconds,
    /// What the packet simulator samples over time, if transfers were asked for.
    pub samples: Vec<Samples>,
}

/// One message, or one chunk of a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transfer {
    /// Its sender, receiver and route.
    pub lane: LaneRef,
    /// The tree that it belongs to; the first of them where a message carries parts of several.
    pub tree: u32,
    /// Its phase of the plan, from 0.
    pub phase: u16,
    /// Its step of the phase, from 1; it is `None` in streams, which have no steps.
    pub step: Option<Step>,
    /// Its chunk of the stream, from 0.
    pub chunk: u32,
    /// Whether it carries partial sums towards a root.
    pub reduces: bool,
    /// The bytes that it carries.
    pub bytes: f64,
    /// The time from the start of the simulation until its first byte left.
    pub start: Seconds,
    /// The time until its last byte left, so that it no longer occupied its links.
    pub sent: Seconds,
    /// The time until its last byte was received.
    pub received: Seconds,
}

impl Trace {
    /// Reports time and utilisation.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use treefold::planners::{self, Options};
    /// use treefold::sim::{Watch, flow};
    /// use treefold::topology::from_spec;
    /// use treefold::units::parse_bytes;
    ///
    /// let line = Arc::new(from_spec("line:2", None, None)?);
    /// let plan = planners::plan("ring", &line, &Options::default())?;
    /// let trace = flow::simulate(&plan, parse_bytes("1MiB")?, Watch::NOTHING)?;
    /// let report = trace.report();
    /// assert_eq!(report.seconds, trace.seconds);
    /// assert!((0.9..1.0).contains(&report.mean_utilization), "both links are busy but for their latency");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn report(&self) -> Report {
        Report::new(self.size, self.seconds, self.carried.iter().copied())
    }

    /// Returns how busy links were, if that was sampled.
    pub fn busy_samples(&self) -> Option<&Samples> {
        self.samples.iter().find(|samples| samples.quantity == Quantity::Busy)
    }

    /// Returns the links that carried the most for their bandwidth, all that are within 0.1 %; none if nothing is sent.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use treefold::planners::{self, Options};
    /// use treefold::sim::{Watch, flow};
    /// use treefold::topology::{Directions, from_spec};
    /// use treefold::units::{parse_bandwidth, parse_bytes};
    ///
    /// let narrow = [(("GPU1".into(), "GPU2".into()), parse_bandwidth("1GB/s")?)];
    /// let line = Arc::new(from_spec("line:4", None, None)?.with_bandwidths(&narrow, Directions::OneWay)?);
    /// let plan = planners::plan("dbtree", &line, &Options::default())?;
    /// let trace = flow::simulate(&plan, parse_bytes("1MiB")?, Watch::NOTHING)?;
    /// let busiest = trace.busiest_links();
    /// assert_eq!(busiest.iter().map(|&link| line.describe_link(link)).collect::<Vec<_>>(), ["GPU1 -> GPU2"]);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn busiest_links(&self) -> Vec<LinkId> {
        if self.seconds == Seconds::ZERO {
            return Vec::new();
        }
        let seconds: Vec<f64> = self.carried.iter().map(|seconds| seconds.get()).collect();
        busiest_of(&seconds)
    }
}
