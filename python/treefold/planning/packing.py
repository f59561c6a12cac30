"""`packing` finds the optimum by column generation, and the best plans of few trees.

An all-reduce is a fractional packing of spanning trees: a tree takes both directions of each of its links, whatever its
root. The master program holds the trees found so far, and its prices say which further trees would help: those that
cost less than 1. The core finds the cheapest trees (`planners/packing.rs`). The sum of prices times capacities, divided
by the cost of the cheapest tree, bounds the rate of any packing (Farley 1990), so the result has its own certificate.
Of the packings with the best rate we take a corner of the program, with few and low trees; small vectors get lower
trees.

If at most K trees are allowed, trees of equal rate (`planners/packing/disjoint.rs`) come close to the bound, together
with the widest trees in the capacity that they leave. If that is not close enough, an integer program chooses among all
these trees and those of MTree and Blink; it starts from the better of their two solutions.

Cost: a linear program and a search for cheap trees in each round, which is seconds in all on networks of a few hundred
links. Where ranks times links are more than 300,000, `auto` leaves this algorithm out.

Fits: any network, above all one whose links are unequal; for large all-reduces nothing in which switches only forward
is faster.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treefold import progress
from treefold._core import Forest, Plan, Topology, simulate_analytic
from treefold.errors import MisfitError
from treefold.options import PlannerOptions
from treefold.planning import Planned, blink, is_quick, linear_programs, mtree
from treefold.planning.linear_programs import Vector
from treefold.planning.request import Request
from treefold.planning.shares import GAP as CHOICE_GAP
from treefold.planning.shares import share

GAP = 1e-4
"""A packing this close to its bound is good enough."""

_ROUNDS = 200
_EPSILON, _TURNS = 0.5, 8
"""The step of the multiplicative weights that find the first trees, and how many they take for each rank.

A large step finds unlike trees, among which the linear program chooses well.
"""
_NOISY_TREES = 16
"""How many trees each round seeks under prices with noise."""
_LOW = 1e-4
"""The bonus of the lowest tree over the highest, as a part of the rate."""
_CENTRES = 64
"""The most ranks whose trees of shortest routes are among the first columns."""
_WORTH_LOWERING = 0.01
"""The part of the time that lower trees must save to be worth a lower rate."""
_LEVELS = (1.0, 1.5, 2.0, 3.0, 5.0)
"""The limits of height for plans of small vectors, as multiples of the lowest tree's height."""
_OTHERS, _MOST_ENTRIES = 3, 1 << 18
"""How many more corners of a program are tried, and the most trees times resources for that."""
_EQUAL_TREES, _EQUAL_EDGES = 16, 1000
"""The most trees of equal rate that are sought, and the most edges that they may have together."""

_SEEDS, _GROWN_AGAIN = 16, 30_000
"""How many random starts MTree gets for a choice of trees, and the most ranks times links for that."""


class Packing(NamedTuple):
    """Trees, their rates in bytes per second, and a bound on the total rate of any trees."""

    forest: Forest
    rates: Vector
    bound_Bps: float


def plan(request: Request) -> Planned:
    """Plan with the best packing, or with the best trees within the limits.

    Raises:
        MisfitError: If no known tree is low enough, or none carries the least rate.

    """
    packing = pack(request.network)
    best = packing.forest, packing.rates
    if not keeps(*best, request.options):
        best = choose(request.network, replace(request.options, pipeline=True))
    plan = _quickest(best, request)
    rate_Bps = plan.rate or packing.bound_Bps
    return Planned(plan, {"bound_Bps": packing.bound_Bps, "gap": max(0.0, packing.bound_Bps / rate_Bps - 1)})


def keeps(forest: Forest, rates: Vector, limits: PlannerOptions) -> bool:
    """Tell whether the trees with a positive rate keep the limits."""
    carrying = rates > 0
    heights = np.asarray(forest.heights(limits.heights))[carrying]
    is_few = limits.trees is None or len(heights) <= limits.trees
    is_low = limits.height is None or bool(heights.max() <= limits.height)
    return is_few and is_low and bool(rates[carrying].min() >= (limits.least_rate or 0.0) * (1 - 1e-6))


def _quickest(best: tuple[Forest, Vector], request: Request) -> Plan:
    """Return the fastest plan at this size: that of the best rate, or one of lower or fewer trees if that pays off."""
    wanted = [best, *(each for each in _lesser(request.network) if keeps(*each, request.options))]
    plans = [forest.plan("packing", rates.tolist(), request.options.pipeline) for forest, rates in wanted]
    seconds = [simulate_analytic(plan, request.size_bytes).time_s for plan in plans]
    rates = [float(rates.sum()) for _, rates in wanted]
    as_wide = [rate >= rates[0] * (1 - GAP) for rate in rates]
    worth = [time_s if wide else time_s / (1 - _WORTH_LOWERING) for time_s, wide in zip(seconds, as_wide, strict=True)]
    return plans[int(np.argmin(worth))]


@lru_cache(maxsize=16)
def _lesser(network: Topology) -> list[tuple[Forest, Vector]]:
    """Return packings of lower trees, of MTree too, and of fewer trees; they are cached, as they serve every size."""
    if not is_quick(network):
        return []
    forest = pack(network).forest
    heights = np.asarray(forest.heights("latency"))
    levels = {int(heights.min() * factor) for factor in _LEVELS}
    low = [forest.select(np.flatnonzero(heights <= level).tolist()) for level in sorted(levels)]
    lower = [(each, rates) for each in low if len(each) < len(forest) for rates in (corner(each), *_others(each))]
    lower += [(forest, rates) for rates in _others(forest)]
    fewer = [(each, _best(each)) for each in _of_equal_rate(network)]
    with suppress(MisfitError):
        grown, shared = mtree.solve(network, PlannerOptions())
        lower.append((grown.forest, shared.rates))
    return lower + fewer


@lru_cache(maxsize=16)
def choose(network: Topology, limits: PlannerOptions) -> tuple[Forest, Vector]:
    """Return trees within the limits and their rates, which together are at least those of MTree and Blink."""
    packing = pack(network)
    forest, rates = few = _few(network, limits.trees or _EQUAL_TREES)
    if keeps(forest, rates, limits) and rates.sum() >= packing.bound_Bps * (1 - GAP):
        return few
    forest, starts = _joined([(packing.forest, np.zeros(len(packing.forest))), few, *_solved(network, limits)])
    low = _low_enough(forest, limits)
    starts = starts[(starts[:, ~low] == 0).all(axis=1)][:, low]
    forest, start = forest.select(np.flatnonzero(low).tolist()), starts[np.argmax(starts.sum(axis=1))]
    least = limits.least_rate or 0.0
    if start[start > 0].min(initial=np.inf) < least * (1 - 1e-6):
        start = np.zeros_like(start)
    if start.sum() >= packing.bound_Bps * (1 - CHOICE_GAP):
        return forest, start
    return forest, share(forest, most_trees=limits.trees, least_rate_Bps=least, start=start).rates


def _joined(parts: list[tuple[Forest, Vector]]) -> tuple[Forest, Vector]:
    """Return the trees of all parts, and a row of rates for each part, which are 0 for trees of other parts."""
    forest = parts[0][0].select([])
    for part, _ in parts:
        forest.join(part)
    first = np.cumsum([0, *(len(part) for part, _ in parts)])
    rows = np.zeros((len(parts), len(forest)))
    for row, (_, rates) in enumerate(parts):
        rows[row, first[row] : first[row + 1]] = rates
    return forest, rows


def _solved(network: Topology, limits: PlannerOptions) -> Iterator[tuple[Forest, Vector]]:
    """Yield low trees, and the trees and shares of MTree and Blink if these fit the network."""
    shallow = Forest(network)
    shallow.add_shortest(_centres(network), limits.heights)
    yield shallow, np.zeros(len(shallow))
    with suppress(MisfitError):
        grown, shared = mtree.solve(network, limits)
        yield grown.forest, shared.rates
        for seed in range(_SEEDS if network.ranks * network.num_links <= _GROWN_AGAIN else 0):
            forest = mtree.grow(network, replace(limits, seed=seed)).forest
            yield forest, np.zeros(len(forest))
    with suppress(MisfitError):
        forest, shared = blink.solve(network, limits.trees)
        yield forest, shared.rates


def _few(network: Topology, most: int) -> tuple[Forest, Vector]:
    """Return the best `most` trees that consist of trees of equal rate and the widest trees in the capacity left."""
    equal = [forest for forest in _of_equal_rate(network) if len(forest) <= most]
    started = [Forest(network), *equal]
    return max((_filled_up(forest, most) for forest in started), key=lambda found: float(found[1].sum()))


@lru_cache(maxsize=16)
def _of_equal_rate(network: Topology) -> list[Forest]:
    """Return forests of 1, 2, 3, ... trees of equal rate, if they exist; they are cached, as the search is slow."""
    forests = []
    for count in range(1, min(_EQUAL_TREES, _EQUAL_EDGES // network.ranks) + 1):
        forest = Forest(network)
        if forest.add_equal(count) is not None:
            forests.append(forest)
    return forests


def _filled_up(forest: Forest, most: int) -> tuple[Forest, Vector]:
    """Add the widest tree in the capacity that is left, until there are `most` trees or the rate no longer grows."""
    capacity = np.asarray(forest.capacity)
    rates = _best(forest)
    while len(forest) < most:
        left = np.maximum(capacity - linear_programs.load(forest.usage(), rates, len(capacity)), 0.0)
        wider = forest.select(range(len(forest)))
        # If narrow cables are expensive, the narrowest cable of the cheapest tree is as wide as possible.
        wider.add_cheapest(left.max() - left, range(forest.ranks))
        more = _best(wider)
        if more.sum() <= rates.sum() * (1 + 1e-9):
            break
        forest, rates = wider, more
    return forest, rates


def _best(forest: Forest) -> Vector:
    """Return the rates with the largest sum."""
    if len(forest) == 0:
        return np.zeros(0)
    return preferring(forest, np.zeros(len(forest)))


def _low_enough(forest: Forest, limits: PlannerOptions) -> NDArray[np.bool_]:
    """Tell which trees are within the limit of height.

    Raises:
        MisfitError: If no tree is.

    """
    heights = np.asarray(forest.heights(limits.heights))
    low = heights <= (heights.max() if limits.height is None else limits.height)
    if not low.any():
        unit = "hops" if limits.heights == "hops" else "times the smallest latency"
        raise MisfitError(
            f"height {limits.height}: the lowest tree that was found has a height of {heights.min()} {unit}; "
            f"allow a height of {heights.min()}"
        )
    return low


@lru_cache(maxsize=16)
def pack(network: Topology) -> Packing:
    """Return a packing within `GAP` of its bound, or the best after many rounds; it is cached for every size."""
    forest = Forest(network)
    capacity = np.asarray(forest.capacity)
    forest.add_shortest(_centres(network), "latency")
    forest.add_by_weights(_EPSILON, _TURNS * network.ranks)
    random = np.random.default_rng(0)
    bound = _known_bound(network)
    for number in range(_ROUNDS):
        rates, prices = linear_programs.master(forest.usage(), capacity)
        progress.report(
            f"packing: round {number + 1}, {len(forest)} trees carry {rates.sum() / bound:.2%} of the bound"
        )
        if rates.sum() >= bound * (1 - GAP):
            break
        bound = min(bound, _price(forest, capacity, prices / (prices @ capacity), random))
    return Packing(forest, corner(forest), bound)


def _centres(network: Topology) -> list[int]:
    """Return some ranks, evenly spread over all."""
    count = min(network.ranks, _CENTRES)
    return [place * network.ranks // count for place in range(count)]


def corner(forest: Forest) -> Vector:
    """Return the best rates at a corner of the program, where few trees carry anything; low trees get a bonus."""
    heights = np.asarray(forest.heights("latency"), dtype=np.float64)
    return preferring(forest, _LOW * (1 - heights / heights.max()))


def _others(forest: Forest) -> list[Vector]:
    """Return the best rates at other corners.

    Many corners have the same rate, but not the same time: where rates are unlike, small chunks of narrow trees take
    long.
    """
    random = np.random.default_rng(0)
    is_small = len(forest) * len(forest.capacity) <= _MOST_ENTRIES
    return [preferring(forest, _LOW * random.random(len(forest))) for _ in range(_OTHERS if is_small else 0)]


def preferring(forest: Forest, bonus: Vector) -> Vector:
    """Return the best rates at a corner of the program; each tree's rate counts `1 + bonus` times."""
    return linear_programs.prefer(forest.usage(), np.asarray(forest.capacity), bonus)


def _known_bound(network: Topology) -> float:
    """Return the bound by cuts and strength; if it is tight, the search for a certificate ends early."""
    known = [each.rate_Bps for each in network.bounds().rates if each.name == "all_reduce"]
    return min(rate_Bps for rate_Bps in known if rate_Bps is not None)


def _price(forest: Forest, capacity: Vector, prices: Vector, random: np.random.Generator) -> float:
    """Add trees that are cheap under the prices; return the bound that the prices prove."""
    prices = prices + 1e-9 * prices.max()
    cheapest = forest.add_cheapest(prices, list(range(forest.ranks)))
    for _ in range(_NOISY_TREES):
        forest.add_cheapest(noisy(prices, random), list(range(forest.ranks)))
    return float(prices @ capacity) / cheapest if cheapest > 0 else np.inf


def noisy(prices: Vector, random: np.random.Generator) -> Vector:
    """Raise prices a little at random, so that other trees become the cheapest."""
    noise: Vector = (0.1 * prices + 0.02 * prices.mean()) * random.random(len(prices))
    return prices + noise
