"""An iteration as it unfolds: compute in order, all-reduces queued beside it.

The network works on one collective at a time, first come, first served. While it is busy, a software all-reduce takes
a share of the compute away, so that what runs beside it is slower.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

COMPUTE, NETWORK = "compute", "network"


class Compute(NamedTuple):
    """Work of every rank."""

    name: str
    kind: str
    """`forward`, `backward`, `aggregation` or `optimizer`."""
    seconds: float


class Send(NamedTuple):
    """A collective of all ranks."""

    name: str
    collective: str
    size_bytes: int
    waits: bool = False
    """Whether compute goes on only after it, and after all before it."""


class Wait(NamedTuple):
    """Compute goes on when the network is idle."""


Step = Compute | Send | Wait


class Span(NamedTuple):
    """What a lane was busy with."""

    lane: str
    name: str
    kind: str
    """Of compute, or the collective."""
    start_s: float
    end_s: float


class Timeline(NamedTuple):
    """An iteration of one rank: all are alike."""

    spans: list[Span]
    iteration_s: float
    busy_s: Mapping[str, float]
    """By kind of compute: what it takes without an all-reduce beside it."""
    stolen_s: float
    """What all-reduces beside it added to that."""
    exposed_s: float
    """Communication during which compute waited."""
    overlapped_s: float
    """Communication beside compute."""


def play(steps: Sequence[Step], prices: Mapping[tuple[str, int], float], stolen: float) -> Timeline:
    """Let an iteration unfold.

    Args:
        steps: What every rank does, in order.
        prices: Seconds of each collective and size.
        stolen: Part of the compute that a collective takes while it is under way, below 1.

    """
    now = free = exposed = overlapped = lost = 0.0
    spans: list[Span] = []
    busy: dict[str, float] = {}
    for step in steps:
        if isinstance(step, Compute):
            shared = max(0.0, free - now)
            taken = _taken(step.seconds, shared, stolen)
            spans.append(Span(COMPUTE, step.name, step.kind, now, now + taken))
            busy[step.kind] = busy.get(step.kind, 0.0) + step.seconds
            now, lost, overlapped = now + taken, lost + taken - step.seconds, overlapped + min(taken, shared)
            continue
        if isinstance(step, Send):
            seconds, start = prices[step.collective, step.size_bytes], max(now, free)
            free = start + seconds
            spans.append(Span(NETWORK, step.name, step.collective, start, free))
        if isinstance(step, Wait) or step.waits:
            exposed += max(0.0, free - now)
            now = max(now, free)
    exposed += max(0.0, free - now)
    return Timeline(spans, max(now, free), busy, lost, exposed, overlapped)


def _taken(work_s: float, shared_s: float, stolen: float) -> float:
    """Return how long work takes of whose time the first `shared_s` go on beside a collective."""
    done = shared_s * (1 - stolen)
    return work_s / (1 - stolen) if work_s <= done else shared_s + work_s - done
