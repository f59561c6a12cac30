"""The rendezvous of our own: rank 0 serves at MASTER_ADDR, and the others call it there."""

import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from treefold import environment
from treefold.errors import TreefoldError
from treefold.text import visible
from treefold.workers.frames import FrameError, Header, receive_frame, send_frame
from treefold.workers.hub import MAX_BLOB_BYTES, Hub
from treefold.workers.server import Server
from treefold.workers.sockets import connect, has_arrived, listen

_SLACK_S = 5.0
_AGAIN_S = 0.05
_MOST_TOLD = 2000
_RUN_IDS = ("TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE")
"""Variables by which launchers keep jobs apart."""
_OTHER_FILES = 32
"""How many files a process may have open besides the connections of a rendezvous."""


Gather = Callable[[bytes], list[bytes]]
Gathering = tuple[Gather, Callable[[], None], str]
"""What gathers everyone's blobs, what leaves, and the address with which this worker takes part."""


class _Job(NamedTuple):
    word: str
    """By which workers of one job know each other."""
    is_secret: bool


def _job(word: str | None) -> _Job:
    secret = environment.value("TREEFOLD_JOB") if word is None else word
    given = [os.environ[name] for name in _RUN_IDS if os.environ.get(name)]
    return _Job(secret or "".join(given[:1]), bool(secret))


def gathering(
    rank: int, size: int, name: str | None, address: str, port: int, timeout_s: float, job: str | None
) -> Gathering:
    """Serve as rank 0, or call it."""
    enter = _serve if rank == 0 else _join
    return enter(rank, size, name, address, port, timeout_s, _job(job))


def _check_files(size: int) -> None:
    may_open, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if may_open != resource.RLIM_INFINITY and size + _OTHER_FILES > may_open:
        raise TreefoldError(
            f"rank 0 keeps a connection to each of {size - 1} other workers, and may open {may_open} files; allow it "
            f"more: ulimit -n {size + 1024}"
        )


def _serve(rank: int, size: int, name: str | None, address: str, port: int, timeout_s: float, job: _Job) -> Gathering:
    _check_files(size)
    listener = listen(address, port, f"rank {rank}, which serves the others at MASTER_ADDR,")
    here = str(listener.getsockname()[0])
    hub = Hub(size, timeout_s)
    server = Server(hub, listener, *job)

    def close() -> None:
        hub.leave(rank, "rank 0, which serves the others, has left the group; look at its output")
        server.close()

    def gather(blob: bytes) -> list[bytes]:
        try:
            return hub.gather(rank, blob)
        except TreefoldError:
            if not hub.has_gathered:
                server.await_workers(min(timeout_s, _SLACK_S))
            server.close()  # tells the others before this process may end
            raise

    return gather, close, here


def _join(rank: int, size: int, name: str | None, address: str, port: int, timeout_s: float, job: _Job) -> Gathering:
    hello = {"job": job.word, "rank": rank, "size": size, "name": name or socket.gethostname()}
    connection = _admitted(hello, address, port, timeout_s)

    def next_answer() -> tuple[Header, bytes] | None:
        """Return what rank 0 says; None if it only asks whether this worker is still there."""
        header, body = receive_frame(connection, size * MAX_BLOB_BYTES)
        if "error" in header:
            raise TreefoldError(_told(header["error"]))
        if "still" not in header:
            return header, body
        send_frame(connection, {"here": True})
        return None

    def gather(blob: bytes) -> list[bytes]:
        with _failures_of_rank_0(rank, address, port, timeout_s):
            while has_arrived(connection):  # an error, or a question
                next_answer()
            send_frame(connection, {}, blob)
            while (answer := next_answer()) is None:
                pass
            return _cut(answer[1], answer[0].get("bytes"), size)

    def close() -> None:
        with suppress(OSError):
            send_frame(connection, {"bye": True})
        connection.close()

    return gather, close, str(connection.getsockname()[0])


def _admitted(hello: Header, address: str, port: int, timeout_s: float) -> socket.socket:
    """Return a connection to rank 0, on which it has given this worker its seat."""
    rank, deadline = hello["rank"], time.monotonic() + timeout_s
    while True:
        connection = _called(rank, address, port, deadline, timeout_s)
        try:
            with _failures_of_rank_0(rank, address, port, timeout_s):
                # Rank 0 tells who is missing when the time is over; only if it is silent itself, our own clock counts.
                connection.settimeout(timeout_s + _SLACK_S)
                if _is_admitted(connection, hello, is_last=time.monotonic() + _AGAIN_S > deadline):
                    return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        time.sleep(_AGAIN_S)


def _called(rank: int, address: str, port: int, deadline: float, timeout_s: float) -> socket.socket:
    try:
        return connect(address, port, max(deadline - time.monotonic(), 0))
    except OSError as error:
        raise TreefoldError(
            f"rank {rank}: {_master(address, port)} cannot be reached within {timeout_s:g} s ({_reason(error)}); check "
            "that rank 0 runs there, the address, the port, and firewalls between"
        ) from None


def _is_admitted(connection: socket.socket, hello: Header, is_last: bool) -> bool:
    """Say hello; False if others crowd the door so that this worker has to call again."""
    try:
        send_frame(connection, hello)
        while "still" in (answer := receive_frame(connection, 0)[0]):
            send_frame(connection, {"here": True})
    except (ConnectionError, EOFError):
        if is_last:
            raise
        return False
    if "error" in answer:
        raise TreefoldError(_told(answer["error"]))
    if "welcome" not in answer:
        raise FrameError("no welcome")
    return True


def _master(address: str, port: int) -> str:
    return f"MASTER_ADDR {visible(address)} port {port}"


@contextmanager
def _failures_of_rank_0(rank: int, address: str, port: int, timeout_s: float) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, FrameError) as error:
        why = _silence(error, timeout_s)
        raise TreefoldError(f"rank {rank}: rank 0, which serves at {_master(address, port)}, {why}") from None


def _silence(error: Exception, timeout_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"was silent for {timeout_s + _SLACK_S:g} s; look whether it hangs"
    if isinstance(error, FrameError):
        return "is no worker of treefold; choose another MASTER_PORT"
    return "has died or lost its connection; look at its output"


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def _told(error: Any) -> str:
    """Return an error that came from elsewhere as text that can be printed."""
    return visible(error)[:_MOST_TOLD] if isinstance(error, str) else "it reported an error without words"


def _cut(body: bytes, sizes: Any, count: int) -> list[bytes]:
    if not isinstance(sizes, list) or len(sizes) != count or not all(type(size) is int and size >= 0 for size in sizes):
        raise FrameError("an answer without the sizes of its blobs")
    starts = [0, *accumulate(sizes)]
    if starts[-1] != len(body):
        raise FrameError("an answer whose blobs are not as long as it says")
    return [body[start:end] for start, end in pairwise(starts)]
