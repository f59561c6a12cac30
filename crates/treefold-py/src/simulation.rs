//! The binding of the analytic and the flow simulator.

use pyo3::prelude::*;
use treefold::plan::alpha_beta::Profile;
use treefold::sim::{Background, Job, Watch};

use crate::options::Size;
use crate::plan::Plan;
use crate::trace::Trace;
use crate::with_progress;

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
    Ok(plans.into_iter().zip(traces).map(|(plan, trace)| Trace::new(plan, trace, Vec::new())).collect())
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
    Ok(Trace::new(plan, trace, Vec::new()))
}
