//! The Python binding: it turns values of Python into those of `treefold`, where all work happens, and results back.
//!
//! What else it decides is what only callers from Python need: which function of the core a name means, whether a
//! number fits the core's types, and what a tree or a statistic looks like.

mod bounds;
mod collective;
mod columns;
mod link_use;
mod options;
mod packet;
mod parts;
mod plan;
mod planning;
mod run;
mod samples;
mod schedule;
mod shape;
mod simulation;
mod text;
mod topology;
mod trace;
mod trees;
mod values;

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use numpy::PyArray1;
use pyo3::import_exception;
use pyo3::prelude::*;
use treefold::error::Error;
use treefold::units::Seconds;

use plan::Plan;
use topology::Topology;
use trace::Trace;

import_exception!(treefold.errors, DeadlineError);
import_exception!(treefold.errors, MisfitError);
import_exception!(treefold.errors, OutsideError);
import_exception!(treefold.errors, PeerError);
import_exception!(treefold.errors, TreefoldError);

/// Looks up the types of all errors, which are kept.
fn know_errors(py: Python<'_>) {
    py.get_type::<DeadlineError>();
    py.get_type::<MisfitError>();
    py.get_type::<OutsideError>();
    py.get_type::<PeerError>();
    py.get_type::<TreefoldError>();
}

/// A NumPy array of one dimension.
type Column<'py, T> = Bound<'py, PyArray1<T>>;

/// Turns an error of the core into one of Python.
fn raise(error: Error) -> PyErr {
    let message = error.to_string();
    match error.outside_kind() {
        Some(ErrorKind::TimedOut) => DeadlineError::new_err(message),
        Some(kind) if PEER_FAILURES.contains(&kind) => PeerError::new_err(message),
        Some(_) => OutsideError::new_err(message),
        None if error.is_misfit() => MisfitError::new_err(message),
        None => TreefoldError::new_err(message),
    }
}

/// What the operating system calls it if a peer is gone or cannot be reached.
const PEER_FAILURES: [ErrorKind; 7] = [
    ErrorKind::BrokenPipe,
    ErrorKind::ConnectionAborted,
    ErrorKind::ConnectionRefused,
    ErrorKind::ConnectionReset,
    ErrorKind::HostUnreachable,
    ErrorKind::NetworkUnreachable,
    ErrorKind::NotConnected,
];

/// Runs `work` without the interpreter's lock. The function that `work` gets returns false once the user has
/// interrupted it.
fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> treefold::error::Result<T> + Send,
) -> PyResult<T> {
    with_progress(py, None, |go_on| work(&mut || go_on(Seconds::ZERO)))
}

/// Simulates without the interpreter's lock; `listener` is called now and then with the seconds simulated so far.
fn with_progress<T: Send>(
    py: Python<'_>,
    listener: Option<Py<PyAny>>,
    simulate: impl FnOnce(&mut dyn FnMut(Seconds) -> bool) -> treefold::error::Result<T> + Send,
) -> PyResult<T> {
    let (mut interrupt, mut last_report) = (None, Instant::now());
    let mut go_on = |seconds: Seconds| {
        let is_due = last_report.elapsed() > REPORT_INTERVAL;
        interrupt = reported(listener.as_ref().filter(|_| is_due), seconds.get()).err();
        last_report = if is_due { Instant::now() } else { last_report };
        interrupt.is_none()
    };
    let result = py.detach(|| simulate(&mut go_on));
    result.map_err(|error| interrupt.unwrap_or_else(|| raise(error)))
}

/// Tells a listener, if there is one, how far some work is; the error is that of the listener or of a signal's handler.
fn reported(listener: Option<&Py<PyAny>>, progress: impl for<'py> IntoPyObject<'py>) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        listener.map_or(Ok(()), |listener| listener.call1(py, (progress,)).map(|_| ()))
    })
}

/// The least time between two calls of a listener.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// Returns the function of this module that has this name.
fn core<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("treefold._core")?.getattr(name)
}

/// Returns the HTML that a function of `treefold.viewing.sketch` makes of `value`; `None` if that fails, as for a wrong
/// plan, so that a notebook shows the text instead.
fn html(value: &Bound<'_, PyAny>, function: &str) -> Option<String> {
    let sketch = value.py().import("treefold.viewing.sketch");
    sketch.and_then(|sketch| sketch.call_method1(function, (value,))?.extract()).ok()
}

#[pymodule]
mod _core {
    use pyo3::prelude::*;

    /// Imports the errors. Else the first one of a kind would, and fail while an interrupt waits to be noticed.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.py().import("treefold.errors").map(|_| super::know_errors(module.py()))
    }

    /// The interface for which this core was built; Python compares it with the one that it expects.
    #[pymodule_export]
    const INTERFACE: &str = include_str!("../../../python/treefold/_core.pyi");

    #[pymodule_export]
    use super::bounds::{Bounds, CollectiveBounds, Limit, ProvenRate, collective_bounds};
    #[pymodule_export]
    use super::collective::{Collective, collectives};
    #[pymodule_export]
    use super::columns::PathSummary;
    #[pymodule_export]
    use super::link_use::{LinkUse, SharedUse, Utilization};
    #[pymodule_export]
    use super::options::{option_schema, plan_schema, read_options, trace_schema};
    #[pymodule_export]
    use super::packet::{FlitFormats, PacketRun, PacketRuns, RegionEntry, simulate_packet_together, unread_options};
    #[pymodule_export]
    use super::packet::{check_machine, flit_formats, region_entries, schedule_tables, simulate_packet};
    #[pymodule_export]
    use super::parts::vector_parts;
    #[pymodule_export]
    use super::plan::Plan;
    #[pymodule_export]
    use super::planning::{Candidate, Chosen, check_blocks, choose, is_fabric, is_quick, plan, read_plan, successors};
    #[pymodule_export]
    use super::run::{
        ControlMessage, Fault, LinkUsage, Mesh, Operation, Program, Recording, measured_trace, message_cost,
        number_bytes, run_threads, wire_bytes, wire_type,
    };
    #[pymodule_export]
    use super::samples::Samples;
    #[pymodule_export]
    use super::schedule::Schedule;
    #[pymodule_export]
    use super::shape::{Pipeline, TreeShape};
    #[pymodule_export]
    use super::simulation::{AnalyticReport, chrome_of_jobs, simulate_analytic, simulate_flow, simulate_flow_together};
    #[pymodule_export]
    use super::text::{
        Algorithm, algorithms, commit, format_bandwidth, format_size, format_time, generators, is_spec, named, nearest,
        parse_bandwidth, parse_collective, parse_size, parse_time,
    };
    #[pymodule_export]
    use super::topology::{Topology, described_topology, read_topology};
    #[pymodule_export]
    use super::trace::Trace;
    #[pymodule_export]
    use super::trees::{Edge, Link, Node, SharedCapacity, Tree};
}
