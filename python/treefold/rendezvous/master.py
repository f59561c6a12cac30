"""treefold's own rendezvous: worker 0 serves at MASTER_ADDR, and the other workers call it there."""

import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from treefold import environment
from treefold.errors import DeadlineError, OutsideError, PeerError, TreefoldError
from treefold.limits import soft_limit
from treefold.rendezvous.challenge import StrangerError, introduce, word_bytes
from treefold.rendezvous.door import Door, Line, blobs_of, told
from treefold.rendezvous.frames import FrameError, FrameStream, Header, receive_frame, send_frame
from treefold.rendezvous.hub import MAX_BLOB_BYTES, Hub
from treefold.rendezvous.identity import listening_address, listening_port, own_name
from treefold.rendezvous.meeting import MOST_WORKERS, Gather, Rendezvous
from treefold.rendezvous.server import Server
from treefold.rendezvous.sockets import connect, has_arrived, listen
from treefold.rendezvous.tls import Credentials, failure, from_environment
from treefold.text import visible

_SLACK_S = 5.0
_RETRY_S = 0.05
_TELL_S = 2.0
"""How long a worker that cannot take part tries to tell worker 0."""
_RUN_IDS = ("TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE")
"""Variables by which launchers keep jobs apart."""
_OTHER_FILES = 32
"""How many files a process may have open besides the connections of a rendezvous."""


class _Connection(NamedTuple):
    """How a worker takes part in a rendezvous."""

    gather: Gather
    close: Callable[[], None]
    address: str
    """The address with which this worker takes part."""
    hand_over: Callable[[], socket.socket] | None = None
    """Worker 0's function that takes over the socket that listens."""
    line: Line | None = None
    """The line to worker 0 of a group that runs already."""


class _Job(NamedTuple):
    word: str
    """The word by which the workers of one job know each other."""
    is_secret: bool


class _Member(NamedTuple):
    """One worker, and where the others meet it."""

    rank: int
    size: int
    name: str | None
    address: str
    port: int
    timeout_s: float
    credentials: Credentials | None
    is_late: bool = False
    """Whether it takes part only if the group runs already."""
    fails: str | None = None
    """Why it cannot take part; None if it can."""

    @property
    def master(self) -> str:
        """The master's address as errors name it."""
        return f"MASTER_ADDR {visible(self.address)} port {self.port}"

    @property
    def where(self) -> str:
        """The words with which errors of this worker begin if worker 0 is to blame."""
        return f"worker {self.rank}: worker 0, which serves at {self.master},"


def from_master(
    rank: int,
    size: int,
    address: str,
    port: int,
    timeout_s: float = 60,
    interface: str | None = None,
    job: str | None = None,
    own_port: int | str | None = None,
) -> Rendezvous:
    """Join `size` workers at `address` and `port`, where worker 0 serves; return once all are there.

    If a group runs there that is open to newcomers, this worker is one: `join` then waits until the group takes it in.
    Its number and the number of workers do not count then.

    Args:
        rank: The number of this worker, counted from 0.
        size: How many workers there are.
        address: The address of worker 0, on which it listens.
        port: The port on which worker 0 listens.
        timeout_s: How many seconds to wait for the others, here and in each exchange.
        interface: The name or address of the interface on which to listen, as in `from_environment`.
        job: A word that all workers of the job share and nobody else can guess; by default TREEFOLD_JOB.
        own_port: The port on which this worker listens once it has joined, as in `from_environment`.

    Raises:
        TreefoldError: If a number is out of range, a worker is missing, two workers have the same number, or workers
            disagree.

    Example:
        >>> import os
        >>> from treefold import runtime
        >>> meeting = runtime.from_master(rank=0, size=1, address="127.0.0.1", port=int(os.environ["MASTER_PORT"]))
        >>> meeting.exchange(b"hello")
        [b'hello']
        >>> meeting.close()

    """
    if not 0 < size <= MOST_WORKERS:
        raise TreefoldError(f"WORLD_SIZE {size} is not a number of workers; it is 1 to {MOST_WORKERS}")
    if not 0 <= rank < size:
        raise TreefoldError(f"RANK {rank} does not exist in a WORLD_SIZE of {size}; it counts from 0")
    if not 0 < port < 1 << 16:
        raise TreefoldError(f"MASTER_PORT {port} is not a port; choose one between 1024 and 65535")
    member = _Member(rank, size, None, address, port, timeout_s, from_environment())
    with _stays_away(member, _job(job)):
        own_address, name = listening_address(interface), own_name(member.credentials)
        at_port = listening_port(own_port)
    meeting = _met(member._replace(name=name), _job(job), own_address)
    meeting.port = at_port
    if meeting._line is not None:
        return meeting
    try:
        meeting.exchange(b"")
    except BaseException:
        meeting.close()
        raise
    return meeting


def _met(member: _Member, job: _Job, own_address: str | None) -> Rendezvous:
    """Return the rendezvous of a worker, which serves the others as worker 0 or calls worker 0."""
    made = (_serve if member.rank == 0 else _join)(member, job)
    door = Door(member.address, member.port, word_bytes(job.word), member.credentials)
    meeting = Rendezvous(member.rank, member.size, member.name, made.gather, made.close, own_address or made.address)
    meeting._secret, meeting._credentials, meeting._door = door.secret, door.credentials, door
    meeting._hand_over, meeting._line, meeting._timeout_s = made.hand_over, made.line, member.timeout_s
    return meeting


@contextmanager
def _stays_away(member: _Member, job: _Job) -> Iterator[None]:
    """Tell worker 0, if it serves already, of an error that keeps this worker away: the others need not wait then."""
    try:
        yield
    except TreefoldError as error:
        if member.rank:
            with suppress(TreefoldError):
                _admitted(member._replace(timeout_s=min(member.timeout_s, _TELL_S), fails=str(error)), job)[0].close()
        raise


def _job(word: str | None) -> _Job:
    secret = environment.value("TREEFOLD_JOB") if word is None else word
    run_ids = [os.environ[name] for name in _RUN_IDS if os.environ.get(name)]
    return _Job(secret or "".join(run_ids[:1]), bool(secret))


def _check_files(size: int) -> None:
    may_open = soft_limit("RLIMIT_NOFILE")
    if may_open is not None and size + _OTHER_FILES > may_open:
        raise TreefoldError(
            f"worker 0 keeps a connection to each of {size - 1} other workers, and may open {may_open} files; allow it "
            f"more: ulimit -n {size + 1024}"
        )


def _serve(member: _Member, job: _Job) -> _Connection:
    """Serve the other workers as worker 0."""
    _check_files(member.size)
    what = f"worker {member.rank}, which serves the others at MASTER_ADDR,"
    try:
        listener = listen(member.address, member.port, what)
    except OutsideError:
        if (running := _running_group(member, job)) is not None:
            return running
        raise
    own_address = str(listener.getsockname()[0])
    hub = Hub(member.size, member.timeout_s)
    server = Server(hub, listener, job.word, job.is_secret or bool(member.credentials), member.credentials)

    def close() -> None:
        hub.leave(member.rank, "worker 0, which serves the others, has left the group; look at its output")
        server.close()

    def gather(blob: bytes) -> list[bytes]:
        try:
            return hub.gather(member.rank, blob)
        except TreefoldError:
            if not hub.has_gathered:
                server.await_workers(min(member.timeout_s, _SLACK_S))
            server.close()  # the others get the error before this process may end
            raise

    return _Connection(gather, close, own_address, server.hand_over)


def _running_group(member: _Member, job: _Job) -> _Connection | None:
    """Return a line to the group that runs where this worker 0 should listen; None if there is none.

    After worker 0 was lost, another worker of its machine may be the group's worker 0.
    """
    with suppress(TreefoldError):
        connection = _join(member._replace(timeout_s=min(member.timeout_s, _SLACK_S), is_late=True), job)
        if connection.line is not None:
            return connection
        connection.close()
    return None


def _join(member: _Member, job: _Job) -> _Connection:
    """Call worker 0 as another worker."""
    connection, runs = _admitted(member, job)
    if runs:
        return _late(connection, member.rank)

    def next_answer() -> tuple[Header, bytes] | None:
        """Return worker 0's answer; None if it only asks whether this worker is still there."""
        header, body = receive_frame(connection, member.size * MAX_BLOB_BYTES)
        if "error" in header:
            raise told(header)
        if "still" not in header:
            return header, body
        send_frame(connection, {"here": True})
        return None

    def gather(blob: bytes) -> list[bytes]:
        with _failures_of_worker_0(member):
            while has_arrived(connection):  # an error, or the question whether this worker is still there
                next_answer()
            send_frame(connection, {}, blob)
            while (answer := next_answer()) is None:
                pass
            return blobs_of(answer[1], answer[0].get("bytes"), member.size)

    def close() -> None:
        with suppress(OSError):
            send_frame(connection, {"bye": True})
        connection.close()

    return _Connection(gather, close, str(connection.getsockname()[0]))


def _late(connection: socket.socket, rank: int) -> _Connection:
    """Return how a worker takes part that comes to a group which runs already."""
    address = str(connection.getsockname()[0])
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    line = Line(FrameStream(connection), "worker 0")

    def gather(_: bytes) -> list[bytes]:
        raise TreefoldError(
            f"worker {rank}: the group at this MASTER_ADDR and MASTER_PORT runs already, and newcomers come to it with "
            "runtime.Connections(newcomers=True); start all workers together otherwise, or choose another MASTER_PORT"
        )

    return _Connection(gather, line.close, address, line=line)


def _admitted(member: _Member, job: _Job) -> tuple[socket.socket, bool]:
    """Return a connection to worker 0, which has accepted this worker, and whether its group runs already."""
    rank = None if member.is_late else member.rank
    hello: Header = {"rank": rank, "size": member.size, "name": member.name or socket.gethostname()}
    if member.fails is not None:
        hello["fails"] = member.fails
    deadline = time.monotonic() + member.timeout_s
    while True:
        connection = _called(member, deadline)
        try:
            with _failures_of_worker_0(member):
                if member.credentials is not None:
                    connection = member.credentials.call(connection, member.where)
                # Worker 0 names the missing ones when time is over; this timeout only counts if it is silent itself.
                connection.settimeout(member.timeout_s + _SLACK_S)
                is_last = time.monotonic() + _RETRY_S > deadline
                if (answer := _admission(connection, hello, word_bytes(job.word), is_last)) is not None:
                    return connection, "runs" in answer
        except BaseException:
            connection.close()
            raise
        connection.close()
        time.sleep(_RETRY_S)


def _called(member: _Member, deadline: float) -> socket.socket:
    try:
        return connect(member.address, member.port, max(deadline - time.monotonic(), 0))
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        kind = DeadlineError if isinstance(error, TimeoutError) else PeerError
        raise kind(
            f"worker {member.rank}: {member.master} cannot be reached within {member.timeout_s:g} s ({reason}); check "
            "that worker 0 runs there, the address, the port, and firewalls between"
        ) from None


def _admission(connection: socket.socket, hello: Header, secret: bytes, is_last: bool) -> Header | None:
    """Say hello, and return the welcome; None if other callers crowd this worker out, so that it has to call again."""
    try:
        answer = introduce(connection, hello, secret) or receive_frame(connection, 0)[0]
        while "still" in answer:
            send_frame(connection, {"here": True})
            answer = receive_frame(connection, 0)[0]
    except (ConnectionError, EOFError):
        if is_last:
            raise
        return None
    if "error" in answer:
        raise told(answer)
    if "welcome" not in answer and "runs" not in answer:
        raise FrameError("no welcome")
    return answer


@contextmanager
def _failures_of_worker_0(member: _Member) -> Iterator[None]:
    """Turn a failed connection to worker 0 into an error of one line."""
    where = member.where
    try:
        yield
    except TreefoldError:  # of which worker 0 has told
        raise
    except StrangerError:
        raise TreefoldError(f"{where} does not know this job's word; give all workers the same TREEFOLD_JOB") from None
    except FrameError:
        raise TreefoldError(f"{where} is not a worker of treefold; choose another MASTER_PORT") from None
    except ssl.SSLError as error:
        raise PeerError(f"{where} {failure(error)}") from None
    except TimeoutError:
        silence_s = member.timeout_s + _SLACK_S
        raise DeadlineError(f"{where} was silent for {silence_s:g} s; look whether it hangs") from None
    except (OSError, EOFError):
        raise PeerError(f"{where} has died or lost its connection; look at its output") from None
