"""The timeline of an iteration: compute in order, and collectives queued beside it.

The network works on one collective at a time, in the order of the queue; collectives of data parallelism and those of
model parallelism have a queue each if they use different links. While the network is busy, a software all-reduce takes
a part of the compute, so that the computation beside it is slower.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

COMPUTE, NETWORK, MODEL_NETWORK = LANES = ("compute", "network", "network of model parallelism")

DATA, MODEL = "data", "model"
"""A collective is among ranks that hold the same part of the model, or among those that hold it together."""


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
    """Compute goes on only after this collective, and after all collectives before it in its queue."""
    among: str = DATA

    @property
    def key(self) -> tuple[str, str, int]:
        """The time of the collective depends on these three."""
        return self.among, self.collective, self.size_bytes


class Wait(NamedTuple):
    """Compute goes on only when a collective that was sent before has ended, or when the network is idle."""

    until: Send | None = None


Step = Compute | Send | Wait


class Activity(NamedTuple):
    """One bar of a timeline: the compute, or the network, is busy with one thing from a start to an end.

    Attributes:
        lane: The row of the timeline: `compute` or `network`; or `network of model parallelism`, whose collectives run
            beside those of data parallelism if they use other links.
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
        activities: The bars of all rows, in the order in which the work is issued; a bar of the network may start
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
    steps: Sequence[Step],
    collective_s: Mapping[tuple[str, str, int], float],
    compute_overhead: float,
    *,
    are_apart: bool = False,
) -> Timeline:
    """Return the timeline of an iteration.

    Args:
        steps: The steps of every rank, in order.
        collective_s: The seconds of each collective, by `Send.key`.
        compute_overhead: The part of the compute that a collective takes while it runs, below 1.
        are_apart: Whether the collectives of model parallelism use other links than those of data parallelism.

    """
    now = exposed = overlapped = overhead = 0.0
    free = {NETWORK: 0.0}
    ends: dict[Send, float] = {}
    activities: list[Activity] = []
    busy: dict[str, float] = {}
    for step in steps:
        if isinstance(step, Compute):
            shared = max(0.0, max(free.values()) - now)
            taken = _seconds_beside(step.seconds, shared, compute_overhead)
            activities.append(Activity(COMPUTE, step.name, step.kind, now, now + taken))
            busy[step.kind] = busy.get(step.kind, 0.0) + step.seconds
            now, overhead, overlapped = now + taken, overhead + taken - step.seconds, overlapped + min(taken, shared)
            continue
        if isinstance(step, Send):
            lane = MODEL_NETWORK if are_apart and step.among == MODEL else NETWORK
            start = max(now, free.get(lane, 0.0))
            free[lane] = ends[step] = start + collective_s[step.key]
            activities.append(Activity(lane, step.name, step.collective, start, free[lane]))
            awaited = free[lane] if step.waits else now
        else:
            awaited = max(free.values()) if step.until is None else ends[step.until]
        exposed += max(0.0, awaited - now)
        now = max(now, awaited)
    last = max(now, *free.values())
    return Timeline(activities, last, busy, overhead, exposed + last - now, overlapped)


def _seconds_beside(work_s: float, shared_s: float, compute_overhead: float) -> float:
    """Return how long work takes if a collective runs beside its first `shared_s` seconds."""
    done = shared_s * (1 - compute_overhead)
    return work_s / (1 - compute_overhead) if work_s <= done else shared_s + work_s - done
