//! The binding of `treefold::bound`.

use numpy::{PyArray2, PyReadonlyArray1};
use pyo3::prelude::*;
use treefold::ids::NodeId;
use treefold::units::Bandwidth;

use crate::options::Whole;
use crate::raise;

/// Bounds on three kinds of all-reduce on a network; `treefold.bound` returns them with names.
#[pyclass(frozen, module = "treefold")]
pub struct Bounds(pub treefold::bound::Bounds);

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
        let bounds = &self.0;
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

    /// Return the bounds with a better rate that a linear program has found.
    ///
    /// `rate`, in bytes per second, replaces `in_network` if `with_switches`, and `all_reduce` if not; `exact` says
    /// whether no smaller rate would be a bound.
    fn tightened(&self, with_switches: bool, rate: f64, exact: bool) -> PyResult<Self> {
        Ok(Self(self.0.tightened(with_switches, Bandwidth::new(rate).map_err(raise)?, exact)))
    }

    /// The latency, in seconds, between the two ranks that are farthest apart.
    #[getter]
    fn latency_s(&self) -> f64 {
        self.0.farthest.seconds()
    }

    /// Return the seconds that any all-reduce of this size takes at least.
    fn seconds(&self, size_bytes: Whole) -> PyResult<f64> {
        Ok(self.0.seconds(size_bytes.bytes("size_bytes")?).get())
    }
}

/// The cuts that limit the rates at which nodes broadcast.
#[pyclass(frozen, get_all, module = "treefold")]
pub struct Cuts {
    /// The largest factor, at most 1, by which all rates can be multiplied within the capacities of the links.
    factor: f64,
    /// The cuts that prove that no larger factor is possible: a row of flags for each, with a flag for each node.
    sets: Py<PyArray2<bool>>,
}

/// Return the cuts for rates at which nodes broadcast to the ranks, which are the nodes 0 to ranks - 1.
#[pyfunction]
pub fn find_cuts<'py>(
    py: Python<'py>,
    ranks: usize,
    ends: Vec<(u32, u32)>,
    capacity: PyReadonlyArray1<'py, f64>,
    rates: PyReadonlyArray1<'py, f64>,
) -> PyResult<Cuts> {
    let rates = rates.as_slice()?;
    let ends: Vec<(NodeId, NodeId)> = ends.into_iter().map(|(a, b)| (NodeId(a), NodeId(b))).collect();
    let links = treefold::bound::Links { nodes: rates.len(), ends: &ends, capacity: capacity.as_slice()? };
    let (factor, sets) = py.detach(|| treefold::bound::find_cuts(&links, rates, ranks));
    let sets = PyArray2::from_vec2(py, &sets).expect("a flag for each node").unbind();
    Ok(Cuts { factor, sets })
}
