//! The binding of `treefold::bound`.

use std::sync::Arc;

use numpy::{IntoPyArray, PyReadonlyArray2};
use pyo3::prelude::*;
use treefold::ids::{LinkId, NodeId};
use treefold::planners::{self, Options};

use crate::options::Whole;
use crate::planning;
use crate::topology::Topology;
use crate::{Column, raise};

/// Bounds on three kinds of all-reduce on a network; `treefold.bound` returns them with names.
#[pyclass(frozen, module = "treefold")]
pub struct Bounds {
    pub topology: Arc<treefold::topology::Topology>,
    pub bounds: Arc<treefold::bound::Bounds>,
}

/// A rate that no all-reduce on a network exceeds, as `treefold.results.Bound` explains it.
#[pyclass(frozen, get_all, eq, module = "treefold")]
#[derive(PartialEq)]
#[allow(non_snake_case, reason = "units in names, as in Python")]
pub struct ProvenRate {
    /// The name of the bound: a field of `treefold.results.BoundReport`.
    name: &'static str,
    /// The rate in bytes of the vector per second; None if nothing has to be sent.
    rate_Bps: Option<f64>,
    /// Whether no smaller rate is a bound.
    is_exact: bool,
    /// How the bound was proven.
    method: &'static str,
}

#[pymethods]
impl Bounds {
    /// A list with the `ProvenRate` of each bound.
    #[getter]
    fn rates(&self) -> Vec<ProvenRate> {
        let bounds = &self.bounds;
        let named = [
            ("reduce_scatter_all_gather", Some(bounds.reduce_scatter_all_gather)),
            ("all_reduce", Some(bounds.all_reduce)),
            ("in_network", bounds.in_network),
        ];
        let row = |(name, bound): (&'static str, Option<treefold::bound::Bound>)| {
            let bound = bound?;
            let rate = Some(bound.rate.bytes_per_second()).filter(|rate| rate.is_finite());
            Some(ProvenRate { name, rate_Bps: rate, is_exact: bound.exact, method: bound.method })
        };
        named.into_iter().filter_map(row).collect()
    }

    /// The least times of all-reduces, with the help of switches where they can.
    #[getter]
    fn of_sizes(&self) -> CollectiveBounds {
        CollectiveBounds { topology: Arc::clone(&self.topology), bounds: Arc::clone(&self.bounds.of_sizes) }
    }
}

/// What limits a collective, as `treefold.bound_at` says it.
#[pyclass(frozen, get_all, module = "treefold")]
#[derive(Default)]
pub struct Limit {
    /// `rate`, `latency` or `flow`.
    kind: &'static str,
    /// The names of the ranks that send, if it is a flow or a cut.
    sources: Vec<String>,
    /// The names of the ranks that receive.
    targets: Vec<String>,
    /// The links that limit a rate, as `source -> target`.
    links: Vec<String>,
}

fn limit_of(topology: &treefold::topology::Topology, limit: treefold::bound::Limit) -> Limit {
    use treefold::bound::Limit as Core;
    let name = |node: NodeId| topology.node(node).name.clone();
    let named = |ranks: Vec<NodeId>| -> Vec<String> { ranks.into_iter().map(name).collect() };
    let ends = |links: Vec<LinkId>| -> Vec<String> {
        let shown = |link| format!("{} -> {}", name(topology.link(link).source), name(topology.link(link).target));
        links.into_iter().map(shown).collect()
    };
    match limit {
        Core::Cut { links, from, to } => {
            Limit { kind: "rate", sources: named(from), targets: named(to), links: ends(links) }
        }
        Core::Links(links) => Limit { kind: "rate", links: ends(links), ..Limit::default() },
        Core::Farthest => Limit { kind: "latency", ..Limit::default() },
        Core::Flow(from, to) => {
            Limit { kind: "flow", sources: named(from), targets: named(vec![to]), ..Limit::default() }
        }
        Core::FlowBack(from, to) => {
            Limit { kind: "flow", sources: named(vec![from]), targets: named(to), ..Limit::default() }
        }
    }
}

/// Bounds on a collective on a network; `treefold.bound_at` returns what they say of a size.
#[pyclass(frozen, module = "treefold")]
pub struct CollectiveBounds {
    topology: Arc<treefold::topology::Topology>,
    bounds: Arc<treefold::bound::CollectiveBounds>,
}

#[pymethods]
impl CollectiveBounds {
    /// The `ProvenRate` for large vectors.
    #[getter]
    fn rate(&self) -> ProvenRate {
        let bound = self.bounds.rate;
        let rate = Some(bound.rate.bytes_per_second()).filter(|rate| rate.is_finite());
        ProvenRate { name: "rate", rate_Bps: rate, is_exact: bound.exact, method: bound.method }
    }

    /// The latency, in seconds, between the two ranks that are farthest apart of those that learn of each other.
    #[getter]
    fn latency_s(&self) -> f64 {
        self.bounds.farthest.seconds()
    }

    /// Return what limits the rate for large vectors.
    fn limit_of_rate(&self) -> Limit {
        limit_of(&self.topology, self.bounds.limit_of_rate().clone())
    }

    /// Return an array with a price for each link: the most by which the rate rises for each byte a second that the
    /// link gains.
    fn prices<'py>(&self, py: Python<'py>) -> Column<'py, f64> {
        self.bounds.prices[..self.topology.links().len()].to_vec().into_pyarray(py)
    }

    /// Return the seconds that the collective takes at least for a vector of this size.
    fn seconds(&self, size_bytes: Whole) -> PyResult<f64> {
        Ok(self.bounds.seconds(size_bytes.bytes("size_bytes")?).get())
    }

    /// Return what limits the collective at this size; None if nothing has to be sent.
    fn limit(&self, size_bytes: Whole) -> PyResult<Option<Limit>> {
        let limit = self.bounds.limit(size_bytes.bytes("size_bytes")?);
        Ok(limit.map(|limit| limit_of(&self.topology, limit)))
    }
}

/// Return the bounds on a collective; `root` counts where the collective has one, and `blocks` in an all-to-all. They
/// are kept, and serve every size.
#[pyfunction]
pub fn collective_bounds(
    py: Python<'_>,
    topology: &Topology,
    collective: &str,
    root: u32,
    blocks: Option<PyReadonlyArray2<'_, u64>>,
) -> PyResult<CollectiveBounds> {
    let (topology, collective) = (Arc::clone(&topology.0), collective.parse().map_err(raise)?);
    let (root, blocks) = (NodeId(root), planning::blocks(topology.ranks(), blocks.as_ref())?);
    let options = Options { collective, root, blocks, ..Options::default() };
    let bounds = py.detach(|| planners::bounds_of(&topology, &options));
    Ok(CollectiveBounds { topology, bounds })
}
