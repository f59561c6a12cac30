"""Bounds and plans for what pairs and groups carry: the narrow door to the planner.

The network is a full mesh of the workers, whose links share the capacities of the groups.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treefold._core import Plan
from treefold.bounds import collective_bounds_of
from treefold.discovery.groups import Shared
from treefold.discovery.observations import Evidence, Pair, Vector
from treefold.importers.document import Document, make_document, make_link, make_node, make_shared
from treefold.networks import topology
from treefold.plans import plan

_SIZE_BYTES = 1 << 30
_LEAST = 1e-6
"""A pair that carries nothing has this part of the highest rate in a bound, so that it has a price, too."""
_USED = 1e-4
"""A pair with less than this part of the highest rate is left out of a plan."""
_AS_GOOD = 0.98
"""A plan is as good as another if it reaches this part of its rate."""


class Planned(NamedTuple):
    """A plan: its rate, and the rate of each pair while it runs at that, in bytes per second."""

    rate_Bps: float
    loads_Bps: Vector


def bound(evidence: Evidence, capacity_Bps: Vector, groups: Sequence[Shared]) -> tuple[float, Vector]:
    """Return the rate that no plan beats, and its prices: how much it rises for each byte a second that pairs gain."""
    rates_Bps = np.maximum(capacity_Bps, _LEAST * capacity_Bps.max())
    found = collective_bounds_of(topology(_document(evidence, rates_Bps, groups)), "all-reduce", 0)
    return float(found.rate.rate_Bps or 0.0), found.prices()


def best(evidence: Evidence, capacity_Bps: Vector, groups: Sequence[Shared]) -> Planned:
    """Return the plan for large vectors on what pairs and groups carry."""
    rates_Bps = np.where(capacity_Bps > _USED * capacity_Bps.max(), capacity_Bps, 0.0)
    made = plan(topology(_document(evidence, rates_Bps, groups)), "packing", size_bytes=_SIZE_BYTES)
    rate_Bps = made.rate or 0.0
    return Planned(rate_Bps, evidence.vector(loads_of(made)) * rate_Bps)


def loads_of(made: Plan) -> dict[Pair, float]:
    """Return the bytes that a plan sends from rank to rank for each byte of a vector."""
    ranks = {name: rank for rank, name in enumerate(made.topology.rank_names)}
    loads: dict[Pair, float] = {}
    for tree in made.trees():
        for edge in (*tree.reduce(), *tree.broadcast()):
            pair = ranks[edge.source], ranks[edge.target]
            loads[pair] = loads.get(pair, 0.0) + tree.share
    return loads


def nearest(evidence: Evidence, capacity_Bps: Vector, groups: Sequence[Shared], length: Vector) -> Planned:
    """Return a plan that leaves out the longest pairs, as far as that costs next to nothing.

    Traffic that is not needed is not explained by the model either: short pairs cross few things. How many pairs are
    left out is found by bisection, each step of which costs a bound.
    """
    most_Bps, _ = bound(evidence, capacity_Bps, groups)
    order = np.argsort(length, kind="stable")
    few, many = min(evidence.ranks, len(order)), len(order)
    while few < many:
        middle = (few + many) // 2
        if bound(evidence, _only(capacity_Bps, order[:middle]), groups)[0] >= _AS_GOOD * most_Bps:
            many = middle
        else:
            few = middle + 1
    return best(evidence, _only(capacity_Bps, order[:many]), groups)


def _only(capacity_Bps: Vector, columns: NDArray[np.intp]) -> Vector:
    """Return the capacities of some pairs; the others keep next to nothing."""
    kept = np.zeros(len(capacity_Bps))
    kept[columns] = capacity_Bps[columns]
    return kept


def _document(evidence: Evidence, rates_Bps: Vector, groups: Sequence[Shared]) -> Document:
    """Return the network of all pairs that carry something, without groups that limit nothing."""
    limits = [group for group in groups if group.capacity_Bps < 0.999 * rates_Bps[group.mask].sum()]
    shares: list[list[str]] = [[] for _ in evidence.pairs]
    for number, group in enumerate(limits):
        for column in np.flatnonzero(group.mask):
            shares[column].append(str(number))
    links = [
        make_link(str(source), str(target), bandwidth_Bps=rate_Bps, latency_s=0.0, shares=names)
        for (source, target), rate_Bps, names in zip(evidence.pairs, rates_Bps.tolist(), shares, strict=True)
        if rate_Bps > 0
    ]
    shared = [make_shared(str(number), group.capacity_Bps) for number, group in enumerate(limits)]
    return make_document("hypothesis", [make_node(str(rank)) for rank in range(evidence.ranks)], links, shared)
