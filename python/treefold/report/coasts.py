"""Draws the coasts on a map, if the viewer's build has brought them along; a bare checkout has none."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from treefold.report.scenes import Points, Scene, projected

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COASTS = Path(__file__).parent.parent / "viewing" / "assets" / "coasts.json"
"""The borders of land: a list of lines, each a list of pairs of a longitude and a latitude in degrees."""
_COLOUR, _WIDTH = "#B9C4CC", 0.5
_LONGEST = 90.0
"""A line that goes farther in one step has crossed the edge of the map, and is split there."""


def draw_coasts(axes: "Axes", scene: Scene) -> None:
    """Draw the coasts beneath a scene that is a map."""
    if scene.laid.kind != "map" or not COASTS.exists():
        return
    from matplotlib.collections import LineCollection

    lines = [part for line in json.loads(COASTS.read_text(encoding="utf-8")) for part in _parts(scene, np.array(line))]
    axes.add_collection(LineCollection(lines, colors=_COLOUR, linewidths=_WIDTH, zorder=0.5))


def _parts(scene: Scene, line: Points) -> list[Points]:
    """Return the parts of a coast that may be seen, in points."""
    flat = projected(line, scene.laid.positions[:, :2])
    breaks = np.flatnonzero(np.abs(np.diff(flat[:, 0])) > _LONGEST) + 1
    parts = [(part - scene.origin) * scene.scale for part in np.split(flat, breaks)]
    return [
        part
        for part in parts
        if len(part) > 1 and (part.max(axis=0) > 0).all() and (part.min(axis=0) < scene.size).all()
    ]
