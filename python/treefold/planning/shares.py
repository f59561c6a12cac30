"""Decides how much each tree carries, by MTree's integer program (1) or by heuristics where the solver is too slow."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treefold import progress
from treefold._core import Forest, format_bandwidth
from treefold.errors import MisfitError, TreefoldError
from treefold.planning import linear_programs
from treefold.planning.linear_programs import Vector

GAP = 0.01
"""Shares this close to the best are good enough."""
_OFFERED = 80
"""The most trees among which an integer program chooses."""


class Shared(NamedTuple):
    """The rates of a forest's trees in bytes per second, and a report for `treefold plan --json`."""

    rates: Vector
    report: dict[str, Any]


def share(
    forest: Forest,
    *,
    most_trees: int | None,
    least_rate_Bps: float = 0.0,
    seconds: float = linear_programs.SECONDS,
    start: Vector | None = None,
) -> Shared:
    """Maximise the sum of the rates of at most `most_trees` trees, none with less than `least_rate_Bps`.

    The solver starts from the best of three solutions: `start` (which must be feasible), the greedy solution of the
    core, and one trimmed from that of the linear program. It is the result if the solver finds nothing better within
    its limits. The report has the proven `gap` to the best; without a proof it is null, and `solver` is `greedy`.

    Raises:
        MisfitError: If no tree can carry the least rate.

    """
    most = len(forest) if most_trees is None else most_trees
    greedy = np.asarray(forest.greedy_shares(most, least_rate_Bps))
    known = greedy if start is None else max(greedy, start, key=np.sum)
    if not known.any():
        possible = format_bandwidth(float(np.max(forest.greedy_shares(1, 0.0))))
        raise MisfitError(
            f"least rate {format_bandwidth(least_rate_Bps)}: no tree carries as much; {possible} is possible"
        )
    best, _ = linear_programs.master(forest.usage(), np.asarray(forest.capacity))
    offered = most_promising(known, best) if most < len(forest) else np.arange(len(forest))
    rates, gap = _chosen(forest.select(offered), most, least_rate_Bps, seconds, known[offered])
    known = np.zeros_like(known)
    known[offered] = rates
    if gap is not None and len(offered) < len(forest):
        gap = max(gap, float(best.sum() / rates.sum()) - 1)
    return Shared(known, {"gap": gap, "solver": "greedy" if gap is None else "highs"})


def most_promising(*by: Vector) -> NDArray[np.intp]:
    """Return the trees with the largest values; an integer program chooses among them. The first vector counts most."""
    return np.sort(np.lexsort([-each for each in reversed(by)])[:_OFFERED])


def _chosen(
    forest: Forest, most: int, least_rate_Bps: float, seconds: float, known: Vector
) -> tuple[Vector, float | None]:
    """Improve the known rates; return the best rates found and the proven gap."""
    usage, capacity = forest.usage(), np.asarray(forest.capacity)
    known = max(known, linear_programs.trimmed(usage, capacity, most, least_rate_Bps), key=np.sum)
    bound = linear_programs.upper_bound(usage, capacity)
    if known.sum() >= bound * (1 - GAP):
        return known, max(0.0, bound / float(known.sum()) - 1)
    progress.report(f"choosing among {len(forest)} trees (at most {seconds:g} s)")
    try:
        chosen = linear_programs.choose(
            usage, capacity, most_trees=most, least_rate=least_rate_Bps, seconds=seconds, gap=GAP, start=known
        )
    except TreefoldError:
        return known, None
    return max(chosen.rates, known, key=np.sum), chosen.gap if math.isfinite(chosen.gap) else None
