//! The binding of `treefold::run`: programs, and the transports in Rust. Vectors cross as NumPy arrays of bytes.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use mio::Waker;
use numpy::{PyArray1, PyArrayMethods, PyReadwriteArray1};
use pyo3::prelude::*;
use treefold::run::memory;
use treefold::run::number::{Number, Operator};
use treefold::run::operation::Operation;
use treefold::run::program;
use treefold::run::tcp::notice::Notice;
use treefold::run::tcp::{self, Failure};
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

/// `(kind, rank, by, text)`: `gone`, `cut`, `silent` (its ranks in the text), `given up`; -1 where no rank is meant.
type Fault = (&'static str, i64, i64, String);

/// The TCP connections of one rank. Methods may be called from several threads; one works at a time, and `idle` makes way.
#[pyclass(frozen, module = "treefold")]
pub struct Mesh {
    mesh: Mutex<(tcp::Mesh, Vec<u64>)>,
    wanted: AtomicUsize,
    waker: Arc<Waker>,
}

impl Mesh {
    fn locked(&self) -> MutexGuard<'_, (tcp::Mesh, Vec<u64>)> {
        self.wanted.fetch_add(1, Ordering::SeqCst);
        // A wake that fails leaves the lock to the end of the other's wait.
        let _ = self.waker.wake();
        let guard = self.mesh.lock().expect("no panic");
        self.wanted.fetch_sub(1, Ordering::SeqCst);
        guard
    }
}

#[pymethods]
impl Mesh {
    /// Rank `rank` of `ranks` listens on `address`, and only there; all ranks of a group have the same token.
    #[new]
    fn new(rank: u32, ranks: u32, address: IpAddr, token: u64) -> PyResult<Self> {
        let mesh = tcp::Mesh::listen(rank, ranks, address, token).map_err(raise)?;
        let waker = mesh.waker();
        Ok(Self { mesh: Mutex::new((mesh, Vec::new())), wanted: AtomicUsize::new(0), waker })
    }

    /// Where it listens: `address:port`.
    #[getter]
    fn address(&self, py: Python<'_>) -> String {
        py.detach(|| self.locked().0.address().to_string())
    }

    /// Connects to `(rank, "address:port")` of each peer; they have to do the same.
    fn connect(&self, py: Python<'_>, peers: Vec<(u32, String)>, patience_s: f64, dead_after_s: f64) -> PyResult<()> {
        let parse = |(rank, text): (u32, String)| text.parse().map(|address: SocketAddr| (rank, address));
        let peers: Vec<_> = peers.into_iter().map(parse).collect::<Result<_, _>>()?;
        let times = [patience_s, dead_after_s].map(Duration::from_secs_f64);
        interruptible(py, |go_on| self.locked().0.connect(&peers, times[0], times[1], go_on))
    }

    /// Runs one operation on `vector` in place, and copies the result to `result` where that stands elsewhere. Returns None,
    /// or why there is no result.
    #[pyo3(signature = (program, vector, number, operator, patience_s, result=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        program: Py<Program>,
        vector: &Bound<'py, PyArray1<u8>>,
        number: &str,
        operator: &str,
        patience_s: f64,
        result: Option<&Bound<'py, PyArray1<u8>>>,
    ) -> PyResult<Option<Fault>> {
        let (number, operator): (Number, Operator) = (number.parse().map_err(raise)?, operator.parse().map_err(raise)?);
        let (program, patience) = (&program.get().0, Duration::from_secs_f64(patience_s));
        let mut vector = vector.try_readwrite()?;
        let vector = vector.as_slice_mut()?;
        let mut result = result.map(|result| result.try_readwrite()).transpose()?;
        let result = result.as_mut().map(|result| result.as_slice_mut()).transpose()?;
        let mut fault = None;
        let done = interruptible(py, |go_on| {
            let mut guard = self.locked();
            let (mesh, scratch) = &mut *guard;
            let mut operation = Operation::new(program, number, operator, vector, scratch)?;
            match mesh.run(&mut operation, number, operator, patience, go_on) {
                Ok(()) => result.map(|result| operation.copy_result(result)).transpose().map(|_| ()),
                Err(Failure::Interrupted) => Err(treefold::error::Error::new("interrupted")),
                Err(failure) => {
                    fault = describe(failure);
                    Ok(())
                }
            }
        });
        done.map(|()| fault)
    }

    /// Keeps the connections alive between operations, until one begins or the time is over.
    fn idle(&self, py: Python<'_>, most_s: f64) {
        py.detach(|| {
            while self.wanted.load(Ordering::SeqCst) > 0 {
                thread::sleep(Duration::from_millis(1));
            }
            let mut guard = self.mesh.lock().expect("no panic");
            guard.0.idle(Duration::from_secs_f64(most_s), &|| self.wanted.load(Ordering::SeqCst) > 0);
        });
    }

    /// Who answers within `patience_s`: each rank's last operation and whether it is at work, None if it did not answer.
    fn roll_call(&self, py: Python<'_>, patience_s: f64) -> Vec<Option<(u32, bool)>> {
        py.detach(|| self.locked().0.roll_call(Duration::from_secs_f64(patience_s)))
    }

    /// Sends words to all other ranks; they come before any later message.
    fn tell(&self, py: Python<'_>, words: Vec<u8>) {
        py.detach(|| self.locked().0.tell(&Notice::Words(words)));
    }

    /// `(rank, words)` that came since the last call.
    fn words(&self, py: Python<'_>) -> Vec<(u32, Vec<u8>)> {
        py.detach(|| self.locked().0.take_words())
    }

    /// `(rank, bytes, seconds)` a connection since the last call: what left while more waited, and how long that took.
    fn gauges(&self, py: Python<'_>) -> Vec<(u32, u64, f64)> {
        py.detach(|| self.locked().0.read_gauges())
    }

    /// The failure that was noticed between operations, which is then forgotten.
    fn take_failure(&self, py: Python<'_>) -> Option<Fault> {
        py.detach(|| self.locked().0.take_failure()).and_then(describe)
    }

    /// Number of the last operation.
    #[getter]
    fn sequence(&self, py: Python<'_>) -> u32 {
        py.detach(|| self.locked().0.sequence())
    }

    /// After a failure: goes on behind operation `sequence`, as all ranks do.
    fn skip_to(&self, py: Python<'_>, sequence: u32) {
        py.detach(|| self.locked().0.skip_to(sequence));
    }

    /// Says farewell and closes all connections.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.locked().0.close());
    }
}

fn describe(failure: Failure) -> Option<Fault> {
    match failure {
        Failure::Gone { rank, by, cause } => Some(("gone", rank.into(), by.into(), cause)),
        Failure::Cut { rank, by, cause } => Some(("cut", rank.into(), by.into(), cause)),
        Failure::Silent(ranks) => {
            let names: Vec<String> = ranks.iter().map(u32::to_string).collect();
            Some(("silent", ranks[0].into(), -1, names.join(",")))
        }
        Failure::GivenUp(cause) => Some(("given up", -1, -1, cause)),
        Failure::Interrupted => None,
    }
}
