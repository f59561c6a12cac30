//! The binding of the analytic and the flow simulator, and of traces.

use numpy::IntoPyArray;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use treefold::plan::alpha_beta::Profile;
use treefold::sim::trace::Transfer;
use treefold::sim::{Background, Job, Watch};

use crate::options::Size;
use crate::plan::Plan;
use crate::{raise, with_progress};

/// What the analytic simulator predicts, as `treefold.results.Prediction` explains it.
#[pyclass(frozen, get_all, module = "treefold")]
pub struct AnalyticReport {
    time_s: f64,
    mean_utilization: f64,
    max_utilization: f64,
}

/// Simulate a plan by the model of time.
#[pyfunction]
pub fn simulate_analytic(py: Python<'_>, plan: &Plan, size_bytes: Size) -> PyResult<AnalyticReport> {
    let plan = plan.sound()?;
    let report = py.detach(|| treefold::sim::analytic::simulate(&Profile::new(plan), size_bytes.0));
    let (mean_utilization, max_utilization) = (report.mean_utilization, report.max_utilization);
    Ok(AnalyticReport { time_s: report.seconds.get(), mean_utilization, max_utilization })
}

/// A trace of a simulated plan: when each transfer started and ended, and how busy each link was.
///
/// `treefold.trace` makes one.
///
/// Example:
///     >>> trace = treefold.trace(treefold.plan("ring:4", "ring"), size_bytes=4096)
///     >>> trace.time_s, trace.busiest_links
///     (1.284e-06, ['GPU0 -> GPU1', 'GPU1 -> GPU2', 'GPU2 -> GPU3', 'GPU3 -> GPU0'])
///     >>> trace.utilization
///     Utilization(mean=0.1495, max=0.2991)
#[pyclass(frozen, module = "treefold")]
pub struct Trace {
    pub plan: Py<Plan>,
    pub trace: treefold::sim::trace::Trace,
    pub peaks: Vec<u32>,
}

/// The utilization of links, from 0 to 1.
///
/// A link's utilization is the time that its messages would occupy it at its full bandwidth, overheads included,
/// divided by the time of the collective.
///
/// Example:
///     >>> used = treefold.trace(treefold.plan("line:2", "ring"), size_bytes=1 << 30).utilization
///     >>> round(used.mean, 3), round(used.max, 3)
///     (1.0, 1.0)
#[pyclass(frozen, get_all, eq, module = "treefold")]
#[derive(PartialEq)]
pub struct Utilization {
    /// The mean over all links.
    mean: f64,
    /// The utilization of the busiest link.
    max: f64,
}

#[pymethods]
impl Utilization {
    fn __repr__(&self) -> String {
        format!("Utilization(mean={:.4}, max={:.4})", self.mean, self.max)
    }
}

/// The time for which a link was busy.
///
/// Example:
///     >>> [first, *others] = treefold.trace(treefold.plan("line:4", "ring"), size_bytes=4096).links()
///     >>> first.source, first.target, first.busy_s, first.full_rate_s
///     ('GPU0', 'GPU1', 3.839999999999999e-07, 3.84e-07)
#[pyclass(frozen, get_all, module = "treefold")]
pub struct LinkUse {
    /// The name of the node where the link starts.
    source: String,
    /// The name of the node where the link ends.
    target: String,
    /// The seconds in which the link carried data, at whatever rate.
    busy_s: f64,
    /// The seconds that the link would have needed at its full rate, overheads included.
    full_rate_s: f64,
}

#[pymethods]
impl LinkUse {
    fn __repr__(&self) -> String {
        let busy = treefold::units::format_seconds(self.busy_s);
        format!("LinkUse({:?} -> {:?}, busy for {busy})", self.source, self.target)
    }
}

#[pymethods]
impl Trace {
    /// The seconds from the start of the simulation to the last receipt.
    #[getter]
    fn time_s(&self) -> f64 {
        self.trace.seconds.get()
    }

    /// How much the links are used, a `Utilization`.
    #[getter]
    fn utilization(&self) -> Utilization {
        let report = self.trace.report();
        Utilization { mean: report.mean_utilization, max: report.max_utilization }
    }

    /// List how busy each link was, in the order in which the network lists its links.
    ///
    /// Example:
    ///     >>> treefold.trace(treefold.plan("line:4", "ring"), size_bytes=4096).links()[0]
    ///     LinkUse("GPU0" -> "GPU1", busy for 384ns)
    fn links(&self) -> Vec<LinkUse> {
        let topology = self.plan.get().as_written().topology();
        let busy = self.trace.occupied.iter().zip(&self.trace.carried);
        let links = topology.links().iter().zip(busy);
        links
            .map(|(link, (busy, needed))| {
                let name = |node| topology.node(node).name.clone();
                LinkUse {
                    source: name(link.source),
                    target: name(link.target),
                    busy_s: busy.get(),
                    full_rate_s: needed.get(),
                }
            })
            .collect()
    }

    /// The links with the largest utilization, all that are within 0.1 %, as `source -> target`.
    #[getter]
    fn busiest_links(&self) -> Vec<String> {
        let topology = self.plan.get().as_written().topology();
        self.trace.busiest_links().into_iter().map(|link| topology.describe_link(link)).collect()
    }

    /// The most flits in a virtual channel's buffer at the end of each link, in the order of `links()`; the list is
    /// empty unless the packet simulator ran with routers.
    #[getter]
    fn buffer_peak_flits(&self) -> Vec<u32> {
        self.peaks.clone()
    }

    /// Return a dictionary with a NumPy array for each column, with an item for each transfer.
    ///
    /// The flow simulator lists the transfers by `sent_s`; the order in which the packet simulator lists them means
    /// nothing.
    ///
    /// In streams, each chunk on each edge is a transfer. The columns are:
    ///
    /// - `source`, `target`: the numbers of the nodes that send and receive, as in `Topology.link_columns`.
    /// - `tree`: the tree, as its place in `Plan.trees()`; the first of them if a transfer carries parts of several.
    /// - `phase`, `step`: the phase, counted from 0, and its step, counted from 1; the step is 0 in streams.
    /// - `chunk`: the chunk of the tree's span, counted from 0.
    /// - `reduces`: whether the transfer carries a partial sum towards a root.
    /// - `bytes`: how much it carries, which need not be a whole number.
    /// - `start_s`: the time at which its first byte left, in seconds after the start.
    /// - `sent_s`: the time at which its last byte left, in seconds after the start, so that it no longer occupied its
    ///   links.
    /// - `received_s`: the time at which its last byte was received, in seconds after the start.
    ///
    /// Example:
    ///     >>> transfers = treefold.trace(treefold.plan("ring:4", "ring"), size_bytes=4096).transfers()
    ///     >>> float(transfers["bytes"].sum())
    ///     24576.0
    fn transfers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (transfers, lanes) = (&self.trace.transfers, &self.plan.get().sound()?.draft().lanes);
        let columns = PyDict::new(py);
        let whole = |name, value: &dyn Fn(&Transfer) -> u32| {
            columns.set_item(name, transfers.iter().map(value).collect::<Vec<_>>().into_pyarray(py))
        };
        whole("source", &|transfer| lanes.ends_of(transfer.lane).0.0)?;
        whole("target", &|transfer| lanes.ends_of(transfer.lane).1.0)?;
        whole("tree", &|transfer| transfer.tree)?;
        whole("phase", &|transfer| transfer.phase.into())?;
        whole("step", &|transfer| transfer.step.map_or(0, |step| step.get().into()))?;
        whole("chunk", &|transfer| transfer.chunk)?;
        columns.set_item(
            "reduces",
            transfers.iter().map(|transfer| transfer.reduces).collect::<Vec<_>>().into_pyarray(py),
        )?;
        let real = |name, value: fn(&Transfer) -> f64| {
            columns.set_item(name, transfers.iter().map(value).collect::<Vec<_>>().into_pyarray(py))
        };
        real("bytes", |transfer| transfer.bytes)?;
        real("start_s", |transfer| transfer.start.get())?;
        real("sent_s", |transfer| transfer.sent.get())?;
        real("received_s", |transfer| transfer.received.get())?;
        Ok(columns)
    }

    fn _repr_html_(slf: &Bound<'_, Self>) -> PyResult<String> {
        slf.py().import("treefold.html")?.call_method1("of_trace", (slf,))?.extract()
    }

    fn __repr__(&self) -> String {
        let plan = self.plan.get().as_written();
        let (time_s, transfers) = (self.trace.seconds.get(), self.trace.transfers.len());
        format!("Trace({:?}, {}, time_s={time_s:?}, transfers={transfers})", plan.algorithm(), plan.collective())
    }

    /// Return the transfers as the text of a Chrome trace, which Perfetto shows.
    ///
    /// Example:
    ///     >>> treefold.trace(treefold.plan("ring:4", "ring"), size_bytes=4096).to_chrome()[:23]
    ///     '{"displayTimeUnit":"ns"'
    fn to_chrome(&self, py: Python<'_>) -> PyResult<String> {
        let plan = self.plan.get().sound()?;
        Ok(py.detach(|| treefold::sim::chrome::to_chrome(&[(plan, &self.trace)])))
    }

    /// A bound of how far the clock of a rank may be from that of rank 0, in seconds; 0 if the trace was simulated.
    #[getter]
    fn clock_uncertainty_s(&self) -> f64 {
        self.trace.uncertainty.get()
    }

    /// The size of the vector, in bytes.
    #[getter]
    fn size_bytes(&self) -> u64 {
        self.trace.size.get()
    }

    /// The plan that was simulated or run.
    #[getter]
    fn plan(&self, py: Python<'_>) -> Py<Plan> {
        self.plan.clone_ref(py)
    }

    /// Parse the text of a trace file; `plan` is the one that was run.
    ///
    /// Raises:
    ///     TreefoldError: If the text is malformed, or is the trace of another plan.
    ///
    /// Example:
    ///     >>> plan = treefold.plan("ring:4", "ring")
    ///     >>> trace = treefold.trace(plan, size_bytes=4096)
    ///     >>> treefold.Trace.from_json(trace.to_json(), plan).time_s == trace.time_s
    ///     True
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str, plan: Py<Plan>) -> PyResult<Self> {
        let walked = plan.get().sound()?;
        let trace = py.detach(|| treefold::sim::trace::Trace::from_json(text, walked)).map_err(raise)?;
        Ok(Self { trace, plan, peaks: Vec::new() })
    }

    /// Return the trace as the text of a trace file.
    ///
    /// Example:
    ///     >>> treefold.trace(treefold.plan("ring:4", "ring"), size_bytes=4096).to_json()[:27]
    ///     '{"format":"treefold-trace",'
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        let plan = self.plan.get().sound()?;
        Ok(py.detach(|| self.trace.to_json(plan)))
    }
}

/// Return the transfers of jobs that ran together as the text of one Chrome trace, with a process for each.
#[pyfunction]
pub fn chrome_of_jobs(traces: Vec<Py<Trace>>) -> PyResult<String> {
    let jobs = traces.iter().map(|trace| Ok((trace.get().plan.get().sound()?, &trace.get().trace)));
    Ok(treefold::sim::chrome::to_chrome(&jobs.collect::<PyResult<Vec<_>>>()?))
}

/// Background traffic: the attributes of `treefold.together.Background`.
#[derive(FromPyObject)]
pub struct Traffic {
    load: f64,
    message_bytes: Size,
    seed: u64,
}

impl Traffic {
    /// Returns the core's.
    pub fn background(self) -> Background {
        Background { load: self.load, message: self.message_bytes.0, seed: self.seed }
    }
}

/// Lists the jobs of plans and the sizes of their vectors.
pub fn jobs<'a>(plans: &'a [Py<Plan>], sizes_bytes: &[Size]) -> PyResult<Vec<Job<'a>>> {
    let job = |(plan, size): (&'a Py<Plan>, &Size)| Ok(Job::new(plan.get().sound()?, size.0));
    plans.iter().zip(sizes_bytes).map(job).collect()
}

/// Simulate plans that begin at once by events; return a trace for each.
#[pyfunction]
#[pyo3(signature = (plans, sizes_bytes, traffic, record, listener=None))]
pub fn simulate_flow_together(
    py: Python<'_>,
    plans: Vec<Py<Plan>>,
    sizes_bytes: Vec<Size>,
    traffic: Option<Traffic>,
    record: bool,
    listener: Option<Py<PyAny>>,
) -> PyResult<Vec<Trace>> {
    let (jobs, traffic) = (jobs(&plans, &sizes_bytes)?, traffic.map(Traffic::background));
    let traces = with_progress(py, listener, |go_on| {
        treefold::sim::flow::simulate_together(&jobs, traffic.as_ref(), Watch { transfers: record, go_on: Some(go_on) })
    })?;
    drop(jobs);
    Ok(plans.into_iter().zip(traces).map(|(plan, trace)| Trace { plan, trace, peaks: Vec::new() }).collect())
}

/// Simulate a plan by events; the trace lists its transfers if `record` is set.
#[pyfunction]
#[pyo3(signature = (plan, size_bytes, record, listener=None))]
pub fn simulate_flow(
    py: Python<'_>,
    plan: Py<Plan>,
    size_bytes: Size,
    record: bool,
    listener: Option<Py<PyAny>>,
) -> PyResult<Trace> {
    let sound = plan.get().sound()?;
    let trace = with_progress(py, listener, |go_on| {
        treefold::sim::flow::simulate(sound, size_bytes.0, Watch { transfers: record, go_on: Some(go_on) })
    })?;
    Ok(Trace { plan, trace, peaks: Vec::new() })
}
