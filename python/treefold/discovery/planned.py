"""Plans on a model: the rate that it allows, and what the plan's traffic is on each pair."""
from typing import NamedTuple
import numpy as np
from treefold.discovery.explain import Candidate
from treefold.discovery.observations import Evidence, Vector


class Planned(NamedTuple):
    """A plan: its rate in bytes per second, and the rate of each pair while it runs at that."""

    rate_Bps: float
    loads_Bps: Vector


def solve(evidence, capacity_Bps, groups) -> Planned:
    import standin
    r, l = standin.plan(evidence.ranks, evidence.pairs, capacity_Bps, [(g.mask, g.capacity_Bps) for g in groups])
    return Planned(r, l)


def planned(evidence: Evidence, capacity_Bps: Vector, groups: list[Candidate], preferred: Vector) -> Planned:
    """Return a plan that uses the pairs with low `preferred` where that costs next to nothing."""
    best = solve(evidence, capacity_Bps, groups)
    order = np.argsort(preferred, kind="stable")
    few, many = evidence.ranks, len(order)
    plan = best
    while few < many:
        middle = (few + many) // 2
        some = capacity_Bps * 1e-4
        some[order[:middle]] = capacity_Bps[order[:middle]]
        tried = solve(evidence, some, groups)
        if tried.rate_Bps >= 0.98 * best.rate_Bps:
            plan, many = tried, middle
        else:
            few = middle + 1
    return plan
