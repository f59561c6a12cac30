//! The binding of an operation that Python drives over an engine.

use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use treefold::bail;
use treefold::error::{Error, Result};
use treefold::number::{Number, Operator};
use treefold::plan::schedule::TransferId;
use treefold::run::message::Message;
use treefold::run::operation::{self, Progress};
use treefold::run::program::{self, PeerId};

use super::Program;
use crate::raise;

/// The bytes of the transfer's number in front of a message; with eight of them the data are aligned.
pub const NUMBER_BYTES: usize = 8;

/// Returns the number of the transfer in front of a message.
fn transfer(message: &[u8]) -> Option<TransferId> {
    let number = message.first_chunk::<NUMBER_BYTES>()?;
    u32::try_from(u64::from_le_bytes(*number)).ok().map(TransferId)
}

/// An operation that Python drives over an engine: Python asks what to send, and reports the messages that have been
/// sent and received.
#[pyclass(module = "treefold")]
pub struct Operation {
    program: Py<Program>,
    vector: Py<PyArray1<u8>>,
    residual: Option<Py<PyArray1<f32>>>,
    scratch: Vec<u64>,
    progress: Option<Progress>,
}

/// Begins an operation, with error feedback if there is a residual.
pub fn begun<'a>(
    program: &'a program::Program,
    number: Number,
    operator: Operator,
    vector: &'a mut [u8],
    scratch: &'a mut Vec<u64>,
    residual: Option<&'a mut [f32]>,
) -> Result<operation::Operation<'a>> {
    match residual {
        Some(residual) => operation::Operation::with_feedback(program, number, operator, vector, scratch, residual),
        None => operation::Operation::new(program, number, operator, vector, scratch),
    }
}

impl Operation {
    /// Resumes the operation, does `work`, and suspends it again.
    fn with<T: Send>(
        &mut self,
        py: Python<'_>,
        work: impl FnOnce(&mut operation::Operation<'_>) -> Result<T> + Send,
    ) -> PyResult<T> {
        let mut vector = self.vector.bind(py).try_readwrite()?;
        let mut residual = self.residual.as_ref().map(|residual| residual.bind(py).try_readwrite()).transpose()?;
        let residual = residual.as_mut().map(|residual| residual.as_slice_mut()).transpose()?;
        let (vector, progress) = (vector.as_slice_mut()?, self.progress.take().expect("it was suspended"));
        let (program, scratch) = (&self.program.get().0, &mut self.scratch);
        let (result, progress) = py
            .detach(|| {
                let mut operation = operation::Operation::resume(program, vector, scratch, progress)?;
                if let Some(residual) = residual {
                    operation = operation.feeding_back(residual)?;
                }
                let result = work(&mut operation);
                Ok((result, operation.suspend()))
            })
            .map_err(raise)?;
        self.progress = Some(progress);
        result.map_err(raise)
    }

    fn progress(&self) -> &Progress {
        self.progress.as_ref().expect("it was suspended")
    }
}

#[pymethods]
impl Operation {
    #[new]
    #[pyo3(signature = (program, vector, number, operator, residual=None))]
    fn new(
        py: Python<'_>,
        program: Py<Program>,
        vector: Py<PyArray1<u8>>,
        number: &str,
        operator: &str,
        residual: Option<Py<PyArray1<f32>>>,
    ) -> PyResult<Self> {
        let (number, operator): (Number, Operator) = (number.parse().map_err(raise)?, operator.parse().map_err(raise)?);
        let core = &program.get().0;
        let mut scratch = Vec::new();
        let progress = {
            let mut vector = vector.bind(py).try_readwrite()?;
            let vector = vector.as_slice_mut()?;
            let mut residual = residual.as_ref().map(|residual| residual.bind(py).try_readwrite()).transpose()?;
            let residual = residual.as_mut().map(|residual| residual.as_slice_mut()).transpose()?;
            begun(core, number, operator, vector, &mut scratch, residual).map_err(raise)?.suspend()
        };
        Ok(Self { program, vector, residual, scratch, progress: Some(progress) })
    }

    /// Return whether a message waits to be sent to the peer with this index.
    fn may_send(&self, peer: u32) -> bool {
        self.progress().peek_send(PeerId(peer)).is_some()
    }

    /// Write the next message for the peer with this index to `message`; return its length in bytes.
    fn next_send(&mut self, py: Python<'_>, peer: u32, message: &Bound<'_, PyArray1<u8>>) -> PyResult<usize> {
        let mut message = message.try_readwrite()?;
        let message = message.as_slice_mut()?;
        self.with(py, |operation| {
            let task = operation
                .next_send(PeerId(peer))
                .ok_or_else(|| Error::new("no message waits to be sent to this peer"))?;
            let length = NUMBER_BYTES + operation.bytes(task);
            if length > message.len() {
                return Err(Error::new(format!("{length} bytes of a message do not fit into {} bytes", message.len())));
            }
            message[..NUMBER_BYTES].copy_from_slice(&u64::from(operation.transfer(task)).to_le_bytes());
            operation.copy_payload(task, 0, &mut message[NUMBER_BYTES..length]);
            Ok(length)
        })
    }

    /// Report that a message has been sent.
    fn sent(&mut self, py: Python<'_>, message: &Bound<'_, PyArray1<u8>>) -> PyResult<()> {
        let message = message.try_readonly()?;
        let message = message.as_slice()?;
        self.with(py, |operation| {
            let task = transfer(message).and_then(|transfer| operation.sender(transfer));
            operation
                .end(task.ok_or_else(|| Error::new("a message is reported as sent which the plan does not have"))?);
            Ok(())
        })
    }

    /// Use a message that has come from the peer with this index, or keep it until it may be used.
    fn received(&mut self, py: Python<'_>, peer: u32, message: &Bound<'_, PyArray1<u8>>) -> PyResult<()> {
        let message = message.try_readonly()?;
        let message = message.as_slice()?;
        self.with(py, |operation| {
            let task = transfer(message).and_then(|transfer| operation.receiver(PeerId(peer), transfer));
            let body = task.and_then(|task| Some((task, message[NUMBER_BYTES..].get(..operation.bytes(task))?)));
            let Some((task, bytes)) = body else {
                let (peer, rank) = (operation.program().peers[PeerId(peer)], operation.program().rank);
                bail!("rank {peer} has sent a message that the plan of rank {rank} does not have");
            };
            if operation.may_use(task) {
                operation.take(task, 0, bytes);
                operation.end(task);
            } else {
                operation.park(task, 0, Message::of(bytes));
            }
            Ok(())
        })
    }

    /// Return whether everything is sent and received.
    fn done(&self) -> bool {
        self.progress().done()
    }

    /// Copy the pieces of the result to `target`, one behind the other.
    fn result(&mut self, py: Python<'_>, target: &Bound<'_, PyArray1<u8>>) -> PyResult<()> {
        let mut target = target.try_readwrite()?;
        let target = target.as_slice_mut()?;
        self.with(py, |operation| operation.copy_result(target))
    }
}
