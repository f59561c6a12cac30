"""Solves linear and integer programs over trees with HiGHS.

Trees are columns; resources (cables, or single directions where they differ) are rows. Capacities are scaled to 1, and
rates to fractions of the widest tree's rate, so that tolerances mean the same on every network.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treefold.errors import TreefoldError

Vector = NDArray[np.float64]
Usage = tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.uint32]]
"""`(first, resource, count)`: tree i uses `resource[first[i]:first[i + 1]]`, each `count` times."""


SECONDS = 10.0
"""The time limit of an integer program. Results depend on the machine only if the limit is reached."""
_NOTHING = 1e-7
"""The largest scaled rate that counts as 0, which is the solver's tolerance."""
_EFFORT = 20_000
"""The most nodes of an integer program's search, times the number of its trees."""


class Shares(NamedTuple):
    """The rates of trees, and a proven limit on how far their sum is from the best."""

    rates: Vector
    gap: float


def master(usage: Usage, capacity: Vector) -> tuple[Vector, Vector]:
    """Maximise the sum of the trees' rates under the capacities; return the rates and each resource's price.

    The interior-point method without crossover finds prices in the middle of the optimal ones, where column generation
    does not stall as it does at corners. Rates are scaled down where rounding lets them exceed a capacity.
    """
    scale = _scale(usage, capacity)
    solver = _solver({"solver": "ipm", "run_crossover": "off"})
    _pass(solver, usage, capacity / scale)
    solver.run()
    if not np.any(solver.getSolution().row_dual):
        solver.clearSolver()
        solver.setOptionValue("solver", "simplex")
        solver.run()
    solution = solver.getSolution()
    rates = np.maximum(np.array(solution.col_value), 0.0) * scale
    prices = np.abs(np.array(solution.row_dual)) / capacity
    return fitted(usage, capacity, rates), prices


def prefer(usage: Usage, capacity: Vector, bonus: Vector) -> Vector:
    """Maximise the sum of the rates, each times `1 + bonus`; return a corner, where few rates are positive."""
    solver = _solver({"solver": "ipm"})
    _pass(solver, usage, capacity / _scale(usage, capacity))
    columns = np.arange(len(bonus), dtype=np.int32)
    solver.changeColsCost(len(bonus), columns, 1 + bonus)
    return _corner(solver, usage, capacity)[0]


def trimmed(usage: Usage, capacity: Vector, most_trees: int, least_rate: float) -> Vector:
    """Return rates of at most `most_trees` trees, none below `least_rate`; good, but not the best.

    The linear program is solved at a corner, where few trees carry anything. As long as they are too many, the trees
    that carry least are closed, and the program is solved again. If no tree is closed, the result is the optimum.
    """
    solver = _solver({"solver": "simplex"})
    _pass(solver, usage, capacity / _scale(usage, capacity))
    while True:
        rates, carrying = _corner(solver, usage, capacity)
        excess, low = len(carrying) - most_trees, int(np.sum(rates[carrying] < least_rate * (1 - 1e-6)))
        if excess <= 0 and low == 0:
            return rates
        _close(solver, carrying[: max(1, excess // 4, low // 4)])


def thinned(usage: Usage, capacity: Vector, rate: float) -> Vector:
    """Return rates of few trees that carry `rate` together; trees that carry least are closed as in `trimmed`."""
    solver = _solver({"solver": "simplex"})
    _pass(solver, usage, capacity / _scale(usage, capacity))
    kept, carrying = _corner(solver, usage, capacity)
    count = len(carrying) // 4
    while count > 0:
        _close(solver, carrying[:count])
        fewer, still_carrying = _corner(solver, usage, capacity)
        if fewer.sum() >= rate:
            kept, carrying = fewer, still_carrying
            count = min(max(1, len(carrying) // 4), len(carrying) - 1)
        else:
            _close(solver, carrying[:count], upper=np.inf)
            count //= 2
    return kept


def _corner(solver: Any, usage: Usage, capacity: Vector) -> tuple[Vector, NDArray[np.intp]]:
    """Return the rates at a corner, and the trees with a positive rate in rising order."""
    solver.run()
    scale = _scale(usage, capacity)
    rates = np.array(solver.getSolution().col_value) * scale
    rates = fitted(usage, capacity, np.where(rates > _NOTHING * scale, rates, 0.0))
    carrying = np.flatnonzero(rates)
    return rates, carrying[np.argsort(rates[carrying], kind="stable")]


def _close(solver: Any, trees: NDArray[np.intp], upper: float = 0.0) -> None:
    solver.changeColsBounds(len(trees), trees.astype(np.int32), np.zeros(len(trees)), np.full(len(trees), upper))


def upper_bound(usage: Usage, capacity: Vector) -> float:
    """Return the largest sum of the trees' rates, without a limit on their number."""
    return float(trimmed(usage, capacity, len(usage[0]), 0.0).sum())


def choose(
    usage: Usage,
    capacity: Vector,
    *,
    most_trees: int,
    least_rate: float = 0.0,
    seconds: float = SECONDS,
    gap: float = 0.01,
    start: Vector | None = None,
) -> Shares:
    """Choose at most `most_trees` trees and their rates, none below `least_rate`: MTree's program (1).

    The big M of each tree is the most that it could carry alone. `start` is a feasible first solution.

    Raises:
        TreefoldError: If the solver finds no solution in `seconds`.

    """
    scale = _scale(usage, capacity)
    count, limits = len(usage[0]) - 1, alone(usage, capacity) / scale
    usable = limits >= least_rate / scale * (1 - 1e-9)
    solver = _solver({"time_limit": float(seconds), "mip_max_nodes": _EFFORT // count, "mip_rel_gap": gap})
    _pass(solver, usage, capacity / scale)
    _add_choices(solver, limits, usable, least_rate / scale, most_trees)
    if start is not None:
        _set_start(solver, np.concatenate([start / scale, (start > 0).astype(float)]))
    solver.run()
    info, values = solver.getInfo(), np.array(solver.getSolution().col_value)
    if len(values) == 0 or not np.isfinite(info.objective_function_value):
        raise TreefoldError(f"no choice of trees found within {seconds} s; allow more time or fewer trees")
    chosen = values[count:] > 0.5
    return Shares(fitted(usage, capacity, np.where(chosen, np.maximum(values[:count], 0.0), 0.0) * scale), info.mip_gap)


def fewest(usage: Usage, capacity: Vector, *, rate: float, start: Vector) -> Shares:
    """Choose the fewest trees that carry `rate` together: Blink's second program. `start` is a feasible solution.

    The gap is about the number of trees; it is infinite if the solver proved none.
    """
    scale = _scale(usage, capacity)
    count, limits = len(usage[0]) - 1, alone(usage, capacity) / scale
    solver = _solver({"time_limit": SECONDS, "mip_max_nodes": _EFFORT // count // 4})
    _pass(solver, usage, capacity / scale)
    _add_choices(solver, limits, np.ones(count, dtype=np.bool_), 0.0, count)
    columns = np.arange(2 * count, dtype=np.int32)
    solver.changeColsCost(2 * count, columns, np.repeat([0.0, -1.0], count))
    solver.addRow(rate / scale, float("inf"), count, columns[:count], np.ones(count))
    _set_start(solver, np.concatenate([start / scale, (start > 0).astype(float)]))
    solver.run()
    values = np.array(solver.getSolution().col_value)
    chosen = fitted(usage, capacity, np.where(values[count:] > 0.5, np.maximum(values[:count], 0.0), 0.0) * scale)
    if not rate * (1 - 1e-6) <= chosen.sum():
        return Shares(start, np.inf)
    return Shares(chosen, solver.getInfo().mip_gap)


def _scale(usage: Usage, capacity: Vector) -> float:
    """Return the unit of rates in programs: the rate of the widest tree, which is near the best sum."""
    return float(alone(usage, capacity).max())


def alone(usage: Usage, capacity: Vector) -> Vector:
    """Return the rate of each tree if it had the network for itself."""
    first, resource, count = usage
    return np.minimum.reduceat(capacity[resource] / count, first[:-1].astype(np.int64))


def load(usage: Usage, rates: Vector, resources: int) -> Vector:
    """Return the load of each resource under these rates."""
    first, resource, count = usage
    each: Vector = np.repeat(rates, np.diff(first).astype(np.int64)) * count
    return np.bincount(resource, each, resources).astype(np.float64)


def fitted(usage: Usage, capacity: Vector, rates: Vector) -> Vector:
    """Scale the rates down, if necessary, so that no load exceeds its capacity."""
    part = load(usage, rates, len(capacity)) / capacity
    return rates / max(1.0, float(part.max(initial=0.0)))


def _solver(options: dict[str, Any]) -> Any:
    import highspy

    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for name, value in {"output_flag": False, "threads": 1, "random_seed": 0, **options}.items():
        solver.setOptionValue(name, value)
    return solver


def _pass(solver: Any, usage: Usage, capacity: Vector) -> None:
    """Give the solver the linear program: maximise the sum of rates under the capacities."""
    import highspy

    first, resource, count = usage
    columns, rows = len(first) - 1, len(capacity)
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = columns, rows
    program.sense_ = highspy.ObjSense.kMaximize
    program.col_cost_ = np.ones(columns)
    program.col_lower_, program.col_upper_ = np.zeros(columns), np.full(columns, highspy.kHighsInf)
    program.row_lower_, program.row_upper_ = np.full(rows, -highspy.kHighsInf), np.ones(rows)
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = first.astype(np.int32)
    program.a_matrix_.index_, program.a_matrix_.value_ = resource.astype(np.int32), count / capacity[resource]
    solver.passModel(program)


def _add_choices(solver: Any, limits: Vector, usable: NDArray[np.bool_], least: float, most_trees: int) -> None:
    """Add a binary choice for each tree, at most `most_trees` of them: `least choice <= rate <= limit choice`."""
    import highspy

    count = len(limits)
    solver.addVars(count, np.zeros(count), usable.astype(np.float64))
    choices = np.arange(count, 2 * count, dtype=np.int32)
    solver.changeColsIntegrality(count, choices, np.full(count, highspy.HighsVarType.kInteger))
    _add_pairs(solver, np.full(count, -highspy.kHighsInf), np.zeros(count), -limits)
    if least > 0:
        _add_pairs(solver, np.zeros(count), np.full(count, highspy.kHighsInf), np.full(count, -least))
    solver.addRow(0.0, float(most_trees), count, choices, np.ones(count))


def _add_pairs(solver: Any, lower: Vector, upper: Vector, factors: Sequence[float] | Vector) -> None:
    """Add the rows `lower[i] <= rate[i] + factors[i] choice[i] <= upper[i]`."""
    count = len(lower)
    starts = np.arange(0, 2 * count, 2, dtype=np.int32)
    columns = np.stack([np.arange(count), np.arange(count, 2 * count)], axis=1).ravel().astype(np.int32)
    values = np.stack([np.ones(count), np.asarray(factors)], axis=1).ravel()
    solver.addRows(count, lower, upper, 2 * count, starts, columns, values)


def _set_start(solver: Any, values: Vector) -> None:
    import highspy

    solution = highspy.HighsSolution()
    solution.col_value = list(values)
    solver.setSolution(solution)
