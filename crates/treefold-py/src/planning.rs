//! The binding of `treefold::planners` and `treefold::auto`.

use pyo3::prelude::*;
use treefold::ids::NodeId;
use treefold::plan::Collective;
use treefold::planners::Options;
use treefold::sim::Simulator;
use treefold::units::Seconds;
use treefold::{auto, planners};

use crate::options::{Known, Size};
use crate::plan::Plan;
use crate::topology::Topology;
use crate::{interruptible, raise};

/// Return the plan of a collective by a named algorithm.
#[pyfunction]
pub fn plan(
    py: Python<'_>,
    algorithm: &str,
    topology: &Topology,
    collective: &str,
    root: u32,
    size_bytes: Size,
    options: Known<Options>,
) -> PyResult<Plan> {
    let options = asked(collective, root, size_bytes, options)?;
    interruptible(py, |_| planners::plan(algorithm, &topology.0, &options)).map(Plan::planned)
}

/// Returns the options with what the plan is for.
fn asked(collective: &str, root: u32, size: Size, options: Known<Options>) -> PyResult<Options> {
    let collective: Collective = collective.parse().map_err(raise)?;
    Ok(Options { size: size.0, collective, root: NodeId(root), ..options.0 })
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

/// Return why a plan cannot be as fast as that of `fastest`, which takes
/// `least_s`: a link needs longer. None if it may.
#[pyfunction]
pub fn why_slower(plan: &Plan, size_bytes: Size, least_s: f64, fastest: &str) -> PyResult<Option<String>> {
    let reason = auto::why_slower(plan.sound()?, size_bytes.0, Seconds::known(least_s), fastest);
    Ok(reason.map(|reason| reason.to_string()))
}

/// Return the plan that is the fastest by `simulator`, and a candidate for each algorithm.
#[pyfunction]
pub fn choose(
    py: Python<'_>,
    simulator: &str,
    topology: &Topology,
    collective: &str,
    root: u32,
    size_bytes: Size,
    options: Known<Options>,
) -> PyResult<Chosen> {
    let simulator: Simulator = simulator.parse().map_err(raise)?;
    let options = asked(collective, root, size_bytes, options)?;
    let (plan, candidates) = interruptible(py, |go_on| auto::plan(&topology.0, &options, simulator, go_on))?;
    let candidates = candidates.into_iter().map(|each| Py::new(py, Candidate::new(each))).collect::<PyResult<_>>()?;
    Ok(Chosen { plan: Py::new(py, Plan::planned(plan))?, candidates })
}
