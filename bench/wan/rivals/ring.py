"""Finds the order of ranks that makes the fastest ring on a box; a link that two hops share carries twice as much.

Rank r of gloo's ring sends 2 (n - 1) / n of the vector to rank r - 1, over all links of the route between them.
"""

import itertools
import random
from collections import Counter
from collections.abc import Callable

from tools.wan_box.network import Network, Pair, next_hops, route

TCP_SHARE = 0.955
ENUMERATED = 9
RESTARTS = 50


def time_s(network: Network, hops: list[dict[int, int]], order: list[int], size_bytes: int) -> float:
    """Return the seconds of a ring in this order of nodes; its most loaded link decides."""
    loads: Counter[Pair] = Counter()
    for receiver, sender in zip(order, [*order[1:], order[0]], strict=True):
        loads.update(route(hops, sender, receiver))
    sent = 2 * (len(order) - 1) / len(order) * size_bytes / TCP_SHARE
    return max(count * sent / network.directions[link].bandwidth_Bps for link, count in loads.items())


def best_order(network: Network, size_bytes: int) -> tuple[list[str], float]:
    """Return the workers' names in the order of the fastest ring, and its seconds; up to nine workers it is exact."""
    hops = next_hops(network)

    def cost(order: list[int]) -> float:
        return time_s(network, hops, order, size_bytes)

    first, *others = network.workers
    if len(network.workers) <= ENUMERATED:
        order = min(([first, *rest] for rest in itertools.permutations(others)), key=cost)
    else:
        drawn = random.Random(0)
        starts = ([first, *drawn.sample(others, len(others))] for _ in range(RESTARTS))
        order = min((climb(start, cost) for start in starts), key=cost)
    return [network.nodes[place] for place in order], cost(order)


def climb(order: list[int], cost: Callable[[list[int]], float]) -> list[int]:
    """Swap two workers, or reverse a part of the ring, as long as that helps."""
    best, improved = cost(order), True
    while improved:
        improved = False
        for a, b in itertools.combinations(range(1, len(order)), 2):
            swapped = list(order)
            swapped[a], swapped[b] = swapped[b], swapped[a]
            reversed_part = order[:a] + order[a : b + 1][::-1] + order[b + 1 :]
            for other in (swapped, reversed_part):
                if cost(other) < best:
                    order, best, improved = other, cost(other), True
    return order


def rank_order_s(network: Network, size_bytes: int) -> float:
    """Return the predicted seconds of a ring in rank order."""
    return time_s(network, next_hops(network), network.workers, size_bytes)
