"""Finds what a plan sends over which links: the edges of trees, the transfers of a step, and the loads of links.

All of it is read from the columns of the plan, since a large plan has millions of edges.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treefold._core import Plan, Tree
from treefold.errors import TreefoldError
from treefold.report.scenes import Scene

Columns = Mapping[str, NDArray[Any]]

Pair = tuple[int, int]


class Hop(NamedTuple):
    """The way of a tree's data over one link."""

    pair: Pair
    tree: int
    to_root: bool
    """Whether the data go towards the root, to be reduced."""


def chosen_trees(plan: Plan, numbers: Sequence[int] | None, phase: int | None) -> dict[int, Tree]:
    """Return the trees with these numbers, by default all, of a phase, by default of all phases.

    Raises:
        TreefoldError: If there is no such tree or phase.

    """
    trees = plan.trees()
    if numbers is not None and (absent := [number for number in numbers if not 0 <= number < len(trees)]):
        raise TreefoldError(f"tree {absent[0]} does not exist; {_count_of('tree', len(trees))}")
    phases = max((tree.phase for tree in trees), default=-1) + 1
    if phase is not None and not 0 <= phase < phases:
        raise TreefoldError(f"phase {phase} does not exist; {_count_of('phase', phases)}")
    found = {number: trees[number] for number in (range(len(trees)) if numbers is None else numbers)}
    in_phase = {number: tree for number, tree in found.items() if phase in (None, tree.phase)}
    if found and not in_phase:
        raise TreefoldError(
            f"none of these trees is in phase {phase}; name trees of that phase, or drop one of the two"
        )
    return in_phase


def _count_of(what: str, count: int) -> str:
    if count == 0:
        return f"the plan has no {what}s, as nothing is sent"
    return f"the plan has {count} {what}s, 0 to {count - 1}" if count > 1 else f"the plan has only {what} 0"


def hops(scene: Scene, plan: Plan, numbers: Iterable[int], step: int | None = None) -> list[Hop]:
    """Return all hops of the trees with these numbers, or those of one step."""
    columns = plan.columns()
    edges, halves = _edges(columns, numbers)
    if step is not None:
        chosen = columns["edge_step"][edges] == step
        edges, halves = edges[chosen], halves[chosen]
    lanes = columns["edge_lane"][edges].astype(np.int64)
    counts = np.diff(columns["lane_start"])[lanes]
    pairs = scene.pair_of_link[_links(columns, lanes)].tolist()
    halves = np.repeat(halves, counts)
    trees, to_root = (halves // 2).tolist(), (halves % 2 == 0).tolist()
    return [Hop((pair[0], pair[1]), *which) for pair, *which in zip(pairs, trees, to_root, strict=True)]


def _edges(columns: Columns, numbers: Iterable[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the edges of trees, and of each its half: twice the number of its tree, and one more if it broadcasts."""
    chosen = np.fromiter(numbers, np.int64)
    halves = np.stack([2 * chosen, 2 * chosen + 1], axis=1).reshape(-1)
    start = columns["half_start"].astype(np.int64)
    return _ranges(start[halves], start[halves + 1]), np.repeat(halves, start[halves + 1] - start[halves])


def _links(columns: Columns, lanes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the links of lanes, one lane after the other."""
    start = columns["lane_start"].astype(np.int64)
    found: NDArray[np.int64] = columns["lane_links"].astype(np.int64)[_ranges(start[lanes], start[lanes + 1])]
    return found


def _ranges(start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers from each start to its end, without the end, one range after the other."""
    lengths = end - start
    before = np.cumsum(lengths) - lengths
    return np.asarray(np.arange(int(lengths.sum())) + np.repeat(start - before, lengths), np.int64)


def check_step(plan: Plan, numbers: Iterable[int], step: int) -> int:
    """Return the last step of trees of one phase; refuse a step that none of them has.

    Raises:
        TreefoldError: If the trees have no steps, or not this one.

    """
    columns = plan.columns()
    steps = np.unique(columns["edge_step"][_edges(columns, numbers)[0]]).tolist()
    if not steps:
        raise TreefoldError(f"step {step} does not exist; nothing is sent")
    if steps[0] == 0:
        raise TreefoldError(
            f"the trees of {plan.algorithm} have no steps, as their data stream; drop the step, or draw single trees"
        )
    if step not in steps:
        raise TreefoldError(f"step {step} does not exist; the last step is {steps[-1]}, and the first one {steps[0]}")
    return int(steps[-1])


def loads(scene: Scene, plan: Plan, numbers: Iterable[int]) -> dict[Pair, float]:
    """Return how long the links of each pair are busy with trees, as a share of those that are busy longest."""
    columns = plan.columns()
    edges, halves = _edges(columns, numbers)
    shares = columns["tree_share"].astype(float)[halves // 2]
    lanes = len(columns["lane_source"])
    of_lanes = np.bincount(columns["edge_lane"][edges], shares, minlength=lanes)
    links = _links(columns, np.arange(lanes))
    carried = np.repeat(of_lanes, np.diff(columns["lane_start"]))
    busy: dict[Pair, float] = {}
    for (source, target), share in zip(scene.pair_of_link[links].tolist(), carried.tolist(), strict=True):
        if share:
            pair = source, target
            busy[pair] = busy.get(pair, 0.0) + share / scene.cables[pair].bandwidth_Bps
    most = max(busy.values(), default=0.0)
    return {pair: seconds / most for pair, seconds in busy.items()} if most else {}
