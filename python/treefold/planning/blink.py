"""`blink` packs trees of one root approximately, and then keeps only a few of them.

The algorithm is Blink's (Wang et al., "Blink: fast and generic collectives for distributed ML", MLSys 2020).
Multiplicative weights pack trees of one root; then an integer program finds the fewest of them that keep 95 % of the
rate. Heights are not limited. An all-reduce is a reduce and a broadcast over the same tree, streamed in chunks.

The paper leaves some choices open. The root is the centre, by latency, of the first and widest tree; rates do not
depend on it. Multiplicative weights stop after 20 trees for each rank, at epsilon 0.1. Where capacities differ, Blink's
program has whole multiples of a link's rate and relaxes them step by step; here rates are real numbers from the start,
and the number of trees is minimised. If the request limits the trees to K and 95 % of the rate would need more, the
plan has the best rate of K trees.

Cost: 20 searches for a tree for each rank, and an integer program with a limit of time.

Fits: direct and switched networks whose links go both ways; it is a baseline for servers and wide-area networks.
"""

from functools import lru_cache

import numpy as np

from treefold import progress
from treefold._core import Forest, Topology
from treefold.planning import Planned, linear_programs
from treefold.planning.request import Request
from treefold.planning.shares import Shared, most_promising, share

_EPSILON = 0.1
_TREES_A_RANK = 20
_KEPT = 0.95


def plan(request: Request) -> Planned:
    """Plan with a few trees of one root, at most as many as the request allows.

    Raises:
        MisfitError: If the links that go both ways do not join all ranks.

    """
    forest, shared = solve(request.network, request.options.trees)
    return Planned(forest.plan("blink", shared.rates.tolist(), request.options.pipeline), dict(shared.report))


@lru_cache(maxsize=16)
def solve(network: Topology, most_trees: int | None) -> tuple[Forest, Shared]:
    """Return the trees and their shares, which are cached because they serve every size."""
    forest = Forest(network)
    packed = np.asarray(forest.add_of_one_root_by_weights(_EPSILON, _TREES_A_RANK * network.ranks))
    capacity = np.asarray(forest.capacity)
    progress.report(f"blink: thinning {len(forest)} trees")
    start = linear_programs.thinned(forest.usage(), capacity, _KEPT * float(packed.sum()))
    forest = forest.select(offered := most_promising(start, packed))
    few = linear_programs.fewest(forest.usage(), capacity, rate=_KEPT * float(packed.sum()), start=start[offered])
    if most_trees is not None and np.count_nonzero(few.rates) > most_trees:
        return forest, share(forest, most_trees=most_trees)
    return forest, Shared(few.rates, {"gap": few.gap if np.isfinite(few.gap) else None})
