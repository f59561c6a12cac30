"""When a rank is lost: the others meet over the connections that they still have, and form a new group."""

import base64
import json
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from treefold import verbs
from treefold._core import Mesh, Topology
from treefold.errors import TreefoldError
from treefold.workers.group import Group, RankLostError, join
from treefold.workers.rendezvous import Rendezvous

_BEAT_S = 0.05
_SETTLE_S = 1.0
"""How long to listen for further losses: those that share a machine die within moments."""


def regroup(group: Group, lost: RankLostError, timeout_s: float = 30.0) -> Group:
    """Return a group of the workers that are left, in their old order; the old group is closed.

    All that are left have to call this. The network is taken to be as it was: the machines of lost ranks may still pass
    data on, but are ranks no more.

    Args:
        group: The group that has lost ranks, over TCP.
        lost: The error that told so.
        timeout_s: How long to wait for the others.

    Raises:
        RankLostError: If more are lost: the old group stays, and those who are left may try again with this error.
        TreefoldError: If this worker itself is held for lost, or too few are left.

    """
    if group.mesh is None:
        raise TreefoldError("only a group over TCP can form a new one of those who are left; start the others again")
    group.rest()
    survivors = _Survivors(group, group.mesh, lost.ranks)
    survivors.agree(timeout_s)
    try:
        meeting = survivors.meeting(timeout_s)
        adapt = group.controller is not None
        return join(meeting, network=_without(group, survivors.left), patience=group.patience, adapt=adapt)
    finally:
        group.close()


def _without(group: Group, left: list[int]) -> Topology:
    """Return the network with only these workers as ranks."""
    ranks = sorted(group.seats.rank_of_worker[worker] for worker in left)
    topology = group.plan.topology
    return verbs.topology(json.loads(topology.to_json()), ranks=[topology.rank_names[rank] for rank in ranks])


class _Survivors:
    """Who is left of a group, and what they say to each other over the connections that are left, or new ones."""

    def __init__(self, group: Group, mesh: Mesh, lost: Iterable[int]) -> None:
        self.group, self.mesh = group, mesh
        self.lost = set(lost)
        self.lost_to: dict[int, set[int]] = {}
        """By worker: whom it misses."""
        self.rounds: dict[int, dict[int, bytes]] = defaultdict(dict)

    @property
    def left(self) -> list[int]:
        """Workers that are not known to be lost."""
        return [worker for worker in range(self.group.size) if worker not in self.lost]

    def agree(self, timeout_s: float) -> None:
        """Come to know the same losses as all others who are left; those die in twos who share a machine."""
        self._listen_for(_SETTLE_S)
        if self.group.worker in self.lost:
            raise TreefoldError("the others hold this worker for lost; start it again to join a new group")
        self._connect(timeout_s)
        said: set[int] = set()
        end = time.monotonic() + timeout_s
        while absent := [each for each in self.left if self.lost_to.get(each) != self.lost]:
            if said != self.lost:
                said = set(self.lost)
                self.lost_to[self.group.worker] = said
                self.tell("lost", lost=sorted(said))
            if time.monotonic() > end:
                raise self._missing(absent)
            self._listen()

    def _connect(self, timeout_s: float) -> None:
        """Connect to all who are left: the connections of a plan may all have led over who is lost."""
        ranks = [self.group.seats.rank_of_worker[worker] for worker in self.left if worker != self.group.worker]
        self.group.connect_to(ranks, timeout_s)

    def meeting(self, timeout_s: float) -> Rendezvous:
        """Return a rendezvous of those who are left."""
        number = 0

        def gather(blob: bytes) -> list[bytes]:
            nonlocal number
            came = self.rounds[number]
            came[self.group.worker] = blob
            self.tell("meet", round=number, blob=base64.b64encode(blob).decode())
            end = time.monotonic() + timeout_s
            while absent := [worker for worker in left if worker not in came]:
                if time.monotonic() > end:
                    raise self._missing(absent)
                self._listen()
            number += 1
            return [came[worker] for worker in left]

        left, group = self.left, self.group
        name = group.seats.names[group.rank] if group.seats.by_name else None
        address = self.mesh.address.rpartition(":")[0].strip("[]")
        return Rendezvous(left.index(group.worker), len(left), name, gather, lambda: None, address)

    def tell(self, kind: str, **words: Any) -> None:
        """Say something to all."""
        self.mesh.tell(json.dumps({"kind": kind, **words}).encode())

    def _missing(self, workers: list[int]) -> RankLostError:
        names = ", ".join(f"rank {worker}" for worker in workers)
        return RankLostError(f"{names} did not come to the new group", sorted({*self.lost, *workers}))

    def _listen_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._listen()

    def _listen(self) -> None:
        self.mesh.idle(_BEAT_S)
        worker_of_rank = self.group.seats.worker_of_rank
        self.lost |= {worker_of_rank[rank] for rank in self.mesh.lost}
        for origin, said in self.group.words():
            worker = worker_of_rank[origin]
            if said["kind"] == "lost":
                self.lost_to[worker] = set(said["lost"])
                self.lost |= self.lost_to[worker]
            elif said["kind"] == "meet":
                self.rounds[said["round"]][worker] = base64.b64decode(said["blob"])
