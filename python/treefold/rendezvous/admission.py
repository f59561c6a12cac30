"""Admission: callers wait here until they have proven who they are, few at a time and briefly: they cost little.

A listening port can be called by anybody, and most of what follows protects the workers from foreign callers.
"""

import errno
import selectors
import socket
import ssl
import time
from collections import Counter, deque
from collections.abc import Callable, Generator
from functools import partial

from treefold.errors import TreefoldError, kind_of
from treefold.rendezvous.challenge import Challenge, answer_to, challenge
from treefold.rendezvous.frames import FrameError, FrameStream, Header
from treefold.rendezvous.tls import FIRST_BYTE, Credentials, failure

MOST_CALLERS = 128
"""How many callers may wait; beyond that one of them is dropped. A process may have as few as 256 open files."""

POLL_S = 0.1
"""How often a thread that waits for something checks its deadlines."""

REFUSAL_S = 1.0
"""How long a refused caller has to read the reason."""

_STRANGER = (
    "this is another job's rendezvous; give each job its own MASTER_PORT, and all of its workers the same TREEFOLD_JOB"
)

_NO_TLS = "the workers of this job speak TLS; set TREEFOLD_TLS on all workers, or on none"
_TLS = "the workers of this job do not speak TLS; set TREEFOLD_TLS on all workers, or on none"
_MOST_MISHAPS = 3

_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Caller:
    """A connection that was accepted and whose owner is not known yet."""

    def __init__(self, stream: FrameStream, address: str, until: float) -> None:
        self.stream, self.address = stream, address
        self.until = until
        """The time at which this caller is dropped."""
        self.is_refused = False
        self.has_begun = False
        self.asked: Challenge | None = None
        """What it claims, and what it has been asked to prove that."""
        self.is_proven = False


class Admission:
    """Accepts callers and receives their frames, which have no bodies, until each is admitted, refused or dropped.

    A caller first has to prove that it knows a secret.

    The user of `ready` has to call the `data` of each key that is ready: it is a function without arguments.
    """

    def __init__(
        self,
        ready: selectors.BaseSelector,
        listener: socket.socket,
        timeout_s: float,
        secret: bytes,
        on_hello: Callable[[Caller, Header], None],
        credentials: Credentials | None = None,
    ) -> None:
        """Begin to accept callers.

        Args:
            ready: The selector that reports which sockets are ready.
            listener: The socket that accepts callers.
            timeout_s: How long a caller may be silent.
            secret: What callers have to know.
            on_hello: A function that gets each caller that has proven what it claims, with its claims, and admits it,
                refuses it or leaves it waiting; it then gets the later frames of a caller that waits, too.
            credentials: With them, callers have to show certificates.

        """
        self._ready, self._listener = ready, listener
        self._accepts = True
        self._timeout_s, self._secret, self._on_hello = timeout_s, secret, on_hello
        self._credentials = credentials
        self.mishaps: list[str] = []
        """What has kept callers from being admitted that may be workers, since this list was emptied last."""
        self.callers: dict[Caller, None] = {}
        """The waiting callers, in the order in which they came."""
        listener.setblocking(False)
        ready.register(listener, selectors.EVENT_READ, self._accept)

    def _accept(self) -> None:
        for _ in range(MOST_CALLERS):
            try:
                connection, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # any other error says that the caller has left already
                if error.errno in _NO_ROOM and not self._make_room():
                    time.sleep(POLL_S)
                    return
                continue
            self._add(FrameStream(connection), str(address[0]))

    def _add(self, stream: FrameStream, address: str) -> None:
        """Read from a new caller at once, as workers send at once; where too many wait, drop one of them."""
        caller = Caller(stream, address, time.monotonic() + self._timeout_s)
        self.callers[caller] = None
        self._ready.register(stream.connection, selectors.EVENT_READ, partial(self._read, caller))
        self._read(caller)
        if len(self.callers) > MOST_CALLERS:
            self._make_room()

    def _make_room(self) -> bool:
        """Drop the first caller of the address from which most come; return False if there is none.

        Who floods the port from one machine thus crowds out no worker of another one.
        """
        calls = Counter(caller.address for caller in self.callers)
        crowd, _ = max(calls.items(), key=lambda each: each[1], default=(None, 0))
        first = next((caller for caller in self.callers if caller.address == crowd), None)
        if first is not None:
            self.drop(first)
        return first is not None

    def _read(self, caller: Caller) -> None:
        if caller not in self.callers:  # it was dropped a moment ago to make room
            return
        if caller.is_refused:
            if caller.stream.finish():
                self.drop(caller)
            return
        try:
            if self._speaks_as_all(caller) and (frame := caller.stream.receive(0)) is not None:
                self._hear(caller, frame[0])
        except FrameError as error:
            self.refuse(caller, str(error))
        except ssl.SSLError as error:
            self._note(f"a caller at {caller.address} {failure(error)}")
            self._part(caller)  # it has to read TLS's own alert
        except (OSError, EOFError):
            self.drop(caller)

    def _speaks_as_all(self, caller: Caller) -> bool:
        """Look at a caller's first byte, and secure the connection; return False if it has not come.

        Raises:
            FrameError: If the caller speaks TLS and the others do not, or the other way round.

        """
        if caller.has_begun:
            return True
        try:
            first = caller.stream.connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        if not first:
            raise EOFError
        caller.has_begun = True
        if (first == FIRST_BYTE) != (self._credentials is not None):
            only = "does not speak TLS, and the others do" if self._credentials else "speaks TLS, and the others do not"
            self._note(f"a caller at {caller.address} {only}; set TREEFOLD_TLS on all workers, or on none")
            raise FrameError(_NO_TLS if self._credentials else _TLS)
        if self._credentials is not None:
            self._ready.unregister(caller.stream.connection)
            caller.stream = FrameStream(self._credentials.accept(caller.stream.connection))
            self._ready.register(caller.stream.connection, selectors.EVENT_READ, partial(self._read, caller))
        return True

    def _note(self, mishap: str) -> None:
        self.mishaps = [*self.mishaps[1 - _MOST_MISHAPS :], mishap]

    def _hear(self, caller: Caller, said: Header) -> None:
        """Challenge a caller, or check its proof; pass on what a caller says that has proven its claims."""
        if caller.is_proven:
            self._on_hello(caller, said)
        elif caller.asked is None:
            caller.asked = challenge(said)
            caller.stream.send({"number": caller.asked.number})
        elif (proof := answer_to(caller.asked, said, self._secret)) is None:
            self._note(f"a caller at {caller.address} has another TREEFOLD_JOB, or only one of the two has one")
            self.refuse(caller, _STRANGER)
        else:
            caller.is_proven = True
            caller.stream.send(proof)
            self._on_hello(caller, caller.asked.hello)

    def admit(self, caller: Caller) -> FrameStream:
        """Return the stream of a caller, which no longer waits here."""
        del self.callers[caller]
        self._ready.unregister(caller.stream.connection)
        return caller.stream

    def is_waiting(self, caller: Caller) -> bool:
        """Return whether a caller still waits and has not been refused."""
        return caller in self.callers and not caller.is_refused

    def refuse(self, caller: Caller, why: str | TreefoldError) -> None:
        """Send a caller an error, and give it a moment to read it."""
        caller.stream.send({"error": str(why), "kind": kind_of(why)})
        self._part(caller)

    def _part(self, caller: Caller) -> None:
        """Give a caller a moment to read what was sent, and hear it no more."""
        caller.is_refused = True
        caller.until = time.monotonic() + REFUSAL_S
        if caller.stream.finish():
            self.drop(caller)

    def drop(self, caller: Caller) -> None:
        """Close a caller's connection without an answer."""
        self.admit(caller).connection.close()

    def drop_expired(self) -> None:
        """Drop the callers whose time is over."""
        now = time.monotonic()
        for caller in [caller for caller in self.callers if caller.until < now]:
            self.drop(caller)

    def stop_accepting(self) -> None:
        """Accept no more callers; the socket goes on listening."""
        if self._accepts:
            self._accepts = False
            self._ready.unregister(self._listener)

    def close(self) -> None:
        """Stop to accept, and drop all callers who wait."""
        self.stop_accepting()
        self._listener.close()
        for caller in list(self.callers):
            self.drop(caller)


def first_frames(
    listener: socket.socket, until: float, timeout_s: float, secret: bytes
) -> Generator[tuple[socket.socket, Header], None, None]:
    """Yield callers that know the secret, each with what it claims, in the order in which they prove it.

    A silent caller delays no other one, and is dropped after `timeout_s`. The generator ends when `time.monotonic()`
    reaches `until`, and closes the listener.
    """
    arrived: deque[tuple[socket.socket, Header]] = deque()

    def keep(caller: Caller, header: Header) -> None:
        arrived.append((admission.admit(caller).connection, header))

    with selectors.DefaultSelector() as ready:
        admission = Admission(ready, listener, timeout_s, secret, keep)
        try:
            while time.monotonic() < until:
                for key, _ in ready.select(POLL_S):
                    key.data()
                while arrived:
                    connection, header = arrived.popleft()
                    connection.setblocking(True)
                    yield connection, header
                admission.drop_expired()
        finally:
            admission.close()
            for connection, _ in arrived:
                connection.close()
