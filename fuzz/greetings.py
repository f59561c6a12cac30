"""Calls a rank as another rank does, from outside of treefold's own code: what the proof is stands here once more."""

import hashlib
import hmac
import socket
import struct

KEY = bytes(range(32))
"""The key of the groups that are called."""

NUMBER = bytes(32)
"""What stands for a caller's random number."""


def hello(asked: bytes, rank: int = 1, acceptor: int = 0, key: bytes = KEY, greeting: bytes = b"treefold") -> bytes:
    """Return what rank `rank` answers when the rank `acceptor` has asked with a number."""
    said = greeting + struct.pack("<IHH", rank, 0, 1) + NUMBER
    return said + hmac.digest(key, b"caller" + struct.pack("<I", acceptor) + asked + said, hashlib.sha256)


def answer(asked: bytes, rank: int = 1, acceptor: int = 0, key: bytes = KEY) -> bytes:
    """Return the proof with which the rank that was called has to answer."""
    said = b"treefold" + struct.pack("<IHH", rank, 0, 1) + NUMBER
    return hmac.digest(key, b"acceptor" + struct.pack("<I", acceptor) + asked + said, hashlib.sha256)


def received(line: socket.socket, count: int) -> bytes:
    """Return so many bytes that come, fewer if the stream ends."""
    data = b""
    while len(data) < count and (more := line.recv(count - len(data))):
        data += more
    return data


def greet(line: socket.socket, rank: int = 1) -> None:
    """Prove to rank 0 that the caller is this rank, and let it prove itself."""
    asked = received(line, 32)
    line.sendall(hello(asked, rank))
    assert received(line, 32) == answer(asked, rank), "rank 0 has proven nothing"
