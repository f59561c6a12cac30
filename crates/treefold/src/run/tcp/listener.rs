//! The port on which ranks of this process listen.
//!
//! A firewall may let calls come to one port only, and a process may be in several groups. So ranks of a process that
//! are to listen at the same port share one socket. A rank that is reached by a call for another one sends the caller
//! away, who calls again.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use mio::net::{TcpListener, TcpStream};
use socket2::{Domain, Socket, Type};

use crate::error::{Error, Result};

/// The sockets of this process that listen at ports which were asked for.
static SHARED: Mutex<BTreeMap<SocketAddr, Weak<TcpListener>>> = Mutex::new(BTreeMap::new());

/// How many callers the kernel keeps until they are accepted, if its own limit is not lower. Of more it drops some, who
/// try again a second later.
const BACKLOG: i32 = 1024;

/// A socket that listens, which others may share.
pub struct Listener {
    socket: Arc<TcpListener>,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Listener {
    /// Listens at an address, at a port that the system chooses if it is 0.
    ///
    /// # Errors
    /// If this machine does not have the address, or another process the port.
    pub fn at(address: SocketAddr) -> Result<Self> {
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
        if address.port() == 0 {
            let socket = Arc::new(bound(address).map_err(fail)?);
            let address = socket.local_addr().map_err(fail)?;
            return Ok(Self { socket, address });
        }
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(socket) = shared.get(&address).and_then(Weak::upgrade) {
            return Ok(Self { socket, address });
        }
        let socket = Arc::new(bound(address).map_err(fail)?);
        shared.retain(|_, socket| socket.strong_count() > 0);
        shared.insert(address, Arc::downgrade(&socket));
        Ok(Self { socket, address })
    }

    /// Returns the next caller, and from where it calls.
    ///
    /// # Errors
    /// `WouldBlock` if there is none now.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.socket.accept()
    }
}

fn bound(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // The port may have belonged to a process that ended a moment ago.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}
