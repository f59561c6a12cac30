"""Names nodes where there is room: in them if their names are short, or else beside them."""

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from treefold.report.looks import INK, parts
from treefold.report.plots import plain
from treefold.report.scenes import Points, Scene

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_Box = tuple[float, float, float, float]
_MOST = 200
"""Larger pictures have no names."""
_LEAST_FONT, _FONT, _BESIDE = 4.0, 7.0, 5.6
_CHARACTER = 0.6
"""The usual width of a character, in heights of the font."""
_LONGEST = 18


def draw_names(axes: "Axes", scene: Scene, fills: dict[int, str], lines: list[Points]) -> str:
    """Write the names of nodes; return what to say of the part that was left out, such as `GPU` of `GPU12`."""
    if not 0 < len(scene.nodes) <= _MOST:
        return ""
    names = {place: plain(node.name) for place, node in enumerate(scene.nodes)}
    prefixes = _prefixes(scene, names)
    short = {place: name.removeprefix(prefixes[scene.nodes[place].is_switch]) for place, name in names.items()}
    font = _font_inside(scene, max(map(len, short.values())))
    if font >= _LEAST_FONT and scene.laid.kind != "map":
        for place, text in short.items():
            colour = "white" if place in fills and _is_dark(fills[place]) else INK
            x, y = scene.at[place]
            axes.text(x, y, text, size=font, color=colour, ha="center", va="center_baseline", zorder=6)
        return _said(scene, names, prefixes)
    _draw_beside(axes, scene, names, lines)
    return ""


def _is_dark(colour: str) -> bool:
    """Tell whether white is read better on a colour than dark ink: by its lightness, as eyes weigh it (Rec. 709)."""
    red, green, blue = parts(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.55


def _said(scene: Scene, names: dict[int, str], prefixes: dict[bool, str]) -> str:
    """Say which names are left with their numbers only."""
    ranges = []
    for is_switch, prefix in prefixes.items():
        numbered = [name for place, name in names.items() if scene.nodes[place].is_switch == is_switch]
        if prefix and len(numbered) > 1:
            first, *_, last = sorted(numbered, key=lambda name: int(name.removeprefix(prefix)))
            ranges.append(f"{first} to {last}")
    return f"{' and '.join(ranges)} by number" if ranges else ""


def _prefixes(scene: Scene, names: dict[int, str]) -> dict[bool, str]:
    """Return the word before the numbers that all names of accelerators, and all of switches, begin with."""
    found = {}
    for is_switch in (False, True):
        words = {
            re.sub(r"[0-9]+$", "", name) for place, name in names.items() if scene.nodes[place].is_switch == is_switch
        }
        are_numbered = all(
            re.search(r"[0-9]$", name) for place, name in names.items() if scene.nodes[place].is_switch == is_switch
        )
        found[is_switch] = words.pop() if len(words) == 1 and are_numbered else ""
    return found


def _font_inside(scene: Scene, longest: int) -> float:
    """Return the size of the font with which the longest name fits into a node."""
    return min(_FONT, 1.75 * scene.radius / (_CHARACTER * max(longest, 1)), 1.3 * scene.radius)


def _draw_beside(axes: "Axes", scene: Scene, names: dict[int, str], lines: list[Points]) -> None:
    """Write names beside nodes, where they cover no node and no other name, and as few links as possible.

    Nodes with many links come first; a name for which no place is left is not written.
    """
    degree = np.bincount(np.array(scene.pairs, int).reshape(-1), minlength=len(scene.nodes))
    inked = np.concatenate([_dotted(line) for line in lines]) if lines else np.zeros((0, 2))
    taken = np.array([(*(at - scene.radius), *(at + scene.radius)) for at in scene.at]).reshape(-1, 4)
    texts = {place: name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…" for place, name in names.items()}
    if scene.laid.kind not in ("map", "force"):
        for is_switch in (True, False):
            same = [place for place in texts if scene.nodes[place].is_switch == is_switch]
            taken = _draw_alike(
                axes, [_boxes(scene, place, texts[place]) for place in same], [texts[place] for place in same], taken
            )
        return
    for place in sorted(texts, key=lambda place: (scene.nodes[place].is_switch, -degree[place], place)):
        free = [box for box in _boxes(scene, place, texts[place]) if not _covers(box, taken)]
        if free:
            box = min(free, key=lambda box: _covered(box, inked))
            taken = np.concatenate([taken, [box]])
            _write(axes, box, texts[place])


def _draw_alike(axes: "Axes", boxes: list[list[_Box]], texts: list[str], taken: Points) -> Points:
    """Write all names at the same side of their nodes, or none if there is no side with room for all."""
    for side in range(len(boxes[0]) if boxes else 0):
        chosen = np.array([each[side] for each in boxes])
        if not any(_covers(box, taken) or _covers(box, chosen[:place]) for place, box in enumerate(map(tuple, chosen))):
            for box, text in zip(chosen, texts, strict=True):
                _write(axes, tuple(box), text)
            return np.concatenate([taken, chosen])
    return taken


def _write(axes: "Axes", box: _Box, text: str) -> None:
    written = axes.text(box[0], box[1] - 0.5, text, size=_BESIDE, color=INK, zorder=6, ha="left", va="bottom")
    written.set_path_effects(_halo())


def _halo() -> list[Any]:
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=1.3, foreground="white")]


def _dotted(line: Points) -> Points:
    """Return points along a line, about 3 points apart."""
    parts = []
    for start, end in pairwise(line):
        count = max(2, int(np.hypot(*(end - start)) / 3) + 1)
        parts.append(start + np.linspace(0, 1, count)[:, None] * (end - start))
    return np.concatenate(parts)


def _boxes(scene: Scene, place: int, text: str) -> list[_Box]:
    """Return the boxes around a node that its name could fill, best ones first: right, left, above, below, corners."""
    x, y = scene.at[place]
    width, height, out = _CHARACTER * 0.97 * _BESIDE * len(text), 1.05 * _BESIDE, scene.radius + 1.0
    corner = 0.7 * out
    corners = [
        (x + out, y - height / 2),
        (x - out - width, y - height / 2),
        (x - width / 2, y + out),
        (x - width / 2, y - out - height),
        (x + corner, y + corner),
        (x - corner - width, y + corner),
        (x + corner, y - corner - height),
        (x - corner - width, y - corner - height),
    ]
    return [(left, low, left + width, low + height) for left, low in corners]


def _covers(box: _Box, taken: Points) -> bool:
    left, low, right, high = box
    apart = (taken[:, 0] >= right) | (taken[:, 2] <= left) | (taken[:, 1] >= high) | (taken[:, 3] <= low)
    return bool((~apart).any())


def _covered(box: _Box, inked: Points) -> int:
    left, low, right, high = box
    within = (inked[:, 0] > left) & (inked[:, 0] < right) & (inked[:, 1] > low) & (inked[:, 1] < high)
    return int(within.sum())
