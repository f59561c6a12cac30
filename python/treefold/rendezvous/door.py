"""The door of a running group: where workers call that come later, and the lines over which they and the group meet.

The door is worker 0's rendezvous, which goes on listening. A line is a connection through it to worker 0. Only one
thread uses a line, and another one may end it.
"""

import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from treefold.errors import DeadlineError, PeerError, TreefoldError, of_kind
from treefold.rendezvous.challenge import introduce
from treefold.rendezvous.frames import FrameError, FrameStream, Header, receive_frame
from treefold.rendezvous.sockets import connect
from treefold.rendezvous.tls import Credentials
from treefold.text import visible

_POLL_S = 0.1
_MOST_TEXT = 2000


class Door(NamedTuple):
    """Where newcomers call, and what they have to know."""

    address: str
    port: int
    secret: bytes
    credentials: Credentials | None


class Line:
    """A connection on which one thread sends and receives frames, and waits until they are through."""

    def __init__(self, stream: FrameStream, who: str) -> None:
        """Wrap a stream to `who`, as errors name it."""
        self.stream, self.who = stream, who
        self._is_over = False

    def send(self, header: Header, body: bytes = b"", timeout_s: float = 60.0) -> None:
        """Send a frame.

        Raises:
            PeerError: If the connection is lost, or has been ended here.
            DeadlineError: If the other end does not take it in time.

        """
        until = time.monotonic() + timeout_s
        self.stream.send(header, body)
        with self._losses():
            while not self.stream.flush():
                self._wait(selectors.EVENT_WRITE, until)

    def receive(self, most_bytes: int, timeout_s: float | None = None) -> tuple[Header, bytes]:
        """Return the next frame, whose body has at most `most_bytes`; without a timeout, wait as long as it takes.

        Raises:
            PeerError: As for `send`, or if what comes is not a frame.
            DeadlineError: If none comes in time.
            TreefoldError: If the other end sends an error: that one.

        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        with self._losses():
            while (frame := self.stream.receive(most_bytes)) is None:
                self._wait(selectors.EVENT_READ, until)
        if "error" in frame[0]:
            raise told(frame[0])
        return frame

    def _wait(self, event: int, until: float | None) -> None:
        """Wait a moment until the connection can be read or written."""
        if self._is_over:
            raise PeerError("this worker has left the group")
        if until is not None and time.monotonic() > until:
            raise DeadlineError(f"{self.who} does not answer; look whether it hangs")
        with selectors.DefaultSelector() as ready:  # unlike select, it takes any number of open files
            ready.register(self.stream.connection, event)
            ready.select(_POLL_S)

    @contextmanager
    def _losses(self) -> Iterator[None]:
        """Turn a failure of the connection into an error of one line."""
        try:
            yield
        except TreefoldError:  # which says it already
            raise
        except (OSError, EOFError, FrameError, ValueError) as error:
            if isinstance(error, ValueError) and self.stream.connection.fileno() >= 0:
                raise  # only of a connection that another thread has closed it says nothing new
            raise PeerError(f"{self.who} has died or lost its connection; look at its output") from None

    def seems_open(self) -> bool:
        """Return whether nothing says that the other end is gone; the line must not be in use."""
        try:
            with self._losses():
                self.stream.receive(0)
        except PeerError:
            return False
        return True

    def end(self) -> None:
        """Let the thread that waits on this line get an error soon; any thread may call this."""
        self._is_over = True

    def close(self) -> None:
        """Close the connection."""
        self.end()
        with suppress(OSError):
            self.stream.connection.close()


def call(door: Door, hello: Header, timeout_s: float) -> Line:
    """Return a line to worker 0, which has admitted what `hello` claims.

    Raises:
        TreefoldError: If worker 0 does not listen there, or refuses.

    """
    where = f"worker 0, which listens at {visible(door.address)} port {door.port},"
    connection: socket.socket | None = None
    try:
        connection = connect(door.address, door.port, timeout_s)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.settimeout(timeout_s)
        if door.credentials is not None:
            connection = door.credentials.call(connection, where)
        answer = introduce(connection, hello, door.secret) or receive_frame(connection, 0)[0]
        if "error" in answer:
            raise told(answer)
        return Line(FrameStream(connection), "worker 0")
    except (OSError, EOFError, FrameError) as error:
        _close(connection)
        raise error if isinstance(error, TreefoldError) else PeerError(f"{where} cannot be reached") from None
    except BaseException:
        _close(connection)
        raise


def _close(connection: socket.socket | None) -> None:
    if connection is not None:
        connection.close()


def told(header: Header) -> TreefoldError:
    """Return the error of which the other end has told, as text that can be printed."""
    error = header["error"]
    text = visible(error)[:_MOST_TEXT] if isinstance(error, str) else "it reported an error without words"
    return of_kind(header.get("kind"), text)


def blobs_of(body: bytes, sizes: Any, count: int) -> list[bytes]:
    """Cut the body of an answer into the blobs of all workers.

    Raises:
        FrameError: If it is not `count` blobs of these sizes.

    """
    if not isinstance(sizes, list) or len(sizes) != count or not all(type(size) is int and size >= 0 for size in sizes):
        raise FrameError("an answer without the sizes of its blobs")
    starts = [0, *accumulate(sizes)]
    if starts[-1] != len(body):
        raise FrameError("an answer whose blobs are not as long as it says")
    return [body[start:end] for start, end in pairwise(starts)]
