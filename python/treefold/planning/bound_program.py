"""Tightens the bounds of `treefold bound` with a linear program, if cuts alone do not make them exact.

Root v broadcasts, and receives sums, at the rate x(v). Link e carries b(e) of broadcasts and r(e) of reductions, within
its capacity. The program maximises the sum of x. For every set S of nodes that lacks a rank it needs `b(out of S) >=
x(S)` and `r(into S) >= x(S)`; without help of switches this is also sufficient (Edmonds 1973). Nodes that are not ranks
send as much as they receive, unless they multicast or reduce. If both directions of the network are alike, a solution
can be averaged with its mirror image, so r is b in the opposite direction.

The roots are the ranks and the switches that reduce. No others are needed: if the root of a tree is a switch with one
operand, the root can move to the source of that operand, until it is a rank or several operands meet. A root that
cannot multicast sends what it receives of broadcasts and, once, its own data. In a mirrored solution the ranks suffice:
reversing the links between the root and a rank makes the rank the root, and loads no link more.

Only violated sets of the 2^N enter the program (Kelley 1960); the core finds them as minimum cuts. Every solution gives
an upper bound by its dual prices, even if these are not optimal (Neumaier and Shcherbina 2004). Every search for cuts
gives a lower bound: the rates, scaled down until no cut is violated. Interior-point solutions lie in the middle of all
optimal ones, so one to three rounds suffice, rarely a dozen. (The simplex method has no solution for `fattree128` after
8 s; flows for every rank instead of cuts would take ranks x links variables.)

Cost: 0.1 s for `fattree128` (128 ranks, 3,072 links), 0.3 s for 64 ranks with 4,032 unequal links.
"""

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treefold._core import Bounds, Topology, find_cuts

MAX_WORK = 1 << 21
"""The most ranks times links for which the program is solved: it takes 3 s on hard networks, mostly much less."""

TIME_LIMIT_S = 8.0
"""The time limit for all programs of a network, in case MAX_WORK does not suffice."""

GAP = 1e-7
"""The relative difference between upper and lower bound that counts as none, as in `bound.rs`."""

NOISE = 2e-8
"""The part of the mean rate that is subtracted from all rates before the search for cuts, to hide rounding errors."""


class Solution(NamedTuple):
    """The bounds that a program found, as fractions of the bound known before."""

    upper: float
    lower: float


class ScaledNetwork(NamedTuple):
    """A network with parallel links joined, and with capacities as fractions of the bound known before."""

    ranks: int
    ends: NDArray[np.int64]
    """The source and target of each link; its shape is (links, 2)."""
    capacity: NDArray[np.float64]
    """The capacity of each link."""
    most: NDArray[np.float64]
    """The most that a link needs for broadcasts, and for reductions; its shape is (2, links)."""
    reverse: NDArray[np.int64]
    """The number of each link's opposite, -1 if there is none."""
    passes_broadcasts: NDArray[np.bool_]
    """Whether each node sends as much of broadcasts as it receives, plus its own data if it is a root."""
    passes_reductions: NDArray[np.bool_]
    """Whether each node receives as much of reductions as it sends; roots do not."""

    @property
    def roots(self) -> NDArray[np.int64]:
        """Return the nodes that may be roots."""
        return np.arange(self.ranks) if self.mirrored else np.flatnonzero(~self.passes_reductions)

    @property
    def mirrored(self) -> bool:
        """Tell whether both directions are alike, so that reductions are broadcasts in the opposite direction."""
        same = np.array_equal(self.passes_broadcasts, self.passes_reductions)
        return same and bool((self.reverse >= 0).all()) and np.array_equal(self.capacity, self.capacity[self.reverse])


class Half(NamedTuple):
    """The broadcasts, or the reductions as broadcasts on the reversed network."""

    ends: NDArray[np.int64]
    """The source and target of each link; its shape is (links, 2)."""
    columns: NDArray[np.int64]
    """The program's column for each link."""
    passes: NDArray[np.bool_]
    """Whether each node sends as much as it receives."""
    cuts: set[bytes]
    """The sets of nodes whose cuts are in the program."""


class Row(NamedTuple):
    """The constraint `lower <= sum of values[i] * column[columns[i]] <= upper`."""

    lower: float
    upper: float
    columns: NDArray[np.int64]
    values: NDArray[np.float64]


def tighten(network: Topology, bounds: Bounds) -> Bounds:
    """Return `bounds`; programs tighten those that are not exact, unless the network is too large."""
    deadline = time.monotonic() + TIME_LIMIT_S
    for known in bounds.rates:
        rate_Bps = known.rate_Bps
        if known.is_exact or rate_Bps is None or known.name == "reduce_scatter_all_gather":
            continue
        if network.ranks * network.num_links > MAX_WORK:
            continue
        with_switches = known.name == "in_network"
        solution = solve(network, rate_Bps, with_switches=with_switches, deadline=deadline)
        proven = solution.upper - solution.lower <= GAP * solution.upper
        bounds = bounds.tightened(with_switches, solution.upper * rate_Bps, proven)
    return bounds


def solve(network: Topology, bound_Bps: float, *, with_switches: bool, deadline: float = float("inf")) -> Solution:
    """Solve the program of a network of at least two ranks, as far as the time allows.

    Args:
        network: The network.
        bound_Bps: A valid bound; the solution is a fraction of it.
        with_switches: Whether switches multicast and reduce.
        deadline: The time, by `time.monotonic`, at which the search stops and returns the best bounds so far.

    """
    program = LinearProgram(scaled(network, bound_Bps, with_switches))
    upper, lower = 1.0, 0.0
    # Counts rounds without a new cut. The first may be due to the interior-point method's rounding; two end the search.
    stuck = 0
    while stuck < 2 and time.monotonic() < deadline:
        point, bound = program.solve(deadline - time.monotonic(), "simplex" if stuck else "ipm")
        upper = min(upper, bound)
        if point is None:
            stuck += 1
            continue
        total, added = program.separate(point)
        lower = max(lower, total)
        if upper - lower <= GAP * upper:
            break
        stuck = 0 if added else stuck + 1
    return Solution(upper, lower)


def scaled(network: Topology, bound_Bps: float, with_switches: bool) -> ScaledNetwork:
    """Return a network with joined links and scaled capacities."""
    source, target, bandwidth_Bps = network.link_columns()
    reduces, multicasts = (np.array(able) for able in network.abilities())
    nodes = len(reduces)
    pairs, pair_of_link = np.unique(source.astype(np.int64) * nodes + target, return_inverse=True)
    ends = np.stack([pairs // nodes, pairs % nodes], axis=1)
    numbers = {pair: number for number, pair in enumerate(pairs.tolist())}
    reverse = np.array([numbers.get(b * nodes + a, -1) for a, b in ends.tolist()])
    relays = np.arange(nodes) >= network.ranks
    passes = [relays & ~(ability & with_switches) for ability in (multicasts, reduces)]
    # A node that can copy needs everything once; others need a copy for every other rank. This keeps numbers near 1.
    copies = [passes[0][ends[:, 1]], passes[1][ends[:, 0]]]
    most = np.where(copies, network.ranks - 1.0, 1.0)
    capacity = np.minimum(np.bincount(pair_of_link, bandwidth_Bps) / bound_Bps, most.sum(axis=0))
    return ScaledNetwork(network.ranks, ends, capacity, np.minimum(capacity, most), reverse, *passes)


class LinearProgram:
    """The linear program with the cuts so far; it minimises the negative sum of all rates.

    Its columns are the rate of each node, which is 0 except for roots; the sum of the rates; b of each link; and r of
    each link, unless the network is mirrored.
    """

    def __init__(self, network: ScaledNetwork) -> None:
        self.ranks, self.nodes, self.roots = network.ranks, len(network.passes_broadcasts), network.roots
        self.may_root = np.isin(np.arange(self.nodes), self.roots)
        links, mirrored = len(network.capacity), network.mirrored
        broadcasts = self.nodes + 1 + np.arange(links)
        reductions = broadcasts[network.reverse] if mirrored else broadcasts + links
        parts = 1 if mirrored else 2
        self.most = np.concatenate([self.may_root, [1.0], *network.most[:parts]])
        self.cost = np.where(np.arange(len(self.most)) == self.nodes, -1.0, 0.0)
        halves = [
            Half(network.ends, broadcasts, network.passes_broadcasts, set()),
            Half(network.ends[:, ::-1], reductions, network.passes_reductions, set()),
        ]
        self.halves = halves[:parts]
        self.highs = _solver(self.cost, self.most)
        self.rows: list[Row] = []
        self._add(self._first_rows(network.capacity, np.stack([broadcasts, reductions], axis=1)))

    def _first_rows(self, capacity: NDArray[np.float64], parts: NDArray[np.int64]) -> Iterable[Row]:
        """Yield all constraints but cuts, then the cuts around single nodes; `parts` are the columns of links."""
        yield _row(0, 0, [self.nodes], self.roots)
        _, first = np.unique(np.sort(parts, axis=1), axis=0, return_index=True)  # Mirrored links share a row.
        yield from (_row(-np.inf, capacity[link], parts[link]) for link in first)
        for half in self.halves:
            source, target = half.ends.T
            for node in np.flatnonzero(half.passes):
                received = np.append(half.columns[target == node], [node] if self.may_root[node] else [])
                yield _row(0, 0, received, half.columns[source == node])
            single = np.eye(self.nodes, dtype=bool)
            yield from self._cuts(half, [*single[self.roots], *~single[: self.ranks]])

    def _cuts(self, half: Half, sets: Iterable[NDArray[np.bool_]]) -> Iterable[Row]:
        """Yield `columns out of S - x(S) >= 0` for each new set S, which is given as flags."""
        for inside in sets:
            if inside.tobytes() in half.cuts:
                continue
            half.cuts.add(inside.tobytes())
            leaving = half.columns[inside[half.ends[:, 0]] & ~inside[half.ends[:, 1]]]
            roots = self.roots[inside[self.roots]]
            if 2 * len(roots) <= len(self.roots):
                yield _row(0, np.inf, leaving, roots)
            else:  # The sum of all rates minus a few makes a shorter row.
                others = self.roots[~inside[self.roots]]
                yield _row(0, np.inf, np.append(leaving, others), [self.nodes])

    def _add(self, rows: Iterable[Row]) -> int:
        """Add rows, and return their number."""
        new = list(rows)
        if new:
            lower, upper, columns, values, lengths = _stacked(new)
            starts = np.cumsum(lengths) - lengths
            self.highs.addRows(
                len(new), lower, upper, len(columns), starts.astype(np.int32), columns.astype(np.int32), values
            )
            self.rows += new
        return len(new)

    def solve(self, seconds: float, method: str) -> tuple[NDArray[np.float64] | None, float]:
        """Return a solution (None if the solver found none) and an upper bound on the sum of rates."""
        self.highs.setOptionValue("solver", method)
        self.highs.setOptionValue("time_limit", self.highs.getRunTime() + seconds)
        self.highs.clearSolver()
        self.highs.run()
        solution = self.highs.getSolution()
        bound = self._dual_bound(np.array(solution.row_dual)) if solution.dual_valid else 1.0
        if self.highs.modelStatusToString(self.highs.getModelStatus()) != "Optimal":
            return None, bound
        return np.clip(np.array(solution.col_value), 0.0, self.most), bound

    def _dual_bound(self, prices: NDArray[np.float64]) -> float:
        """Return the bound that prices of rows prove, optimal or not: weak duality over the box of columns."""
        lower, upper, columns, values, lengths = _stacked(self.rows)
        prices = np.where(np.isinf(lower), np.minimum(prices, 0), prices)
        prices = np.where(np.isinf(upper), np.maximum(prices, 0), prices)
        reduced = self.cost - np.bincount(columns, np.repeat(prices, lengths) * values, len(self.cost))
        sides = np.where(np.isinf(lower), upper, lower)
        return -float(prices @ sides + np.minimum(reduced * self.most, 0).sum())

    def separate(self, point: NDArray[np.float64]) -> tuple[float, int]:
        """Add the cuts that a solution violates; return its total rate, scaled to satisfy them, and their number."""
        rates = point[: self.nodes]
        rates = np.maximum(rates - NOISE * rates[self.roots].mean(), 0.0)
        least, added = 1.0, 0
        for half in self.halves:
            ends = [(source, target) for source, target in half.ends.tolist()]
            found = find_cuts(self.ranks, ends, point[half.columns], rates)
            least = min(least, found.factor)
            added += self._add(self._cuts(half, found.sets))
        return least * float(rates.sum()), added


def _row(lower: float, upper: float, plus: Any, minus: Any = ()) -> Row:
    """Return a row with the coefficients 1 and -1."""
    columns = np.concatenate([np.asarray(plus, np.int64), np.asarray(minus, np.int64)])
    return Row(lower, upper, columns, np.where(np.arange(len(columns)) < len(plus), 1.0, -1.0))


def _stacked(rows: list[Row]) -> tuple[NDArray[Any], ...]:
    """Return `(lower, upper, columns, values, lengths)` of rows; columns and values are concatenated."""
    lower, upper, columns, values = zip(*rows, strict=True)
    lengths = np.array([len(row) for row in columns])
    return np.array(lower, float), np.array(upper, float), np.concatenate(columns), np.concatenate(values), lengths


def _solver(cost: NDArray[np.float64], most: NDArray[np.float64]) -> Any:
    """Return a silent solver on one thread, with columns between 0 and `most` and without rows."""
    import highspy  # imported here because few networks need it and importing it takes as long as a small command

    new_solver: Any = highspy.Highs
    highs = new_solver()
    options = {"output_flag": False, "threads": 1, "run_crossover": "off", "ipm_optimality_tolerance": 1e-9}
    options |= {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}
    for name, value in options.items():
        highs.setOptionValue(name, value)
    highs.addVars(len(cost), np.zeros(len(cost)), most)
    highs.changeColsCost(len(cost), np.arange(len(cost), dtype=np.int32), cost)
    return highs
