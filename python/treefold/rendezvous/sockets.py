"""Sockets of workers: interface addresses, listening and connecting, with errors that say what to do."""

import errno
import ipaddress
import random
import selectors
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import Any

from treefold.errors import OutsideError, TreefoldError

_NOT_EPHEMERAL = range(20_000, 32_768)  # Linux takes ephemeral ports from 32768 on, the IANA from 49152 on
_SIOCGIFADDR = 0x8915  # Linux: the IPv4 address of an interface


def has_arrived(connection: socket.socket) -> bool:
    """Return whether something can be received without waiting."""
    with selectors.DefaultSelector() as ready:
        ready.register(connection, selectors.EVENT_READ)
        return bool(ready.select(0))


def listen(address: str, port: int = 0, what: str = "this worker") -> socket.socket:
    """Return a socket that listens on `address` only; port 0 takes a free port. `what` names the listener in errors.

    Raises:
        OutsideError: If the address is not this machine's, or the port is taken.

    """
    family, where = _resolved(address, port)
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(socket.SOMAXCONN)
    except OSError as error:
        listener.close()
        raise OutsideError(f"{what} cannot listen on {address} port {port}: {_listen_remedy(error)}") from None
    return listener


def free_port(address: str) -> int:
    """Return a port of `address` that nobody listens on and that the system gives to no socket of its own accord.

    A port that the system has just chosen would be in its ephemeral range, from which outgoing connections take
    theirs: one of them could have it before the caller listens.

    Raises:
        OutsideError: If the address is not this machine's, or no port of the range seems to be free.

    """
    ports = random.SystemRandom().sample(_NOT_EPHEMERAL, 100)
    for port in ports[1:]:
        with suppress(OutsideError), listen(address, port):
            return port
    with listen(address, ports[0]):
        return ports[0]


def _listen_remedy(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use; is this rank started twice? Otherwise choose another port"
    if error.errno == errno.EADDRNOTAVAIL:
        return "the address is not of this machine; use one of its own"
    return f"{error.strerror}; choose another address or port"


def connect(address: str, port: int, timeout_s: float) -> socket.socket:
    """Connect, and try again until `timeout_s` has passed, because the peer may start later.

    Raises:
        OSError: If no attempt succeeds; it is the error of the last one.

    """
    deadline, pause_s = time.monotonic() + timeout_s, 0.02
    while True:
        try:
            connection = socket.create_connection((address, port), max(deadline - time.monotonic(), 0.01))
        except UnicodeError:
            raise OSError(errno.EINVAL, "the address is not the name of a host") from None
        except OSError:
            if time.monotonic() + pause_s >= deadline:
                raise
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.5)
        else:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection


def address_of(interface: str) -> str:
    """Return the address of an interface of this machine, such as `eth1`; an address stands for itself.

    Raises:
        TreefoldError: If there is no such interface, it has no address, or the address is not this machine's.

    """
    try:
        address = str(ipaddress.ip_address(interface))
    except ValueError:
        pass
    else:
        _check_own(address)
        return address
    names = [name for _, name in socket.if_nameindex()]
    if interface not in names:
        raise TreefoldError(f"interface '{interface}' does not exist here; there are {', '.join(names)}")
    found = _ipv4_of(interface)
    if found is None:
        raise TreefoldError(f"the address of interface '{interface}' is unknown; give the address itself instead")
    return found


def _check_own(address: str) -> None:
    """Refuse an address on which this machine cannot listen."""
    family, where = _resolved(address, 0)
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(where)
        except OSError:
            names = ", ".join(name for _, name in socket.if_nameindex())
            raise TreefoldError(
                f"address '{address}' is not of this machine; give one of its own, or an interface: there are {names}"
            ) from None


def _ipv4_of(interface: str) -> str | None:
    if not sys.platform.startswith("linux"):
        return None
    import fcntl  # which Windows lacks

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def own_address_towards(address: str) -> str:
    """Return the address with which this machine reaches `address`; nothing is sent.

    Raises:
        OutsideError: If `address` cannot be resolved or no route leads to it.

    """
    family, where = _resolved(address, 9)
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(where)
        except OSError as error:
            raise OutsideError(
                f"no route leads from here to {address}: {error.strerror}; check the address and the routes"
            ) from None
        return str(probe.getsockname()[0])


def _resolved(address: str, port: int) -> tuple[socket.AddressFamily, Any]:
    try:
        family, _, _, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise OutsideError(
            f"address '{address}' cannot be resolved; check its spelling, or give a numeric address"
        ) from None
    return family, where
