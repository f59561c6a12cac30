"""Frames are what workers send each other before they run plans: a magic word, two lengths, a JSON object and bytes.

A frame is data, never code, and its reader says how much it takes.
"""

import json
import socket
import struct
from collections import deque
from contextlib import suppress
from typing import Any

from treefold.rendezvous.tls import WANTED

Header = dict[str, Any]

_PREFIX = struct.Struct("!4sIQ")
_MAGIC = b"tfw1"
_MAX_HEADER_BYTES = 1 << 16
_PART_BYTES = 1 << 20


class FrameError(Exception):
    """What arrived is not a frame, or it is larger than the reader takes."""


def send_frame(connection: socket.socket, header: Header, body: bytes = b"") -> None:
    """Send one whole frame; the JSON of `header` must fit 64 KiB, or a 64th of what the reader takes."""
    connection.sendall(_packed(header, body))
    if body:
        connection.sendall(body)


def receive_frame(connection: socket.socket, most_bytes: int) -> tuple[Header, bytes]:
    """Receive one frame whose body has at most `most_bytes`.

    Raises:
        FrameError: If what arrives is not a frame, or it is larger.
        EOFError: If the peer has closed the connection.

    """
    header_bytes, body_bytes = _lengths(receive_exactly(connection, _PREFIX.size), most_bytes)
    header = _header(receive_exactly(connection, header_bytes))
    return header, bytes(receive_exactly(connection, body_bytes))


def receive_exactly(connection: socket.socket, count: int) -> bytearray:
    """Receive `count` bytes. Memory grows with what arrives, not with what is announced.

    Raises:
        EOFError: If the peer closes the connection before.

    """
    data, done = bytearray(min(count, _PART_BYTES)), 0
    while done < count:
        if done == len(data):
            data.extend(bytes(min(done, count - done)))
        received = connection.recv_into(memoryview(data)[done:])
        if not received:
            raise EOFError
        done += received
    return data


def _packed(header: Header, body: bytes) -> bytes:
    text = json.dumps(header).encode()
    return _PREFIX.pack(_MAGIC, len(text), len(body)) + text


def _lengths(prefix: bytearray, most_bytes: int) -> tuple[int, int]:
    magic, header_bytes, body_bytes = _PREFIX.unpack(prefix)
    if magic != _MAGIC:
        raise FrameError("this port speaks to workers of treefold only")
    # The header of an answer lists the lengths of the blobs in its body.
    if header_bytes > max(_MAX_HEADER_BYTES, most_bytes >> 6) or body_bytes > most_bytes:
        raise FrameError(f"a frame of {header_bytes} + {body_bytes} bytes is larger than expected")
    return header_bytes, body_bytes


def _header(text: bytearray) -> Header:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise FrameError("the header of a frame is not JSON") from None
    if not isinstance(header, dict):
        raise FrameError("the header of a frame is not a JSON object")
    return header


class FrameStream:
    """A connection on which frames are sent and received in parts, so that no call ever waits for the peer."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        with suppress(OSError):  # sockets other than TCP have no such option
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self._received, self._expected = bytearray(), _PREFIX.size
        self._header_bytes = 0
        self._unsent: deque[memoryview] = deque()

    def receive(self, most_bytes: int) -> tuple[Header, bytes] | None:
        """Return a frame that has arrived whole; None if it may still arrive.

        Raises:
            FrameError: If what arrives is not a frame, or its body has more than `most_bytes`.
            EOFError: If the peer has closed the connection.

        """
        while len(self._received) < self._expected:
            try:
                more = self.connection.recv(min(self._expected - len(self._received), _PART_BYTES))
            except WANTED:
                return None
            if not more:
                raise EOFError
            self._received += more
            if len(self._received) == _PREFIX.size:
                self._header_bytes, body_bytes = _lengths(self._received, most_bytes)
                self._expected += self._header_bytes + body_bytes
        end = _PREFIX.size + self._header_bytes
        header, body = self._received[_PREFIX.size : end], bytes(memoryview(self._received)[end:])
        self._received, self._expected = bytearray(), _PREFIX.size
        return _header(header), body

    def send(self, header: Header, body: bytes = b"") -> None:
        """Send as much of a frame as the connection takes; `flush` sends the rest."""
        self._unsent += [memoryview(part) for part in (_packed(header, body), body) if part]
        with suppress(OSError):  # the next `receive` finds the error
            self.flush()

    @property
    def is_flushed(self) -> bool:
        """Tell whether everything has been sent."""
        return not self._unsent

    def flush(self) -> bool:
        """Send what the connection takes; return whether everything has been sent."""
        while self._unsent:
            try:
                sent = self.connection.send(self._unsent[0])
            except WANTED:
                return False
            self._unsent[0] = self._unsent[0][sent:]
            if not self._unsent[0]:
                self._unsent.popleft()
        return True

    def finish(self) -> bool:
        """Send the rest and then the end of the stream; return whether the peer has read it all and closed.

        If this end closed earlier, with bytes of the peer unread, TCP would discard what the peer has not read yet.
        """
        try:
            if not self.flush():
                return False
            self.connection.shutdown(socket.SHUT_WR)
            while self.connection.recv(_PART_BYTES):
                pass
        except WANTED:
            return False
        except OSError:
            pass
        return True
