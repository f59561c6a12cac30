//! The binding of `treefold::planners` and `treefold::auto`.

use std::sync::Arc;

use numpy::PyReadonlyArray2;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value};
use treefold::blocks::Blocks;
use treefold::ids::NodeId;
use treefold::plan::Collective;
use treefold::planners::{Options, Proof, surviving};
use treefold::sim::Simulator;
use treefold::{auto, error, planners};

use crate::options::{Known, Size, dictionary};
use crate::plan::Plan;
use crate::topology::Topology;
use crate::{raise, reported};

/// A plan, and what its planner proved about it, by the name of each key in JSON.
type Planned<'py> = (Plan, Bound<'py, PyDict>);

/// What a caller asks of a planner: a `treefold.planning.request.Request`, which explains the fields.
struct Request {
    network: Arc<treefold::topology::Topology>,
    algorithm: String,
    simulator: String,
    /// The options, with what the plan is for.
    options: Options,
}

impl Request {
    fn read(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        let network = Arc::clone(&given.getattr("network")?.cast::<Topology>()?.get().0);
        let collective: Collective = given.getattr("collective")?.extract::<String>()?.parse().map_err(raise)?;
        let rows: Option<PyReadonlyArray2<'_, u64>> = given.getattr("blocks")?.extract()?;
        let blocks = blocks(network.ranks(), rows.as_ref())?;
        let size = given.getattr("size_bytes")?.extract::<Size>()?.0;
        let root = NodeId(given.getattr("root")?.extract()?);
        let ranks_relay = given.getattr("ranks_relay")?.extract()?;
        let planner: Known<Options> = given.getattr("options")?.extract()?;
        let options = Options { size, collective, root, blocks, ranks_relay, ..planner.0 };
        let [algorithm, simulator] = ["algorithm", "simulator"].map(|name| given.getattr(name)?.extract());
        Ok(Self { network, algorithm: algorithm?, simulator: simulator?, options })
    }
}

/// Returns how numbers cross lines in fewer bytes; `None` if they cross as they are.
fn crossing(request: &Bound<'_, PyAny>) -> PyResult<Option<auto::Crossing>> {
    let given: Option<(String, u64)> = request.getattr("crossing")?.extract()?;
    let read = |(wire, element_bytes): (String, u64)| Ok(auto::Crossing { wire: wire.parse()?, element_bytes });
    given.map(read).transpose().map_err(raise)
}

/// Returns the sizes of blocks, a row for each rank; `None` if they are equal or not given.
pub fn blocks(ranks: u32, rows: Option<&PyReadonlyArray2<'_, u64>>) -> PyResult<Option<Arc<Blocks>>> {
    let Some(rows) = rows else { return Ok(None) };
    let rows: Vec<Vec<u64>> = rows.as_array().rows().into_iter().map(|row| row.to_vec()).collect();
    Blocks::of_rows(ranks, &rows).map_err(raise)
}

/// Refuse sizes of blocks with which no plan can be made, though there is one for each pair of ranks.
#[pyfunction]
pub fn check_blocks(sizes: PyReadonlyArray2<'_, u64>) -> PyResult<()> {
    let ranks = sizes.as_array().nrows() as u32;
    blocks(ranks, Some(&sizes)).map(drop)
}

/// Return the plan that is asked for, by a named algorithm, and the planner's proof; `listener` is told what is done.
#[pyfunction]
#[pyo3(signature = (request, listener=None))]
pub fn plan<'py>(py: Python<'py>, request: &Bound<'py, PyAny>, listener: Option<Py<PyAny>>) -> PyResult<Planned<'py>> {
    let Request { network, algorithm, options, .. } = Request::read(request)?;
    let work = |tell: planners::Listener| planners::plan_with_proof(&algorithm, &network, &options, tell);
    let (plan, proof) = told(py, listener, work)?;
    Ok((Plan::planned(plan), dictionary(py, &written(proof))?))
}

/// Returns what was proved by the name of each key.
fn written(proof: Proof) -> Map<String, Value> {
    match serde_json::to_value(proof) {
        Ok(Value::Object(map)) => map,
        _ => unreachable!("a proof is written as an object"),
    }
}

/// Works without the interpreter's lock, and tells `listener` of each new task. An error of it, or of a signal's
/// handler, ends the work.
fn told<T: Send>(
    py: Python<'_>,
    listener: Option<Py<PyAny>>,
    work: impl FnOnce(planners::Listener) -> error::Result<T> + Send,
) -> PyResult<T> {
    let (mut fault, mut last) = (None, String::new());
    let mut tell = |task: &str| {
        let is_new = last != task;
        fault = reported(listener.as_ref().filter(|_| is_new), task).err();
        if is_new {
            task.clone_into(&mut last);
        }
        fault.is_none()
    };
    let result = py.detach(|| work(&mut tell));
    result.map_err(|error| fault.unwrap_or_else(|| raise(error)))
}

/// The fastest plan, and what it was compared with.
#[pyclass(frozen, get_all, module = "treefold")]
pub struct Chosen {
    /// The plan.
    plan: Py<Plan>,
    /// The candidates, in the order in which they were tried.
    candidates: Vec<Py<Candidate>>,
}

/// The result of one algorithm, as `treefold.results.Candidate` explains it.
#[pyclass(frozen, get_all, module = "treefold")]
pub struct Candidate {
    algorithm: String,
    time_s: Option<f64>,
    latency_s: Option<f64>,
    reason: Option<String>,
}

impl Candidate {
    fn new(candidate: auto::Candidate) -> Self {
        let algorithm = candidate.algorithm;
        match candidate.time {
            Ok(auto::Prediction { seconds, latency }) => {
                Self { algorithm, time_s: Some(seconds.get()), latency_s: Some(latency.get()), reason: None }
            }
            Err(reason) => Self { algorithm, time_s: None, latency_s: None, reason: Some(reason.to_string()) },
        }
    }
}

/// Return the plan that is the fastest by the simulator of the request, and a candidate for each algorithm.
#[pyfunction]
#[pyo3(signature = (request, listener=None))]
pub fn choose(py: Python<'_>, request: &Bound<'_, PyAny>, listener: Option<Py<PyAny>>) -> PyResult<Chosen> {
    let Request { network, simulator, options, .. } = Request::read(request)?;
    let crossing = crossing(request)?;
    let simulator: Simulator = simulator.parse().map_err(raise)?;
    let work = |tell: planners::Listener| auto::plan(&network, &options, crossing, simulator, tell);
    let (plan, candidates) = told(py, listener, work)?;
    let candidates = candidates.into_iter().map(|each| Py::new(py, Candidate::new(each))).collect::<PyResult<_>>()?;
    Ok(Chosen { plan: Py::new(py, Plan::planned(plan))?, candidates })
}

/// Return plans that may follow an old one where `fresh` was planned, and how many trees of the old one each keeps.
#[pyfunction]
pub fn successors(
    py: Python<'_>,
    old: &Plan,
    fresh: &Plan,
    options: Known<Options>,
    listener: Py<PyAny>,
) -> PyResult<Vec<(Plan, usize)>> {
    let (old, fresh) = (old.sound()?, fresh.runnable()?.clone());
    let plans = told(py, Some(listener), |tell| surviving::successors(old, fresh, &options.0, tell))?;
    Ok(plans.into_iter().map(|(plan, kept)| (Plan::planned(plan), kept)).collect())
}

/// Tell whether a planner takes seconds at most on a network.
#[pyfunction]
pub fn is_quick(topology: &Topology, algorithm: &str) -> PyResult<bool> {
    Ok(planners::planner_named(algorithm).map_err(raise)?.is_quick(&topology.0))
}

/// Tell whether any switch of a network both reduces and multicasts.
#[pyfunction]
pub fn is_fabric(topology: &Topology) -> bool {
    planners::is_fabric(&topology.0)
}

/// Return a plan that was pickled.
#[pyfunction]
pub fn read_plan(py: Python<'_>, text: &str) -> PyResult<Plan> {
    Plan::from_json(py, text)
}
