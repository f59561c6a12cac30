"""Stacked bars in groups, in the style of the other plots: what times are made of."""

import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from treefold.report import plots

_BAR, _HEIGHT = 0.24, 3.0  # inches: width of a bar, height of the axes
_SHADES = {"compute": "#B0B7BF", "local aggregation": "#DCC6D6", "overlapped": "#E9A57C", "all-reduce": "#D55E00"}
"""Colours of parts; what has none takes one of the plots' own."""


class Bar(NamedTuple):
    """One bar."""

    name: str
    parts: Mapping[str, float]
    """From the bottom."""
    note: str = ""
    """Above it."""


def draw_bars(
    groups: Mapping[str, Sequence[Bar]], *, title: str, subtitle: str, y_label: str, top: float | None = None
) -> bytes:
    """Draw groups of stacked bars; return an SVG. Bars are numbered, and named below the axes."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    names = list(dict.fromkeys(bar.name for bars in groups.values() for bar in bars))
    parts = list(dict.fromkeys(part for bars in groups.values() for bar in bars for part in bar.parts))
    colours = {part: _SHADES.get(part, plots._COLOURS[place]) for place, part in enumerate(parts)}
    slots = sum(len(bars) + 1 for bars in groups.values())
    with plots._style():
        figure = Figure(figsize=(slots * _BAR, _HEIGHT), facecolor="white")
        axes: Any = figure.add_axes((0, 0, 1, 1))
        place, ticks = 0.0, []
        for bars in groups.values():
            for bar in bars:
                _draw(axes, place, bar, colours, top)
                axes.text(
                    place,
                    -0.02,
                    str(names.index(bar.name) + 1),
                    ha="center",
                    va="top",
                    fontsize=7,
                    color=plots._GREY,
                    transform=axes.get_xaxis_transform(),
                )
                place += 1
            ticks.append(place - (len(bars) + 1) / 2)
            place += 1
        axes.set_xticks(ticks, groups)
        axes.tick_params(axis="x", length=0, pad=16)
        axes.set_xlim(-1, place - 1)
        axes.set_ylim(0, top)
        axes.set_ylabel(y_label)
        axes.grid(visible=True, axis="y")
        axes.spines[["top", "right"]].set_visible(False)
        handles = [Patch(facecolor=colours[part], label=part) for part in parts]
        axes.legend(
            handles=handles,
            loc="lower left",
            bbox_to_anchor=(0, 1.01),
            ncols=len(handles),
            frameon=False,
            borderaxespad=0,
            borderpad=0,
            handlelength=1,
            columnspacing=1.4,
        )
        below: dict[str, Any] = {"transform": axes.transAxes, "parse_math": False}
        axes.text(0, -0.2, "   ".join(f"{number} {name}" for number, name in enumerate(names, 1)), va="top", **below)
        axes.text(0, 1.11, subtitle, color=plots._GREY, va="bottom", **below)
        axes.text(0, 1.19, title, fontsize=12, fontweight="bold", va="bottom", **below)
        file = io.BytesIO()
        figure.savefig(file, format="svg", bbox_inches="tight", pad_inches=0.15, metadata={"Date": None})
    return file.getvalue()


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
