"""Draws lines with arrow heads, all of a kind at once; one point of a scene is one point on paper."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treefold.report.looks import GREY, INK
from treefold.report.scenes import Points, Scene, Way

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DASH, GAP = 2.6, 1.7
"""The usual lengths of a dash and of the gap after it, in points."""
PALE = "#C4C4C4"
SWITCH, GUESSED = "#DDDDDD", "#A8A8A8"


class Stroke(NamedTuple):
    """A line on paper."""

    line: Points
    colour: Any
    width: float
    is_dashed: bool = False
    has_head: bool = False


def strokes(
    ways: Iterable[Way], colour: Any, width: float, is_dashed: bool = False, has_head: bool = False
) -> list[Stroke]:
    """Return the strokes of the ways of a link; a way that leaves the picture has no head."""
    return [Stroke(way.line, colour, width, is_dashed, has_head and way.reaches_target) for way in ways]


def draw_strokes(axes: "Axes", drawn: Sequence[Stroke], depth: float) -> None:
    """Draw strokes; later ones lie above earlier ones."""
    from matplotlib.collections import LineCollection, PolyCollection

    heads = [_head(each) if each.has_head else None for each in drawn]
    lines: list[Points] = []
    colours, widths = [], []
    for each, head in zip(drawn, heads, strict=True):
        whole = each.line if head is None else _without(each.line, head)
        parts = dashes(whole) if each.is_dashed else [whole]
        lines += parts
        colours += [each.colour] * len(parts)
        widths += [each.width] * len(parts)
    look: dict[str, Any] = {"colors": colours, "linewidths": widths, "capstyle": "butt", "joinstyle": "round"}
    axes.add_collection(LineCollection(lines, zorder=depth, **look))
    solid = [(head, each.colour) for head, each in zip(heads, drawn, strict=True) if head is not None]
    if solid:
        shapes = PolyCollection([head for head, _ in solid], facecolors=[colour for _, colour in solid])
        shapes.set(linewidth=0, zorder=depth + 0.1)
        axes.add_collection(shapes)


def dashes(line: Points) -> list[Points]:
    """Return the dashes of a line: at least two, all alike, the first at its start and the last at its end."""
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])
    count = max(2, round((along[-1] + GAP) / (DASH + GAP)))
    unit = along[-1] / (count * DASH + (count - 1) * GAP)
    found = []
    for start in unit * (DASH + GAP) * np.arange(count):
        end = start + unit * DASH
        places = np.concatenate([[start], along[(along > start) & (along < end)], [end]])
        found.append(np.stack([np.interp(places, along, line[:, axis]) for axis in (0, 1)], axis=1))
    return found


def _head(stroke: Stroke) -> Points:
    """Return the triangle at the end of a line: tip, left and right."""
    tip, before = stroke.line[-1], stroke.line[-2]
    along = tip - before
    length = max(float(np.hypot(*along)), 1e-9)
    unit = along / length
    long = min(max(2.6 * stroke.width, 3.6), 0.8 * length) if len(stroke.line) == 2 else max(2.6 * stroke.width, 3.6)
    half = 0.42 * long * np.array([-unit[1], unit[0]])
    base = tip - long * unit
    return np.stack([tip, base + half, base - half])


def _without(line: Points, head: Points) -> Points:
    """Return a line that ends inside of its head."""
    base = 0.3 * head[0] + 0.35 * (head[1] + head[2])
    length = float(np.hypot(*(head[0] - base)))
    kept = line[np.hypot(*(line - head[0]).T) > length]
    return np.concatenate([kept, [base]]) if len(kept) else np.stack([line[0], base])


def draw_nodes(axes: "Axes", scene: Scene, fills: dict[int, str]) -> None:
    """Draw the nodes: accelerators are discs, those that are no ranks pale; switches are squares.

    Args:
        axes: Where to draw.
        scene: The network.
        fills: The colours of nodes that have one of their own.

    """
    groups: dict[tuple[str, str], list[int]] = {}
    for place, node in enumerate(scene.nodes):
        edge = GREY if not node.is_switch and node.rank is None else INK
        groups.setdefault(("s" if node.is_switch else "o", edge), []).append(place)
    for (marker, edge), places in groups.items():
        # A square of the side of a disc's diameter looks larger than the disc.
        side = 2 * scene.radius * (0.86 if marker == "s" else 1.0)
        plain = [GUESSED if scene.laid.guessed[each] else (SWITCH if marker == "s" else "white") for each in places]
        colours = [fills.get(place, usual) for place, usual in zip(places, plain, strict=True)]
        width = min(0.8, 0.22 * scene.radius)
        look: dict[str, Any] = {"marker": marker, "facecolor": colours, "edgecolor": edge, "linewidth": width}
        axes.scatter(scene.at[places, 0], scene.at[places, 1], s=side**2, zorder=5, **look)
