"""Mixes columns so that the least row of the mixture is as large as possible: a matrix game, by the simplex method.

Maximize over mixtures m the least of A m. With A >= 0, the dual program, maximize sum w with A' w <= 1 and w >= 0, has
a feasible corner at once (w = 0), and m are the prices of its rows (Dantzig 1951). A pivot costs
O(columns x (rows + columns)); there are about as many pivots as columns.
"""

import numpy as np

from treefold.discovery.observations import Vector

_MOST_PIVOTS = 2000
_TINY = 1e-11


def best_mixture(game: Vector) -> tuple[float, Vector]:
    """Return the value of a game, and how much of each column the best mixture has.

    Args:
        game: Numbers of at least 0, with a column for each thing that is mixed. If a row is all 0, so is the value.

    """
    rows, columns = game.shape
    scale = float(game.max(initial=0.0))
    if scale <= 0 or (game.max(axis=1) <= _TINY * scale).any():
        return 0.0, np.full(columns, 1 / columns)
    table = np.zeros((columns + 1, rows + columns + 1))
    table[:columns, :rows] = game.T / scale
    table[:columns, rows:-1] = np.eye(columns)
    # Sides that differ a little leave no ties, and so no circles.
    table[:columns, -1] = 1 + 1e-9 * np.arange(columns)
    table[columns, :rows] = -1
    for _ in range(_MOST_PIVOTS):
        entering = int(table[columns, :-1].argmin())
        if table[columns, entering] >= -1e-10:
            break
        _pivot(table, entering)
    prices = np.maximum(table[columns, rows:-1], 0.0)
    mixture = prices / prices.sum()
    return float((game @ mixture).min()), mixture


def _pivot(table: Vector, entering: int) -> None:
    """Let a column enter the corner, in place of the row that it fills first."""
    column = table[:-1, entering]
    ratios = np.divide(table[:-1, -1], column, out=np.full(len(column), np.inf), where=column > _TINY)
    leaving = int(ratios.argmin())
    table[leaving] /= table[leaving, entering]
    factors = table[:, entering].copy()
    factors[leaving] = 0.0
    table -= np.outer(factors, table[leaving])
