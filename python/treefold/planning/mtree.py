"""`mtree` plans with low trees of wide capacity, and with the best shares for at most K of them.

The algorithm is MTree's ("Efficient inter-datacenter all-reduce with multiple trees"). The core grows the trees (GOST,
`planners/gost.rs`); an integer program decides how much each tree carries; each tree streams its part in chunks, as
many as the alpha-beta model finds best (III-C). The network must consist of ranks joined by links in both directions.
By default a tree takes a quarter of the widest cable at a time, and the growth goes on from other ranks where one
fails; the options `tree_rate="all"` and `starts="one"` give the algorithm as it was published.

Cost: n m for each tree over n ranks and m cables, and an integer program with a limit of time.

Fits: direct networks whose links go both ways, such as wide-area networks; it is for those who want few and low trees.
"""

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from treefold._core import Forest, Topology
from treefold.errors import MisfitError
from treefold.importers.caps import capped_nodes
from treefold.options import PlannerOptions
from treefold.planning import Planned
from treefold.planning.linear_programs import SECONDS, Vector
from treefold.planning.request import Request
from treefold.planning.shares import Shared, share
from treefold.text import some


class Grown(NamedTuple):
    """The trees that GOST grew, their rates as it grew them, the limit of their height, and their least rate."""

    forest: Forest
    rates: Vector
    height: int
    least_rate_Bps: float


def plan(request: Request) -> Planned:
    """Plan with a few low trees, within the limits of the request.

    Raises:
        MisfitError: If the network has switches or relays, or needs one-way links; or if no tree is low enough, or
            none carries the least rate.

    """
    options = request.options
    grown, shared = solve(request.network, replace(options, pipeline=True))
    report = {"height_limit": grown.height, "least_rate_Bps": grown.least_rate_Bps, **shared.report}
    return Planned(grown.forest.plan("mtree", shared.rates.tolist(), options.pipeline), report)


@lru_cache(maxsize=16)
def solve(network: Topology, options: PlannerOptions) -> tuple[Grown, Shared]:
    """Return the trees and their shares, which are cached because they serve every size."""
    grown = grow(network, options)
    return grown, share_out(grown, options.trees)


def grow(network: Topology, options: PlannerOptions) -> Grown:
    """Grow trees with GOST."""
    if switches := capped_nodes(network).values():
        raise MisfitError(
            f"mtree needs direct links between ranks, but {network.name} has node caps, which are switches "
            f"({some(switches)}); leave them out (node_cap='none'), or use packing"
        )
    forest = Forest(network)
    growth = forest.grow(options)
    return Grown(forest, np.asarray(growth.rates), growth.height, growth.least_rate_Bps)


def share_out(grown: Grown, most_trees: int | None, seconds: float = SECONDS) -> Shared:
    """Decide how much each tree carries."""
    widest = np.argsort(-grown.rates, kind="stable")[:most_trees]
    start = np.zeros_like(grown.rates)
    start[widest] = grown.rates[widest]
    return share(grown.forest, most_trees=most_trees, least_rate_Bps=grown.least_rate_Bps, seconds=seconds, start=start)
