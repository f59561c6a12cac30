"""Frames: what workers send each other before they run plans. A magic word, two lengths, a JSON object, bytes.

A frame is data, never code, and its reader says how much it takes.
"""

import hmac
import json
import socket
import struct
from collections import deque
from contextlib import suppress
from typing import Any

Header = dict[str, Any]

_PREFIX = struct.Struct("!4sIQ")
_MAGIC = b"tfw1"
_MAX_HEADER_BYTES = 1 << 16
_PART_BYTES = 1 << 20


class FrameError(Exception):
    """What arrived is no frame, or a larger one than the reader takes."""


def _packed(header: Header, body: bytes) -> bytes:
    text = json.dumps(header).encode()
    return _PREFIX.pack(_MAGIC, len(text), len(body)) + text


def send_frame(connection: socket.socket, header: Header, body: bytes = b"") -> None:
    """Send one frame, whole; `header` must fit JSON in 64 KiB, or a 64th of what the reader takes."""
    connection.sendall(_packed(header, body))
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


def receive_exactly(connection: socket.socket, count: int) -> bytearray:
    """Receive `count` bytes; EOFError if the other side closes before. What is only announced takes no memory."""
    data, done = bytearray(min(count, _PART_BYTES)), 0
    while done < count:
        if done == len(data):
            data.extend(bytes(min(done, count - done)))
        received = connection.recv_into(memoryview(data)[done:])
        if not received:
            raise EOFError
        done += received
    return data


def _lengths(prefix: bytearray, most_bytes: int) -> tuple[int, int]:
    magic, header_bytes, body_bytes = _PREFIX.unpack(prefix)
    if magic != _MAGIC:
        raise FrameError("this port speaks to workers of treefold only")
    # The header of an answer lists the lengths of what is in its body.
    if header_bytes > max(_MAX_HEADER_BYTES, most_bytes >> 6) or body_bytes > most_bytes:
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


class Line:
    """A connection that keeps nobody waiting: frames come and leave in parts."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        with suppress(OSError):  # no TCP
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self._come, self._expected = bytearray(), _PREFIX.size
        self._header_bytes = 0
        self._unsent: deque[memoryview] = deque()

    def receive(self, most_bytes: int) -> tuple[Header, bytes] | None:
        """Return a frame that has come whole, None if it may still come; otherwise as `receive_frame`."""
        while len(self._come) < self._expected:
            try:
                more = self.connection.recv(min(self._expected - len(self._come), _PART_BYTES))
            except BlockingIOError:
                return None
            if not more:
                raise EOFError
            self._come += more
            if len(self._come) == _PREFIX.size:
                self._header_bytes, body_bytes = _lengths(self._come, most_bytes)
                self._expected += self._header_bytes + body_bytes
        end = _PREFIX.size + self._header_bytes
        header, body = self._come[_PREFIX.size : end], bytes(memoryview(self._come)[end:])
        self._come, self._expected = bytearray(), _PREFIX.size
        return _header(header), body

    def send(self, header: Header, body: bytes = b"") -> None:
        """Send a frame, as far as the connection takes it; `flush` sends the rest."""
        self._unsent += [memoryview(part) for part in (_packed(header, body), body) if part]
        with suppress(OSError):  # who reads next learns it
            self.flush()

    @property
    def is_sent(self) -> bool:
        """Whether all has left."""
        return not self._unsent

    def flush(self) -> bool:
        """Send what the connection takes; return whether all has left."""
        while self._unsent:
            try:
                sent = self.connection.send(self._unsent[0])
            except BlockingIOError:
                return False
            self._unsent[0] = self._unsent[0][sent:]
            if not self._unsent[0]:
                self._unsent.popleft()
        return True

    def has_left(self) -> bool:
        """Send the rest and say that it is the last; return whether the other side has read it and closed.

        Closing earlier, with something of the other side unread, would take back what it has not read.
        """
        try:
            if not self.flush():
                return False
            self.connection.shutdown(socket.SHUT_WR)
            while self.connection.recv(_PART_BYTES):
                pass
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True
