"""How all ranks of a group go on after a connection between two of them is cut."""

from collections.abc import Collection
from typing import NamedTuple


class State(NamedTuple):
    """How far a worker is."""

    begun: int
    """How many operations it has begun."""
    stage: str
    """The stage of the last one: `data`, `commit`, or `idle` when it is done."""
    sequence: int
    """The number of the transport's last run."""


class Resumption(NamedTuple):
    """The point at which all ranks go on."""

    last: int
    """The last operation that any rank has begun."""
    done: bool
    """Whether all ranks have all the data of that operation."""
    sequence: int
    """The number behind which the transport's runs go on."""


def resumption(states: Collection[State]) -> Resumption:
    """Return where ranks in these states go on."""
    last = max(state.begun for state in states)
    done = all(state.begun == last and state.stage != "data" for state in states)
    return Resumption(last, done, max(state.sequence for state in states) + 1)


def keeps_result(state: State, resumed: Resumption) -> bool:
    """Return whether a worker in this state keeps the result of its operation, instead of running it again.

    A rank that has begun a later operation has seen the end of this one.
    """
    return resumed.done or state.begun < resumed.last
