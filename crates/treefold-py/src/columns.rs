//! The binding of what viewers draw: columns of plans and traces, and the summary of a critical path.

use numpy::{Element, IntoPyArray};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use treefold::plan::{Draft, EdgeColumns, LaneColumns};
use treefold::sim::critical;
use treefold::sim::listing::Listing;
use treefold::sim::trace::{Trace, Transfer};
use treefold::units::{Seconds, format_seconds};

use crate::TreefoldError;
use crate::options::Whole;

/// What the time of a trace is spent on along its critical path.
///
/// `sending_s + latency_s + waiting_s` is `time_s`, but for rounding.
///
/// Example:
///     >>> summary = treefold.trace(treefold.plan("line:2", "ring"), size_bytes=1 << 20).path_summary()
///     >>> summary.transfers, round(summary.sending_s / summary.time_s, 2), summary.waiting_s
///     (2, 1.0, 0.0)
#[pyclass(frozen, get_all, eq, module = "treefold")]
#[derive(PartialEq)]
pub struct PathSummary {
    /// How many transfers are on the path.
    transfers: usize,
    /// The seconds in which transfers of the path left, until the last byte of each.
    sending_s: f64,
    /// The seconds from the last byte's leaving to its receipt, of transfers whose receipt the next one waited for, and
    /// of the last one.
    latency_s: f64,
    /// The other seconds: before the first transfer, between the end of a cause and the start of what it caused, and
    /// after the last receipt.
    waiting_s: f64,
    /// The seconds of the whole trace.
    time_s: f64,
}

impl PathSummary {
    pub fn new(summary: critical::PathSummary) -> Self {
        let critical::PathSummary { transfers, sending, latency, waiting, time } = summary;
        let [sending_s, latency_s, waiting_s, time_s] = [sending, latency, waiting, time].map(|part| part.get());
        Self { transfers, sending_s, latency_s, waiting_s, time_s }
    }
}

#[pymethods]
impl PathSummary {
    fn __repr__(&self) -> String {
        let Self { transfers, sending_s, latency_s, waiting_s, time_s } = *self;
        let [sending, latency, waiting, time] = [sending_s, latency_s, waiting_s, time_s].map(format_seconds);
        format!(
            "PathSummary({transfers} transfers, {sending} sending + {latency} latency + {waiting} waiting = {time})"
        )
    }
}

/// Adds the columns of the lanes that edges of a plan use; returns the lanes.
pub fn add_lanes(columns: &Bound<'_, PyDict>, plan: &Draft) -> PyResult<LaneColumns> {
    let lanes = columns.py().detach(|| LaneColumns::new(plan));
    add(columns, "lane_source", lanes.lanes.iter().map(|&lane| plan.lanes.ends_of(lane).0.0))?;
    add(columns, "lane_target", lanes.lanes.iter().map(|&lane| plan.lanes.ends_of(lane).1.0))?;
    add(columns, "lane_start", lanes.start.iter().copied())?;
    add(columns, "lane_links", lanes.links.iter().copied())?;
    Ok(lanes)
}

/// Adds the columns of a plan's trees and edges.
pub fn add_edges(columns: &Bound<'_, PyDict>, plan: &Draft, lanes: &LaneColumns) -> PyResult<()> {
    let edges = columns.py().detach(|| EdgeColumns::new(plan));
    let phases = (0u16..).zip(&plan.phases).flat_map(|(number, phase)| phase.trees.clone().map(move |_| number));
    add(columns, "tree_root", plan.trees.iter().map(|tree| tree.root.0))?;
    add(columns, "tree_phase", phases)?;
    add(columns, "tree_share", plan.trees.iter().map(|tree| (tree.units() as f64 / plan.units as f64) as f32))?;
    add(columns, "half_start", edges.half_start.iter().copied())?;
    add(columns, "edge_lane", edges.lane.iter().map(|&lane| lanes.number_of(lane)))?;
    add(columns, "edge_step", edges.step.iter().map(|step| step.map_or(0, |step| step.get())))
}

/// Adds the columns of the transfers of a trace, but for their causes.
pub fn add_transfers(
    columns: &Bound<'_, PyDict>,
    lanes: &LaneColumns,
    trace: &Trace,
    listing: &Listing,
) -> PyResult<()> {
    let listed = || listing.transfers(&trace.transfers);
    add(columns, "lane", listed().map(|transfer| lanes.number_of(transfer.lane)))?;
    add(columns, "tree", listed().map(|transfer| transfer.tree))?;
    add(columns, "phase", listed().map(|transfer| transfer.phase))?;
    add(columns, "step", listed().map(|transfer| transfer.step.map_or(0, |step| step.get())))?;
    add(columns, "chunk", listed().map(|transfer| transfer.chunk))?;
    add(columns, "reduces", listed().map(|transfer| transfer.reduces))?;
    add(columns, "bytes", listed().map(|transfer| transfer.bytes as f32))?;
    let time =
        |name, value: fn(&Transfer) -> Seconds| add(columns, name, listed().map(|transfer| value(transfer).get()));
    time("start_s", |transfer| transfer.start)?;
    time("sent_s", |transfer| transfer.sent)?;
    time("received_s", |transfer| transfer.received)
}

/// Adds a column.
fn add<T: Element>(columns: &Bound<'_, PyDict>, name: &str, values: impl Iterator<Item = T>) -> PyResult<()> {
    columns.set_item(name, values.collect::<Vec<T>>().into_pyarray(columns.py()))
}

/// Returns the number of a tree or a link that a caller gives.
pub fn number(what: &str, given: &Whole) -> PyResult<usize> {
    given.value.and_then(|number| usize::try_from(number).ok()).ok_or_else(|| {
        let written = &given.written;
        TreefoldError::new_err(format!("there is no {what} {written}; {what}s are counted from 0"))
    })
}

/// Returns how many windows a caller gives for each of so many links.
pub fn window_count(given: &Whole, links: usize) -> PyResult<usize> {
    let most = MOST_WINDOWS.min(MOST_ITEMS / links.max(1));
    let count = given.value.and_then(|count| usize::try_from(count).ok());
    count.filter(|count| (1..=most).contains(count)).ok_or_else(|| {
        let written = &given.written;
        TreefoldError::new_err(format!("windows must be from 1 to {most} for {links} links, got {written}"))
    })
}

/// The most windows that a trace is cut into.
const MOST_WINDOWS: usize = 100_000;

/// The most windows of all links together: they take 1.5 GB.
const MOST_ITEMS: usize = 1 << 27;
