"""Worker 0's part in taking newcomers into its group: it plans for them, and leads the others."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from treefold.errors import MisfitError, PeerError, TreefoldError
from treefold.plans import replan
from treefold.rendezvous import Rendezvous, challenge
from treefold.rendezvous.door import Door, Line
from treefold.rendezvous.hub import MAX_BLOB_BYTES
from treefold.rendezvous.reception import Newcomer, Reception
from treefold.runtime.adaptive import AdaptiveGroup
from treefold.runtime.group import Group
from treefold.runtime.membership import CALL_S, LOG, RETRY_S, ROUND_S, Formed, Membership, Terms, formed, tcp_of
from treefold.runtime.newcomers import Places

_POLL_S = 0.2
_TOGETHER_S = 0.2
"""How long the first newcomer waits for others that come with it."""
_PATIENCE_S = 10.0
"""How long a newcomer waits at least for a place that may become free, as the group loses a worker later than it."""


class Host(Membership):
    """Worker 0's part: it lets newcomers wait, plans for them, and says when all go over to the group with them."""

    def __init__(self, group: Group, terms: Terms, door: Door, reception: Reception) -> None:
        """Hold the part of worker 0, whose newcomers wait at the reception."""
        super().__init__(group, terms, door)
        self._reception = reception
        reception.expect(terms.number, group.size)
        self._owns_reception, self._takes_one = True, False
        """Whether newcomers wait for this group, and whether it takes one at a time, as several did not come in."""
        self._newcomers: list[Newcomer] = []
        """The newcomers that the next group takes in."""
        self._lines: list[Line] = []
        """The lines to all other workers of a group that forms."""

    def _run(self) -> None:
        while not (self._is_closed or self._has_switched):
            if newcomers := self._reception.take(_POLL_S):
                try:
                    time.sleep(_TOGETHER_S)
                    newcomers += self._reception.take(0)
                    self._take_in(newcomers[:1] if self._takes_one else newcomers)
                finally:  # those who have not come in and were not refused wait again, for whoever is worker 0 then
                    self._give_back(newcomers)

    def _take_in(self, newcomers: list[Newcomer]) -> None:
        """Form a group with those newcomers for whom there is a place; return when it is in use, or given up."""
        places, newcomers = self._placed(newcomers)
        members = self._reception.lines(self.terms.number, CALL_S) if newcomers else None
        if members is None:
            return
        self._newcomers = newcomers
        self._lines = [*members, *(newcomer.line for newcomer in newcomers)]
        if (following := self._formed(places)) is not None and self._offer(following):
            with self._changed:
                self._changed.wait_for(lambda: self._next is None)
        if not self._has_switched:
            self._drop()

    def _placed(self, newcomers: list[Newcomer]) -> tuple[Places, list[Newcomer]]:
        """Return the places of all, and the newcomers that have one; the others are refused."""
        mapping, placed = self.group.mapping, list[Newcomer]()
        nodes = tuple(mapping.names[rank] for rank in mapping.rank_of_worker)
        networks = self.group.plan.topology, self.terms.first.topology
        places = Places(nodes, mapping.by_name, *networks, self.terms.is_assumed)
        for newcomer in newcomers:
            try:
                places = places.with_newcomer(newcomer.name, newcomer.rank)
                placed.append(newcomer)
            except TreefoldError as error:
                if isinstance(error, MisfitError) and self._may_lose_one(newcomer):
                    self._let_wait(newcomer, error)
                else:
                    self._refuse(newcomer, error)
        return places, placed

    def _may_lose_one(self, newcomer: Newcomer) -> bool:
        """Return whether the group may have lost a worker, whose place is then free, and not have noticed yet."""
        is_patient = time.monotonic() < newcomer.since_s + _PATIENCE_S
        return is_patient or bool(self._transport.lost) or not self._reception.has_lines(self.terms.number)

    def _let_wait(self, newcomer: Newcomer, why: TreefoldError) -> None:
        if not newcomer.knows_why:
            LOG.info("%s waits: %s", newcomer.describe(), why)
            self._reception.explain(newcomer, why)

    def _refuse(self, newcomer: Newcomer, why: TreefoldError) -> None:
        LOG.warning("%s does not come into the group: %s", newcomer.describe(), why)
        self._reception.refuse(newcomer, why)

    def _give_back(self, newcomers: list[Newcomer]) -> None:
        for newcomer in newcomers:
            self._reception.give_back(newcomer)

    def _formed(self, places: Places) -> Formed | None:
        """Return the group with the newcomers; None if it fails, after whoever is to blame has been sent away."""
        group, failed = self.group, list[Line]()
        adapt = group.adapt if isinstance(group, AdaptiveGroup) else False
        try:
            plan = replan(self.terms.first, places.network()).plan
            meeting = self._meeting(places, adapt, failed)
            offer = self.terms._replace(number=challenge.number())
            return formed(meeting, self._transport.connections, adapt, offer, plan)
        except TreefoldError as error:
            self._blame(failed, error)
            return None

    def _blame(self, failed: list[Line], error: TreefoldError) -> None:
        """Send away the newcomers because of which a group could not form: the one that is gone, or all of them."""
        if self._is_closed or (failed and failed[0] not in [newcomer.line for newcomer in self._newcomers]):
            LOG.info("newcomers wait, as the group with them did not form: %s", error)
            return
        if not failed and len(self._newcomers) > 1:
            self._takes_one = True
            return
        for newcomer in list(self._newcomers):
            if not failed or newcomer.line in failed:
                self._newcomers.remove(newcomer)
                self._refuse(newcomer, error)

    def _meeting(self, places: Places, adapt: bool | str, failed: list[Line]) -> Rendezvous:
        """Return worker 0's rendezvous with all others of a group that forms; lines that fail are put into `failed`."""
        number, size = challenge.number(), len(self._lines) + 1

        def to_all(act: Callable[[int, Line], bytes]) -> list[bytes]:
            blobs = []
            for worker, line in enumerate(self._lines, 1):
                try:
                    blobs.append(act(worker, line))
                except TreefoldError:
                    failed.append(line)
                    raise
            return blobs

        def place(worker: int, line: Line) -> bytes:
            own = {"number": number, "rank": worker, "size": size, "name": places.names()[worker], "adapt": adapt}
            line.send({"form": own}, timeout_s=ROUND_S)
            return b""

        def gather(blob: bytes) -> list[bytes]:
            blobs = [blob, *to_all(lambda _, line: self._blob(line, number))]
            header, body = {"meet": number, "bytes": [len(each) for each in blobs]}, b"".join(blobs)

            def give(_: int, line: Line) -> bytes:
                line.send(header, body, ROUND_S)
                return b""

            to_all(give)
            return blobs

        to_all(place)
        meeting = replace(self._transport.meeting, rank=0, size=size, name=places.names()[0], _timeout_s=ROUND_S)
        return replace(meeting, _gather=gather, _close=lambda: None)

    def _blob(self, line: Line, number: str) -> bytes:
        """Return the next blob of a worker for the group of this number that forms."""
        while True:
            if self._is_closed:
                raise PeerError("worker 0 has left the group")
            header, blob = line.receive(MAX_BLOB_BYTES, ROUND_S)
            if header.get("meet") == number:
                return blob

    def _drop(self) -> None:
        """Give up the group that formed; the newcomers wait for another one."""
        for line in self._lines:
            with suppress(TreefoldError):
                line.send({"drop": "worker 0 gave up the group with the newcomers"}, timeout_s=CALL_S)
        self._newcomers, self._lines = [], []
        if not self._is_closed:
            time.sleep(RETRY_S)

    def _announce(self) -> None:
        following = self._next
        if following is None or self._after is not None:
            return
        if tcp_of(following.group).lost:
            LOG.warning("a worker that was to come into the group is gone; the group goes on without it")
            self._offer(None)
            return
        self._after = self.group.begun + 1
        self._transport.broadcast("admit", after=self._after)

    def _let_in(self) -> None:
        for newcomer in self._newcomers:
            self._reception.let_in(newcomer)

    def _successor(self, following: Formed) -> "Host":
        self._owns_reception = False
        return Host(following.group, following.terms, self.door, self._reception)

    def retire(self) -> None:
        """Take in nobody any more."""
        super().retire()
        for line in self._lines:
            line.end()
        self._reception.dismiss(self.terms.number)

    def reception(self) -> Reception | None:
        """Return where newcomers call, which is this worker's no longer; None if another group has it."""
        owned, self._owns_reception = self._owns_reception, False
        return self._reception if owned else None
