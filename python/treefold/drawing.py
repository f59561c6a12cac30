"""Draws networks and plans: chooses what a picture shows, and checks what was asked of it.

What draws needs NumPy, and is imported only then: commands that draw nothing start faster without.
"""

from collections.abc import Sequence

from treefold._core import Plan, Topology
from treefold.bounds import bound_at
from treefold.errors import TreefoldError
from treefold.networks import as_network
from treefold.report.looks import MOST_COLOURED, check_format

MOST_TREES = 1 << 20
"""No plan has so many trees that more could be named."""
_LARGE_BYTES = 1 << 40
"""A vector of this size is limited by the rate, and not by latencies."""


def draw(
    source: Plan | Topology | str,
    *,
    tree: int | Sequence[int] | None = None,
    step: int | None = None,
    phase: int | None = None,
    loads: bool = False,
    limit: bool = False,
    format: str = "svg",
) -> bytes:
    """Draw a network, or what a plan sends over it, for a paper.

    A network is drawn alone, or with the links that limit an all-reduce. Of a plan, all trees are drawn if they are so
    few that colours tell them apart (8), and otherwise the loads of links.

    Args:
        source: A `Plan`, a `Topology`, a spec, or the path of a network's file.
        tree: The numbers of trees to draw, one or several, from 0.
        step: The step whose transfers are drawn as arrows in the colours of their trees, from 1; if the plan has
            several phases, in `phase` or in phase 0.
        phase: Draw only trees of this phase.
        loads: Draw how long each link is busy, as a share of the busiest link.
        limit: Draw the links that limit the collective, with the rate that no plan can beat.
        format: `svg`, `png` or `pdf`.

    Returns:
        The content of the file; the same source gives the same bytes.

    Raises:
        TreefoldError: If there is no such tree, step or phase, two of the pictures are asked for at once, or the format
            is unknown.

    Example:
        >>> from pathlib import Path
        >>> plan = treefold.plan("torus:4x4", "multitree")
        >>> Path("step.svg").write_bytes(treefold.draw(plan, step=1)) > 0
        True

    """
    check_format(format)
    given = {"tree": tree is not None, "step": step is not None, "phase": phase is not None, "loads": loads}
    if limit and (others := [name for name, is_given in given.items() if is_given]):
        other = "loads=True those of a plan" if loads else f"a {others[0]} is part of a plan"
        raise TreefoldError(f"limit=True marks links of the network, and {other}; drop one of the two")
    if loads and step is not None:
        raise TreefoldError(
            f"loads=True draws all transfers together, and step {step} is one part; drop one of the two"
        )
    if isinstance(source, Plan):
        return _draw_limit(source, format) if limit else _draw_plan(source, _numbers(tree), step, phase, loads, format)
    from treefold.report import drawings

    network = as_network(source)
    if asked := [name for name, is_given in given.items() if is_given]:
        raise TreefoldError(f"{asked[0]} is drawn of a plan, and {network.name} is a network; plan on it first")
    if limit:
        return drawings.draw_limit(network, bound_at(network, _LARGE_BYTES), format)
    return drawings.draw_network(network, format)


def _numbers(tree: int | Sequence[int] | None) -> list[int] | None:
    if tree is None:
        return None
    numbers = [tree] if isinstance(tree, int) else list(dict.fromkeys(tree))
    if not numbers:
        raise TreefoldError("no tree is named; name at least one, or none to draw all")
    return numbers


def _draw_plan(
    plan: Plan, numbers: list[int] | None, step: int | None, phase: int | None, loads: bool, format: str
) -> bytes:
    from treefold.report import drawings
    from treefold.report.traffic import chosen_trees

    if step is not None and phase is None and plan.num_trees:
        phase = min(tree.phase for tree in chosen_trees(plan, numbers, None).values())
    trees = chosen_trees(plan, numbers, phase)
    if step is not None:
        return drawings.draw_step(plan, trees, step, format)
    if loads or (numbers is None and len(trees) > MOST_COLOURED):
        return drawings.draw_loads(plan, trees, format)
    if len(trees) > MOST_COLOURED:
        raise TreefoldError(f"{len(trees)} trees are named, and only {MOST_COLOURED} can be told apart; name fewer")
    return drawings.draw_trees(plan, trees, format)


def _draw_limit(plan: Plan, format: str) -> bytes:
    from treefold.report import drawings

    size_bytes = _LARGE_BYTES if plan.blocks is None else None
    bound = bound_at(plan.topology, size_bytes, plan.collective, plan.root or 0, plan.blocks)
    return drawings.draw_limit(plan.topology, bound, format)
