"""Where blobs of all ranks meet: `Hub` for the threads of one process, `Server` puts it behind a socket of rank 0.

A hub fails once and for all, for every rank: a rank that is missing, gone or wrong leaves no job to go on with.
"""

import selectors
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

from treefold._core import TreefoldError
from treefold.workers.sockets import FrameError, Header, knows, receive_frame, send_frame

MAX_BLOB_BYTES = 64 << 20
"""Plans travel in blobs; nothing larger does."""

_HELLO_TIMEOUT_S = 10.0
_CLOSE_TIMEOUT_S = 5.0
_REFUSAL_TIMEOUT_S = 1.0
_LOOK_S = 0.02
_MOST_NAME = 200


@dataclass
class _Round:
    start: float = field(default_factory=time.monotonic)
    blobs: dict[int, bytes] = field(default_factory=dict)
    fetched: int = 0


class Hub:
    """All-gather among `size` ranks, each of which calls from a thread of its own."""

    def __init__(self, size: int, timeout_s: float):
        self.size = size
        self._timeout_s = timeout_s
        self._changed = threading.Condition()
        self._next_round = [0] * size
        self._rounds: dict[int, _Round] = {}
        self._gone: dict[int, str] = {}
        self._failure: str | None = None

    def gather(self, rank: int, blob: bytes) -> list[bytes]:
        """Return the blobs of all ranks once all have come, by rank.

        Raises:
            TreefoldError: If a rank is missing after the timeout, is gone, or the hub has failed before.

        """
        with self._changed:
            number = self._next_round[rank]
            self._next_round[rank] += 1
            current = self._rounds.setdefault(number, _Round())
            current.blobs[rank] = blob
            self._changed.notify_all()
            while len(current.blobs) < self.size:
                self._fail_if_hopeless(current)
                self._changed.wait(max(current.start + self._timeout_s - time.monotonic(), 0))
            current.fetched += 1
            if current.fetched == self.size:
                del self._rounds[number]
            return [current.blobs[each] for each in range(self.size)]

    def _fail_if_hopeless(self, current: _Round) -> None:
        missing = [rank for rank in range(self.size) if rank not in current.blobs]
        gone = [self._gone[rank] for rank in missing if rank in self._gone]
        if self._failure is None and gone:
            self._failure = gone[0]
        if self._failure is None and time.monotonic() >= current.start + self._timeout_s:
            self._failure = f"{_ranks(missing)} did not come within {self._timeout_s:g} s; start or look at them"
            self._changed.notify_all()
        if self._failure is not None:
            raise TreefoldError(self._failure)

    def leave(self, rank: int, why: str) -> None:
        """Note that `rank` will not come any more; who waits for it gets the error `why`."""
        with self._changed:
            self._gone.setdefault(rank, why)
            self._changed.notify_all()

    def fail(self, why: str) -> None:
        """Give every rank that waits, now or later, the error `why`."""
        with self._changed:
            self._failure = self._failure or why
            self._changed.notify_all()

    @property
    def failure(self) -> str | None:
        """What ended this hub; None while it works."""
        with self._changed:
            return self._failure

    @property
    def has_gathered(self) -> bool:
        """Whether all ranks have come at least once."""
        with self._changed:
            return min(self._next_round) > 0


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def _introduction(hello: Header, address: str) -> tuple[int, int, str]:
    """Return a worker's rank, the group's size as it knows it, and what to call the worker."""
    rank, size, name = hello.get("rank"), hello.get("size"), hello.get("name")
    if type(rank) is not int or type(size) is not int or not isinstance(name, str | None):
        raise FrameError("this port speaks to workers of treefold only, which say their rank, size and name")
    # Text that UTF-8 cannot hold could not be told to the others.
    known = (name or "a worker")[:_MOST_NAME].encode(errors="replace").decode()
    return rank, size, f"{known} at {address}"


def _refuse(connection: socket.socket, why: str) -> None:
    """Send an error and wait until it is read: closing with unread data in a socket would take it back."""
    send_frame(connection, {"error": why})
    connection.shutdown(socket.SHUT_WR)
    connection.settimeout(_REFUSAL_TIMEOUT_S)
    deadline = time.monotonic() + _REFUSAL_TIMEOUT_S
    while time.monotonic() < deadline and connection.recv(1 << 16):
        pass


class Server:
    """A hub's door for ranks in other processes: a thread that accepts, and one for each worker."""

    def __init__(self, hub: Hub, listener: socket.socket, token: str):
        self._hub, self._listener, self._token = hub, listener, token
        self._lock = threading.Lock()
        self._workers: dict[int, str] = {0: "the worker that serves the others"}
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._closed = False
        self._came = 1
        self._wake, self._woken = socket.socketpair()
        self._door = threading.Thread(target=self._accept, name="treefold-rendezvous", daemon=True)
        self._door.start()

    def await_workers(self, timeout_s: float) -> None:
        """Wait until as many workers as there are ranks have come: latecomers should learn what failed before."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self._came < self._hub.size:
            time.sleep(_LOOK_S)

    def close(self) -> None:
        """Let answers and errors on their way arrive, then end all threads and sockets; harmless when called again."""
        with self._lock:
            closed, self._closed = self._closed, True
        if closed:
            return
        self._wake.close()
        self._door.join()
        self._woken.close()
        self._listener.close()
        with self._lock:
            remaining = dict(self._connections)
        for connection in remaining:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
        deadline = time.monotonic() + _CLOSE_TIMEOUT_S
        for thread in remaining.values():
            thread.join(max(deadline - time.monotonic(), 0))

    def _accept(self) -> None:
        with selectors.DefaultSelector() as ready:
            ready.register(self._listener, selectors.EVENT_READ)
            ready.register(self._woken, selectors.EVENT_READ)
            while True:
                if any(key.fileobj is self._woken for key, _ in ready.select()):
                    return
                with suppress(OSError):
                    self._welcome(*self._listener.accept())

    def _welcome(self, connection: socket.socket, address: tuple[object, ...]) -> None:
        thread = threading.Thread(target=self._serve, args=(connection, str(address[0])), daemon=True)
        with self._lock:
            self._connections[connection] = thread
        thread.start()

    def _serve(self, connection: socket.socket, address: str) -> None:
        try:
            connection.settimeout(_HELLO_TIMEOUT_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            rank = self._admit(receive_frame(connection, 0)[0], address)
            connection.settimeout(None)
            self._attend(connection, rank)
        except (FrameError, TreefoldError) as error:
            with suppress(OSError):
                _refuse(connection, str(error))
        except (OSError, EOFError):
            if self._hub.failure:  # of others: this worker learns it when it comes next
                with suppress(OSError):
                    _refuse(connection, self._hub.failure)
        finally:
            with self._lock:
                del self._connections[connection]
            connection.close()

    def _admit(self, hello: Header, address: str) -> int:
        """Return the rank of a worker of this job; a fault of one worker is told to all."""
        if not knows(hello, "job", self._token):
            raise TreefoldError("this is another job's rendezvous; give each job its own MASTER_PORT and TREEFOLD_JOB")
        rank, size, name = _introduction(hello, address)
        with self._lock:
            self._came += 1
        if size != self._hub.size:
            problem = (
                f"rank {rank} ({name}) has WORLD_SIZE {size}, rank 0 has {self._hub.size}; start all with the same"
            )
        elif not 0 <= rank < self._hub.size:
            problem = f"rank {rank} ({name}) does not exist among {self._hub.size} workers; ranks count from 0"
        else:
            with self._lock:
                if rank not in self._workers:
                    self._workers[rank] = name
                    return rank
            both = f"{self._workers[rank]} and {name}"
            problem = f"rank {rank} is taken twice, by {both}; give each worker its own RANK"
        if not self._hub.has_gathered:
            self._hub.fail(problem)
        raise TreefoldError(problem)

    def _attend(self, connection: socket.socket, rank: int) -> None:
        """Answer each blob of a worker with those of all, until it says goodbye or is gone."""
        why = f"rank {rank} ({self._workers[rank]}) has died or lost its connection; look at its output"
        try:
            while True:
                header, blob = receive_frame(connection, MAX_BLOB_BYTES)
                if header.get("bye"):
                    why = f"rank {rank} ({self._workers[rank]}) has left the group; look at its output"
                    return
                blobs = self._hub.gather(rank, blob)
                send_frame(connection, {"bytes": [len(each) for each in blobs]}, b"".join(blobs))
        finally:
            self._hub.leave(rank, why)
