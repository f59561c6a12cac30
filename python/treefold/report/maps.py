"""Draws the map of winners: a row for each network, a column for each size, and in each cell the fastest algorithm.

Cells have the colours that algorithms have in all pictures, and their names, so that the map works without colour.
Neighbours in a row with the same winner are one block.
"""

import itertools
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from treefold._core import format_size
from treefold.errors import TreefoldError
from treefold.report.looks import GREY, check_format, picture, style
from treefold.report.plots import hockney, plain, repeats, styles
from treefold.report.winners import rivals_of
from treefold.winner_results import Winner, WinnerMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT, _GAP = 1.32, 0.6, 0.035
"""The size of a cell and the space around its block, in inches."""
_LINES = (0.175, 0.345, 0.47)
"""How far below the top of a cell its three lines are: the name, the factors, and the ties."""
_NAME, _SMALL = 10.0, 7.5
"""Font sizes, in points."""
_BOLD = 0.7
"""The width of a bold letter, as a part of the font size; most are narrower."""
_TINTS = (0.5, 0.36, 0.62, 0.22)
"""How much of its colour a block has, by how often the list of colours has been used up before; the rest is white."""
_LABEL_CHARACTERS, _TITLE_CHARACTERS = 20, 70
_KEY_LETTER = 0.066  # the mean width of a letter of the key, in inches
_NONE = "#EEEEEE"


def plot_winners(rows: Sequence[Winner], *, title: str = "", format: str = "svg") -> bytes:
    """Draw the map of winners: networks beside sizes, and in each cell the fastest algorithm.

    Below its name stands how many times as long its rivals take (`treefold.winner_results.RIVALS`), and then which
    others take at most 1 % longer.

    Args:
        rows: The result of `treefold.winners`, or some of it.
        title: The title; the collective and the simulator stand below it.
        format: `svg`, `png` or `pdf`.

    Returns:
        The content of the file; the same winners give the same bytes.

    Raises:
        TreefoldError: If there is no winner, or the format is unknown.

    Example:
        >>> from pathlib import Path
        >>> from treefold import report
        >>> found = treefold.winners(["ring:4", "torus:4x4"], "ring,swing,bucket", sizes_bytes=["1KiB", "1MiB"])
        >>> Path("winners.svg").write_bytes(report.plot_winners(found, title="Two networks")) > 0
        True

    """
    check_format(format)
    if all(row.algorithm is None for row in rows):
        raise TreefoldError("nothing to draw: no row has a winner; take at least two ranks and a size above 0")
    with style():
        return picture(_figure(WinnerMap(rows), title), format)


def _figure(found: WinnerMap, title: str) -> "Figure":
    networks, sizes = found.networks(), sorted(found.sizes())
    axes = _axes(len(sizes), len(networks))
    rivals = rivals_of(found)
    looks = styles([row.algorithm for row in found if row.algorithm is not None])
    for column, size in enumerate(sizes):
        axes.text((column + 0.5) * _WIDTH, 0.07, format_size(size), ha="center", va="bottom", color=GREY)
    for at, network in enumerate(networks):
        top = -at * _HEIGHT
        _label(axes, network, top - _HEIGHT / 2)
        cells = [found.at(network, size) for size in sizes]
        if not any(cell is not None and cell.ties for cell in cells):
            top -= (_LINES[2] - _LINES[1]) / 3  # two lines stand in the middle
        _row(axes, cells, (-at * _HEIGHT, top), looks)
        for column, cell in enumerate(cells):
            _small_print(axes, cell, (column + 0.5) * _WIDTH, top, rivals)
    _key(axes, -len(networks) * _HEIGHT - 0.14, rivals)
    _titles(axes, title, found[0])
    figure: Figure = axes.figure  # type: ignore[assignment]
    return figure


def _axes(columns: int, rows: int) -> "Axes":
    """Return axes whose unit is an inch; the upper left corner of the cells is at 0, 0."""
    from matplotlib.figure import Figure

    width, height = columns * _WIDTH, rows * _HEIGHT
    figure = Figure(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(-height, 0)
    return axes


def _label(axes: "Axes", network: str, middle: float) -> None:
    """Write the name of a network to the left of its row, in two lines at most."""
    breakable = plain(network).replace(",", ", ").replace(":", ": ")
    lines = textwrap.wrap(breakable, _LABEL_CHARACTERS, max_lines=2, placeholder=" …", break_on_hyphens=False)
    text = "\n".join(line.replace(", ", ",").replace(": ", ":") for line in lines)
    axes.text(-0.12, middle, text, ha="right", va="center", fontsize=9, linespacing=1.15, parse_math=False)


def _row(
    axes: "Axes", cells: Sequence[Winner | None], tops: tuple[float, float], looks: Mapping[str, Mapping[str, Any]]
) -> None:
    """Draw the blocks of a row: neighbours with the same winner are one. `tops` are those of blocks and of texts."""
    winners = [None if cell is None else cell.algorithm for cell in cells]
    start = 0
    for name, run in itertools.groupby(winners):
        count = len([*run])
        _block(axes, (start * _WIDTH, tops[0]), count * _WIDTH, _NONE if name is None else _tinted(name, looks[name]))
        _name(axes, (start + count / 2) * _WIDTH, tops[1], count * _WIDTH, name, looks)
        start += count


def _block(axes: "Axes", corner: tuple[float, float], width: float, colour: Any) -> None:
    from matplotlib.patches import FancyBboxPatch

    x, y = corner[0] + _GAP, corner[1] - _HEIGHT + _GAP
    box = FancyBboxPatch(
        (x, y), width - 2 * _GAP, _HEIGHT - 2 * _GAP, boxstyle="round,pad=0,rounding_size=0.06", linewidth=0,
        facecolor=colour, clip_on=False,
    )  # fmt: skip
    axes.add_patch(box)


def _name(
    axes: "Axes", middle: float, top: float, width: float, name: str | None, looks: Mapping[str, Mapping[str, Any]]
) -> None:
    """Write the name of a block's winner behind its marker, which other plots have on its line."""
    text, y = plain(name or "–"), top - _LINES[0]
    mark = 0.0 if name is None else 0.18
    size = min(_NAME, (width - 0.2 - mark) * 72 / (_BOLD * len(text)))
    look: dict[str, Any] = {"fontsize": size, "fontweight": "bold", "parse_math": False}
    written = axes.text(middle + mark / 2, y, text, ha="center", va="center", **look)
    if name is not None:
        left = written.get_window_extent().x0 / axes.figure.dpi - mark / 2
        axes.plot([left], [y + 0.008], clip_on=False, **{**looks[name], "markersize": 7, "linestyle": ""})


def _tinted(name: str, look: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the colour of an algorithm mixed with white, and differently for algorithms that share a colour."""
    from matplotlib.colors import to_rgb

    tint = _TINTS[repeats(name) % len(_TINTS)]
    return tuple(1 - tint * (1 - part) for part in to_rgb(look["color"]))


def _small_print(axes: "Axes", cell: Winner | None, middle: float, top: float, rivals: Sequence[str]) -> None:
    """Write the factors over the rivals and the ties into a cell."""
    if cell is None or cell.algorithm is None:
        return
    factors = [getattr(cell.over, name) for name in rivals]
    _line(axes, 1, middle, top, " · ".join(map(_factor, factors)))
    if cell.ties:
        others = f" +{len(cell.ties) - 1}" if len(cell.ties) > 1 else ""
        _line(axes, 2, middle, top, f"≈ {cell.ties[0]}{others}")


def _line(axes: "Axes", number: int, middle: float, top: float, text: str) -> None:
    """Write a line of small print, in letters that fit the cell."""
    size = min(_SMALL, (_WIDTH - 0.16) * 72 / (0.6 * max(1, len(text))))
    axes.text(middle, top - _LINES[number], text, ha="center", va="center", fontsize=size, parse_math=False)


def _factor(factor: float | None) -> str:
    """Return a factor with three digits; a dash where there is none."""
    return "–" if factor is None else f"{factor:.2f}" if factor < 9.995 else f"{factor:.1f}"


def _key(axes: "Axes", top: float, rivals: Sequence[str]) -> None:
    """Show below the map what stands in a cell."""
    _block(axes, (0, top), _WIDTH, _NONE)
    axes.text(
        _WIDTH / 2, top - _LINES[0], "fastest", ha="center", va="center", fontsize=_NAME, fontweight="bold", color=GREY
    )
    parts = ["≈ names another that takes at most 1 % longer, and counts further ones."]
    if rivals:
        _line(axes, 1, _WIDTH / 2, top, " · ".join(rivals))
        parts.insert(0, f"Numbers say how many times as long {_listed(rivals)}; – where one does not fit.")
    _line(axes, 2, _WIDTH / 2, top, "≈ as fast")
    room = max(axes.get_xlim()[1], 3 * _WIDTH) - _WIDTH - 0.1
    text = textwrap.fill(" ".join(parts), int(room / _KEY_LETTER))
    axes.text(_WIDTH + 0.1, top - _HEIGHT / 2, text, va="center", fontsize=8, color=GREY, linespacing=1.3)


def _listed(rivals: Sequence[str]) -> str:
    *others, last = rivals
    return f"{', '.join(others)} and {last} take" if others else f"{last} takes"


def _titles(axes: "Axes", title: str, first: Winner) -> None:
    """Write the title above the collective and the simulator."""
    subtitle = f"{first.collective}, {first.simulator} simulator{hockney(first.link_model)}"
    axes.text(_GAP, 0.36, subtitle, color=GREY, va="bottom", parse_math=False)
    text = textwrap.shorten(plain(title), _TITLE_CHARACTERS, placeholder=" …")
    axes.text(_GAP, 0.6, text, fontsize=12, fontweight="bold", va="bottom", parse_math=False)
