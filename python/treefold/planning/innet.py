"""`innet`: reduction trees with switches as inner nodes, packed to share the links of any network; ours.

Where switches join and fan out, an all-reduce is a fractional packing of Steiner trees: each rank's operand goes up
once and the sum comes down once. The cheapest such tree under prices is hard to find, so cheap ones serve
(`planners/in_network/steiner.rs`) in a column generation like that of `packing`; how good it is, the in-network bound
of `treefold bound` tells, which knows nothing of trees.
"""

from functools import lru_cache

import numpy as np

from treefold import progress
from treefold._core import Forest, Topology, simulate_analytic
from treefold.errors import TreefoldError
from treefold.planning import Planned, bound_program, is_fabric, programs
from treefold.planning.packing import Packing, corner, noisy
from treefold.planning.programs import Vector
from treefold.planning.request import Request

GAP = 1e-3
"""A packing this close to the bound is good enough."""

_ROUNDS = 30
_IDLE_ROUNDS = 4
"""Rounds without more than `GAP` of progress after which it ends."""
_EPSILON = 0.3  # of the multiplicative weights that start
_ROOTS = 16
"""Roots of which cheap trees are looked for in a round."""


def plan(request: Request) -> Planned:
    """Plan with the best packing, or for small vectors with the lowest of its trees.

    Raises:
        TreefoldError: If no switch joins operands and fans out sums.

    """
    packing = pack(request.network, request.ranks_relay)
    plans = [
        forest.plan("innet", rates.tolist(), request.options.pipeline)
        for forest, rates in ((packing.forest, packing.rates), _low(packing))
    ]
    plan = min(plans, key=lambda each: simulate_analytic(each, [request.size_bytes])[0][0])
    rate_Bps = plan.rate or packing.bound_Bps
    return Planned(plan, {"bound_Bps": packing.bound_Bps, "gap": max(0.0, packing.bound_Bps / rate_Bps - 1)})


@lru_cache(maxsize=16)
def pack(network: Topology, ranks_relay: bool) -> Packing:
    """Return a packing within `GAP` of the bound, or the best after some rounds; kept, as it serves every size.

    If `ranks_relay`, ranks pass on what is others' where that carries more.
    """
    if not is_fabric(network):
        raise TreefoldError(
            f"innet needs switches that reduce and multicast; {network.name} has none: use packing, or say "
            '"reduces": true, "multicasts": true of switches in its file'
        )
    bound = _bound(network)
    forest = _grow(network, bound, ranks_relay=False)
    rate = _rate(forest)
    if rate < bound * (1 - GAP) and ranks_relay:
        relayed = _grow(network, bound, ranks_relay=True)
        if _rate(relayed) > rate * (1 + GAP):
            forest = relayed
    if not len(forest):
        raise TreefoldError(f"innet found no tree on {network.name}: its switches and links do not join all ranks")
    return Packing(forest, corner(forest), bound)


def _grow(network: Topology, bound: float, *, ranks_relay: bool) -> Forest:
    """Return trees that are good together."""
    forest = Forest.in_network(network)
    capacity = np.asarray(forest.capacity)
    roots = np.asarray(forest.add_steiner_by_weights(ranks_relay, _EPSILON, 4 * network.ranks))
    random = np.random.default_rng(0)
    best, idle = 0.0, 0
    for turn in range(_ROUNDS if len(forest) else 0):
        rates, prices = programs.master(forest.usage(), capacity)
        progress.report(f"innet: round {turn + 1}, {len(forest)} trees carry {rates.sum() / bound:.2%} of the bound")
        idle = 0 if rates.sum() > best * (1 + GAP) else idle + 1
        best = max(best, float(rates.sum()))
        if best >= bound * (1 - GAP) or idle == _IDLE_ROUNDS:
            break
        prices = prices / (prices @ capacity)
        tried = random.permutation(roots)[:_ROOTS].tolist()
        forest.add_cheap_steiner(ranks_relay, [noisy(prices, random) for _ in tried], tried)
    return forest


def _rate(forest: Forest) -> float:
    return float(programs.master(forest.usage(), np.asarray(forest.capacity))[0].sum()) if len(forest) else 0.0


def _bound(network: Topology) -> float:
    rates = bound_program.tighten(network, network.bounds()).rates
    return min(rate for name, rate, _, _ in rates if name == "in_network" and rate is not None)


def _low(packing: Packing) -> tuple[Forest, Vector]:
    """Return the lowest trees, and their best rates."""
    heights = np.asarray(packing.forest.heights(True))
    lowest = packing.forest.select(np.flatnonzero(heights == heights.min()).tolist())
    return lowest, corner(lowest)
