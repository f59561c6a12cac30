//! Operations at work: how they begin, go on side by side, and end in their order.

use std::time::{Duration, Instant};

use super::connection::{Connection, Received};
use super::control::ControlMessage;
use super::faults::Failure;
use super::frame::{Frame, Kind, Signature};
use super::window::{Flight, Work};
use super::{Mesh, POLL_INTERVAL, Timeouts};
use crate::ids::NodeId;
use crate::number::{Number, Operator};
use crate::run::operation::Operation;
use crate::run::program::Program;

/// What a rank that waits has seen.
#[derive(Debug)]
pub struct Vigil {
    last_poll: Instant,
    last_moved: Instant,
    /// The bytes that had moved by then.
    moved: u64,
    has_pinged: bool,
}

impl Vigil {
    /// Returns what a rank has seen that begins to wait.
    pub fn new() -> Self {
        let now = Instant::now();
        Self { last_poll: now, last_moved: now, moved: 0, has_pinged: false }
    }
}

impl Mesh {
    /// Runs one operation, and gives it up when a timeout is over or `go_on`, which is asked now and then, returns
    /// false.
    ///
    /// # Errors
    /// See [`Failure`]. The vector then holds no result.
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use std::thread;
    /// use std::time::Duration;
    /// use treefold::number::{Number, Operator};
    /// use treefold::run::operation::Operation;
    /// use treefold::run::program::Program;
    /// use treefold::run::tcp::{Mesh, Timeouts};
    /// use treefold::topology::NodeId;
    ///
    /// /// Adds up the vectors of all ranks on this one, whose peers do the same at the same time.
    /// fn all_reduce(mesh: &mut Mesh, peers: &[(NodeId, SocketAddr)], program: &Program, vector: &mut [u8]) {
    ///     let wait = Duration::from_secs(10);
    ///     mesh.connect(peers, wait, wait, &mut || true).unwrap();
    ///     let mut scratch = Vec::new();
    ///     let mut operation =
    ///         Operation::new(program, Number::Uint8, Operator::Sum, vector, &mut scratch).unwrap();
    ///     let timeouts = Timeouts { silence: wait, operation: None };
    ///     mesh.run(&mut operation, timeouts, &mut || true).unwrap();
    /// }
    ///
    /// # use std::sync::Arc;
    /// # use treefold::{planners, topology::from_spec, units::parse_time};
    /// # let line = Arc::new(from_spec("line:2", None, None)?);
    /// # let plan = planners::plan("ring", &line, &planners::Options::default())?;
    /// let programs = Program::all(&plan, 4, 1, parse_time("0s")?)?;
    /// let listen = |rank| Mesh::listen(rank, 2, "127.0.0.1".parse().unwrap(), Some(0), &[7; 32]);
    /// let mut meshes = [listen(NodeId(0))?, listen(NodeId(1))?];
    /// let peers = [(NodeId(0), meshes[0].address()), (NodeId(1), meshes[1].address())];
    /// let mut vectors = [[1; 4], [2; 4]];
    /// thread::scope(|scope| {
    ///     for ((mesh, program), vector) in meshes.iter_mut().zip(&programs).zip(&mut vectors) {
    ///         scope.spawn(|| all_reduce(mesh, &peers, program, vector));
    ///     }
    /// });
    /// assert_eq!(vectors, [[3; 4]; 2]);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn run(
        &mut self,
        operation: &mut Operation<'_>,
        timeouts: Timeouts,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), Failure> {
        self.begin(operation.program(), operation.number(), operation.operator(), false);
        while !self.drive(std::slice::from_mut(operation), timeouts, &|| false, go_on)? {}
        Ok(())
    }

    /// Begins an operation behind those in flight, and tells its peers. It ends in [`Mesh::drive`]. If it `waits`, it
    /// sends nothing before all operations before it are done here.
    pub fn begin(&mut self, program: &Program, number: Number, operator: Operator, waits: bool) {
        self.sequence += 1;
        let signature = Signature::new(program, number, operator);
        let mut flight = Flight::new(self.sequence, signature, &program.peers, self.connections.len(), waits);
        flight.failure = self.announce_begin(program, signature).err();
        if self.flights.is_empty() {
            (self.vigil.last_moved, self.vigil.has_pinged) = (Instant::now(), false);
        }
        self.flights.push_back(flight);
    }

    /// Tells the peers of an operation that it begins here.
    fn announce_begin(&mut self, program: &Program, signature: Signature) -> Result<(), Failure> {
        if let Some(cause) = self.faults.given_up(self.sequence) {
            return Err(Failure::GivenUp(cause));
        }
        self.faults.failure().map_or(Ok(()), Err)?;
        let frame = Frame::new(Kind::Start, self.sequence, 0, self.rank);
        for &peer in &program.peers {
            let Some(connection) = &mut self.connections[peer] else {
                self.report_missing(peer)?;
                continue;
            };
            connection.queue(frame.with_body(&signature.to_bytes()));
            if let Err(error) = connection.begin_operation(program.mean_bytes) {
                self.close_broken(peer, &error, true)?;
            }
        }
        // That a peer has left is known only now, if it left in between.
        self.faults.failure().map_or(Ok(()), Err)
    }

    /// Works on the operations in flight, whose order is that in which they began, until the first one has ended;
    /// returns false if `until` has returned true before. Then, or with an error, that one is in flight no more.
    ///
    /// # Errors
    /// Why the first operation has no result. Those behind it may have failed, too.
    pub fn drive(
        &mut self,
        operations: &mut [Operation<'_>],
        timeouts: Timeouts,
        until: &dyn Fn() -> bool,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, Failure> {
        let result = self.work(operations, timeouts, until, go_on);
        if result == Ok(false) {
            return result;
        }
        if result == Err(Failure::Interrupted) {
            let sequences: Vec<u32> = self.flights.iter().map(|flight| flight.sequence).collect();
            let cause = format!("{} was interrupted", self.names[self.rank]);
            sequences.into_iter().for_each(|sequence| self.give_up(sequence, cause.clone()));
        }
        let Flight { sequence, .. } = self.flights.pop_front().expect("an operation is in flight");
        if let Some(next) = self.flights.front_mut() {
            next.first_since = Instant::now();
        }
        if result.is_err() {
            let connections = self.connections.iter_mut().flatten();
            connections.for_each(|connection| connection.give_up(sequence, &operations[0]));
            if self.flights.is_empty() {
                self.flush();
            }
        }
        result
    }

    fn work(
        &mut self,
        operations: &mut [Operation<'_>],
        timeouts: Timeouts,
        until: &dyn Fn() -> bool,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, Failure> {
        loop {
            if let Some(failure) = &self.flights[0].failure {
                return Err(failure.clone());
            }
            let progress = self.poll_connections(operations);
            if operations[0].done() && self.flights[0].failure.is_none() && self.may_end() {
                return Ok(true);
            }
            if until() {
                return Ok(false);
            }
            if !progress {
                self.wait(POLL_INTERVAL);
            }
            if self.vigil.last_poll.elapsed() >= POLL_INTERVAL {
                self.look_after(&operations[0], timeouts)?;
                if !go_on() {
                    return Err(Failure::Interrupted);
                }
            }
        }
    }

    /// Returns whether the first operation, which is done, may end. All that it has sent has left for the kernel; the
    /// last one in flight waits for the control messages, too.
    fn may_end(&self) -> bool {
        self.flights.len() > 1 || self.connections.iter().flatten().all(Connection::flushed)
    }

    /// Watches over the operations in flight, of which this is the first, and ends those that take too long.
    fn look_after(&mut self, first: &Operation<'_>, timeouts: Timeouts) -> Result<(), Failure> {
        let now = Instant::now();
        // Nobody looked for a while: that says nothing about the others.
        if now - self.vigil.last_poll > timeouts.silence / 2 {
            self.vigil = Vigil::new();
        }
        self.vigil.last_poll = now;
        self.keep_watch();
        self.mend(now);
        let Flight { sequence, first_since, .. } = self.flights[0];
        if timeouts.operation.is_some_and(|most| now - first_since > most) {
            let cause = self.describe_delay(first.program(), now - first_since);
            self.give_up(sequence, cause);
            return Ok(());
        }
        let moved = self.connections.iter().flatten().map(|each| each.moved).sum();
        let Vigil { last_moved, moved: before, has_pinged, .. } = self.vigil;
        if moved != before {
            self.vigil = Vigil { moved, ..Vigil::new() };
        } else if !has_pinged && now - last_moved > timeouts.silence {
            self.vigil.has_pinged = true;
            self.ping();
        } else if has_pinged && now - last_moved > 2 * timeouts.silence {
            (self.vigil.last_moved, self.vigil.has_pinged) = (now, false);
            return self.check_answers(now - last_moved);
        }
        Ok(())
    }

    /// Describes why an operation takes too long.
    fn describe_delay(&self, program: &Program, time: Duration) -> String {
        let pairings = &self.flights[0].pairings;
        let has_begun = |peer: NodeId| pairings[peer].as_ref().is_some_and(|pairing| pairing.peer_has_begun);
        let late = program.peers.iter().filter(|&&peer| !has_begun(peer));
        let late: Vec<String> = late.map(|&peer| self.names[peer].clone()).collect();
        let why = match late.as_slice() {
            [] => "all its neighbours are at work: allow more time, or look at the network".to_owned(),
            late => format!("{} has not begun it", late.join(", ")),
        };
        let us = &self.names[self.rank];
        format!("the operation is not done at {us} after {:.1} s; {why}", time.as_secs_f64())
    }

    /// Writes and reads every connection once; returns whether anything moved. `operations` are those in flight.
    pub(super) fn poll_connections(&mut self, operations: &mut [Operation<'_>]) -> bool {
        let mut progress = false;
        for peer in NodeId::first(self.connections.len()) {
            if let Err(failure) = self.poll_connection(peer, operations, &mut progress) {
                // What is done here stays done: others may know already that it is.
                let running = self.flights.iter_mut().zip(&*operations).filter(|(_, operation)| !operation.done());
                running.for_each(|(flight, _)| flight.failure = flight.failure.take().or(Some(failure.clone())));
            }
        }
        progress
    }

    fn poll_connection(
        &mut self,
        peer: NodeId,
        operations: &mut [Operation<'_>],
        progress: &mut bool,
    ) -> Result<(), Failure> {
        let Some(connection) = &mut self.connections[peer] else { return Ok(()) };
        let work = &mut Work { peer, flights: &mut self.flights, operations, last: self.sequence };
        // Who has left reads nothing more.
        let written = if connection.left { Ok(false) } else { connection.write(work) };
        let step = written.and_then(|moved| {
            *progress |= moved;
            connection.read(work, progress)
        });
        match step {
            Ok(Received::Nothing) => Ok(()),
            Ok(Received::Frame(frame)) => {
                let body = connection.body().to_vec();
                self.handle_frame(peer, frame, &body)
            }
            Ok(Received::Foreign(sequence)) => {
                let (theirs, ours) = (&self.names[peer], &self.names[self.rank]);
                let cause = format!("{theirs} has sent a message that the plan of {ours} does not have");
                self.give_up(sequence, cause);
                Ok(())
            }
            // What a peer has sent before it left may be for an operation that has not begun here.
            Err(_) if connection.left && connection.has_early() => Ok(()),
            Err(error) => {
                let is_needed = work.needs_peer();
                self.close_broken(peer, &error, is_needed)
            }
        }
    }

    /// Notes that a peer has begun an operation, which has to be ours.
    pub(super) fn note_begun(&mut self, peer: NodeId, sequence: u32, theirs: &[u8]) {
        let Some(flight) = self.flights.iter_mut().find(|flight| flight.sequence == sequence) else { return };
        let ours = flight.signature;
        if let Some(pairing) = &mut flight.pairings[peer] {
            pairing.peer_has_begun = true;
        }
        if theirs == ours.to_bytes() {
            return;
        }
        let (them, us) = (&self.names[peer], &self.names[self.rank]);
        let theirs = String::from_utf8_lossy(theirs);
        let cause = format!(
            "the ranks disagree: {them} runs {theirs}, {us} runs {ours}; give all ranks the same size, type, operator, \
             wire type and plan"
        );
        self.give_up(sequence, cause);
    }

    /// Lets an operation in flight, and those that wait for it, have no result, and tells all ranks.
    pub(super) fn give_up(&mut self, sequence: u32, cause: String) {
        let mut flights = self.flights.iter_mut().skip_while(|flight| flight.sequence != sequence);
        let first = flights.next().into_iter();
        let failing = first.chain(flights.take_while(|flight| flight.waits)).filter(|flight| flight.failure.is_none());
        let failed: Vec<u32> = failing
            .map(|flight| {
                flight.failure = Some(Failure::GivenUp(cause.clone()));
                flight.sequence
            })
            .collect();
        for sequence in failed {
            self.announce(&ControlMessage::GiveUp { sequence, cause: cause.clone() });
        }
    }
}
