//! Callers of a rank's port, which anybody can call, and the calls of a rank itself.
//!
//! Strangers cost little: few may wait, each for a short time, and the rank waits for none of them. Where too many
//! wait, the first is sent away of the address from which most come, so that who floods the port from one machine
//! crowds out no rank of another one. A rank that was crowded out calls again.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use super::listener::{Listener, unix_address};
use super::proof::{Claim, HELLO_BYTES, Key, NUMBER_BYTES, PROOF_BYTES, number};
use super::secure::{Credentials, Line};
use crate::ids::NodeId;

/// How long a caller may take to prove which rank it is.
const HELLO: Duration = Duration::from_secs(5);
/// The most callers that have not proven yet which rank they are. Two ranks with the most streams call at once without
/// being sent away, and what TLS keeps for so many takes about 20 MB.
const CALLERS: usize = 512;
/// How long a rank that was crowded out waits before it calls again.
const AGAIN: Duration = Duration::from_millis(50);
/// How long a rank waits before it calls again where nobody has listened.
const REDIAL: Duration = Duration::from_millis(200);

/// A process that has called, and what has come of its hello.
pub struct Caller {
    line: Line,
    from: IpAddr,
    /// The number with which its proof has to agree.
    asked: [u8; NUMBER_BYTES],
    hello: [u8; HELLO_BYTES],
    /// The bytes of the hello that have come.
    received: usize,
    deadline: Instant,
    /// What it claims, once that is proven.
    pub claim: Option<Claim>,
}

impl Caller {
    /// Challenges a caller; the stream must not block.
    fn new(stream: Socket, from: IpAddr, credentials: Option<&Credentials>) -> io::Result<Self> {
        let mut line = Line::accept(stream, credentials)?;
        let (asked, deadline) = (number()?, Instant::now() + HELLO);
        // A new socket has room for so few bytes.
        line.write_all(&asked)?;
        Ok(Self { line, from, asked, hello: [0; HELLO_BYTES], received: 0, deadline, claim: None })
    }

    /// Reads the bytes that have come, and answers the proof of one who is awaited; returns false if the caller is
    /// another one, too late, or gone. Who has proven it may wait as long as it is awaited, as it counts on that.
    pub fn serve(
        &mut self,
        own: NodeId,
        key: &Key,
        credentials: Option<&Credentials>,
        is_awaited: &impl Fn(Claim) -> bool,
    ) -> bool {
        if let Some(claim) = self.claim {
            return is_awaited(claim) && self.line.is_open();
        }
        if Instant::now() >= self.deadline {
            return false;
        }
        match self.line.read(&mut self.hello[self.received..]) {
            Ok(0) => false,
            Ok(count) => {
                self.received += count;
                self.received < HELLO_BYTES || self.answer(own, key, credentials, is_awaited).is_some()
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    fn answer(
        &mut self,
        own: NodeId,
        key: &Key,
        credentials: Option<&Credentials>,
        is_awaited: &impl Fn(Claim) -> bool,
    ) -> Option<()> {
        let (claim, proof) = key.check(own, &self.asked, &self.hello)?;
        if !self.line.is_of(claim.rank, credentials) || !is_awaited(claim) {
            return None;
        }
        self.line.write_all(&proof).ok()?;
        self.claim = Some(claim);
        Some(())
    }

    /// Returns the stream.
    pub fn into_line(self) -> Line {
        self.line
    }
}

/// Accepts all callers, and reads their hellos.
pub fn accept(listener: &Listener, callers: &mut Vec<Caller>, credentials: Option<&Credentials>) {
    for _ in 0..CALLERS {
        match listener.accept() {
            Ok((stream, from)) => callers.extend(Caller::new(stream, from, credentials)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // The process cannot open one more file.
            Err(_) if !send_one_away(callers) => break,
            Err(_) => {}
        }
        if callers.iter().filter(|caller| caller.claim.is_none()).count() > CALLERS {
            send_one_away(callers);
        }
    }
}

/// Makes room by sending away a caller that has proven nothing yet, the first of the address from which most of them
/// come. Returns false if there is none.
fn send_one_away(callers: &mut Vec<Caller>) -> bool {
    let mut calls = BTreeMap::new();
    for caller in callers.iter().filter(|caller| caller.claim.is_none()) {
        *calls.entry(caller.from).or_insert(0) += 1;
    }
    let crowd = calls.into_iter().max_by_key(|&(_, count)| count).map(|(from, _)| from);
    let first = callers.iter().position(|caller| caller.claim.is_none() && Some(caller.from) == crowd);
    first.map(|at| callers.remove(at)).is_some()
}

/// A call to a rank: from which address, to which one, until when, and what proves both ends.
#[derive(Clone)]
pub struct Call {
    pub own: IpAddr,
    pub rank: NodeId,
    pub address: SocketAddr,
    /// Until when it tries to get through.
    pub until: Instant,
    /// Until when it waits for answers once it got through.
    pub deadline: Instant,
    pub key: Key,
    pub credentials: Option<Credentials>,
    /// Whether nobody waits for it any more.
    pub is_given_up: Arc<AtomicBool>,
}

impl Call {
    /// Calls once with each claim, all at the same time. No call says who calls before all of them got through, so
    /// that the rank has taken none of them if this fails because one did not.
    ///
    /// # Errors
    /// If the rank cannot be reached, does not prove itself, or answers too late.
    pub fn with(&self, claims: &[Claim]) -> io::Result<Vec<Line>> {
        let sockets = at_once(claims.iter().map(|_| || self.dial(self.until)))?;
        at_once(claims.iter().zip(sockets).map(|(&claim, socket)| move || self.with_one(claim, socket)))
    }

    fn with_one(&self, claim: Claim, mut socket: Socket) -> io::Result<Line> {
        let mut cut_short = None;
        loop {
            let mut line = Line::call(socket, self.rank, self.credentials.as_ref())?;
            match self.introduce(&mut line, claim) {
                Ok(()) => return Ok(line),
                Err(error) if is_refusal(&error) || self.is_given_up.load(Ordering::Relaxed) => return Err(error),
                Err(error) if was_cut_short(&error) && Instant::now() + AGAIN < self.deadline => {
                    cut_short = Some(error);
                    thread::sleep(AGAIN);
                }
                Err(error) => return Err(cut_short.unwrap_or(error)),
            }
            socket = self.dial(self.deadline)?;
        }
    }

    /// Connects to a rank of this machine by its name, or else by its address.
    fn dial(&self, until: Instant) -> io::Result<Socket> {
        let near = (self.address.ip() == self.own).then(|| self.dial_near(until).ok());
        near.flatten().map_or_else(|| self.dial_far(until), Ok)
    }

    fn dial_near(&self, until: Instant) -> io::Result<Socket> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_write_timeout(Some(left(until)))?; // it counts for connecting, too
        socket.connect(&unix_address(&self.key.name_of(self.rank, self.address))?)?;
        socket.set_write_timeout(None)?;
        Ok(socket)
    }

    /// Connects from the address on which the rank listens, so that traffic takes the interface that was asked for.
    fn dial_far(&self, until: Instant) -> io::Result<Socket> {
        loop {
            let socket = Socket::new(Domain::for_address(self.address), Type::STREAM, None)?;
            socket.bind(&SocketAddr::new(self.own, 0).into())?;
            socket.set_tcp_nodelay(true)?;
            match socket.connect_timeout(&self.address.into(), left(until)) {
                Ok(()) => return Ok(socket),
                // What a rule of the system forbids is no answer of the other end.
                Err(error) if Instant::now() + REDIAL > until && error.kind() == ErrorKind::PermissionDenied => {
                    return Err(io::Error::new(ErrorKind::HostUnreachable, error));
                }
                Err(error) if Instant::now() + REDIAL > until || self.is_given_up.load(Ordering::Relaxed) => {
                    return Err(error);
                }
                Err(_) => thread::sleep(REDIAL),
            }
        }
    }

    fn introduce(&self, line: &mut Line, claim: Claim) -> io::Result<()> {
        let (mut asked, mut proof) = ([0; NUMBER_BYTES], [0; PROOF_BYTES]);
        line.stream.set_read_timeout(Some(left(self.deadline)))?;
        line.flush()?; // the beginning of TLS
        line.read_exact(&mut asked)?;
        let (hello, answer) = self.key.hello(self.rank, &asked, claim)?;
        line.write_all(&hello)?;
        line.stream.set_read_timeout(Some(left(self.deadline)))?;
        line.read_exact(&mut proof)?;
        if !answer.is(&proof) {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "what listens there is not of this group"));
        }
        line.stream.set_read_timeout(None)
    }
}

/// Does all of this work at the same time.
fn at_once<T: Send>(work: impl Iterator<Item = impl FnOnce() -> io::Result<T> + Send>) -> io::Result<Vec<T>> {
    thread::scope(|scope| {
        let threads: Vec<_> = work.map(|each| scope.spawn(each)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a call does not panic")).collect()
    })
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

/// Returns whether what was reached is not the rank that was called, or does not want this one.
pub fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::PermissionDenied)
}

/// Returns whether the other end has closed the stream, as it does when it is called by too many.
fn was_cut_short(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe
    )
}
