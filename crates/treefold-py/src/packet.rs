//! The binding of the packet simulator and of schedule tables.

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use treefold::number::Operator;
use treefold::plan::tables::{self, Entry};
use treefold::sim::Watch;
use treefold::sim::packet::{self, FabricStats, Figures, Options, Outcome, Sending, Together, flit, readers, workload};
use treefold::topology::NodeId;
use treefold::units::Seconds;

use super::options::{Known, Size};
use super::simulation::{Traffic, jobs};
use super::{Plan, Topology, Trace, raise, with_progress};

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

/// A simulated job of the packet simulator.
#[pyclass(frozen, get_all, module = "treefold")]
pub struct PacketRun {
    /// The trace.
    trace: Py<Trace>,
    /// The counts that only this simulator has.
    counts: Py<PacketCounts>,
}

impl PacketRun {
    fn new(py: Python<'_>, plan: Py<Plan>, outcome: Outcome) -> PyResult<Self> {
        let counts = Py::new(py, PacketCounts::new(py, &outcome)?)?;
        let trace = Py::new(py, Trace::new(plan, outcome.trace, outcome.peaks))?;
        Ok(Self { trace, counts })
    }
}

/// Simulate a plan cycle by cycle, on the machine with all defaults unless one is given.
#[pyfunction]
#[pyo3(signature = (plan, size_bytes, record, machine, listener=None))]
pub fn simulate_packet(
    py: Python<'_>,
    plan: Py<Plan>,
    size_bytes: Size,
    record: bool,
    machine: Given,
    listener: Option<Py<PyAny>>,
) -> PyResult<PacketRun> {
    let (sound, machine) = (plan.get().sound()?, options(machine));
    readers::refuse_unread(sound, &machine).map_err(raise)?;
    let outcome = with_progress(py, listener, |go_on| {
        packet::simulate(sound, size_bytes.0, &machine, Watch { transfers: record, go_on: Some(go_on) })
    })?;
    PacketRun::new(py, plan, outcome)
}

/// A machine; `None` stands for the one with all defaults.
type Given = Option<Known<Options>>;

fn options(machine: Given) -> Options {
    machine.map(|Known(options)| options).unwrap_or_default()
}

/// Jobs that the packet simulator has simulated together.
#[pyclass(frozen, get_all, module = "treefold")]
pub struct PacketRuns {
    /// The jobs that have sent.
    jobs: Vec<Py<PacketRun>>,
    /// The background traffic; None if there was none.
    background: Option<Py<BackgroundCounts>>,
}

/// What became of background traffic, as `treefold.results.BackgroundReport` explains it.
#[pyclass(frozen, get_all, module = "treefold")]
pub struct BackgroundCounts {
    messages: u64,
    mean_latency_s: Option<f64>,
    p99_latency_s: Option<f64>,
}

impl BackgroundCounts {
    fn new(figures: &Figures) -> Self {
        let [mean_latency_s, p99_latency_s] =
            [figures.mean_latency, figures.p99_latency].map(|latency| latency.map(Seconds::get));
        Self { messages: figures.messages, mean_latency_s, p99_latency_s }
    }
}

/// Simulate plans that begin at once cycle by cycle, or with `only` one of them, on the same machine.
#[pyfunction]
#[pyo3(signature = (plans, sizes_bytes, traffic, only, record, machine, listener=None))]
#[expect(clippy::too_many_arguments, reason = "Python passes them one by one")]
pub fn simulate_packet_together(
    py: Python<'_>,
    plans: Vec<Py<Plan>>,
    sizes_bytes: Vec<Size>,
    traffic: Option<Traffic>,
    only: Option<usize>,
    record: bool,
    machine: Given,
    listener: Option<Py<PyAny>>,
) -> PyResult<PacketRuns> {
    let (machine, jobs) = (options(machine), jobs(&plans, &sizes_bytes)?);
    jobs.iter().try_for_each(|job| readers::refuse_unread(job.plan, &machine)).map_err(raise)?;
    let together = Together { jobs: &jobs, background: traffic.map(Traffic::background) };
    let sending = only.map_or(Sending::All, Sending::Only);
    let outcomes = with_progress(py, listener, |go_on| {
        together.simulate(&machine, sending, Watch { transfers: record, go_on: Some(go_on) })
    })?;
    let senders = plans.iter().skip(only.unwrap_or(0));
    let run = |(plan, outcome): (&Py<Plan>, Outcome)| Py::new(py, PacketRun::new(py, plan.clone_ref(py), outcome)?);
    let jobs = senders.zip(outcomes.jobs).map(run).collect::<PyResult<_>>()?;
    let background = outcomes.background.map(|figures| Py::new(py, BackgroundCounts::new(&figures))).transpose()?;
    Ok(PacketRuns { jobs, background })
}

/// Refuse a machine on which no plan for the network runs.
#[pyfunction]
pub fn check_machine(topology: &Topology, machine: Given) -> PyResult<()> {
    packet::check(&topology.0, &options(machine)).map_err(raise)
}

/// Return the names of a machine's options that were given and that the simulation of a plan does not read.
#[pyfunction]
pub fn unread_options(plan: &Plan, machine: Given) -> PyResult<Vec<String>> {
    let unread = readers::unread(plan.sound()?, &options(machine)).map_err(raise)?;
    Ok(unread.into_iter().map(|unread| unread.option).collect())
}

/// The entry of a switch for a plan's multicast region, as `treefold.regions.SwitchEntry` explains it.
#[pyclass(frozen, get_all, module = "treefold")]
pub struct RegionEntry {
    switch: String,
    source: Option<String>,
    targets: Vec<String>,
    operands: u32,
}

/// Return the entries that switches get for a plan's multicast region, as the packet simulator has them.
#[pyfunction]
pub fn region_entries(py: Python<'_>, plan: &Plan) -> PyResult<Vec<RegionEntry>> {
    let plan = plan.sound()?;
    let entries = py.detach(|| packet::region_entries(plan)).map_err(raise)?;
    let name = |node: NodeId| plan.topology.node(node).name.clone();
    let named = |packet::RegionEntry { switch, source, targets, operands }| {
        let targets = targets.into_iter().map(name).collect();
        RegionEntry { switch: name(switch), source: source.map(name), targets, operands }
    };
    Ok(entries.into_iter().map(named).collect())
}

/// The types and the formats of flits.
#[pyclass(frozen, get_all, module = "treefold")]
pub struct FlitFormats {
    /// The code of each type.
    types: Py<PyDict>,
    /// The fields of each format, from the first bit on, each with its bits.
    formats: Py<PyDict>,
}

/// Return the types and the formats of a network's flits, by name.
#[pyfunction]
pub fn flit_formats(py: Python<'_>, topology: &Topology, machine: Given) -> PyResult<FlitFormats> {
    let machine = options(machine);
    machine.check().map_err(raise)?;
    let types = flit::Kind::ALL.map(|kind| (kind.name(), kind as u8)).into_py_dict(py)?;
    let formats = flit::formats(&topology.0, &machine).map(|(name, fields)| Ok((name, fields.into_py_dict(py)?)));
    let formats = formats.into_iter().collect::<PyResult<Vec<_>>>()?.into_py_dict(py)?;
    Ok(FlitFormats { types: types.unbind(), formats: formats.unbind() })
}

/// The schedule tables of all ranks.
#[pyclass(frozen, get_all, module = "treefold")]
pub struct Tables {
    /// The entries of each rank's table, each a `treefold.schedule_tables.TableEntry`.
    entries: Vec<Vec<Py<PyAny>>>,
    /// The bits of an entry.
    entry_bits: u64,
}

/// Return the schedule tables of all ranks.
#[pyfunction]
pub fn schedule_tables(py: Python<'_>, plan: &Plan, size_bytes: Size) -> PyResult<Tables> {
    let plan = plan.runnable()?;
    let tables = py.detach(|| {
        let elements = size_bytes.0.get().div_ceil(workload::ELEMENT);
        let schedule = tables::lower_for_interfaces(plan, elements, workload::ELEMENT)?;
        tables::Tables::new(plan, &schedule, workload::ELEMENT, tables::lockstep(plan))
    });
    let (tables, class) = (tables.map_err(raise)?, py.import("treefold.schedule_tables")?.getattr("TableEntry")?);
    let shown = |entry: &Entry| {
        let Entry { op, flow, parent, ref children, step, start, size, .. } = *entry;
        Ok(class.call1((op.name(), flow, parent, children, step, start, size))?.unbind())
    };
    let entries = tables.of_rank.iter().map(|table| table.iter().map(shown).collect()).collect::<PyResult<_>>()?;
    Ok(Tables { entries, entry_bits: tables.entry_bits() })
}
