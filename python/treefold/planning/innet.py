"""`innet`, our own planner, packs reduction trees with switches as inner nodes into any network.

If switches reduce and multicast, an all-reduce is a fractional packing of Steiner trees: each rank's operand goes up
once, and the sum comes down once. The cheapest such tree under prices is hard to find, so the column generation, which
is like that of `packing`, uses cheap trees (`planners/in_network/steiner.rs`). The in-network bound of `treefold bound`
tells how good the result is; it is computed without trees.

Cost: a linear program and a search for cheap trees in each round.

Fits: networks with switches that reduce and multicast, of any shape.
"""

from functools import lru_cache

import numpy as np

from treefold import progress
from treefold._core import Forest, Topology, simulate_analytic
from treefold.errors import MisfitError
from treefold.planning import Planned, is_fabric, linear_programs
from treefold.planning.linear_programs import Vector
from treefold.planning.packing import Packing, corner, noisy
from treefold.planning.request import Request

GAP = 1e-3
"""A packing this close to the bound is good enough."""

_ROUNDS = 30
_IDLE_ROUNDS = 4
"""The number of rounds with less than `GAP` of progress after which the search ends."""
_EPSILON = 0.3
"""The step of the multiplicative weights that find the first trees."""
_ROOTS = 16
"""The number of roots for which a round seeks cheap trees."""


def plan(request: Request) -> Planned:
    """Plan with the best packing, or for small vectors with its lowest trees.

    Raises:
        MisfitError: If no switch both reduces and multicasts.

    """
    packing = pack(request.network, request.ranks_relay)
    plans = [
        forest.plan("innet", rates.tolist(), request.options.pipeline)
        for forest, rates in ((packing.forest, packing.rates), _low(packing))
    ]
    plan = min(plans, key=lambda each: simulate_analytic(each, request.size_bytes).time_s)
    rate_Bps = plan.rate or packing.bound_Bps
    return Planned(plan, {"bound_Bps": packing.bound_Bps, "gap": max(0.0, packing.bound_Bps / rate_Bps - 1)})


@lru_cache(maxsize=16)
def pack(network: Topology, ranks_relay: bool) -> Packing:
    """Return a packing within `GAP` of the bound, or the best after some rounds; it is cached, as it serves every size.

    If `ranks_relay`, ranks may relay data of other ranks where that increases the rate.
    """
    if not is_fabric(network):
        in_a_file = ', or if the network is in a file, say "reduces": true, "multicasts": true of its switches'
        raise MisfitError(
            f"innet needs switches that reduce and multicast; {network.name} has none: use packing"
            + (in_a_file if network.switches else "")
        )
    bound = _bound(network)
    forest = _grow(network, bound, ranks_relay=False)
    rate = _rate(forest)
    if rate < bound * (1 - GAP) and ranks_relay:
        relayed = _grow(network, bound, ranks_relay=True)
        if _rate(relayed) > rate * (1 + GAP):
            forest = relayed
    if not len(forest):
        raise MisfitError(f"innet found no tree on {network.name}: its switches and links do not join all ranks")
    return Packing(forest, corner(forest), bound)


def _grow(network: Topology, bound: float, *, ranks_relay: bool) -> Forest:
    """Return trees that pack well together."""
    forest = Forest.in_network(network)
    capacity = np.asarray(forest.capacity)
    roots = np.asarray(forest.add_steiner_by_weights(ranks_relay, _EPSILON, 4 * network.ranks))
    random = np.random.default_rng(0)
    best, idle = 0.0, 0
    for number in range(_ROUNDS if len(forest) else 0):
        rates, prices = linear_programs.master(forest.usage(), capacity)
        progress.report(f"innet: round {number + 1}, {len(forest)} trees carry {rates.sum() / bound:.2%} of the bound")
        idle = 0 if rates.sum() > best * (1 + GAP) else idle + 1
        best = max(best, float(rates.sum()))
        if best >= bound * (1 - GAP) or idle == _IDLE_ROUNDS:
            break
        prices = prices / (prices @ capacity)
        tried = random.permutation(roots)[:_ROOTS].tolist()
        forest.add_cheap_steiner(ranks_relay, [noisy(prices, random) for _ in tried], tried)
    return forest


def _rate(forest: Forest) -> float:
    return float(linear_programs.master(forest.usage(), np.asarray(forest.capacity))[0].sum()) if len(forest) else 0.0


def _bound(network: Topology) -> float:
    rates = network.bounds().rates
    return min(each.rate_Bps for each in rates if each.name == "in_network" and each.rate_Bps is not None)


def _low(packing: Packing) -> tuple[Forest, Vector]:
    """Return the lowest trees and their best rates."""
    heights = np.asarray(packing.forest.heights("latency"))
    lowest = packing.forest.select(np.flatnonzero(heights == heights.min()).tolist())
    return lowest, corner(lowest)
