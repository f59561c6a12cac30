"""Measurements on one connection: round trips, steady throughput, and the cost of a message.

Each function has a partner that the other end calls at the same time. The sockets have a timeout, so nothing here waits
for ever.
"""

import math
import socket
import statistics
import struct
import time
from bisect import bisect_left
from itertools import pairwise
from typing import NamedTuple

from treefold.rendezvous.frames import receive_exactly

_PING_BYTES = 8
_LEAST_PINGS, _MOST_PINGS, _PINGS_S = 5, 40, 0.25
_MESSAGES, _MESSAGE_BYTES = 200, 64
_BLOCK_BYTES = 32 << 10
_SAMPLE_S = 0.001
_UNSENT_BYTES = 128 << 10
_LATE_S = 0.02
"""A sender that has slept or waited so long too much still catches up."""
_MORE, _LAST = b"\1", b"\0"


class RoundTrips(NamedTuple):
    """Round-trip times of small messages, in seconds.

    Attributes:
        least_s: The shortest of 5 to 40 round trips.
        median_s: The median of these round trips.

    Example:
        >>> from treefold import probe
        >>> probe.RoundTrips(least_s=1e-4, median_s=2e-4).median_s
        0.0002

    """

    least_s: float
    median_s: float


def prepare(connection: socket.socket, timeout_s: float) -> None:
    """Make a connection fit for measuring: it sends small messages at once and buffers little that is unsent.

    The kernel keeps the timeout, because Python's own costs a system call each time and hides MSG_WAITALL. A call that
    waits longer raises BlockingIOError.
    """
    limit = struct.pack("@ll", int(timeout_s), 0)
    connection.settimeout(None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(
        socket, "TCP_NOTSENT_LOWAT"
    ):  # without it a slow link takes seconds to drain what is unsent at the deadline
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)


def ping(connection: socket.socket) -> RoundTrips:
    """Measure round trips for a quarter of a second: at least 5 of them, and at most 40."""
    times: list[float] = []
    start = time.perf_counter()
    while True:
        sent = time.perf_counter()
        enough = len(times) + 1 >= _LEAST_PINGS and sent - start > _PINGS_S
        last = enough or len(times) + 1 == _MOST_PINGS
        echo(connection, last)
        times.append(time.perf_counter() - sent)
        if last:
            return RoundTrips(min(times), statistics.median(times))


def echo(connection: socket.socket, last: bool) -> None:
    """Send one small message and wait until it comes back; `last` ends the partner's `answer_pings`."""
    connection.sendall((_LAST if last else _MORE) * _PING_BYTES)
    receive_exactly(connection, _PING_BYTES)


def answer_pings(connection: socket.socket) -> None:
    """Answer the partner's `ping`."""
    while True:
        message = receive_exactly(connection, _PING_BYTES)
        connection.sendall(message)
        if message[:1] == _LAST:
            return


def send_messages(connection: socket.socket) -> float:
    """Send small messages one after another; return the median time in seconds that sending one takes."""
    times = []
    for _ in range(_MESSAGES):
        start = time.perf_counter()
        connection.sendall(_MORE * _MESSAGE_BYTES)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def receive_messages(connection: socket.socket) -> float:
    """Receive the partner's `send_messages`; return the median time in seconds from one arrival to the next.

    It is the median because TCP's window opens slowly, so that some messages wait a round trip.
    """
    arrivals = []
    for _ in range(_MESSAGES):
        receive_exactly(connection, _MESSAGE_BYTES)
        arrivals.append(time.perf_counter())
    return statistics.median(after - before for before, after in pairwise(arrivals))


def send_stream(connection: socket.socket, seconds: float, most_bytes: int, rate_Bps: float = math.inf) -> int:
    """Send as fast as the connection takes it, until the time is over or `most_bytes` are sent; return how many were.

    It sends two blocks at least, and no faster than `rate_Bps`. What could not be sent in time is not caught up: other
    lines would then get less than they are offered.
    """
    more, last = _MORE * _BLOCK_BYTES, _LAST * _BLOCK_BYTES
    deadline, sent = time.perf_counter() + seconds, 2 * _BLOCK_BYTES
    block_s, turn = _BLOCK_BYTES / rate_Bps, time.perf_counter()
    while (now := time.perf_counter()) < deadline and sent + _BLOCK_BYTES <= most_bytes:
        if now < turn:
            time.sleep(min(turn, deadline) - now)
            continue
        turn = max(turn, now - _LATE_S) + block_s
        connection.sendall(more)
        sent += _BLOCK_BYTES
    connection.sendall(last)
    connection.sendall(last)  # so that the last block passes the receiver's low-water mark
    return sent


Samples = list[tuple[float, int]]
"""Times in seconds, and how many bytes had been received by then."""


def receive_stream(connection: socket.socket) -> Samples:
    """Receive the partner's `send_stream`; return about one sample per millisecond."""
    block = bytearray(_BLOCK_BYTES)
    samples: Samples = [(time.perf_counter(), 0)]
    total = 0
    # Waking for every packet would keep a core busy for each Gbit/s.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _BLOCK_BYTES // 2)
    while True:
        _fill(connection, block)
        total += _BLOCK_BYTES
        now, is_last = time.perf_counter(), block[0] == _LAST[0]
        if is_last or now - samples[-1][0] >= _SAMPLE_S:
            samples.append((now, total))
        if is_last:
            break
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    _fill(connection, block)
    return samples


def _fill(connection: socket.socket, block: bytearray) -> None:
    """Receive a whole block, usually in one call."""
    done = connection.recv_into(block, 0, socket.MSG_WAITALL)
    if done < len(block):
        block[done:] = receive_exactly(connection, len(block) - done)


def steady_rate(samples: Samples, seconds: float, round_trip_s: float, parts: int = 1) -> float:
    """Return the rate in bytes per second after TCP's slow start and before the sender's end.

    The first 10 round trips are left out, but at least the first 30 % and at most the first 60 % of the time.

    Args:
        samples: The result of `receive_stream`; the first sample says when it began to wait.
        seconds: How long the sender sent.
        round_trip_s: The round-trip time of this connection.
        parts: The time is cut into so many parts, and the rate is their median, so that a brief disturbance does not
            count.

    """
    arrived = samples[1:]
    first, end = arrived[0][0], min(arrived[-1][0], arrived[0][0] + seconds)
    warm = first + min(max(0.3 * (end - first), 10 * round_trip_s), 0.6 * (end - first))
    steady = [sample for sample in arrived if warm <= sample[0] <= end]
    if len(steady) < 2:
        steady = arrived if len(arrived) > 1 else samples
    return statistics.median(map(_rate, *_cuts(steady, parts)))


def rate_between(samples: Samples, start: float, warm_s: float, end: float) -> float:
    """Return the rate in bytes per second from `warm_s` after the start until the end.

    Rates of several connections in one window add up, also if one of them began late: it counts that it did not carry
    anything by then. Where the last sample is before the end, all ends earlier in proportion.
    """
    last = min(end, samples[-1][0])
    start, end = start + warm_s * (last - start) / max(end - start, 1e-9), last
    return (_bytes_by(samples, end) - _bytes_by(samples, start)) / max(end - start, 1e-9)


def _bytes_by(samples: Samples, at: float) -> float:
    """Return how many bytes had come at a time, if they came evenly between samples."""
    place = min(max(bisect_left(samples, (at, 0)), 1), len(samples) - 1)
    (before, had), (after, has) = samples[place - 1 : place + 1]
    return had + (has - had) * min(max((at - before) / max(after - before, 1e-9), 0.0), 1.0)


def _cuts(samples: Samples, parts: int) -> tuple[Samples, Samples]:
    """Return the first and the last sample of parts of about the same length; of one part if there are few samples."""
    start, end = samples[0][0], samples[-1][0]
    inner = [bisect_left(samples, (start + (end - start) * part / parts, 0)) for part in range(1, parts)]
    places = [0, *inner, len(samples) - 1]
    if any(after <= before for before, after in pairwise(places)):
        places = [0, len(samples) - 1]
    return [samples[place] for place in places[:-1]], [samples[place] for place in places[1:]]


def _rate(first: tuple[float, int], last: tuple[float, int]) -> float:
    return (last[1] - first[1]) / max(last[0] - first[0], 1e-9)
