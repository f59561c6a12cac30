"""One worker's part in taking newcomers into its group, and how they and the group's workers form the next one."""

import logging
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from treefold._core import Plan
from treefold.errors import PeerError, TreefoldError
from treefold.rendezvous import Rendezvous, challenge, validation
from treefold.rendezvous.door import Door, Line, blobs_of, call
from treefold.rendezvous.frames import FrameError, Header
from treefold.rendezvous.hub import MAX_BLOB_BYTES
from treefold.rendezvous.meeting import MOST_WORKERS
from treefold.rendezvous.reception import Reception
from treefold.runtime import control
from treefold.runtime.agreement import AgreedPlans, shared_plan
from treefold.runtime.connections import Connections
from treefold.runtime.forming import form
from treefold.runtime.group import Group
from treefold.runtime.tcp import TcpTransport

ROUND_S = 60.0
"""How long a worker may be silent while a group forms."""
CALL_S = 10.0
RETRY_S = 0.5
LOG = logging.getLogger("treefold")

_PLACE: dict[str, validation.Schema] = {
    "number": challenge.is_number,
    "rank": validation.is_count,
    "size": lambda value: validation.is_count(value) and 0 < value <= MOST_WORKERS,
    "name": lambda value: value is None or validation.is_name(value),
    "adapt": lambda value: value in (False, True, "auto"),
}
"""The schema of the place that worker 0 gives a worker in a group that forms."""
_TERMS: dict[str, validation.Schema] = {"number": str, "first": str, "is_assumed": bool}


class Terms(NamedTuple):
    """What all workers of an open group know."""

    number: str
    """A random number that tells this group from others."""
    first: Plan
    """The plan with which the workers formed a group first."""
    is_assumed: bool
    """Whether nobody gave a network."""


class Formed(NamedTuple):
    """A group with newcomers that is complete, and what its workers know."""

    group: Group
    terms: Terms


def agreed_terms(meeting: Rendezvous, own: Terms) -> Terms:
    """Return worker 0's terms."""
    offer = {"number": own.number, "first": "" if meeting.rank else own.first.to_json(), "is_assumed": own.is_assumed}
    told, *_ = validation.exchange(meeting.exchange, offer, _TERMS)
    first = own.first if meeting.rank == 0 else control.read_plan("worker 0", told["first"])
    return Terms(told["number"], first, told["is_assumed"])


def formed(
    meeting: Rendezvous, connections: Connections, adapt: bool | str, offer: Terms | None, plan: Plan | None
) -> Formed:
    """Form a group with newcomers over the lines to worker 0, which has the plan and makes the offer."""
    agreed = AgreedPlans(shared_plan(meeting, plan))
    group = form(meeting, agreed, connections, adapt=adapt)
    try:
        terms = agreed_terms(meeting, offer or Terms("", group.plan, False))
        meeting.exchange(b"")
    except BaseException:
        group.close()
        raise
    return Formed(group, terms)


def meeting_over(line: Line, given: Any, base: Rendezvous) -> tuple[Rendezvous, bool | str]:
    """Return a rendezvous of the workers that form a group, over the line to worker 0, and whether the plan adapts."""
    validation.check("worker 0", given, _PLACE)
    number, size = given["number"], given["size"]

    def gather(blob: bytes) -> list[bytes]:
        line.send({"meet": number}, blob, ROUND_S)
        while True:
            header, body = line.receive(size * MAX_BLOB_BYTES, 2 * ROUND_S)
            if "drop" in header:
                raise PeerError("worker 0 gave up the group with the newcomers")
            if header.get("meet") == number:
                return _blobs(header, body, size)

    place = replace(base, rank=given["rank"], size=size, name=given["name"], _gather=gather, _close=lambda: None)
    place._line, place._timeout_s = None, ROUND_S
    return place, given["adapt"]


def tcp_of(group: Group) -> TcpTransport:
    """Return the transport of a group that is open to newcomers."""
    assert isinstance(group.transport, TcpTransport)
    return group.transport


def _blobs(header: Header, body: bytes, size: int) -> list[bytes]:
    try:
        return blobs_of(body, header.get("bytes"), size)
    except FrameError as error:
        raise validation.unexpected("worker 0", str(error)) from None


class Membership:
    """One worker's part in taking newcomers into its group; this one takes in nobody."""

    def __init__(self, group: Group, terms: Terms, door: Door) -> None:
        """Hold the part of `group`'s worker; `begin` begins it."""
        self.group, self.terms, self.door = group, terms, door
        self._transport = tcp_of(group)
        self._predecessor: Group | None = None
        """The group from which all have come, until they have."""
        self._after: int | None = None
        """After how many all-reduces all go over to the next group."""
        self._changed = threading.Condition()
        self._next: Formed | None = None
        """The next group, which is complete."""
        self._has_switched = self._is_closed = False

    def begin(self, predecessor: Group | None = None) -> None:
        """Begin to take in newcomers, in the place of another group."""
        self._predecessor = predecessor
        threading.Thread(target=self._run, name="treefold-newcomers", daemon=True).start()

    def _run(self) -> None:
        """Take part in forming groups with newcomers."""

    def admit(self) -> Group:
        """Do what the function `admit` says."""
        self.group.check_open()
        self.group.settle()
        if self._predecessor is not None and self.group.begun:
            self._see_off()
        self._hear()
        self._announce()
        return self.caught_up()

    def _see_off(self) -> None:
        """Close the group before this one, from which all have come."""
        if self._predecessor is not None:
            threading.Thread(target=self._predecessor.close, name="treefold-close", daemon=True).start()
            self._predecessor = None

    def _hear(self) -> None:
        """Hear when all go over to the next group, if worker 0 has said so."""
        messages = self.group.messages()
        self.group.keep([message for message in messages if message.fields["kind"] != "admit"])
        for message in messages:
            if message.fields["kind"] == "admit":
                self._after = message.fields["after"]

    def _announce(self) -> None:
        """Say when all go over to the next group, as worker 0."""

    def caught_up(self) -> Group:
        """Return the next group if all have gone over to it or do so now, else this one."""
        self._hear()
        if self._after is None or self.group.begun < self._after or self._has_switched:
            return self.group
        with self._changed:
            self._changed.wait_for(lambda: self._next is not None, ROUND_S)
            following, self._next = self._next, None
            if following is None:
                raise TreefoldError("the group with the newcomers is not complete here; start this worker again")
            self._has_switched = True
            self._let_in()
            self._changed.notify_all()
        self.group.succeed()
        membership = self._successor(following)
        membership.begin(self.group)
        following.group.membership = membership
        return following.group

    def _let_in(self) -> None:
        """Tell the newcomers that they are in, as worker 0."""

    def _successor(self, following: Formed) -> "Membership":
        """Return this worker's membership in the next group."""
        return type(self)(following.group, following.terms, self.door)

    def _offer(self, following: Formed | None) -> bool:
        """Keep a group that is complete, or forget the one that was, as it fails; return whether it is kept."""
        with self._changed:
            is_late = self._is_closed or self._has_switched
            old, self._next = (following, self._next) if is_late else (self._next, following)
            if self._is_closed:
                old, self._next = old or self._next, None
            self._changed.notify_all()
        if old is not None:
            old.group.close()
        return not is_late

    def retire(self) -> None:
        """Take in nobody any more."""
        self._is_closed = True
        self._offer(None)

    def reception(self) -> Reception | None:
        """Return where newcomers call, if this is worker 0, which keeps it no longer."""
        return None

    def close(self) -> None:
        """Leave the group; newcomers that wait for it are sent away."""
        self.retire()
        if self._predecessor is not None:
            self._predecessor.close()
        if (reception := self.reception()) is not None:
            reception.close()


class Member(Membership):
    """The part of a worker other than worker 0: it forms groups when worker 0 says so."""

    _line: Line | None = None

    def _run(self) -> None:
        hello = {"member": self.group.worker, "group": self.terms.number}
        while not self._is_closed:
            try:
                self._line = call(self.door, hello, CALL_S)
                self._serve(self._line)
            except TreefoldError as error:
                LOG.debug("the line to worker 0: %s", error)
            finally:
                if self._line is not None:
                    self._line.close()
            time.sleep(RETRY_S)

    def _serve(self, line: Line) -> None:
        """Form a group whenever worker 0 says so, until the line ends."""
        while not self._is_closed:
            header, _ = line.receive(MAX_BLOB_BYTES)
            if "form" in header:
                meeting, adapt = meeting_over(line, header["form"], self._transport.meeting)
                with suppress(TreefoldError):  # worker 0 has an error, too, and says how it goes on
                    self._offer(formed(meeting, self._transport.connections, adapt, None, None))
            elif "drop" in header:
                self._offer(None)

    def retire(self) -> None:
        """Take in nobody any more."""
        super().retire()
        if self._line is not None:
            self._line.end()
