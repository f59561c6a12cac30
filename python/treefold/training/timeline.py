"""The timeline of an iteration: compute in order, and collectives queued beside it.

The network works on one collective at a time, in the order of the queue. While it is busy, a software all-reduce takes
a part of the compute, so that the computation beside it is slower.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

COMPUTE, NETWORK = "compute", "network"


class Compute(NamedTuple):
    """A piece of work that every rank computes."""

    name: str
    """The layer that is computed, or the layers whose gradients are."""
    kind: str
    """The kind is `forward`, `backward`, `aggregation` or `optimizer`."""
    seconds: float


class Send(NamedTuple):
    """A collective that all ranks hand to the network."""

    name: str
    collective: str
    size_bytes: int
    waits: bool = False
    """Compute goes on only after this collective, and after all collectives before it."""


class Wait(NamedTuple):
    """Compute goes on only when the network is idle."""


Step = Compute | Send | Wait


class Activity(NamedTuple):
    """One bar of a timeline: the compute, or the network, is busy with one thing from a start to an end.

    Attributes:
        lane: The row of the timeline: `compute` or `network`.
        name: The layer or layers that the work is for.
        kind: The kind of compute (`forward`, `backward`, `aggregation` or `optimizer`), or the collective.
        start_s: The seconds from the start of the iteration to the start of the bar.
        end_s: The seconds from the start of the iteration to the end of the bar.

    Example:
        >>> import treefold
        >>> [ring] = treefold.train("alexnet", "ring:4", "ring")
        >>> last = ring.timeline.activities[-1]
        >>> last.lane, last.kind
        ('network', 'all-reduce')

    """

    lane: str
    name: str
    kind: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Timeline:
    """The iteration of one rank; the timelines of all ranks are the same.

    Attributes:
        activities: All bars of both rows, in the order in which the work is issued; a bar of the network may start
            later than the bars after it.
        iteration_s: The iteration ends after this many seconds.
        busy_s: The seconds of each kind of compute, by its name, without the slowdown by concurrent all-reduces.
        compute_overhead_s: The seconds by which all-reduces beside the compute prolong it.
        exposed_s: The seconds of communication during which compute waits.
        overlapped_s: The seconds of communication that are concurrent with compute.

    Example:
        >>> import treefold
        >>> [ring] = treefold.train("alexnet", "ring:4", "ring")
        >>> ring.timeline.activities[0].name
        'conv1'

    """

    activities: list[Activity] = field(repr=False)
    iteration_s: float
    busy_s: Mapping[str, float] = field(repr=False)
    compute_overhead_s: float
    exposed_s: float
    overlapped_s: float


def build_timeline(
    steps: Sequence[Step], collective_s: Mapping[tuple[str, int], float], compute_overhead: float
) -> Timeline:
    """Return the timeline of an iteration.

    Args:
        steps: The steps of every rank, in order.
        collective_s: The seconds of each collective and size in bytes.
        compute_overhead: The part of the compute that a collective takes while it runs, below 1.

    """
    now = free = exposed = overlapped = overhead = 0.0
    activities: list[Activity] = []
    busy: dict[str, float] = {}
    for step in steps:
        if isinstance(step, Compute):
            shared = max(0.0, free - now)
            taken = _seconds_beside(step.seconds, shared, compute_overhead)
            activities.append(Activity(COMPUTE, step.name, step.kind, now, now + taken))
            busy[step.kind] = busy.get(step.kind, 0.0) + step.seconds
            now, overhead, overlapped = now + taken, overhead + taken - step.seconds, overlapped + min(taken, shared)
            continue
        if isinstance(step, Send):
            seconds, start = collective_s[step.collective, step.size_bytes], max(now, free)
            free = start + seconds
            activities.append(Activity(NETWORK, step.name, step.collective, start, free))
        if isinstance(step, Wait) or step.waits:
            exposed += max(0.0, free - now)
            now = max(now, free)
    exposed += max(0.0, free - now)
    return Timeline(activities, max(now, free), busy, overhead, exposed, overlapped)


def _seconds_beside(work_s: float, shared_s: float, compute_overhead: float) -> float:
    """Return how long work takes if a collective runs beside its first `shared_s` seconds."""
    done = shared_s * (1 - compute_overhead)
    return work_s / (1 - compute_overhead) if work_s <= done else shared_s + work_s - done
