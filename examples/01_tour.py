"""A tour: plan, check, really add arrays, compare, draw, look. On a torus and on a real WAN, Google's B4.

Run it with `make demo`, or `python examples/01_tour.py`; pictures and a page go to the folder `demo` where it is run.
"""

import tempfile
from pathlib import Path

import numpy as np

import treefold
from treefold.report import compare_table, plan_table, plot_comparison

SIZES = {"torus:8x8": [32 << 10, 1 << 20, 64 << 20], "b4": [1 << 20, 64 << 20, 1 << 30]}
"""In the tables; the pictures show all that doubling leads to between the first and the last."""


def tour(spec: str) -> None:
    """Plan with MultiTree, check the plan, run it on arrays, compare all algorithms."""
    network = treefold.topology(spec)
    plan = treefold.plan(network, "multitree")
    print(f"== {spec}: a MultiTree plan\n{plan_table(treefold.summarize(plan))}\n")
    show_check(plan)
    show_run(plan)
    show_comparison(network, SIZES[spec])


def show_check(plan: treefold.Plan) -> None:
    """Write the plan to a file, read it back, prove it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.json"
        treefold.save(plan, file)
        verdict = treefold.check(treefold.load_plan(file))
    print(f"check: {'correct' if verdict.correct else verdict.reason}")


def show_run(plan: treefold.Plan) -> None:
    """Add one array a rank and compare with NumPy's own sum."""
    arrays = [np.random.default_rng(rank).integers(-1000, 1000, 100_003) for rank in range(plan.topology.ranks)]
    results = treefold.run(plan, arrays)
    wrong = sum(not np.array_equal(result, sum(arrays)) for result in results)
    print(f"run:   {len(arrays)} arrays of {arrays[0].size} integers added, {wrong} wrong results")


def show_comparison(network: treefold.Topology, sizes: list[int]) -> None:
    """Compare all algorithms: a table of a few sizes, a picture of many."""
    doubling = [sizes[0] << power for power in range((sizes[-1] // sizes[0]).bit_length())]
    comparison = treefold.compare(network, sizes_bytes=doubling)
    print(f"\n== {network.name}: what each algorithm's all-reduce would cost (analytic simulator; * is the fastest)")
    print(compare_table([each for each in comparison if each.size_bytes in sizes], is_whole=True))
    file = Path("demo") / f"{network.name.replace(':', '-')}.png"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(plot_comparison(comparison, title=network.name, format="png"))
    print(f"plot: {file.as_posix()}", end="\n\n")


def show_page() -> None:
    """Make a page that shows why a ring is slower than MultiTree, for any browser."""
    file = Path("demo") / "torus-8x8.html"
    treefold.view("torus:8x8", algorithm="ring,multitree", size_bytes="1MiB").save(file)
    print(f"page: {file.as_posix()}; open it in a browser to see why a ring is slower")


for spec in SIZES:
    tour(spec)
show_page()
