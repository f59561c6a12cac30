"""TLS 1.3 with certificates at both ends, for workers that have a folder which `treefold certificates` has made.

Which site a worker belongs to is the name in its certificate, and TREEFOLD_NAME has to agree with it. Hosts and
addresses prove nothing, so they are not compared.
"""

import re
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treefold import environment
from treefold.certificates import AUTHORITY, CERTIFICATE, DOMAIN, KEY
from treefold.errors import OutsideError, PeerError, TreefoldError
from treefold.text import message, visible

FIRST_BYTE = b"\x16"
"""The first byte of every caller that speaks TLS."""

WANTED = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""What a socket that does not block raises where it would have to wait."""

_REMEDY = "set TREEFOLD_TLS on all workers, or on none"
_OR_ANOTHER = "; or another program listens there: choose another MASTER_PORT then"
_REASONS = {
    "has expired": "has expired",
    "is not yet valid": "is not valid yet: compare the clocks",
    "self-signed": "is of another authority",
    "self signed": "is of another authority",
    "issuer certificate": "is of another authority",
    "signature failure": "is of another authority",
}
_ALERTS = {
    "CERTIFICATE_EXPIRED": "has expired",
    "UNKNOWN_CA": "is of another authority",
    "DECRYPT_ERROR": "is of another authority",
    "CERTIFICATE_REQUIRED": "is missing",
}


@dataclass(frozen=True)
class Credentials:
    """What a worker needs to prove its site, and to check that of others."""

    site: str
    folder: Path
    accepting: ssl.SSLContext = field(repr=False)
    calling: ssl.SSLContext = field(repr=False)

    def texts(self) -> tuple[bytes, bytes, bytes]:
        """Return the authority's certificate, this worker's certificate, and its key, as PEM.

        Raises:
            OutsideError: If a file cannot be read any more.

        """
        try:
            authority, certificate, key = ((self.folder / name).read_bytes() for name in (AUTHORITY, CERTIFICATE, KEY))
        except OSError as error:
            raise OutsideError(f"TREEFOLD_TLS: {self.folder}: {error.strerror}; check its files") from None
        return authority, certificate, key

    def call(self, connection: socket.socket, whom: str) -> ssl.SSLSocket:
        """Return a connection to `whom` on which both ends have shown their certificates.

        Raises:
            PeerError: If the other end has no certificate of this authority for a worker.
            OSError: If the connection fails.

        """
        try:
            secured = self.calling.wrap_socket(connection)
        except ssl.SSLError as error:
            why = failure(error)
            raise PeerError(f"{whom} {why}{_OR_ANOTHER if why.endswith(_REMEDY) else ''}") from None
        if site_of(secured) is None:
            raise PeerError(f"{whom} has a certificate that is not of a site; make it with treefold certificates")
        return secured

    def accept(self, connection: socket.socket) -> ssl.SSLSocket:
        """Return the connection of a caller, whose first reads check its certificate."""
        return self.accepting.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)


def from_environment() -> Credentials | None:
    """Return the credentials in the folder that TREEFOLD_TLS names; None if it is not set.

    Raises:
        TreefoldError: If the folder does not hold a valid certificate of a site, its key, and its authority.

    """
    folder = environment.value("TREEFOLD_TLS")
    if not folder:
        return None
    try:
        return read(Path(folder))
    except TreefoldError as error:
        raise type(error)(message("TREEFOLD_TLS", str(error))) from None


def read(folder: Path) -> Credentials:
    """Return the credentials in a folder.

    Raises:
        TreefoldError: As `from_environment` does.

    """
    paths = [folder / name for name in (AUTHORITY, CERTIFICATE, KEY)]
    absent = [path.name for path in paths if not path.is_file()]
    if absent:
        there = "is no folder" if not folder.is_dir() else f"has no {absent[0]}"
        raise OutsideError(f"{folder} {there}; name the folder of a site that 'treefold certificates' has made")
    mode = paths[2].stat().st_mode
    if mode & 0o077:
        raise TreefoldError(f"{paths[2]} can be read by others; keep it to yourself: chmod 600 {paths[2]}")
    accepting, calling = (_context(purpose, *paths) for purpose in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT))
    return Credentials(_rehearsed(accepting, calling, paths[1]), folder, accepting, calling)


def _context(purpose: int, authority: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(purpose)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    if purpose == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # tickets would look as if an answer had come
    try:
        context.load_cert_chain(certificate, key, password=lambda: b"")
        context.load_verify_locations(authority)
    except ssl.SSLError as error:
        wrong = f"{key} is not the key of {certificate}" if "MISMATCH" in str(error) else "its files are damaged"
        raise TreefoldError(f"{certificate.parent}: {wrong}; copy the folder of the site anew") from None
    except OSError as error:
        raise OutsideError(f"{certificate.parent}: {error.strerror}; check its files") from None
    return context


def _rehearsed(accepting: ssl.SSLContext, calling: ssl.SSLContext, certificate: Path) -> str:
    """Return the site of one's own certificate, which has to be valid at both ends of a connection with itself."""
    one, other = ssl.MemoryBIO(), ssl.MemoryBIO()
    caller, acceptor = calling.wrap_bio(one, other), accepting.wrap_bio(other, one, server_side=True)
    for end in (caller, acceptor, caller, acceptor):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise TreefoldError(
                f"{certificate} {_reason(error)}; make a new one with 'treefold certificates', in the same folder"
            ) from None
    site = site_of(caller)
    if site is None:
        raise TreefoldError(f"{certificate} is not of a site; make it with 'treefold certificates'")
    return site


def site_of(connection: object) -> str | None:
    """Return the site whose certificate the other end has shown; None if it is not TLS, or no site's."""
    if not isinstance(connection, ssl.SSLSocket | ssl.SSLObject):
        return None
    names: Any = (connection.getpeercert() or {}).get("subjectAltName", ())
    sites = [value.removesuffix(DOMAIN) for kind, value in names if kind == "DNS" and value.endswith(DOMAIN)]
    return sites[0] if len(sites) == 1 else None


def is_of_site(name: str, site: str) -> bool:
    """Tell whether a worker of this name belongs to a site: it is the site's name, or goes on with `/` or `:`."""
    return site_in(name) == site


def certified_name(name: str) -> str:
    """Return the name that stands in the certificate of a worker of this name."""
    return site_in(name) + DOMAIN


def site_in(name: str) -> str:
    """Return the site in a worker's name: what stands before its first `/` or `:`, or all of it."""
    return re.split("[/:]", name, maxsplit=1)[0]


def not_of_site(name: str | None, site: str | None) -> str:
    """Return what is wrong with a worker whose name is not of the site of its certificate, and what to do."""
    holds = "holds a certificate that is not of a site" if site is None else f"holds the certificate of site '{site}'"
    remedy = f"its TREEFOLD_NAME has to be '{site}', or to begin with '{site}/' or '{site}:'"
    return f"calls itself '{visible((name or '')[:80])}' and {holds}; {remedy}"


def failure(error: ssl.SSLError) -> str:
    """Return why TLS failed with the other end, to follow its name, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"has a certificate that {_reason(error)}; give all sites certificates of one authority"
    if isinstance(error, ssl.SSLEOFError):
        return f"has closed the connection to a caller with TLS; {_REMEDY}"
    reason = error.reason or ""
    if alert := next((text for key, text in _ALERTS.items() if key in reason), None):
        return f"refuses this worker, whose certificate {alert}; give all sites certificates of one authority"
    if "VERSION" in reason or "UNKNOWN_PROTOCOL" in reason or "HTTP" in reason:
        return f"does not speak TLS; {_REMEDY}"
    return f"and this worker cannot agree on TLS ({reason or 'no reason given'}); {_REMEDY}"


def _reason(error: ssl.SSLError) -> str:
    text = getattr(error, "verify_message", "") or str(error)
    return next((said for part, said in _REASONS.items() if part in text), f"cannot be verified ({text})")
