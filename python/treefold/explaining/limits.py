"""Says what limits on the trees of a plan cost: few trees, or low ones."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from treefold import planning, progress
from treefold.errors import MisfitError
from treefold.explaining.what_if import Task
from treefold.explanation_results import Outcome, TreeLimit
from treefold.plans import plan

_CLOSE = 1e-3
"""The part of a rate that is no loss."""
_MOST_TREES, _MOST_HEIGHTS = 64, 8
_MOST_WORK = 1 << 15
"""The most ranks times links for which packing seeks the best trees within each limit; mtree is quicker."""


def limits(task: Task, now: Outcome) -> tuple[TreeLimit, ...]:
    """Return what limits on trees cost; nothing where no planner with such limits is quick."""
    network = task.network
    is_small = network.ranks * network.num_links <= _MOST_WORK
    algorithm = "packing" if is_small and task.algorithms != ("mtree",) else "mtree"
    best = _within(task, now, algorithm, {}) if planning.is_quick(network, algorithm) else None
    if best is None:
        return ()
    limited = [*_tree_limits(task, now, algorithm, best), *_height_limits(task, now, algorithm, best)]
    # What limited trees can carry is allowed without a limit, too.
    most = max([best, *limited], key=lambda each: each.rate_Bps)
    return (*limited, replace(best, rate_Bps=most.rate_Bps, bound_fraction=most.bound_fraction))


def _tree_limits(task: Task, now: Outcome, algorithm: str, best: TreeLimit) -> Iterator[TreeLimit]:
    """Yield the rates of 1, 2, 4, ... trees at most, and at last of the fewest with which more gain nothing."""
    few, widest = 0, None
    for most in (1 << power for power in range(_MOST_TREES.bit_length())):
        progress.report(f"trees {most}")
        widest = _widest(_within(task, now, algorithm, {"trees": most}), widest)
        if widest is None or not _is_as_good(widest, best):
            few = most
        else:
            while widest.value is not None and widest.value - few > 1:
                middle = (few + widest.value) // 2
                found = _within(task, now, algorithm, {"trees": middle})
                few, widest = (few, found) if found is not None and _is_as_good(found, best) else (middle, widest)
            yield widest
            return
        if widest is not None:
            yield widest


def _widest(found: TreeLimit | None, fewer: TreeLimit | None) -> TreeLimit | None:
    """Return what a number of trees carries; what fewer trees can carry is allowed then, too."""
    if found is None or fewer is None or fewer.rate_Bps <= found.rate_Bps:
        return found
    return replace(fewer, value=found.value)


def _is_as_good(found: TreeLimit, best: TreeLimit) -> bool:
    return found.rate_Bps >= best.rate_Bps * (1 - _CLOSE)


def _height_limits(task: Task, now: Outcome, algorithm: str, best: TreeLimit) -> Iterator[TreeLimit]:
    """Yield the rates of trees of the least height that is possible, and of greater ones until they gain nothing."""
    nodes = len(task.network.nodes())
    too_low, height = 0, 1
    while (found := _within(task, now, algorithm, {"height": height})) is None and height < nodes:
        too_low, height = height, 2 * height
    while found is not None and height - too_low > 1:
        middle = (too_low + height) // 2
        lower = _within(task, now, algorithm, {"height": middle})
        too_low, height, found = (middle, height, found) if lower is None else (too_low, middle, lower)
    for _ in range(_MOST_HEIGHTS):
        if found is None:
            return
        yield found
        if _is_as_good(found, best):
            return
        height += 1
        progress.report(f"height {height}")
        found = _within(task, now, algorithm, {"height": height})


def _within(task: Task, now: Outcome, algorithm: str, limit: dict[str, int]) -> TreeLimit | None:
    """Return the rate of a plan within a limit; None if no plan keeps it."""
    root = task.network.rank_names.index(task.root)
    options: dict[str, Any] = {**limit, "size_bytes": task.size_bytes, "collective": task.collective, "root": root}
    try:
        made = plan(task.network, algorithm, **options)
    except MisfitError:
        return None
    rate_Bps = made.rate
    if rate_Bps is None or now.rate_Bps is None:
        return None
    name, value = next(iter(limit.items()), ("none", None))
    fraction = rate_Bps / now.rate_Bps
    return TreeLimit(limit=name, value=value, algorithm=algorithm, rate_Bps=rate_Bps, bound_fraction=fraction)
