"""Makes the sheet of a drawing: its axes in points, the caption above, and the legend below."""

import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from treefold.report.looks import GREY, INK, parts
from treefold.report.plots import plain
from treefold.report.scenes import Scene
from treefold.report.strokes import DASH, GAP, GUESSED, SWITCH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TITLE, _TEXT, _LEAST_WIDTH = 8.5, 6.5, 200.0
"""The sizes of the fonts, and the least width of the caption, in points."""
_CHARACTER = 0.56
"""The usual width of a character, in heights of the font."""
RAMP = ("#D3DCE3", "#56B4E9", "#0072B2", "#2A0E3A")
"""The colours of shares from 0 to 1, each darker than the one before."""
_HUES = ("#0D0887", "#7E03A8", "#CC4778", "#F89540")
"""The colours of things in order: three quarters of plasma, whose lightness rises, so that colour-blind people see the
order, too (van der Walt and Smith 2015)."""
Rgb = tuple[float, float, float]


class Key(NamedTuple):
    """An entry of the legend: what a colour, a line or a marker means."""

    text: str
    colour: str = INK
    width: float = 1.4
    is_dashed: bool = False
    marker: str = ""
    fill: str = "white"


class Ramp(NamedTuple):
    """An entry of the legend for colours that follow each other."""

    colour: Callable[[float], Rgb]
    """The colour of each share from 0 to 1."""
    text: str


class Caption(NamedTuple):
    """What stands around a drawing."""

    title: str
    lines: Sequence[str]
    keys: Sequence[Key] = ()
    ramp: Ramp | None = None


def sheet(scene: Scene) -> tuple["Figure", "Axes"]:
    """Return a figure whose axes are as large as the scene, in points."""
    from matplotlib.figure import Figure

    width, height = scene.size
    figure = Figure(figsize=(width / 72, height / 72), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    return figure, axes


def node_keys(scene: Scene) -> list[Key]:
    """Return the entries of the kinds of nodes, if there are several kinds."""
    kinds = {
        "accelerator": any(not node.is_switch and node.rank is not None for node in scene.nodes),
        "accelerator that only relays": any(not node.is_switch and node.rank is None for node in scene.nodes),
        "switch": any(node.is_switch for node in scene.nodes),
        "site without coordinates": bool(scene.laid.guessed.any()),
    }
    if sum(kinds.values()) < 2:
        return []
    looks = {
        "accelerator": Key("accelerator", marker="o"),
        "accelerator that only relays": Key("accelerator that only relays", GREY, marker="o"),
        "switch": Key("switch", marker="s", fill=SWITCH),
        "site without coordinates": Key("without coordinates, near its neighbours", marker="o", fill=GUESSED),
    }
    return [looks[kind] for kind, is_there in kinds.items() if is_there]


def finish(axes: "Axes", scene: Scene, caption: Caption) -> None:
    """Write the caption above the scene, and the legend below it."""
    width = max(scene.size[0], _LEAST_WIDTH)
    left = 4.0
    lines = [part for line in caption.lines if line for part in textwrap.wrap(plain(line), _fitting(width, _TEXT))]
    at = scene.size[1] + 3
    for line in reversed(lines):
        axes.text(left, at, line, size=_TEXT, color=GREY, va="bottom", clip_on=False)
        at += 1.35 * _TEXT
    title = textwrap.shorten(plain(caption.title), 2 * _fitting(width, _TITLE), placeholder="…") or caption.title[:80]
    text = textwrap.fill(title, _fitting(width, _TITLE))
    axes.text(left, at + 1.5, text, size=_TITLE, fontweight="bold", va="bottom", clip_on=False)
    bottom = -3.0
    if caption.ramp is not None:
        bottom = _draw_ramp(axes, caption.ramp, left, bottom)
    if caption.keys:
        _draw_keys(axes, caption.keys, (left, bottom), width)


def _fitting(width: float, font: float) -> int:
    """Return how many characters fit into a line."""
    return max(10, int(width / (_CHARACTER * font)))


def _draw_ramp(axes: "Axes", entry: Ramp, left: float, bottom: float) -> float:
    """Draw colours that follow each other, with their text; return the place below."""
    from matplotlib.collections import LineCollection

    steps, length = 40, 80.0
    middle = bottom - 4
    segments = [
        [(left + length * place / steps, middle), (left + length * (place + 1) / steps, middle)]
        for place in range(steps)
    ]
    bar = LineCollection(
        segments, colors=[entry.colour((place + 0.5) / steps) for place in range(steps)], clip_on=False
    )
    bar.set(linewidth=5, capstyle="butt")
    axes.add_collection(bar, autolim=False)
    axes.text(left + length + 5, middle, entry.text, size=_TEXT, va="center_baseline", clip_on=False)
    return bottom - 11


def ramp(share: float) -> Rgb:
    """Return the colour of a share between 0 and 1: the larger, the darker."""
    return _between(RAMP, share)


def hue(share: float) -> Rgb:
    """Return the colour of a place between the first and the last of many things."""
    return _between(_HUES, share)


def to_hex(colour: Rgb) -> str:
    """Return a colour as it is written in pages."""
    return "#" + "".join(f"{round(255 * part):02X}" for part in colour)


def _between(colours: Sequence[str], share: float) -> Rgb:
    """Return the colour of a share between 0 and 1, where the first colour is 0 and the last one 1."""
    stops = [parts(colour) for colour in colours]
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    lower = min(int(place), len(stops) - 2)
    red, green, blue = (a + (place - lower) * (b - a) for a, b in zip(stops[lower], stops[lower + 1], strict=True))
    return red, green, blue


def _draw_keys(axes: "Axes", keys: Sequence[Key], corner: tuple[float, float], width: float) -> None:
    """Draw the legend in as many columns as fit."""
    texts = [plain(key.text) for key in keys]
    longest = max(map(len, texts)) * _CHARACTER * _TEXT + 24
    columns = max(1, min(len(keys), int(width / longest)))
    legend = axes.legend(
        handles=[_handle(key) for key in keys],
        labels=texts,
        loc="upper left",
        bbox_to_anchor=corner,
        bbox_transform=axes.transData,
        ncols=columns,
        frameon=False,
        fontsize=_TEXT,
        borderaxespad=0,
        borderpad=0,
        handlelength=1.8,
        handletextpad=0.5,
        columnspacing=1.2,
        labelspacing=0.35,
    )
    legend.set_clip_on(False)


def _handle(key: Key) -> Any:
    from matplotlib.lines import Line2D

    if not key.marker:
        line = Line2D([], [], color=key.colour, linewidth=key.width)
        line.set_linestyle((0, (DASH / key.width, GAP / key.width)) if key.is_dashed else "solid")
        return line
    return Line2D(
        [],
        [],
        linestyle="",
        marker=key.marker,
        markersize=5,
        markerfacecolor=key.fill,
        markeredgecolor=key.colour,
        markeredgewidth=0.6,
    )
