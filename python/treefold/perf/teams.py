"""A team runs operations for the ranks whose vectors this process holds: one of a group, or all of them as threads."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from treefold._core import Plan
from treefold.runtime import threads
from treefold.runtime.group import Group
from treefold.runtime.threads import Array


class Team(Protocol):
    """Runs operations; ranks are the plan's."""

    @property
    def ranks(self) -> Sequence[int]:
        """The ranks whose vectors this process holds."""

    def run(self, plan: Plan, vectors: list[Array], op: str, number: str, results: list[Array], elements: int) -> None:
        """Run an operation on these ranks' vectors, in place; `results` takes what does not end there.

        The longest vector of all ranks has so many `elements`.
        """

    def exchange(self, blob: bytes) -> list[bytes]:
        """Return the blobs of all processes."""


class GroupTeam(NamedTuple):
    """One rank of a group."""

    group: Group
    exchange: Callable[[bytes], list[bytes]]

    @property
    def ranks(self) -> Sequence[int]:
        """The rank of this worker."""
        return [self.group.rank]

    def run(self, plan: Plan, vectors: list[Array], op: str, number: str, results: list[Array], elements: int) -> None:
        """Run an operation with the group."""
        self.group.run(plan, vectors[0], op, number, results[0] if results else None, elements)


class ThreadTeam:
    """All ranks, as threads of this process."""

    def __init__(self, ranks: int) -> None:
        self.ranks: Sequence[int] = range(ranks)

    def run(self, plan: Plan, vectors: list[Array], op: str, number: str, results: list[Array], elements: int) -> None:
        """Run an operation with a thread for each rank; one of them has the longest vector."""
        pieces_of_rank = threads.execute(plan, vectors, op, number)
        for result, pieces in zip(results, pieces_of_rank, strict=False):
            np.concatenate(pieces, out=result)

    def exchange(self, blob: bytes) -> list[bytes]:
        """Return this process's blob, which is the only one."""
        return [blob]
