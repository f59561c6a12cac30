"""The time of the collectives of an iteration, by any plan, network and simulator; each size is simulated once.

Where several groups of ranks have collectives, all groups of a kind plan and begin the same one at once.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import NamedTuple

from treefold import planning, plans
from treefold._core import Plan, Topology
from treefold.options import PlannerOptions
from treefold.simulation import Simulator
from treefold.training.groups import Groups, together, use_other_links
from treefold.training.interpolation import SMALL_BYTES, times_of_sizes
from treefold.training.timeline import DATA, MODEL, Send


@dataclass(frozen=True)
class CollectiveModel:
    """The network on which collectives run, and the simulator that predicts their time."""

    groups: Groups
    simulator: Simulator
    link_model: str
    options: PlannerOptions = field(default_factory=PlannerOptions)
    """The options of the planner."""


class CollectiveTimes(NamedTuple):
    """What an algorithm takes for the collectives of an iteration."""

    seconds: dict[tuple[str, str, int], float]
    """The seconds of each collective, by `Send.key`."""
    used: set[str]
    """The algorithms that plan what is sent: several where `auto` chooses."""
    error: float | None
    """The largest relative error to expect of interpolated times; None if every size was simulated."""
    buffer_cover: float | None
    """Buffers cover at least this part of a link's round trip; None if nothing is sent."""
    are_apart: bool
    """Whether collectives of model parallelism use other links than those of data parallelism."""

    @property
    def is_in_software(self) -> bool:
        """Tell whether accelerators add up the numbers; sums of switches do not pass through their cores."""
        return not all(map(planning.is_in_network, self.used))


class _Simulated(NamedTuple):
    """A collective of one size, simulated."""

    seconds: float
    algorithms: frozenset[str]
    """The algorithms of the groups' plans, which `auto` chooses."""
    buffer_cover: float


def times_of_collectives(name: str, model: CollectiveModel, sends: Sequence[Send]) -> CollectiveTimes:
    """Return how long an algorithm takes for each collective and size."""
    seconds: dict[tuple[str, str, int], float] = {}
    used: set[str] = set()
    errors, covers = [], []
    for among, collective in dict.fromkeys(send.key[:2] for send in sends):
        sizes = {send.size_bytes for send in sends if send.key[:2] == (among, collective)}
        simulated: dict[int, _Simulated] = {}
        simulate = _simulator(partial(_simulate, name, model, among, collective), model, simulated)
        times = times_of_sizes(sizes, simulate, _small_bytes(model, among))
        seconds |= {(among, collective, size): time_s for size, time_s in times.seconds.items()}
        # Knots are not sent; the largest one stands for all sizes that are sent and were not simulated.
        sent = (sizes & simulated.keys()) | ({max(simulated)} if sizes - simulated.keys() else set())
        used |= {algorithm for size in sent for algorithm in simulated[size].algorithms}
        errors += [] if times.error is None else [times.error]
        covers += [each.buffer_cover for each in simulated.values()]
    return CollectiveTimes(
        seconds, used, max(errors, default=None), min(covers, default=None), _are_apart(name, model, sends)
    )


def _small_bytes(model: CollectiveModel, among: str) -> int | None:
    """Return up to which size every size is simulated; None where simulations are quick enough for all sizes."""
    return SMALL_BYTES * model.groups.of(among)[0].ranks if model.simulator.name == "packet" else None


def _are_apart(name: str, model: CollectiveModel, sends: Sequence[Send]) -> bool:
    """Return whether the largest collectives of both kinds use different links."""
    largest = [
        max((send for send in sends if send.among == kind), key=lambda send: send.size_bytes, default=None)
        for kind in (DATA, MODEL)
    ]
    plans_of_kinds = [_plans(name, model, *send.key) for send in largest if send is not None]
    return len(plans_of_kinds) == 2 and use_other_links(*plans_of_kinds)


def _simulator(
    of_size: Callable[[int], _Simulated], model: CollectiveModel, simulated: dict[int, _Simulated]
) -> Callable[[Sequence[int]], dict[int, float]]:
    """Return a function that simulates sizes, returns their seconds, and records them in `simulated`."""

    def simulate(sizes: Sequence[int]) -> dict[int, float]:
        is_slow = model.simulator.name == "packet"
        simulated.update(_in_threads(of_size, sizes) if is_slow else {size: of_size(size) for size in sizes})
        return {size: simulated[size].seconds for size in sizes}

    return simulate


def _in_threads(of_size: Callable[[int], _Simulated], sizes: Iterable[int]) -> dict[int, _Simulated]:
    """Simulate sizes in threads, since the simulator releases the interpreter's lock."""
    from concurrent.futures import ThreadPoolExecutor

    # The largest sizes take longest, so they start first.
    ordered = sorted(sizes, reverse=True)
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        return dict(zip(ordered, pool.map(of_size, ordered), strict=True))
    finally:
        # An interrupt does not wait for the simulations that have begun.
        pool.shutdown(wait=False, cancel_futures=True)


@lru_cache(maxsize=4096)
def _simulate(name: str, model: CollectiveModel, among: str, collective: str, size: int) -> _Simulated:
    """Simulate a size once, for however many models."""
    planned = _plans(name, model, among, collective, size)
    last = together(planned, size, model.simulator, model.link_model)
    cover = None if last.packets is None else last.packets.buffer_cover
    return _Simulated(last.time_s, frozenset(plan.algorithm for plan in planned), cover or 1.0)


def _plans(name: str, model: CollectiveModel, among: str, collective: str, size: int) -> list[Plan]:
    """Return the plan of each group of a kind."""
    return [_plan(name, model, group, collective, size) for group in model.groups.of(among)]


def _plan(name: str, model: CollectiveModel, group: Topology, collective: str, size: int) -> Plan:
    request = plans.requested(
        group,
        name,
        size_bytes=size,
        collective=collective,
        root=0,
        simulator=model.simulator.name,
        options=model.options,
    )
    return plans.explained_plan(request).plan
