//! Joining: a rank listens, connects to the ranks before it, and accepts connections of the ranks after it.
//!
//! Both ends of a connection prove that they know a key which only the group has, so that a foreign process that finds
//! the port is sent away. A rank calls in threads while it accepts, as an end waits for the other one's proof.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Interest, Poll, Token, Waker};
use socket2::{SockRef, TcpKeepalive};

use super::callers::{Call, Caller, accept};
use super::connection::{Connection, Stream};
use super::control::Heard;
use super::frame::HEADER;
use super::proof::{Claim, KEY_BYTES, Key};
use super::secure::{Credentials, Line};
use super::window::Window;
use super::working::Vigil;
use super::{MOST_STREAMS, Mesh};
use crate::error::{Error, Result};
use crate::ids::NodeId;
use crate::units::Seconds;

/// The waker's token in mio; the token of a connection is its rank.
const WAKE: Token = Token(usize::MAX);
const GREETING: [u8; 8] = *b"treefold";
/// The greeting of a rank that was cut off.
pub const REUNION: [u8; 8] = *b"treeback";

/// Returns the time that sending or receiving a message costs this machine, besides its bytes. It measures how long
/// sending and receiving take together over loopback, at best, and halves that.
///
/// # Errors
/// If connections over loopback do not work.
pub fn message_cost() -> Result<Seconds> {
    let measure = || -> io::Result<Seconds> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let mut out = TcpStream::connect(listener.local_addr()?)?;
        let (mut into, _) = listener.accept()?;
        out.set_nodelay(true)?;
        let mut best = f64::INFINITY;
        for _ in 0..8 {
            let start = Instant::now();
            for _ in 0..64 {
                out.write_all(&[0; 2 * HEADER])?;
                into.read_exact(&mut [0; HEADER])?;
                into.read_exact(&mut [0; HEADER])?;
            }
            best = best.min(start.elapsed().as_secs_f64() / 128.0);
        }
        Ok(Seconds::known(best))
    };
    measure().map_err(|error| {
        Error::new(format!("the cost of messages cannot be measured over loopback: {error}")).outside(error.kind())
    })
}

impl Mesh {
    /// Returns rank `rank` of `ranks`, without connections; it listens on `address`, and only there, at a free port.
    /// All ranks of a group have the same `key`, and strangers do not know it.
    ///
    /// # Errors
    /// If this machine does not have that address.
    ///
    /// ```
    /// use treefold::run::tcp::Mesh;
    /// use treefold::topology::NodeId;
    ///
    /// let mesh = Mesh::listen(NodeId(0), 2, "127.0.0.1".parse().unwrap(), &[7; 32])?;
    /// assert!(mesh.address().ip().is_loopback());
    /// assert_ne!(mesh.address().port(), 0, "the system has chosen a port");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn listen(rank: NodeId, ranks: u32, address: IpAddr, key: &[u8; KEY_BYTES]) -> Result<Self> {
        let fail = |error: io::Error| {
            Error::new(format!("cannot listen on {address}: {error}; give an address of this machine"))
                .outside(error.kind())
        };
        let listener = TcpListener::bind(SocketAddr::new(address, 0)).map_err(fail)?;
        let poll = Poll::new().map_err(fail)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE).map_err(fail)?);
        let address = listener.local_addr().map_err(fail)?;
        let count = ranks as usize;
        Ok(Self {
            rank,
            poll,
            waker,
            listener,
            key: Key::new(key),
            credentials: None,
            address,
            is_near: true,
            connections: (0..count).map(|_| None).collect(),
            names: (0..ranks).map(|rank| format!("rank {rank}")).collect(),
            left: vec![false; count],
            sequence: 0,
            broadcasts: 0,
            heard: vec![Heard::NOTHING; count],
            inbox: Default::default(),
            has_answered: vec![false; count],
            faults: Default::default(),
            flights: Window::new(),
            vigil: Vigil::new(),
            watch: None,
            reunions: Default::default(),
            streams: vec![1; count],
        })
    }

    /// Sets how many streams side by side the connections to these ranks have from now on; by default one. Of a pair,
    /// the higher rank decides. There are [`MOST_STREAMS`] at most.
    pub fn use_streams(&mut self, streams: &[(NodeId, usize)]) {
        for &(rank, count) in streams {
            self.streams[rank.index()] = count.clamp(1, MOST_STREAMS);
        }
    }

    /// Encrypts all connections that are made from now on, and refuses ranks whose certificate is of another site; all
    /// ranks of a group do so, or none.
    pub fn secure(&mut self, credentials: Credentials) {
        self.credentials = Some(credentials);
    }

    /// Returns the address and port on which this rank listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connects to `peers`, each a rank with its address; they have to do the same at the same time. Peers that are
    /// connected already are left out. `dead_after` is how long a peer may take to acknowledge data.
    ///
    /// # Errors
    /// If a peer cannot be reached, or does not connect within `timeout`; or if `go_on` says no.
    pub fn connect(
        &mut self,
        peers: &[(NodeId, SocketAddr)],
        timeout: Duration,
        dead_after: Duration,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + timeout;
        let wanted = |rank: NodeId| self.connections[rank].is_none() && rank != self.rank;
        let (before, after): (Vec<_>, Vec<_>) =
            peers.iter().filter(|peer| wanted(peer.0)).partition(|peer| peer.0 < self.rank);
        let mut calls: Vec<Calling> =
            before.iter().map(|&&(rank, address)| self.call(GREETING, rank, address, deadline)).collect();
        self.reunions.dead_after = dead_after;
        for &(rank, address) in peers {
            self.reunions.addresses.retain(|&(other, _)| other != rank);
            self.reunions.addresses.push((rank, address));
        }
        let mut missing: Vec<NodeId> = after.iter().map(|peer| peer.0).collect();
        let mut callers = Vec::new();
        while !missing.is_empty() || !calls.is_empty() {
            if let Some((rank, streams)) = self.next_member(&mut callers, GREETING, &missing) {
                missing.retain(|&other| other != rank);
                self.keep(rank, streams, dead_after)?;
                continue;
            }
            if let Some((at, answered)) = calls.iter().enumerate().find_map(|(at, call)| Some((at, call.answered()?))) {
                let Calling { rank, address, .. } = calls.swap_remove(at);
                let streams = answered.map_err(|error| self.unreachable(rank, address, &error))?;
                self.keep(rank, streams, dead_after)?;
                continue;
            }
            if !go_on() {
                return Err(Error::interrupted(format!("rank {} was interrupted while it connected", self.rank)));
            }
            if Instant::now() > deadline && !missing.is_empty() {
                return Err(self.absent(&missing, timeout));
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn absent(&self, missing: &[NodeId], timeout: Duration) -> Error {
        let missing: Vec<u32> = missing.iter().map(|rank| rank.0).collect();
        let late = Error::new(format!(
            "rank {missing:?} did not connect to rank {} at {} within {:.0} s; can they reach that address?",
            self.rank,
            self.address,
            timeout.as_secs_f64()
        ));
        late.outside(io::ErrorKind::TimedOut)
    }

    fn unreachable(&self, rank: NodeId, address: SocketAddr, error: &io::Error) -> Error {
        let reason = match error.kind() {
            io::ErrorKind::UnexpectedEof => "it hung up".to_owned(),
            io::ErrorKind::WouldBlock => "it does not answer".to_owned(),
            _ => error.to_string(),
        };
        let remedy = "is there a route, or a firewall, and does the same group listen there?";
        Error::new(format!("rank {} cannot reach rank {rank} at {address}: {reason}; {remedy}", self.rank))
            .outside(error.kind())
    }

    /// Calls a rank in a thread, as that may take long.
    pub(super) fn call(&self, greeting: [u8; 8], rank: NodeId, address: SocketAddr, deadline: Instant) -> Calling {
        let streams = self.streams[rank.index()];
        let claims: Vec<Claim> =
            (0..streams).map(|stream| Claim { greeting, rank: self.rank, stream, streams }).collect();
        let call = Call {
            own: self.address.ip(),
            rank,
            address,
            deadline,
            key: self.key.clone(),
            credentials: self.credentials.clone(),
        };
        let (sender, receiver) = channel();
        thread::spawn(move || {
            // Nobody listens if this rank has given up meanwhile.
            let _ = sender.send(call.with(&claims));
        });
        Calling { rank, address, receiver }
    }

    /// Returns the streams of a missing rank with this greeting that has proven to be one and has called with all of
    /// its streams, if there is one. It waits for none of them, so that a silent caller keeps nobody out.
    pub(super) fn next_member(
        &self,
        callers: &mut Vec<Caller>,
        greeting: [u8; 8],
        missing: &[NodeId],
    ) -> Option<(NodeId, Vec<Line>)> {
        let credentials = self.credentials.as_ref();
        accept(&self.listener, callers, credentials);
        let said = |caller: &Caller| caller.claim.filter(|claim| claim.greeting == greeting);
        let is_awaited = |claim: Claim| claim.greeting == greeting && missing.contains(&claim.rank);
        callers.retain_mut(|caller| {
            caller.serve(self.rank, &self.key, credentials) && caller.claim.is_none_or(is_awaited)
        });
        let is_whole = |claim: &Claim| {
            let of_rank = callers.iter().filter_map(said).filter(|other| other.rank == claim.rank);
            of_rank.map(|other| other.stream).collect::<BTreeSet<_>>().len() == claim.streams
        };
        let Claim { rank, .. } = callers.iter().filter_map(said).find(is_whole)?;
        let mut streams = BTreeMap::new();
        for caller in callers.extract_if(.., |caller| said(caller).is_some_and(|claim| claim.rank == rank)) {
            streams.insert(caller.claim.map(|claim| claim.stream), caller.into_line());
        }
        Some((rank, streams.into_values().collect()))
    }

    /// Makes streams the connection to a rank.
    fn keep(&mut self, rank: NodeId, streams: Vec<Line>, dead_after: Duration) -> Result<()> {
        let life = self.faults.mend(rank, self.rank);
        let connection = self.set_up(rank, streams, dead_after, life);
        let fail = |error: io::Error| Error::new(format!("connection to rank {rank}: {error}")).outside(error.kind());
        let connection = connection.map_err(fail)?;
        self.is_near &= connection.is_near();
        self.connections[rank] = Some(connection);
        Ok(())
    }

    /// Sets streams up as a connection to a rank.
    pub(super) fn set_up(
        &self,
        rank: NodeId,
        streams: Vec<Line>,
        dead_after: Duration,
        life: u32,
    ) -> io::Result<Connection> {
        let set_up = |(number, stream)| self.set_up_stream(rank.index() * MOST_STREAMS + number, stream, dead_after);
        let streams: io::Result<Vec<Stream>> = streams.into_iter().enumerate().map(set_up).collect();
        Ok(Connection::new(streams?, life))
    }

    fn set_up_stream(&self, token: usize, line: Line, dead_after: Duration) -> io::Result<Stream> {
        let Line { stream, session } = line;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        let every = (dead_after / 4).max(Duration::from_secs(1));
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(every).with_interval(every).with_retries(3))?;
        socket.set_tcp_user_timeout(Some(dead_after))?;
        let is_near = stream.peer_addr()?.ip() == stream.local_addr()?.ip() || stream.peer_addr()?.ip().is_loopback();
        let mut stream = mio::net::TcpStream::from_std(stream);
        self.poll.registry().register(&mut stream, Token(token), Interest::READABLE | Interest::WRITABLE)?;
        Ok(Stream::new(stream, session, is_near))
    }
}

/// A call to a lower rank that has not been answered.
pub struct Calling {
    pub rank: NodeId,
    address: SocketAddr,
    receiver: Receiver<io::Result<Vec<Line>>>,
}

impl Calling {
    /// Returns the streams, or why there are none; `None` as long as neither is known.
    pub fn answered(&self) -> Option<io::Result<Vec<Line>>> {
        match self.receiver.try_recv() {
            Ok(answered) => Some(answered),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(io::Error::other("the call was given up"))),
        }
    }
}
