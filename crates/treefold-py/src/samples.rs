//! The binding of quantities that are sampled over time.

use numpy::{IntoPyArray, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use treefold::sim::samples::{self, Items};
use treefold::topology::Topology;

/// A quantity that the packet simulator sampled over time, for each node or each link.
///
/// Example:
///     >>> trace = treefold.trace(treefold.plan("ring:4", "ring"), size_bytes=4096, simulator="packet")
///     >>> trace.samples(8)["buffers"]
///     Samples(flits in buffers, of 4 nodes in 8 windows)
#[pyclass(frozen, get_all, module = "treefold")]
pub struct Samples {
    /// What it is, in a few words.
    title: &'static str,
    /// The unit of the values; it is empty for shares, which go from 0 to 1.
    unit: &'static str,
    /// The items that the values are of: `nodes` or `links`.
    of: &'static str,
    /// The mean in each window of the time, a float32 array of nodes or links, in the order of the network, and of
    /// windows.
    values: Py<PyArray2<f32>>,
}

#[pymethods]
impl Samples {
    fn __repr__(&self, py: Python<'_>) -> String {
        let dims = self.values.bind(py).dims();
        format!("Samples({}, of {} {} in {} windows)", self.title, dims[0], self.of, dims[1])
    }
}

/// Returns a dictionary of what was sampled, by name, over so many windows.
pub fn samples_over<'py>(
    py: Python<'py>,
    sampled: &[samples::Samples],
    topology: &Topology,
    windows: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    for samples in sampled {
        let quantity = samples.quantity;
        let (of, items) = match quantity.of() {
            Items::Nodes => ("nodes", topology.nodes().len()),
            Items::Links => ("links", topology.links().len()),
        };
        let values = py.detach(|| samples.over(windows)).into_pyarray(py).reshape([items, windows])?.unbind();
        found.set_item(quantity.name(), Samples { title: quantity.title(), unit: quantity.unit(), of, values })?;
    }
    Ok(found)
}
