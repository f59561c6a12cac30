"""Checks the promises of plans that `check` calls correct."""

import json
import math

import numpy as np

import treefold
from fuzz.cases import Fault, check_message
from treefold import _core
from treefold.collectives import COLLECTIVES
from vectors import expected

SIZE_BYTES = 1 << 20
_MOST_ELEMENTS = 1500


def check_file(plan: treefold.Plan) -> None:
    """Check that a plan is the same after it is written and read."""
    again = treefold.Plan.from_json(plan.to_json())
    if again.to_json() != plan.to_json() or not treefold.check(again).correct:
        raise Fault("wrong", "a plan is not the same after it is written and read", "plan file")


def check_schedule(plan: treefold.Plan) -> None:
    """Check that the second oracle agrees."""
    reason = plan.check_schedule(plan.schedule(_elements(plan), 8))
    if reason is not None:
        raise Fault("wrong", f"check calls a plan correct, check_schedule does not: {reason}", "check_schedule")


def check_time(plan: treefold.Plan, simulator: str) -> float:
    """Check that a simulator predicts a possible time, and return it in seconds."""
    # `treefold.simulate` would also compute bounds.
    if simulator == "analytic":
        time_s = _core.simulate_analytic(plan, SIZE_BYTES).time_s
    else:
        time_s = _core.simulate_flow(plan, SIZE_BYTES, False).time_s
    if not math.isfinite(time_s) or time_s < 0 or (time_s == 0 and plan.topology.ranks > 1):
        raise Fault("wrong", f"{simulator} times a correct plan at {time_s} s", simulator)
    return time_s


def check_times(plan: treefold.Plan, least: float, most: float) -> None:
    """Check that the time of `flow` is between `least` and `most` times that of `analytic`."""
    analytic_s, flow_s = (check_time(plan, simulator) for simulator in ("analytic", "flow"))
    if analytic_s > 0 and not least < flow_s / analytic_s < most:
        raise Fault("wrong", f"analytic says {analytic_s} s, flow {flow_s} s", "analytic and flow")


def check_sums(plan: treefold.Plan) -> None:
    """Check that running the plan gives NumPy's result.

    Sums of whole numbers as float64 are exact if each counts once, and they do not wrap modulo 2^64.
    """
    shape = plan.topology.ranks, _elements(plan)
    values = np.random.default_rng(len(plan.to_json())).integers(-(2**20), 2**20, shape)
    arrays = list(values.astype(np.float64))
    wanted = expected(plan.collective, arrays, "sum", plan.root or 0)
    if not all(map(_same, treefold.run(plan, arrays), wanted)):
        raise Fault("wrong", f"check calls a plan correct, but its {plan.collective} is not what NumPy says", "run")


def check_derived(plan: treefold.Plan) -> None:
    """Check that other collectives that can be derived from the plan give NumPy's results."""
    if plan.collective != "all-reduce":
        return
    for collective in COLLECTIVES:
        try:
            derived = plan.derive(collective, plan.topology.ranks - 1)
            check_sums(derived)
        except treefold.TreefoldError as error:
            check_message(str(error))


def _same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    return one is other is None or (one is not None and other is not None and np.array_equal(one, other))


def _elements(plan: treefold.Plan) -> int:
    """Return a number of elements for which every piece of the vector has some, within limits."""
    return min(2 * int(json.loads(plan.to_json())["units"]) + 1, _MOST_ELEMENTS)
