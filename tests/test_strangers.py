"""Strangers who find a port: silent ones, talkative ones and liars keep no worker out, and end nothing."""

import json
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from treefold import TreefoldError
from treefold._core import Mesh
from treefold.workers import mesh, probe, rendezvous
from treefold.workers.sockets import connect, free_port, listen, receive_frame, send_frame

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


@pytest.fixture
def known_token(monkeypatch):
    """What strangers have to know, so that their other lies are looked at too."""
    monkeypatch.setattr(probe.secrets, "token_hex", lambda _: "secret")


@pytest.mark.usefixtures("known_token")
def test_strangers_keep_no_worker_out_of_a_probe(monkeypatch):
    lines, introduce = ExitStack(), probe._introduction

    def visited(place, listener, settings):
        if place.rank == 2:
            lines.enter_context(strangers(listener.getsockname()[1]))
        return introduce(place, listener, settings)

    monkeypatch.setattr(probe, "_introduction", visited)
    budget = probe.Settings(seconds=3.5, most_bytes=64 << 20)
    with lines, ThreadPoolExecutor(3) as pool:
        start = time.monotonic()
        found = list(pool.map(lambda place: probe.measure(place, budget), rendezvous.local(3)))
        assert time.monotonic() - start < 3.5 + SOON_S
    assert len(found[0].rates) == 6


def test_who_does_not_come_is_missed_in_spite_of_strangers(monkeypatch):
    monkeypatch.setattr(mesh, "_CONNECT_S", 0.5)
    monkeypatch.setattr(mesh, "_HELLO_S", 0.5)
    with listen(LOOPBACK) as listener, strangers(listener.getsockname()[1]):
        assert mesh._answer(listener, {0, 1}, "another", {}) == {0, 1}


HELLO = {"job": "", "rank": 1, "size": 2, "name": "rome"}
HELLOS = [
    HELLO | {"job": "\ud800"},
    HELLO | {"job": None},
    HELLO | {"job": [""]},
    HELLO | {"rank": True},
    HELLO | {"rank": 1.0},
    HELLO | {"rank": "1"},
    HELLO | {"size": [[2]]},
    HELLO | {"size": None},
    HELLO | {"name": {"a": 1}},
    {"job": ""},
]


@pytest.mark.parametrize("words", [*GARBAGE[3:], *(frame(json.dumps(hello).encode()) for hello in HELLOS)])
def test_strangers_do_not_disturb_a_rendezvous(words, monkeypatch):
    crashes = []
    monkeypatch.setattr(threading, "excepthook", crashes.append)
    port = free_port(LOOPBACK)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(rendezvous.of_master, 0, 2, LOOPBACK, port, 20)
        with connect(LOOPBACK, port, 5) as stranger:
            stranger.sendall(words)
            header, _ = receive_frame(stranger, 0)
        second = pool.submit(rendezvous.of_master, 1, 2, LOOPBACK, port, 20)
        places = [first.result(), second.result()]
        assert list(pool.map(lambda place: place.exchange(b"x"), places)) == [[b"x", b"x"]] * 2
        list(pool.map(lambda place: place.close(), places))
    assert "treefold only" in header["error"] or "another job" in header["error"] or "no JSON" in header["error"]
    assert crashes == []


def test_a_name_that_cannot_be_printed_does_not_hide_an_error():
    port = free_port(LOOPBACK)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(rendezvous.of_master, 0, 2, LOOPBACK, port, 20)
        with connect(LOOPBACK, port, 5) as worker:
            send_frame(worker, HELLO | {"size": 3, "name": "\ud800" * 1000})
            with pytest.raises(TreefoldError, match="WORLD_SIZE 3, rank 0 has 2") as told:
                first.result()
    assert len(str(told.value).encode()) < 500


@pytest.mark.parametrize(
    "answer", [{}, {"bytes": [1]}, {"bytes": ["0", 0]}, {"bytes": [-1, 1]}, {"bytes": 7}, {"error": []}]
)
def test_a_master_that_answers_nonsense_is_told(answer):
    def serve(listener):
        connection, _ = listener.accept()
        receive_frame(connection, 0)
        send_frame(connection, answer)
        return connection

    with listen(LOOPBACK) as listener, ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve, listener)
        with pytest.raises(TreefoldError, match=r"no worker of treefold|without words"):
            rendezvous.of_master(1, 2, LOOPBACK, listener.getsockname()[1], 5)
        served.result().close()
