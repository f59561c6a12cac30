//! Joining: a rank listens, connects to the ranks before it, and accepts connections of the ranks after it.
//!
//! A rank that connects sends a token that only the group knows, so that a foreign process that finds the port is sent
//! away.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Interest, Poll, Token, Waker};
use socket2::{SockRef, TcpKeepalive};

use super::connection::{Connection, Stream};
use super::control::Heard;
use super::frame::HEADER;
use super::{MOST_STREAMS, Mesh};
use crate::error::{Error, Result};
use crate::ids::NodeId;
use crate::units::Seconds;

/// The waker's token in mio; the token of a connection is its rank.
const WAKE: Token = Token(usize::MAX);
/// How long a caller may take to say which rank it is.
const HELLO: Duration = Duration::from_secs(5);
/// The bytes of a hello: a greeting, the token, a rank, the number of the stream, and how many there are.
const HELLO_BYTES: usize = 24;
const GREETING: [u8; 8] = *b"treefold";
/// The greeting of a rank that was cut off.
pub const REUNION: [u8; 8] = *b"treeback";
/// The most callers that have not said yet which rank they are: few enough for a process that may open 256 files.
const CALLERS: usize = 128;

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
    ///
    /// # Errors
    /// If this machine does not have that address.
    ///
    /// ```
    /// use treefold::run::tcp::Mesh;
    /// use treefold::topology::NodeId;
    ///
    /// let mesh = Mesh::listen(NodeId(0), 2, "127.0.0.1".parse().unwrap(), 7)?;
    /// assert!(mesh.address().ip().is_loopback());
    /// assert_ne!(mesh.address().port(), 0, "the system has chosen a port");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn listen(rank: NodeId, ranks: u32, address: IpAddr, token: u64) -> Result<Self> {
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
            token,
            address,
            connections: (0..count).map(|_| None).collect(),
            names: (0..ranks).map(|rank| format!("rank {rank}")).collect(),
            left: vec![false; count],
            sequence: 0,
            broadcasts: 0,
            heard: vec![Heard::NOTHING; count],
            inbox: Default::default(),
            has_answered: vec![false; count],
            faults: Default::default(),
            at_work: false,
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
        for &&(rank, address) in &before {
            let streams = self.connect_to(rank, address, deadline)?;
            self.keep(rank, streams, dead_after)?;
        }
        self.reunions.dead_after = dead_after;
        for &(rank, address) in peers {
            self.reunions.addresses.retain(|&(other, _)| other != rank);
            self.reunions.addresses.push((rank, address));
        }
        let mut missing: Vec<NodeId> = after.iter().map(|peer| peer.0).collect();
        let mut callers = Vec::new();
        while !missing.is_empty() {
            if let Some((rank, streams)) = self.next_member(&mut callers, GREETING, &missing) {
                missing.retain(|&other| other != rank);
                self.keep(rank, streams, dead_after)?;
                continue;
            }
            if !go_on() {
                return Err(Error::interrupted(format!("rank {} was interrupted while it connected", self.rank)));
            }
            if Instant::now() > deadline {
                let missing: Vec<u32> = missing.iter().map(|rank| rank.0).collect();
                let late = Error::new(format!(
                    "rank {missing:?} did not connect to rank {} at {} within {:.0} s; can they reach that address?",
                    self.rank,
                    self.address,
                    timeout.as_secs_f64()
                ));
                return Err(late.outside(io::ErrorKind::TimedOut));
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn connect_to(&self, rank: NodeId, address: SocketAddr, deadline: Instant) -> Result<Vec<TcpStream>> {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let hellos = self.hellos(GREETING, rank);
        dial_all(self.address.ip(), address, left, &hellos).map_err(|error| {
            Error::new(format!(
                "rank {} cannot reach rank {rank} at {address}: {error}; is there a route, or a firewall?",
                self.rank
            ))
            .outside(error.kind())
        })
    }

    /// Returns what this rank says first on each stream to a rank.
    pub(super) fn hellos(&self, greeting: [u8; 8], rank: NodeId) -> Vec<Vec<u8>> {
        let streams = self.streams[rank.index()];
        (0..streams).map(|stream| hello(greeting, self.token, self.rank, stream, streams)).collect()
    }

    /// Returns the streams of a missing rank with this greeting that has proven to be one and has called with all of
    /// its streams, if there is one. It waits for none of them, so that a silent caller keeps nobody out.
    pub(super) fn next_member(
        &self,
        callers: &mut Vec<Caller>,
        greeting: [u8; 8],
        missing: &[NodeId],
    ) -> Option<(NodeId, Vec<TcpStream>)> {
        self.accept(callers);
        let is_awaited = |hello: Option<Hello>| hello.is_some_and(|hello| missing.contains(&hello.rank));
        callers.retain_mut(|caller| match caller.is_done() {
            true => Instant::now() < caller.deadline && is_awaited(caller.hello(greeting, self.token)),
            false => caller.read_hello(),
        });
        let said = |caller: &Caller| caller.hello(greeting, self.token).filter(|_| caller.is_done());
        let is_whole = |hello: &Hello| {
            let of_rank = callers.iter().filter_map(said).filter(|other| other.rank == hello.rank);
            of_rank.map(|other| other.stream).collect::<BTreeSet<_>>().len() == hello.streams
        };
        let Hello { rank, .. } = callers.iter().filter_map(said).find(is_whole)?;
        let mut streams = BTreeMap::new();
        for caller in callers.extract_if(.., |caller| said(caller).is_some_and(|hello| hello.rank == rank)) {
            let number = said(&caller).map(|hello| hello.stream);
            streams.insert(number, caller.stream);
        }
        Some((rank, streams.into_values().collect()))
    }

    /// Accepts all callers, and reads their hellos at once, as a rank sends its hello when it connects.
    fn accept(&self, callers: &mut Vec<Caller>) {
        for _ in 0..CALLERS {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let mut caller = Caller::new(stream.into());
                    if caller.read_hello() {
                        callers.push(caller);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The process cannot open one more file.
                Err(_) if !send_away_silent(callers) => break,
                Err(_) => {}
            }
            if callers.len() > CALLERS {
                send_away_silent(callers);
            }
        }
    }

    /// Makes streams the connection to a rank.
    fn keep(&mut self, rank: NodeId, streams: Vec<TcpStream>, dead_after: Duration) -> Result<()> {
        let life = self.faults.mend(rank, self.rank);
        let connection = self.set_up(rank, streams, dead_after, life);
        let fail = |error: io::Error| Error::new(format!("connection to rank {rank}: {error}")).outside(error.kind());
        self.connections[rank] = Some(connection.map_err(fail)?);
        Ok(())
    }

    /// Sets streams up as a connection to a rank.
    pub(super) fn set_up(
        &self,
        rank: NodeId,
        streams: Vec<TcpStream>,
        dead_after: Duration,
        life: u32,
    ) -> io::Result<Connection> {
        let set_up = |(number, stream)| self.set_up_stream(rank.index() * MOST_STREAMS + number, stream, dead_after);
        let streams: io::Result<Vec<Stream>> = streams.into_iter().enumerate().map(set_up).collect();
        Ok(Connection::new(streams?, life))
    }

    fn set_up_stream(&self, token: usize, stream: TcpStream, dead_after: Duration) -> io::Result<Stream> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        let every = (dead_after / 4).max(Duration::from_secs(1));
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(every).with_interval(every).with_retries(3))?;
        socket.set_tcp_user_timeout(Some(dead_after))?;
        let is_near = stream.peer_addr()?.ip() == stream.local_addr()?.ip() || stream.peer_addr()?.ip().is_loopback();
        let mut stream = mio::net::TcpStream::from_std(stream);
        self.poll.registry().register(&mut stream, Token(token), Interest::READABLE | Interest::WRITABLE)?;
        Ok(Stream::new(stream, is_near))
    }
}

/// Returns what a rank says first on one of its streams.
fn hello(greeting: [u8; 8], token: u64, rank: NodeId, stream: usize, streams: usize) -> Vec<u8> {
    let [stream, streams] = [stream, streams].map(|number| (number as u16).to_le_bytes());
    [&greeting[..], &token.to_le_bytes(), &rank.0.to_le_bytes(), &stream, &streams].concat()
}

/// Connects to an address as often as there are hellos, at the same time, and says them.
pub fn dial_all(own: IpAddr, address: SocketAddr, timeout: Duration, hellos: &[Vec<u8>]) -> io::Result<Vec<TcpStream>> {
    let call = |hello: &[u8]| {
        let mut stream = dial(own, address, timeout)?;
        stream.write_all(hello)?;
        Ok(stream)
    };
    thread::scope(|scope| {
        let calls: Vec<_> = hellos.iter().map(|hello| scope.spawn(move || call(hello))).collect();
        calls.into_iter().map(|call| call.join().expect("a call does not panic")).collect()
    })
}

/// Connects to an address from the address `own`, on which the rank listens, so that traffic takes the interface that
/// was asked for.
fn dial(own: IpAddr, address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(own, 0).into())?;
    socket.connect_timeout(&address.into(), timeout)?;
    Ok(socket.into())
}

/// Makes room by sending away the first caller that has not said which rank it is, as a rank says so at once. Returns
/// false if there is none.
fn send_away_silent(callers: &mut Vec<Caller>) -> bool {
    let silent = callers.iter().position(|caller| !caller.is_done());
    silent.map(|at| callers.remove(at)).is_some()
}

/// A process that has connected, and what has come of its hello.
pub struct Caller {
    stream: TcpStream,
    hello: [u8; HELLO_BYTES],
    /// The bytes of the hello that have come.
    received: usize,
    deadline: Instant,
}

impl Caller {
    /// Wraps a stream, which must not block.
    fn new(stream: TcpStream) -> Self {
        Self { stream, hello: [0; HELLO_BYTES], received: 0, deadline: Instant::now() + HELLO }
    }

    fn is_done(&self) -> bool {
        self.received == HELLO_BYTES
    }

    /// Reads the bytes that have come; returns false if they can become no hello any more.
    fn read_hello(&mut self) -> bool {
        match self.stream.read(&mut self.hello[self.received..]) {
            Ok(count) => {
                self.received += count;
                count > 0
            }
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
                    && Instant::now() < self.deadline
            }
        }
    }

    /// Returns what the caller says, if it knows the token. All bytes of the token are compared, so that the time of
    /// the comparison does not tell how much of a guess is right.
    fn hello(&self, greeting: [u8; 8], token: u64) -> Option<Hello> {
        let known = [greeting, token.to_le_bytes()].concat();
        let (sent, rest) = self.hello.split_at(known.len());
        let differences = sent.iter().zip(&known).fold(0, |sum, (one, other)| sum | (one ^ other));
        let Some((rank, &[a, b, c, d])) = rest.split_first_chunk::<4>() else { return None };
        let [stream, streams] = [[a, b], [c, d]].map(|bytes| usize::from(u16::from_le_bytes(bytes)));
        let is_possible = stream < streams && streams <= MOST_STREAMS;
        (black_box(differences) == 0 && is_possible).then(|| Hello {
            rank: NodeId(u32::from_le_bytes(*rank)),
            stream,
            streams,
        })
    }
}

/// What a rank says first on one of its streams.
#[derive(Debug, Clone, Copy)]
struct Hello {
    rank: NodeId,
    stream: usize,
    /// How many streams the rank dials.
    streams: usize,
}
