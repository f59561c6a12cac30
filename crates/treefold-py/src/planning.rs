//! The binding of `treefold::planners` and `treefold::auto`.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value};
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

/// Return the plan of a collective by a named algorithm, and the planner's proof; `listener` is told what is done.
#[pyfunction]
#[pyo3(signature = (algorithm, topology, collective, root, size_bytes, options, ranks_relay=true, listener=None))]
#[expect(clippy::too_many_arguments, reason = "Python names them")]
pub fn plan<'py>(
    py: Python<'py>,
    algorithm: &str,
    topology: &Topology,
    collective: &str,
    root: u32,
    size_bytes: Size,
    options: Known<Options>,
    ranks_relay: bool,
    listener: Option<Py<PyAny>>,
) -> PyResult<Planned<'py>> {
    let options = Options { ranks_relay, ..asked(collective, root, size_bytes, options)? };
    let work = |tell: planners::Listener| planners::plan_with_proof(algorithm, &topology.0, &options, tell);
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

/// Returns the options with what the plan is for.
fn asked(collective: &str, root: u32, size: Size, options: Known<Options>) -> PyResult<Options> {
    let collective: Collective = collective.parse().map_err(raise)?;
    Ok(Options { size: size.0, collective, root: NodeId(root), ..options.0 })
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

/// Return the plan that is the fastest by `simulator`, and a candidate for each algorithm.
#[pyfunction]
#[pyo3(signature = (simulator, topology, collective, root, size_bytes, options, ranks_relay=true, listener=None))]
#[expect(clippy::too_many_arguments, reason = "Python names them")]
pub fn choose(
    py: Python<'_>,
    simulator: &str,
    topology: &Topology,
    collective: &str,
    root: u32,
    size_bytes: Size,
    options: Known<Options>,
    ranks_relay: bool,
    listener: Option<Py<PyAny>>,
) -> PyResult<Chosen> {
    let simulator: Simulator = simulator.parse().map_err(raise)?;
    let options = Options { ranks_relay, ..asked(collective, root, size_bytes, options)? };
    let work = |tell: planners::Listener| auto::plan(&topology.0, &options, simulator, tell);
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
