"""Finds what a plan sends over which links: the edges of trees, the transfers of a step, and the loads of links."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from treefold._core import Plan, Tree
from treefold.errors import TreefoldError
from treefold.report.scenes import Scene

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


def hops(scene: Scene, trees: dict[int, Tree], step: int | None = None) -> list[Hop]:
    """Return all hops of trees, or those of one step."""
    return [
        Hop((scene.place_of[source], scene.place_of[target]), number, to_root)
        for number, tree in trees.items()
        for edges, to_root in ((tree.reduce(), True), (tree.broadcast(), False))
        for edge in edges
        if step is None or edge.step == step
        for source, target in pairwise(edge.route)
    ]


def check_step(plan: Plan, trees: dict[int, Tree], step: int) -> int:
    """Return the last step of trees of one phase; refuse a step that none of them has.

    Raises:
        TreefoldError: If the trees have no steps, or not this one.

    """
    steps = {edge.step for tree in trees.values() for edge in [*tree.reduce(), *tree.broadcast()]}
    if not steps:
        raise TreefoldError(f"step {step} does not exist; nothing is sent")
    if None in steps:
        raise TreefoldError(
            f"the trees of {plan.algorithm} have no steps, as their data stream; drop the step, or draw single trees"
        )
    last = max(each for each in steps if each is not None)
    if step not in steps:
        first = min(each for each in steps if each is not None)
        raise TreefoldError(f"step {step} does not exist; the last step is {last}, and the first one {first}")
    return last


def loads(scene: Scene, trees: dict[int, Tree]) -> dict[Pair, float]:
    """Return how long the links of each pair are busy, as a share of those that are busy longest."""
    carried: defaultdict[tuple[str, str], float] = defaultdict(float)
    for tree in trees.values():
        share = tree.share
        for edges in (tree.reduce(), tree.broadcast()):
            for edge in edges:
                for names in pairwise(edge.route):
                    carried[names] += share
    pairs = {(scene.place_of[source], scene.place_of[target]): share for (source, target), share in carried.items()}
    busy = {pair: share / scene.cables[pair].bandwidth_Bps for pair, share in pairs.items()}
    most = max(busy.values(), default=0.0)
    return {pair: seconds / most for pair, seconds in busy.items()} if most else {}
