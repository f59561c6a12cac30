"""`packing`: the optimum, by column generation, and the best few trees.

All-reduce is fractional packing of spanning trees: a tree takes both directions of each of its links, whatever its
root. The master program holds the trees found so far; its prices tell what a tree that would help must cost less
than; the core finds the cheapest ones (`planners/packing.rs`). Prices times capacities over the cost of the cheapest
tree is a bound on any packing (Farley 1990), so that the result carries its own certificate. Where at most K trees
are allowed, or only low ones, an integer program chooses among all trees that were found and those of MTree and Blink,
whose better solution it starts from.
"""

from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treefold._core import Forest, Topology, TreefoldError
from treefold.planning import Planned, Wishes, blink, mtree, programs
from treefold.planning.programs import Vector
from treefold.planning.shares import Shared, share

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
    """Plan with the best packing, or the best of trees that keep to the wishes.

    Raises:
        TreefoldError: If no tree that was found is low enough or carries the least rate.

    """
    packing = pack(network.to_json())
    forest, rates, facts = packing.forest, packing.rates, {"bound_Bps": packing.bound_Bps}
    if _are_limits(wishes, int(np.count_nonzero(rates))):
        forest, shared = choose(network.to_json(), wishes._replace(size_bytes=0, pipeline=True))
        rates, facts = shared.rates, facts | shared.facts
    return Planned(forest.plan("packing", rates.tolist(), wishes.pipeline), facts)


def _are_limits(wishes: Wishes, trees: int) -> bool:
    """Tell whether a packing of so many trees may break the wishes."""
    too_many = wishes.trees is not None and wishes.trees < trees
    return too_many or wishes.height is not None or bool(wishes.least_rate_Bps)


@lru_cache(maxsize=16)
def choose(network_json: str, wishes: Wishes) -> tuple[Forest, Shared]:
    """Return trees that keep to the wishes and their shares: never less than those of MTree and Blink."""
    packed = pack(network_json).forest
    forest = packed.select(range(len(packed)))
    solved = _of_rivals(network_json, wishes)
    parts = [np.zeros(len(forest)), *(shared.rates for _, shared in solved)]
    for other, _ in solved:
        forest.join(other)
    first = np.cumsum([0, *(len(part) for part in parts)])
    starts = np.zeros((len(parts), len(forest)))
    for row, part in enumerate(parts):
        starts[row, first[row] : first[row + 1]] = part
    low = _low_enough(forest, wishes)
    starts = starts[(starts[:, ~low] == 0).all(axis=1)][:, low]
    forest, start = forest.select(np.flatnonzero(low).tolist()), starts[np.argmax(starts.sum(axis=1))]
    least = wishes.least_rate_Bps or 0.0
    if start[start > 0].min(initial=np.inf) < least * (1 - 1e-6):
        start = np.zeros_like(start)
    shared = share(forest, most_trees=wishes.trees, least_rate_Bps=least, seconds=_CHOICE_SECONDS, start=start)
    return forest, shared


def _of_rivals(network_json: str, wishes: Wishes) -> list[tuple[Forest, Shared]]:
    """Return the trees and shares of MTree and Blink, where they fit the network."""
    solved = []
    with suppress(TreefoldError):
        grown, shared = mtree.solve(network_json, wishes)
        solved.append((grown.forest, shared))
    with suppress(TreefoldError):
        solved.append(blink.solve(network_json, wishes.trees))
    return solved


def _low_enough(forest: Forest, wishes: Wishes) -> NDArray[np.bool_]:
    """Tell which trees keep to the height.

    Raises:
        TreefoldError: If none does.

    """
    heights = np.asarray(forest.heights(wishes.heights == "latency"))
    low = heights <= (heights.max() if wishes.height is None else wishes.height)
    if not low.any():
        unit = "hops" if wishes.heights == "hops" else "quanta of latency"
        raise TreefoldError(
            f"height {wishes.height}: the lowest tree that was found has {heights.min()} {unit}; "
            f"allow --height {heights.min()}"
        )
    return low


@lru_cache(maxsize=16)
def pack(network_json: str) -> Packing:
    """Return a packing within `GAP` of its bound, or the best after many rounds; kept, as it serves every size."""
    network = Topology.from_json(network_json)
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
    return min(rate for name, rate, _, _ in network.bounds().rates if name == "all_reduce" and rate is not None)


def _price(forest: Forest, capacity: Vector, prices: Vector, random: np.random.Generator) -> float:
    """Add trees that are cheap under the prices; return the bound that the prices prove."""
    prices = prices + 1e-9 * prices.max()
    cheapest = forest.add_cheapest(prices, list(range(forest.ranks)))
    for _ in range(_NOISY_TREES):
        noise = (0.1 * prices + 0.02 * prices.mean()) * random.random(len(prices))
        forest.add_cheapest(prices + noise, list(range(forest.ranks)))
    return float(prices @ capacity) / cheapest if cheapest > 0 else np.inf
