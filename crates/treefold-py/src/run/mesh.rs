//! A rank's TCP connections, for Python.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use mio::Waker;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use treefold::error::Error;
use treefold::run::number::{Number, Operator};
use treefold::run::operation;
use treefold::run::tcp::notice::Notice;
use treefold::run::tcp::{self, Failure, Patience};

use super::Program;
use crate::{interruptible, raise};

/// `(kind, rank, by, text)`: `gone`, `cut`, `given up`; -1 where no rank is meant.
type Fault = (&'static str, i64, i64, String);

/// The TCP connections of one rank. Methods may be called from several threads; one works at a time, and `idle` makes
/// way.
#[pyclass(frozen, module = "treefold")]
pub struct Mesh {
    mesh: Mutex<(tcp::Mesh, Vec<u64>)>,
    wanted: AtomicUsize,
    stopped: AtomicBool,
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
        Ok(Self {
            mesh: Mutex::new((mesh, Vec::new())),
            wanted: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            waker,
        })
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

    /// Runs one operation on `vector` in place, and copies the result to `result` where that stands elsewhere. Returns
    /// None, or why there is no result.
    #[expect(clippy::too_many_arguments, reason = "Python passes them one by one")]
    #[pyo3(signature = (program, vector, number, operator, silence_s, whole_s=None, result=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        program: Py<Program>,
        vector: &Bound<'py, PyArray1<u8>>,
        number: &str,
        operator: &str,
        silence_s: f64,
        whole_s: Option<f64>,
        result: Option<&Bound<'py, PyArray1<u8>>>,
    ) -> PyResult<Option<Fault>> {
        let (number, operator): (Number, Operator) = (number.parse().map_err(raise)?, operator.parse().map_err(raise)?);
        let program = &program.get().0;
        let patience =
            Patience { silence: Duration::from_secs_f64(silence_s), whole: whole_s.map(Duration::from_secs_f64) };
        let mut vector = vector.try_readwrite()?;
        let vector = vector.as_slice_mut()?;
        let mut result = result.map(|result| result.try_readwrite()).transpose()?;
        let result = result.as_mut().map(|result| result.as_slice_mut()).transpose()?;
        let mut fault = None;
        let done = interruptible(py, |go_on| {
            let mut guard = self.locked();
            let (mesh, scratch) = &mut *guard;
            let mut operation = operation::Operation::new(program, number, operator, vector, scratch)?;
            let mut go_on = || go_on() && !self.stopped.load(Ordering::SeqCst);
            match mesh.run(&mut operation, number, operator, patience, &mut go_on) {
                Ok(()) => result.map(|result| operation.copy_result(result)).transpose().map(|_| ()),
                Err(Failure::Interrupted) => Err(Error::new("interrupted: the vector holds no result")),
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

    /// What operations end with: that a rank is gone, or that a way is cut which is not avoided.
    #[getter]
    fn failure(&self, py: Python<'_>) -> Option<Fault> {
        py.detach(|| self.locked().0.failure()).and_then(describe)
    }

    /// Ranks that are known to be gone.
    #[getter]
    fn lost(&self, py: Python<'_>) -> Vec<u32> {
        py.detach(|| self.locked().0.lost())
    }

    /// Ways, pairs of ranks, that are known to be cut.
    #[getter]
    fn ways_cut(&self, py: Python<'_>) -> Vec<(u32, u32)> {
        py.detach(|| self.locked().0.ways_cut())
    }

    /// Those that plans may still use.
    #[getter]
    fn ways_to_avoid(&self, py: Python<'_>) -> Vec<(u32, u32)> {
        py.detach(|| self.locked().0.ways_to_avoid())
    }

    /// Goes on without these ways: plans have no use for them any more.
    fn avoid(&self, py: Python<'_>, ways: Vec<(u32, u32)>) {
        py.detach(|| self.locked().0.avoid(&ways));
    }

    /// Calls the ranks by these names in what it has to say.
    fn call_ranks(&self, py: Python<'_>, names: Vec<String>) {
        py.detach(|| self.locked().0.call_ranks(names));
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

    /// Ends the operation at work in another thread, and refuses further ones.
    fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        // Without the wake it looks a moment later.
        let _ = self.waker.wake();
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
        Failure::GivenUp(cause) => Some(("given up", -1, -1, cause)),
        Failure::Interrupted => None,
    }
}
