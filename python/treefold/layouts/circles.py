"""Places complete networks on a circle, and dragonflies with routers on a circle and their hosts around it."""

import numpy as np

from treefold.layouts.graph import Graph, Numbers
from treefold.layouts.grids import circle
from treefold.layouts.placement import Placement, placed


def complete(graph: Graph) -> Placement | None:
    """Place a network whose nodes all have links to each other on a circle; none for other networks."""
    size = graph.size
    if size < 3 or len(graph.pairs) < size * (size - 1) // 2 or graph.is_switch.any():
        return None
    return placed(graph, "ring", circle(size))


def dragonfly(graph: Graph) -> Placement | None:
    """Place a dragonfly: routers that stand in groups, all of whose members are joined, and hosts with one router."""
    routers = np.flatnonzero(graph.is_switch)
    size = _group_size(graph, routers)
    if size < 2:
        return None
    hosts = [[int(each) for each in graph.neighbors[router] if not graph.is_switch[each]] for router in routers]
    if sum(map(len, hosts)) != graph.size - len(routers) or any(
        graph.is_switch[node] != np.isin(node, routers) for node in range(graph.size)
    ):
        return None
    return placed(graph, "ring", _around(graph, routers, hosts, size))


def _group_size(graph: Graph, routers: Numbers) -> int:
    """Return the number of routers of a group, if they stand in groups of this size all of whose members are joined."""
    joined = {(int(low), int(high)) for low, high in graph.pairs}

    def in_one(members: Numbers) -> bool:
        return all((int(low), int(high)) in joined for place, low in enumerate(members) for high in members[:place])

    joined |= {(high, low) for low, high in joined}
    size = 1
    while size < len(routers) and in_one(routers[: size + 1]):
        size += 1
    groups = [routers[start : start + size] for start in range(0, len(routers), size)]
    return size if len(groups) > 1 and all(len(group) == size and in_one(group) for group in groups) else 0


def _around(graph: Graph, routers: Numbers, hosts: list[list[int]], size: int) -> np.ndarray:
    """Return the places: every router has as much of the circle as its hosts need, and groups have gaps between."""
    widths = np.array([max(1.0, len(each)) for each in hosts])
    gaps = np.where(np.arange(len(routers)) % size == 0, 0.25 * size * widths.mean(), 0.0)
    ends = np.cumsum(widths + gaps)
    middles = ends - widths / 2 - gaps[0] / 2
    radius = ends[-1] / (2 * np.pi)
    positions = np.zeros((graph.size, 2))
    inner = max(radius - 1.5 - 0.1 * radius, 0.6 * radius)
    for router, middle, own in zip(routers, middles, hosts, strict=True):
        positions[router] = inner * _direction(middle / ends[-1])
        for place, host in enumerate(own):
            positions[host] = radius * _direction((middle + place - (len(own) - 1) / 2) / ends[-1])
    return positions


def _direction(turn: float) -> np.ndarray:
    """Return the direction at a share of a turn, clockwise from the top."""
    return np.array([np.sin(2 * np.pi * turn), np.cos(2 * np.pi * turn)])
