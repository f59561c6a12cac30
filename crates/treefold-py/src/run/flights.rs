//! Operations in flight over TCP: their vectors belong to Python, which lends them while a thread works on them.

use std::collections::VecDeque;

use numpy::{PyArray1, PyArrayMethods, PyReadwriteArray1};
use pyo3::prelude::*;
use treefold::error::Error;
use treefold::number::{Number, Operator};
use treefold::run::operation::{Operation, Progress};
use treefold::run::tcp::{self, Failure, Timeouts};

use super::Program;
use super::operation::begun;
use super::recording::{Recorder, Recording};
use super::turns::Turns;
use crate::{interruptible, raise};

/// The arrays of an operation: its vector, the room for its result if that is elsewhere, and what rounding has taken
/// from each element if it is kept.
#[derive(FromPyObject)]
pub struct Arrays(Py<PyArray1<u8>>, Option<Py<PyArray1<u8>>>, Option<Py<PyArray1<f32>>>);

/// An operation in flight.
pub struct Flight {
    /// Its number among all operations.
    pub number: u32,
    pub program: Py<Program>,
    arrays: Arrays,
    recording: Option<(Py<Recording>, Recorder)>,
    scratch: Vec<u64>,
    progress: Option<Progress>,
    timeouts: Timeouts,
}

impl Flight {
    pub fn new(program: Py<Program>, arrays: Arrays, recording: Option<Py<Recording>>, timeouts: Timeouts) -> Self {
        let recording = recording.map(|keeper| {
            let mut recorder = keeper.get().recorder();
            recorder.prepare(&program.get().0);
            (keeper, recorder)
        });
        Self { number: 0, program, arrays, recording, scratch: Vec::new(), progress: None, timeouts }
    }

    /// Checks the arguments and begins the operation, with scratch space of an earlier one.
    pub fn begin(&mut self, py: Python<'_>, number: Number, operator: Operator, scratch: Vec<u64>) -> PyResult<()> {
        self.scratch = scratch;
        let Self { program, arrays, scratch, .. } = self;
        let program = &program.get().0;
        let mut lent = arrays.lend(py)?;
        let Memory { vector, result, residual } = lent.memory()?;
        let bytes = program.result_bytes();
        if let Some(room) = result.map(|result| result.len()).filter(|&room| room != bytes) {
            return Err(raise(Error::new(format!("the result has {bytes} bytes, but there is room for {room}"))));
        }
        let begun = py.detach(|| begun(program, number, operator, vector, scratch, residual).map(Operation::suspend));
        self.progress = Some(begun.map_err(raise)?);
        Ok(())
    }

    /// Resumes the operation on memory that Python has lent.
    fn resume<'a>(
        &'a mut self,
        vector: &'a mut [u8],
        residual: Option<&'a mut [f32]>,
    ) -> treefold::error::Result<Operation<'a>> {
        let progress = self.progress.take().expect("it was suspended");
        let mut operation = Operation::resume(&self.program.get().0, vector, &mut self.scratch, progress)?;
        if let Some(residual) = residual {
            operation = operation.feeding_back(residual)?;
        }
        Ok(match &mut self.recording {
            Some((_, recorder)) => operation.recorded(recorder),
            None => operation,
        })
    }
}

/// All operations in flight, in the order in which they began.
#[derive(Default)]
pub struct Flights {
    flights: VecDeque<Flight>,
    /// Scratch space of operations that have ended.
    spare: Vec<Vec<u64>>,
}

impl Flights {
    /// Returns whether any operation is in flight.
    pub fn any(&self) -> bool {
        !self.flights.is_empty()
    }

    /// Returns scratch space for an operation.
    pub fn spare(&mut self) -> Vec<u64> {
        self.spare.pop().unwrap_or_default()
    }

    /// Appends an operation that has begun.
    pub fn push(&mut self, flight: Flight) {
        self.flights.push_back(flight);
    }

    /// Works on the operations until none is left, or `until` says that it is enough; those who wait learn from `turns`
    /// what has ended.
    pub fn drive(
        &mut self,
        py: Python<'_>,
        mesh: &mut tcp::Mesh,
        turns: &Turns,
        until: &(dyn Fn() -> bool + Sync),
    ) -> PyResult<()> {
        let mut lent: Vec<Lent<'_>> =
            self.flights.iter().map(|flight| flight.arrays.lend(py)).collect::<PyResult<_>>()?;
        let mut ended = 0;
        let driven = {
            let memory = lent.iter_mut().map(Lent::memory).collect::<PyResult<_>>()?;
            let (flights, ended) = (&mut self.flights, &mut ended);
            interruptible(py, |go_on| {
                let mut go_on = || go_on() && turns.may_go_on();
                work(flights, memory, mesh, turns, until, &mut go_on, ended)
            })
        };
        for Flight { program, recording, scratch, .. } in self.flights.drain(..ended) {
            self.spare.push(scratch);
            if let Some((keeper, recorder)) = recording {
                keeper.get().keep(program, recorder);
            }
        }
        driven
    }
}

/// The arrays of an operation while Python lends them.
struct Lent<'py> {
    vector: PyReadwriteArray1<'py, u8>,
    result: Option<PyReadwriteArray1<'py, u8>>,
    residual: Option<PyReadwriteArray1<'py, f32>>,
}

/// Their memory.
struct Memory<'a> {
    vector: &'a mut [u8],
    result: Option<&'a mut [u8]>,
    residual: Option<&'a mut [f32]>,
}

impl Arrays {
    fn lend<'py>(&self, py: Python<'py>) -> PyResult<Lent<'py>> {
        let Self(vector, result, residual) = self;
        Ok(Lent {
            vector: vector.bind(py).try_readwrite()?,
            result: result.as_ref().map(|result| result.bind(py).try_readwrite()).transpose()?,
            residual: residual.as_ref().map(|residual| residual.bind(py).try_readwrite()).transpose()?,
        })
    }
}

impl Lent<'_> {
    fn memory(&mut self) -> PyResult<Memory<'_>> {
        Ok(Memory {
            vector: self.vector.as_slice_mut()?,
            result: self.result.as_mut().map(|result| result.as_slice_mut()).transpose()?,
            residual: self.residual.as_mut().map(|residual| residual.as_slice_mut()).transpose()?,
        })
    }
}

/// Works on operations as [`Flights::drive`] does; `ended` counts those that have ended.
fn work(
    flights: &mut VecDeque<Flight>,
    memory: Vec<Memory<'_>>,
    mesh: &mut tcp::Mesh,
    turns: &Turns,
    until: &(dyn Fn() -> bool + Sync),
    go_on: &mut dyn FnMut() -> bool,
    ended: &mut usize,
) -> treefold::error::Result<()> {
    let known: Vec<(u32, Timeouts)> = flights.iter().map(|flight| (flight.number, flight.timeouts)).collect();
    let (mut operations, mut results) = (Vec::new(), Vec::new());
    for (flight, Memory { vector, result, residual }) in flights.iter_mut().zip(memory) {
        operations.push(flight.resume(vector, residual)?);
        results.push(result);
    }
    let mut interruption = Ok(());
    while *ended < operations.len() && interruption.is_ok() {
        let (number, timeouts) = known[*ended];
        let failure = match mesh.drive(&mut operations[*ended..], timeouts, until, go_on) {
            Ok(false) => break,
            Ok(true) => None,
            Err(failure) => Some(failure),
        };
        match (&failure, results[*ended].take()) {
            (None, Some(result)) => operations[*ended].copy_result(result)?,
            (Some(Failure::Interrupted), _) => {
                interruption = Err(Error::interrupted("interrupted: the vector holds no result"));
            }
            _ => {}
        }
        turns.end(number, failure);
        *ended += 1;
    }
    let progress: Vec<Progress> = operations.into_iter().map(Operation::suspend).collect();
    flights.iter_mut().zip(progress).for_each(|(flight, progress)| flight.progress = Some(progress));
    interruption
}
