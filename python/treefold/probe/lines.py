"""Measures one direction of a line: TCP streams side by side, and beside them how long a small message takes.

A pair of workers has one connection for echoes and several for streams. Each function has a partner that the other end
calls at the same time. One stream carries no more in a round trip than the kernels let it have under way, and little on
a line that loses packets: about a segment in each round trip over the root of the share that is lost (Mathis et al.,
"The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm", 1997). Several carry the sum.
"""

import math
import socket
import statistics
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from heapq import merge
from itertools import pairwise
from typing import NamedTuple

from treefold.probe import transfers
from treefold.probe.transfers import Samples

ECHO = 0
"""The number of a pair's connection for echoes; streams are numbered from 1."""
_PAUSE_S = 0.01
_RETRANSMITTED_AT, _SENT_AT = 100, 156
"""Where Linux's `struct tcp_info` counts segments: those sent again, and all with data."""


class Sent(NamedTuple):
    """The measurements of a sender."""

    loaded_s: float
    """The median round trip of small messages while the line was full, in seconds."""
    retransmitted: float
    """The share of segments that were sent again."""
    sent_bytes: int


def send(
    streams: Sequence[socket.socket],
    echo: socket.socket | None,
    seconds: float,
    most_bytes: int,
    rate_Bps: float = math.inf,
) -> Sent:
    """Send on all streams until the time is over or `most_bytes` are sent on all together.

    They send as fast as they take it, but together not faster than `rate_Bps`.
    """
    before = _segments(streams)
    is_over = threading.Event()
    with beside(len(streams), [*streams, echo]) as pool:
        echoes = None if echo is None else pool.submit(_ping_until, echo, is_over)
        try:
            share = seconds, most_bytes // len(streams), rate_Bps / len(streams)
            others = [pool.submit(transfers.send_stream, stream, *share) for stream in streams[1:]]
            sent_bytes = transfers.send_stream(streams[0], *share) + sum(other.result() for other in others)
        finally:
            is_over.set()
        loaded_s = 0.0 if echoes is None else echoes.result()
    again, sent = (after - first for after, first in zip(_segments(streams), before, strict=True))
    return Sent(loaded_s, again / sent if sent > 0 else 0.0, sent_bytes)


def receive(streams: Sequence[socket.socket], echo: socket.socket | None) -> Samples:
    """Receive the partner's `send`; return the samples of all streams together."""
    with beside(len(streams), [*streams, echo]) as pool:
        echoes = None if echo is None else pool.submit(transfers.answer_pings, echo)
        others = [pool.submit(transfers.receive_stream, stream) for stream in streams[1:]]
        samples = [transfers.receive_stream(streams[0]), *(other.result() for other in others)]
        if echoes is not None:
            echoes.result()
    return samples[0] if len(samples) == 1 else together(samples)


@contextmanager
def beside(threads: int, connections: Iterable[socket.socket | None]) -> Iterator[ThreadPoolExecutor]:
    """Give threads that serve connections beside the caller's own thread.

    An error or an interrupt of the caller shuts the connections down, so that no thread goes on waiting for a partner.
    """
    with ThreadPoolExecutor(threads) as pool:
        try:
            yield pool
        except BaseException:
            for each in filter(None, connections):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            raise


def together(samples: Sequence[Samples]) -> Samples:
    """Return the samples of the sum of several streams."""
    steps = ([(at, bytes_ - before) for (_, before), (at, bytes_) in pairwise(each)] for each in samples)
    summed: Samples = [(min(each[0][0] for each in samples), 0)]
    for at, more in merge(*steps):
        summed.append((at, summed[-1][1] + more))
    return summed


def _ping_until(echo: socket.socket, is_over: threading.Event) -> float:
    """Send small messages, one after another, until `is_over`; return the median round trip of the later half."""
    times: list[float] = []
    while True:
        last = is_over.wait(_PAUSE_S)
        start = time.perf_counter()
        transfers.echo(echo, last)
        times.append(time.perf_counter() - start)
        if last:
            # The buffers fill in the first half; the last message may find them empty again.
            return statistics.median(times[len(times) // 2 : -1] or times)


def _segments(streams: Sequence[socket.socket]) -> tuple[int, int]:
    """Return how many segments the kernel has sent again on these streams, and how many it has sent with data."""
    if not hasattr(socket, "TCP_INFO"):
        return 0, 0
    infos = [stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SENT_AT + 4) for stream in streams]
    infos = [info for info in infos if len(info) == _SENT_AT + 4]
    return _sum(infos, _RETRANSMITTED_AT), _sum(infos, _SENT_AT)


def _sum(infos: Sequence[bytes], place: int) -> int:
    return sum(struct.unpack_from("=I", info, place)[0] for info in infos)
