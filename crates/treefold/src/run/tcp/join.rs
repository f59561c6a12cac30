//! Joining: a rank listens, or does not, and sets up the streams to other ranks as connections.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Interest, Poll, Token, Waker};
use socket2::TcpKeepalive;

use super::connection::{Connection, Stream};
use super::control::Heard;
use super::frame::HEADER;
use super::listener::Listener;
use super::proof::{KEY_BYTES, Key};
use super::secure::{Credentials, Line, leaves_machine};
use super::window::Window;
use super::working::Vigil;
use super::{MOST_STREAMS, Mesh};
use crate::error::{Error, Result};
use crate::ids::NodeId;
use crate::units::Seconds;

/// The waker's token in mio; the token of a connection is its rank.
const WAKE: Token = Token(usize::MAX);

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
    /// Returns rank `rank` of `ranks`, without connections; it listens on `address`, and only there, at `port`: one
    /// that the system chooses if it is 0, and at none if it is `None`. Ranks of one process may share a port.
    /// All ranks of a group have the same `key`, and strangers do not know it.
    ///
    /// # Errors
    /// If this machine does not have that address, or another process has the port.
    ///
    /// ```
    /// use treefold::run::tcp::Mesh;
    /// use treefold::topology::NodeId;
    ///
    /// let mesh = Mesh::listen(NodeId(0), 2, "127.0.0.1".parse().unwrap(), Some(0), &[7; 32])?;
    /// assert!(mesh.address().ip().is_loopback());
    /// assert_ne!(mesh.address().port(), 0, "the system has chosen a port");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn listen(rank: NodeId, ranks: u32, address: IpAddr, port: Option<u16>, key: &[u8; KEY_BYTES]) -> Result<Self> {
        let fail = |error: io::Error| Error::new(format!("cannot wait for connections: {error}")).outside(error.kind());
        let key = Key::new(key);
        let listener = port.map(|port| Listener::at(rank, SocketAddr::new(address, port), &key)).transpose()?;
        let poll = Poll::new().map_err(fail)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE).map_err(fail)?);
        let address = listener.as_ref().map_or(SocketAddr::new(address, 0), |listener| listener.address);
        let count = ranks as usize;
        Ok(Self {
            rank,
            poll,
            waker,
            listener,
            key,
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
            repairs: Default::default(),
            callers: Vec::new(),
            streams: vec![1; count],
            counted_at: None,
            sent_before: 0,
        })
    }

    /// Sets how many streams side by side the connections to these ranks have from now on; by default one. Of a pair,
    /// the end that calls decides. There are [`MOST_STREAMS`] at most.
    pub fn use_streams(&mut self, streams: &[(NodeId, usize)]) {
        for &(rank, count) in streams {
            self.streams[rank.index()] = count.clamp(1, MOST_STREAMS);
        }
    }

    /// Returns descriptors of the streams to a rank, for options that only the system knows of; none if it is not
    /// connected.
    ///
    /// # Errors
    /// If the process may not open more files.
    pub fn descriptors(&mut self, rank: NodeId) -> Result<Vec<OwnedFd>> {
        let fail = |error: io::Error| Error::new(format!("streams to rank {rank}: {error}")).outside(error.kind());
        self.connections[rank].as_mut().map_or(Ok(Vec::new()), Connection::descriptors).map_err(fail)
    }

    /// Encrypts all connections that are made from now on, and refuses ranks whose certificate is of another site; all
    /// ranks of a group do so, or none.
    pub fn secure(&mut self, credentials: Credentials) {
        self.credentials = Some(credentials);
    }

    /// Returns the address and port on which this rank listens; the port is 0 if it does not listen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes streams the connection to a rank.
    pub(super) fn keep(&mut self, rank: NodeId, streams: Vec<Line>, dead_after: Duration) -> Result<()> {
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
        let set_up = |(number, stream)| self.set_up_stream(rank, number, stream, dead_after);
        let streams: io::Result<Vec<Stream>> = streams.into_iter().enumerate().map(set_up).collect();
        Ok(Connection::new(streams?, life))
    }

    /// Sets the stream with this number to a rank up.
    pub(super) fn set_up_stream(
        &self,
        rank: NodeId,
        number: usize,
        line: Line,
        dead_after: Duration,
    ) -> io::Result<Stream> {
        let Line { stream: socket, session } = line;
        socket.set_nonblocking(true)?;
        if leaves_machine(&socket) {
            socket.set_tcp_nodelay(true)?;
            let every = (dead_after / 4).max(Duration::from_secs(1));
            socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(every).with_interval(every).with_retries(3))?;
            socket.set_tcp_user_timeout(Some(dead_after))?;
        }
        let ends = [socket.peer_addr()?.as_socket(), socket.local_addr()?.as_socket()].map(|end| end.map(|at| at.ip()));
        let is_near = ends[0] == ends[1] || ends[0].is_some_and(|ip| ip.is_loopback());
        self.poll.registry().register(
            &mut SourceFd(&socket.as_raw_fd()),
            Token(rank.index() * MOST_STREAMS + number),
            Interest::READABLE | Interest::WRITABLE,
        )?;
        Ok(Stream::new(socket, session, is_near))
    }
}
