"""`mtree`: low trees of wide capacity, and the best shares for at most K of them.

MTree ("Efficient inter-datacenter all-reduce with multiple trees"). The core grows the trees (GOST,
`planners/gost.rs`); an integer program decides which of them carry how much; each tree streams its part in the chunks
that the alpha-beta model finds best (III-C). It needs a network of ranks that are joined by links in both directions.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from treefold._core import Forest, Topology
from treefold.planning import Planned, Wishes
from treefold.planning.programs import SECONDS, Vector
from treefold.planning.shares import Shared, share

_MOST_TREES = 1000


class Grown(NamedTuple):
    """Trees of GOST, the rates at which it took them, the height that they keep to and the least rate of a tree."""

    forest: Forest
    rates: Vector
    height: int
    least_rate_Bps: float


def plan(network: Topology, wishes: Wishes) -> Planned:
    """Plan with at most `wishes.trees` trees that are at most `wishes.height` high.

    Raises:
        TreefoldError: If the network has switches, relays or needs one-way links, no tree is low enough, or none
            carries the least rate.

    """
    grown, shared = solve(network.to_json(), wishes._replace(size_bytes=0, pipeline=True))
    facts = {"height_limit": grown.height, "least_rate_Bps": grown.least_rate_Bps, **shared.facts}
    return Planned(grown.forest.plan("mtree", shared.rates.tolist(), wishes.pipeline), facts)


@lru_cache(maxsize=16)
def solve(network_json: str, wishes: Wishes) -> tuple[Grown, Shared]:
    """Return the trees and their shares; kept, as they serve every size."""
    grown = grow(Topology.from_json(network_json), wishes)
    return grown, share_out(grown, wishes.trees)


def grow(network: Topology, wishes: Wishes) -> Grown:
    """Grow trees by GOST."""
    forest = Forest(network)
    rates, height, least = forest.grow(
        wishes.height, wishes.heights == "latency", wishes.least_rate_Bps, wishes.rho, wishes.seed, _MOST_TREES
    )
    return Grown(forest, np.asarray(rates), height, least)


def share_out(grown: Grown, most_trees: int | None, seconds: float = SECONDS) -> Shared:
    """Decide which of the trees carry how much."""
    widest = np.argsort(-grown.rates, kind="stable")[:most_trees]
    start = np.zeros_like(grown.rates)
    start[widest] = grown.rates[widest]
    return share(grown.forest, most_trees=most_trees, least_rate_Bps=grown.least_rate_Bps, seconds=seconds, start=start)
