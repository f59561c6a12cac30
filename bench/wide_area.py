"""What the wide-area planners reach and what they cost: `make bench` runs it.

A line a network: the packing's rate over the exact bound, with any number of trees and with at most ten, beside MTree's
and Blink's with as many; CPU seconds of each. Then how long GOST and its integer program take, and what is left of the
bound when 1 GB is simulated by events.
"""

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

import treefold
from treefold.planning import Wishes, mtree, plan
from treefold.planning.packing import pack

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

Result = TypeVar("Result")


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """Return what `work` returns and its CPU seconds."""
    start = time.process_time()
    return work(), time.process_time() - start


def rate(network: treefold.Topology, algorithm: str, trees: int | None) -> tuple[float, float]:
    """Return a plan's rate as a part of the bound, and the CPU seconds of planning it."""
    planned, seconds = timed(lambda: plan(algorithm, network, Wishes(size_bytes=1 << 40, trees=trees)).plan)
    return (planned.rate or 0.0) / treefold.bound(network)["all_reduce_Bps"], seconds


def packings() -> None:
    """Print rates over the bound."""
    print(f"{'rate / bound (CPU s)':<32}{'packing':>16}{'at most 10':>16}{'mtree, 10':>16}{'blink, 10':>16}")
    for spec in NETWORKS:
        network = treefold.topology(spec)
        found = [rate(network, name, most) for name, most in WANTED]
        print(f"{spec:<32}" + "".join(f"{part:>9.4f} ({seconds:4.1f})" for part, seconds in found), flush=True)


WANTED = (("packing", None), ("packing", 10), ("mtree", 10), ("blink", 10))


def regions() -> None:
    """Print how far the packing of the measured cloud regions is from its own certificate."""
    network = treefold.topology(REGIONS)
    packing, seconds = timed(lambda: pack(network.to_json()))
    part = packing.rates.sum() / packing.bound_Bps
    trees = np.count_nonzero(packing.rates)
    print(f"64 regions, {network.links} links: {part:.5f} of its certificate, {trees} trees, {seconds:.1f} CPU s")


def growing() -> None:
    """Print the CPU seconds of GOST and of the integer program."""
    for spec in ("idn-like:skew=0.1,seed=1", "idn-like:skew=0.9,seed=1", "random:n=200,links=2000,seed=1"):
        network = treefold.topology(spec)
        grown, growing_s = timed(lambda network=network: mtree.grow(network, Wishes()))
        shared, sharing_s = timed(lambda grown=grown: mtree.share_out(grown, 10))
        gap = shared.facts["gap"]
        print(
            f"{spec}: GOST {growing_s:.3f} CPU s, {len(grown.forest)} trees; K = 10: {sharing_s:.2f} s, gap {gap:.2%}"
        )


def simulated() -> None:
    """Print what is left of the bound for 1 GB on b4 with links of 1 ms."""
    network = treefold.topology("b4", latency_s=1e-3)
    for name in ("packing", "mtree", "blink", "ring"):
        planned = treefold.plan(network, name, size_bytes=10**9)
        row = treefold.simulate(planned, size_bytes=10**9, model="flow")
        print(f"b4, links of 1 ms, 1 GB, flow: {name} {row['bound_fraction']:.1%} of the bound")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    packings()
    if REGIONS.is_file():
        regions()
    growing()
    simulated()
