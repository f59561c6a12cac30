"""Measures one trial of the MTree paper's evaluation: draws a network, plans on it, simulates the plan.

Section IV-A sets the network: capacities follow a skewness, and latencies lie between 50 and 400 ms, the lower the more
capacity a link has. The vector has 1 GB. Links follow Hockney's model, where a message's latency occupies its link.
"""

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

import treefold
from reproduction.mtree.chunks import Pipeline, pipelines
from treefold import Plan, PlannerOptions, Topology, TreefoldError, planning
from treefold.planning.request import has_option
from treefold.plans import requested

SIZE_BYTES = 10**9
LATENCIES_S = (0.05, 0.4)
COUNTS = range(1, 61)
"""Fig. 9 has these numbers of chunks."""
DRAWING = ("mtree", "topoadopt")
"""These planners draw at random; the network is drawn for all of them."""
OFFSETS = (*range(-50, -10, 5), *range(-10, 11), *range(15, 101, 5))
"""Fig. 10 departs by so many chunks from the best number."""
TreeRate = Literal["all", "quarter"]
"""What mtree gives a tree: all of the smallest capacity left, as published, or ours, a quarter of the widest cable.

As published, a tree also has a single start, whose failure ends the search (Algorithm 1, lines 14 and 19).
"""


_WHAT: dict[str, Any] = {"size_bytes": SIZE_BYTES, "collective": "all-reduce", "root": 0, "simulator": "analytic"}
"""What the trees are planned for."""
_PUBLISHED: dict[str, Any] = {"tree_rate": "all", "starts": "one"}
"""The options with which mtree's GBST is the paper's Algorithm 1."""


class Trial(NamedTuple):
    """A trial says what is tried; its fields are the key under which its result is kept."""

    network: str
    skew: float
    seed: int
    algorithm: str
    trees: int | None = None
    height: int | None = None
    pipeline: bool = True
    kind: str = "plan"
    """The key in `KINDS` of what is measured."""
    tree_rate: TreeRate = "all"

    @property
    def name(self) -> str:
        """The algorithm, as figures name it."""
        rule = f"{self.algorithm}, quarter rule" if self.tree_rate == "quarter" else self.algorithm
        return rule if self.pipeline else f"{rule} --no-pipeline"

    def measure(self) -> dict[str, Any]:
        """Run it."""
        return KINDS[self.kind](self)


def network(name: str, skew: float, seed: int) -> Topology:
    """Return a network with capacities and latencies as in the paper."""
    document = json.loads(treefold.topology(f"{name}:skew={skew:g},seed={seed}").to_json())
    slowness = [1 / link["bandwidth_Bps"] for link in document["links"]]
    least, most = min(slowness), max(slowness)
    low, high = LATENCIES_S
    for link, slow in zip(document["links"], slowness, strict=True):
        part = (slow - least) / (most - least) if most > least else 0.5
        link["latency_s"] = low + (high - low) * part
    return treefold.topology(document)


@lru_cache(maxsize=4)
def _plan(trial: Trial) -> Plan:
    """Plan a trial; kept for trials that measure several things of one plan."""
    return treefold.plan(_network(trial), trial.algorithm, size_bytes=SIZE_BYTES, **_options(trial))


def _network(trial: Trial) -> Topology:
    return network(trial.network, trial.skew, trial.seed).under("hockney")


def _options(trial: Trial) -> dict[str, Any]:
    return {
        "trees": trial.trees,
        "height": trial.height,
        "pipeline": trial.pipeline or not has_option(trial.algorithm, "pipeline"),
        **(_PUBLISHED if trial.algorithm == "mtree" and trial.tree_rate == "all" else {}),
        "seed": trial.seed if trial.algorithm in DRAWING else 1,
    }


def _measure_plan(trial: Trial) -> dict[str, Any]:
    """Return a plan's shape, its throughput and its completion times; without a plan (H too small), no throughput."""
    try:
        plan = _plan(trial)
    except TreefoldError:
        if trial.height is None:
            raise
        return {"trees": 0, "throughput": 0.0}
    summary = treefold.summarize(plan)
    return {
        "trees": summary.trees,
        "throughput": summary.normalized_throughput,
        "mean_height": summary.mean_height,
        "mean_max_fanout": summary.mean_max_fanout,
        "reduce_s": seconds(plan.reduce_halves()),
        "all_reduce_s": seconds(plan),
    }


def seconds(plan: Plan) -> float:
    """Return the seconds of 1 GB in the flow simulator."""
    return treefold.simulate(plan, size_bytes=SIZE_BYTES, simulator="flow", link_model="hockney").time_s


def _measure_curves(trial: Trial) -> dict[str, Any]:
    """Return, for each tree's reduction, its best chunk count, its model's curve, and where that is least."""
    trees = pipelines(_plan(trial).reduce_halves(), SIZE_BYTES)
    curves = [[tree.time_s(SIZE_BYTES, count) for count in COUNTS] for tree in trees]
    least = [1 + int(np.argmin([tree.time_s(SIZE_BYTES, count) for count in range(1, 1001)])) for tree in trees]
    return {"best": [best_count(tree) for tree in trees], "counts": list(COUNTS), "curves": curves, "least": least}


def best_count(tree: Pipeline) -> int:
    """Return the better one of the two whole numbers around the best number of chunks."""
    below = max(int(tree.best_count(SIZE_BYTES)), 1)
    return min((below, below + 1), key=lambda count: tree.time_s(SIZE_BYTES, count))


def with_counts(plan: Plan, counts: Sequence[int]) -> Plan:
    """Return the plan with its trees cut into `counts` chunks."""
    document = json.loads(plan.to_json())
    trees = [tree for phase in document["phases"] for tree in phase["trees"]]
    for tree, count in zip(trees, counts, strict=True):
        tree["chunk"] = {"count": count}
    return Plan.from_json(json.dumps(document))


def _measure_offsets(trial: Trial) -> dict[str, Any]:
    """Return times with chunk counts off the best ones, simulated and by the model, and Fig. 8's of the same plan.

    The reduce departs from its own best counts, the all-reduce from its own.
    """
    plan = _plan(trial)
    result: dict[str, Any] = {
        "offsets": list(OFFSETS),
        "pipelined_s": seconds(plan.reduce_halves()),
        "unpipelined_s": seconds(_plan(trial._replace(pipeline=False)).reduce_halves()),
    }
    halves: dict[str, Callable[[Plan], Plan]] = {"reduce": Plan.reduce_halves, "all_reduce": lambda whole: whole}
    for name, half in halves.items():
        trees = pipelines(half(plan), SIZE_BYTES)
        best = list(map(best_count, trees))
        shifted = [[max(count + offset, 1) for count in best] for offset in OFFSETS]
        result[f"{name}_model_s"] = [
            max(tree.time_s(SIZE_BYTES, count) for tree, count in zip(trees, counts, strict=True)) for counts in shifted
        ]
        result[f"{name}_s"] = [seconds(half(with_counts(plan, counts))) for counts in shifted]
        result[f"{name}_one_chunk_s"] = seconds(half(with_counts(plan, [1] * len(best))))
    return result


def _count_grown(trial: Trial) -> dict[str, Any]:
    """Return how many trees GOST constructs, as the paper counts them: before shares decide which carry data."""
    try:
        request = requested(_network(trial), "mtree", options=PlannerOptions(**_options(trial)), **_WHAT)
        return {"trees": planning.plan(request).report["grown_trees"]}
    except TreefoldError:
        return {"trees": 0}


KINDS: dict[str, Callable[[Trial], dict[str, Any]]] = {
    "plan": _measure_plan,
    "grown": _count_grown,
    "curves": _measure_curves,
    "offsets": _measure_offsets,
}
