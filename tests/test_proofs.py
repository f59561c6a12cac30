"""Proofs between workers: no secret is sent, what was recorded proves nothing, and floods cost nobody a place."""

import os
import re
import selectors
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

from fuzz.greetings import KEY, hello, received
from test_strangers import LOOPBACK, join_soon, next_error, port_of, rank_0
from treefold import TreefoldError, rendezvous
from treefold._core import Mesh
from treefold.rendezvous import admission
from treefold.rendezvous.frames import FrameStream, receive_frame
from treefold.rendezvous.sockets import connect, free_port, listen


class Wiretap:
    """Passes on what a worker and worker 0 say to each other, and keeps what the worker says."""

    def __init__(self, port):
        self.heard, self._port = [], port

    def run(self, listener):
        near, _ = listener.accept()
        with near, connect(LOOPBACK, self._port, 5) as far:
            back = threading.Thread(target=self.copy, args=(far, near, []))
            back.start()
            self.copy(near, far, self.heard)
            back.join()

    @staticmethod
    def copy(source, target, kept):
        with suppress(OSError):  # either end may have closed
            while part := source.recv(1 << 16):
                kept.append(part)
                target.sendall(part)
            target.shutdown(socket.SHUT_WR)


def test_a_secret_word_is_never_sent_and_a_recording_is_no_proof(monkeypatch):
    monkeypatch.setenv("TREEFOLD_JOB", "xylophone")
    port = free_port(LOOPBACK)
    with ThreadPoolExecutor(3) as pool, listen(LOOPBACK) as listener:
        first = pool.submit(rendezvous.from_master, 0, 2, LOOPBACK, port, 20)
        wiretap = Wiretap(port)
        tapping = pool.submit(wiretap.run, listener)
        second = rendezvous.from_master(1, 2, LOOPBACK, listener.getsockname()[1], 20)
        second.close()
        tapping.result()
        first.result().close()
        assert wiretap.heard and b"xylophone" not in b"".join(wiretap.heard)
        first = pool.submit(rendezvous.from_master, 0, 2, LOOPBACK, port, 20)
        with connect(LOOPBACK, port, 5) as stranger:
            stranger.sendall(b"".join(wiretap.heard))
            assert "another job" in next_error(stranger)
        rendezvous.from_master(1, 2, LOOPBACK, port, 20).close()
        first.result().close()


def test_a_hello_to_a_rank_that_is_played_again_is_no_proof():
    meshes = [Mesh(rank, 2, LOOPBACK, KEY) for rank in range(2)]
    with ExitStack() as lines:
        for _ in range(3):
            line = lines.enter_context(socket.create_connection((LOOPBACK, port_of(meshes[0].address)), 5))
            line.sendall(hello(bytes(32)))  # the proof for another number
        join_soon(meshes)
        assert len(received(line, 64)) == 32  # a number, and no proof
    for each in meshes:
        each.close()


def test_what_a_rank_says_does_not_hold_the_key_and_is_proven_at_both_ends():
    rank = Mesh(1, 2, LOOPBACK, KEY)
    with listen(LOOPBACK) as listener, ThreadPoolExecutor(1) as pool:
        address = f"{LOOPBACK}:{listener.getsockname()[1]}"
        connecting = pool.submit(rank.connect, {0: address}, 2.0, 2.0)
        line, _ = listener.accept()
        with line:
            line.sendall(bytes(32))
            said = received(line, 80)
            assert KEY not in said and KEY[:8] not in said
            line.sendall(said[-32:])  # the rank's own proof, played back to it
            with pytest.raises(TreefoldError, match="what listens there is not of this group"):
                connecting.result()
    rank.close()


def test_ranks_with_different_keys_do_not_connect():
    meshes = [Mesh(rank, 2, LOOPBACK, bytes([rank]) * 32) for rank in range(2)]
    addresses = [each.address for each in meshes]
    with ThreadPoolExecutor(2) as pool:
        joining = [pool.submit(meshes[at].connect, {1 - at: addresses[1 - at]}, 0.5, 2.0) for at in range(2)]
        [caller], [waiting] = joining[1].result().values(), joining[0].result().values()
        assert re.match(r"rank 1 cannot reach rank 0 at .* it hung up; .* the same group", caller)
        assert "did not connect to rank 0" in waiting
    for each in meshes:
        each.close()


@pytest.mark.parametrize("header, body", [(2, 1 << 60), (1 << 31, 0), (2, (1 << 64) - 1)])
def test_a_length_that_is_claimed_costs_nothing(header, body):
    with rank_0() as (_, joins, port), connect(LOOPBACK, port, 5) as line:
        line.sendall(struct.pack("!4sIQ", b"tfw1", header, body) + b"{}")
        assert "larger than expected" in receive_frame(line, 0)[0]["error"]
        joins(1).result().close()


def test_a_flood_from_one_machine_crowds_out_no_caller_of_another_one():
    with selectors.DefaultSelector() as ready, listen(LOOPBACK) as listener:
        waiting = admission.Admission(ready, listener, 5.0, b"", lambda caller, hello: None)
        pairs = [socket.socketpair() for _ in range(admission.MOST_CALLERS + 40)]
        for at, (near, _) in enumerate(pairs):
            waiting._add(FrameStream(near), "192.0.2.7" if at < 5 else "192.0.2.8")
        assert len(waiting.callers) == admission.MOST_CALLERS
        assert sum(caller.address == "192.0.2.7" for caller in waiting.callers) == 5
        waiting.close()
        for _, far in pairs:
            far.close()


def test_ranks_meet_while_strangers_call_all_the_time():
    meshes = [Mesh(rank, 3, LOOPBACK, KEY) for rank in range(3)]
    ended = threading.Event()

    def flood(port):
        while not ended.is_set():
            with socket.create_connection((LOOPBACK, port), 5) as line, suppress(OSError):
                line.sendall(os.urandom(80))

    with ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            pool.submit(flood, port_of(meshes[0].address))
        try:
            join_soon(meshes)
        finally:
            ended.set()
    for each in meshes:
        each.close()
