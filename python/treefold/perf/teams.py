"""A team runs operations for the ranks whose vectors this process holds: one of a group, or all of them as threads."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple, Protocol

import numpy as np

from treefold._core import Plan, Recording
from treefold.errors import TreefoldError
from treefold.runtime import clocks, threads
from treefold.runtime.arrays import wire_for
from treefold.runtime.clocks import Clock
from treefold.runtime.group import Group
from treefold.runtime.recordings import Times
from treefold.runtime.tcp import TcpTransport
from treefold.runtime.threads import Array


class Kind(NamedTuple):
    """The numbers of an operation."""

    op: str
    """The operator that reduces them."""
    number: str
    """Their type."""
    wire: str | None = None
    """The type in which they cross lines; None if they cross as they are."""


class Team(Protocol):
    """Runs operations; ranks are the plan's."""

    @property
    def ranks(self) -> Sequence[int]:
        """The ranks whose vectors this process holds."""

    def run(self, plan: Plan, vectors: list[Array], kind: Kind, results: list[Array], elements: int) -> None:
        """Run an operation on these ranks' vectors, in place; `results` takes what does not end there.

        The longest vector of all ranks has so many `elements`.
        """

    def exchange(self, blob: bytes) -> list[bytes]:
        """Return the blobs of all processes."""

    @property
    def is_first(self) -> bool:
        """Whether this process keeps what all have measured."""

    @property
    def message_s(self) -> float:
        """The cost of a message besides its bytes, as in `Transport`."""

    def recorded(self, recordings: list[Recording]) -> AbstractContextManager[None]:
        """Record when messages leave and come, for each of these ranks in its recording; the last operation is kept."""

    def clock(self) -> Clock:
        """Return this process's clock beside that of rank 0; all processes call this together."""

    def add_up(self, times: Times, all_reduce: Plan) -> None:
        """Add up the times of all processes, in place."""


class GroupTeam(NamedTuple):
    """One rank of a group."""

    group: Group
    exchange: Callable[[bytes], list[bytes]]

    @property
    def ranks(self) -> Sequence[int]:
        """The rank of this worker."""
        return [self.group.rank]

    def run(self, plan: Plan, vectors: list[Array], kind: Kind, results: list[Array], elements: int) -> None:
        """Run an operation with the group."""
        result = results[0] if results else None
        self.group.run(plan, vectors[0], kind.op, kind.number, result, elements, kind.wire)

    @property
    def is_first(self) -> bool:
        """Whether this is worker 0."""
        return self.group.worker == 0

    @property
    def message_s(self) -> float:
        """The cost of a message besides its bytes."""
        return self.group.transport.message_s

    def recorded(self, recordings: list[Recording]) -> AbstractContextManager[None]:
        """Record when messages of this rank leave and come."""
        return self._tcp().recorded(recordings[0])

    def _tcp(self) -> TcpTransport:
        """Return the transport, which must be the one that can record."""
        if isinstance(self.group.transport, TcpTransport):
            return self.group.transport
        raise TreefoldError("MPI and torch tell no times of messages; run over transport='tcp' to record them")

    def clock(self) -> Clock:
        """Return this rank's clock beside that of rank 0."""
        return clocks.compare(self.group, self._tcp())

    def add_up(self, times: Times, all_reduce: Plan) -> None:
        """Add up the times of all ranks, in place."""
        self.group.run(all_reduce, times)


class ThreadTeam:
    """All ranks, as threads of this process."""

    def __init__(self, ranks: int) -> None:
        self.ranks: Sequence[int] = range(ranks)
        self.is_first = True
        self.message_s = threads.MESSAGE_OVERHEAD_S
        self._recordings: list[Recording] | None = None

    def run(self, plan: Plan, vectors: list[Array], kind: Kind, results: list[Array], elements: int) -> None:
        """Run an operation with a thread for each rank; one of them has the longest vector."""
        wire = wire_for(kind.wire, kind.number)
        pieces_of_rank = threads.execute(plan, vectors, kind.op, kind.number, self._recordings, wire)
        for result, pieces in zip(results, pieces_of_rank, strict=False):
            np.concatenate(pieces, out=result)

    def exchange(self, blob: bytes) -> list[bytes]:
        """Return this process's blob, which is the only one."""
        return [blob]

    @contextmanager
    def recorded(self, recordings: list[Recording]) -> Iterator[None]:
        """Record when messages leave and come between the threads."""
        self._recordings = recordings
        try:
            yield
        finally:
            self._recordings = None

    def clock(self) -> Clock:
        """Return this process's clock, which is that of all ranks."""
        return Clock()

    def add_up(self, times: Times, all_reduce: Plan) -> None:
        """Do nothing: this process has the times of all ranks."""
