"""When a worker is lost, the others meet over the connections that they still have, and form a new group."""

import base64
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from treefold._core import Plan
from treefold.errors import TreefoldError
from treefold.plans import replan
from treefold.rendezvous import Rendezvous
from treefold.rendezvous.meeting import all_or_none
from treefold.runtime.adaptive import AdaptiveGroup
from treefold.runtime.admitting import reopen, retired
from treefold.runtime.agreement import AgreedPlans, check_options, shared_plan
from treefold.runtime.faults import RankLostError
from treefold.runtime.forming import form
from treefold.runtime.group import Group
from treefold.runtime.networks import with_only
from treefold.runtime.tcp import CONNECT_S, TcpTransport

_POLL_S = 0.05
_SETTLE_S = 1.0
"""How long to wait for further losses, because ranks that share a machine die within moments."""


def regroup(group: Group, lost: RankLostError, timeout_s: float = 30.0, **options: Any) -> Group:
    """Return a group of the workers that are left, in their old order; the old group is closed.

    All workers that are left call this together. The network is assumed to be as it was: the machines of lost workers
    may still relay data. `connections` and `adapt` are the old group's. The plan is made by `treefold.replan` from the
    old one, and keeps its algorithm, options and size unless the arguments change them.

    Args:
        group: The group that has lost workers; it works over TCP.
        lost: The error that said so.
        timeout_s: How many seconds to wait for the others.
        options: The arguments of `treefold.replan` that make the new plan: `size_bytes`, `algorithm`, and fields of
            `treefold.PlannerOptions`.

    Returns:
        The new group, in which workers are numbered from 0 again.

    Raises:
        RankLostError: If more workers are lost. The old group stays open; call `regroup` again with this error.
        TreefoldError: If the group does not work over TCP, the others take this worker itself for lost, or an option is
            unknown.

    Example:
        >>> import numpy as np
        >>> from treefold import runtime
        >>> def work(group):
        ...     if group.worker == 1:
        ...         return "gone"
        ...     try:
        ...         group.all_reduce(np.ones(2))
        ...     except runtime.RankLostError as lost:
        ...         group = runtime.regroup(group, lost)
        ...     group.all_reduce(array := np.ones(2))
        ...     group.close()
        ...     return array.tolist()
        >>> runtime.in_threads(3, work)
        [[2.0, 2.0], 'gone', [2.0, 2.0]]

    """
    check_options({name: value for name, value in options.items() if name != "size_bytes"})
    group = retired(group)
    transport = group.transport
    if not isinstance(transport, TcpTransport):
        raise TreefoldError("only a group over TCP can form a new one of those who are left; start the others again")
    transport.rest()
    survivors = _Survivors(group, transport, lost.workers)
    survivors.agree(timeout_s)
    transport.serve()  # two that are not connected hear each other through this worker, also while it is at work
    try:
        meeting = survivors.meeting(timeout_s)
        plan = all_or_none(meeting, lambda: _plan_of(group, survivors.left, options) if meeting.rank == 0 else None)
        adapt = group.adapt if isinstance(group, AdaptiveGroup) else False
        new = form(meeting, AgreedPlans(shared_plan(meeting, plan)), transport.connections, adapt=adapt)
        if group.membership is not None:
            reopen(meeting, new, group.membership)
        return new
    finally:
        group.close()


def _plan_of(group: Group, left: list[int], options: Mapping[str, Any]) -> Plan:
    """Return the plan for a network that has only these workers as ranks."""
    network = with_only(group.plan.topology, sorted(group.mapping.rank_of_worker[worker] for worker in left))
    return replan(group.plan, network, **options).plan


class _Survivors:
    """The workers that are left of a group, and what they tell each other over old connections and new ones."""

    def __init__(self, group: Group, transport: TcpTransport, lost: Iterable[int]) -> None:
        self.group, self.transport = group, transport
        self.lost = set(lost)
        self.lost_to: dict[int, set[int]] = {}
        """The workers that each worker misses."""
        self.rounds: dict[int, dict[int, bytes]] = defaultdict(dict)
        """The blobs of each round of the rendezvous, by worker."""

    @property
    def left(self) -> list[int]:
        """The workers that are not known to be lost."""
        return [worker for worker in range(self.group.size) if worker not in self.lost]

    def agree(self, timeout_s: float) -> None:
        """Agree on the losses with all others that are left."""
        self._receive_for(_SETTLE_S)
        if self.group.worker in self.lost:
            raise TreefoldError("the others hold this worker for lost; start it again to join a new group")
        self._connect(timeout_s)
        announced: set[int] = set()
        end = time.monotonic() + timeout_s
        while absent := [worker for worker in self.left if self.lost_to.get(worker) != self.lost]:
            if announced != self.lost:
                announced = set(self.lost)
                self.lost_to[self.group.worker] = announced
                self.transport.broadcast("lost", lost=sorted(announced))
            if time.monotonic() > end:
                raise self._missing(absent)
            self._receive()

    def _connect(self, timeout_s: float) -> None:
        """Connect to all that are left, because all connections of a plan may have led to a lost rank."""
        rank_of_worker = self.group.mapping.rank_of_worker
        ranks = [rank_of_worker[worker] for worker in self.left if worker != self.group.worker]
        # Who is not reached, because a firewall is between, is told by the others.
        self.transport.connect_to(ranks, min(timeout_s, CONNECT_S))

    def meeting(self, timeout_s: float) -> Rendezvous:
        """Return a rendezvous of the workers that are left."""
        left, group, number = self.left, self.group, 0

        def gather(blob: bytes) -> list[bytes]:
            nonlocal number
            blobs = self.rounds[number]
            blobs[group.worker] = blob
            self.transport.broadcast("meet", round=number, blob=base64.b64encode(blob).decode())
            end = time.monotonic() + timeout_s
            while absent := [worker for worker in left if worker not in blobs]:
                if time.monotonic() > end:
                    raise self._missing(absent)
                self._receive()
            number += 1
            return [blobs[worker] for worker in left]

        name = group.mapping.names[group.rank] if group.mapping.by_name else None
        place = replace(self.transport.meeting, rank=left.index(group.worker), size=len(left), name=name)
        return replace(place, _gather=gather, _close=lambda: None, _timeout_s=timeout_s)

    def _missing(self, workers: list[int]) -> RankLostError:
        names = ", ".join(f"worker {worker}" for worker in workers)
        return RankLostError(f"{names} did not come to the new group", sorted({*self.lost, *workers}))

    def _receive_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._receive()

    def _receive(self) -> None:
        """Handle what has come within a moment: losses, and blobs of the rendezvous."""
        self.transport.idle(_POLL_S)
        worker_of_rank = self.group.mapping.worker_of_rank
        self.lost |= {worker_of_rank[rank] for rank in self.transport.lost}
        for sender, fields in self.group.messages():
            self._handle(worker_of_rank[sender], fields)

    def _handle(self, worker: int, fields: dict[str, Any]) -> None:
        if fields["kind"] == "lost":
            self.lost_to[worker] = set(fields["lost"])
            self.lost |= self.lost_to[worker]
        elif fields["kind"] == "meet":
            self.rounds[fields["round"]][worker] = base64.b64decode(fields["blob"])
