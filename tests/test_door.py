"""Lines: connections to worker 0 of a running group, on which one thread waits and which another one may end."""

import os
import resource
import socket
import threading

import pytest

from treefold import DeadlineError, PeerError
from treefold.rendezvous.door import Line
from treefold.rendezvous.frames import FrameStream


@pytest.fixture
def ends():
    one, other = socket.socketpair()
    with one, other:
        yield Line(FrameStream(one), "the one"), Line(FrameStream(other), "the other")


def test_lines_work_whatever_number_their_descriptor_has(ends):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2100:
        pytest.skip("this process may not open so many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2100), hard))
    try:
        line, other = ends
        high = os.dup2(line.stream.connection.fileno(), 2050)
        with socket.socket(fileno=high) as connection:
            line = Line(FrameStream(connection), "the one")
            threading.Timer(0.2, other.send, [{"a": 1}, b"late"]).start()
            assert line.receive(4, 20) == ({"a": 1}, b"late")
            reader = threading.Thread(target=lambda: got.append(other.receive(1 << 24, 20)))
            got = []
            threading.Timer(0.2, reader.start).start()
            line.send({}, bytes(1 << 24), 20)  # more than the kernel takes at once
            reader.join()
            assert len(got[0][1]) == 1 << 24
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_line_that_another_thread_closes_is_lost(ends):
    line, other = ends
    closer = threading.Timer(0.2, line.close)
    closer.start()
    with pytest.raises(PeerError):
        line.receive(0, 20)
    closer.join()
    assert not line.seems_open() and not other.seems_open()
    with pytest.raises(PeerError, match="the one has died or lost its connection"):
        line.receive(0, 20)
    with pytest.raises(PeerError, match="the other has died"):
        other.receive(0, 20)


def test_a_mistake_of_ours_is_not_taken_for_a_lost_line(ends, monkeypatch):
    line, _ = ends

    def mistaken(most_bytes):
        raise ValueError("a mistake")

    monkeypatch.setattr(line.stream, "receive", mistaken)
    with pytest.raises(ValueError, match="a mistake"):
        line.receive(0, 1)
    with pytest.raises(ValueError, match="a mistake"):
        line.seems_open()


def test_what_is_no_frame_ends_a_line(ends):
    line, other = ends
    other.stream.connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(PeerError, match="the one has died or lost its connection"):
        line.receive(0, 20)


def test_a_silent_line_and_one_that_is_ended_are_told_apart_from_a_lost_one(ends):
    line, other = ends
    with pytest.raises(DeadlineError, match="the one does not answer"):
        line.receive(0, 0.1)
    threading.Timer(0.2, line.end).start()
    with pytest.raises(PeerError, match="this worker has left the group"):
        line.receive(0, 20)
    with pytest.raises(DeadlineError, match="the other does not answer"):
        other.send({}, bytes(1 << 24), 0.1)
