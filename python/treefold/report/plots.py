"""Draws bandwidth against size for a paper: a line for each algorithm, and the bound above them.

Lines have their names at their right ends, where no legend can cover them. Everything to the right of the axes has its
place in fractions of the axes, and the picture has no empty margins: long names make it wider and are never clipped.
matplotlib is imported only for drawing; its pyplot, which has global state, is never imported.
"""

import math
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from treefold._core import algorithms, format_size
from treefold.errors import TreefoldError
from treefold.report.looks import COLOURS, FORMATS, GREY, INK, MARKERS, check_format, picture, style
from treefold.results import Prediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT, _WIDTH, _WIDTH_OF_ONE_SIZE = 3.4, 5.2, 2.2  # of the axes, in inches
_LABEL_GAP = 14 / 72  # inches between the names of two lines
_TICK_CHARACTERS = 60  # how many fit on the axis of sizes
_TITLE_CHARACTERS = 120


class NamedLine(NamedTuple):
    """A line of the plot."""

    gid: str
    """The id of the line in an SVG."""
    label: str
    points: list[tuple[int, float]]
    """The pairs of a size in bytes and a bandwidth in bytes per second, by rising size."""
    style: dict[str, Any]


def plot_format(path: str | os.PathLike[str]) -> str:
    """Return the format that the extension of `path` names: `png`, `svg` or `pdf`.

    Args:
        path: The file to draw to.

    Raises:
        TreefoldError: If the extension is none of these.

    Example:
        >>> from treefold import report
        >>> report.plot_format("torus.svg")
        'svg'

    """
    extension = Path(path).suffix.lower()
    if extension[1:] not in FORMATS:
        problem = f"cannot draw the extension '{extension}'" if extension else "has no extension"
        raise TreefoldError(f"{os.fspath(path)}: {problem}; use one of {', '.join(f'.{each}' for each in FORMATS)}")
    return extension[1:]


def plot_comparison(comparison: Sequence[Prediction], *, title: str = "", format: str = "svg") -> bytes:
    """Draw a comparison: algorithm bandwidth against size, and the bound.

    Args:
        comparison: The result of `treefold.compare`, or some of its predictions. Those without a bandwidth (no time
            passes) are left out.
        title: The title, usually the network's name; the collective and the simulator stand below it.
        format: `svg`, `png` or `pdf`.

    Returns:
        The content of the file; the same predictions give the same bytes.

    Raises:
        TreefoldError: If no prediction has a bandwidth, or the format is unknown.

    Example:
        >>> from pathlib import Path
        >>> from treefold import report
        >>> comparison = treefold.compare("ring:4", "ring,dbtree", sizes_bytes=[1 << 15, 1 << 20])
        >>> Path("ring.svg").write_bytes(report.plot_comparison(comparison, title="ring:4")) > 0
        True

    """
    check_format(format)
    drawn = [each for each in comparison if each.algbw_Bps]
    if not drawn:
        raise TreefoldError("nothing to draw: no row has a bandwidth; compare at least two ranks and a size above 0")
    with style():
        figure = _figure(drawn, title)
        return picture(figure, format)


def _figure(rows: Sequence[Prediction], title: str) -> "Figure":
    lines = [*_algorithm_lines(rows), *_bound_line(rows)]
    sizes = sorted({row.size_bytes for row in rows})
    most = max(rate for line in lines for _, rate in line.points)
    unit, divisor = _unit(most)
    figure, axes = _axes(_WIDTH if len(sizes) > 1 else _WIDTH_OF_ONE_SIZE, max(_HEIGHT, _LABEL_GAP * len(lines)))
    _set_sizes(axes, sizes)
    axes.set_ylim(0, 1.06 * most / divisor)
    axes.set_ylabel(f"algorithm bandwidth: size / time ({unit})")
    ends = [_draw(axes, line, divisor, 3 + depth) for depth, line in enumerate(lines)]
    name_lines(axes, lines, ends)
    _set_title(axes, title, rows)
    return figure


def _axes(width: float, height: float) -> tuple["Figure", "Axes"]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.grid(visible=True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _algorithm_lines(rows: Sequence[Prediction]) -> list[NamedLine]:
    """Return the lines of the algorithms; `auto` comes first, as it lies beneath the lines of its choices."""
    names = list(dict.fromkeys(row.algorithm for row in rows))
    points = {name: _points(rows, name) for name in names}
    looks = styles(names)
    lines = []
    for place, name in enumerate(names):
        # If lines coincide (a bidirectional ring on a network without a second ring), the lower ones are wider.
        above = sum(points[name] == points[other] for other in names[place + 1 :])
        style = looks[name] | {"linewidth": 1.7 + 3 * above, "markersize": 6 + 4 * above}
        lines.append(NamedLine(f"algorithm-{name}", name, points[name], style))
    return sorted((_auto_line(line, rows) for line in lines), key=lambda line: line.gid != "algorithm-auto")


def _points(rows: Sequence[Prediction], name: str) -> list[tuple[int, float]]:
    return sorted((row.size_bytes, row.algbw_Bps or 0.0) for row in rows if row.algorithm == name)


def styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Give an algorithm the same colour and marker in every picture, by its place in the list of all algorithms."""
    known = [each.name for each in algorithms()]
    places = {name: place for place, name in enumerate(dict.fromkeys([*known, *names]))}
    return {
        name: {
            "color": COLOURS[places[name] % len(COLOURS)],
            "marker": MARKERS[places[name] % len(MARKERS)],
            "markeredgecolor": "white",
            "markeredgewidth": 0.6,
        }
        for name in names
    }


def repeats(name: str) -> int:
    """Return how many times the list of colours is used up before an algorithm gets its colour."""
    known = [each.name for each in algorithms()]
    return (known.index(name) if name in known else len(known)) // len(COLOURS)


def _auto_line(line: NamedLine, rows: Sequence[Prediction]) -> NamedLine:
    """Turn the line of `auto` into a pale band with the names of its choices; return other lines as they are."""
    if line.label != "auto":
        return line
    ordered = sorted((row for row in rows if row.algorithm == "auto"), key=lambda row: row.size_bytes)
    chosen = list(dict.fromkeys(row.chosen for row in ordered if row.chosen is not None))
    label = f"auto: {', '.join(chosen)}" if chosen else "auto"
    style = {"color": "#CCCCCC", "linewidth": 5, "marker": "o", "markersize": 11}
    style |= {"markerfacecolor": "white", "markeredgecolor": GREY, "markeredgewidth": 1}
    return line._replace(label=label, style=style)


def _bound_line(rows: Sequence[Prediction]) -> list[NamedLine]:
    """Return the line of the bound; none for collectives without a bound."""
    bounds = {row.size_bytes: row.size_bytes / row.bound_s for row in rows if row.bound_s}
    style = {"color": INK, "linestyle": (0, (4, 2.5)), "linewidth": 1.4}
    return [NamedLine("bound", "no all-reduce can beat this", sorted(bounds.items()), style)] if bounds else []


def _unit(most_Bps: float) -> tuple[str, float]:
    """Return the largest unit in which the largest bandwidth is at least 1."""
    units = [("TB/s", 1e12), ("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)]
    return next((unit for unit in units if most_Bps >= unit[1]), ("B/s", 1.0))


def _set_sizes(axes: "Axes", sizes: Sequence[int]) -> None:
    """Scale the axis of sizes, and label as many of them as fit."""
    span = math.log2(sizes[-1] / sizes[0])
    margin = 2 ** (0.025 * span or 1)
    axes.set_xscale("log", base=2)
    axes.set_xlim(sizes[0] / margin, sizes[-1] * margin)
    longest = max(len(format_size(size)) for size in sizes)
    kept = [sizes[0]]
    for size in sizes[1:]:
        if math.log2(size / kept[-1]) >= span * (longest + 2) / _TICK_CHARACTERS:
            kept.append(size)
    axes.set_xticks(kept, labels=[format_size(size) for size in kept])
    axes.set_xticks(sizes, minor=True)
    axes.tick_params(axis="x", which="minor", length=2, labelbottom=False)
    axes.set_xlabel("size of the vector")


def _draw(axes: "Axes", line: NamedLine, divisor: float, depth: int) -> tuple[float, float]:
    """Draw a line; return its right end in fractions of the axes."""
    sizes, rates = zip(*line.points, strict=True)
    if len(sizes) == 1 and "marker" not in line.style:  # a line without a marker needs two points to be seen
        sizes, rates = axes.get_xlim(), rates * 2
    values = [rate / divisor for rate in rates]
    every = math.ceil(len(sizes) / 16)
    axes.plot(sizes, values, gid=line.gid, markevery=every, zorder=depth, solid_capstyle="round", **line.style)
    x, y = axes.transAxes.inverted().transform(axes.transData.transform((sizes[-1], values[-1])))
    return x, y


def name_lines(axes: "Axes", lines: Sequence[NamedLine], ends: Sequence[tuple[float, float]]) -> None:
    """Write the name of each line to the right of the axes, with a thin leader from the line's end."""
    across, up = (
        axes.figure.dpi / length for length in axes.get_window_extent().size
    )  # an inch in fractions of the axes
    ordered = sorted(zip(lines, ends, strict=True), key=lambda pair: pair[1][1])
    heights = _spread([y for _, (_, y) in ordered], _LABEL_GAP * up)
    place: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
    at = 1 + 0.26 * across
    for (line, (x, y)), height in zip(ordered, heights, strict=True):
        axes.plot([x, at], [y, height], color=line.style["color"], linewidth=0.7, alpha=0.8, zorder=2, **place)
        if "marker" in line.style:
            axes.plot([at], [height], **line.style | {"markersize": 6, "linestyle": ""}, **place)
        axes.text(at + 0.1 * across, height, plain(line.label), va="center", parse_math=False, **place)


def _spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Move rising heights between 0 and 1 as little as possible until they are `gap` apart.

    This pools adjacent violators: heights that are too close become a block around their mean.
    """
    blocks: list[tuple[float, int]] = []
    for place, height in enumerate(wanted):
        mean, count = height - place * gap, 1
        while blocks and blocks[-1][0] > mean:
            other, others = blocks.pop()
            mean, count = (mean * count + other * others) / (count + others), count + others
        blocks.append((mean, count))
    highest = max(0.0, 1 - (len(wanted) - 1) * gap)
    bases = [min(max(mean, 0.0), highest) for mean, count in blocks for _ in range(count)]
    return [base + place * gap for place, base in enumerate(bases)]


def _set_title(axes: "Axes", title: str, rows: Sequence[Prediction]) -> None:
    """Write the title, which may be wrapped or cut, above the collective and the simulator."""
    collectives, simulators = (
        list(dict.fromkeys(getattr(row, key) for row in rows)) for key in ("collective", "simulator")
    )
    subtitle = f"{', '.join(collectives)}, {', '.join(simulators)} simulator{hockney(rows[0].link_model)}"
    left: dict[str, Any] = {"transform": axes.transAxes, "parse_math": False, "va": "bottom"}
    axes.text(0, 1.03, subtitle, color=GREY, **left)
    text = plain(title)
    text = text if len(text) <= _TITLE_CHARACTERS else text[: _TITLE_CHARACTERS - 1] + "…"
    axes.text(0, 1.09, textwrap.fill(text, _TITLE_CHARACTERS // 2), fontsize=12, fontweight="bold", **left)


def hockney(link_model: str) -> str:
    """Return what a title adds for the link model `hockney`; nothing for the usual one."""
    return ", latency occupies links (hockney)" if link_model == "hockney" else ""


def plain(text: str) -> str:
    """Replace characters that cannot be drawn or written to an SVG by spaces."""
    return "".join(character if character.isprintable() else " " for character in text)
