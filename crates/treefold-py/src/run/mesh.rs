//! The binding of a rank's TCP connections.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::os::fd::IntoRawFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use mio::Waker;
use pyo3::prelude::*;
use treefold::number::{Number, Operator};
use treefold::run::tcp::{self, Failure, Pair, Timeouts};
use treefold::topology::NodeId;

use super::Program;
use super::flights::{Arrays, Flight, Flights};
use super::recording::Recording;
use super::turns::{self, Turn, Turns};
use crate::{interruptible, raise};

/// Why operations ended; ranks are the plan's.
#[pyclass(frozen, get_all, module = "treefold")]
pub struct Fault {
    /// `gone` (a rank is), `cut` (a connection is), or `given up` (the text says why, and there are no ranks).
    kind: &'static str,
    /// The rank at fault.
    rank: Option<u32>,
    /// The rank that noticed it.
    noticed_by: Option<u32>,
    /// What happened, in words.
    text: String,
}

/// How much was sent to a rank, and in which time.
#[pyclass(frozen, get_all, module = "treefold")]
pub struct LinkUsage {
    /// The rank.
    rank: u32,
    /// The bytes that were sent while more waited.
    sent_bytes: u64,
    /// The seconds that they took.
    busy_s: f64,
    /// The bytes that had left by each of several moments, and the seconds for which others had waited by then. The
    /// moments divide the time since the last count into equal parts. It is empty where no moments were asked for.
    course: Vec<(f64, f64)>,
}

/// A control message.
#[pyclass(frozen, get_all, module = "treefold")]
pub struct ControlMessage {
    /// The rank that has sent it.
    sender: u32,
    /// Its bytes.
    message: Vec<u8>,
}

/// The TCP connections of one rank, and its operations in flight. Methods may be called from several threads.
#[pyclass(frozen, module = "treefold")]
pub struct Mesh {
    inner: Mutex<Inner>,
    turns: Turns,
    waker: Arc<Waker>,
}

/// The connections, and the operations in flight.
struct Inner {
    mesh: tcp::Mesh,
    flights: Flights,
}

/// The connections while a thread has its turn.
struct Held<'a> {
    inner: MutexGuard<'a, Inner>,
    _turn: Turn<'a>,
}

impl Deref for Held<'_> {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        &mut self.inner
    }
}

impl Mesh {
    /// Waits for this thread's turn; a thread that works on operations makes room.
    fn locked(&self) -> Held<'_> {
        self.held(self.turn())
    }

    fn turn(&self) -> Turn<'_> {
        // If the wake fails, the turn comes only when the other thread's wait is over.
        self.turns.take(|| drop(self.waker.wake()))
    }

    fn held<'a>(&'a self, turn: Turn<'a>) -> Held<'a> {
        Held { inner: self.inner.lock().expect("no panic"), _turn: turn }
    }

    /// Works on the operations in flight until `until` says that it is enough.
    fn drive(&self, py: Python<'_>, until: &(dyn Fn() -> bool + Sync)) -> PyResult<()> {
        let turn = py.detach(|| self.turn());
        // Only who has the turn takes the lock, so this waits for nobody.
        let mut held = self.held(turn);
        let Inner { mesh, flights } = &mut *held;
        flights.drive(py, mesh, &self.turns, until)
    }
}

#[pymethods]
impl Mesh {
    /// Create rank `rank` of `ranks`, which listens on `address`, and only there, at `port`: one that the system
    /// chooses if it is 0, none if it is None. All ranks of a group have one key of 32 bytes.
    #[new]
    #[pyo3(signature = (rank, ranks, address, key, port=Some(0)))]
    fn new(rank: u32, ranks: u32, address: IpAddr, key: [u8; tcp::KEY_BYTES], port: Option<u16>) -> PyResult<Self> {
        let mesh = tcp::Mesh::listen(NodeId(rank), ranks, address, port, &key).map_err(raise)?;
        let waker = mesh.waker();
        Ok(Self { inner: Mutex::new(Inner { mesh, flights: Flights::default() }), turns: Turns::default(), waker })
    }

    /// Encrypt the connections that are made from now on, with the PEM texts of the authority's certificate, of the
    /// rank's own one and of its key; `names` are those in the certificates of all ranks.
    fn secure(&self, authority: &[u8], certificate: &[u8], key: &[u8], names: Vec<String>) -> PyResult<()> {
        let credentials = tcp::Credentials::new(authority, certificate, key, &names).map_err(raise)?;
        self.locked().mesh.secure(credentials);
        Ok(())
    }

    /// The address and port on which the rank listens, as `address:port`; the port is 0 if it does not listen.
    #[getter]
    fn address(&self, py: Python<'_>) -> String {
        py.detach(|| self.locked().mesh.address().to_string())
    }

    /// Set how many TCP streams side by side new connections to these ranks have; of a pair, the caller decides.
    fn use_streams(&self, py: Python<'_>, streams: BTreeMap<u32, usize>) {
        let streams: Vec<_> = streams.into_iter().map(|(rank, count)| (NodeId(rank), count)).collect();
        py.detach(|| self.locked().mesh.use_streams(&streams));
    }

    /// Return new file descriptors of the streams to a rank, which the caller closes; none if it is not connected.
    fn descriptors(&self, py: Python<'_>, rank: u32) -> PyResult<Vec<i32>> {
        let found = py.detach(|| self.locked().mesh.descriptors(NodeId(rank))).map_err(raise)?;
        Ok(found.into_iter().map(IntoRawFd::into_raw_fd).collect())
    }

    /// Connect to peers, whose `address:port` is given by rank; they have to do the same at the same time. Return why
    /// peers were not reached, by rank.
    fn connect(
        &self,
        py: Python<'_>,
        peers: BTreeMap<u32, String>,
        timeout_s: f64,
        dead_after_s: f64,
    ) -> PyResult<BTreeMap<u32, String>> {
        let parse = |(rank, text): (u32, String)| text.parse().map(|address: SocketAddr| (NodeId(rank), address));
        let peers: Vec<_> = peers.into_iter().map(parse).collect::<Result<_, _>>()?;
        let [timeout, dead_after] = [timeout_s, dead_after_s].map(Duration::from_secs_f64);
        let missed = interruptible(py, |go_on| self.locked().mesh.connect(&peers, timeout, dead_after, go_on))?;
        Ok(missed.into_iter().map(|(rank, why)| (rank.0, why)).collect())
    }

    /// Begin an operation behind those in flight, on a vector in place; return its number. The other arrays are the
    /// room for its result, if that is to be copied, and a residual for error feedback. If it `waits`, it sends nothing
    /// before those before it are done here. A recording gets to know when messages left and came. `waits_s` are the
    /// seconds of silence, and those of the whole operation, that are waited for other ranks.
    #[expect(clippy::too_many_arguments, reason = "Python passes them one by one")]
    #[pyo3(signature = (program, arrays, number, operator, waits_s, recording=None, waits=false))]
    fn start(
        &self,
        py: Python<'_>,
        program: Py<Program>,
        arrays: Arrays,
        number: &str,
        operator: &str,
        waits_s: (f64, Option<f64>),
        recording: Option<Py<Recording>>,
        waits: bool,
    ) -> PyResult<u32> {
        let (number, operator): (Number, Operator) = (number.parse().map_err(raise)?, operator.parse().map_err(raise)?);
        let silence = Duration::from_secs_f64(waits_s.0);
        let timeouts = Timeouts { silence, operation: waits_s.1.map(Duration::from_secs_f64) };
        let turn = py.detach(|| self.turn());
        let mut held = self.held(turn);
        let Inner { mesh, flights } = &mut *held;
        let mut flight = Flight::new(program, arrays, recording, timeouts);
        flight.begin(py, number, operator, flights.spare())?;
        mesh.begin(&flight.program.get().0, number, operator, waits);
        flight.number = mesh.sequence();
        self.turns.begin(flight.number);
        flights.push(flight);
        Ok(mesh.sequence())
    }

    /// Wait until the operation of this number has ended, once; return None, or the fault because of which there is no
    /// result.
    fn wait(&self, py: Python<'_>, number: u32) -> PyResult<Option<Fault>> {
        self.wait_for_end(py, number).inspect_err(|_| drop(self.turns.outcome(number)))?;
        self.turns.outcome(number).map_err(raise).map(|failure| failure.and_then(Fault::of))
    }

    /// Wait until the operation of this number has ended, which `wait` still may ask about.
    fn wait_for_end(&self, py: Python<'_>, number: u32) -> PyResult<()> {
        let mut interruption = None;
        while !self.turns.is_over(number) {
            // Another thread may work on the operations already.
            if let Some(_driver) = py.detach(|| self.turns.drive_soon(|| drop(self.waker.wake()), number)) {
                self.drive(py, &|| self.turns.are_wanted() || self.turns.is_over(number))?;
            }
            // What is interrupted ends soon, and its vector is the caller's again only then.
            if let Err(error) = py.check_signals() {
                self.turns.interrupt();
                interruption = Some(error);
            }
        }
        interruption.map_or(Ok(()), Err)
    }

    /// Keep the connections alive in the background, as `idle` does, while no other thread needs them.
    fn serve(&self, py: Python<'_>, most_s: f64) {
        py.detach(|| self.turns.let_others_go_first());
        self.idle(py, most_s);
    }

    /// Keep the connections alive, and the operations in flight going while no thread waits for them, until something
    /// has come, another thread needs the connections, or the time is over.
    fn idle(&self, py: Python<'_>, most_s: f64) {
        let end = Instant::now() + Duration::from_secs_f64(most_s);
        let is_in_flight = py.detach(|| {
            let mut held = self.locked();
            let is_in_flight = held.flights.any();
            if !is_in_flight {
                held.mesh.idle(end.saturating_duration_since(Instant::now()), &|| self.turns.are_wanted());
            }
            is_in_flight
        });
        if is_in_flight && let Some(_driver) = self.turns.drive_alone() {
            let until = || self.turns.are_wanted() || self.turns.are_awaited() || Instant::now() > end;
            // Who waits for the operation gets the error, if there is one.
            drop(self.drive(py, &until));
        } else if is_in_flight {
            py.detach(turns::rest);
        }
    }

    /// Serve each connection once, as `idle` does, but ahead of other threads that idle. Operations in flight do that
    /// themselves.
    fn serve_once(&self, py: Python<'_>) {
        py.detach(|| {
            let mut held = self.locked();
            if !held.flights.any() {
                held.mesh.idle(Duration::ZERO, &|| true);
            }
        });
    }

    /// Send a control message to all other ranks; it arrives before any later message.
    fn broadcast(&self, py: Python<'_>, message: Vec<u8>) {
        py.detach(|| self.locked().mesh.broadcast(message));
    }

    /// Return the control messages that have come since the last call.
    fn receive(&self, py: Python<'_>) -> Vec<ControlMessage> {
        let received = py.detach(|| self.locked().mesh.receive());
        received.into_iter().map(|(sender, message)| ControlMessage { sender: sender.0, message }).collect()
    }

    /// Return the use of each connection since the last call, with courses of so many moments.
    #[pyo3(signature = (moments = 0))]
    fn link_usage(&self, py: Python<'_>, moments: u32) -> Vec<LinkUsage> {
        py.detach(|| self.locked().mesh.link_usage(moments)).into_iter().map(LinkUsage::of).collect()
    }

    /// The bytes that have left for all peers in all operations.
    #[getter]
    fn sent_bytes(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.locked().mesh.sent_bytes())
    }

    /// The fault with which operations end: a rank is gone, or a connection is cut that plans still use.
    #[getter]
    fn failure(&self, py: Python<'_>) -> Option<Fault> {
        py.detach(|| self.locked().mesh.failure()).and_then(Fault::of)
    }

    /// The ranks that are known to be gone.
    #[getter]
    fn lost(&self, py: Python<'_>) -> Vec<u32> {
        py.detach(|| self.locked().mesh.lost()).into_iter().map(|rank| rank.0).collect()
    }

    /// The pairs of ranks whose connection is known to be cut.
    #[getter]
    fn cut_pairs(&self, py: Python<'_>) -> Vec<(u32, u32)> {
        numbers(py.detach(|| self.locked().mesh.cut_pairs()))
    }

    /// The cut pairs that plans may still use.
    #[getter]
    fn pairs_to_avoid(&self, py: Python<'_>) -> Vec<(u32, u32)> {
        numbers(py.detach(|| self.locked().mesh.pairs_to_avoid()))
    }

    /// The life of each pair's last connection that was cut, by pair; the first one has life 0.
    #[getter]
    fn lives(&self, py: Python<'_>) -> BTreeMap<(u32, u32), u32> {
        let lives = py.detach(|| self.locked().mesh.lives());
        lives.into_iter().map(|((one, other), life)| ((one.0, other.0), life)).collect()
    }

    /// Set from which life on plans use the connections of these pairs, None if they use none; they may use those of
    /// all other pairs.
    fn use_from(&self, py: Python<'_>, lives: BTreeMap<(u32, u32), Option<u32>>) {
        let lives: Vec<(Pair, Option<u32>)> =
            lives.into_iter().map(|((one, other), life)| ((NodeId(one), NodeId(other)), life)).collect();
        py.detach(|| self.locked().mesh.use_from(&lives));
    }

    /// The life of the connection to each neighbour that was cut, came back, and is not used yet, by rank.
    #[getter]
    fn returned(&self, py: Python<'_>) -> BTreeMap<u32, u32> {
        let returned = py.detach(|| self.locked().mesh.returned());
        returned.into_iter().map(|(rank, life)| (rank.0, life)).collect()
    }

    /// Watch the connections from now on; those to the ranks `idle` are probed, which the plan does not use.
    fn watch(&self, py: Python<'_>, idle: Vec<u32>) {
        py.detach(|| self.locked().mesh.watch(idle.into_iter().map(NodeId).collect()));
    }

    /// Return the use of each idle link that was probed since the last call, as `link_usage` does.
    fn probes(&self, py: Python<'_>) -> Vec<LinkUsage> {
        py.detach(|| self.locked().mesh.probes()).into_iter().map(LinkUsage::of).collect()
    }

    /// The seconds of the least of the last few round trips to each neighbour, by rank, where enough are known.
    #[getter]
    fn round_trips(&self, py: Python<'_>) -> BTreeMap<u32, f64> {
        let trips = py.detach(|| self.locked().mesh.round_trips());
        trips.into_iter().map(|(rank, time)| (rank.0, time.as_secs_f64())).collect()
    }

    /// Set the names of the ranks in messages for people.
    fn name_ranks(&self, py: Python<'_>, names: Vec<String>) {
        py.detach(|| self.locked().mesh.name_ranks(names));
    }

    /// The number of the last operation.
    #[getter]
    fn sequence(&self, py: Python<'_>) -> u32 {
        py.detach(|| self.locked().mesh.sequence())
    }

    /// Go on after operation `sequence`, on which all ranks have agreed after a failure.
    fn skip_to(&self, py: Python<'_>, sequence: u32) {
        py.detach(|| self.locked().mesh.skip_to(sequence));
    }

    /// End the operations in flight, and refuse further ones.
    fn stop(&self) {
        self.turns.stop();
        // If the wake fails, the other thread polls a moment later.
        let _ = self.waker.wake();
    }

    /// Say farewell to all ranks and close all connections.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.locked().mesh.close());
    }
}

fn numbers(pairs: Vec<Pair>) -> Vec<(u32, u32)> {
    pairs.into_iter().map(|(one, other)| (one.0, other.0)).collect()
}

impl Fault {
    /// Returns the fault of a failure; `None` if it is an interruption.
    fn of(failure: Failure) -> Option<Self> {
        let (kind, ranks, text) = match failure {
            Failure::Gone { rank, by, cause } => ("gone", Some((rank.0, by.0)), cause),
            Failure::Cut { rank, by, cause } => ("cut", Some((rank.0, by.0)), cause),
            Failure::GivenUp(cause) => ("given up", None, cause),
            Failure::Interrupted => return None,
        };
        let (rank, noticed_by) = ranks.unzip();
        Some(Self { kind, rank, noticed_by, text })
    }
}

impl LinkUsage {
    fn of(usage: tcp::LinkUsage) -> Self {
        let tcp::LinkUsage { rank, bytes, seconds, course } = usage;
        Self { rank: rank.0, sent_bytes: bytes, busy_s: seconds.get(), course }
    }
}
