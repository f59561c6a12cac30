//! TLS 1.3 between ranks, with certificates at both ends.
//!
//! A rank that calls expects the certificate of the site of the rank it calls; a rank that is called expects that of
//! the site of the rank that the caller claims to be. Sites are names in certificates of the group's authority: hosts
//! and addresses prove nothing, so they are not compared.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use rustls::client::{Resumption, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig,
    ServerConnection,
};
use socket2::{Domain, Socket};

use crate::bail;
use crate::error::{Error, Result};
use crate::ids::NodeId;

/// The bytes of plain text that wait in a session until the kernel takes them encrypted.
const WAITING: usize = 256 << 10;
/// The bytes of a record: two of them make a burst.
pub const RECORD: usize = 12 << 10;
/// The bytes that are read from a socket at a time.
const READ: usize = 128 << 10;

/// What a rank proves its site with, and checks those of others.
#[derive(Clone)]
pub struct Credentials {
    calling: Arc<ClientConfig>,
    accepting: Arc<ServerConfig>,
    /// The name in the certificate of each rank.
    names: Vec<ServerName<'static>>,
}

impl Credentials {
    /// Reads the authority's certificate, this rank's certificate and its key, all as PEM; `names` are the names in the
    /// certificates of all ranks.
    ///
    /// # Errors
    /// If they are no certificates and no key, or do not belong together.
    pub fn new(authority: &[u8], certificate: &[u8], key: &[u8], names: &[String]) -> Result<Self> {
        let fail = |error: rustls::Error| Error::new(format!("the certificates cannot be used: {error}"));
        let unread = || Error::new("the certificates cannot be read; copy the folder of the site anew");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority).map_err(|_| unread())?).map_err(fail)?;
        let chain = vec![CertificateDer::from_pem_slice(certificate).map_err(|_| unread())?];
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| unread())?;
        // The fastest of those that ring has, as fast as the processor's instructions for it are.
        let cipher_suites = vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256];
        let provider = Arc::new(CryptoProvider { cipher_suites, ..default_provider() });
        let Ok(verifier) =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots.clone()), provider.clone()).build()
        else {
            bail!("the certificate of the authority cannot be used; copy the folder of the site anew");
        };
        let mut accepting = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(fail)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(fail)?;
        accepting.send_tls13_tickets = 0;
        accepting.max_fragment_size = Some(RECORD);
        let mut calling = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(fail)?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(fail)?;
        calling.resumption = Resumption::disabled();
        calling.max_fragment_size = Some(RECORD);
        let named = |name: &String| {
            ServerName::try_from(name.clone()).map_err(|_| Error::new(format!("'{name}' is not the name of a site")))
        };
        let names = names.iter().map(named).collect::<Result<_>>()?;
        Ok(Self { calling: Arc::new(calling), accepting: Arc::new(accepting), names })
    }

    fn name(&self, rank: NodeId) -> io::Result<ServerName<'static>> {
        self.names.get(rank.index()).cloned().ok_or_else(|| io::Error::other("there is no such rank"))
    }
}

/// A TLS session.
pub struct Session {
    tls: Connection,
    /// Room for bytes from the socket.
    incoming: Vec<u8>,
    /// The range of it that has come and is not used yet.
    fresh: Range<usize>,
}

impl Session {
    fn new(mut tls: Connection) -> Box<Self> {
        tls.set_buffer_limit(Some(WAITING));
        Box::new(Self { tls, incoming: vec![0; READ], fresh: 0..0 })
    }

    /// Returns whether encrypted bytes wait for the kernel to take them.
    pub fn is_behind(&self) -> bool {
        self.tls.wants_write()
    }

    /// Writes encrypted bytes until none wait.
    pub fn flush(&mut self, socket: &mut impl Write) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(socket)?;
        }
        Ok(())
    }

    /// Encrypts what there is room for, and writes what the kernel takes.
    pub fn write(&mut self, socket: &mut impl Write, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.flush(socket)?;
        let written = self.tls.writer().write_vectored(pieces)?;
        match self.flush(socket) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(written),
        }
    }

    /// Reads what has been decrypted, or else decrypts what comes.
    pub fn read(&mut self, socket: &mut (impl Read + Write), target: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(target) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
            if self.fresh.is_empty() {
                self.fresh = 0..socket.read(&mut self.incoming)?;
                if self.fresh.is_empty() {
                    return Ok(0);
                }
            }
            self.fresh.start += self.tls.read_tls(&mut &self.incoming[self.fresh.clone()])?;
            let processed = self.tls.process_new_packets().map_err(reason);
            // The answer, or an alert; if the kernel takes no more now, the next write sends it.
            match self.flush(socket) {
                Err(error) if error.kind() != ErrorKind::WouldBlock && processed.is_ok() => return Err(error),
                _ => processed?,
            };
        }
    }
}

/// A stream that is not set up yet, which TLS encrypts if the group has certificates. What stays in the kernel of one
/// machine is not encrypted: who could read it there could read the vectors, too.
pub struct Line {
    pub stream: Socket,
    pub session: Option<Box<Session>>,
}

impl Line {
    /// Returns whether the other end has not closed it, as far as is known without reading.
    pub fn is_open(&self) -> bool {
        match self.stream.peek(&mut [MaybeUninit::uninit()]) {
            Ok(bytes) => bytes > 0,
            Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }

    /// Calls a rank over a stream.
    pub fn call(stream: Socket, rank: NodeId, credentials: Option<&Credentials>) -> io::Result<Self> {
        let credentials = credentials.filter(|_| leaves_machine(&stream));
        let session = credentials.map(|credentials| {
            let session = ClientConnection::new(credentials.calling.clone(), credentials.name(rank)?);
            Ok::<_, io::Error>(Session::new(session.map_err(reason)?.into()))
        });
        Ok(Self { stream, session: session.transpose()? })
    }

    /// Answers a caller over a stream.
    pub fn accept(stream: Socket, credentials: Option<&Credentials>) -> io::Result<Self> {
        let credentials = credentials.filter(|_| leaves_machine(&stream));
        let session = credentials.map(|credentials| {
            let session = ServerConnection::new(credentials.accepting.clone()).map_err(reason)?;
            Ok::<_, io::Error>(Session::new(session.into()))
        });
        Ok(Self { stream, session: session.transpose()? })
    }

    /// Returns whether the other end has shown the certificate of this rank's site, if it needs one.
    pub fn is_of(&self, rank: NodeId, credentials: Option<&Credentials>) -> bool {
        let (Some(credentials), Some(session)) = (credentials, &self.session) else { return true };
        let Some(shown) =
            session.tls.peer_certificates().and_then(|shown| ParsedCertificate::try_from(shown.first()?).ok())
        else {
            return false;
        };
        credentials.name(rank).is_ok_and(|name| verify_server_name(&shown, &name).is_ok())
    }
}

/// Returns whether a stream goes over TCP, and not over a Unix socket.
pub fn leaves_machine(stream: &Socket) -> bool {
    stream.domain().map_or(true, |domain| domain != Domain::UNIX)
}

impl Read for Line {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        match &mut self.session {
            Some(session) => session.read(&mut self.stream, target),
            None => self.stream.read(target),
        }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.session {
            Some(session) => session.write(&mut self.stream, &[IoSlice::new(bytes)]),
            None => self.stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.session.as_mut().map_or(Ok(()), |session| session.flush(&mut self.stream))
    }
}

/// Returns why TLS failed, in words that follow the name of the other end.
fn reason(error: rustls::Error) -> io::Error {
    use AlertDescription as Alert;
    use CertificateError as Bad;
    use rustls::Error::{AlertReceived, InvalidCertificate, InvalidMessage};
    let text = match &error {
        InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => "its certificate has expired",
        InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => "its certificate is of another authority",
        InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
            "its certificate is of another site"
        }
        AlertReceived(Alert::CertificateExpired) => "it says that the certificate of this rank has expired",
        AlertReceived(Alert::UnknownCA | Alert::DecryptError) => {
            "it says that the certificate of this rank is of another authority"
        }
        AlertReceived(Alert::CertificateRequired) => "it asks this rank for a certificate",
        InvalidMessage(_) => "it does not speak TLS",
        other => return io::Error::new(ErrorKind::InvalidData, format!("TLS failed: {other}")),
    };
    io::Error::new(ErrorKind::InvalidData, text)
}
