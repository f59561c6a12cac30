"""Pictures of the manual: the first tree of a plan, drawn over its network."""

import itertools
import re
from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

import treefold
from treefold.report.looks import GREY, INK, picture, style

Point = tuple[float, float]

_GRID = re.compile(r"(?:torus|mesh):(\d+)x(\d+)")
_LAST, _FIRST = 0.85, 0.1
"""The places in the colour map of the last and of the first edges."""
_RISE = 2.9
"""The height of a row of switches above the accelerators."""
_MARGIN = 0.75
"""The space above and below the nodes."""


def tree(plan: treefold.Plan, network: treefold.Topology) -> bytes:
    """Return the SVG of the broadcast half of a plan's first tree, or of its reduce half if that is all it has."""
    places, is_grid = _places(network), _GRID.fullmatch(network.name) is not None
    edges = _edges(plan)
    with style():
        wide = max(x for x, _ in places.values()) - min(x for x, _ in places.values()) + 1.2
        high = max(y for _, y in places.values()) - min(y for _, y in places.values()) + 2 * _MARGIN
        scale = min(0.95, 8 / wide)
        figure = Figure(figsize=(wide * scale, high * scale), facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_aspect("equal")
        for link in network.links():
            _arrow(axes, places[link.source], places[link.target], "#E2E2E2", "-", 1.0)
        depths = _depths(edges)
        last = max(depths)
        for route, depth in zip(edges, depths, strict=True):
            # On a grid the routes of an edge would hide each other; elsewhere they show the switches.
            stops = [places[name] for name in ((route[0], route[-1]) if is_grid else route)]
            for at, (start, end) in enumerate(itertools.pairwise(stops)):
                kind = "-|>" if at == len(stops) - 2 else "-"
                _arrow(axes, start, end, _colour(depth, last), kind, 2.0)
        _nodes(axes, network, places, plan.trees()[0].root)
        axes.set_xlim(min(x for x, _ in places.values()) - 0.6, max(x for x, _ in places.values()) + 0.6)
        axes.set_ylim(min(y for _, y in places.values()) - _MARGIN, max(y for _, y in places.values()) + _MARGIN)
        return picture(figure, "svg")


def caption(plan: treefold.Plan, network: str) -> str:
    """Return what the picture shows, in one sentence or two."""
    trees = plan.trees()
    share = f"{trees[0].share:.3g} of the vector" if trees[0].share < 1 else "the whole vector"
    half = "the broadcast half" if trees[0].broadcast() else "the reduce half"
    number = "the only tree" if len(trees) == 1 else f"the first of {len(trees)} trees"
    return (
        f"On `{network}`, this is {half} of {number}, which carries {share} and has its root at {trees[0].root}. Dark "
        "arrows come first, bright ones last; grey lines are links that this tree leaves to others."
    )


def _edges(plan: treefold.Plan) -> list[list[str]]:
    first = plan.trees()[0]
    return [edge.route for edge in first.broadcast() or reversed(first.reduce())]


def _depths(edges: list[list[str]]) -> list[int]:
    """Return how many edges lie between each edge and the first ones."""
    arrived: dict[str, int] = {}
    for route in edges:
        arrived[route[-1]] = arrived.get(route[0], 0) + 1
    return [arrived.get(route[0], 0) for route in edges]


def _places(network: treefold.Topology) -> Mapping[str, Point]:
    """Return where each node is drawn: nodes of a grid in rows, else accelerators in a row below the switches."""
    names = [node.name for node in network.nodes()]
    grid = _GRID.fullmatch(network.name)
    if grid:
        columns = int(grid[2])
        return {name: (1.0 * (at % columns), -1.0 * (at // columns)) for at, name in enumerate(names)}
    switches = [node.name for node in network.nodes() if node.is_switch]
    others = [name for name in names if name not in switches]
    gap = (len(others) - 1) / max(1, len(switches) - 1) if len(switches) > 1 else 0.0
    above = {name: (at * gap if gap else (len(others) - 1) / 2, _RISE) for at, name in enumerate(switches)}
    return {name: (1.0 * at, 0.0) for at, name in enumerate(others)} | above


def _colour(depth: int, last: int) -> tuple[float, float, float, float]:
    import matplotlib

    part = depth / last if last else 0.0
    colour: tuple[float, float, float, float] = matplotlib.colormaps["viridis"](_FIRST + (_LAST - _FIRST) * part)
    return colour


def _arrow(axes: Any, start: Point, end: Point, colour: Any, kind: str, width: float) -> None:
    """Draw an arrow; one that passes other nodes of a row bends around them."""
    length = max(abs(start[0] - end[0]), abs(start[1] - end[1]))
    in_row = start[1] == end[1] or (start[0] == end[0] and length != _RISE)
    bend = min(0.28, 0.9 / length) if in_row and length > 1.5 else 0.0
    patch = FancyArrowPatch(
        start, end, arrowstyle=kind, mutation_scale=13, color=colour, linewidth=width, shrinkA=11, shrinkB=11,
        connectionstyle=f"arc3,rad={bend}", zorder=2 if kind != "-" else 1,
    )  # fmt: skip
    axes.add_patch(patch)


def _nodes(axes: Any, network: treefold.Topology, places: Mapping[str, Point], root: str) -> None:
    for node in network.nodes():
        x, y = places[node.name]
        shape = "square,pad=0.35" if node.is_switch else "circle,pad=0.3"
        box = {"boxstyle": shape, "facecolor": "#FFE9B0" if node.name == root else "white", "edgecolor": INK}
        text = re.sub(r"^(GPU|SW|S)", "", node.name)
        axes.text(x, y, text, ha="center", va="center", fontsize=9, bbox=box, color=GREY, zorder=3)
