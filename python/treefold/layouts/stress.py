"""Places networks of no known shape so that nodes are as far apart in the picture as they are in links.

The sum over all pairs of (distance in the picture - links between them)^2, each divided by the links squared, is the
stress. Majorization (Gansner, Koren and North, GD 2004) lowers it in every iteration, by a linear system whose matrix
stays the same: O(n^3) once and O(n^2) for each iteration. It starts from a pivot MDS (Brandes and Pich, GD 2006). Of
large networks only links and the distances to some pivots count, as in sparse stress models (Ortmann et al., JGAA
2017), and each node goes to the mean of where its terms want it: O(links + n pivots) for each iteration.
"""

import numpy as np

from treefold.layouts.distances import hops, pivots
from treefold.layouts.graph import Graph, Numbers, Reals
from treefold.layouts.placement import Placement, placed

_MOST_EXACT = 1500
_PIVOTS = 50
_ITERATIONS, _SPARSE_ITERATIONS = 200, 60
_MOST_WORK = 5e7
"""Large networks have fewer iterations: so many pairs are looked at in all."""
_LEAST_GAIN = 1e-4
"""Majorization ends when an iteration lowers the stress by less than this share."""
_SEED = 24


def stress(graph: Graph) -> Placement:
    """Place any graph; the mean link is 1 long, and the widest extent lies across."""
    if graph.size < 3:
        return placed(graph, "force", np.arange(graph.size, dtype=float)[:, None])
    nodes, rows = pivots(graph, _PIVOTS)
    jitter = np.random.Generator(np.random.PCG64(_SEED)).standard_normal((graph.size, 2))
    start = _pivot_mds(rows) + 0.05 * jitter
    found = _majorized(graph, start) if graph.size <= _MOST_EXACT else _sparse(graph, start, nodes, rows)
    return placed(graph, "force", _normal(graph, found), has_bends=True)


def _pivot_mds(rows: Numbers) -> Reals:
    """Return the projection to the two main axes of the squared distances to pivots, centred twice."""
    squares = rows.astype(float).T ** 2
    centred = -0.5 * (squares - squares.mean(axis=0) - squares.mean(axis=1, keepdims=True) + squares.mean())
    _, axes = np.linalg.eigh(centred.T @ centred)
    projected = centred @ axes[:, ::-1][:, :2]
    scale = np.abs(projected).max(axis=0)
    return np.asarray(projected / np.maximum(scale, 1e-9) * rows.max() / 2, float)


def _majorized(graph: Graph, start: Reals) -> Reals:
    """Lower the stress over all pairs."""
    wanted = hops(graph, np.arange(graph.size)).astype(float)
    np.fill_diagonal(wanted, 1)
    weights = wanted**-2
    np.fill_diagonal(weights, 0)
    # The first node is held, which makes the matrix regular.
    matrix = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.inv(matrix[1:, 1:])
    pulls = weights * wanted
    at, before = start - start[0], np.inf
    for _ in range(min(_ITERATIONS, int(_MOST_WORK / graph.size**2))):
        distances = _distances(at)
        now = float((weights * (distances - wanted) ** 2).sum())
        if before - now < _LEAST_GAIN * before:
            break
        before = now
        share = pulls / np.maximum(distances, 1e-9)
        np.fill_diagonal(share, 0)
        wish = share.sum(axis=1)[:, None] * at - share @ at
        at = np.concatenate([np.zeros((1, 2)), inverse @ wish[1:]])
    return np.asarray(at, float)


def _distances(at: Reals) -> Reals:
    across, up = at[:, 0, None] - at[None, :, 0], at[:, 1, None] - at[None, :, 1]
    return np.asarray(np.sqrt(across * across + up * up))


def _sparse(graph: Graph, start: Reals, nodes: Numbers, rows: Numbers) -> Reals:
    """Lower the stress over links and pairs with pivots, in which each pivot stands for the nodes next to it."""
    ends = np.concatenate([graph.pairs, graph.pairs[:, ::-1]])
    wanted = np.maximum(rows.astype(float), 1)
    stands_for = graph.size / len(nodes)
    weights = np.where(rows > 1, 0.2 * stands_for * wanted**-2 / wanted, 0.0)
    total = np.bincount(ends[:, 0], minlength=graph.size) + weights.sum(axis=0) + 1e-9
    at = start.copy()
    for _ in range(_SPARSE_ITERATIONS):
        sums = np.zeros_like(at)
        along = at[ends[:, 0]] - at[ends[:, 1]]
        unit = along / np.maximum(np.hypot(along[:, 0], along[:, 1]), 1e-9)[:, None]
        for axis in range(2):
            pulled = (at[ends[:, 1]] + unit)[:, axis]
            sums[:, axis] = np.bincount(ends[:, 0], pulled, minlength=graph.size)
        away = at[None] - at[nodes][:, None]
        length = np.maximum(np.hypot(away[..., 0], away[..., 1]), 1e-9)
        sums += (weights[..., None] * (at[nodes][:, None] + away * (wanted / length)[..., None])).sum(axis=0)
        at = 0.5 * at + 0.5 * sums / total[:, None]
    return at


def _normal(graph: Graph, at: Reals) -> Reals:
    """Turn the widest extent across, scale the mean link to 1, keep nodes apart, and round."""
    at = at - at.mean(axis=0)
    _, axes = np.linalg.eigh(at.T @ at)
    at = at @ axes[:, ::-1]
    # The first of the outermost nodes stands at the right and at the top, whatever the signs of the axes.
    signs = np.sign([at[np.argmax(np.abs(at[:, axis]).round(6)), axis] for axis in range(2)])
    at = at * np.where(signs == 0, 1, signs)
    along = at[graph.pairs[:, 0]] - at[graph.pairs[:, 1]]
    mean = np.hypot(along[:, 0], along[:, 1]).mean() if len(along) else 1.0
    return _apart(np.asarray(np.round(at / (mean or 1.0), 6), float))


def _apart(at: Reals) -> Reals:
    """Move all but the first of several nodes at one place a little aside, each to another place."""
    _, first, group = np.unique(at.round(3), axis=0, return_index=True, return_inverse=True)
    others = np.flatnonzero(first[group.reshape(-1)] != np.arange(len(at)))
    turns = 2.399963229728653 * np.arange(1, len(others) + 1)
    out = 0.2 + 0.01 * np.sqrt(np.arange(len(others)))
    at[others] += out[:, None] * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    return at
