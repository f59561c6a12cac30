"""Draws what links share: a colour for each shared capacity, and a mark at each node with a cap."""

import textwrap
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from treefold._core import format_bandwidth
from treefold.importers.caps import node_caps
from treefold.report.lanes import aside_of, cable_of, lane_width, right_of
from treefold.report.looks import COLOURS, INK, MOST_COLOURED
from treefold.report.paper import Key
from treefold.report.scenes import Points, Scene
from treefold.report.strokes import SWITCH, Stroke, strokes
from treefold.report.traffic import Pair

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST = 40
"""Longer names are cut in the legend."""
_AROUND = np.array([[1, 1], [-1, 1], [1, -1], [-1, -1], [0, 1.4], [1.4, 0], [-1.4, 0], [0, -1.4]]) / 1.4
"""Directions from a node: the corners, and then the sides."""


def shared_lanes(place: Scene) -> tuple[list[Stroke], list[Key]]:
    """Return the lanes of shared capacities over the cables that use them, and their entries of the legend.

    A lane has an arrow head if only that direction of a cable uses the capacity. Caps of nodes have marks instead.
    """
    caps = node_caps(place.network)
    named = [shared for shared in place.network.shared() if shared.name not in caps]
    lanes: defaultdict[Pair, dict[tuple[Pair, bool, str], None]] = defaultdict(dict)
    for number, shared in enumerate(named):
        pairs = place.pairs_of(shared.links)
        for pair in pairs:
            is_both = pair[::-1] in pairs
            way = cable_of(pair) if is_both else pair
            lanes[cable_of(pair)][way, not is_both, _colour(number)] = None
    over: list[Stroke] = []
    for ways in lanes.values():
        width = lane_width(place, len(ways))
        for aside, (pair, has_head, colour) in zip(aside_of(place, [way[0] for way in ways], width), ways, strict=True):
            over += strokes(place.ways(*pair, right_of(pair, aside)), colour, width, False, has_head)
    keys = [
        Key(
            f"{textwrap.shorten(shared.name, _LONGEST, placeholder='…')}: {format_bandwidth(shared.bandwidth_Bps)}",
            colour,
        )
        for shared, colour in zip(named, COLOURS, strict=False)
    ]
    rest = len(named) - len(keys)
    return over, [*keys, *([Key(f"{rest} other shared capacit{'y' if rest == 1 else 'ies'}", INK)] if rest else [])]


def _colour(number: int) -> str:
    return COLOURS[number] if number < MOST_COLOURED else INK


def draw_caps(axes: "Axes", scene: Scene) -> None:
    """Draw a small square at the rim of each node with a cap, beside its links."""
    at = _marks(scene)
    if len(at):
        look: dict[str, Any] = {
            "marker": "s",
            "facecolor": SWITCH,
            "edgecolor": INK,
            "linewidth": min(0.8, 0.22 * scene.radius),
        }
        axes.scatter(at[:, 0], at[:, 1], s=(0.6 * scene.radius) ** 2, zorder=5.5, **look)


def cap_keys(scene: Scene) -> list[Key]:
    """Return the entry of the legend for caps, if there are any."""
    return [Key("cap of a node", marker="s", fill=SWITCH)] if node_caps(scene.network) else []


def _marks(scene: Scene) -> Points:
    """Return the places of the marks of all capped nodes."""
    capped = {scene.place_of[name] for name in node_caps(scene.network).values()}
    near: defaultdict[int, list[int]] = defaultdict(list)
    for one, other in scene.pairs:
        near[one].append(other)
        near[other].append(one)
    return np.array([_mark(scene, place, near[place]) for place in sorted(capped)]).reshape(-1, 2)


def _mark(scene: Scene, place: int, near: list[int]) -> Points:
    """Return the place of a mark: that of eight at the rim of the node which is farthest from where its links leave."""
    away = np.array([scene.ways(place, other)[0].line[0] for other in near]) - scene.at[place]
    units = away / np.maximum(np.hypot(away[:, 0], away[:, 1]), 1e-9)[:, None]
    nearest = (_AROUND @ units.T).max(axis=1)
    return np.asarray(scene.at[place] + scene.radius * _AROUND[int(np.argmin(nearest.round(6)))])
