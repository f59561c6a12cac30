"""What an operation shows of the network: what each link carried in windows of its time, and where data waited.

In an operation on a network that is not known well, some links fall behind and others run ahead, so a link does not
carry what the plan gives it at every moment. But whenever data waits for a link, something on its way is full. So an
operation is divided into windows, and each of them is an observation: what all links carried in it, and for which ones
data always waited. A single operation so shows most cables of a network full, and not only the one that limits it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treefold._core import LinkUsage, Plan
from treefold.discovery import Observation, Pair, loads_of, running
from treefold.runtime.flights import Flight

_WAITS = 0.9
"""Data always waits for a link if it does so for this part of a window."""
_WINDOW_BYTES, _WINDOW_S = 5 << 18, 0.05
"""In the mean each link carries so much in each of the windows of an operation, which are no shorter than that.

In shorter windows it would matter what the kernel keeps, which has left for the network only in part.
"""
_MOST_WINDOWS, _LEAST_WINDOWS = 144, 4
"""Among n ranks, an operation has an nth of so many windows at most, as learning takes longer among more; or it is one
window if it is too small for a few of them."""
_TOGETHER = 1.5
"""Ranks run an operation together if none took so many times as long as another."""
_LEAST_S, _LEAST_BYTES = 0.1, 1 << 20
"""Operations that are shorter or smaller teach nothing."""
_KIB, _MS = 1024, 1000
MOMENTS = 33
"""The moments of a course."""

Course = tuple[list[int], list[int]]
"""The KiB that had left for a peer by moments that divide an operation into equal parts, and the milliseconds for which
data had waited by then."""


class Used(NamedTuple):
    """How one rank's links were used by an operation."""

    seconds: float
    """How long it took on this rank."""
    busy: dict[int, tuple[int, float]]
    """The bytes that left for each peer while others waited, and the seconds in which they left."""
    courses: dict[int, Course]
    """What left for each peer by when."""

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> "Used":
        """Return what another rank tells in a control message."""
        busy = {int(peer): (sent, busy_s) for peer, (sent, busy_s) in fields["busy"].items()}
        return cls(fields["seconds"], busy, {int(peer): (kib, ms) for peer, (kib, ms) in fields["courses"].items()})


@dataclass
class Seen:
    """An operation of which rank 0 learns."""

    plan: Plan
    size_bytes: int
    used: dict[int, Used] = field(default_factory=dict)
    """What each rank has told."""

    @property
    def seconds(self) -> float:
        """The time on the rank that began last, as others have waited for it."""
        return min(each.seconds for each in self.used.values())

    @property
    def rate_Bps(self) -> float:
        """The bytes of the vector by the time."""
        return self.size_bytes / self.seconds

    def carried_Bps(self) -> dict[Pair, float]:
        """Return what each link carried in the mean."""
        return {pair: load * self.rate_Bps for pair, load in loads_of(self.plan).items()}

    def measured_Bps(self) -> dict[Pair, float]:
        """Return the rates of links for which data waited for long enough, while it did."""
        links = ((rank, peer, *busy) for rank, each in self.used.items() for peer, busy in each.busy.items())
        return {
            (rank, peer): sent_bytes / busy_s
            for rank, peer, sent_bytes, busy_s in links
            if busy_s >= _LEAST_S and sent_bytes >= _LEAST_BYTES
        }

    @property
    def is_together(self) -> bool:
        """Whether all ranks began and ended at about the same time, so that they saw the same windows."""
        return max(each.seconds for each in self.used.values()) <= _TOGETHER * self.seconds

    def observations(self) -> list[Observation]:
        """Return what each window shows: the links for which data always waited would have carried more."""
        windows = self._windows()
        moments_s = np.linspace(0, self.seconds, windows + 1)
        got_Bps, waits = {}, {}
        for rank, each in self.used.items():
            for peer, course in each.courses.items():
                kib, ms = (_grown(values, each.seconds, moments_s) for values in course)
                got_Bps[rank, peer], waits[rank, peer] = kib * _KIB, ms / _MS >= _WAITS
        # What the kernel takes in the beginning is not on its way yet, and in the end little is.
        shown = range(1, windows - 1) if windows > 1 else range(1)
        return [
            running(
                {pair: float(rates[window]) for pair, rates in got_Bps.items()},
                {pair for pair, always in waits.items() if always[window]},
            )
            for window in shown
        ]

    def _windows(self) -> int:
        """Return into how many windows the operation is divided."""
        sent = [kib[-1] * _KIB for each in self.used.values() for kib, _ in each.courses.values()]
        by_bytes = int(np.mean(sent or [0]) / _WINDOW_BYTES)
        windows = min(by_bytes, int(self.seconds / _WINDOW_S), max(_MOST_WINDOWS // len(self.used), _LEAST_WINDOWS))
        return windows if windows >= _LEAST_WINDOWS else 1


def _grown(values: list[int], seconds: float, moments_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how fast values grew between moments; a rank ends with the others, and may have begun before them."""
    own_s = np.linspace(moments_s[-1] - seconds, moments_s[-1], len(values))
    return np.diff(np.interp(moments_s, own_s, values)) / np.diff(moments_s)


def teaches(ended: Flight, seconds: float) -> bool:
    """Return whether something is to be learnt from an operation that took so long on this rank.

    It must have run alone: operations that share the links with others tell nothing by their time.
    """
    operation = ended.operation
    is_whole = ended.is_alone and ended.plan.collective == "all-reduce" and operation.wire is None
    return is_whole and seconds >= _LEAST_S and operation.vector.size >= _LEAST_BYTES


def used(seconds: float, usage: Iterable[LinkUsage]) -> Used:
    """Return how this rank's links were used by an operation that took so long."""
    usage = list(usage)
    busy = {each.rank: (each.sent_bytes, each.busy_s) for each in usage if each.busy_s > 0}
    courses = {each.rank: _course(each) for each in usage}
    return Used(seconds, busy, {peer: course for peer, course in courses.items() if course[0][-1] > 0})


def _course(usage: LinkUsage) -> Course:
    return [round(sent / _KIB) for sent, _ in usage.course], [round(waited_s * _MS) for _, waited_s in usage.course]
