"""The time of the collectives of an iteration, by any plan, network and simulator; each size is simulated once."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import NamedTuple

from treefold import planning, plans
from treefold._core import Topology
from treefold.options import PlannerOptions
from treefold.simulation import Simulator, fitted, simulate
from treefold.training.interpolation import SMALL_BYTES, times_of_sizes
from treefold.training.timeline import Send


@dataclass(frozen=True)
class CollectiveModel:
    """The network on which collectives run, and the simulator that predicts their time."""

    topology: Topology
    simulator: Simulator
    link_model: str
    options: PlannerOptions = field(default_factory=PlannerOptions)
    """The options of the planner."""


class CollectiveTimes(NamedTuple):
    """What an algorithm takes for the collectives of an iteration."""

    seconds: dict[tuple[str, int], float]
    """The seconds of each collective and size in bytes."""
    used: set[str]
    """The algorithms that plan what is sent: several where `auto` chooses."""
    error: float | None
    """The largest relative error to expect of interpolated times; None if every size was simulated."""
    buffer_cover: float | None
    """Buffers cover at least this part of a link's round trip; None if nothing is sent."""

    @property
    def is_in_software(self) -> bool:
        """Tell whether accelerators add up the numbers; sums of switches do not pass through their cores."""
        return not all(map(planning.is_in_network, self.used))


class _Simulated(NamedTuple):
    """A collective of one size, simulated."""

    seconds: float
    algorithm: str
    """The algorithm of the plan, which `auto` chooses."""
    buffer_cover: float


def times_of_collectives(name: str, model: CollectiveModel, sends: Sequence[Send]) -> CollectiveTimes:
    """Return how long an algorithm takes for each collective and size."""
    seconds: dict[tuple[str, int], float] = {}
    used: set[str] = set()
    errors, covers = [], []
    for collective in dict.fromkeys(send.collective for send in sends):
        sizes = {send.size_bytes for send in sends if send.collective == collective}
        simulated: dict[int, _Simulated] = {}
        times = times_of_sizes(sizes, _simulator(name, model, collective, simulated), _small_bytes(model))
        seconds |= {(collective, size): time_s for size, time_s in times.seconds.items()}
        # Knots are not sent; the largest one stands for all sizes that are sent and were not simulated.
        sent = (sizes & simulated.keys()) | ({max(simulated)} if sizes - simulated.keys() else set())
        used |= {simulated[size].algorithm for size in sent}
        errors += [] if times.error is None else [times.error]
        covers += [each.buffer_cover for each in simulated.values()]
    return CollectiveTimes(seconds, used, max(errors, default=None), min(covers, default=None))


def _small_bytes(model: CollectiveModel) -> int | None:
    """Return up to which size every size is simulated; None where simulations are quick enough for all sizes."""
    return SMALL_BYTES * model.topology.ranks if model.simulator.name == "packet" else None


def _simulator(
    name: str, model: CollectiveModel, collective: str, simulated: dict[int, _Simulated]
) -> Callable[[Sequence[int]], dict[int, float]]:
    """Return a function that simulates sizes, returns their seconds, and records them in `simulated`."""
    of_size = partial(_simulate, name, model, collective)

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
def _simulate(name: str, model: CollectiveModel, collective: str, size: int) -> _Simulated:
    """Simulate a size once, for however many models."""
    request = plans.requested(
        model.topology,
        name,
        size_bytes=size,
        collective=collective,
        root=0,
        simulator=model.simulator.name,
        options=model.options,
    )
    plan = plans.explained_plan(request).plan
    simulator = fitted(plan, model.simulator).named
    predicted = simulate(plan, size_bytes=size, simulator=simulator, link_model=model.link_model)
    cover = None if predicted.packets is None else predicted.packets.buffer_cover
    return _Simulated(predicted.time_s, plan.algorithm, cover or 1.0)
