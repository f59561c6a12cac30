"""Places HammingMeshes: boards of accelerators as in a grid, and the switches of rows and columns in a cross."""

import re

import numpy as np

from treefold.layouts.graph import Graph, Reals
from treefold.layouts.placement import Placement, placed

_GAP = 1.0
"""The space between two boards, beside that between their accelerators."""


def hamming(graph: Graph) -> Placement | None:
    """Place a graph as the HammingMesh that its name says it is; none if its numbers of nodes differ."""
    if not graph.name.startswith("hammingmesh"):
        return None
    board, boards = (_sides(graph.name, key, default) for key, default in (("board", 2), ("boards", 4)))
    rows, columns = (of * count for of, count in zip(board, boards, strict=True))
    accelerators = rows * columns
    is_switch = np.arange(graph.size) >= accelerators
    if graph.size != accelerators + rows + columns or not np.array_equal(graph.is_switch, is_switch):
        return None
    down, across = (_lines(of, count) for of, count in zip(board, boards, strict=True))
    middle_down, middle_across = (_gap(line, of, count) for line, of, count in _axes(down, across, board, boards))
    positions = np.zeros((graph.size, 2))
    positions[:accelerators] = np.stack([np.tile(across, rows), -np.repeat(down, columns)], axis=1)
    # A switch stands half a step beside its row or column, so that its links pass between the accelerators.
    positions[accelerators : accelerators + rows] = np.stack([np.full(rows, middle_across), -down - 0.4], axis=1)
    positions[accelerators + rows :] = np.stack([across + 0.4, np.full(columns, -middle_down)], axis=1)
    return placed(graph, "grid", positions, has_bends=True)


def _sides(name: str, key: str, default: int) -> tuple[int, int]:
    found = re.search(rf"\b{key}=([0-9]+)x([0-9]+)", name)
    return (int(found[1]), int(found[2])) if found else (default, default)


def _lines(side: int, boards: int) -> Reals:
    """Return the coordinates of all rows, or columns, of all boards."""
    return np.asarray([row + (side - 1 + 1 + _GAP) * board for board in range(boards) for row in range(side)], float)


def _axes(down: Reals, across: Reals, board: tuple[int, int], boards: tuple[int, int]) -> list[tuple[Reals, int, int]]:
    return [(down, board[0], boards[0]), (across, board[1], boards[1])]


def _gap(line: Reals, side: int, boards: int) -> float:
    """Return the middle of the gap between boards that is next to the centre; with one board, a place before it."""
    before = side * (boards // 2)
    return float(line[before - 1] + line[before]) / 2 if boards > 1 else -1.5
