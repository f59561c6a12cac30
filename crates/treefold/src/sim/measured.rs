//! Traces of runs: how busy links were follows from when transfers left.
//!
//! A transfer is taken to occupy each link of its route from when its first byte left until its last byte had left.
//! Over TCP the last byte has left when the kernel has taken it, which may be up to 512 KiB ahead of the wire.
//! Cost: two sorts of the transfers, and one pass over the links of their routes.

use super::trace::{Trace, Transfer};
use crate::plan::{LaneRoutes, Walkable};
use crate::units::{Bytes, Seconds, Time};

impl Trace {
    /// Returns the trace of these transfers of a plan on vectors of one size, which are of lanes that the plan has.
    /// `uncertainty` says how far the clocks of ranks may have been apart.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("ring", &ring, &Options::default())?;
    /// use treefold::sim::{Watch, flow::simulate, trace::Trace};
    /// use treefold::units::{Bytes, Seconds};
    ///
    /// let size = Bytes::known(1 << 20);
    /// let simulated = simulate(&plan, size, Watch::TRANSFERS)?;
    /// let measured = Trace::measured(&plan, size, simulated.transfers.clone(), Seconds::ZERO);
    /// assert_eq!((measured.seconds, measured.carried.len()), (simulated.seconds, ring.links().len()));
    /// assert_eq!(measured.busiest_links(), simulated.busiest_links());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn measured<'a>(
        plan: impl Into<Walkable<'a>>,
        size: Bytes,
        mut transfers: Vec<Transfer>,
        uncertainty: Seconds,
    ) -> Self {
        let plan = plan.into().draft();
        let (routes, network) = (LaneRoutes::new(&plan.topology, &plan.lanes), &plan.topology);
        let [mut occupied, mut carried, mut busy_until] = [const { Vec::new() }; 3].map(|mut times: Vec<Seconds>| {
            times.resize(network.num_capacities(), Seconds::ZERO);
            times
        });
        transfers.sort_by_key(|transfer| transfer.start);
        for transfer in &transfers {
            for &link in routes.capacities(transfer.lane) {
                let from = transfer.start.max(busy_until[link]);
                busy_until[link] = busy_until[link].max(transfer.sent);
                occupied[link] = occupied[link] + (busy_until[link] - from);
                let overhead = network.links().get(link.index()).map_or(Time::ZERO, |link| link.overhead);
                carried[link] = carried[link] + network.bandwidth(link).seconds_for(transfer.bytes) + overhead.into();
            }
        }
        transfers.sort_by_key(|transfer| transfer.sent);
        let seconds = transfers.iter().map(|transfer| transfer.received).max().unwrap_or_default();
        Self { size, seconds, occupied, carried, transfers, uncertainty, samples: Vec::new() }
    }
}
