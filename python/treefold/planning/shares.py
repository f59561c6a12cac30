"""How much each tree of a forest carries: MTree's integer program (1), and what serves where the solver does not."""

import math
from typing import Any, NamedTuple

import numpy as np

from treefold._core import Forest, TreefoldError, format_bandwidth
from treefold.planning import programs
from treefold.planning.programs import Vector

GAP = 0.01
"""Shares this close to the best are good enough."""


class Shared(NamedTuple):
    """Rates of a forest's trees in bytes a second, and for `treefold plan --json` how they were found."""

    rates: Vector
    facts: dict[str, Any]


def share(
    forest: Forest,
    *,
    most_trees: int | None,
    least_rate_Bps: float = 0.0,
    seconds: float = programs.SECONDS,
    start: Vector | None = None,
) -> Shared:
    """Maximise the sum of the rates of at most `most_trees` trees, none with less than `least_rate_Bps`.

    The solver starts from the best solution that is known without it: `start` (which must be one), the greedy one of
    the core, or one trimmed from the linear program's. That one stands where the solver finds nothing better within
    its limits. Facts tell the proven `gap` to the best; where there is none it is null, and `solver` is `greedy`.

    Raises:
        TreefoldError: If no tree can carry the least rate.

    """
    most = len(forest) if most_trees is None else most_trees
    usage, capacity = forest.usage(), np.asarray(forest.capacity)
    starts = [np.asarray(forest.greedy_shares(most, least_rate_Bps)), *([] if start is None else [start])]
    if not any(known.any() for known in starts):
        raise TreefoldError(f"least rate {format_bandwidth(least_rate_Bps)}: no tree carries as much; lower it")
    known = max(*starts, programs.trimmed(usage, capacity, most, least_rate_Bps), key=np.sum)
    bound = programs.upper_bound(usage, capacity)
    if known.sum() >= bound * (1 - GAP):
        return Shared(known, {"gap": max(0.0, bound / float(known.sum()) - 1), "solver": "highs"})
    return _chosen(usage, capacity, most, least_rate_Bps, seconds, known)


def _chosen(
    usage: programs.Usage, capacity: Vector, most: int, least_rate_Bps: float, seconds: float, known: Vector
) -> Shared:
    """Let the integer program improve what is known."""
    try:
        chosen = programs.choose(
            usage, capacity, most_trees=most, least_rate=least_rate_Bps, seconds=seconds, gap=GAP, start=known
        )
    except TreefoldError:
        return Shared(known, {"gap": None, "solver": "greedy"})
    gap = chosen.gap if math.isfinite(chosen.gap) else None
    rates = chosen.rates if chosen.rates.sum() > known.sum() else known
    return Shared(rates, {"gap": gap, "solver": "greedy" if gap is None else "highs"})
