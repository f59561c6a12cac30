//! Where ranks of this process listen: at a port, and at a name for the ranks of their machine.
//!
//! Messages within a machine take a fifth to two thirds of the processor time over a Unix socket that they take over
//! TCP. Its name is one of Linux's abstract names, which are no files and end with the socket.
//!
//! A firewall may let calls come to one port only, and a process may be in several groups. So ranks of a process that
//! are to listen at the same port share one socket. A rank that is reached by a call for another one sends the caller
//! away, who calls again.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use socket2::{Domain, SockAddr, Socket, Type};

use super::proof::Key;
use crate::error::{Error, Result};
use crate::ids::NodeId;

/// The sockets of this process that listen at ports which were asked for.
static SHARED: Mutex<BTreeMap<SocketAddr, Weak<Socket>>> = Mutex::new(BTreeMap::new());

/// How many callers the kernel keeps until they are accepted, if its own limit is not lower. Of more it drops some, who
/// try again a second later.
const BACKLOG: i32 = 1024;

/// The sockets at which a rank listens.
pub struct Listener {
    /// The socket of the port, which other ranks may share.
    socket: Arc<Socket>,
    /// The socket for ranks of this machine; `None` if the system does not grant one.
    near: Option<Socket>,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Listener {
    /// Listens as this rank at an address, at a port that the system chooses if it is 0.
    ///
    /// # Errors
    /// If this machine does not have the address, or another process the port.
    pub fn at(rank: NodeId, address: SocketAddr, key: &Key) -> Result<Self> {
        let (socket, address) = port_at(address)?;
        let near = unix_address(&key.name_of(rank, address)).and_then(|name| bound(Domain::UNIX, &name));
        Ok(Self { socket, near: near.ok(), address })
    }

    /// Returns the next caller, which does not block, and from where it calls.
    ///
    /// # Errors
    /// `WouldBlock` if there is none now.
    pub fn accept(&self) -> io::Result<(Socket, IpAddr)> {
        let near = self.near.as_ref().map(Socket::accept);
        let (socket, from) = match near {
            Some(Err(error)) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            Some(Ok(accepted)) => accepted,
            _ => self.socket.accept()?,
        };
        socket.set_nonblocking(true)?;
        Ok((socket, from.as_socket().map_or(self.address.ip(), |from| from.ip())))
    }
}

/// Returns the address of a socket with an abstract name.
pub fn unix_address(name: &str) -> io::Result<SockAddr> {
    SockAddr::unix(format!("\0{name}"))
}

/// Returns a socket that listens at a port, and where.
fn port_at(address: SocketAddr) -> Result<(Arc<Socket>, SocketAddr)> {
    let fail = |error: io::Error| {
        let (ip, port) = (address.ip(), address.port());
        let (what, remedy) = match error.kind() {
            ErrorKind::AddrInUse => (
                "the port is in use".to_owned(),
                "each worker of a machine needs a port of its own; choose another one (TREEFOLD_PORT)",
            ),
            ErrorKind::PermissionDenied => {
                (error.to_string(), "choose a port of 1024 or more, as the system keeps those below to itself")
            }
            _ => (error.to_string(), "give an address of this machine"),
        };
        let at = if port == 0 { ip.to_string() } else { format!("{ip} port {port}") };
        Error::new(format!("cannot listen on {at}: {what}; {remedy}")).outside(error.kind())
    };
    let bind = || bound(Domain::for_address(address), &address.into());
    if address.port() == 0 {
        let socket = Arc::new(bind().map_err(fail)?);
        let bound = socket.local_addr().map_err(fail)?.as_socket().unwrap_or(address);
        return Ok((socket, bound));
    }
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(socket) = shared.get(&address).and_then(Weak::upgrade) {
        return Ok((socket, address));
    }
    let socket = Arc::new(bind().map_err(fail)?);
    shared.retain(|_, socket| socket.strong_count() > 0);
    shared.insert(address, Arc::downgrade(&socket));
    Ok((socket, address))
}

/// Returns a socket that listens, and never blocks.
fn bound(domain: Domain, address: &SockAddr) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::STREAM, None)?;
    // The port may have belonged to a process that ended a moment ago.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}
