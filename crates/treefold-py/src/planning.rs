//! The binding of `treefold::planners` and `treefold::auto`.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use treefold::ids::NodeId;
use treefold::plan::Collective;
use treefold::planners::Options;
use treefold::sim::Model;
use treefold::units::Bytes;
use treefold::{auto, planners};

use crate::options::read;
use crate::plan::Plan;
use crate::topology::Topology;
use crate::{interruptible, raise};

/// The name of an algorithm; the predicted seconds, and how many of them are latency; or why it does not fit.
type Candidate = (String, (Option<f64>, Option<f64>), Option<String>);

/// Return the plan of an algorithm; with `auto` also a candidate for each algorithm.
#[pyfunction]
pub fn plan(
    py: Python<'_>,
    topology: &Topology,
    algorithm: &str,
    size_bytes: u64,
    collective_and_root: (String, u32),
    options: &Bound<'_, PyDict>,
    model: &str,
) -> PyResult<(Plan, Vec<Candidate>)> {
    let (collective, root) = collective_and_root;
    let collective: Collective = collective.parse().map_err(raise)?;
    let model: Model = model.parse().map_err(raise)?;
    let root = NodeId(root);
    let options = Options { size: Bytes(size_bytes), ..read(options)? };
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
    Ok((Plan::planned(plan), listed.collect()))
}
