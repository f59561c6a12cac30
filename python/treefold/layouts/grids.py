"""Places lines, rings, grids, tori and hypercubes by the coordinates of their nodes, which are numbered row by row.

Links around an edge leave the picture: a stub at each end shows where they go. Of more than three dimensions, each two
sides of two nodes become one side of four (a hypercube of four dimensions is a torus of 4x4, as Gray codes show), and
what is left over is unfolded to a grid of grids.
"""

import math
from collections.abc import Sequence

import numpy as np

from treefold.layouts.graph import Flags, Graph, Numbers, Reals
from treefold.layouts.placement import Placement, placed

_STUB = 0.5
_GAP = 1.0
"""The space between the grids of a grid of grids, beside that between their nodes."""
_LEAST_SHARE = 0.8
"""The share of the links of a grid that a network which is only named like it must have to be drawn as one."""
_GRAY = np.array([0, 1, 3, 2])


def grid(graph: Graph, sides: Sequence[int]) -> Placement | None:
    """Place a graph as a grid with these sides, if it is one."""
    if not sides or math.prod(sides) != graph.size or graph.is_switch.any():
        return None
    long_sides = [side for side in sides if side > 1]
    cells = np.stack(np.unravel_index(np.arange(graph.size), long_sides or [1]), axis=1)
    ends = graph.pairs
    joined = np.abs(cells[ends[:, 0]] - cells[ends[:, 1]]).sum(axis=1) == 1
    whole = sum(graph.size // side * (side - 1) for side in long_sides)
    if joined.sum() < _LEAST_SHARE * whole:
        return None
    if len(long_sides) < 2:
        return _line(graph)
    if long_sides == [2] * 4:
        return placed(graph, "grid", _tesseract(cells))
    cells, long_sides = _paired(cells, long_sides)
    return _cells(graph, cells, long_sides)


def _line(graph: Graph) -> Placement:
    """Place a line from left to right, and a ring clockwise from the top."""
    size = graph.size
    is_ring = size > 2 and bool((graph.pairs == [0, size - 1]).all(axis=1).any())
    if is_ring:
        return placed(graph, "ring", circle(size))
    return placed(graph, "line", np.arange(size, dtype=float)[:, None], has_bends=len(graph.pairs) >= size)


def circle(size: int) -> Reals:
    """Return places on a circle, clockwise from the top; each is 1 from the next."""
    turns = 2 * np.pi * np.arange(size) / size
    radius = 0.5 / math.sin(math.pi / size)
    return radius * np.stack([np.sin(turns), np.cos(turns)], axis=1)


def _tesseract(cells: Numbers) -> Reals:
    """Project a hypercube of four dimensions along an axis of its symmetry: an octagon around an octagon."""
    turns = np.pi * (np.array([3, 2, 1, 0]) / 4 + 1 / 8)
    return np.asarray((cells - 0.5) @ np.stack([np.cos(turns), np.sin(turns)], axis=1), float)


def _paired(cells: Numbers, sides: list[int]) -> tuple[Numbers, list[int]]:
    """Join pairs of sides of two nodes to sides of four, from the last, until three sides are left."""
    while len(sides) > 3 and sides.count(2) > 1:
        first, second = [place for place, side in enumerate(sides) if side == 2][-2:]
        joined = _GRAY[2 * cells[:, first] + cells[:, second]]
        cells = np.column_stack([np.delete(cells, [first, second], axis=1), joined])
        sides = [side for place, side in enumerate(sides) if place not in (first, second)] + [4]
    return cells, sides


def _cells(graph: Graph, cells: Numbers, sides: list[int]) -> Placement:
    """Place nodes by their cells: the last side goes right, the one before it down, and the third back."""
    steps = _steps(sides)
    positions = cells @ steps
    moves = cells[graph.targets] - cells[graph.sources]
    wraps = (np.abs(moves).sum(axis=1) > 1) & (graph.sources != graph.targets)
    around = _around(cells[graph.sources], moves, sides)
    units = steps / np.maximum(np.linalg.norm(steps, axis=1, keepdims=True), 1)
    stubs = np.where(wraps[:, None], _STUB * (around @ units), 0.0)
    kind = "space" if len(sides) == 3 else "grid"
    whole = placed(graph, kind, positions, has_bends=len(sides) > 3)
    return whole._replace(wraps=wraps, stubs=stubs)


def _steps(sides: list[int]) -> Reals:
    """Return how far one step along each side goes in the picture."""
    steps = np.zeros((len(sides), 3))
    if len(sides) == 3:
        steps[[2, 1, 0], [0, 1, 2]] = [1, -1, 1]
        return steps
    extents = [1.0, 1.0]
    for place, side in enumerate(reversed(sides)):
        axis = place % 2
        step = extents[axis] if place < 2 else extents[axis] + _GAP
        steps[len(sides) - 1 - place, axis] = step * (1 - 2 * axis)
        extents[axis] = step * (side - 1) + (1 if place < 2 else extents[axis])
    return steps


def _around(starts: Numbers, moves: Numbers, sides: list[int]) -> Numbers:
    """Return the direction in which each link leaves the grid: out of the edge at which it starts.

    The links of a twisted torus also move along other sides; the shortest side that a link runs around counts.
    """
    lengths = np.array(sides)
    runs_around: Flags = np.abs(moves) == lengths - 1
    order = np.argsort(lengths, kind="stable")
    chosen = order[np.argmax(runs_around[:, order], axis=1)]
    farthest = np.argmax(np.abs(moves), axis=1)
    chosen = np.where(runs_around.any(axis=1), chosen, farthest)
    rows = np.arange(len(moves))
    found = np.zeros_like(moves)
    found[rows, chosen] = -np.sign(moves[rows, chosen])
    return found
