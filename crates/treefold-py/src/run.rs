//! The binding of `treefold::run`: programs, and the transports in Rust. Vectors cross as NumPy arrays of bytes.

use numpy::{PyArray1, PyArrayMethods, PyReadwriteArray1};
use pyo3::prelude::*;
use treefold::run::memory;
use treefold::run::number::{Number, Operator};
use treefold::run::program;
use treefold::units::Time;

use crate::{Plan, interruptible, raise};

/// A rank's part of a plan for vectors of one size.
#[pyclass(frozen, module = "treefold")]
pub struct Program(program::Program);

#[pymethods]
impl Program {
    #[new]
    fn new(
        py: Python<'_>,
        plan: &Plan,
        rank: u32,
        elements: u64,
        element_bytes: usize,
        overhead_s: f64,
    ) -> PyResult<Self> {
        let (plan, overhead) = (plan.sound()?, Time::from_seconds(overhead_s).map_err(raise)?);
        let program = py.detach(|| program::Program::new(plan, rank, elements, element_bytes, overhead));
        Ok(Self(program.map_err(raise)?))
    }

    /// Ranks that it sends to or receives from.
    #[getter]
    fn peers(&self) -> Vec<u32> {
        self.0.peers.clone()
    }

    /// Messages that it sends.
    #[getter]
    fn sends(&self) -> usize {
        self.0.sends()
    }

    /// `(start, end)` in bytes of the rank's own values at the beginning.
    #[getter]
    fn input(&self) -> (usize, usize) {
        (self.0.input.start, self.0.input.end)
    }

    /// `(start, end)` in bytes of each piece of the result; beyond the vector's end is scratch space.
    #[getter]
    fn output(&self) -> Vec<(usize, usize)> {
        self.0.output.iter().map(|piece| (piece.start, piece.end)).collect()
    }
}

/// Runs one operation on all ranks as threads of this process, in place. Returns each rank's scratch space, in words.
#[pyfunction]
pub fn run_threads<'py>(
    py: Python<'py>,
    programs: Vec<Py<Program>>,
    vectors: Vec<Bound<'py, PyArray1<u8>>>,
    number: &str,
    operator: &str,
) -> PyResult<Vec<Bound<'py, PyArray1<u64>>>> {
    let (number, operator): (Number, Operator) = (number.parse().map_err(raise)?, operator.parse().map_err(raise)?);
    let programs: Vec<&program::Program> = programs.iter().map(|program| &program.get().0).collect();
    let mut borrowed: Vec<PyReadwriteArray1<'py, u8>> =
        vectors.iter().map(|vector| vector.try_readwrite()).collect::<Result<_, _>>()?;
    let mut slices = Vec::new();
    for vector in &mut borrowed {
        slices.push(vector.as_slice_mut()?);
    }
    let mut scratch = vec![Vec::new(); programs.len()];
    interruptible(py, |go_on| memory::run(&programs, number, operator, &mut slices, &mut scratch, go_on))?;
    Ok(scratch.into_iter().map(|words| PyArray1::from_vec(py, words)).collect())
}
