//! The binding of traces.

use std::sync::OnceLock;

use numpy::{IntoPyArray, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use treefold::plan::Walkable;
use treefold::sim::causes::causes;
use treefold::sim::critical::{critical_path, path_summary};
use treefold::sim::heat::heat;
use treefold::sim::listing::{Listed, Listing};
use treefold::sim::trace::Transfer;

use crate::columns::{PathSummary, add_edges, add_lanes, add_transfers, number, window_count};
use crate::link_use::{LinkUse, SharedUse, Utilization, shared_use};
use crate::options::Whole;
use crate::plan::Plan;
use crate::samples::samples_over;
use crate::{Column, html, interruptible, raise};

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
    peaks: Vec<u32>,
    /// Its transfers in the order of the plan's edges, and what each waited for, once somebody has asked.
    listing: OnceLock<Listing>,
    causes: OnceLock<Vec<Option<Listed>>>,
}

impl Trace {
    /// Wraps the trace of a plan; `peaks` are those of the packet simulator.
    pub fn new(plan: Py<Plan>, trace: treefold::sim::trace::Trace, peaks: Vec<u32>) -> Self {
        Self { plan, trace, peaks, listing: OnceLock::new(), causes: OnceLock::new() }
    }

    /// Returns the plan, and the listing of the transfers.
    fn listed(&self, py: Python<'_>) -> PyResult<(Walkable<'_>, &Listing)> {
        let plan = self.plan.get().sound()?;
        if self.listing.get().is_none() {
            let listing = py.detach(|| Listing::new(plan.draft(), &self.trace.transfers)).map_err(raise)?;
            // Of two threads that list them at once, either is right.
            let _ = self.listing.set(listing);
        }
        Ok((plan, self.listing.get().expect("it was just set")))
    }

    /// Returns what each transfer of a listing waited for.
    fn causes(&self, py: Python<'_>, plan: Walkable<'_>, listing: &Listing) -> PyResult<&[Option<Listed>]> {
        if self.causes.get().is_none() {
            let transfers = &self.trace.transfers;
            let found = interruptible(py, |go_on| causes(plan.draft(), transfers, listing, go_on))?;
            // Of two threads that look for them at once, either is right.
            let _ = self.causes.set(found);
        }
        Ok(self.causes.get().expect("it was just set"))
    }

    /// Returns the numbers of the transfers on the critical path.
    fn path(&self, py: Python<'_>) -> PyResult<Vec<Listed>> {
        let (plan, listing) = self.listed(py)?;
        let causes = self.causes(py, plan, listing)?;
        Ok(py.detach(|| critical_path(&self.trace, listing, causes)))
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

    /// List how busy each shared capacity was, in the order of `Topology.shared()`.
    ///
    /// Example:
    ///     >>> network = treefold.topology("full:3", node_cap="20GB/s")
    ///     >>> treefold.trace(treefold.plan(network, "direct"), size_bytes=4096).shared()[0].name
    ///     'GPU0 egress'
    fn shared(&self) -> Vec<SharedUse> {
        let topology = self.plan.get().as_written().topology();
        shared_use(topology, &self.trace.occupied, &self.trace.carried)
    }

    /// The links with the largest utilization, all that are within 0.1 %, as `source -> target`, and shared capacities
    /// by their names.
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

    /// Return a dictionary with a NumPy array for each column of the plan and of the transfers, as a viewer draws them.
    ///
    /// Transfers have the order of the edges of the plan that they carry, and on each edge that of their chunks; a
    /// transfer's number is its place in this order. A message that carries parts of several trees stands at the first
    /// of them. The columns of lanes, trees and edges are those of the plan, and `Plan.columns` has them, too:
    ///
    /// - `lane_source`, `lane_target` (uint32): the nodes between which each lane goes, in the direction of the data,
    ///   numbered as in `Topology.link_columns`. The lanes are those that edges use.
    /// - `lane_start`, `lane_links` (uint32): lane i takes the links `lane_links[lane_start[i]:lane_start[i + 1]]`, in
    ///   this order; they are places in `links()`.
    /// - `tree_root` (uint32), `tree_phase` (uint16), `tree_share` (float32): the root of each tree, its phase, and its
    ///   share of the vector, from 0 to 1.
    /// - `half_start` (uint32): the reduce half of tree t has the edges `half_start[2 * t]` to `half_start[2 * t + 1]`,
    ///   without the last, and the broadcast half those from there to `half_start[2 * t + 2]`.
    /// - `edge_lane` (uint32), `edge_step` (uint16): the lane and the step of each edge; the step is 0 in streams.
    ///
    /// These have an item for each edge, too:
    ///
    /// - `edge_transfer` (uint32): the number of the first transfer that carries the edge's data, or 4294967295 if none
    ///   does. Edges whose data one message carries have the same transfer.
    /// - `edge_chunks` (uint32): how many transfers the edge has; their numbers follow each other.
    ///
    /// The last columns have an item for each transfer. Times are seconds after the start; bytes are rounded to
    /// float32, that is to about seven digits.
    ///
    /// - `lane` (uint32): its lane, as its place in the columns `lane_source` and `lane_target`.
    /// - `tree` (uint32), `phase`, `step` (uint16), `chunk` (uint32), `reduces` (bool): as in `transfers`.
    /// - `bytes` (float32), `start_s`, `sent_s`, `received_s` (float64): as in `transfers`.
    /// - `cause` (int32): the number of the transfer that it waited for last, or -1 if it waited for none. What a
    ///   transfer waits for are its data, which are received at the node that sends it, and its links, which an earlier
    ///   transfer leaves; what ended last before its start is the cause.
    ///
    /// Transfers have items only if they are recorded, as `treefold.trace` records them. The first call sorts them and
    /// looks for causes; the trace keeps the result.
    ///
    /// Example:
    ///     >>> columns = treefold.trace(treefold.plan("ring:4", "ring"), size_bytes=4096).columns()
    ///     >>> columns["half_start"].tolist(), columns["edge_transfer"][:4].tolist()
    ///     ([0, 3, 6, 9, 12, 15, 18, 21, 24], [0, 1, 2, 3])
    ///     >>> columns["cause"][:6].tolist()  # Data go up to the root, last edge first, and down again.
    ///     [1, 2, -1, 0, 3, 4]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (plan, listing) = self.listed(py)?;
        let causes = self.causes(py, plan, listing)?;
        let columns = PyDict::new(py);
        let lanes = add_lanes(&columns, plan.draft())?;
        add_edges(&columns, plan.draft(), &lanes)?;
        let first: Vec<u32> = listing.edge_transfer.iter().map(|first| first.map_or(u32::MAX, Listed::get)).collect();
        columns.set_item("edge_transfer", first.into_pyarray(py))?;
        columns.set_item("edge_chunks", listing.edge_chunks.clone().into_pyarray(py))?;
        add_transfers(&columns, &lanes, &self.trace, listing)?;
        let causes: Vec<i32> = causes.iter().map(|cause| cause.map_or(-1, |cause| cause.get() as i32)).collect();
        columns.set_item("cause", causes.into_pyarray(py))?;
        Ok(columns)
    }

    /// Return the numbers of the transfers on the critical path as a NumPy array, from the first to the last.
    ///
    /// The path ends with the transfer that was received last, and each transfer of it is the cause of the next. It
    /// says why the collective takes as long as it takes. Numbers are those of `columns`.
    ///
    /// Example:
    ///     >>> treefold.trace(treefold.plan("ring:4", "ring"), size_bytes=4096).critical_path().tolist()
    ///     [2, 1, 0, 3, 4, 5]
    fn critical_path<'py>(&self, py: Python<'py>) -> PyResult<Column<'py, u32>> {
        Ok(self.path(py)?.into_iter().map(Listed::get).collect::<Vec<_>>().into_pyarray(py))
    }

    /// Return what the time is spent on along the critical path, a `PathSummary`.
    ///
    /// Example:
    ///     >>> treefold.trace(treefold.plan("ring:4", "ring"), size_bytes=4096).path_summary()
    ///     PathSummary(6 transfers, 384ns sending + 900ns latency + 0ps waiting = 1.284us)
    fn path_summary(&self, py: Python<'_>) -> PyResult<PathSummary> {
        let path = self.path(py)?;
        let (plan, listing) = self.listed(py)?;
        Ok(PathSummary::new(path_summary(plan.draft(), &self.trace, listing, &path)))
    }

    /// Return how busy each link was in equal windows of the whole time, a float32 array of links and windows.
    ///
    /// An item is the fraction of the window, from 0 to 1, in which the link carried any transfer of this trace, at
    /// whatever rate. Links are in the order of `links()`. A trace of an in-network plan by the packet simulator has no
    /// transfers; its links are busy while they carry a packet.
    ///
    /// Args:
    ///     windows: How many windows the time is cut into, from 1 to 100000.
    ///
    /// Raises:
    ///     TreefoldError: If there are more windows, or none, or too many for the links of the network.
    ///
    /// Example:
    ///     >>> busy = treefold.trace(treefold.plan("line:4", "ring"), size_bytes=4096).busy(3)
    ///     >>> busy.shape, round(float(busy[0].mean()), 2)
    ///     ((6, 3), 0.2)
    fn busy<'py>(&self, py: Python<'py>, windows: Whole) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let plan = self.plan.get().sound()?;
        let links = plan.topology.links().len();
        let count = window_count(&windows, links)?;
        let busy = py.detach(|| match self.trace.busy_samples() {
            Some(samples) => samples.over(count),
            None => heat(plan.draft(), &self.trace.transfers, self.trace.seconds, count),
        });
        busy.into_pyarray(py).reshape([links, count])
    }

    /// Return what the packet simulator sampled over time: a dictionary with a `Samples` for each quantity.
    ///
    /// Values are means over equal windows of the whole time. Other simulators sample nothing. Where routers run:
    ///
    /// - `buffers`: the flits in all input buffers of each node.
    /// - `credits`: the share of time in which a link was free, and what wanted it waited for nothing but credit: the
    ///   virtual channel of a flit had none, or no free channel had room for a whole packet.
    /// - `contention`: the share of time in which two or more inputs of a router had flits for the same link at the
    ///   front of their buffers.
    ///
    /// Where an in-network plan runs on a fabric:
    ///
    /// - `tables`: the bytes in all reduction tables of each switch, if switches reduce.
    /// - `busy`: the share of time in which a link carried a packet, as in `busy`.
    ///
    /// The simulator keeps 129 to 256 windows of a power of two of cycles, or one for each cycle if that is fewer; what
    /// lies in one of them is spread evenly over it. Of jobs that ran together, the values are those of all jobs.
    ///
    /// Args:
    ///     windows: How many windows the time is cut into, from 1 to 100000.
    ///
    /// Raises:
    ///     TreefoldError: If there are more windows, or none, or too many for the links of the network.
    ///
    /// Example:
    ///     >>> trace = treefold.trace(treefold.plan("torus:3x3", "dbtree"), size_bytes="64KiB", simulator="packet")
    ///     >>> samples = trace.samples(100)
    ///     >>> list(samples), samples["contention"].of, samples["contention"].values.shape
    ///     (['buffers', 'credits', 'contention'], 'links', (36, 100))
    ///     >>> treefold.trace(treefold.plan("torus:3x3", "dbtree"), size_bytes="64KiB").samples(100)
    ///     {}
    fn samples<'py>(&self, py: Python<'py>, windows: Whole) -> PyResult<Bound<'py, PyDict>> {
        let topology = self.plan.get().as_written().topology();
        let windows = window_count(&windows, topology.links().len().max(topology.nodes().len()))?;
        samples_over(py, &self.trace.samples, topology, windows)
    }

    /// Return the numbers of the transfers whose routes have a link as a NumPy array, in rising order.
    ///
    /// Args:
    ///     link: The link, as its place in `links()`. Transfers have the numbers of `columns`.
    ///
    /// Raises:
    ///     TreefoldError: If there is no such link.
    ///
    /// Example:
    ///     >>> treefold.trace(treefold.plan("ring:4", "ring"), size_bytes=4096).transfers_of_link(1).tolist()
    ///     [3, 6, 13, 17, 20, 22]
    fn transfers_of_link<'py>(&self, py: Python<'py>, link: Whole) -> PyResult<Column<'py, u32>> {
        let (plan, listing) = self.listed(py)?;
        let link = number("link", &link)?;
        let numbers = py.detach(|| listing.transfers_of_link(plan.draft(), link)).map_err(raise)?;
        Ok(numbers.into_pyarray(py))
    }

    /// Return the numbers of the transfers that carry data of a tree as a NumPy array, in rising order.
    ///
    /// Args:
    ///     tree: The tree, as its place in `Plan.trees()`. Transfers have the numbers of `columns`.
    ///
    /// Raises:
    ///     TreefoldError: If there is no such tree.
    ///
    /// Example:
    ///     >>> treefold.trace(treefold.plan("ring:4", "ring"), size_bytes=4096).transfers_of_tree(1).tolist()
    ///     [6, 7, 8, 9, 10, 11]
    fn transfers_of_tree<'py>(&self, py: Python<'py>, tree: Whole) -> PyResult<Column<'py, u32>> {
        let (_, listing) = self.listed(py)?;
        let numbers = listing.transfers_of_tree(number("tree", &tree)?).map_err(raise)?;
        Ok(numbers.into_pyarray(py))
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
        Ok(Self::new(plan, trace, Vec::new()))
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

    fn _repr_html_(slf: &Bound<'_, Self>) -> Option<String> {
        html(slf.as_any(), "of_trace")
    }

    fn __repr__(&self) -> String {
        let plan = self.plan.get().as_written();
        let (time_s, transfers) = (self.trace.seconds.get(), self.trace.transfers.len());
        format!("Trace({:?}, {}, time_s={time_s:?}, transfers={transfers})", plan.algorithm(), plan.collective())
    }

    /// Return the transfers as the text of a Chrome trace, which Perfetto shows. If there are none, what was sampled is
    /// counters in it.
    ///
    /// Example:
    ///     >>> treefold.trace(treefold.plan("ring:4", "ring"), size_bytes=4096).to_chrome()[:23]
    ///     '{"displayTimeUnit":"ns"'
    fn to_chrome(&self, py: Python<'_>) -> PyResult<String> {
        let plan = self.plan.get().sound()?;
        Ok(py.detach(|| treefold::sim::chrome::to_chrome(&[(plan, &self.trace)])))
    }
}
