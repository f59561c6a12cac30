"""Says what a collective reaches on a network: its bound, what limits it, and the time of a plan by a quick planner.

The same is said of a network that has changed, which may be cut.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from treefold import bounds
from treefold._core import CollectiveBounds, Limit, Topology
from treefold.collectives import COLLECTIVES
from treefold.errors import MisfitError, TreefoldError
from treefold.explaining.questions import Change
from treefold.explanation_results import LinkWorth, Outcome, SharedWorth
from treefold.options import PlannerOptions
from treefold.plans import explained_plan, requested
from treefold.simulation import simulate

_NOISE = {"all-to-all": 2e-4}
"""The relative differences of rates that are rounding; those of all-to-alls are found by approximation."""
_LEAST_NOISE = 1e-6

Worth = TypeVar("Worth", LinkWorth, SharedWorth)


class Task(NamedTuple):
    """What is explained, and of which network."""

    network: Topology
    collective: str
    root: str
    """The name of the rank that broadcasts or receives."""
    size_bytes: int
    algorithms: tuple[str, ...]
    """The planners, the best first: each takes the place of those before it where they do not fit, or do badly."""
    share: float = 0.0
    """The part of the bound that a plan should reach; where the best planner does not, the others are tried."""

    @property
    def noise(self) -> float:
        """The relative difference of rates that counts as none."""
        return _NOISE.get(self.collective, _LEAST_NOISE)

    def bounds_on(self, network: Topology) -> CollectiveBounds:
        """Return the bounds of the collective on a network with the same root."""
        return bounds.collective_bounds_of(network, self.collective, network.rank_names.index(self.root))


def planned(task: Task, network: Topology, good_s: float = math.inf) -> tuple[str, float]:
    """Return the first algorithm whose plan takes no more than `good_s`, or else the fastest, and that time."""
    root = network.rank_names.index(task.root)
    best: tuple[str, float] | None = None
    for place, algorithm in enumerate(task.algorithms):
        try:
            request = requested(
                network,
                algorithm,
                size_bytes=task.size_bytes,
                collective=task.collective,
                root=root,
                simulator="analytic",
                options=PlannerOptions(),
            )
            made = explained_plan(request).plan
        except MisfitError:
            if best is None and place + 1 == len(task.algorithms):
                raise
            continue
        time_s = simulate(made, size_bytes=task.size_bytes).time_s
        if best is None or time_s < best[1]:
            best = made.algorithm, time_s
        if time_s <= good_s:
            break
    if best is None:
        raise MisfitError(f"no quick algorithm fits {network.name}; name one")
    return best


def outcome(task: Task, network: Topology) -> Outcome:
    """Return what the collective reaches on a network in which ranks reach each other."""
    found = task.bounds_on(network)
    if found.rate.rate_Bps is None:
        return _nothing(network.ranks, "one rank has nothing to send")
    limit, bound_s = found.limit_of_rate(), found.seconds(task.size_bytes)
    algorithm, time_s, problem = None, None, ""
    try:
        algorithm, time_s = planned(task, network, bound_s / task.share if task.share else math.inf)
    except MisfitError as error:
        problem = str(error)
    return Outcome(
        ranks=network.ranks,
        rate_Bps=found.rate.rate_Bps,
        is_exact=found.rate.is_exact,
        limited_by=bounds.in_words(limit, task.collective, network),
        links=tuple(limit.links),
        shared=tuple(limit.shared),
        parts=_parts_between(network, limit),
        bound_s=bound_s,
        algorithm=algorithm,
        time_s=time_s,
        problem=problem,
    )


def _nothing(ranks: int, problem: str) -> Outcome:
    """Return the outcome where nothing can be sent."""
    nothing: dict[str, Any] = dict.fromkeys(("rate_Bps", "bound_s", "algorithm", "time_s"))
    return Outcome(
        ranks=ranks, is_exact=True, limited_by="nothing", links=(), shared=(), parts=(), problem=problem, **nothing
    )


def _parts_between(network: Topology, limit: Limit) -> tuple[tuple[str, ...], ...]:
    """Return the groups of ranks that the limiting links and shared capacities keep apart."""
    if limit.sources:
        return tuple(limit.sources), tuple(limit.targets)
    limiting, links = {*limit.links}, network.links()
    sharing = {number for shared in network.shared() if shared.name in limit.shared for number in shared.links}
    group = {node.name: {node.name} for node in network.nodes()}
    for number, link in enumerate(links):
        one, other = group[link.source], group[link.target]
        is_limiting = f"{link.source} -> {link.target}" in limiting or number in sharing
        if not is_limiting and one is not other:
            small, large = sorted((one, other), key=len)
            large |= small
            group |= dict.fromkeys(small, large)
    parts: dict[int, list[str]] = {}
    for rank in network.rank_names:
        parts.setdefault(id(group[rank]), []).append(rank)
    return tuple(tuple(part) for part in parts.values()) if 1 < len(parts) < network.ranks else ()


def after(task: Task, change: Change) -> Outcome:
    """Return what the collective reaches on a changed network, which may be cut or have lost its root."""
    left = [name for name in task.network.rank_names if name not in change.sites]
    if not left or (COLLECTIVES[task.collective].has_root and task.root not in left):
        return _nothing(len(left), "no rank is left" if not left else f"the root {task.root} is gone")
    try:
        changed = change.of(task.network)
    except TreefoldError as error:
        reason = str(error).removeprefix(f"{task.network.name}").removeprefix(" is disconnected").split(";")[0]
        return _nothing(len(left), f"cuts the network{reason}")
    return outcome(task if task.root in left else task._replace(root=left[0]), changed)


def fraction(task: Task, now: Outcome, rate_Bps: float | None) -> float | None:
    """Return a rate as a fraction of the bound now; a difference that is rounding counts as none."""
    if rate_Bps is None or now.rate_Bps is None:
        return None
    fraction = rate_Bps / now.rate_Bps
    return 1.0 if abs(fraction - 1) <= task.noise else fraction


def growth_of(task: Task, now: Outcome, ceiling_Bps: float, wider: Callable[[], Topology]) -> float:
    """Return the factor by which the bound rises with more bandwidth.

    Args:
        task: What is explained.
        now: What is reached now.
        ceiling_Bps: The most by which the rate may rise, by the dual prices of the bound; where it is nothing, no other
            bound is computed.
        wider: A function that returns the network with more bandwidth.

    """
    wider_Bps = rate_Bps = now.rate_Bps or 0.0
    if ceiling_Bps > rate_Bps * task.noise:
        wider_Bps = task.bounds_on(wider()).rate.rate_Bps or 0.0
    return fraction(task, now, wider_Bps) or 1.0


def by_worth(found: Iterable[Worth]) -> tuple[Worth, ...]:
    """Return what more bandwidth is worth, the most valuable first."""
    return tuple(sorted(found, key=lambda each: (-round(each.gain_fraction, 6), not each.is_limiting)))


def factor(time_s: float | None, before_s: float | None) -> float | None:
    """Return a time as a multiple of the one before; None if one is unknown, and 1 if nothing takes time."""
    if time_s is None or before_s is None:
        return None
    return time_s / before_s if before_s else 1.0
