//! The binding of the parts of a vector.

use std::ops::Range;

use pyo3::prelude::*;
use treefold::plan;

use crate::plan::Plan;
use crate::raise;

/// For each part its plan, and where its elements stand in the vector, as pairs (start, stop).
type Parts = Vec<(Plan, Vec<(u64, u64)>)>;

/// Return parts of a vector of `elements` elements, each of at most `most_elements`.
///
/// Each can be an operation of its own. The vector of a part has its elements one behind the other. Together the parts'
/// sums are, bit for bit, those of the whole.
#[pyfunction]
pub fn vector_parts(py: Python<'_>, plan: &Plan, elements: u64, most_elements: u64) -> PyResult<Parts> {
    let plan = plan.runnable()?;
    let found = py.detach(|| plan::parts(plan, elements, most_elements)).map_err(raise)?;
    let places = |spans: Vec<Range<u64>>| spans.into_iter().map(|span| (span.start, span.end)).collect();
    Ok(found.into_iter().map(|part| (Plan::planned(part.plan), places(part.elements))).collect())
}
