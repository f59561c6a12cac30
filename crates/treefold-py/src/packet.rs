//! The binding of the packet simulator and of schedule tables.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use treefold::number::Operator;
use treefold::plan::tables::{self, Entry, Tables};
use treefold::sim::Watch;
use treefold::sim::packet::{
    self, FabricStats, Figures, Options, Outcome, RegionEntry, Sending, Together, flit, readers, workload,
};
use treefold::topology::NodeId;
use treefold::units::Seconds;

use super::options::read;
use super::simulation::{Traffic, background, jobs};
use super::{Plan, Topology, Trace, raise, vector_size, with_progress};

/// The counts of a packet simulation, as `treefold.results.PacketReport` explains them.
#[pyclass(frozen, get_all, module = "treefold")]
pub struct PacketCounts {
    cycles: u64,
    clock_hz: f64,
    packets: u64,
    flits: u64,
    head_flits: u64,
    buffer_peak_flits: Option<u32>,
    buffer_cover: Option<f64>,
    switches: &'static str,
    fabric: Option<Py<FabricCounts>>,
}

/// The counts of a fabric, as `treefold.results.FabricReport` explains them.
#[pyclass(frozen, get_all, module = "treefold")]
pub struct FabricCounts {
    op: Option<&'static str>,
    evictions: u64,
    timeouts: u64,
    bypasses: u64,
    stalls: u64,
    failed_allocations: u64,
    retransmissions: u64,
    duplicates: u64,
    table_bytes: Option<u64>,
    timeout_cycles: Option<u64>,
    table_peak_bytes: u64,
    packet_latency_s: f64,
    waves: Option<u32>,
    memory_read_bytes: u64,
    memory_written_bytes: u64,
    digest: Option<String>,
}

impl PacketCounts {
    fn new(py: Python<'_>, outcome: &Outcome) -> PyResult<Self> {
        let fabric = outcome.fabric.as_ref().map(|fabric| Py::new(py, FabricCounts::new(fabric))).transpose()?;
        Ok(Self {
            cycles: outcome.cycles,
            clock_hz: outcome.clock.hertz(),
            packets: outcome.packets,
            flits: outcome.flits,
            head_flits: outcome.packets,
            buffer_peak_flits: outcome.peaks.iter().max().copied(),
            buffer_cover: outcome.buffer_cover,
            switches: if fabric.is_some() { "fabric" } else { "routers" },
            fabric,
        })
    }
}

impl FabricCounts {
    fn new(fabric: &FabricStats) -> Self {
        Self {
            op: fabric.op.map(Operator::name),
            evictions: fabric.evictions,
            timeouts: fabric.timeouts,
            bypasses: fabric.bypasses,
            stalls: fabric.stalls,
            failed_allocations: fabric.failed_allocations,
            retransmissions: fabric.retransmissions,
            duplicates: fabric.duplicates,
            table_bytes: fabric.table.map(|table| table.get()),
            timeout_cycles: fabric.timeout,
            table_peak_bytes: fabric.table_peak.get(),
            packet_latency_s: fabric.mean_latency.get(),
            waves: fabric.waves,
            memory_read_bytes: fabric.reads,
            memory_written_bytes: fabric.writes,
            digest: fabric.digest.map(|digest| format!("{digest:016x}")),
        }
    }
}

/// Simulate a plan cycle by cycle; return the trace, and the counts that only this simulator has.
#[pyfunction]
#[pyo3(signature = (plan, size_bytes, record, options, listener=None))]
pub fn simulate_packet(
    py: Python<'_>,
    plan: Py<Plan>,
    size_bytes: u64,
    record: bool,
    options: &Bound<'_, PyDict>,
    listener: Option<Py<PyAny>>,
) -> PyResult<(Trace, PacketCounts)> {
    let sound = plan.get().sound()?;
    let machine: Options = read(options)?;
    readers::refuse_unread(sound, &machine).map_err(raise)?;
    let size = vector_size(size_bytes)?;
    let outcome = with_progress(py, listener, |go_on| {
        packet::simulate(sound, size, &machine, Watch { transfers: record, go_on: Some(go_on) })
    })?;
    let counts = PacketCounts::new(py, &outcome)?;
    Ok((Trace { plan, trace: outcome.trace, peaks: outcome.peaks }, counts))
}

/// `(messages, mean_latency_s, p99_latency_s)` of background traffic.
type Latencies = (u64, Option<f64>, Option<f64>);
/// The trace and the counts of a job.
type OfJob = (Trace, PacketCounts);

/// Simulate plans that begin at once cycle by cycle, or with `only` one of them, on the same machine; return the trace
/// and the counts of each that sends, and the figures of the background.
#[pyfunction]
#[pyo3(signature = (plans, sizes_bytes, traffic, only, record, options, listener=None))]
#[expect(clippy::too_many_arguments, reason = "Python passes them one by one")]
pub fn simulate_packet_together(
    py: Python<'_>,
    plans: Vec<Py<Plan>>,
    sizes_bytes: Vec<u64>,
    traffic: Option<Traffic>,
    only: Option<usize>,
    record: bool,
    options: &Bound<'_, PyDict>,
    listener: Option<Py<PyAny>>,
) -> PyResult<(Vec<OfJob>, Option<Latencies>)> {
    let machine: Options = read(options)?;
    let jobs = jobs(&plans, &sizes_bytes)?;
    jobs.iter().try_for_each(|job| readers::refuse_unread(job.plan, &machine)).map_err(raise)?;
    let together = Together { jobs: &jobs, background: traffic.map(background).transpose()? };
    let sending = only.map_or(Sending::All, Sending::Only);
    let outcomes = with_progress(py, listener, |go_on| {
        together.simulate(&machine, sending, Watch { transfers: record, go_on: Some(go_on) })
    })?;
    let senders = plans.iter().skip(only.unwrap_or(0));
    let row = |(plan, outcome): (&Py<Plan>, Outcome)| {
        let counts = PacketCounts::new(py, &outcome)?;
        Ok((Trace { plan: plan.clone_ref(py), trace: outcome.trace, peaks: outcome.peaks }, counts))
    };
    let rows = senders.zip(outcomes.jobs).map(row).collect::<PyResult<_>>()?;
    let figures = |Figures { messages, mean_latency, p99_latency }| {
        (messages, mean_latency.map(Seconds::get), p99_latency.map(Seconds::get))
    };
    Ok((rows, outcomes.background.map(figures)))
}

/// Refuse a machine on which no plan for the network runs.
#[pyfunction]
pub fn check_machine(topology: &Topology, options: &Bound<'_, PyDict>) -> PyResult<()> {
    packet::check(&topology.0, &read(options)?).map_err(raise)
}

/// Return the names of a machine's options that were given and that the simulation of a plan does not read.
#[pyfunction]
pub fn unread_options(plan: &Plan, options: &Bound<'_, PyDict>) -> PyResult<Vec<String>> {
    let unread = readers::unread(plan.sound()?, &read(options)?).map_err(raise)?;
    Ok(unread.into_iter().map(|unread| unread.option).collect())
}

/// `(switch, source, targets, operands)` of an entry, by name.
type RegionRow = (String, Option<String>, Vec<String>, u32);

/// Return the entries that switches get for a plan's multicast region, as the packet simulator has them.
#[pyfunction]
pub fn region_entries(py: Python<'_>, plan: &Plan) -> PyResult<Vec<RegionRow>> {
    let plan = plan.sound()?;
    let entries = py.detach(|| packet::region_entries(plan)).map_err(raise)?;
    let name = |node: NodeId| plan.topology.node(node).name.clone();
    let row = |entry: RegionEntry| {
        let targets = entry.targets.into_iter().map(name).collect();
        (name(entry.switch), entry.source.map(name), targets, entry.operands)
    };
    Ok(entries.into_iter().map(row).collect())
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
    let plan = plan.runnable()?;
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
