//! The binding of `treefold::run`: programs, and the transports in Rust. Vectors cross as NumPy arrays of bytes.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use mio::Waker;
use numpy::{PyArray1, PyArrayMethods, PyReadwriteArray1};
use pyo3::prelude::*;
use treefold::error::Error;
use treefold::run::memory;
use treefold::run::number::{Combine, Number, Operator, combine};
use treefold::run::operation::{self, Message, Progress};
use treefold::run::program;
use treefold::run::tcp::frame::Signature;
use treefold::run::tcp::notice::Notice;
use treefold::run::tcp::{self, Failure, Patience};
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

    /// The parts of all ranks.
    #[staticmethod]
    fn all(py: Python<'_>, plan: &Plan, elements: u64, element_bytes: usize, overhead_s: f64) -> PyResult<Vec<Self>> {
        let (plan, overhead) = (plan.sound()?, Time::from_seconds(overhead_s).map_err(raise)?);
        let programs = py.detach(|| program::Program::all(plan, elements, element_bytes, overhead));
        Ok(programs.map_err(raise)?.into_iter().map(Self).collect())
    }

    /// The rank whose part it is.
    #[getter]
    fn rank(&self) -> u32 {
        self.0.rank
    }

    /// Ranks that it sends to or receives from.
    #[getter]
    fn peers(&self) -> Vec<u32> {
        self.0.peers.clone()
    }

    /// What a rank with this program does, as text: all ranks of an operation have to say the same.
    fn signature(&self, number: &str, operator: &str) -> PyResult<String> {
        let (number, operator) = (number.parse().map_err(raise)?, operator.parse().map_err(raise)?);
        Ok(Signature::new(&self.0, number, operator).to_string())
    }

    /// How many messages come from each of the peers.
    #[getter]
    fn receives(&self) -> Vec<usize> {
        self.0.receives()
    }

    /// Bytes of its longest message, with its number.
    #[getter]
    fn message_bytes(&self) -> usize {
        NUMBER + self.0.longest_message()
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

/// Bytes of an element of `number`, which must have the operator.
#[pyfunction]
pub fn number_bytes(number: &str, operator: &str) -> PyResult<usize> {
    let (number, operator): (Number, Operator) = (number.parse().map_err(raise)?, operator.parse().map_err(raise)?);
    combine(number, operator).map_err(raise)?;
    Ok(number.bytes())
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

/// Seconds that sending or receiving a message over TCP costs this machine, besides its bytes.
#[pyfunction]
pub fn message_cost(py: Python<'_>) -> PyResult<f64> {
    py.detach(tcp::message_cost).map_err(raise)
}

/// Bytes in which a message says which transfer it is, so that its numbers are aligned.
const NUMBER: usize = 8;

fn transfer(message: &[u8]) -> Option<u32> {
    let number = message.first_chunk::<NUMBER>()?;
    u32::try_from(u64::from_le_bytes(*number)).ok()
}

/// An operation that Python drives over an engine of its own: it asks what to send, and says what has left and what has
/// come.
#[pyclass(module = "treefold")]
pub struct Operation {
    program: Py<Program>,
    vector: Py<PyArray1<u8>>,
    combine: Combine,
    scratch: Vec<u64>,
    progress: Option<Progress>,
}

impl Operation {
    /// Takes the operation up, does `work`, and puts it aside.
    fn with<T: Send>(
        &mut self,
        py: Python<'_>,
        work: impl FnOnce(&mut operation::Operation<'_>) -> treefold::error::Result<T> + Send,
    ) -> PyResult<T> {
        let mut vector = self.vector.bind(py).try_readwrite()?;
        let (vector, progress) = (vector.as_slice_mut()?, self.progress.take().expect("it was put aside"));
        let (program, scratch, combine) = (&self.program.get().0, &mut self.scratch, self.combine);
        let (result, progress) = py
            .detach(|| {
                let mut operation = operation::Operation::resume(program, combine, vector, scratch, progress)?;
                let result = work(&mut operation);
                Ok((result, operation.suspend()))
            })
            .map_err(raise)?;
        self.progress = Some(progress);
        result.map_err(raise)
    }

    fn aside(&self) -> &Progress {
        self.progress.as_ref().expect("it was put aside")
    }
}

#[pymethods]
impl Operation {
    #[new]
    fn new(
        py: Python<'_>,
        program: Py<Program>,
        vector: Py<PyArray1<u8>>,
        number: &str,
        operator: &str,
    ) -> PyResult<Self> {
        let (number, operator): (Number, Operator) = (number.parse().map_err(raise)?, operator.parse().map_err(raise)?);
        let core = &program.get().0;
        let mut scratch = Vec::new();
        let progress = {
            let mut vector = vector.bind(py).try_readwrite()?;
            let vector = vector.as_slice_mut()?;
            operation::Operation::new(core, number, operator, vector, &mut scratch).map_err(raise)?.suspend()
        };
        let combine = combine(number, operator).map_err(raise)?;
        Ok(Self { program, vector, combine, scratch, progress: Some(progress) })
    }

    /// Whether something waits to be sent to the peer with this index.
    fn may_send(&self, peer: usize) -> bool {
        self.aside().peek_send(peer).is_some()
    }

    /// Writes what goes next to the peer with this index to `message`; returns its length.
    fn next_send(&mut self, py: Python<'_>, peer: usize, message: &Bound<'_, PyArray1<u8>>) -> PyResult<usize> {
        let mut message = message.try_readwrite()?;
        let message = message.as_slice_mut()?;
        self.with(py, |operation| {
            let task = operation.next_send(peer).ok_or_else(|| Error::new("nothing waits to be sent"))?;
            let length = NUMBER + operation.bytes(task);
            if length > message.len() {
                return Err(Error::new(format!("a message of {length} bytes does not fit into {}", message.len())));
            }
            message[..NUMBER].copy_from_slice(&u64::from(operation.transfer(task)).to_le_bytes());
            operation.copy_payload(task, 0, &mut message[NUMBER..length]);
            Ok(length)
        })
    }

    /// A message has left.
    fn sent(&mut self, py: Python<'_>, message: &Bound<'_, PyArray1<u8>>) -> PyResult<()> {
        let message = message.try_readonly()?;
        let message = message.as_slice()?;
        self.with(py, |operation| {
            let task = transfer(message).and_then(|transfer| operation.sender(transfer));
            operation.end(task.ok_or_else(|| Error::new("this message was not sent"))?);
            Ok(())
        })
    }

    /// A message has come from the peer with this index: it is joined into the vector, or kept until it may be.
    fn received(&mut self, py: Python<'_>, peer: usize, message: &Bound<'_, PyArray1<u8>>) -> PyResult<()> {
        let message = message.try_readonly()?;
        let message = message.as_slice()?;
        self.with(py, |operation| {
            let task = transfer(message).and_then(|transfer| operation.receiver(peer, transfer));
            let body = task.and_then(|task| Some((task, message[NUMBER..].get(..operation.bytes(task))?)));
            let Some((task, bytes)) = body else {
                let (peer, rank) = (operation.program().peers[peer], operation.program().rank);
                return Err(Error::new(format!("rank {peer} sends what the plan of rank {rank} does not have")));
            };
            if operation.may_use(task) {
                operation.take(task, 0, bytes);
                operation.end(task);
            } else {
                operation.park(task, Message::of(bytes));
            }
            Ok(())
        })
    }

    /// Whether everything is sent and received.
    fn done(&self) -> bool {
        self.aside().done()
    }

    /// Copies the result's pieces to `target`, one behind the other.
    fn result(&mut self, py: Python<'_>, target: &Bound<'_, PyArray1<u8>>) -> PyResult<()> {
        let mut target = target.try_readwrite()?;
        let target = target.as_slice_mut()?;
        self.with(py, |operation| operation.copy_result(target))
    }
}

/// `(kind, rank, by, text)`: `gone`, `cut`, `given up`; -1 where no rank is meant.
type Fault = (&'static str, i64, i64, String);

/// The TCP connections of one rank. Methods may be called from several threads; one works at a time, and `idle` makes way.
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

    /// Runs one operation on `vector` in place, and copies the result to `result` where that stands elsewhere. Returns None,
    /// or why there is no result.
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
