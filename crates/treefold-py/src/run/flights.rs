//! Operations in flight over TCP: their vectors belong to Python, which lends them while a thread works on them.

use std::collections::VecDeque;

use numpy::{PyArray1, PyArrayMethods, PyReadwriteArray1};
use pyo3::prelude::*;
use treefold::error::Error;
use treefold::number::{Number, Operator};
use treefold::run::operation::{Operation, Progress};
use treefold::run::tcp::{self, Failure, Timeouts};

use super::Program;
use super::recording::{Recorder, Recording};
use super::turns::Turns;
use crate::{interruptible, raise};

/// An operation in flight.
pub struct Flight {
    /// Its number among all operations.
    pub number: u32,
    pub program: Py<Program>,
    vector: Py<PyArray1<u8>>,
    result: Option<Py<PyArray1<u8>>>,
    recording: Option<(Py<Recording>, Recorder)>,
    scratch: Vec<u64>,
    progress: Option<Progress>,
    timeouts: Timeouts,
}

impl Flight {
    pub fn new(
        program: Py<Program>,
        vector: Py<PyArray1<u8>>,
        result: Option<Py<PyArray1<u8>>>,
        recording: Option<Py<Recording>>,
        timeouts: Timeouts,
    ) -> Self {
        let recording = recording.map(|keeper| {
            let mut recorder = keeper.get().recorder();
            recorder.prepare(&program.get().0);
            (keeper, recorder)
        });
        Self { number: 0, program, vector, result, recording, scratch: Vec::new(), progress: None, timeouts }
    }

    /// Checks the arguments and begins the operation, with scratch space of an earlier one.
    pub fn begin(&mut self, py: Python<'_>, number: Number, operator: Operator, scratch: Vec<u64>) -> PyResult<()> {
        self.scratch = scratch;
        let Self { program, vector, result, scratch, .. } = self;
        let program = &program.get().0;
        if let Some(result) = result {
            let (room, bytes) = (result.bind(py).try_readonly()?.as_slice()?.len(), program.result_bytes());
            if room != bytes {
                return Err(raise(Error::new(format!("the result has {bytes} bytes, but there is room for {room}"))));
            }
        }
        let mut vector = vector.bind(py).try_readwrite()?;
        let vector = vector.as_slice_mut()?;
        let begun = py.detach(|| Operation::new(program, number, operator, vector, scratch).map(Operation::suspend));
        self.progress = Some(begun.map_err(raise)?);
        Ok(())
    }

    /// Resumes the operation on memory that Python has lent.
    fn resume<'a>(&'a mut self, vector: &'a mut [u8]) -> treefold::error::Result<Operation<'a>> {
        let progress = self.progress.take().expect("it was suspended");
        let operation = Operation::resume(&self.program.get().0, vector, &mut self.scratch, progress)?;
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
        let mut lent = Vec::new();
        for flight in &self.flights {
            let result = flight.result.as_ref().map(|result| result.bind(py).try_readwrite()).transpose()?;
            lent.push((flight.vector.bind(py).try_readwrite()?, result));
        }
        let mut ended = 0;
        let driven = {
            let memory = slices(&mut lent)?;
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

/// The memory of an operation: its vector, and the room for its result if that is elsewhere.
type Memory<'a> = (&'a mut [u8], Option<&'a mut [u8]>);

/// Arrays that Python has lent, as [`Memory`] needs them.
type Lent<'py> = (PyReadwriteArray1<'py, u8>, Option<PyReadwriteArray1<'py, u8>>);

fn slices<'a>(lent: &'a mut [Lent<'_>]) -> PyResult<Vec<Memory<'a>>> {
    let mut memory = Vec::with_capacity(lent.len());
    for (vector, result) in lent {
        let result = result.as_mut().map(|result| result.as_slice_mut()).transpose()?;
        memory.push((vector.as_slice_mut()?, result));
    }
    Ok(memory)
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
    for (flight, (vector, result)) in flights.iter_mut().zip(memory) {
        operations.push(flight.resume(vector)?);
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
