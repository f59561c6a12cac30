//! The binding of the packet simulator and of schedule tables.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use treefold::plan::tables::{self, Entry, Tables};
use treefold::sim::packet::{self, Options, flit, workload};
use treefold::units::Bytes;

use super::options::read;
use super::{Plan, Topology, Trace, raise, with_progress};

/// Simulate a plan cycle by cycle; return the trace, and a dict of statistics that only this simulator has.
#[pyfunction]
#[pyo3(signature = (plan, size_bytes, record, options, listener=None))]
pub fn simulate_packet<'py>(
    py: Python<'py>,
    plan: Py<Plan>,
    size_bytes: u64,
    record: bool,
    options: &Bound<'py, PyDict>,
    listener: Option<Py<PyAny>>,
) -> PyResult<(Trace, Bound<'py, PyDict>)> {
    let sound = plan.get().sound()?;
    let machine: Options = read(options)?;
    let size = Bytes(size_bytes);
    let mut outcome = with_progress(py, listener, |go_on| packet::simulate(sound, size, &machine, record, go_on))?;
    let stats = PyDict::new(py);
    stats.set_item("cycles", outcome.cycles)?;
    stats.set_item("clock_hz", outcome.clock_hz)?;
    stats.set_item("packets", outcome.packets)?;
    stats.set_item("flits", outcome.flits)?;
    stats.set_item("head_flits", outcome.packets)?;
    stats.set_item("buffer_peak_flits", outcome.peaks.iter().max())?;
    stats.set_item("buffer_cover", Some(outcome.buffer_cover).filter(|cover| cover.is_finite()))?;
    stats.set_item("switches", if outcome.fabric.is_some() { "fabric" } else { "routers" })?;
    if let Some(fabric) = outcome.fabric.take() {
        stats.set_item("evictions", fabric.evictions)?;
        stats.set_item("timeouts", fabric.timeouts)?;
        stats.set_item("bypasses", fabric.bypasses)?;
        stats.set_item("table_bytes", fabric.table.map(|table| table.0))?;
        stats.set_item("timeout_cycles", fabric.timeout)?;
        stats.set_item("table_peak_bytes", fabric.table_peak.0)?;
        stats.set_item("packet_latency_s", fabric.mean_latency)?;
        stats.set_item("waves", fabric.waves)?;
        stats.set_item("memory_read_bytes", fabric.reads)?;
        stats.set_item("memory_written_bytes", fabric.writes)?;
        stats.set_item("digest", fabric.digest.map(|digest| format!("{digest:016x}")))?;
    }
    Ok((Trace { plan, trace: outcome.trace, peaks: outcome.peaks }, stats))
}

/// Refuse a machine on which no plan for the network runs.
#[pyfunction]
pub fn check_machine(topology: &Topology, options: &Bound<'_, PyDict>) -> PyResult<()> {
    packet::check(&topology.0, &read(options)?).map_err(raise)
}

/// The name of each format of a flit, and its fields.
type Formats = Vec<(&'static str, Vec<flit::Field>)>;

/// Return the types of flits as `(name, code)`, and their formats as `(name, fields)`, each field with its bits.
#[pyfunction]
pub fn flit_formats(topology: &Topology, options: &Bound<'_, PyDict>) -> PyResult<(Vec<(&'static str, u8)>, Formats)> {
    let options: Options = read(options)?;
    options.check().map_err(raise)?;
    let types = flit::Kind::ALL.map(|kind| (kind.name(), kind as u8));
    Ok((types.to_vec(), flit::formats(&topology.0, &options).to_vec()))
}

/// `(op, flow, parent, children, step, start, size)` of an entry.
type Row = (&'static str, u32, Option<u32>, Vec<u32>, u32, u64, u64);

/// Return the entries of every rank's schedule table, and the bits of an entry.
///
/// An entry is `(op, flow, parent, children, step, start, size)`.
#[pyfunction]
pub fn schedule_tables(py: Python<'_>, plan: &Plan, size_bytes: u64) -> PyResult<(Vec<Vec<Row>>, u64)> {
    let plan = plan.sound()?;
    let tables = py.detach(|| {
        let schedule = tables::lower_for_interfaces(plan, size_bytes.div_ceil(workload::ELEMENT), workload::ELEMENT)?;
        Tables::new(plan, &schedule, workload::ELEMENT, tables::lockstep(plan))
    });
    let tables = tables.map_err(raise)?;
    let row = |entry: &Entry| {
        let Entry { op, flow, parent, step, start, size, .. } = *entry;
        (op.name(), flow, parent, entry.children.clone(), step, start, size)
    };
    Ok((tables.of_rank.iter().map(|table| table.iter().map(row).collect()).collect(), tables.entry_bits()))
}
