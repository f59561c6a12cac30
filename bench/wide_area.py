"""Measures the rates and the CPU time of the wide-area planners; `make bench` runs it.

The first table has a line for each network: the rate over the exact bound and the CPU seconds of `packing` with any
number of trees, and of `packing`, `mtree` and `blink` with at most ten. Then come measured cloud regions, `mtree` on
large networks, and the part of the bound that the flow simulator predicts for 1 GB.
"""

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import treefold
from treefold import planning
from treefold.options import PlannerOptions
from treefold.plans import requested

REGIONS = Path(__file__).parents[2] / "shared" / "data" / "skyplane_matrix.json"
NETWORKS = (
    "b4",
    *(f"b4:skew={skew},seed={seed}" for skew in (0.1, 0.3, 0.5, 0.7, 0.9) for seed in (1, 2)),
    "equinix-like",
    "equinix-like:skew=0.5,seed=1",
    "idn-like",
    "idn-like:skew=0.5,seed=1",
    "mesh:8x8",
    "torus:8x8",
)
PLANNERS = (("packing", None), ("packing", 10), ("mtree", 10), ("blink", 10))
"""The planners of the first table, and how many trees each may have."""

Result = TypeVar("Result")


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """Return the result of `work`, and its CPU seconds."""
    start = time.process_time()
    return work(), time.process_time() - start


def rate(network: treefold.Topology, algorithm: str, trees: int | None) -> tuple[float, float]:
    """Return a plan's rate as a part of the bound, and the CPU seconds of planning it."""
    planned, seconds = timed(lambda: treefold.plan(network, algorithm, size_bytes=1 << 40, trees=trees))
    return (planned.rate or 0.0) / (treefold.bound(network).all_reduce.rate_Bps or 1.0), seconds


def packings() -> None:
    """Print the rates over the bound."""
    print(f"{'rate / bound (CPU s)':<32}{'packing':>16}{'at most 10':>16}{'mtree, 10':>16}{'blink, 10':>16}")
    for spec in NETWORKS:
        network = treefold.topology(spec)
        rates = [rate(network, name, most) for name, most in PLANNERS]
        print(f"{spec:<32}" + "".join(f"{part:>9.4f} ({seconds:4.1f})" for part, seconds in rates), flush=True)


def proven(network: treefold.Topology, algorithm: str, trees: int | None = None) -> tuple[treefold.Plan, float, float]:
    """Return a plan for a very large vector, the gap that its planner proved, and the CPU seconds of planning it."""
    what: dict[str, Any] = {"size_bytes": 1 << 40, "collective": "all-reduce", "root": 0, "simulator": "analytic"}
    request = requested(network, algorithm, options=PlannerOptions(trees=trees), **what)
    planned, seconds = timed(lambda: planning.plan(request))
    return planned.plan, planned.report["gap"], seconds


def regions() -> None:
    """Print the rates of the packing and of MTree's trees for the measured cloud regions."""
    network = treefold.topology(REGIONS)
    bound = treefold.bound(network).all_reduce.rate_Bps or 1.0
    for name in ("packing", "mtree"):
        plan, _, seconds = proven(network, name)
        reached = f"{(plan.rate or 0.0) / bound:.5f} of the bound, {plan.num_trees} trees"
        print(f"64 regions, {network.num_links} links: {name} {reached}, {seconds:.1f} CPU s")


def growing() -> None:
    """Print the CPU seconds of MTree with at most ten trees, and how far its shares may be from the best."""
    for spec in ("idn-like:skew=0.1,seed=1", "idn-like:skew=0.9,seed=1", "random:n=200,links=2000,seed=1"):
        plan, gap, seconds = proven(treefold.topology(spec), "mtree", 10)
        print(f"{spec}: mtree, K = 10: {plan.num_trees} trees, {seconds:.2f} CPU s, gap {gap:.2%}")


def simulated() -> None:
    """Print the predicted part of the bound for 1 GB on b4 with links of 1 ms."""
    network = treefold.topology("b4", latency_s=1e-3)
    for name in ("packing", "mtree", "blink", "ring"):
        planned = treefold.plan(network, name, size_bytes=10**9)
        row = treefold.simulate(planned, size_bytes=10**9, simulator="flow")
        print(f"b4, links of 1 ms, 1 GB, flow: {name} {row.bound_fraction:.1%} of the bound")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    packings()
    if REGIONS.is_file():
        regions()
    growing()
    simulated()
