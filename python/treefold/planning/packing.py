"""`packing`: the optimum, by column generation, and the best few trees.

All-reduce is fractional packing of spanning trees: a tree takes both directions of each of its links, whatever its
root. The master program holds the trees found so far; its prices tell what a tree that would help must cost less
than; the core finds the cheapest ones (`planners/packing.rs`). Prices times capacities over the cost of the cheapest
tree is a bound on any packing (Farley 1990), so that the result carries its own certificate. Where at most K trees
are allowed, an integer program chooses among all trees that were found.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from treefold._core import Forest, Topology
from treefold.planning import Planned, Wishes, programs
from treefold.planning.programs import Vector

GAP = 1e-4
"""A packing this close to its bound is good enough."""

_ROUNDS = 200
_EPSILON = 0.3  # of the multiplicative weights that start
_NOISY_TREES = 16
_CHOICE_SECONDS = 5.0


class Packing(NamedTuple):
    """Trees, their rates in bytes a second, and a bound on the sum of any trees' rates."""

    forest: Forest
    rates: Vector
    bound_Bps: float


def plan(network: Topology, wishes: Wishes) -> Planned:
    """Plan with the best packing, or the best of at most `wishes.trees` trees."""
    if network.ranks < 2:
        return Planned(Forest(network).plan("packing", [], wishes.pipeline), {})
    packing = pack(network)
    rates, facts = packing.rates, {"bound_Bps": packing.bound_Bps}
    if wishes.trees is not None and np.count_nonzero(rates) > wishes.trees:
        usage, capacity = packing.forest.usage(), np.asarray(packing.forest.capacity)
        rates, facts["gap"] = programs.choose(usage, capacity, most_trees=wishes.trees, seconds=_CHOICE_SECONDS)
    return Planned(packing.forest.plan("packing", list(rates), wishes.pipeline), facts)


@lru_cache(maxsize=16)
def pack(network: Topology) -> Packing:
    """Return a packing within `GAP` of its bound, or the best after many rounds; kept, as it serves every size."""
    forest = Forest(network)
    capacity = np.asarray(forest.capacity)
    forest.add_by_weights(_EPSILON, 4 * network.ranks)
    random = np.random.default_rng(0)
    bound = _known_bound(network)
    for _ in range(_ROUNDS):
        rates, prices = programs.master(forest.usage(), capacity)
        if rates.sum() >= bound * (1 - GAP):
            break
        bound = min(bound, _price(forest, capacity, prices / (prices @ capacity), random))
    return Packing(forest, rates, bound)


def _known_bound(network: Topology) -> float:
    """Return the bound by cuts and strength: where it is tight, no certificate has to be searched for."""
    [bound] = [rate for name, rate, _, _ in network.bounds().rates if name == "all_reduce"]
    return np.inf if bound is None else bound


def _price(forest: Forest, capacity: Vector, prices: Vector, random: np.random.Generator) -> float:
    """Add trees that are cheap under the prices; return the bound that the prices prove."""
    prices = prices + 1e-9 * prices.max()
    cheapest = forest.add_cheapest(prices, list(range(forest.ranks)))
    for _ in range(_NOISY_TREES):
        noise = (0.1 * prices + 0.02 * prices.mean()) * random.random(len(prices))
        forest.add_cheapest(prices + noise, list(range(forest.ranks)))
    return float(prices @ capacity) / cheapest if cheapest > 0 else np.inf
