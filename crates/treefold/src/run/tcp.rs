//! The TCP transport: connections between ranks that stay open from operation to operation, and one loop that never
//! waits for a single one of them.
//!
//! mio tells which connections can be read and written. Each is read in place where data replace data, and joined block
//! by block where they are added; each is written in the order of the operation's turns. Besides messages travel
//! [`notice`]s, which every rank passes on: who is gone, what is given up, what the layer above has to say.

pub mod connection;
mod faults;
pub mod frame;
mod gauge;
mod join;
pub mod notice;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Events, Poll, Token, Waker};

use super::number::{Number, Operator};
use super::operation::Operation;
use super::program::Program;
use connection::{Connection, Found};
use faults::Faults;
pub use faults::{Failure, Way};
use frame::{Frame, Kind, Signature};
pub use join::message_cost;

/// How often a rank that waits asks whether it should go on.
const LOOK: Duration = Duration::from_millis(100);

/// How long a rank that leaves waits for its peers to notice.
const FAREWELL: Duration = Duration::from_secs(1);

/// How long an operation waits.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For a byte, before it asks who is there; and then as long again for an answer.
    pub silence: Duration,
    /// For its end, though all be there.
    pub whole: Option<Duration>,
}

/// The connections of one rank.
pub struct Mesh {
    rank: u32,
    poll: Poll,
    waker: Arc<Waker>,
    listener: TcpListener,
    token: u64,
    address: SocketAddr,
    /// By rank.
    connections: Vec<Option<Connection>>,
    /// By rank: what people call it.
    names: Vec<String>,
    /// By rank: whether it has said farewell.
    left: Vec<bool>,
    /// Number of the operation at work, or of the last.
    sequence: u32,
    notices: u32,
    /// By rank: number of the last notice heard.
    heard: Vec<u32>,
    words: VecDeque<(u32, Vec<u8>)>,
    /// By rank: whether it has answered since this rank asked.
    here: Vec<bool>,
    faults: Faults,
    at_work: bool,
}

impl Mesh {
    /// Runs one operation; it gives up as `patience` says. `go_on` is asked now and then.
    ///
    /// # Errors
    /// See [`Failure`]. The vector then holds no result.
    pub fn run(
        &mut self,
        operation: &mut Operation<'_>,
        number: Number,
        operator: Operator,
        patience: Patience,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), Failure> {
        self.sequence += 1;
        self.at_work = true;
        let signature = Signature::new(operation.program(), number, operator);
        let result = self.work(operation, signature, patience, go_on);
        self.at_work = false;
        if let Err(failure) = &result {
            if *failure == Failure::Interrupted {
                let cause = format!("{} was interrupted", self.names[self.rank as usize]);
                drop(self.give_up(cause));
            }
            self.connections.iter_mut().flatten().for_each(|connection| connection.give_up(operation));
            self.flush();
        }
        result
    }

    fn work(
        &mut self,
        operation: &mut Operation<'_>,
        signature: Signature,
        patience: Patience,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), Failure> {
        let slots = self.begin(operation, signature)?;
        let begun = Instant::now();
        let (mut last, mut looked, mut moved, mut asked) = (begun, begun, 0, false);
        loop {
            let progress = self.turn(Some((operation, &slots, signature)))?;
            if operation.done() && self.connections.iter().flatten().all(Connection::flushed) {
                return Ok(());
            }
            if !progress {
                self.wait(LOOK);
            }
            let now = Instant::now();
            if now - looked < LOOK {
                continue;
            }
            looked = now;
            if !go_on() {
                return Err(Failure::Interrupted);
            }
            if patience.whole.is_some_and(|whole| now - begun > whole) {
                return self.give_up(self.delay(operation.program(), now - begun));
            }
            let before = std::mem::replace(&mut moved, self.connections.iter().flatten().map(|each| each.moved).sum());
            if moved != before {
                (last, asked) = (now, false);
            } else if !asked && now - last > patience.silence {
                asked = true;
                self.ask();
            } else if asked && now - last > 2 * patience.silence {
                self.nobody_silent(now - last)?;
                (last, asked) = (now, false);
            }
        }
    }

    /// What to say of an operation that takes too long.
    fn delay(&self, program: &Program, time: Duration) -> String {
        let open = |peer: u32| self.connections[peer as usize].as_ref().is_some_and(|connection| connection.gauge.open);
        let late: Vec<String> =
            program.peers.iter().filter(|&&peer| !open(peer)).map(|&peer| self.names[peer as usize].clone()).collect();
        let why = match late.as_slice() {
            [] => "all its neighbours are at work: allow more time, or look at the network".to_owned(),
            late => format!("{} has not begun it", late.join(", ")),
        };
        let us = &self.names[self.rank as usize];
        format!("the operation is not done at {us} after {:.1} s; {why}", time.as_secs_f64())
    }

    /// Announces an operation to its peers; returns each rank's index among them.
    fn begin(&mut self, operation: &Operation<'_>, signature: Signature) -> Result<Vec<Option<usize>>, Failure> {
        if let Some(cause) = self.faults.given_up(self.sequence) {
            return Err(Failure::GivenUp(cause));
        }
        self.stop()?;
        let program = operation.program();
        let frame = Frame { kind: Kind::Start, sequence: self.sequence, transfer: 0, origin: self.rank, length: 0 };
        let mut slots = vec![None; self.connections.len()];
        for (slot, &peer) in program.peers.iter().enumerate() {
            slots[peer as usize] = Some(slot);
            let Some(connection) = &mut self.connections[peer as usize] else {
                self.miss(peer)?;
                continue;
            };
            connection.queue(frame.with_body(&signature.to_bytes()));
            if let Err(error) = connection.begin_operation(program.mean_bytes) {
                self.lose(peer, &error, true)?;
            }
        }
        Ok(slots)
    }

    /// Writes and reads every connection once; says whether anything moved.
    fn turn(&mut self, mut work: Option<(&mut Operation<'_>, &[Option<usize>], Signature)>) -> Result<bool, Failure> {
        let mut progress = false;
        for peer in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[peer] else { continue };
            let slot = work.as_ref().and_then(|work| work.1[peer]);
            let task = work.as_mut().and_then(|work| Some((&mut *work.0, slot?, self.sequence)));
            let written = connection.write(task);
            let step = written.and_then(|moved| {
                progress |= moved;
                let task = work.as_mut().and_then(|work| Some((&mut *work.0, slot?)));
                connection.read(task, self.sequence, &mut progress)
            });
            match step {
                Ok(Found::Nothing) => {}
                Ok(Found::Frame(frame)) => {
                    let body = connection.body().to_vec();
                    self.hear(peer as u32, frame, &body, work.as_ref().map(|work| work.2))?;
                }
                Ok(Found::Stranger) => {
                    let (theirs, ours) = (&self.names[peer], &self.names[self.rank as usize]);
                    self.give_up(format!("{theirs} sends what the plan of {ours} does not have"))?;
                }
                Err(error) => {
                    let needed = work.as_ref().is_some_and(|work| slot.is_some_and(|slot| work.0.needs(slot)));
                    self.lose(peer as u32, &error, needed)?;
                }
            }
        }
        Ok(progress)
    }

    /// Takes in a frame that is no message.
    fn hear(&mut self, peer: u32, frame: Frame, body: &[u8], ours: Option<Signature>) -> Result<(), Failure> {
        match (frame.kind, ours) {
            (Kind::Start, Some(ours)) if body != ours.to_bytes() => {
                let (them, us) = (&self.names[peer as usize], &self.names[self.rank as usize]);
                let theirs = String::from_utf8_lossy(body);
                self.give_up(format!(
                    "the ranks disagree: {them} runs {theirs}, {us} runs {ours}; give all ranks the same size, type, \
                     operator and plan"
                ))
            }
            (Kind::Start, Some(_)) => {
                if let Some(connection) = &mut self.connections[peer as usize] {
                    connection.gauge.open = true;
                }
                Ok(())
            }
            (Kind::Bye, _) => {
                if let Some(connection) = &mut self.connections[peer as usize] {
                    connection.left = true;
                }
                Ok(())
            }
            (Kind::Notice, _) => self.notice(peer, frame, body),
            _ => Ok(()),
        }
    }

    /// Gives frames that are ready a moment to leave; what cannot is the business of whoever works with it next.
    fn flush(&mut self) {
        let deadline = Instant::now() + FAREWELL;
        loop {
            let mut waiting = false;
            for peer in 0..self.connections.len() {
                let Some(connection) = &mut self.connections[peer] else { continue };
                connection.writable = true;
                match connection.write(None) {
                    Ok(_) => waiting |= !connection.flushed(),
                    // The kernel tells the cause once only; no operation waits for the answer.
                    Err(error) => drop(self.lose(peer as u32, &error, false)),
                }
            }
            if !waiting || Instant::now() > deadline {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until a connection can be read or written, somebody wakes it, or `most` is over.
    fn wait(&mut self, most: Duration) {
        let mut events = Events::with_capacity(64);
        // An interrupted wait is as good as one that is over.
        let _ = self.poll.poll(&mut events, Some(most));
        for event in &events {
            let Token(number) = event.token();
            if let Some(Some(connection)) = self.connections.get_mut(number) {
                connection.readable |= event.is_readable() || event.is_error() || event.is_read_closed();
                connection.writable |= event.is_writable() || event.is_error();
            }
        }
    }

    /// Keeps the connections alive between operations: passes notices on, answers, notices who is gone. Ends after
    /// `most`, when `until` says so, and when there is something to attend to: words, or a failure.
    pub fn idle(&mut self, most: Duration, until: &dyn Fn() -> bool) {
        let end = Instant::now() + most;
        let known = self.faults.count();
        while !until() && Instant::now() < end && self.words.is_empty() && self.faults.count() == known {
            // A failure is kept for the next operation.
            if !self.turn(None).unwrap_or(true) && self.words.is_empty() && self.faults.count() == known {
                self.wait(end.saturating_duration_since(Instant::now()).min(Duration::from_secs(1)));
            }
        }
    }

    /// Words of other ranks that came since.
    pub fn take_words(&mut self) -> Vec<(u32, Vec<u8>)> {
        self.words.drain(..).collect()
    }

    /// By rank with a connection: bytes that left while others waited, and the seconds that took, since the last call.
    pub fn read_gauges(&mut self) -> Vec<(u32, u64, f64)> {
        let gauges = (0..).zip(&mut self.connections).filter_map(|(rank, connection)| {
            let (bytes, time) = connection.as_mut()?.gauge.read();
            Some((rank, bytes, time.as_secs_f64()))
        });
        gauges.collect()
    }

    /// What operations end with, if anything.
    pub fn failure(&self) -> Option<Failure> {
        self.faults.failure()
    }

    /// Ranks that are known to be gone.
    pub fn lost(&self) -> Vec<u32> {
        self.faults.lost()
    }

    /// All ways that are known to be cut.
    pub fn ways_cut(&self) -> Vec<Way> {
        self.faults.ways()
    }

    /// Those that plans may still use.
    pub fn ways_to_avoid(&self) -> Vec<Way> {
        self.faults.ways_to_avoid()
    }

    /// Goes on without these ways, which plans have no use for any more.
    pub fn avoid(&mut self, ways: &[Way]) {
        self.faults.avoid(ways);
    }

    /// Calls the ranks by these names in what it has to say.
    pub fn call_ranks(&mut self, names: Vec<String>) {
        self.names = names;
    }

    /// Number of the last operation.
    pub fn sequence(&self) -> u32 {
        self.sequence
    }

    /// Goes on after operation `sequence`: what all ranks agreed on after a failure.
    pub fn skip_to(&mut self, sequence: u32) {
        self.sequence = self.sequence.max(sequence);
    }

    /// Wakes a rank that waits.
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// Says farewell and closes all connections.
    pub fn close(&mut self) {
        let frame = Frame { kind: Kind::Bye, sequence: 0, transfer: 0, origin: self.rank, length: 0 };
        self.connections.iter_mut().flatten().for_each(|connection| connection.queue(frame.to_bytes().to_vec()));
        self.flush();
        // Closing while something unread is left would make the kernel drop what peers have not read yet.
        let open = self.connections.iter().flatten();
        open.for_each(|connection| drop(connection.stream.shutdown(std::net::Shutdown::Write)));
        let end = Instant::now() + FAREWELL;
        while self.connections.iter().any(Option::is_some) && Instant::now() < end {
            for connection in &mut self.connections {
                if connection.as_mut().is_some_and(Connection::drained) {
                    *connection = None;
                }
            }
            self.wait(Duration::from_millis(5));
        }
        self.connections.iter_mut().for_each(|connection| *connection = None);
    }
}
