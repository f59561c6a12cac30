"""A rendezvous: one worker's place among the others, where each gathers a blob from all as often as they like."""

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from treefold import checks
from treefold.errors import OutsideError, TreefoldError, kind_of, of_kind
from treefold.rendezvous import validation
from treefold.rendezvous.challenge import shared_key
from treefold.rendezvous.door import Door, Line
from treefold.rendezvous.hub import MAX_BLOB_BYTES, Hub
from treefold.rendezvous.tls import Credentials
from treefold.text import some, visible

LOOPBACK = "127.0.0.1"

MOST_WORKERS = 1 << 16
"""How many workers a group may have."""

_MOST_NAMED = 8
"""So many workers are named in an error that several have."""

Gather = Callable[[bytes], list[bytes]]
"""A function that sends this worker's blob to all and returns the blobs of all, by worker."""

_Result = TypeVar("_Result")


@dataclass
class Rendezvous:
    """A rendezvous as one of its `size` workers sees it; `exchange` and `close` block, and one thread calls them.

    Functions such as `from_environment` and `local` make it.

    Attributes:
        rank: The number of this worker, counted from 0: torch's rank, or RANK. `Group.rank` is a rank of the plan
            instead.
        size: How many workers there are.
        name: The worker's name from TREEFOLD_NAME; None if it has none.
        port: The port on which this worker listens for other workers; 0 for one that the system chooses each time, and
            None if it does not listen. Two workers of which neither listens cannot connect, and plans go round them.

    Example:
        >>> from treefold import runtime
        >>> [meeting] = runtime.local(1)
        >>> meeting.rank, meeting.size, meeting.exchange(b"hello")
        (0, 1, [b'hello'])

    """

    rank: int
    size: int
    name: str | None
    _gather: Gather
    _close: Callable[[], None]
    _address: str | None = None
    _secret: bytes = b""
    """The word of the job, which strangers do not know; empty if there is none."""
    _credentials: Credentials | None = None
    """The credentials with which this worker proves its site and encrypts; None if nothing is encrypted."""
    port: int | None = 0
    _door: Door | None = None
    """Where newcomers call once the group runs; None if nobody can listen there."""
    _hand_over: Callable[[], socket.socket] | None = None
    """Worker 0's function that takes over the socket that listens at the door."""
    _line: Line | None = None
    """The line of a newcomer to worker 0 of the group that runs already; None for a worker of a new group."""
    _timeout_s: float = 60.0
    """How many seconds an exchange waits for the others."""

    @property
    def address(self) -> str:
        """The address on which this worker listens.

        It is that of the interface it was given, or else the one with which it reaches the others.

        Raises:
            TreefoldError: If this address is unknown.

        """
        if self._address is None:
            raise TreefoldError(
                f"worker {self.rank}: the address on which others reach this worker is not known; set "
                "TREEFOLD_INTERFACE to the name or address of a network interface"
            )
        return self._address

    def exchange(self, blob: bytes) -> list[bytes]:
        """Return every worker's blob, by the worker's number, once all have called.

        Args:
            blob: At most 64 MiB.

        Raises:
            DeadlineError: On every worker that waits, naming the workers that did not come in time.
            PeerError: On every worker that waits, naming a worker that is gone.

        Example:
            >>> from concurrent.futures import ThreadPoolExecutor
            >>> from treefold import runtime
            >>> with ThreadPoolExecutor(2) as pool:
            ...     list(pool.map(lambda place: place.exchange(f"I am {place.rank}".encode()), runtime.local(2)))
            [[b'I am 0', b'I am 1'], [b'I am 0', b'I am 1']]

        """
        if len(blob) > MAX_BLOB_BYTES:
            raise TreefoldError(f"a blob of {len(blob)} bytes is too large to exchange; the most is {MAX_BLOB_BYTES}")
        return self._gather(bytes(blob))

    def _key_from(self, numbers: Sequence[str]) -> bytes:
        """Return the key of 32 bytes that random numbers of all workers make together with the job's word.

        Who reads what the workers exchange learns the numbers. Without the word that is not enough for the key, if the
        job has one.
        """
        return shared_key(self._secret, numbers)

    def close(self) -> None:
        """Leave; calling it again does nothing. Workers that still wait for this one get an error that names it.

        Example:
            >>> from treefold import runtime
            >>> stays, leaves = runtime.local(2)
            >>> leaves.close()
            >>> stays.exchange(b"hello")
            Traceback (most recent call last):
                ...
            treefold.PeerError: worker 1 has left the group; look at its output

        """
        close, self._close = self._close, lambda: None
        close()


def local(size: int, timeout_s: float = 60) -> list[Rendezvous]:
    """Return a rendezvous for each of `size` threads of this process; they listen on loopback.

    Args:
        size: How many threads take part.
        timeout_s: How many seconds an exchange waits for the others.

    Raises:
        TreefoldError: If the number of threads is out of range.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> from treefold import runtime
        >>> with ThreadPoolExecutor(2) as pool:
        ...     list(pool.map(lambda place: place.exchange(b"from %d" % place.rank), runtime.local(2)))
        [[b'from 0', b'from 1'], [b'from 0', b'from 1']]

    """
    size = checks.whole("the number of workers", size, 1, MOST_WORKERS)
    hub = Hub(size, timeout_s)

    def place(rank: int) -> Rendezvous:
        why = f"worker {rank} has left the group; look at its output"
        gather, leave = partial(hub.gather, rank), partial(hub.leave, rank, why)
        return Rendezvous(rank, size, None, gather, leave, LOOPBACK, _timeout_s=timeout_s)

    return [place(rank) for rank in range(size)]


def all_or_none(rendezvous: Rendezvous, prepare: Callable[[], _Result]) -> _Result:
    """Return the result of `prepare` if it succeeds on all workers; an error on one worker is raised on all.

    Raises:
        TreefoldError: If a worker has an error: that of the first such worker, of the same kind, and who has the same.

    """
    results, mine = [], {"error": "", "kind": ""}
    try:
        results.append(prepare())
    except TreefoldError as error:
        mine = {"error": str(error), "kind": kind_of(error)}
    told = validation.exchange(rendezvous.exchange, mine, {"error": str, "kind": str})
    errors = [each["error"] for each in told]
    if blamed := blame(errors, "worker"):
        kind = next(each["kind"] for each in told if each["error"])
        raise of_kind(kind, errors[0] if len(set(errors)) == 1 else blamed)
    return results[0]


def blame(errors: Sequence[str], who: str) -> str | None:
    """Return the first error and who has it, such as `workers 1, 3: ...`; None if nobody has an error.

    Args:
        errors: The error of each worker or rank, by its number; empty where there is none.
        who: What has them: `worker` or `rank`.

    """
    first = next((error for error in errors if error), None)
    if first is None:
        return None
    having = [str(number) for number, error in enumerate(errors) if error == first]
    numbers = some(having, _MOST_NAMED)
    named = f"all {who}s" if len(having) == len(errors) > 1 else f"{who}{'s' * (len(having) > 1)} {numbers}"
    return f"{named}: {visible(first)}"


@contextmanager
def leaving_together(meeting: Rendezvous) -> Iterator[None]:
    """Let all workers learn of an error that all have before one of them ends, because that one may keep the store."""
    try:
        yield
    except TreefoldError:
        with suppress(TreefoldError):
            meeting.exchange(b"")
        raise


@contextmanager
def failures_of(what: str, remedy: str) -> Iterator[None]:
    """Turn an error of torch or MPI into one line that says what failed, why, and what to do."""
    try:
        yield
    except (RuntimeError, OSError) as error:
        raise OutsideError(f"{what}: {first_line(error)}; {remedy}") from None


def first_line(error: Exception) -> str:
    """Return the first line of an error's text."""
    return (str(error).splitlines() or ["no reason given"])[0]
