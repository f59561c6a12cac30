//! The binding of recordings, and of the trace that those of all ranks make up.

use std::sync::{Mutex, MutexGuard};

use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
pub use treefold::run::recording::Recording as Recorder;
use treefold::run::recording::{Message, messages, settle};
use treefold::sim::trace::{self, Transfer};
use treefold::units::{Bytes, Seconds, Time};

use super::Program;
use crate::plan::Plan;
use crate::raise;
use crate::trace::Trace;

/// When the messages of one rank left and came in the operation that was recorded last.
#[pyclass(frozen, module = "treefold")]
pub struct Recording(Mutex<Option<Recorded>>);

struct Recorded {
    program: Py<Program>,
    recording: Recorder,
}

impl Recording {
    fn locked(&self) -> MutexGuard<'_, Option<Recorded>> {
        self.0.lock().expect("no panic")
    }

    /// Returns a recorder for the next operation, with the memory of the last one.
    pub fn recorder(&self) -> Recorder {
        self.locked().take().map(|recorded| recorded.recording).unwrap_or_default()
    }

    /// Keeps what an operation with this program has recorded.
    pub fn keep(&self, program: Py<Program>, recording: Recorder) {
        *self.locked() = Some(Recorded { program, recording });
    }
}

#[pymethods]
impl Recording {
    #[new]
    fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// How many transfers the schedule of the operation has, those of other ranks included; 0 if none was recorded.
    #[getter]
    fn transfers(&self) -> usize {
        self.locked().as_ref().map_or(0, |recorded| recorded.program.get().0.transfers)
    }

    /// Write when this rank's messages left and came to a table of `3 * transfers` items: for each transfer when its
    /// first byte left, then for each when its last byte had left, then for each when that was received.
    fn write(&self, times: &Bound<'_, PyArray1<f64>>) -> PyResult<()> {
        let mut times = times.try_readwrite()?;
        if let Some(Recorded { program, recording }) = &*self.locked() {
            recording.write(&program.get().0, times.as_slice_mut()?);
        }
        Ok(())
    }
}

/// Return the trace of a run from a table that all ranks have written, whose clocks agree within `uncertainty_s`.
#[pyfunction]
pub fn measured_trace(
    py: Python<'_>,
    plan: Py<Plan>,
    elements: u64,
    element_bytes: u64,
    overhead_s: f64,
    times: &Bound<'_, PyArray1<f64>>,
    uncertainty_s: f64,
) -> PyResult<Trace> {
    let (run, overhead) = (plan.get().runnable()?, Time::from_seconds(overhead_s).map_err(raise)?);
    let mut times = times.try_readwrite()?;
    let times = times.as_slice_mut()?;
    let trace = py.detach(|| {
        let uncertainty = Seconds::new(uncertainty_s)?;
        let (messages, transfers) = messages(run, elements, element_bytes, overhead)?;
        assert_eq!(times.len(), 3 * transfers, "the table has three rows");
        let worst = settle(&messages, times)?;
        let placed = messages.iter().map(|message| placed(message, times)).collect();
        let size = Bytes::new(elements * element_bytes)?;
        Ok(trace::Trace::measured(run, size, placed, uncertainty.max(worst)))
    });
    Ok(Trace::new(plan, trace.map_err(raise)?, Vec::new()))
}

/// Returns a message with its times.
fn placed(message: &Message, times: &[f64]) -> Transfer {
    let &Message { transfer, lane, tree, phase, step, chunk, reduces, bytes } = message;
    let row = times.len() / 3;
    let [start, sent, received] = [0, 1, 2].map(|number| Seconds::known(times[number * row + transfer.index()]));
    Transfer { lane, tree, phase, step, chunk, reduces, bytes: bytes.get() as f64, start, sent, received }
}
