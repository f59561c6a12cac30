//! Names and units as text: the core alone reads those of users and writes those that they see.

use pyo3::prelude::*;
use treefold::error;
use treefold::plan::Collective;
use treefold::{planners, topology, units};

use crate::raise;

/// Return the short hash of the commit from which this was built, or `unknown`.
#[pyfunction]
pub fn commit() -> &'static str {
    env!("TREEFOLD_COMMIT")
}

/// Return the bytes of a size such as `64MiB`.
#[pyfunction]
pub fn parse_size(text: &str) -> PyResult<u64> {
    Ok(units::parse_bytes(text).map_err(raise)?.get())
}

/// Return the bytes a second of a bandwidth such as `100Gbit/s`.
#[pyfunction]
pub fn parse_bandwidth(text: &str) -> PyResult<f64> {
    Ok(units::parse_bandwidth(text).map_err(raise)?.bytes_per_second())
}

/// Return the seconds of a time such as `150ns`.
#[pyfunction]
pub fn parse_time(text: &str) -> PyResult<f64> {
    Ok(units::parse_time(text).map_err(raise)?.seconds())
}

/// Return the name of a collective that may be written as `all_reduce` or `AllReduce`: `all-reduce`.
#[pyfunction]
pub fn parse_collective(text: &str) -> PyResult<String> {
    Ok(text.parse::<Collective>().map_err(raise)?.to_string())
}

/// Return a number of bytes as text: `64MiB` for 67108864.
#[pyfunction]
pub fn format_size(size_bytes: u64) -> String {
    units::format_bytes(size_bytes)
}

/// Return a bandwidth as text: `12.5GB/s` for 12.5e9.
#[pyfunction]
pub fn format_bandwidth(bandwidth: f64) -> String {
    units::format_bandwidth(bandwidth)
}

/// Return a time as text: `150ns` for 1.5e-7.
#[pyfunction]
pub fn format_time(time_s: f64) -> String {
    units::format_seconds(time_s)
}

/// Return whether `text` starts with the name of a generator.
#[pyfunction]
pub fn is_spec(text: &str) -> bool {
    topology::is_spec(text)
}

/// Return an example spec of every generator.
#[pyfunction]
pub fn generators() -> Vec<&'static str> {
    topology::GENERATORS.iter().map(|generator| generator.form.example).collect()
}

/// An algorithm of the table of planners.
#[pyclass(frozen, get_all, module = "treefold")]
pub struct Algorithm {
    /// The name of the algorithm.
    name: &'static str,
    /// What it does, in one line.
    summary: &'static str,
    /// The paper or library that it follows.
    source: &'static str,
    /// The networks that it fits, and what it is good for.
    fits: &'static str,
    /// What planning costs, in a few words.
    cost: &'static str,
    /// The collectives that it plans: `all-reduce`, `all`, or `each`.
    collectives: &'static str,
    /// Whether switches reduce in its plans.
    in_network: bool,
    /// Whether it plans around what links share.
    keeps_shared: bool,
    /// Whether it reads by which simulator its plan will be judged.
    reads_simulator: bool,
    /// The names of the options that are its own.
    options: Vec<&'static str>,
    /// The names of those of its options that are limits, which it keeps.
    limits: Vec<&'static str>,
    /// The most ranks times links for which its planner takes seconds only; None if it always does.
    most_work: Option<usize>,
    /// What the gap means that the planner proves; {} stands for the gap in percent. It is empty if it proves nothing.
    gap: &'static str,
}

impl Algorithm {
    fn of(planner: &planners::Planner) -> Self {
        Self {
            name: planner.name,
            summary: planner.summary,
            source: planner.source,
            fits: planner.fits,
            cost: planner.cost,
            collectives: planner.collectives.words(),
            in_network: planner.in_network,
            keeps_shared: planner.keeps_shared,
            reads_simulator: planner.reads_simulator,
            options: planner.options(),
            limits: planner.limits(),
            most_work: Some(planner.most_work).filter(|&most| most < usize::MAX),
            gap: planner.gap,
        }
    }
}

/// Return all algorithms.
#[pyfunction]
pub fn algorithms() -> Vec<Algorithm> {
    planners::PLANNERS.iter().map(Algorithm::of).collect()
}

/// Return the name of `known` that `text` means, whatever its case, hyphens and underscores; errors call it a `what`.
#[pyfunction]
pub fn named(what: &str, text: &str, known: Vec<String>) -> PyResult<String> {
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    let found = error::find(text, &names).ok_or_else(|| raise(error::unknown(what, text, &names)))?;
    Ok(known[found].clone())
}

/// Return up to three names of `known` that `text` may stand for, the most likely first.
#[pyfunction]
pub fn nearest(text: &str, known: Vec<String>) -> Vec<String> {
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    error::nearest(text, &names).into_iter().map(str::to_owned).collect()
}
