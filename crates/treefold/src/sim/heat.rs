//! How busy each link was in each of many equal windows of time: the heat of a network as it changes.
//!
//! As in [`Trace::occupied`](super::trace::Trace::occupied), a transfer occupies all links of its route from its start
//! until its last byte has left, at whatever rate; transfers that share a link count once. A sweep in the order of the
//! starts adds to each link what a transfer occupies beyond those before it. These pieces do not overlap, so that a
//! link costs no more than its pieces and the windows together.
//!
//! Cost: O(n log n) for n transfers, and linear in their routes and in links times windows. Memory: 12 bytes a transfer
//! and 8 bytes a window of a link.

use super::trace::Transfer;
use crate::plan::{Draft, LaneRoutes};
use crate::units::Seconds;

/// Returns, link by link, the fraction of each of `windows` equal parts of the time from 0 to `end` in which the link
/// carried any of `transfers`. What is sent after `end` does not count.
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// use treefold::sim::{Watch, flow, heat::heat};
/// use treefold::units::Bytes;
/// # let line = Arc::new(treefold::topology::from_spec("line:2", None, None)?);
/// # let plan = planners::plan("ring", &line, &Options::default())?;
/// let trace = flow::simulate(&plan, Bytes::known(1 << 20), Watch::TRANSFERS)?;
/// let heat = heat(&plan, &trace.transfers, trace.seconds, 4);
/// assert_eq!(heat.len(), 2 * 4, "there are two links");
/// assert!(heat.iter().all(|busy| (0.98..=1.0).contains(busy)), "but for latency, both carry data all the time");
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn heat(plan: &Draft, transfers: &[Transfer], end: Seconds, windows: usize) -> Vec<f32> {
    let routes = LaneRoutes::new(&plan.topology, &plan.lanes);
    let links = plan.topology.links().len();
    let width = end.get() / windows as f64;
    let (mut busy, mut until) = (vec![0.0; links * windows], vec![0.0f64; links]);
    if width > 0.0 {
        for place in by_start(transfers) {
            let transfer = &transfers[place as usize];
            let sent = transfer.sent.min(end).get();
            for &link in routes.of(transfer.lane) {
                let start = transfer.start.get().max(until[link]);
                if start < sent {
                    until[link] = sent;
                    let row = &mut busy[link.index() * windows..(link.index() + 1) * windows];
                    add(start, sent, width, row);
                }
            }
        }
    }
    busy.into_iter().map(|seconds| if width > 0.0 { (seconds / width).min(1.0) as f32 } else { 0.0 }).collect()
}

/// Returns the places of transfers, by when they started.
fn by_start(transfers: &[Transfer]) -> Vec<u32> {
    // As times are not negative, their bits are ordered as they are.
    let bits = transfers.iter().map(|transfer| transfer.start.get().to_bits());
    let mut timed: Vec<(u64, u32)> = bits.zip(0..).collect();
    timed.sort_unstable();
    timed.into_iter().map(|(_, place)| place).collect()
}

/// Adds the time from `start` to `end` to the windows of a link, which are `width` wide.
fn add(start: f64, end: f64, width: f64, row: &mut [f64]) {
    let window = |time: f64| ((time / width) as usize).min(row.len() - 1);
    let (first, last) = (window(start), window(end));
    if first == last {
        row[first] += end - start;
        return;
    }
    // A time that lies on a border may fall a rounding error outside of the window that the division gave it.
    row[first] += ((first + 1) as f64 * width - start).max(0.0);
    row[first + 1..last].iter_mut().for_each(|busy| *busy += width);
    row[last] += (end - last as f64 * width).max(0.0);
}

#[cfg(test)]
mod tests {
    use super::add;

    #[test]
    fn no_window_is_busy_for_less_than_no_time() {
        for windows in 1..200 {
            let width = 0.1 / windows as f64;
            for border in 1..windows {
                let mut row = vec![0.0; windows];
                add((border as f64 - 0.5) * width, (border as f64 * width).next_down(), width, &mut row);
                assert!(row.iter().all(|&busy| busy >= 0.0), "{windows} windows: {row:?}");
            }
        }
    }
}
