"""Strangers who find a port: silent ones, talkative ones and liars keep no worker out, and end nothing."""

import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from treefold._core import Mesh

LOOPBACK = "127.0.0.1"
SOON_S = 4.0


def frame(text: bytes) -> bytes:
    return struct.pack("!4sIQ", b"tfw1", len(text), 0) + text


GARBAGE = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"treefold" + bytes(12),
    bytes(4096),
    frame(b"[" * 60_000),
    frame(b'{"token": "\\ud800", "rank": 0}'),
    frame(b'{"token": "secret"}'),
    frame(b'{"token": "secret", "rank": "zero"}'),
    frame(b'{"token": "secret", "rank": 1e999}'),
    frame(b'{"token": "secret", "rank": [0]}'),
    frame(b'{"token": ["secret"], "rank": 0}'),
    frame(b'{"token": "secret", "rank": 9}'),
    frame(b'"secret"'),
    frame(b"\xff"),
    frame(b""),
]


@contextmanager
def strangers(port: int):
    """Twelve who say nothing, and one for each kind of garbage; all stay on the line."""
    with ExitStack() as lines:
        for words in [b"", b"t", b"tfw1"] * 4 + GARBAGE:
            line = lines.enter_context(socket.create_connection((LOOPBACK, port), 5))
            line.sendall(words)
        yield


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def join_soon(meshes: list[Mesh]) -> None:
    addresses = [each.address for each in meshes]

    def join(rank):
        others = [(other, address) for other, address in enumerate(addresses) if other != rank]
        meshes[rank].connect(others, 20.0, 20.0)

    start = time.monotonic()
    with ThreadPoolExecutor(len(meshes)) as pool:
        list(pool.map(join, range(len(meshes))))
    assert time.monotonic() - start < SOON_S


def test_strangers_keep_no_rank_out_of_a_mesh():
    meshes = [Mesh(rank, 3, LOOPBACK, 7) for rank in range(3)]
    with strangers(port_of(meshes[0].address)):
        join_soon(meshes)
    for each in meshes:
        each.close()


def test_a_hello_that_comes_in_pieces_is_heard():
    first = Mesh(0, 2, LOOPBACK, 7)
    port = port_of(first.address)

    def call():
        line = socket.create_connection((LOOPBACK, port), 5)
        for byte in b"treefold" + struct.pack("<QI", 7, 1):
            line.sendall(bytes([byte]))
            time.sleep(0.01)
        return line

    with ThreadPoolExecutor(1) as pool:
        line = pool.submit(call)
        first.connect([(1, f"{LOOPBACK}:1")], 10.0, 10.0)
        line.result().close()
    first.close()


def test_more_strangers_than_may_wait_keep_no_rank_out():
    meshes = [Mesh(rank, 2, LOOPBACK, 7) for rank in range(2)]
    with ExitStack() as lines:
        for _ in range(400):
            line = lines.enter_context(socket.socket())
            line.setblocking(False)
            line.connect_ex((LOOPBACK, port_of(meshes[0].address)))
        join_soon(meshes)
    for each in meshes:
        each.close()
