"""Sends hostile bytes over loopback to every listening socket of a worker.

- `rendezvous`, `mesh`: foreign callers, who have no key, connect before the workers; the group must form.
- `master`: the server of the rendezvous is not treefold; a worker that joins must get a readable error.
- `rank`: a rank that has joined sends nonsense; the others must get a readable error, or ignore it.
"""

import json
import os
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np

import treefold
from fuzz.cases import Case, Fault, check_message, check_refusal
from fuzz.greetings import KEY, greet, hello
from fuzz.mutations import NUMBERS, change_json, change_text
from treefold import rendezvous
from treefold._core import Mesh, Program
from treefold.rendezvous.sockets import free_port, listen

_LOOPBACK = "127.0.0.1"
_TIMEOUT_S = 8.0
_SILENCE_S = 0.2
_ELEMENTS = 64
_HELLO = {"number": "0123456789abcdef" * 2, "rank": 1, "size": 2, "name": "rome"}
_PROOF = {"proof": "0123456789abcdef" * 4}
_ANSWERS: tuple[Any, ...] = ({}, {"bye": True}, {"bytes": [1, 1]}, {"error": "no"}, {"number": "0" * 32}, _PROOF)

_Corpus = dict[str, list[bytes]]


def corpus() -> _Corpus:
    """Return valid bytes for each target: frames of workers, greetings and frames of ranks."""
    frames = [_frame(json.dumps(header).encode(), b"") for header in (_HELLO, _HELLO, *_ANSWERS)]
    greeting = hello(bytes(32))
    numbers = [(kind, sequence, at, 1) for kind in range(1, 13) for sequence in (0, 1, 2) for at in (0, 1)]
    bodies = [_program().signature("float64", "sum").encode(), bytes(8), bytes(8 * _ELEMENTS // 2), b""]
    ranks = [struct.pack("<4I2Q", *head, 0, len(body)) + body for head in numbers for body in bodies]
    return {"rendezvous": frames, "master": frames, "mesh": [greeting, greeting[:40], *frames], "rank": ranks}


def _frame(header: bytes, body: bytes) -> bytes:
    return struct.pack("!4sIQ", b"tfw1", len(header), len(body)) + header + body


def _program() -> Program:
    return Program.all(treefold.plan("ring:2", "ring"), _ELEMENTS, 8, 0.0)[0]


def make(random: Random, corpus: _Corpus) -> Case:
    """Return the bytes that a few callers send, and whether they stay connected."""
    place = random.choice(list(corpus))
    callers = [_sent_bytes(place, random, corpus[place]).hex() for _ in range(random.choice((1, 1, 2, 3)))]
    return Case.of({"place": place, "callers": callers, "stay": random.random() < 0.5})


def _sent_bytes(place: str, random: Random, known: list[bytes]) -> bytes:
    parts = random.choices(known, k=random.choice((0, 1, 1, 2, 4)) if place == "rank" else 1)
    if place == "rank":
        parts = [_changed_head(part, random) if random.random() < 0.3 else part for part in parts]
    elif place != "mesh" and random.random() < 0.4:
        header = json.loads(random.choice(known)[16:])
        change_json(header, random)
        parts = [_frame(json.dumps(header).encode(), b"")]
    sent = b"".join(parts)
    return change_text(sent, known, random) if random.random() < 0.6 else sent


def _changed_head(frame: bytes, random: Random) -> bytes:
    """Change a number in the header of a frame."""
    head = list(struct.unpack_from("<4I2Q", frame))
    at = random.randrange(6)
    head[at] = int(random.choice(NUMBERS)) % (2**64 if at > 3 else 2**32)
    return struct.pack("<4I2Q", *head) + frame[32:]


def run(path: Path) -> None:
    """Let the callers send their bytes, and check what the workers do."""
    value = json.loads(path.read_bytes())
    _TESTS[value["place"]]([bytes.fromhex(sent) for sent in value["callers"]], value["stay"])


@contextmanager
def _called(port: int, callers: list[bytes], stay: bool) -> Iterator[None]:
    """Connect to a port and send bytes from each caller; the connections stay open if `stay`."""
    with ExitStack() as lines:
        for sent in callers:
            line = socket.create_connection((_LOOPBACK, port), _TIMEOUT_S)
            lines.callback(line.close)
            with suppress(OSError):  # the other side may close the connection at any byte
                line.settimeout(_TIMEOUT_S)
                line.sendall(sent)
            if not stay:
                line.close()
        yield


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _at_rendezvous(callers: list[bytes], stay: bool) -> None:
    port = free_port(_LOOPBACK)

    def join(rank: int) -> rendezvous.Rendezvous:
        return rendezvous.from_master(rank, 2, _LOOPBACK, port, _TIMEOUT_S)

    with patch.dict(os.environ, TREEFOLD_JOB="secret"), ThreadPoolExecutor(2) as pool:
        first = pool.submit(join, 0)
        _await(port)
        with _called(port, callers, stay):
            joined = [pool.submit(join, 1), first]
            try:
                blobs = list(pool.map(lambda each: each.result().exchange(b"x"), joined))
            except treefold.TreefoldError as error:
                raise Fault("wrong", f"foreign callers kept a group from forming: {error}", "rendezvous") from None
            for each in joined:
                each.result().close()
    if blobs != [[b"x", b"x"]] * 2:
        raise Fault("wrong", "foreign callers changed what workers exchange", "exchange")


def _await(port: int) -> None:
    """Wait until the port is open."""
    while True:
        with suppress(ConnectionRefusedError), socket.create_connection((_LOOPBACK, port), _TIMEOUT_S):
            return


def _at_mesh(callers: list[bytes], stay: bool) -> None:
    meshes = [Mesh(rank, 2, _LOOPBACK, KEY) for rank in range(2)]
    addresses = [each.address for each in meshes]

    def join(rank: int) -> None:
        for why in meshes[rank].connect({1 - rank: addresses[1 - rank]}, _TIMEOUT_S, _TIMEOUT_S).values():
            raise treefold.TreefoldError(why)

    with _called(_port(addresses[0]), callers, stay), ThreadPoolExecutor(2) as pool:
        try:
            list(pool.map(join, range(2)))
        except treefold.TreefoldError as error:
            raise Fault("wrong", f"foreign callers kept a mesh from forming: {error}", "mesh") from None
        list(pool.map(Mesh.close, meshes))  # at the same time, as each waits for the other's farewell


def _as_master(callers: list[bytes], stay: bool) -> None:
    def answer(listener: socket.socket) -> None:
        line, _ = listener.accept()
        listener.close()  # a second try finds nothing
        with closing(line), suppress(OSError):
            line.sendall(b"".join(callers))
            line.shutdown(socket.SHUT_WR)
            line.settimeout(_TIMEOUT_S)
            while line.recv(1 << 16):
                pass

    with listen(_LOOPBACK) as listener, ThreadPoolExecutor(1) as pool:
        port = listener.getsockname()[1]
        answered = pool.submit(answer, listener)
        try:
            rendezvous.from_master(1, 2, _LOOPBACK, port, _SILENCE_S).close()
        except treefold.TreefoldError as error:
            check_refusal(error)
        answered.result()


def _as_rank(callers: list[bytes], stay: bool) -> None:
    first = Mesh(0, 2, _LOOPBACK, KEY)
    with socket.create_connection((_LOOPBACK, _port(first.address)), _TIMEOUT_S) as line, ThreadPoolExecutor(1) as pool:
        saying = pool.submit(_say_as_rank, line, callers[0], stay)
        first.connect({1: f"{_LOOPBACK}:1"}, _TIMEOUT_S, _TIMEOUT_S)
        try:
            waits_s = (_SILENCE_S, 2 * _SILENCE_S)
            vectors = [np.ones(_ELEMENTS) for _ in callers]
            arrays = [(vector.view(np.uint8), None, None) for vector in vectors]
            numbers = [first.start(_program(), each, "float64", "sum", waits_s) for each in arrays]
            for failure in map(first.wait, numbers):
                if failure is not None:
                    check_message(str(treefold.TreefoldError(failure.text or failure.kind)))
        except treefold.TreefoldError as error:
            check_refusal(error)
        finally:
            first.close()
            saying.result()


def _say_as_rank(line: socket.socket, words: bytes, stay: bool) -> None:
    """Prove to be rank 1, and then say anything."""
    greet(line)
    with suppress(OSError):  # the other side may close the connection at any byte
        line.sendall(words)
    if not stay:
        line.close()


_TESTS = {"rendezvous": _at_rendezvous, "mesh": _at_mesh, "master": _as_master, "rank": _as_rank}
