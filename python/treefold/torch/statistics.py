"""Tells what process groups have done: which calls ran by plans, how many bytes crossed, what part of the bound it was.

`logbook.py` writes the same to a file, and in the end as a summary.
"""

import threading
from collections import deque
from typing import Any, NamedTuple

from treefold._core import Plan
from treefold.bounds import collective_bounds_of
from treefold.torch.counting import Count, Counters

_MOST_CLOSED = 64
"""How many closed groups have their counts kept."""
_COLLECTIVES = {
    "all_reduce": "all-reduce",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "all_to_all": "all-to-all",
}
"""The collective of a plan that each planned call runs."""


class CallStatistics(NamedTuple):
    """Says what the calls of one collective on a process group were so far, on this rank.

    Attributes:
        call: Its name, such as `all_reduce`.
        calls: How many ran by a plan.
        bytes: How many bytes their tensors had: whole vectors, as for `least_bytes`.
        seconds: The time in which at least one of them was under way, from the call to its end.
        part_of_bound: What part this is of the rate that the network allows at most; None if no plan ran.
        passed_on: How many calls were passed on to the wrapped backend.
        passed_on_bytes: How many bytes their tensors had.

    Example:
        >>> from treefold.torch import CallStatistics
        >>> CallStatistics("all_reduce", 2, 8192, 0.5, 0.9, passed_on=1, passed_on_bytes=4).part_of_bound
        0.9

    """

    call: str
    calls: int
    bytes: int
    seconds: float
    part_of_bound: float | None
    passed_on: int
    passed_on_bytes: int


class GroupStatistics(NamedTuple):
    """Says what a process group has done so far, on this rank.

    Attributes:
        ranks: The numbers of the group's ranks in the group of all ranks.
        sites: The names of its sites; empty if its ranks have no names.
        algorithm: The algorithm of its plan; None if nothing is planned.
        network: The name of the plan's network; None if nothing is planned.
        calls: Its calls, one entry for each collective.
        bytes_between: How many bytes this rank sent by plans: to other sites, or without sites to other ranks. None if
            nothing is planned, or over the transport `torch`, which does not count them.
        bytes_inside: How many bytes of tensors were reduced or sent inside this rank's site.
        bytes_unplanned: How many bytes of tensors the wrapped backend was passed although ranks are at several sites.
        replans: What has changed in the network, a line for each change that the plan has followed.
        short_links: The links on which this rank sent at less than three quarters of the network's rate, and at what
            part of it.

    Example:
        >>> from treefold.torch import GroupStatistics
        >>> GroupStatistics([0, 1], [], "ring", "ring:2", [], 4096, 0, 0, [], {}).document()["bytes_between"]
        4096

    """

    ranks: list[int]
    sites: list[str]
    algorithm: str | None
    network: str | None
    calls: list[CallStatistics]
    bytes_between: int | None
    bytes_inside: int
    bytes_unplanned: int
    replans: list[str]
    short_links: dict[str, float]

    def document(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {**self._asdict(), "calls": [each._asdict() for each in self.calls]}


_open: list[Counters] = []
_closed: deque[Counters] = deque(maxlen=_MOST_CLOSED)
_lock = threading.Lock()


def register(counters: Counters) -> None:
    """Let `statistics` tell of a process group."""
    with _lock:
        _open.append(counters)


def unregister(counters: Counters) -> None:
    """Keep what a process group has done, which is about to close."""
    counters.close()
    with _lock:
        if counters in _open:
            _open.remove(counters)
            if counters.of:
                _closed.append(counters)


def all_counters() -> list[Counters]:
    """Return the counters of closed groups that are kept, and of open ones."""
    with _lock:
        return [*_closed, *_open]


def statistics() -> list[GroupStatistics]:
    """Return what each process group has done so far on this rank, closed ones first.

    That costs milliseconds, and on large networks the first time seconds, for the bound.

    Example:
        >>> import treefold.torch
        >>> for group in treefold.torch.statistics():                      # doctest: +SKIP
        ...     for each in group.calls:
        ...         print(each.call, each.calls, each.bytes, each.seconds, each.part_of_bound)

    """
    return [statistics_of(each) for each in all_counters()]


def statistics_of(counters: Counters) -> GroupStatistics:
    """Return what one process group has done so far."""
    counters.update()
    plan = counters.plan
    return GroupStatistics(
        list(counters.ranks),
        list(dict.fromkeys(counters.sites)),
        None if plan is None else plan.algorithm,
        None if plan is None else plan.topology.name,
        [_calls(name, each, plan) for name, each in list(counters.of.items())],
        counters.sent_bytes,
        counters.inside_bytes,
        counters.unplanned_bytes,
        list(counters.replans),
        dict(counters.short_links),
    )


def _calls(name: str, count: Count, plan: Plan | None) -> CallStatistics:
    seconds, part = count.seconds, None
    if plan is not None and seconds > 0 and name in _COLLECTIVES:
        part = _least_s(plan, name, count.crossing_bytes) / seconds
    return CallStatistics(name, count.calls, count.bytes, seconds, part, count.passed_on, count.passed_on_bytes)


def _least_s(plan: Plan, name: str, size_bytes: int) -> float:
    """Return how many seconds the calls need at least, however many of them overlap: latencies are left aside."""
    rate = collective_bounds_of(plan.topology, _COLLECTIVES[name], 0).rate.rate_Bps
    return 0.0 if rate is None else size_bytes / rate
