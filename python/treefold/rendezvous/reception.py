"""The reception of a running group: worker 0 goes on listening, and newcomers wait until the group takes them in.

Callers prove that they know the job's word, and show certificates, as when the group formed (see `admission`). One of
another job is refused, and one that dies while it waits is forgotten: the group hears nothing of either. The workers of
the group call, too, so that each has a line to worker 0 over which all meet the newcomers beside their operations.
"""

import selectors
import socket
import ssl
import threading
import time

from treefold.errors import TreefoldError, kind_of
from treefold.rendezvous import validation
from treefold.rendezvous.admission import POLL_S, REFUSAL_S, Admission, Caller
from treefold.rendezvous.door import Door, Line
from treefold.rendezvous.frames import FrameError, FrameStream, Header
from treefold.rendezvous.hub import MAX_BLOB_BYTES
from treefold.rendezvous.tls import is_of_site, not_of_site, site_of

_HELLO_S = 5.0
_OVER = "the group for which this worker waited has ended"
_MOST_WAITING = 1024


class Newcomer:
    """A worker that waits to be taken into a running group."""

    def __init__(self, line: Line, address: str, rank: int | None) -> None:
        self.line, self.address = line, address
        self.rank = rank
        """The RANK with which it was started; None if that is known not to be free."""
        self.name: str | None = None
        self.since_s = time.monotonic()
        self.has_said = self.is_taken = False
        """Whether it has said its name, and whether the group takes it in just now."""
        self.knows_why = False
        """Whether it was told why it waits."""

    def describe(self) -> str:
        """Return what a message calls it."""
        return f"a newcomer at {self.address}" + (f" ({self.name})" if self.name else "")


class Reception:
    """Newcomers and lines of the group's workers, which one thread receives."""

    def __init__(self, listener: socket.socket, door: Door) -> None:
        """Begin to receive callers on a socket that listens."""
        self._ready = selectors.DefaultSelector()
        self._admission = Admission(self._ready, listener, _HELLO_S, door.secret, self._handle_hello, door.credentials)
        self._changed = threading.Condition()
        self._newcomers: list[Newcomer] = []
        self._lines: dict[tuple[str, int], Line] = {}
        """The line of each worker of each group that is expected, by the group's number and the worker's."""
        self._expected: dict[str, int] = {}
        self._leaving: dict[FrameStream, float] = {}
        """The deadlines until which newcomers may read what was said to them last."""
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="treefold-reception", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_closed:
            for key, _ in self._ready.select(POLL_S):
                key.data()
            self._admission.mishaps.clear()
            self._admission.drop_expired()
            with self._changed:
                self._look_after_newcomers()
        with self._changed:
            for newcomer in list(self._newcomers):
                self._send_away(newcomer, TreefoldError(_OVER))
            for line in self._lines.values():
                line.close()
        self._admission.close()
        self._see_off(time.monotonic() + REFUSAL_S)
        self._ready.close()

    def _see_off(self, until: float) -> None:
        """Let newcomers read what was said to them last."""
        while self._leaving and time.monotonic() < until:
            time.sleep(POLL_S / 5)
            self._let_go()
        for stream in self._leaving:
            stream.connection.close()

    # Callers that have proven who they are.

    def _handle_hello(self, caller: Caller, hello: Header) -> None:
        with self._changed:
            group, worker, rank = hello.get("group"), hello.get("member"), hello.get("rank")
            if type(worker) is int and isinstance(group, str):
                self._add_line(caller, group, worker)
            elif type(rank) not in (int, type(None)) or "size" not in hello:
                self._admission.refuse(caller, "this port speaks to workers of treefold only, which say their rank")
            elif len(self._newcomers) >= _MOST_WAITING:
                self._admission.refuse(caller, f"{_MOST_WAITING} workers wait for this group already")
            else:
                stream = self._admission.admit(caller)
                self._newcomers.append(Newcomer(Line(stream, f"a newcomer at {caller.address}"), caller.address, rank))
                stream.send({"runs": True})
            self._changed.notify_all()

    def _add_line(self, caller: Caller, group: str, worker: int) -> None:
        if not 0 < worker < self._expected.get(group, 0):
            self._admission.refuse(caller, "this group is over")
            return
        stream = self._admission.admit(caller)
        stream.send({"welcome": True})
        if (earlier := self._lines.pop((group, worker), None)) is not None:
            earlier.close()
        self._lines[group, worker] = Line(stream, f"worker {worker}")

    def _look_after_newcomers(self) -> None:
        """Hear the names of newcomers, and forget those that are gone."""
        self._let_go()
        for newcomer in [each for each in self._newcomers if not each.is_taken]:
            try:
                frame = newcomer.line.stream.receive(MAX_BLOB_BYTES if newcomer.has_said else 0)
                if frame is not None:
                    self._hear(newcomer, frame[0])
            except FrameError as error:
                self._send_away(newcomer, TreefoldError(str(error)))
            except (OSError, EOFError):
                self._newcomers.remove(newcomer)
                newcomer.line.close()

    def _hear(self, newcomer: Newcomer, said: Header) -> None:
        if newcomer.has_said and "meet" in said:
            return  # it is of a group that did not form
        name, connection = said.get("name"), newcomer.line.stream.connection
        if newcomer.has_said or "name" not in said or not (name is None or validation.is_name(name)):
            raise FrameError("this port speaks to workers of treefold only, which say their name once")
        if isinstance(connection, ssl.SSLSocket):
            site = site_of(connection)
            if site is None or name is None or not is_of_site(name, site):
                raise FrameError(f"this worker {not_of_site(name, site)}")
        newcomer.name, newcomer.has_said = name, True
        newcomer.line.who = newcomer.describe()
        self._changed.notify_all()

    def _send_away(self, newcomer: Newcomer, why: TreefoldError) -> None:
        self._say_last(newcomer, {"error": str(why), "kind": kind_of(why)})

    def _say_last(self, newcomer: Newcomer, header: Header) -> None:
        """Send a newcomer the last frame, and give it a moment to read it."""
        if newcomer in self._newcomers:
            self._newcomers.remove(newcomer)
        newcomer.line.stream.send(header)
        self._leaving[newcomer.line.stream] = time.monotonic() + REFUSAL_S
        self._let_go()

    def _let_go(self) -> None:
        now = time.monotonic()
        for stream, until in list(self._leaving.items()):
            if stream.finish() or until < now:
                del self._leaving[stream]
                stream.connection.close()

    # What worker 0's group asks for.

    def take(self, timeout_s: float) -> list[Newcomer]:
        """Return the newcomers that wait, if some come within a time; they are this caller's until it gives them back.

        Args:
            timeout_s: How long to wait for the first one.

        """
        with self._changed:
            self._changed.wait_for(self._waiting, timeout_s)
            waiting = self._waiting()
            for newcomer in waiting:
                newcomer.is_taken = True
            return waiting

    def _waiting(self) -> list[Newcomer]:
        return [each for each in self._newcomers if each.has_said and not each.is_taken]

    def give_back(self, newcomer: Newcomer) -> None:
        """Let a newcomer wait again."""
        with self._changed:
            newcomer.line = Line(newcomer.line.stream, newcomer.describe())  # the last one may have been ended
            newcomer.is_taken = False

    def explain(self, newcomer: Newcomer, why: TreefoldError) -> None:
        """Tell a newcomer once why it waits."""
        with self._changed:
            if not newcomer.knows_why:
                newcomer.knows_why = True
                newcomer.line.stream.send({"waits": str(why)})

    def refuse(self, newcomer: Newcomer, why: TreefoldError) -> None:
        """Send a newcomer away, and tell it why."""
        with self._changed:
            self._send_away(newcomer, why)

    def let_in(self, newcomer: Newcomer) -> None:
        """Tell a newcomer that the group has taken it in, and let it go."""
        with self._changed:
            self._say_last(newcomer, {"go": True})

    def expect(self, group: str, size: int) -> None:
        """Accept lines of the workers of a group of this number."""
        with self._changed:
            self._expected[group] = size

    def lines(self, group: str, timeout_s: float) -> list[Line] | None:
        """Return the lines of a group's workers, from worker 1 on; None if not all come in time, or it is dismissed."""
        with self._changed:
            self._changed.wait_for(lambda: group not in self._expected or self._are_there(group), timeout_s)
            return [self._lines[key] for key in self._keys(group)] if self._are_there(group) else None

    def _keys(self, group: str) -> list[tuple[str, int]]:
        return [(group, worker) for worker in range(1, self._expected[group])]

    def _are_there(self, group: str) -> bool:
        return group in self._expected and all(key in self._lines for key in self._keys(group))

    def has_lines(self, group: str) -> bool:
        """Return whether all workers of a group seem to be there."""
        lines = self.lines(group, 0)
        return lines is not None and all(line.seems_open() for line in lines)

    def dismiss(self, group: str) -> None:
        """Close the lines of a group, and accept no more of them."""
        with self._changed:
            self._expected.pop(group, None)
            for key in [key for key in self._lines if key[0] == group]:
                self._lines.pop(key).close()
            self._changed.notify_all()

    def close(self) -> None:
        """Listen no more, and send all away who wait; it may be called again."""
        self._is_closed = True
        self._thread.join()
