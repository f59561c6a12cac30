"""The linear program behind `treefold bound`, where cuts alone do not settle what no all-reduce can beat.

Root v broadcasts, and receives sums, at rate x(v); link e carries b(e) of broadcasts and r(e) of reductions within its
capacity; the sum of x is maximal. That needs every set S of nodes that lacks a rank to have `b(out of S) >= x(S)` and
`r(into S) >= x(S)`, and no more where no switch helps (Edmonds 1973). Nodes that are no ranks pass on as much as they
receive, unless they multicast or reduce. Where both directions of the network are alike, a solution may be averaged
with its mirror image: then r is b on the other direction.

Roots are the ranks and the switches that reduce. More are not needed: a tree whose root is a switch with one operand
may as well be rooted where that comes from, until there is a rank or several operands meet. What a root that cannot
multicast sends is what it receives of broadcasts and, once, its own. In a mirrored solution ranks suffice: turning the
links between the root and a rank round makes the rank the root and loads no link more.

Of the 2^N sets only those enter that are violated (Kelley 1960); the core finds them by minimum cuts. Every solve gives
an upper bound, by its dual prices even where they are not optimal (Neumaier and Shcherbina 2004); every search for cuts
gives a lower one, the rates scaled down until no cut is violated. Interior-point solutions lie amid all optimal ones,
so that one to three rounds suffice, rarely a dozen. (By the simplex method `fattree128` has no solution after 8 s; a
flow for every rank instead of cuts takes ranks x links variables.)

Cost: 0.1 s for `fattree128` (128 ranks, 3,072 links), 0.3 s for 64 ranks with 4,032 unequal links.
"""

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treefold._core import Bounds, Topology, find_cuts

MAX_WORK = 1 << 21
"""Most ranks times links for which a program is solved: at most 3 s on networks made to be hard, mostly much less."""

TIME_LIMIT_S = 8.0
"""Seconds for all programs of a network, in case MAX_WORK does not keep them short."""

GAP = 1e-7
"""Relative difference between upper and lower bound that counts as none; as in `bound.rs`."""

NOISE = 2e-8
"""Part of the mean rate that is taken off all rates before cuts are sought: the solver's rounding is no violation."""


class Solution(NamedTuple):
    """What a program found, as parts of the bound known before."""

    upper: float
    lower: float


class Network(NamedTuple):
    """A network as programs see it: links with the same ends joined, capacities as parts of the bound known before."""

    ranks: int
    ends: NDArray[np.int64]
    """(links, 2): source and target."""
    capacity: NDArray[np.float64]
    """(links,)"""
    most: NDArray[np.float64]
    """(2, links): the most a link needs of broadcasts, and of reductions."""
    reverse: NDArray[np.int64]
    """(links,): number of the link the other way, -1 where there is none."""
    passes_broadcasts: NDArray[np.bool_]
    """(nodes,): whether as much broadcast leaves the node as enters it, together with its own if it is a root."""
    passes_reductions: NDArray[np.bool_]
    """(nodes,): whether as much of reductions enters the node as leaves it; no root does."""

    @property
    def roots(self) -> NDArray[np.int64]:
        """Nodes that may be roots."""
        return np.arange(self.ranks) if self.mirrored else np.flatnonzero(~self.passes_reductions)

    @property
    def mirrored(self) -> bool:
        """Whether both directions are alike, so that reductions are broadcasts the other way."""
        same = np.array_equal(self.passes_broadcasts, self.passes_reductions)
        return same and bool((self.reverse >= 0).all()) and np.array_equal(self.capacity, self.capacity[self.reverse])


class Half(NamedTuple):
    """Broadcasts, or reductions seen as broadcasts on the transposed network."""

    ends: NDArray[np.int64]
    """(links, 2)"""
    columns: NDArray[np.int64]
    """(links,): the program's column of each link."""
    passes: NDArray[np.bool_]
    """(nodes,)"""
    cuts: set[bytes]
    """The sets of nodes whose cuts are in the program."""


class Row(NamedTuple):
    """`lower <= sum of values[i] * column[columns[i]] <= upper`."""

    lower: float
    upper: float
    columns: NDArray[np.int64]
    values: NDArray[np.float64]


def tighten(network: Topology, bounds: Bounds) -> Bounds:
    """Return `bounds` with what programs add where they are not exact and the network is not too large."""
    deadline = time.monotonic() + TIME_LIMIT_S
    for name, rate_Bps, exact, _ in bounds.rates:
        if exact or rate_Bps is None or name == "reduce_scatter_all_gather":
            continue
        if network.ranks * network.num_links > MAX_WORK:
            continue
        with_switches = name == "in_network"
        found = solve(network, rate_Bps, with_switches=with_switches, deadline=deadline)
        proven = found.upper - found.lower <= GAP * found.upper
        bounds = bounds.tightened(with_switches, found.upper * rate_Bps, proven)
    return bounds


def solve(network: Topology, bound_Bps: float, *, with_switches: bool, deadline: float = float("inf")) -> Solution:
    """Solve the program of a network of two ranks at least, as far as the time allows.

    Args:
        network: The network.
        bound_Bps: A valid bound, of which the solution is a part.
        with_switches: Whether switches multicast and reduce.
        deadline: When to stop at the latest, by `time.monotonic`, with what is known then.

    """
    program = Program(scaled(network, bound_Bps, with_switches))
    upper, lower = 1.0, 0.0
    stuck = (
        0  # Rounds without a new cut: the first is the interior-point method's rounding, the second means to give up.
    )
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


def scaled(network: Topology, bound_Bps: float, with_switches: bool) -> Network:
    """Return the network as the program of a bound sees it."""
    source, target, bandwidth_Bps = network.link_columns()
    reduces, multicasts = (np.array(able) for able in network.abilities())
    nodes = len(reduces)
    pairs, pair_of_link = np.unique(source.astype(np.int64) * nodes + target, return_inverse=True)
    ends = np.stack([pairs // nodes, pairs % nodes], axis=1)
    numbers = {pair: number for number, pair in enumerate(pairs.tolist())}
    reverse = np.array([numbers.get(b * nodes + a, -1) for a, b in ends.tolist()])
    relays = np.arange(nodes) >= network.ranks
    passes = [relays & ~(ability & with_switches) for ability in (multicasts, reduces)]
    # All is sent once to who can copy it, and a copy for every other rank to who cannot; no more keeps numbers near 1.
    copies = [passes[0][ends[:, 1]], passes[1][ends[:, 0]]]
    most = np.where(copies, network.ranks - 1.0, 1.0)
    capacity = np.minimum(np.bincount(pair_of_link, bandwidth_Bps) / bound_Bps, most.sum(axis=0))
    return Network(network.ranks, ends, capacity, np.minimum(capacity, most), reverse, *passes)


class Program:
    """The program with the cuts so far, minimising minus the sum of all rates.

    Columns: the rate of each node, 0 but for roots; their sum; b of each link; r of each link unless the network is
    mirrored.
    """

    def __init__(self, network: Network) -> None:
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
        """Yield what is no cut, then the cuts after and before single ranks; `parts` are the columns of each link."""
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
        """Yield `columns out of S - x(S) >= 0` for each set, as flags, that is new."""
        for inside in sets:
            if inside.tobytes() in half.cuts:
                continue
            half.cuts.add(inside.tobytes())
            leaving = half.columns[inside[half.ends[:, 0]] & ~inside[half.ends[:, 1]]]
            roots = self.roots[inside[self.roots]]
            if 2 * len(roots) <= len(self.roots):
                yield _row(0, np.inf, leaving, roots)
            else:  # All rates but a few: shorter from their sum.
                others = self.roots[~inside[self.roots]]
                yield _row(0, np.inf, np.append(leaving, others), [self.nodes])

    def _add(self, rows: Iterable[Row]) -> int:
        """Add rows; returns how many there were."""
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
        """Return a solution, None if the solver found none, and an upper bound on the sum of rates."""
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
        """Return what no point beats by these prices of rows, optimal or not: weak duality over the box of columns."""
        lower, upper, columns, values, lengths = _stacked(self.rows)
        prices = np.where(np.isinf(lower), np.minimum(prices, 0), prices)
        prices = np.where(np.isinf(upper), np.maximum(prices, 0), prices)
        reduced = self.cost - np.bincount(columns, np.repeat(prices, lengths) * values, len(self.cost))
        sides = np.where(np.isinf(lower), upper, lower)
        return -float(prices @ sides + np.minimum(reduced * self.most, 0).sum())

    def separate(self, point: NDArray[np.float64]) -> tuple[float, int]:
        """Add the cuts that a solution violates; returns its sum of rates if scaled to violate none, and how many."""
        rates = point[: self.nodes]
        rates = np.maximum(rates - NOISE * rates[self.roots].mean(), 0.0)
        least, added = 1.0, 0
        for half in self.halves:
            ends = [(source, target) for source, target in half.ends.tolist()]
            factor, sets = find_cuts(self.ranks, ends, point[half.columns], rates)
            least = min(least, factor)
            added += self._add(self._cuts(half, sets))
        return least * float(rates.sum()), added


def _row(lower: float, upper: float, plus: Any, minus: Any = ()) -> Row:
    """Return a row of coefficients 1 and -1."""
    columns = np.concatenate([np.asarray(plus, np.int64), np.asarray(minus, np.int64)])
    return Row(lower, upper, columns, np.where(np.arange(len(columns)) < len(plus), 1.0, -1.0))


def _stacked(rows: list[Row]) -> tuple[NDArray[Any], ...]:
    """Return `(lower, upper, columns, values, lengths)` of rows; columns and values one row after the other."""
    lower, upper, columns, values = zip(*rows, strict=True)
    lengths = np.array([len(row) for row in columns])
    return np.array(lower, float), np.array(upper, float), np.concatenate(columns), np.concatenate(values), lengths


def _solver(cost: NDArray[np.float64], most: NDArray[np.float64]) -> Any:
    """Return a silent solver on one thread that has columns between 0 and `most` and no rows."""
    import highspy  # Here, because it is needed for few networks and takes as long as a small command to import.

    new_solver: Any = highspy.Highs
    highs = new_solver()
    options = {"output_flag": False, "threads": 1, "run_crossover": "off", "ipm_optimality_tolerance": 1e-9}
    options |= {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}
    for name, value in options.items():
        highs.setOptionValue(name, value)
    highs.addVars(len(cost), np.zeros(len(cost)), most)
    highs.changeColsCost(len(cost), np.arange(len(cost), dtype=np.int32), cost)
    return highs
