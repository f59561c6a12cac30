"""Places switch networks in layers: accelerators, above them their switches, then the switches of those, and so on.

Accelerators stand in blocks under the switches to which they have their widest links. If there are other switches with
links to accelerators, as the rails of a cluster, those of a block stand below it (the network inside of a server), and
the others above. Within a layer the order is that of the means of the neighbours' places (Sugiyama, Tagawa and Toda,
IEEE SMC 1981): the best of a few passes, and that of the numbers if none is clearly better. Two halves of switches that
have links only to each other, as in a BiGraph, face each other, with their accelerators outside.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from treefold.layouts.graph import Graph, Numbers, Reals
from treefold.layouts.placement import Placement, placed

_WIDEST = 40.0
"""A layer of accelerators that would be wider stands in several rows."""
_BLOCK_GAP = 1.0
_PASSES, _LEAST_GAIN = 4, 0.97
_MOST_LEVEL_LINKS = 0.1
"""The largest share of the links between switches that may join switches of one layer."""


class _Block(NamedTuple):
    """Accelerators with the same switches."""

    homes: tuple[int, ...]
    members: list[int]


class _Levels(NamedTuple):
    """The layers of the switches."""

    blocks: list[_Block]
    level_of: Numbers
    """The layer of each node; accelerators have 0."""
    homes_below: bool


def layers(graph: Graph) -> Placement | None:
    """Place a network whose accelerators have links to switches only, if its switches stand in layers."""
    switched = graph.is_switch[graph.pairs]
    if not graph.is_switch.any() or not switched.any(axis=1).all() or (~graph.is_switch).sum() < 2:
        return None
    if any(len(graph.neighbors[node]) == 0 for node in range(graph.size)):
        return None
    found = _levels(graph)
    between = graph.pairs[switched.all(axis=1)]
    same = found.level_of[between[:, 0]] == found.level_of[between[:, 1]]
    if found.level_of.max() == 1 and len(between):
        halves = _halves(graph, between)
        return None if halves is None else _facing(graph, found, halves)
    if same.sum() > _MOST_LEVEL_LINKS * len(between):
        return None
    return placed(graph, "layers", _in_layers(graph, found), has_bends=bool(same.any()))


def _levels(graph: Graph) -> _Levels:
    """Find the blocks of accelerators and the layer of each switch: its distance from them."""
    homes = _homes(graph)
    members: dict[tuple[int, ...], list[int]] = {}
    for node, own in homes.items():
        members.setdefault(own, []).append(node)
    blocks = sorted((_Block(*each) for each in members.items()), key=lambda block: block.homes)
    level_of = np.full(graph.size, -1)
    level_of[list(homes)] = 0
    level_of[[switch for own in members for switch in own]] = 1
    risen = [
        int(node)
        for node in np.flatnonzero(level_of < 0)
        if any(level_of[other] == 0 for other in graph.neighbors[node])
    ]
    level_of[risen] = 2
    level = 1
    while (level_of < 0).any() and level <= graph.size:
        for switch in np.flatnonzero(level_of == level):
            near = graph.neighbors[switch]
            level_of[near[level_of[near] < 0]] = level + 1
        level += 1
    return _Levels(blocks, level_of, bool(risen))


def _homes(graph: Graph) -> dict[int, tuple[int, ...]]:
    """Return the switches to which each accelerator has its widest links, all together in each direction."""
    widths: dict[int, dict[int, float]] = {int(node): {} for node in np.flatnonzero(~graph.is_switch)}
    ends = np.concatenate([np.stack([graph.sources, graph.targets]), np.stack([graph.targets, graph.sources])], axis=1)
    for node, other, width in zip(*ends.tolist(), [*graph.bandwidths_Bps.tolist()] * 2, strict=True):
        if node in widths and graph.is_switch[other]:
            widths[node][other] = widths[node].get(other, 0.0) + width
    return {
        node: tuple(sorted(other for other, width in own.items() if width >= 0.999 * max(own.values())))
        for node, own in widths.items()
    }


def _halves(graph: Graph, between: Numbers) -> Numbers | None:
    """Return which half each switch is in, if two halves are joined completely or switch by switch."""
    half_of = np.full(graph.size, -1)
    for first in np.unique(between):
        if half_of[first] >= 0:
            continue
        half_of[first], waiting = 0, [int(first)]
        while waiting:
            node = waiting.pop()
            for other in graph.neighbors[node][graph.is_switch[graph.neighbors[node]]]:
                if half_of[other] < 0:
                    half_of[other] = 1 - half_of[node]
                    waiting.append(int(other))
    if (half_of[between[:, 0]] == half_of[between[:, 1]]).any() or (half_of[graph.is_switch] < 0).any():
        return None
    sizes = [int((half_of == half).sum()) for half in (0, 1)]
    return half_of if len(between) in (sizes[0] * sizes[1], max(sizes)) else None


def _facing(graph: Graph, found: _Levels, half_of: Numbers) -> Placement | None:
    """Place two halves that face each other: the first below, and the second above, upside down."""
    if any(len({int(half_of[home]) for home in block.homes}) > 1 for block in found.blocks):
        return None
    positions = np.zeros((graph.size, 2))
    sides = [[block for block in found.blocks if half_of[block.homes[0]] == half] for half in (0, 1)]
    rows = max(_rows(side, int((half_of >= 0).sum()) // 2) for side in sides)
    for half, side in enumerate(sides):
        _set_blocks(positions, side, rows)
        switches = np.flatnonzero(half_of == half)
        members = [member for block in side for member in block.members]
        width = max(float(np.ptp(positions[members, 0])) + 1, 1.0) if members else 1.0
        _set_switches(graph, positions, [int(each) for each in switches], width, is_first=True)
        nodes = [*members, *switches]
        height = _height(width)
        positions[switches, 1] = height
        positions[nodes, 1] -= height + 0.6 * height
        positions[nodes, 1] *= 1 if half == 0 else -1
        positions[nodes, 0] -= width / 2
    return placed(graph, "layers", positions)


def _in_layers(graph: Graph, found: _Levels) -> Reals:
    """Return the places of the best of a few orders."""
    blocks = found.blocks
    layers = [np.flatnonzero(found.level_of == level).tolist() for level in range(1, int(found.level_of.max()) + 1)]
    best = positions = _set_all(graph, blocks, layers)
    for _ in range(_PASSES):
        x = positions[:, 0]
        blocks = sorted(blocks, key=lambda block: round(float(np.mean([_mean(graph, x, m) for m in block.members])), 6))
        layers = [sorted(layer, key=lambda node: round(_mean(graph, x, node), 6)) for layer in layers]
        positions = _set_all(graph, blocks, layers)
        if _span(graph, positions) < _LEAST_GAIN * _span(graph, best):
            best = positions
    height, top = _height(float(np.ptp(best[:, 0])) + 1), best[:, 1].max()
    for level in range(1, len(layers) + 1):
        below = found.homes_below and level == 1
        rise = level - 1 if found.homes_below else level
        members = found.level_of == level
        best[members, 1] = best[found.level_of == 0, 1].min() - height if below else top + height * rise
    return best


def _mean(graph: Graph, x: Reals, node: int) -> float:
    return float(x[graph.neighbors[node]].mean())


def _span(graph: Graph, positions: Reals) -> float:
    """Return how far all links go across."""
    x = positions[:, 0]
    return float(np.abs(x[graph.pairs[:, 0]] - x[graph.pairs[:, 1]]).sum())


def _height(width: float) -> float:
    """Return the height between two layers: links have to have a slope that the eye can follow."""
    return max(1.5, 0.2 * width)


def _set_all(graph: Graph, blocks: list[_Block], layers: Sequence[list[int]]) -> Reals:
    """Return the places of all accelerators, with their heights, and how far across all switches stand."""
    positions = np.zeros((graph.size, 2))
    width = _set_blocks(positions, blocks, _rows(blocks, max(map(len, layers))))
    for level, layer in enumerate(layers):
        _set_switches(graph, positions, layer, width, is_first=level == 0)
    return positions


def _rows(blocks: Sequence[_Block], switches: int) -> int:
    """Return the number of rows of accelerators, below layers of at most so many switches."""
    total = sum(len(block.members) for block in blocks)
    most, rows = max(_WIDEST, 4 * total**0.5, 1.0 * switches), 1
    while rows < max((len(block.members) for block in blocks), default=1) and _width(blocks, rows) > most:
        rows += 1
    return rows


def _width(blocks: Sequence[_Block], rows: int) -> float:
    return sum(-(-len(block.members) // rows) for block in blocks) + _BLOCK_GAP * (len(blocks) - 1)


def _set_blocks(positions: Reals, blocks: Sequence[_Block], rows: int) -> float:
    """Place the accelerators in blocks from left to right; each second row is half a step aside. Return the width."""
    start = 0.0
    for block in blocks:
        columns = -(-len(block.members) // rows)
        for place, node in enumerate(block.members):
            row, column = divmod(place, columns)
            positions[node] = start + column + 0.5 * (row % 2), -0.8 * row * (1.0 if rows == 1 else 1.1)
        start += columns + (_BLOCK_GAP if len(blocks) > 1 else 0.0)
    return max(start - _BLOCK_GAP, 1.0)


def _set_switches(graph: Graph, positions: Reals, layer: list[int], width: float, is_first: bool) -> None:
    """Place switches above the middle of their neighbours that are placed; those of high layers spread evenly."""
    done = positions[:, 0]
    lower = [graph.neighbors[node][~graph.is_switch[graph.neighbors[node]]] for node in layer]
    if is_first and all(len(near) for near in lower):
        wanted = [float(done[near].mean()) for near in lower]
        order = sorted(range(len(layer)), key=lambda place: (round(wanted[place], 6), place))
        gap = max(1.0, min(3.0, width / len(layer)))
        found = _spread([wanted[place] for place in order], gap)
        for place, x in zip(order, found, strict=True):
            positions[layer[place], 0] = x
        return
    step = max(width / len(layer), 1.0)
    for place, node in enumerate(layer):
        positions[node, 0] = (width - 1) / 2 + step * (place - (len(layer) - 1) / 2)


def _spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Move rising places as little as possible until they are `gap` apart, by pooling those that are too close."""
    pools: list[tuple[float, int]] = []
    for place, x in enumerate(wanted):
        mean, count = x - place * gap, 1
        while pools and pools[-1][0] > mean:
            other, others = pools.pop()
            mean, count = (mean * count + other * others) / (count + others), count + others
        pools.append((mean, count))
    bases = [mean for mean, count in pools for _ in range(count)]
    return [base + place * gap for place, base in enumerate(bases)]
