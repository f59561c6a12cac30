//! The critical path of a trace: the chain of transfers, each the cause of the next, that ends with the last receipt.
//! It says why a collective takes as long as it takes.
//!
//! Cost: linear in the transfers.

use super::causes::is_by_receipt;
use super::listing::{Listed, Listing};
use super::trace::Trace;
use crate::plan::Draft;
use crate::units::Seconds;

/// What the time of a trace is spent on along its critical path. The parts add up to the whole.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PathSummary {
    /// How many transfers are on the path.
    pub transfers: usize,
    /// The time in which transfers of the path left, until the last byte of each.
    pub sending: Seconds,
    /// The time from the last byte's leaving to its receipt, of transfers whose receipt the next one waited for, and of
    /// the last one.
    pub latency: Seconds,
    /// The rest: before the first transfer starts, between the end of a cause and the start of what it caused, and
    /// after the last receipt.
    pub waiting: Seconds,
    /// The time of the trace.
    pub time: Seconds,
}

/// Returns the critical path, from its first transfer to the one that was received last (of several, the first in the
/// listing); it is empty where nothing is sent, or no transfers are recorded. The `causes` are those of
/// [`super::causes::causes`].
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// use treefold::sim::{Watch, causes::causes, critical::{critical_path, path_summary}, flow, listing::Listing};
/// use treefold::units::Bytes;
/// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
/// # let plan = planners::plan("ring", &ring, &Options::default())?;
/// let trace = flow::simulate(&plan, Bytes::known(4096), Watch::TRANSFERS)?;
/// let listing = Listing::new(&plan, &trace.transfers)?;
/// let causes = causes(&plan, &trace.transfers, &listing, &mut || true)?;
/// let path = critical_path(&trace, &listing, &causes);
/// assert_eq!(path.len(), 6, "a chunk goes around a ring of four, but for one step, twice");
/// let summary = path_summary(&plan, &trace, &listing, &path);
/// assert_eq!(summary.waiting.get(), 0.0);
/// assert!(((summary.sending + summary.latency) / trace.seconds - 1.0).abs() < 1e-9);
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn critical_path(trace: &Trace, listing: &Listing, causes: &[Option<Listed>]) -> Vec<Listed> {
    let received = |number: &Listed| listing.get(&trace.transfers, *number).received;
    let last = listing.ids().max_by_key(|number| (received(number), std::cmp::Reverse(*number)));
    let mut path: Vec<Listed> = std::iter::successors(last, |&number| causes[number]).collect();
    path.reverse();
    path
}

/// Returns what the time of a trace is spent on along its critical path.
pub fn path_summary(plan: &Draft, trace: &Trace, listing: &Listing, path: &[Listed]) -> PathSummary {
    let (mut sending, mut latency, mut waiting, mut end) = (0.0, 0.0, 0.0, 0.0);
    let transfers: Vec<_> = path.iter().map(|&number| listing.get(&trace.transfers, number)).collect();
    for (place, transfer) in transfers.iter().enumerate() {
        let next = transfers.get(place + 1);
        let (start, sent, received) = (transfer.start.get(), transfer.sent.get(), transfer.received.get());
        waiting += start - end;
        sending += sent - start;
        let awaits_receipt = next.is_none_or(|next| is_by_receipt(plan, transfer, next));
        latency += if awaits_receipt { received - sent } else { 0.0 };
        end = if awaits_receipt { received } else { sent };
    }
    waiting += trace.seconds.get() - end;
    // Clocks that do not quite agree may make the sum of the gaps negative.
    let [sending, latency, waiting] = [sending, latency, waiting].map(|part| Seconds::known(part.max(0.0)));
    PathSummary { transfers: path.len(), sending, latency, waiting, time: trace.seconds }
}
