//! The Python binding, as thin as it can be: types cross as plain values, work happens in `treefold`.

mod packet;
mod run;

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock};

use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1};
use pyo3::import_exception;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use treefold::error::{self, Error};
use treefold::plan::{Chunk, Collective, check::check, check_schedule::check_schedule, schedule};
use treefold::planners::Options;
use treefold::planners::forest::{self, Resources, SpanningTree};
use treefold::planners::in_network::steiner::Halves;
use treefold::planners::{gost, packing, surviving};
use treefold::sim::Model;
use treefold::sim::trace::Span;
use treefold::topology::LinkModel;
use treefold::units::{Bandwidth, Bytes, Time};
use treefold::{auto, planners, topology, units};

import_exception!(treefold.errors, TreefoldError);

/// Turns the core's error into Python's.
fn raise(error: Error) -> PyErr {
    TreefoldError::new_err(error.to_string())
}

/// Bytes of a size such as `64MiB`.
#[pyfunction]
fn parse_size(text: &str) -> PyResult<u64> {
    Ok(units::parse_bytes(text).map_err(raise)?.0)
}

/// Bytes a second of a bandwidth such as `100Gbit/s`.
#[pyfunction]
fn parse_bandwidth(text: &str) -> PyResult<f64> {
    Ok(units::parse_bandwidth(text).map_err(raise)?.0)
}

/// Seconds of a time such as `150ns`.
#[pyfunction]
fn parse_time(text: &str) -> PyResult<f64> {
    Ok(units::parse_time(text).map_err(raise)?.seconds())
}

/// The collective's own name for `all_reduce`, `AllReduce`, ...
#[pyfunction]
fn parse_collective(text: &str) -> PyResult<String> {
    Ok(text.parse::<Collective>().map_err(raise)?.to_string())
}

/// `64MiB` for 67108864.
#[pyfunction]
fn format_size(size_bytes: u64) -> String {
    Bytes(size_bytes).to_string()
}

/// `12.5GB/s` for 12.5e9.
#[pyfunction]
fn format_bandwidth(bandwidth: f64) -> String {
    Bandwidth(bandwidth).to_string()
}

/// `150ns` for 1.5e-7.
#[pyfunction]
fn format_time(time_s: f64) -> String {
    units::format_seconds(time_s)
}

/// Whether `text` starts with a generator's name.
#[pyfunction]
fn is_spec(text: &str) -> bool {
    topology::is_spec(text)
}

/// An example spec of every generator.
#[pyfunction]
fn generators() -> Vec<&'static str> {
    topology::GENERATORS.iter().map(|generator| generator.example).collect()
}

/// Name and summary of every algorithm.
#[pyfunction]
fn algorithms() -> Vec<(&'static str, &'static str)> {
    planners::PLANNERS.iter().map(|planner| (planner.name, planner.summary)).collect()
}

/// The one of `known` that `text` names, whatever its case, hyphens and underscores; `what` says of what it is one.
#[pyfunction]
fn named(what: &str, text: &str, known: Vec<String>) -> PyResult<String> {
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    let found = error::find(text, &names).ok_or_else(|| raise(error::unknown(what, text, &names)))?;
    Ok(known[found].clone())
}

/// Up to three of `known` that `text` may stand for, the most likely first.
#[pyfunction]
fn nearest(text: &str, known: Vec<String>) -> Vec<String> {
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    error::nearest(text, &names).into_iter().map(str::to_owned).collect()
}

/// Name of every collective.
#[pyfunction]
fn collectives() -> Vec<&'static str> {
    Collective::NAMES.iter().map(|(_, name)| *name).collect()
}

/// A network. Equal networks are equal keys of caches.
#[pyclass(frozen, eq, hash, module = "treefold")]
struct Topology(Arc<topology::Topology>);

impl PartialEq for Topology {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Hash for Topology {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0.name(), self.0.ranks(), self.0.nodes().len(), self.0.links().len()).hash(state);
    }
}

#[pymethods]
impl Topology {
    /// The network of a spec such as `torus:8x8`; bandwidth (bytes a second) and latency (seconds) set every link.
    #[staticmethod]
    #[pyo3(signature = (spec, bandwidth=None, latency_s=None))]
    fn from_spec(spec: &str, bandwidth: Option<f64>, latency_s: Option<f64>) -> PyResult<Self> {
        let bandwidth = bandwidth.map(Bandwidth::new).transpose().map_err(raise)?;
        let latency = latency_s.map(Time::from_seconds).transpose().map_err(raise)?;
        Ok(Self(Arc::new(topology::from_spec(spec, bandwidth, latency).map_err(raise)?)))
    }

    /// The network of a topology file's text; what may be missing there, `treefold.topology` fills in.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        Ok(Self(Arc::new(py.detach(|| topology::Topology::from_json(text)).map_err(raise)?)))
    }

    /// The network as the text of a topology file.
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((core(py, "read_topology")?, (self.to_json(),)))
    }

    /// Itself: a network never changes.
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    /// The same network with these accelerators as its ranks, by position in the file, rank 0 first.
    fn with_ranks(&self, ranks: Vec<u32>) -> PyResult<Self> {
        Ok(Self(Arc::new(self.0.with_ranks(&ranks).map_err(raise)?)))
    }

    /// Its name: the spec, or what the file says.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// How many accelerators are ranks.
    #[getter]
    fn ranks(&self) -> u32 {
        self.0.ranks()
    }

    /// How many accelerators there are, ranks or not.
    #[getter]
    fn accelerators(&self) -> usize {
        self.0.num_accelerators()
    }

    /// How many switches there are.
    #[getter]
    fn switches(&self) -> usize {
        self.0.nodes().len() - self.0.num_accelerators()
    }

    /// How many directed links there are.
    #[getter]
    fn links(&self) -> usize {
        self.0.links().len()
    }

    /// Sum over pairs of opposite links of the lesser one's bandwidth; None where a link has no other direction.
    #[getter]
    fn cable_capacity(&self) -> Option<f64> {
        let bandwidth = |link: u32| self.0.link(link).bandwidth.0;
        let both = |link: u32| Some(bandwidth(link).min(bandwidth(self.0.reverse(link)?)));
        let sum: Option<f64> = (0..self.0.links().len() as u32).map(both).sum();
        sum.map(|twice| twice / 2.0)
    }

    /// The same network as a link model sees it.
    fn under(&self, link_model: &str) -> PyResult<Self> {
        Ok(Self(Arc::new(self.0.under(link_model.parse().map_err(raise)?))))
    }

    /// What no plan can beat; computed afresh at every call.
    fn bounds(&self, py: Python<'_>) -> Bounds {
        Bounds(py.detach(|| treefold::bound::bounds(&self.0)))
    }

    /// `(source, target, bandwidth)` of each link; ranks are the nodes `0..ranks`.
    fn link_columns<'py>(&self, py: Python<'py>) -> (Column<'py, u32>, Column<'py, u32>, Column<'py, f64>) {
        let links = self.0.links();
        let sources: Vec<u32> = links.iter().map(|link| link.source).collect();
        let targets: Vec<u32> = links.iter().map(|link| link.target).collect();
        let bandwidths: Vec<f64> = links.iter().map(|link| link.bandwidth.0).collect();
        (sources.into_pyarray(py), targets.into_pyarray(py), bandwidths.into_pyarray(py))
    }

    /// `(reduces, multicasts)` of each node.
    fn abilities(&self) -> (Vec<bool>, Vec<bool>) {
        self.0.nodes().iter().map(|node| (node.reduces, node.multicasts)).unzip()
    }

    /// Names of all accelerators, in the order in which the file or generator listed them.
    #[getter]
    fn accelerator_names(&self) -> Vec<&str> {
        self.0.accelerator_names()
    }

    /// Names of the ranks, in rank order.
    #[getter]
    fn rank_names(&self) -> Vec<&str> {
        self.0.nodes()[..self.0.ranks() as usize].iter().map(|node| node.name.as_str()).collect()
    }

    fn __repr__(&self) -> String {
        format!("Topology({:?}, ranks={}, links={})", self.0.name(), self.0.ranks(), self.0.links().len())
    }
}

/// What no plan for a network can beat.
#[pyclass(frozen, module = "treefold")]
struct Bounds(treefold::bound::Bounds);

#[pymethods]
impl Bounds {
    /// `(name, rate or None where nothing is sent, exact, method)` of each bound.
    #[getter]
    fn rates(&self) -> Vec<(&'static str, Option<f64>, bool, &'static str)> {
        let bounds = &self.0;
        let named = [
            ("reduce_scatter_all_gather", Some(bounds.reduce_scatter_all_gather)),
            ("all_reduce", Some(bounds.all_reduce)),
            ("in_network", bounds.in_network),
        ];
        let row = |(name, bound): (&'static str, Option<treefold::bound::Bound>)| {
            let bound = bound?;
            Some((name, Some(bound.rate.0).filter(|rate| rate.is_finite()), bound.exact, bound.method))
        };
        named.into_iter().filter_map(row).collect()
    }

    /// The same with what a linear program found, without or with the help of switches.
    fn tightened(&self, with_switches: bool, rate: f64, exact: bool) -> Self {
        Self(self.0.tightened(with_switches, Bandwidth(rate), exact))
    }

    /// Seconds between the two ranks that are farthest apart.
    #[getter]
    fn latency_s(&self) -> f64 {
        self.0.farthest.seconds()
    }

    /// Seconds that no all-reduce of this size can beat.
    fn seconds(&self, size_bytes: u64) -> f64 {
        self.0.seconds(Bytes(size_bytes))
    }
}

/// `(factor, sets)`: by what, at most 1, all `rates` at which nodes broadcast to ranks `0..ranks` can be multiplied
/// within the capacities of the links, and a row of flags for each set of nodes that proves a factor below 1.
#[pyfunction]
fn find_cuts<'py>(
    py: Python<'py>,
    ranks: usize,
    ends: Vec<(u32, u32)>,
    capacity: PyReadonlyArray1<'py, f64>,
    rates: PyReadonlyArray1<'py, f64>,
) -> PyResult<(f64, Bound<'py, PyArray2<bool>>)> {
    let rates = rates.as_slice()?;
    let links = treefold::bound::Links { nodes: rates.len(), ends: &ends, capacity: capacity.as_slice()? };
    let (factor, sets) = py.detach(|| treefold::bound::find_cuts(&links, rates, ranks));
    Ok((factor, PyArray2::from_vec2(py, &sets).expect("a flag for each node")))
}

/// An all-reduce, or another collective, on one network. Equal plans send the same and were made for the same size.
#[pyclass(frozen, eq, hash, module = "treefold")]
struct Plan {
    plan: treefold::plan::Plan,
    /// Whether it came from a file, which anybody may have edited: such a plan is proven before it is used.
    from_file: bool,
    verdict: OnceLock<Option<String>>,
    fingerprint: OnceLock<u64>,
}

impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.plan == other.plan
    }
}

impl Hash for Plan {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let plan = &self.plan;
        (&plan.algorithm, plan.units, plan.size, plan.trees.len(), plan.edges.lane.len()).hash(state);
        self.topology().hash(state);
    }
}

impl Plan {
    fn new(plan: treefold::plan::Plan, from_file: bool) -> Self {
        Self { plan, from_file, verdict: OnceLock::new(), fingerprint: OnceLock::new() }
    }

    fn verdict(&self) -> &Option<String> {
        self.verdict.get_or_init(|| check(&self.plan).err().map(|error| error.to_string()))
    }

    /// The plan, if it may be walked without care.
    fn sound(&self) -> PyResult<&treefold::plan::Plan> {
        match self.verdict.get() {
            None if !self.from_file => Ok(&self.plan),
            _ => match self.verdict() {
                None => Ok(&self.plan),
                Some(reason) => {
                    Err(TreefoldError::new_err(format!("the plan is wrong, it can only be checked: {reason}")))
                }
            },
        }
    }
}

#[pymethods]
impl Plan {
    /// The plan of a plan file's text. It is proven before it is used.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        Ok(Self::new(py.detach(|| treefold::plan::Plan::from_json(text)).map_err(raise)?, true))
    }

    /// The plan as the text of a plan file.
    fn to_json(&self, py: Python<'_>) -> String {
        py.detach(|| self.plan.to_json())
    }

    /// What comes out of a pickle is a plan from a file: anybody may have edited it.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((core(py, "read_plan")?, (self.to_json(py),)))
    }

    /// Itself: a plan never changes.
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    /// The network that it is for.
    #[getter]
    fn topology(&self) -> Topology {
        Topology(Arc::clone(&self.plan.topology))
    }

    /// Size of the vector, in bytes, that it was made for; None where that is not known.
    #[getter]
    fn size_bytes(&self) -> Option<u64> {
        self.plan.size.map(|size| size.0)
    }

    /// Name of the simulator by which it was chosen among others; None if it was not, or that is not known.
    #[getter]
    fn judged_by(&self) -> Option<&str> {
        self.plan.judged_by.as_deref()
    }

    /// The same plan, made for a vector of this size; where it was chosen among others, by this simulator.
    #[pyo3(signature = (size_bytes, judged_by=None))]
    fn made_for(&self, size_bytes: u64, judged_by: Option<String>) -> PyResult<Self> {
        let size = Some(Bytes::new(size_bytes).map_err(raise)?);
        let plan = treefold::plan::Plan { size, judged_by, ..self.plan.clone() };
        let (verdict, fingerprint) = (self.verdict.clone(), self.fingerprint.clone());
        Ok(Self { plan, from_file: self.from_file, verdict, fingerprint })
    }

    /// Another collective by the same trees.
    fn derive(&self, collective: &str, root: u32) -> PyResult<Self> {
        let collective: Collective = collective.parse().map_err(raise)?;
        let derived = treefold::plan::derive(self.sound()?.clone(), collective, root).map_err(raise)?;
        Ok(Self::new(derived, self.from_file)) // trees of strangers may not bear being turned
    }

    /// The reduce halves alone, every tree into its own root.
    fn reduce_halves(&self) -> PyResult<Self> {
        Ok(Self::new(treefold::plan::reduce_halves(self.sound()?).map_err(raise)?, false))
    }

    /// The same plan on its network as a link model sees it.
    fn under(&self, link_model: &str) -> PyResult<Self> {
        let model: LinkModel = link_model.parse().map_err(raise)?;
        let topology = Arc::new(self.plan.topology.under(model));
        Ok(Self::new(treefold::plan::Plan { topology, ..self.sound()?.clone() }, false))
    }

    /// Name of the algorithm that made it.
    #[getter]
    fn algorithm(&self) -> &str {
        &self.plan.algorithm
    }

    /// Name of the collective that it computes.
    #[getter]
    fn collective(&self) -> String {
        self.plan.collective.to_string()
    }

    /// Rank that broadcasts or receives, for the collectives that have one.
    #[getter]
    fn root(&self) -> Option<u32> {
        self.plan.collective.has_root().then(|| self.plan.root())
    }

    /// How many trees it has.
    #[getter]
    fn trees(&self) -> usize {
        self.plan.trees.len()
    }

    /// Pairs of ranks that send to each other, the smaller one first.
    #[getter]
    fn pairs(&self) -> Vec<(u32, u32)> {
        self.plan.pairs()
    }

    /// A number that differs between plans that send differently.
    #[getter]
    fn fingerprint(&self) -> u64 {
        *self.fingerprint.get_or_init(|| treefold::run::program::fingerprint(&self.plan))
    }

    /// Steps of both halves together; None for streams.
    #[getter]
    fn steps(&self) -> Option<u32> {
        self.plan.steps()
    }

    /// `(max_height, mean_height, max_fanout, mean_max_fanout)`.
    #[getter]
    fn shape(&self) -> (u32, f64, u32, f64) {
        let shape = self.plan.shape();
        (shape.max_height, shape.mean_height, shape.max_fanout, shape.mean_max_fanout)
    }

    /// `(latency_s, path, slowest, overhead_s, share, chunks)` of each streamed tree's pipeline: `path` and `slowest` in
    /// seconds a byte of the vector, chunks as for a vector of this size.
    fn pipelines(&self, size_bytes: u64) -> PyResult<Vec<Pipeline>> {
        let plan = self.sound()?;
        let routes = treefold::plan::LaneRoutes::new(&plan.topology, &plan.lanes);
        let streamed = plan.phases.iter().filter(|phase| phase.pace.is_stream());
        let all = streamed.flat_map(|phase| treefold::plan::pipeline::pipelines(plan, phase, &routes));
        let row = |tree: treefold::plan::pipeline::TreePipeline| {
            (tree.latency, tree.path, tree.slowest, tree.overhead, tree.share, tree.chunks(Bytes(size_bytes)))
        };
        Ok(all.map(row).collect())
    }

    /// Bytes of the vector a second that the busiest link allows; None when nothing is sent.
    #[getter]
    fn rate(&self) -> Option<f64> {
        self.plan.rate().map(|rate| rate.0)
    }

    /// nccl-tests' factor from algbw to busbw.
    #[getter]
    fn bus_factor(&self) -> f64 {
        self.plan.collective.bus_factor(self.plan.ranks())
    }

    /// None if the plan computes its collective, else the first fault.
    fn check(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.verdict().clone())
    }

    /// Lowers the plan for vectors of `elements` elements; see `Schedule`.
    fn schedule(&self, py: Python<'_>, elements: u64, element_bytes: u64) -> PyResult<Schedule> {
        let plan = self.sound()?;
        let schedule = py.detach(|| schedule::lower(plan, elements, element_bytes)).map_err(raise)?;
        let ranks = 0..plan.ranks();
        let inputs = ranks.clone().map(|rank| bounds(schedule::input(plan, elements, rank))).collect();
        let outputs =
            ranks.map(|rank| schedule::output(plan, elements, rank).into_iter().map(bounds).collect()).collect();
        Ok(Schedule { schedule, inputs, outputs })
    }

    /// None if every order that the schedule's dependencies allow computes the collective, else the first fault.
    fn check_schedule(&self, py: Python<'_>, schedule: &Schedule) -> Option<String> {
        py.detach(|| check_schedule(&self.plan, &schedule.schedule)).err().map(|error| error.to_string())
    }

    fn __repr__(&self) -> String {
        format!("Plan({:?}, {}, trees={})", self.plan.algorithm, self.plan.collective, self.plan.trees.len())
    }
}

fn bounds(range: std::ops::Range<u64>) -> (u64, u64) {
    (range.start, range.end)
}

/// `(latency_s, path, slowest, overhead_s, share, chunks)`.
type Pipeline = (f64, f64, f64, f64, f64, u32);

/// A NumPy array of one dimension.
type Column<'py, T> = Bound<'py, PyArray1<T>>;

/// A plan lowered for one size: transfers as arrays, in an order that respects their dependencies.
#[pyclass(frozen, module = "treefold")]
struct Schedule {
    schedule: schedule::Schedule,
    inputs: Vec<(u64, u64)>,
    outputs: Vec<Vec<(u64, u64)>>,
}

#[pymethods]
impl Schedule {
    fn __len__(&self) -> usize {
        self.schedule.len()
    }

    fn __repr__(&self) -> String {
        format!("Schedule(transfers={}, buffers={})", self.schedule.len(), self.schedule.buffers.len())
    }

    /// Node of each buffer; buffer r is rank r's vector.
    #[getter]
    fn buffers(&self) -> Vec<u32> {
        self.schedule.buffers.clone()
    }

    /// Elements that each rank starts with, numbered as in the transfers.
    #[getter]
    fn inputs(&self) -> Vec<(u64, u64)> {
        self.inputs.clone()
    }

    /// Pieces that make up each rank's result.
    #[getter]
    fn outputs(&self) -> Vec<Vec<(u64, u64)>> {
        self.outputs.clone()
    }

    /// `(reduces, source, target)` of each transfer.
    fn transfers<'py>(&self, py: Python<'py>) -> (Column<'py, bool>, Column<'py, u32>, Column<'py, u32>) {
        let reduces: Vec<bool> = self.schedule.op.iter().map(|&op| op == schedule::Op::Reduce).collect();
        let Self { schedule, .. } = self;
        (reduces.into_pyarray(py), schedule.source.clone().into_pyarray(py), schedule.target.clone().into_pyarray(py))
    }

    /// `(first, start, end)`: pieces `first[i]..first[i + 1]` of transfer i.
    fn pieces<'py>(&self, py: Python<'py>) -> (Column<'py, u64>, Column<'py, u64>, Column<'py, u64>) {
        let pieces = &self.schedule.pieces;
        let starts: Vec<u64> = pieces.items.iter().map(|piece| piece.start).collect();
        let ends: Vec<u64> = pieces.items.iter().map(|piece| piece.end).collect();
        (pieces.first.clone().into_pyarray(py), starts.into_pyarray(py), ends.into_pyarray(py))
    }

    /// `(first, transfer)`: what transfer i waits for is `transfer[first[i]:first[i + 1]]`.
    fn dependencies<'py>(&self, py: Python<'py>) -> (Column<'py, u64>, Column<'py, u32>) {
        let dependencies = &self.schedule.dependencies;
        (dependencies.first.clone().into_pyarray(py), dependencies.items.clone().into_pyarray(py))
    }
}

/// How an algorithm fared: name; predicted seconds and, of them, latency; or why it does not fit.
type Candidate = (String, (Option<f64>, Option<f64>), Option<String>);

/// Plans with `algorithm`; `auto` also tells how every algorithm fared.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
fn plan(
    py: Python<'_>,
    topology: &Topology,
    algorithm: &str,
    size_bytes: u64,
    collective: &str,
    root: u32,
    trees: Option<u32>,
    turn: Option<&str>,
    neighbors: &str,
    trunks: &str,
    seed: u64,
    pipeline: bool,
    model: &str,
) -> PyResult<(Plan, Vec<Candidate>)> {
    let collective: Collective = collective.parse().map_err(raise)?;
    let turn = turn.map(str::parse).transpose().map_err(raise)?;
    let neighbors = neighbors.parse().map_err(raise)?;
    let trunks = trunks.parse().map_err(raise)?;
    let model: Model = model.parse().map_err(raise)?;
    let options = Options { size: Bytes(size_bytes), trees, turn, neighbors, seed, pipeline, trunks };
    let (plan, candidates) = interruptible(py, |go_on| {
        if algorithm == "auto" {
            return auto::plan(&topology.0, &options, collective, root, model, go_on);
        }
        let plan = planners::plan(algorithm, &topology.0, &options)?;
        Ok((treefold::plan::derive(plan, collective, root)?, Vec::new()))
    })?;
    let listed = candidates.into_iter().map(|candidate| match candidate.time {
        Ok(time) => (candidate.algorithm, (Some(time.seconds), Some(time.latency)), None),
        Err(reason) => (candidate.algorithm, (None, None), Some(reason.to_string())),
    });
    Ok((Plan::new(plan, false), listed.collect()))
}

/// What `pickle` calls to have a network back.
#[pyfunction]
fn read_topology(py: Python<'_>, text: &str) -> PyResult<Topology> {
    Topology::from_json(py, text)
}

/// What `pickle` calls to have a plan back.
#[pyfunction]
fn read_plan(py: Python<'_>, text: &str) -> PyResult<Plan> {
    Plan::from_json(py, text)
}

/// A function of this module.
fn core<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("treefold._core")?.getattr(name)
}

/// `(time_s, mean_utilization, max_utilization)` of each size, by the analytic model.
#[pyfunction]
fn simulate_analytic(py: Python<'_>, plan: &Plan, sizes_bytes: Vec<u64>) -> PyResult<Vec<(f64, f64, f64)>> {
    let plan = plan.sound()?;
    let reports = py.detach(|| {
        let profile = treefold::plan::alpha_beta::Profile::new(plan);
        let simulate = |size| treefold::sim::analytic::simulate(&profile, Bytes(size));
        sizes_bytes.into_iter().map(simulate).collect::<Vec<_>>()
    });
    let row = |report: treefold::sim::Report| (report.seconds, report.mean_utilization, report.max_utilization);
    Ok(reports.into_iter().map(row).collect())
}

/// When each transfer of a plan started and ended, and how busy each link was.
#[pyclass(frozen, module = "treefold")]
struct Trace {
    plan: Py<Plan>,
    trace: treefold::sim::trace::Trace,
    peaks: Vec<u32>,
}

#[pymethods]
impl Trace {
    /// Seconds from the first send to the last receipt.
    #[getter]
    fn time_s(&self) -> f64 {
        self.trace.seconds
    }

    /// `(mean, max)` over links.
    #[getter]
    fn utilization(&self) -> (f64, f64) {
        let report = self.trace.report();
        (report.mean_utilization, report.max_utilization)
    }

    /// `(link, occupied_s, carried_s)` of every link.
    fn links(&self) -> Vec<(String, f64, f64)> {
        let topology = &self.plan.get().plan.topology;
        let busy = self.trace.occupied.iter().zip(&self.trace.carried);
        busy.enumerate()
            .map(|(link, (&occupied, &carried))| (topology.describe_link(link as u32), occupied, carried))
            .collect()
    }

    /// Most flits that a virtual channel's buffer at each link's end held; nothing unless packets were simulated.
    #[getter]
    fn buffer_peak_flits(&self) -> Vec<u32> {
        self.peaks.clone()
    }

    /// Every transfer as columns, in the order in which they left.
    fn transfers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (spans, lanes) = (&self.trace.spans, &self.plan.get().plan.lanes);
        let columns = PyDict::new(py);
        let whole = |name, value: &dyn Fn(&Span) -> u32| {
            columns.set_item(name, spans.iter().map(value).collect::<Vec<_>>().into_pyarray(py))
        };
        whole("source", &|span| lanes.ends_of(span.lane).0)?;
        whole("target", &|span| lanes.ends_of(span.lane).1)?;
        whole("tree", &|span| span.tree)?;
        whole("phase", &|span| span.phase.into())?;
        whole("step", &|span| span.step.into())?;
        whole("chunk", &|span| span.chunk)?;
        columns.set_item("reduces", spans.iter().map(|span| span.reduces).collect::<Vec<_>>().into_pyarray(py))?;
        let real = |name, value: fn(&Span) -> f64| {
            columns.set_item(name, spans.iter().map(value).collect::<Vec<_>>().into_pyarray(py))
        };
        real("bytes", |span| span.bytes)?;
        real("start_s", |span| span.start)?;
        real("sent_s", |span| span.sent)?;
        real("received_s", |span| span.received)?;
        Ok(columns)
    }

    fn __repr__(&self) -> String {
        let plan = &self.plan.get().plan;
        let (time_s, transfers) = (self.trace.seconds, self.trace.spans.len());
        format!("Trace({:?}, {}, time_s={time_s:?}, transfers={transfers})", plan.algorithm, plan.collective)
    }

    /// The spans as a Chrome trace.
    fn to_chrome(&self, py: Python<'_>) -> String {
        py.detach(|| treefold::sim::chrome::to_chrome(&self.plan.get().plan, &self.trace))
    }
}

/// Simulates by events; the trace lists its transfers if `record` is set.
#[pyfunction]
fn simulate_flow(py: Python<'_>, plan: Py<Plan>, size_bytes: u64, record: bool) -> PyResult<Trace> {
    let sound = plan.get().sound()?;
    let trace = interruptible(py, |go_on| treefold::sim::flow::simulate(sound, Bytes(size_bytes), record, go_on))?;
    Ok(Trace { plan, trace, peaks: Vec::new() })
}

/// Runs `work` without the interpreter's lock; it asks now and then whether the user has interrupted it.
fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> treefold::error::Result<T> + Send,
) -> PyResult<T> {
    let mut interrupt = None;
    let mut go_on = || {
        interrupt = Python::attach(|py| py.check_signals()).err();
        interrupt.is_none()
    };
    let result = py.detach(|| work(&mut go_on));
    result.map_err(|error| interrupt.unwrap_or_else(|| raise(error)))
}

/// Spanning trees to choose from, and what they compete for.
#[pyclass(frozen, module = "treefold")]
struct Forest {
    topology: Arc<topology::Topology>,
    resources: Resources,
    trees: Mutex<Vec<SpanningTree>>,
}

#[pymethods]
impl Forest {
    #[new]
    fn new(topology: &Topology) -> Self {
        let resources = Resources::new(&topology.0);
        Self { topology: Arc::clone(&topology.0), resources, trees: Mutex::default() }
    }

    /// None, for trees with switches inside, whose halves may differ.
    #[staticmethod]
    fn in_network(topology: &Topology) -> Self {
        let resources = Resources::of_links(&topology.0);
        Self { topology: Arc::clone(&topology.0), resources, trees: Mutex::default() }
    }

    fn __len__(&self) -> usize {
        self.trees.lock().expect("no panic").len()
    }

    #[getter]
    fn capacity<'py>(&self, py: Python<'py>) -> Column<'py, f64> {
        self.resources.capacity.clone().into_pyarray(py)
    }

    #[getter]
    fn ranks(&self) -> u32 {
        self.topology.ranks()
    }

    /// `(first, resource, count)`: tree i uses `resource[first[i]:first[i + 1]]`, each `count` times.
    fn usage<'py>(&self, py: Python<'py>) -> (Column<'py, u64>, Column<'py, u32>, Column<'py, u32>) {
        let (mut first, mut resource, mut count) = (vec![0], Vec::new(), Vec::new());
        for tree in self.trees.lock().expect("no panic").iter() {
            for (used, times) in self.resources.usage(tree) {
                resource.push(used);
                count.push(times);
            }
            first.push(resource.len() as u64);
        }
        (first.into_pyarray(py), resource.into_pyarray(py), count.into_pyarray(py))
    }

    fn add_by_weights(&self, py: Python<'_>, epsilon: f64, most: usize) -> Vec<f64> {
        py.detach(|| {
            let (trees, rates) = packing::by_weights(&self.topology, &self.resources, epsilon, most);
            self.trees.lock().expect("no panic").extend(trees);
            rates
        })
    }

    /// Adds trees with switches inside by multiplicative weights, and says where such trees may be rooted.
    fn add_steiner_by_weights(&self, py: Python<'_>, ranks_relay: bool, epsilon: f64, most: usize) -> Vec<u32> {
        py.detach(|| {
            let halves = Halves::new(&self.topology, ranks_relay);
            let (trees, _) = halves.by_weights(&self.resources, epsilon, most);
            self.trees.lock().expect("no panic").extend(trees);
            halves.roots
        })
    }

    /// Adds a cheap tree with switches inside for each of these roots, under prices of its own, unless it is there already.
    fn add_cheap_steiner(&self, py: Python<'_>, ranks_relay: bool, prices: Vec<Vec<f64>>, roots: Vec<u32>) {
        py.detach(|| {
            let halves = Halves::new(&self.topology, ranks_relay);
            let mut trees = self.trees.lock().expect("no panic");
            for (prices, root) in prices.iter().zip(roots) {
                let found = halves.cheap_tree(&self.resources, prices, root);
                if let Some((_, tree)) = found.filter(|(_, tree)| !trees.contains(tree)) {
                    trees.push(tree);
                }
            }
        });
    }

    /// The same with mirrored trees of one root only.
    fn add_of_one_root_by_weights(&self, py: Python<'_>, epsilon: f64, most: usize) -> PyResult<Vec<f64>> {
        let found = py.detach(|| packing::of_one_root_by_weights(&self.topology, &self.resources, epsilon, most));
        let (trees, rates) = found.ok_or_else(|| {
            let name = self.topology.name();
            TreefoldError::new_err(format!(
                "trees of one root need links that carry both ways, but those of {name} do not join all ranks; packing fits"
            ))
        })?;
        self.trees.lock().expect("no panic").extend(trees);
        Ok(rates)
    }

    /// Adds the cheapest tree under `prices` unless it is there already; returns its cost.
    fn add_cheapest(&self, py: Python<'_>, prices: Vec<f64>, roots: Vec<u32>) -> f64 {
        py.detach(|| {
            let (cost, tree) = packing::cheapest_tree(&self.topology, &self.resources, &prices, &roots);
            let mut trees = self.trees.lock().expect("no panic");
            if !trees.contains(&tree) {
                trees.push(tree);
            }
            cost
        })
    }

    /// Adds the tree of shortest ways from each of `roots`, by hops or latency.
    fn add_shortest(&self, py: Python<'_>, roots: Vec<u32>, by_latency: bool) {
        py.detach(|| {
            let trees = roots.into_iter().map(|root| packing::shortest_tree(&self.topology, root, by_latency));
            self.trees.lock().expect("no panic").extend(trees);
        });
    }

    /// Adds `count` trees of one rate, the largest that they can all have; returns it, or `None` where there are not so many.
    fn add_equal(&self, py: Python<'_>, count: usize) -> Option<f64> {
        let (rate, trees) = py.detach(|| packing::equal_trees(&self.topology, &self.resources, count))?;
        self.trees.lock().expect("no panic").extend(trees);
        Some(rate)
    }

    /// Adds the trees of a plan for an older state of this network that still stand; returns each one's share then.
    fn add_surviving(&self, plan: &Plan) -> PyResult<Vec<f64>> {
        let (trees, shares): (Vec<_>, Vec<_>) = surviving::surviving(plan.sound()?, &self.topology).into_iter().unzip();
        self.trees.lock().expect("no panic").extend(trees);
        Ok(shares)
    }

    /// Adds the trees of GOST; returns their rates, the height that they keep to, and the least rate.
    #[expect(clippy::too_many_arguments, reason = "the fields of gost::Limits")]
    fn grow(
        &self,
        py: Python<'_>,
        height: Option<u32>,
        by_latency: bool,
        least_rate: Option<f64>,
        rho: f64,
        seed: u64,
        most: usize,
    ) -> PyResult<(Vec<f64>, u32, f64)> {
        let limits = gost::Limits { height, by_latency, least_rate, rho, seed, most };
        let grown = py.detach(|| gost::grow(&self.topology, &limits)).map_err(raise)?;
        self.trees.lock().expect("no panic").extend(grown.trees);
        Ok((grown.rates, grown.height, grown.least_rate))
    }

    /// Rates of at most `most` trees, without a solver.
    fn greedy_shares(&self, most: usize, least_rate: f64) -> Vec<f64> {
        forest::greedy_shares(&self.resources, &self.trees.lock().expect("no panic"), most, least_rate)
    }

    /// Height of each tree, in hops or quanta of latency.
    fn heights(&self, by_latency: bool) -> Vec<u64> {
        let lengths = forest::lengths(&self.topology, by_latency);
        let height = |tree: &SpanningTree| forest::height(&self.topology, tree, &lengths, by_latency);
        self.trees.lock().expect("no panic").iter().map(height).collect()
    }

    /// A forest of these of its trees.
    fn select(&self, trees: Vec<usize>) -> Self {
        let all = self.trees.lock().expect("no panic");
        let chosen = trees.into_iter().map(|tree| all[tree].clone()).collect();
        let (topology, resources) = (Arc::clone(&self.topology), self.resources.clone());
        Self { topology, resources, trees: Mutex::new(chosen) }
    }

    /// Adds another forest's trees.
    fn join(&self, other: &Self) {
        let trees = other.trees.lock().expect("no panic").clone();
        self.trees.lock().expect("no panic").extend(trees);
    }

    /// The streamed plan of the trees that have a rate.
    fn plan(&self, algorithm: &str, rates: Vec<f64>, pipeline: bool) -> Plan {
        let trees = self.trees.lock().expect("no panic");
        let chunk = if pipeline { Chunk::Best } else { Chunk::One };
        Plan::new(forest::plan(&self.topology, algorithm, &trees, &rates, chunk), false)
    }
}

#[pymodule]
mod _core {
    #[pymodule_export]
    use super::run::{Mesh, Operation, Program, message_cost, number_bytes, run_threads};
    #[pymodule_export]
    use super::{
        Bounds, Forest, Plan, Schedule, Topology, Trace, algorithms, collectives, find_cuts, format_bandwidth,
        format_size, format_time, generators, is_spec, named, nearest, packet::flit_formats, packet::schedule_tables,
        packet::simulate_packet, parse_bandwidth, parse_collective, parse_size, parse_time, plan, read_plan,
        read_topology, simulate_analytic, simulate_flow,
    };
}
