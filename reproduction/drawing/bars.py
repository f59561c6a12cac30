"""Draws stacked bars in groups, in the style of treefold's plots: they show what times are made of."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from treefold.report.looks import COLOURS, GREY, name_parts, picture, style

_BAR, _HEIGHT = 0.24, 3.0  # inches: width of a bar, height of the axes
_SHADES = {"compute": "#B0B7BF", "local aggregation": "#DCC6D6", "overlapped": "#E9A57C", "all-reduce": "#D55E00"}
"""A part without a colour of its own takes one of the plots'."""


class Bar(NamedTuple):
    """One bar."""

    name: str
    parts: Mapping[str, float]
    """The parts stand on each other, the first at the bottom."""
    note: str = ""
    """The note stands above the bar."""


def draw_bars(
    groups: Mapping[str, Sequence[Bar]], *, title: str, subtitle: str, y_label: str, top: float | None = None
) -> bytes:
    """Draw groups of stacked bars; return an SVG. Bars are numbered, and named below the axes."""
    from matplotlib.figure import Figure

    bars = [bar for group in groups.values() for bar in group]
    names = list(dict.fromkeys(bar.name for bar in bars))
    parts = list(dict.fromkeys(part for bar in bars for part in bar.parts))
    colours = {part: _SHADES.get(part, COLOURS[place]) for place, part in enumerate(parts)}
    with style():
        figure = Figure(figsize=((len(bars) + len(groups)) * _BAR, _HEIGHT), facecolor="white")
        axes: Any = figure.add_axes((0, 0, 1, 1))
        _draw_groups(axes, groups, names, colours, top)
        axes.set_ylabel(y_label)
        name_parts(axes, colours, 1.01)
        place: dict[str, Any] = {"transform": axes.transAxes, "parse_math": False}
        axes.text(0, -0.2, "   ".join(f"{number} {name}" for number, name in enumerate(names, 1)), va="top", **place)
        axes.text(0, 1.11, subtitle, color=GREY, va="bottom", **place)
        axes.text(0, 1.19, title, fontsize=12, fontweight="bold", va="bottom", **place)
        return picture(figure)


def _draw_groups(
    axes: Any,
    groups: Mapping[str, Sequence[Bar]],
    names: Sequence[str],
    colours: Mapping[str, str],
    top: float | None,
) -> None:
    """Draw groups side by side, a bar's width apart."""
    place, middles = 0, []
    below: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": 7, "color": GREY}
    for bars in groups.values():
        for bar in bars:
            _draw(axes, place, bar, colours, top)
            axes.text(place, -0.02, str(names.index(bar.name) + 1), transform=axes.get_xaxis_transform(), **below)
            place += 1
        middles.append(place - (len(bars) + 1) / 2)
        place += 1
    axes.set_xticks(middles, groups)
    axes.tick_params(axis="x", length=0, pad=16)
    axes.set_xlim(-1, place - 1)
    axes.set_ylim(0, top)
    axes.grid(visible=True, axis="y")
    axes.spines[["top", "right"]].set_visible(False)


def _draw(axes: Any, place: float, bar: Bar, colours: Mapping[str, str], top: float | None) -> None:
    """Draw a bar; one that is too long is cut, and says inside how long it is."""
    bottom = 0.0
    for part, length in bar.parts.items():
        axes.bar(place, length, 0.86, bottom, color=colours[part])
        bottom += length
    if top is not None and bottom > top:
        axes.text(place, 0.98 * top, f"{bottom:.1f}", ha="center", va="top", fontsize=7, color="white")
    else:
        axes.text(place, bottom, bar.note, ha="center", va="bottom", fontsize=6.5)
