"""How all ranks of a group go on after a connection between two of them is cut."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from treefold.runtime.networks import Pair


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


def back(
    returned: Mapping[Pair, Mapping[int, int]], absent: Iterable[Pair], last: Mapping[Pair, int]
) -> dict[Pair, int]:
    """Return the absent pairs whose ends have met again, and the life of their connection.

    Args:
        returned: The life of each connection that came back, as each of its ends has told.
        absent: The pairs whose connection was cut.
        last: The life of each pair's last connection that was cut.

    """
    lives = {pair: set(returned.get(pair, {}).values()) for pair in absent}
    return {
        pair: max(told)
        for pair, told in lives.items()
        if len(told) == 1 and len(returned[pair]) == 2 and max(told) > last.get(pair, -1)
    }
