"""A tour: plan, check, really add arrays, compare. On a torus of accelerators and on a real WAN, Google's B4.

Run it with `make demo`, or `python examples/01_tour.py`.
"""

import tempfile
from pathlib import Path

import numpy as np

import treefold
from treefold.report import compare_table, plan_table

SIZES = {"torus:8x8": [32 << 10, 1 << 20, 64 << 20], "b4": [1 << 20, 64 << 20, 1 << 30]}


def tour(spec: str) -> None:
    """Plan with MultiTree, check the plan, run it on arrays, compare all algorithms."""
    network = treefold.topology(spec)
    plan = treefold.plan(network, "multitree")
    print(f"== {spec}: a MultiTree plan\n{plan_table(treefold.summarize(plan))}\n")
    show_check(plan)
    show_run(plan)
    print(f"\n== {spec}: what each algorithm's all-reduce would cost (analytic model; * is the fastest)")
    print(compare_table(treefold.compare(network, sizes_bytes=SIZES[spec])), end="\n\n")


def show_check(plan: treefold.Plan) -> None:
    """Write the plan to a file, read it back, prove it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.json"
        file.write_text(plan.to_json())
        verdict = treefold.check(treefold.Plan.from_json(file.read_text()))
    print(f"check: {'correct' if verdict.correct else verdict.reason}")


def show_run(plan: treefold.Plan) -> None:
    """Add one array a rank and compare with NumPy's own sum."""
    arrays = [np.random.default_rng(rank).integers(-1000, 1000, 100_003) for rank in range(plan.topology.ranks)]
    results = treefold.run(plan, arrays)
    wrong = sum(not np.array_equal(result, sum(arrays)) for result in results)
    print(f"run:   {len(arrays)} arrays of {arrays[0].size} integers added, {wrong} wrong results")


for spec in SIZES:
    tour(spec)
