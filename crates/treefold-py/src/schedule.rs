//! The binding of `treefold::plan::schedule`.

use numpy::IntoPyArray;
use pyo3::prelude::*;
use treefold::plan::schedule;

use crate::Column;

/// A plan lowered for one size: arrays of transfers, in an order that respects their dependencies.
#[pyclass(frozen, module = "treefold")]
pub struct Schedule {
    pub schedule: schedule::Schedule,
    pub inputs: Vec<(u64, u64)>,
    pub outputs: Vec<Vec<(u64, u64)>>,
}

#[pymethods]
impl Schedule {
    fn __len__(&self) -> usize {
        self.schedule.len()
    }

    fn __repr__(&self) -> String {
        format!("Schedule(transfers={}, buffers={})", self.schedule.len(), self.schedule.buffers.len())
    }

    /// The node of each buffer; buffer r is the vector of rank r.
    #[getter]
    fn buffers(&self) -> Vec<u32> {
        self.schedule.buffers.iter().map(|node| node.0).collect()
    }

    /// The range of elements with which each rank starts, numbered as in the transfers.
    #[getter]
    fn inputs(&self) -> Vec<(u64, u64)> {
        self.inputs.clone()
    }

    /// The pieces of each rank's result.
    #[getter]
    fn outputs(&self) -> Vec<Vec<(u64, u64)>> {
        self.outputs.clone()
    }

    /// Return arrays `(reduces, source, target)`; source and target are buffers.
    fn transfers<'py>(&self, py: Python<'py>) -> (Column<'py, bool>, Column<'py, u32>, Column<'py, u32>) {
        let reduces: Vec<bool> = self.schedule.op.iter().map(|&op| op == schedule::Op::Reduce).collect();
        let Self { schedule, .. } = self;
        (reduces.into_pyarray(py), schedule.source.clone().into_pyarray(py), schedule.target.clone().into_pyarray(py))
    }

    /// Return arrays `(first, start, end)`: transfer i moves the pieces `first[i]..first[i + 1]`.
    fn pieces<'py>(&self, py: Python<'py>) -> (Column<'py, u64>, Column<'py, u64>, Column<'py, u64>) {
        let pieces = &self.schedule.pieces;
        let starts: Vec<u64> = pieces.items.iter().map(|piece| piece.start).collect();
        let ends: Vec<u64> = pieces.items.iter().map(|piece| piece.end).collect();
        (pieces.first.clone().into_pyarray(py), starts.into_pyarray(py), ends.into_pyarray(py))
    }

    /// Return arrays `(first, transfer)`: transfer i waits for `transfer[first[i]:first[i + 1]]`.
    fn dependencies<'py>(&self, py: Python<'py>) -> (Column<'py, u64>, Column<'py, u32>) {
        let dependencies = &self.schedule.dependencies;
        (dependencies.first.clone().into_pyarray(py), dependencies.items.clone().into_pyarray(py))
    }
}
