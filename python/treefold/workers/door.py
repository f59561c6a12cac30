"""Where callers wait until they have said who they are: few at a time and not for long, so strangers cost little."""

import errno
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Generator
from functools import partial

from treefold.workers.frames import FrameError, Header, Line

MOST_CALLERS = 128
"""How many wait at most; then the first of them has to go. Few enough for a process that may open 256 files."""

LOOK_S = 0.1
"""How often who waits for something looks what time it is."""

REFUSAL_S = 1.0
"""How long who is refused may read why."""

_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Caller:
    """Who has called."""

    def __init__(self, line: Line, address: str, until: float) -> None:
        self.line, self.address = line, address
        self.until = until
        """When he has to go."""
        self.is_refused = False


class Door:
    """Accepts who calls, and hears each one's frames, which have no bodies, until he is let in.

    What `ready` says is ready has to be called: its `data` is a function without arguments.
    """

    def __init__(
        self,
        ready: selectors.BaseSelector,
        listener: socket.socket,
        patience_s: float,
        greet: Callable[[Caller, Header], None],
    ) -> None:
        """Open the door.

        Args:
            ready: Tells who has something to say.
            listener: Where to accept.
            patience_s: How long a caller may be silent.
            greet: Is told each caller with what he has said, and lets him in, refuses him, or leaves him waiting.

        """
        self._ready, self._listener = ready, listener
        self._patience_s, self._greet = patience_s, greet
        self.callers: dict[Caller, None] = {}
        """In the order in which they came."""
        listener.setblocking(False)
        ready.register(listener, selectors.EVENT_READ, self._welcome)

    def _welcome(self) -> None:
        for _ in range(MOST_CALLERS):
            try:
                connection, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # else the caller has gone again
                if error.errno in _NO_ROOM and not self._make_room():
                    time.sleep(LOOK_S)
                    return
                continue
            self._admit(Line(connection), str(address[0]))

    def _admit(self, line: Line, address: str) -> None:
        """Hear a caller at once, as workers speak at once; where too many wait, the first has to go."""
        caller = Caller(line, address, time.monotonic() + self._patience_s)
        self.callers[caller] = None
        self._ready.register(line.connection, selectors.EVENT_READ, partial(self._hear, caller))
        self._hear(caller)
        if len(self.callers) > MOST_CALLERS:
            self._make_room()

    def _make_room(self) -> bool:
        """Send the first caller away; False if there is none."""
        first = next(iter(self.callers), None)
        if first is not None:
            self.dismiss(first)
        return first is not None

    def _hear(self, caller: Caller) -> None:
        if caller not in self.callers:  # he had to make room a moment ago
            return
        if caller.is_refused:
            if caller.line.has_left():
                self.dismiss(caller)
            return
        try:
            frame = caller.line.receive(0)
        except FrameError as error:
            self.refuse(caller, str(error))
        except (OSError, EOFError):
            self.dismiss(caller)
        else:
            if frame is not None:
                self._greet(caller, frame[0])

    def let_in(self, caller: Caller) -> Line:
        """Return the line of a caller who waits here no longer."""
        del self.callers[caller]
        self._ready.unregister(caller.line.connection)
        return caller.line

    def is_waiting(self, caller: Caller) -> bool:
        """Whether a caller is still here, and has not been refused."""
        return caller in self.callers and not caller.is_refused

    def refuse(self, caller: Caller, why: str) -> None:
        """Tell a caller an error, and wait a moment until he has read it."""
        caller.is_refused = True
        caller.until = time.monotonic() + REFUSAL_S
        caller.line.send({"error": why})
        if caller.line.has_left():
            self.dismiss(caller)

    def dismiss(self, caller: Caller) -> None:
        """Send a caller away without a word."""
        self.let_in(caller).connection.close()

    def dismiss_late(self) -> None:
        """Send away whose time is over."""
        now = time.monotonic()
        for caller in [each for each in self.callers if each.until < now]:
            self.dismiss(caller)

    def close(self) -> None:
        """Accept nobody any more; who waits is told nothing."""
        self._ready.unregister(self._listener)
        self._listener.close()
        for caller in list(self.callers):
            self.dismiss(caller)


def first_frames(
    listener: socket.socket, until: float, timeout_s: float
) -> Generator[tuple[socket.socket, Header], None, None]:
    """Yield callers, each with the header of its first frame, in the order in which these have come whole.

    A silent caller keeps nobody waiting, and is sent away after `timeout_s`. Ends when `time.monotonic` says `until`,
    and closes the listener.
    """
    heard: deque[tuple[socket.socket, Header]] = deque()
    with selectors.DefaultSelector() as ready:
        door = Door(ready, listener, timeout_s, lambda who, said: heard.append((door.let_in(who).connection, said)))
        try:
            while time.monotonic() < until:
                for key, _ in ready.select(LOOK_S):
                    key.data()
                while heard:
                    connection, header = heard.popleft()
                    connection.setblocking(True)
                    yield connection, header
                door.dismiss_late()
        finally:
            door.close()
            for connection, _ in heard:
                connection.close()
