//! The binding of `treefold::plan::schedule`.

use numpy::IntoPyArray;
use pyo3::prelude::*;
use treefold::plan::schedule;

use crate::Column;

/// A plan lowered for one size: arrays of transfers, in an order that respects their dependencies.
///
/// `Plan.schedule` makes one. Transfers move pieces, ranges of elements `(start, end)`, from a buffer to a buffer; an
/// element has the same number in both. In an all-to-all, element e of rank r's vector has the number r * elements + e,
/// so that the numbers of all elements differ.
///
/// Example:
///     >>> schedule = treefold.plan("ring:2", "ring").schedule(elements=8, element_bytes=4)
///     >>> schedule.buffers, schedule.inputs, schedule.outputs
///     ([0, 1], [(0, 8), (0, 8)], [[(0, 8)], [(0, 8)]])
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

    /// For each buffer, the number of the node that holds it, as in `Topology.link_columns`; buffer r is the vector of
    /// rank r.
    #[getter]
    fn buffers(&self) -> Vec<u32> {
        self.schedule.buffers.iter().map(|node| node.0).collect()
    }

    /// For each rank, the elements `(start, end)` of the rank's buffer that it holds at first.
    #[getter]
    fn inputs(&self) -> Vec<(u64, u64)> {
        self.inputs.clone()
    }

    /// For each rank, a list of the pieces `(start, end)` of the rank's buffer that are its result; it is empty for a
    /// rank without a result.
    #[getter]
    fn outputs(&self) -> Vec<Vec<(u64, u64)>> {
        self.outputs.clone()
    }

    /// Return arrays `(reduces, source, target)` with an item for each transfer.
    ///
    /// `source` and `target` are numbers of buffers. A transfer that reduces adds to the target; others replace it.
    ///
    /// Example:
    ///     >>> schedule = treefold.plan("ring:2", "ring").schedule(elements=8, element_bytes=4)
    ///     >>> reduces, source, target = schedule.transfers()
    ///     >>> reduces.tolist(), source.tolist(), target.tolist()
    ///     ([True, True, False, False], [1, 0, 0, 1], [0, 1, 1, 0])
    fn transfers<'py>(&self, py: Python<'py>) -> (Column<'py, bool>, Column<'py, u32>, Column<'py, u32>) {
        let adds = |op: &schedule::Op| matches!(op, schedule::Op::Reduce | schedule::Op::LocalReduce);
        let reduces: Vec<bool> = self.schedule.op.iter().map(adds).collect();
        let Self { schedule, .. } = self;
        let numbers = |buffers: &[schedule::BufferId]| buffers.iter().map(|buffer| buffer.0).collect::<Vec<u32>>();
        let (source, target) = (numbers(&schedule.source), numbers(&schedule.target));
        (reduces.into_pyarray(py), source.into_pyarray(py), target.into_pyarray(py))
    }

    /// Return arrays `(first, start, end)`: transfer i moves the pieces `first[i]` to `first[i + 1] - 1`.
    ///
    /// Piece p has the elements `start[p]` to `end[p] - 1`.
    ///
    /// Example:
    ///     >>> schedule = treefold.plan("ring:2", "ring").schedule(elements=8, element_bytes=4)
    ///     >>> [column.tolist() for column in schedule.pieces()]
    ///     [[0, 1, 2, 3, 4], [0, 4, 0, 4], [4, 8, 4, 8]]
    fn pieces<'py>(&self, py: Python<'py>) -> (Column<'py, u64>, Column<'py, u64>, Column<'py, u64>) {
        let pieces = &self.schedule.pieces;
        let starts: Vec<u64> = pieces.items.iter().map(|piece| piece.start).collect();
        let ends: Vec<u64> = pieces.items.iter().map(|piece| piece.end).collect();
        (pieces.first.clone().into_pyarray(py), starts.into_pyarray(py), ends.into_pyarray(py))
    }

    /// Return arrays `(first, transfer)`: transfer i waits for `transfer[first[i]:first[i + 1]]`.
    ///
    /// Example:
    ///     >>> schedule = treefold.plan("ring:2", "ring").schedule(elements=8, element_bytes=4)
    ///     >>> [column.tolist() for column in schedule.dependencies()]
    ///     [[0, 0, 0, 1, 2], [0, 1]]
    fn dependencies<'py>(&self, py: Python<'py>) -> (Column<'py, u64>, Column<'py, u32>) {
        let dependencies = &self.schedule.dependencies;
        let transfers: Vec<u32> = dependencies.items.iter().map(|transfer| transfer.0).collect();
        (dependencies.first.clone().into_pyarray(py), transfers.into_pyarray(py))
    }
}

/// Returns the ends of a range.
pub fn bounds(range: std::ops::Range<u64>) -> (u64, u64) {
    (range.start, range.end)
}
