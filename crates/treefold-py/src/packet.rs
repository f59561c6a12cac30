//! The packet simulator and schedule tables, for Python.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use treefold::plan::tables::{self, Entry, Tables};
use treefold::sim::packet::{self, Options, flit, workload};
use treefold::units::Bytes;

use super::options::read;
use super::{Plan, Topology, Trace, raise, watched};

/// Simulates cycle by cycle; returns the trace and what only packets have.
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
    let mut outcome = watched(py, listener, |go_on| packet::simulate(sound, size, &machine, record, go_on))?;
    let facts = PyDict::new(py);
    facts.set_item("cycles", outcome.cycles)?;
    facts.set_item("clock_hz", outcome.clock_hz)?;
    facts.set_item("packets", outcome.packets)?;
    facts.set_item("flits", outcome.flits)?;
    facts.set_item("head_flits", outcome.packets)?;
    facts.set_item("buffer_peak_flits", outcome.peaks.iter().max())?;
    facts.set_item("buffer_cover", Some(outcome.buffer_cover).filter(|cover| cover.is_finite()))?;
    facts.set_item("switches", if outcome.fabric.is_some() { "fabric" } else { "routers" })?;
    if let Some(seen) = outcome.fabric.take() {
        facts.set_item("evictions", seen.evictions)?;
        facts.set_item("timeouts", seen.timeouts)?;
        facts.set_item("bypasses", seen.bypasses)?;
        facts.set_item("table_bytes", seen.table.map(|table| table.0))?;
        facts.set_item("timeout_cycles", seen.timeout)?;
        facts.set_item("table_peak_bytes", seen.table_peak.0)?;
        facts.set_item("packet_latency_s", seen.mean_latency)?;
        facts.set_item("waves", seen.waves)?;
        facts.set_item("memory_read_bytes", seen.reads)?;
        facts.set_item("memory_written_bytes", seen.writes)?;
        facts.set_item("digest", seen.digest.map(|digest| format!("{digest:016x}")))?;
    }
    Ok((Trace { plan, trace: outcome.trace, peaks: outcome.peaks }, facts))
}

type Formats = Vec<(&'static str, Vec<flit::Field>)>;

/// The types of flits (name, code), and their formats: name, fields with their bits.
#[pyfunction]
pub fn flit_formats(topology: &Topology, options: &Bound<'_, PyDict>) -> PyResult<(Vec<(&'static str, u8)>, Formats)> {
    let options: Options = read(options)?;
    options.check().map_err(raise)?;
    let types = flit::Kind::ALL.map(|kind| (kind.name(), kind as u8));
    Ok((types.to_vec(), flit::formats(&topology.0, &options).to_vec()))
}

type Row = (&'static str, u32, Option<u32>, Vec<u32>, u32, u64, u64);

/// The entries of every rank's table (op, flow, parent, children, step, start, size), and the bits of one.
#[pyfunction]
pub fn schedule_tables(py: Python<'_>, plan: &Plan, size_bytes: u64) -> PyResult<(Vec<Vec<Row>>, u64)> {
    let plan = plan.sound()?;
    let tables = py.detach(|| {
        let schedule = tables::lower(plan, size_bytes.div_ceil(workload::ELEMENT), workload::ELEMENT)?;
        Tables::new(plan, &schedule, workload::ELEMENT, tables::lockstep(plan))
    });
    let tables = tables.map_err(raise)?;
    let row = |entry: &Entry| {
        let Entry { op, flow, parent, step, start, size, .. } = *entry;
        (op.name(), flow, parent, entry.children.clone(), step, start, size)
    };
    Ok((tables.of_rank.iter().map(|table| table.iter().map(row).collect()).collect(), tables.entry_bits()))
}
