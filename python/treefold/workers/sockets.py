"""Sockets of workers: frames of a JSON header and bytes, addresses of interfaces, and errors that say what to do.

A frame is data, never code: a magic word, two lengths, a JSON object, bytes. Its reader says how much it takes.
"""

import errno
import fcntl
import hmac
import ipaddress
import json
import selectors
import socket
import struct
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Any

from treefold._core import TreefoldError

Header = dict[str, Any]

_PREFIX = struct.Struct("!4sIQ")
_MAGIC = b"tfw1"
_MAX_HEADER_BYTES = 1 << 16
_MOST_CALLERS = 256  # who may be about to say who they are
_LOOK_S = 0.1
_SIOCGIFADDR = 0x8915  # Linux: the IPv4 address of an interface


class FrameError(Exception):
    """What arrived is no frame, or a larger one than the reader takes."""


def send_frame(connection: socket.socket, header: Header, body: bytes = b"") -> None:
    """Send one frame, whole; `header` must fit JSON in 64 KiB."""
    text = json.dumps(header).encode()
    connection.sendall(_PREFIX.pack(_MAGIC, len(text), len(body)) + text)
    if body:
        connection.sendall(body)


def receive_frame(connection: socket.socket, most_bytes: int) -> tuple[Header, bytes]:
    """Receive one frame whose body has at most `most_bytes`.

    Raises:
        FrameError: If it is none, or larger.
        EOFError: If the other side has closed the connection.

    """
    header_bytes, body_bytes = _lengths(receive_exactly(connection, _PREFIX.size), most_bytes)
    header = _header(receive_exactly(connection, header_bytes))
    return header, bytes(receive_exactly(connection, body_bytes))


def _lengths(prefix: bytearray, most_bytes: int) -> tuple[int, int]:
    magic, header_bytes, body_bytes = _PREFIX.unpack(prefix)
    if magic != _MAGIC:
        raise FrameError("this port speaks to workers of treefold only")
    if header_bytes > _MAX_HEADER_BYTES or body_bytes > most_bytes:
        raise FrameError(f"a frame of {header_bytes} + {body_bytes} bytes is larger than expected")
    return header_bytes, body_bytes


def _header(text: bytearray) -> Header:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise FrameError("the header of a frame is no JSON") from None
    if not isinstance(header, dict):
        raise FrameError("the header of a frame is no JSON object")
    return header


def knows(header: Header, key: str, secret: str) -> bool:
    """Whether a header that anybody may have sent says `secret` under `key`."""
    said = header.get(key)
    if not isinstance(said, str):
        return False
    # A stranger's text may hold what UTF-8 cannot.
    return hmac.compare_digest(said.encode(errors="surrogatepass"), secret.encode(errors="surrogatepass"))


def first_frames(
    listener: socket.socket, until: float, timeout_s: float
) -> Generator[tuple[socket.socket, Header], None, None]:
    """Yield callers, each with the header of its first frame, in the order in which these have come whole.

    A silent caller keeps nobody waiting, and is sent away after `timeout_s`. Ends when `time.monotonic` says `until`.
    """
    with selectors.DefaultSelector() as ready:
        listener.setblocking(False)
        ready.register(listener, selectors.EVENT_READ)
        try:
            while time.monotonic() < until:
                ready.select(_LOOK_S)
                _welcome(ready, listener, timeout_s)
                yield from _heard(ready)
        finally:
            for caller in _callers(ready):
                caller.connection.close()


class _Caller:
    """Who has called, and what has come of a first frame without body."""

    def __init__(self, connection: socket.socket, timeout_s: float) -> None:
        connection.setblocking(False)
        self.connection = connection
        self._until = time.monotonic() + timeout_s
        self._data, self._whole = bytearray(), _PREFIX.size

    def header(self) -> Header | None:
        """Return the frame's header, None if it may still come; otherwise raises as `receive_frame`."""
        while len(self._data) < self._whole:
            try:
                more = self.connection.recv(self._whole - len(self._data))
            except BlockingIOError:
                if time.monotonic() < self._until:
                    return None
                raise FrameError("the caller says nothing") from None
            if not more:
                raise EOFError
            self._data += more
            if len(self._data) == _PREFIX.size:
                self._whole += _lengths(self._data, 0)[0]
        return _header(self._data[_PREFIX.size :])


def _callers(ready: selectors.BaseSelector) -> list[_Caller]:
    return [key.data for key in ready.get_map().values() if key.data is not None]


def _welcome(ready: selectors.BaseSelector, listener: socket.socket, timeout_s: float) -> None:
    """Accept who is there. Where too many wait, the first has to go: workers speak at once, so strangers come first."""
    with suppress(OSError):
        connection, _ = listener.accept()
        ready.register(connection, selectors.EVENT_READ, _Caller(connection, timeout_s))
    if len(callers := _callers(ready)) > _MOST_CALLERS:
        _send_away(ready, callers[0])


def _heard(ready: selectors.BaseSelector) -> Iterator[tuple[socket.socket, Header]]:
    for caller in _callers(ready):
        try:
            header = caller.header()
        except (OSError, EOFError, FrameError):
            _send_away(ready, caller)
            continue
        if header is not None:
            ready.unregister(caller.connection)
            caller.connection.setblocking(True)
            yield caller.connection, header


def _send_away(ready: selectors.BaseSelector, caller: _Caller) -> None:
    ready.unregister(caller.connection)
    caller.connection.close()


def receive_exactly(connection: socket.socket, count: int) -> bytearray:
    """Receive `count` bytes; EOFError if the other side closes before."""
    data = bytearray(count)
    view, done = memoryview(data), 0
    while done < count:
        received = connection.recv_into(view[done:])
        if not received:
            raise EOFError
        done += received
    return data


def has_arrived(connection: socket.socket) -> bool:
    """Whether something can be received without waiting."""
    with selectors.DefaultSelector() as ready:
        ready.register(connection, selectors.EVENT_READ)
        return bool(ready.select(0))


def listen(address: str, port: int = 0, what: str = "this worker") -> socket.socket:
    """Return a socket that listens on `address` only; port 0 takes a free one.

    Raises:
        TreefoldError: If the address is not this machine's, or the port is taken.

    """
    family, where = _resolved(address, port)
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(socket.SOMAXCONN)
    except OSError as error:
        listener.close()
        raise TreefoldError(f"{what} cannot listen on {address} port {port}: {_listen_remedy(error)}") from None
    return listener


def free_port(address: str) -> int:
    """Return a port of `address` that nobody listens on just now."""
    with listen(address) as listener:
        return int(listener.getsockname()[1])


def _listen_remedy(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use; is this rank started twice? Otherwise choose another port"
    if error.errno == errno.EADDRNOTAVAIL:
        return "the address is not of this machine; use one of its own"
    return f"{error.strerror}; choose another address or port"


def connect(address: str, port: int, timeout_s: float) -> socket.socket:
    """Connect, trying again until `timeout_s` has passed: the other side may start later.

    Raises:
        OSError: The last failure.

    """
    deadline, pause_s = time.monotonic() + timeout_s, 0.02
    while True:
        try:
            connection = socket.create_connection((address, port), max(deadline - time.monotonic(), 0.01))
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
        TreefoldError: If there is no such interface, or it has no address.

    """
    try:
        return str(ipaddress.ip_address(interface))
    except ValueError:
        pass
    names = [name for _, name in socket.if_nameindex()]
    if interface not in names:
        raise TreefoldError(f"interface '{interface}' does not exist here; there are {', '.join(names)}")
    found = _ipv4_of(interface)
    if found is None:
        raise TreefoldError(f"the address of interface '{interface}' is not known; name the address itself instead")
    return found


def _ipv4_of(interface: str) -> str | None:
    if not sys.platform.startswith("linux"):
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def own_address_towards(address: str) -> str:
    """Return this machine's address on its way to `address`; nothing is sent.

    Raises:
        TreefoldError: If `address` cannot be resolved or no route leads to it.

    """
    family, where = _resolved(address, 9)
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(where)
        except OSError as error:
            raise TreefoldError(f"no way from here to {address}: {error.strerror}; check address and routes") from None
        return str(probe.getsockname()[0])


def _resolved(address: str, port: int) -> tuple[socket.AddressFamily, Any]:
    try:
        family, _, _, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise TreefoldError(f"address '{address}' cannot be resolved; check its spelling or give numbers") from None
    return family, where
