//! The binding of `treefold::run`: programs, and the transports of the core. Vectors cross as NumPy arrays of bytes.

mod flights;
mod mesh;
mod operation;
mod recording;
mod turns;

use numpy::{PyArray1, PyArrayMethods, PyReadwriteArray1};
use pyo3::prelude::*;
use treefold::number::wire::Wire;
use treefold::number::{Number, Operator, combine};
use treefold::run::tcp::Signature;
use treefold::run::{memory, program, tcp};
use treefold::topology::NodeId;
use treefold::units::{Seconds, Time};

use crate::plan::Plan;
use crate::{interruptible, raise};

pub use mesh::{ControlMessage, Fault, LinkUsage, Mesh};
pub use operation::Operation;
pub use recording::{Recording, measured_trace};

/// A rank's part of a plan for vectors of one size.
#[pyclass(frozen, module = "treefold")]
pub struct Program(program::Program);

#[pymethods]
impl Program {
    #[new]
    #[pyo3(signature = (plan, rank, elements, element_bytes, overhead_s, wire=None))]
    fn new(
        py: Python<'_>,
        plan: &Plan,
        rank: u32,
        elements: u64,
        element_bytes: u64,
        overhead_s: f64,
        wire: Option<&str>,
    ) -> PyResult<Self> {
        let (plan, overhead, wire) = (plan.runnable()?, time(overhead_s)?, parsed(wire)?);
        let rank = NodeId(rank);
        let make = || program::Program::crossing_as(wire, plan, rank, elements, element_bytes, overhead);
        Ok(Self(py.detach(make).map_err(raise)?))
    }

    /// Return the programs of all ranks.
    #[staticmethod]
    #[pyo3(signature = (plan, elements, element_bytes, overhead_s, wire=None))]
    fn all(
        py: Python<'_>,
        plan: &Plan,
        elements: u64,
        element_bytes: u64,
        overhead_s: f64,
        wire: Option<&str>,
    ) -> PyResult<Vec<Self>> {
        let (plan, overhead, wire) = (plan.runnable()?, time(overhead_s)?, parsed(wire)?);
        let programs = py.detach(|| program::Program::all_crossing_as(wire, plan, elements, element_bytes, overhead));
        Ok(programs.map_err(raise)?.into_iter().map(Self).collect())
    }

    /// The type in which numbers cross lines; None if they cross as they are.
    #[getter]
    fn wire(&self) -> Option<&'static str> {
        self.0.wire.map(Wire::name)
    }

    /// The bytes of an element as it crosses lines, without its part of a block's scale.
    #[getter]
    fn element_bytes_crossing(&self) -> u64 {
        self.0.element_bytes_crossing()
    }

    /// The rank whose program it is.
    #[getter]
    fn rank(&self) -> u32 {
        self.0.rank.0
    }

    /// The ranks that this rank sends to or receives from.
    #[getter]
    fn peers(&self) -> Vec<u32> {
        self.0.peers.iter().map(|peer| peer.0).collect()
    }

    /// Return what a rank with this program computes, as text; it has to be the same on all ranks of an operation.
    fn signature(&self, number: &str, operator: &str) -> PyResult<String> {
        let (number, operator) = (number.parse().map_err(raise)?, operator.parse().map_err(raise)?);
        Ok(Signature::new(&self.0, number, operator).to_string())
    }

    /// How many messages come from each peer.
    #[getter]
    fn receives(&self) -> Vec<usize> {
        self.0.receives()
    }

    /// The bytes of the longest message, its number included.
    #[getter]
    fn message_bytes(&self) -> usize {
        operation::NUMBER_BYTES + self.0.longest_message()
    }

    /// How many messages the rank sends.
    #[getter]
    fn sends(&self) -> usize {
        self.0.sends()
    }

    /// The rank's own values at the beginning, as `(start, end)` in bytes of the vector.
    #[getter]
    fn input(&self) -> (usize, usize) {
        (self.0.input.start, self.0.input.end)
    }

    /// The pieces of the result, each as `(start, end)` in bytes; beyond the vector's end is scratch space.
    #[getter]
    fn output(&self) -> Vec<(usize, usize)> {
        self.0.output.iter().map(|piece| (piece.start, piece.end)).collect()
    }
}

fn time(seconds: f64) -> PyResult<Time> {
    Time::from_seconds(seconds).map_err(raise)
}

fn parsed(wire: Option<&str>) -> PyResult<Option<Wire>> {
    wire.map(str::parse).transpose().map_err(raise)
}

/// Return the wire type of this name as vectors of `number` need it: None if they have that type already.
#[pyfunction]
pub fn wire_type(name: &str, number: &str) -> PyResult<Option<&'static str>> {
    let (wire, number): (Wire, Number) = (name.parse().map_err(raise)?, number.parse().map_err(raise)?);
    Ok(wire.carrying(number).map_err(raise)?.map(Wire::name))
}

/// Return the bytes of so many numbers that cross lines as `wire`.
#[pyfunction]
pub fn wire_bytes(wire: &str, elements: usize) -> PyResult<usize> {
    Ok(wire.parse::<Wire>().map_err(raise)?.bytes(elements))
}

/// Return the bytes of an element of `number`, which must have the operator.
#[pyfunction]
pub fn number_bytes(number: &str, operator: &str) -> PyResult<usize> {
    let (number, operator): (Number, Operator) = (number.parse().map_err(raise)?, operator.parse().map_err(raise)?);
    combine(number, operator).map_err(raise)?;
    Ok(number.bytes())
}

/// Run one operation on all ranks as threads of this process, in place; return each rank's scratch space as words.
/// There is a recording for each rank, or none.
#[pyfunction]
#[pyo3(signature = (programs, vectors, number, operator, recordings=None))]
pub fn run_threads<'py>(
    py: Python<'py>,
    programs: Vec<Py<Program>>,
    vectors: Vec<Bound<'py, PyArray1<u8>>>,
    number: &str,
    operator: &str,
    recordings: Option<Vec<Py<Recording>>>,
) -> PyResult<Vec<Bound<'py, PyArray1<u64>>>> {
    let (number, operator): (Number, Operator) = (number.parse().map_err(raise)?, operator.parse().map_err(raise)?);
    let all: Vec<&program::Program> = programs.iter().map(|program| &program.get().0).collect();
    let mut borrowed: Vec<PyReadwriteArray1<'py, u8>> =
        vectors.iter().map(|vector| vector.try_readwrite()).collect::<Result<_, _>>()?;
    let mut slices = Vec::new();
    for vector in &mut borrowed {
        slices.push(vector.as_slice_mut()?);
    }
    let mut scratch = vec![Vec::new(); programs.len()];
    let mut recorded = recordings.as_ref().map(|each| each.iter().map(|one| one.get().recorder()).collect::<Vec<_>>());
    let noted = recorded.as_deref_mut();
    interruptible(py, |go_on| memory::run(&all, number, operator, &mut slices, &mut scratch, noted, go_on))?;
    for ((keeper, recorded), program) in recordings.iter().flatten().zip(recorded.into_iter().flatten()).zip(programs) {
        keeper.get().keep(program, recorded);
    }
    Ok(scratch.into_iter().map(|words| PyArray1::from_vec(py, words)).collect())
}

/// Return the seconds that sending or receiving a message over TCP costs this machine, besides its bytes.
#[pyfunction]
pub fn message_cost(py: Python<'_>) -> PyResult<f64> {
    py.detach(tcp::message_cost).map(Seconds::get).map_err(raise)
}
