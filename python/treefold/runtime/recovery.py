"""How all ranks of a group go on after a connection between two of them is cut."""

from collections.abc import Collection
from typing import NamedTuple


class State(NamedTuple):
    """How far a worker is."""

    done: int
    """The last operation up to which it has all data."""
    sequence: int
    """The number of the transport's last run."""


class Resumption(NamedTuple):
    """The point at which all ranks go on."""

    done: int
    """The last operation whose result all ranks keep; they run later ones again."""
    sequence: int
    """The number behind which the transport's runs go on."""


def resumption(states: Collection[State]) -> Resumption:
    """Return where ranks in these states go on.

    A rank that holds an operation for done has seen that all ranks have its data, so that none of them is behind it.
    """
    return Resumption(min(state.done for state in states), max(state.sequence for state in states) + 1)
