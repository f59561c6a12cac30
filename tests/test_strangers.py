"""Strangers who find a port: silent ones, talkative ones and liars keep no worker out, and end nothing."""

import os
import socket
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from fuzz.greetings import KEY, answer, hello, received
from treefold import TreefoldError, probe, rendezvous
from treefold._core import Mesh
from treefold.probe import connections, measuring
from treefold.rendezvous import admission, challenge, server
from treefold.rendezvous.frames import receive_frame, send_frame
from treefold.rendezvous.sockets import connect, free_port, listen

LOOPBACK = "127.0.0.1"
SOON_S = 4.0


def frame(text: bytes) -> bytes:
    return struct.pack("!4sIQ", b"tfw1", len(text), 0) + text


NUMBER = b"0123456789abcdef" * 2
GARBAGE = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"treefold" + bytes(16),
    bytes(4096),
    frame(b"[" * 60_000),
    frame(b'{"rank": 0}'),
    frame(b'{"rank": 0, "number": "\\ud800"}'),
    frame(b'{"rank": 0, "number": ["%s"]}' % NUMBER),
    frame(b'{"rank": 0, "number": "%s0"}' % NUMBER),
    frame(b'{"rank": [0], "number": "%s"}' % NUMBER),
    frame(b'{"rank": 0, "number": "%s"}' % NUMBER) + frame(b'{"proof": "%s"}' % (NUMBER * 2)),
    frame(b'{"rank": 0, "number": "%s"}' % NUMBER) + frame(b'{"proof": ["\\ud800"]}'),
    frame(b'"secret"'),
    frame(b"\xff"),
    frame(b""),
]


@contextmanager
def strangers(port: int):
    """Sixteen who say nothing or prove nothing, and one for each kind of garbage; all stay on the line."""
    with ExitStack() as lines:
        for words in [b"", b"t", b"tfw1", frame(b'{"rank": 0, "number": "%s"}' % NUMBER)] * 4 + GARBAGE:
            line = lines.enter_context(socket.create_connection((LOOPBACK, port), 5))
            line.sendall(words)
        yield


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def join_soon(meshes: list[Mesh]) -> None:
    addresses = [each.address for each in meshes]

    def join(rank):
        others = {other: address for other, address in enumerate(addresses) if other != rank}
        assert meshes[rank].connect(others, 20.0, 20.0) == {}

    start = time.monotonic()
    with ThreadPoolExecutor(len(meshes)) as pool:
        list(pool.map(join, range(len(meshes))))
    assert time.monotonic() - start < SOON_S


def test_strangers_keep_no_rank_out_of_a_mesh():
    meshes = [Mesh(rank, 3, LOOPBACK, KEY) for rank in range(3)]
    with strangers(port_of(meshes[0].address)):
        join_soon(meshes)
    for each in meshes:
        each.close()


def test_a_hello_that_comes_in_pieces_is_heard():
    first = Mesh(0, 2, LOOPBACK, KEY)
    port = port_of(first.address)

    def call():
        line = socket.create_connection((LOOPBACK, port), 5)
        asked = received(line, 32)
        for byte in hello(asked):
            line.sendall(bytes([byte]))
            time.sleep(0.002)
        assert received(line, 32) == answer(asked)
        return line

    with ThreadPoolExecutor(1) as pool:
        line = pool.submit(call)
        first.connect({1: f"{LOOPBACK}:1"}, 10.0, 10.0)
        line.result().close()
    first.close()


def test_more_strangers_than_may_wait_keep_no_rank_out():
    meshes = [Mesh(rank, 2, LOOPBACK, KEY) for rank in range(2)]
    with ExitStack() as lines:
        for _ in range(400):
            line = lines.enter_context(socket.socket())
            line.setblocking(False)
            line.connect_ex((LOOPBACK, port_of(meshes[0].address)))
        join_soon(meshes)
    for each in meshes:
        each.close()


def test_strangers_keep_no_worker_out_of_a_probe(monkeypatch):
    lines, introduce = ExitStack(), measuring._introduction

    def visited(place, listener, settings):
        if place.rank == 2:
            lines.enter_context(strangers(listener.getsockname()[1]))
        return introduce(place, listener, settings)

    monkeypatch.setattr(measuring, "_introduction", visited)
    budget = probe.Settings(seconds=3.5, most_bytes=64 << 20)
    with lines, ThreadPoolExecutor(3) as pool:
        start = time.monotonic()
        found = list(pool.map(lambda place: probe.measure(place, budget), rendezvous.local(3)))
        assert time.monotonic() - start < 3.5 + SOON_S
    assert len(found[0].rates) == 6


def test_who_does_not_come_is_missed_in_spite_of_strangers(monkeypatch):
    monkeypatch.setattr(connections, "_CONNECT_S", 0.5)
    monkeypatch.setattr(connections, "_HELLO_S", 0.5)
    with listen(LOOPBACK) as listener, strangers(listener.getsockname()[1]):
        assert connections._accept(listener, {0, 1}, KEY, (0, 1), {}) == {0, 1}


HELLO = {"rank": 1, "size": 2, "name": "rome"}
LIES = [
    HELLO | {"rank": True},
    HELLO | {"rank": 1.0},
    HELLO | {"rank": "1"},
    HELLO | {"rank": None},
    HELLO | {"size": [[2]]},
    HELLO | {"size": None},
    HELLO | {"name": {"a": 1}},
    HELLO | {"name": 7},
    {},
]


def says(words):
    """Say what no worker says."""

    def act(line):
        line.sendall(words)
        return next_error(line)

    return act


def claims(lies):
    """Claim something and prove it, which anybody can where the job has no word."""

    def act(line):
        refused = challenge.introduce(line, lies, b"")
        return refused["error"] if refused else next_error(line)

    return act


def next_error(line):
    while "error" not in (header := receive_frame(line, 0)[0]):
        pass
    return header["error"]


def knows_another_word(line):
    return challenge.introduce(line, HELLO, b"another")["error"]


@pytest.mark.parametrize("acts", [*map(says, GARBAGE[3:]), *map(claims, LIES), knows_another_word])
def test_strangers_do_not_disturb_a_rendezvous(acts, monkeypatch):
    crashes = []
    monkeypatch.setattr(threading, "excepthook", crashes.append)
    port = free_port(LOOPBACK)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(rendezvous.from_master, 0, 2, LOOPBACK, port, 20)
        with connect(LOOPBACK, port, 5) as stranger:
            told = acts(stranger)
        second = pool.submit(rendezvous.from_master, 1, 2, LOOPBACK, port, 20)
        places = [first.result(), second.result()]
        assert list(pool.map(lambda place: place.exchange(b"x"), places)) == [[b"x", b"x"]] * 2
        list(pool.map(lambda place: place.close(), places))
    assert "treefold only" in told or "another job" in told or "JSON" in told
    assert crashes == []


def test_a_name_that_cannot_be_printed_does_not_hide_an_error(monkeypatch):
    monkeypatch.setenv("TREEFOLD_JOB", "a word")
    port = free_port(LOOPBACK)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(rendezvous.from_master, 0, 2, LOOPBACK, port, 20)
        with connect(LOOPBACK, port, 5) as worker:
            challenge.introduce(worker, HELLO | {"size": 3, "name": "\ud800\x1b[2J" * 1000}, b"a word")
            with pytest.raises(TreefoldError, match="WORLD_SIZE 3, worker 0 has 2") as told:
                first.result()
    assert len(str(told.value).encode()) < 500
    assert str(told.value).isprintable()


@contextmanager
def rank_0(size: int = 2):
    """Rank 0 of a job without a word, as a future, and its port; all who join have to form a group soon."""
    port = free_port(LOOPBACK)
    start = time.monotonic()
    with ThreadPoolExecutor(size) as pool, ExitStack() as lines:
        first = pool.submit(rendezvous.from_master, 0, size, LOOPBACK, port, 20)

        def stranger(**words):
            line = lines.enter_context(connect(LOOPBACK, port, 5))
            challenge.introduce(line, HELLO | words, b"")
            return line

        def joins(rank):
            return pool.submit(rendezvous.from_master, rank, size, LOOPBACK, port, 20)

        yield stranger, joins, port
        place = first.result()
        assert time.monotonic() - start < SOON_S
        place.close()


def leaves_at_once(line):
    line.close()


def stays_silent(line):
    assert receive_frame(line, 0)[0] == {"welcome": True}


def takes_part_and_leaves(line):
    stays_silent(line)
    send_frame(line, {}, b"")
    line.close()


def says_goodbye(line):
    send_frame(line, {"bye": True})


def sends_rubbish(line):
    stays_silent(line)
    line.sendall(bytes(100))


def floods(line):
    stays_silent(line)
    line.sendall(struct.pack("!4sIQ", b"tfw1", 2, 1 << 26) + b"{}")


@pytest.mark.parametrize(
    "acts", [leaves_at_once, stays_silent, takes_part_and_leaves, says_goodbye, sends_rubbish, floods]
)
def test_a_stranger_in_a_seat_ends_nothing(acts, monkeypatch):
    monkeypatch.setattr(server, "_ANSWER_S", 0.2)
    with rank_0(3) as (stranger, joins, _):
        acts(stranger(size=3))
        workers = [joins(rank) for rank in (1, 2)]
        for worker in workers:
            worker.result().close()


@pytest.mark.parametrize(
    "words", [{"size": 3}, {"rank": 7}, {"rank": -1}, {"rank": 0}, {"size": 10**300}, {"size": True}]
)
def test_a_stranger_with_a_wrong_place_ends_nothing(words):
    with rank_0() as (stranger, joins, _):
        error = receive_frame(stranger(**words), 0)[0]["error"]
        second = joins(1).result()
    assert any(each in error for each in ("start all with the same", "does not exist", "taken twice", "treefold only"))
    assert len(error) < 200
    second.close()


def test_a_worker_that_answers_keeps_its_seat():
    with rank_0(3) as (stranger, joins, _):
        second = joins(1)
        time.sleep(0.3)  # until it is there
        line = stranger(size=3, name="oslo")
        assert receive_frame(line, 0)[0] == {"still": True}
        assert "RANK 1 is taken twice" in receive_frame(line, 0)[0]["error"]
        third = joins(2)
        second.result().close()
        third.result().close()


def test_many_claims_to_one_seat_cost_neither_the_job_nor_files(monkeypatch):
    monkeypatch.setattr(server, "_ANSWER_S", 0.2)
    with rank_0() as (stranger, joins, _):
        for _ in range(300):
            stranger()
        second = joins(1).result()
    second.close()


def test_strangers_cost_neither_threads_nor_many_files():
    with rank_0() as (_, joins, port), ExitStack() as lines:
        connect(LOOPBACK, port, 5).close()
        threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
        for _ in range(400):
            lines.enter_context(socket.create_connection((LOOPBACK, port), 5))
        second = joins(1).result()
        # Threads of the workers themselves may still begin.
        assert threading.active_count() <= threads + 4
        assert len(os.listdir("/proc/self/fd")) <= files + 400 + admission.MOST_CALLERS + 10
    second.close()


WITH_FEW_FILES = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
import numpy as np
from treefold import runtime
joined = runtime.from_environment(timeout_s=20)
print("joined", flush=True)
input()
team = runtime.join(joined)
array = np.ones(1000)
team.all_reduce(array)
print(array[0])
"""
FLOOD = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
lines = []
for _ in range(2000):
    lines.append(socket.socket())
    lines[-1].setblocking(False)
    lines[-1].connect_ex(("127.0.0.1", int(sys.argv[1])))
print("called", flush=True)
sys.stdin.read()
"""


def started(code, *arguments, **variables):
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, env=os.environ | variables, stdin=pipe, stdout=pipe, text=True)


def test_a_group_forms_during_a_flood_with_256_files():
    port = free_port(LOOPBACK)
    variables = {"WORLD_SIZE": "2", "MASTER_ADDR": LOOPBACK, "MASTER_PORT": str(port)}
    with ExitStack() as end:

        def start(*arguments, **variables):
            process = end.enter_context(started(*arguments, **variables))
            end.callback(process.kill)
            return process

        first = start(WITH_FEW_FILES, RANK="0", **variables)
        connect(LOOPBACK, port, 20).close()
        flood = start(FLOOD, port)
        assert flood.stdout.readline() == "called\n"
        second = start(WITH_FEW_FILES, RANK="1", **variables)
        for worker in (first, second):
            assert worker.stdout.readline() == "joined\n"
        for worker in (first, second):
            print(file=worker.stdin, flush=True)
        for worker in (first, second):
            assert worker.communicate(timeout=20)[0] == "2.0\n"


@pytest.mark.parametrize(
    "answer", [{}, {"bytes": [1]}, {"bytes": ["0", 0]}, {"bytes": [-1, 1]}, {"bytes": 7}, {"error": []}]
)
def test_a_master_that_answers_nonsense_is_told(answer):
    def serve(listener):
        connection, _ = listener.accept()
        hello, _ = receive_frame(connection, 0)
        asked = challenge.challenge(hello)
        send_frame(connection, {"number": asked.number})
        send_frame(connection, challenge.answer_to(asked, receive_frame(connection, 0)[0], b""))
        send_frame(connection, answer)
        return connection

    with listen(LOOPBACK) as listener, ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve, listener)
        with pytest.raises(TreefoldError, match=r"not a worker of treefold|without words"):
            rendezvous.from_master(1, 2, LOOPBACK, listener.getsockname()[1], 5)
        served.result().close()
