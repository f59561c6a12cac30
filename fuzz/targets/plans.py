"""Plan files: real plans, changed so that they may look right and be wrong.

What `check` calls correct must be so: its schedule is, its times are possible, and it adds vectors as NumPy does.
"""

import json
import math
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import treefold
from fuzz.cases import Case, Fault, check_message, check_refusal
from fuzz.forgeries import change_plan
from fuzz.mutations import change_text
from treefold._core import collectives
from treefold.arguments import load_plan
from vectors import expected

_NETWORKS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ring:1", {}),
    ("ring:2", {}),
    ("full:3", {"bandwidth_Bps": 3e9}),
    ("line:3", {"latency_s": 0.0}),
    ("ring:4", {}),
    ("ring:4", {"ranks": "0,3,1"}),
    ("torus:2x2", {}),
    ("mesh:2x3", {}),
    ("bigraph:1x2", {}),
    ("random:n=4,links=5,seed=3", {}),
)
_SIZE_BYTES = 1 << 20
_MOST_ELEMENTS = 1500
_FLOW_OF_ANALYTIC = (1e-3, 1e3)
"""The simulators may differ, but not by more than this."""

_Corpus = list[list[bytes]]


def corpus() -> _Corpus:
    """Return plan files of every algorithm and collective, those of one network in one list."""
    return [_plans(treefold.topology(spec, **options)) for spec, options in _NETWORKS]


def _plans(network: treefold.Topology) -> list[bytes]:
    found = []
    for algorithm in treefold.algorithms():
        for collective in collectives():
            try:
                plan = treefold.plan(network, algorithm, collective=collective, root=network.ranks - 1)
            except treefold.TreefoldError:
                continue
            found.append(plan.to_json().encode())
    return found


def make(random: Random, corpus: _Corpus) -> Case:
    """Return a plan file that is changed a little, or rarely any text."""
    plans = random.choice(corpus)
    content = random.choice(plans)
    if random.random() < 0.03:
        return Case(".json", change_text(content, plans, random))
    plan = json.loads(content)
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5))):
        change_plan(plan, plans, random)
    return Case(".json", json.dumps(plan).encode())


def run(path: Path) -> None:
    """Read the plan and check it; hold it to what it is said to be."""
    try:
        plan = load_plan(path)
    except treefold.TreefoldError as error:
        check_refusal(error, str(path))
        return
    verdict = treefold.check(plan)
    if not verdict.correct:
        check_message(verdict.reason)
        return
    for look in (_look_at_file, _look_at_schedule, _look_at_times, _look_at_sums, _look_at_rest):
        try:
            look(plan)
        except treefold.TreefoldError as error:
            check_refusal(error)


def _look_at_file(plan: treefold.Plan) -> None:
    again = treefold.Plan.from_json(plan.to_json())
    if again.to_json() != plan.to_json() or not treefold.check(again).correct:
        raise Fault("wrong", "a plan is not the same once it is written and read")


def _elements(plan: treefold.Plan) -> int:
    """Return how many elements show every piece of a vector, where those are not too many."""
    return min(2 * json.loads(plan.to_json())["units"] + 1, _MOST_ELEMENTS)


def _look_at_schedule(plan: treefold.Plan) -> None:
    reason = plan.check_schedule(plan.schedule(_elements(plan), 8))
    if reason is not None:
        raise Fault("wrong", f"check calls a plan correct, check_schedule does not: {reason}", "check_schedule")


def _look_at_times(plan: treefold.Plan) -> None:
    times = [
        treefold.simulate(plan, size_bytes=_SIZE_BYTES, model=model)["time_s"] for model in ("analytic", "flow")
    ]
    for time_s, model in zip(times, ("analytic", "flow"), strict=True):
        if not math.isfinite(time_s) or (time_s > 0) != (plan.topology.ranks > 1):
            raise Fault("wrong", f"{model} times a correct plan at {time_s} s", model)
    least, most = _FLOW_OF_ANALYTIC
    if plan.topology.ranks > 1 and not least < times[1] / times[0] < most:
        raise Fault("wrong", f"analytic says {times[0]} s, flow {times[1]} s", "times")


def _look_at_sums(plan: treefold.Plan) -> None:
    """Add whole numbers as float64: exact as long as each counts once, and not modulo 2^64."""
    values = np.random.default_rng(len(plan.to_json())).integers(-(2**20), 2**20, (plan.topology.ranks, _elements(plan)))
    arrays = list(values.astype(np.float64))
    wanted = expected(plan.collective, arrays, "sum", plan.root)
    got = treefold.run(plan, arrays)
    if not all((a is None) == (b is None) and (a is None or np.array_equal(a, b)) for a, b in zip(got, wanted, strict=True)):
        raise Fault("wrong", f"check calls a plan correct, but its {plan.collective} is not what NumPy says", "run")


def _look_at_rest(plan: treefold.Plan) -> None:
    treefold.summarize(plan)
    treefold.tables(plan, size_bytes=_SIZE_BYTES)
