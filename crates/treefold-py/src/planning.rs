//! The binding of `treefold::planners` and `treefold::auto`.

use pyo3::prelude::*;
use treefold::ids::NodeId;
use treefold::plan::Collective;
use treefold::planners::Options;
use treefold::sim::Simulator;
use treefold::{auto, planners};

use crate::options::read_text;
use crate::plan::Plan;
use crate::topology::Topology;
use crate::{interruptible, raise, vector_size};

/// The name of an algorithm; the predicted seconds, and how many of them are latency; or why it does not fit.
type Candidate = (String, Option<f64>, Option<f64>, Option<String>);

/// Return the plan of an all-reduce by a named algorithm; `options` is the text of a JSON object.
#[pyfunction]
pub fn plan(py: Python<'_>, algorithm: &str, topology: &Topology, size_bytes: u64, options: &str) -> PyResult<Plan> {
    let options = Options { size: vector_size(size_bytes)?, ..read_text(options)? };
    interruptible(py, |_| planners::plan(algorithm, &topology.0, &options)).map(Plan::planned)
}

/// Return the plan that is the fastest by `simulator`, and a candidate for each algorithm.
#[pyfunction]
pub fn choose(
    py: Python<'_>,
    simulator: &str,
    topology: &Topology,
    collective: &str,
    root: u32,
    size_bytes: u64,
    options: &str,
) -> PyResult<(Plan, Vec<Candidate>)> {
    let simulator: Simulator = simulator.parse().map_err(raise)?;
    let collective: Collective = collective.parse().map_err(raise)?;
    let options = Options { size: vector_size(size_bytes)?, ..read_text(options)? };
    let (plan, candidates) =
        interruptible(py, |go_on| auto::plan(&topology.0, &options, collective, NodeId(root), simulator, go_on))?;
    Ok((Plan::planned(plan), candidates.into_iter().map(listed).collect()))
}

fn listed(candidate: auto::Candidate) -> Candidate {
    match candidate.time {
        Ok(time) => (candidate.algorithm, Some(time.seconds.get()), Some(time.latency.get()), None),
        Err(reason) => (candidate.algorithm, None, None, Some(reason.to_string())),
    }
}
