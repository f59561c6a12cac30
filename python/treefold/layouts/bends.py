"""Finds links that would run over a node, and bends them around it."""

import numpy as np

from treefold.layouts.graph import Graph, Reals

_CLEARANCE = 0.22
"""A link keeps so far from nodes that are not its ends, or 0.4 of the usual distance of two nodes if that is less."""
_TRIES = (0.06, -0.06, 0.12, -0.12, 0.18, -0.18, 0.24, -0.24)
_POINTS = np.linspace(0, 1, 17)[1:-1]
_MOST_WORK = 1e6


def bends(graph: Graph, at: Reals) -> Reals:
    """Return how far the middle of each link is moved to the left of its direction, as a share of its length.

    Both directions of a pair bend to the same side of the picture. Where every bend runs over some node, the link
    stays straight. Large networks (pairs x nodes above a million) have no bends.
    """
    pairs, size = graph.pairs, graph.size
    chosen = np.zeros(len(pairs))
    if len(pairs) * size <= _MOST_WORK:
        clearance = min(_CLEARANCE, 0.4 * _usual_distance(at))
        for place in np.flatnonzero(_is_blocked(at, pairs, clearance)):
            free = (bend for bend in _TRIES if _reached(at, pairs[place], bend) >= clearance)
            chosen[place] = next(free, 0.0)
    low, high = np.minimum(graph.sources, graph.targets), np.maximum(graph.sources, graph.targets)
    places = np.searchsorted(pairs[:, 0] * size + pairs[:, 1], low * size + high)
    inner = graph.sources != graph.targets
    found = np.zeros(len(graph.sources))
    found[inner] = chosen[places[inner]] * np.where(graph.sources < graph.targets, 1, -1)[inner]
    return found


def _usual_distance(at: Reals) -> float:
    """Return the median distance from a node to the next one."""
    distances = np.hypot(at[:, 0, None] - at[None, :, 0], at[:, 1, None] - at[None, :, 1])
    np.fill_diagonal(distances, np.inf)
    return float(np.median(distances.min(axis=1)))


def _is_blocked(at: Reals, pairs: np.ndarray, clearance: float) -> np.ndarray:
    """Return whether each straight link comes near a node that is not its end."""
    starts, along = at[pairs[:, 0]], at[pairs[:, 1]] - at[pairs[:, 0]]
    lengths = np.maximum(np.hypot(along[:, 0], along[:, 1]), 1e-9)
    units = along / lengths[:, None]
    offsets_x = at[None, :, 0] - starts[:, 0, None]
    offsets_y = at[None, :, 1] - starts[:, 1, None]
    ahead = offsets_x * units[:, :1] + offsets_y * units[:, 1:]
    aside = np.abs(offsets_x * units[:, 1:] - offsets_y * units[:, :1])
    near = (ahead > 0) & (ahead < lengths[:, None]) & (aside < clearance)
    near[np.arange(len(pairs))[:, None], pairs] = False
    return np.asarray(near.any(axis=1))


def _reached(at: Reals, pair: np.ndarray, bend: float) -> float:
    """Return the distance from a bent link to the nearest node that is not its end."""
    start, end = at[pair[0]], at[pair[1]]
    along = end - start
    control = (start + end) / 2 + 2 * bend * np.array([-along[1], along[0]])
    t = _POINTS[:, None]
    curve = (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end
    others = np.delete(at, pair, axis=0)
    if not len(others):
        return np.inf
    return float(np.hypot(curve[:, 0, None] - others[:, 0], curve[:, 1, None] - others[:, 1]).min())
