"""Draws small multiples in the style of treefold's plots: panels in rows and columns, lines with bands for spread."""

import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from treefold.report.looks import COLOURS, GREY, MARKERS, picture, style
from treefold.report.plots import NamedLine, name_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

_WIDTH, _HEIGHT = 3.0, 2.5  # of a panel, in inches
_GAP = 0.28  # inches between panels
_FEW = 7  # values of a logarithmic axis that are all written


class Line(NamedTuple):
    """A line has points (x, mean, spread) under a name."""

    name: str
    points: list[tuple[float, float, float]]
    mark: float | None = None
    """The place of the only marker; without it every point has one."""


class Panel(NamedTuple):
    """A panel is one set of axes."""

    title: str
    lines: list[Line]


def draw_panels(
    grid: Mapping[str, Sequence[Panel]],
    *,
    title: str,
    subtitle: str,
    x_label: str,
    log_x: bool = False,
    log_y: bool = False,
    order: Sequence[str] = (),
    dashed: Sequence[str] = (),
) -> bytes:
    """Draw rows of panels, each row under its own label of the y axis; return an SVG.

    Lines of one name look alike in all panels, and in all pictures with one `order`; they are named right of the last
    panel of each row. Those that are `dashed` are also thinner.
    """
    lines = [line.name for panels in grid.values() for panel in panels for line in panel.lines]
    names = dict.fromkeys([*order, *dashed, *lines])
    thin = {"linestyle": (0, (3, 1.5)), "linewidth": 1}
    styles = {name: _style_of(place) | (thin if name in dashed else {}) for place, name in enumerate(names)}
    with style():
        figure = _figure(grid, styles, x_label, log_x, log_y)
        top = figure.axes[0]
        place: dict[str, Any] = {"transform": top.transAxes, "parse_math": False, "va": "bottom"}
        top.text(0, 1 + 0.27 / _HEIGHT, subtitle, color=GREY, **place)
        wide = max(40, 50 * len(next(iter(grid.values()))))
        top.text(0, 1 + 0.5 / _HEIGHT, textwrap.fill(title, wide), fontsize=12, fontweight="bold", **place)
        return picture(figure)


def _style_of(place: int) -> dict[str, Any]:
    return {
        "color": COLOURS[place % len(COLOURS)],
        "linestyle": "-" if place < len(COLOURS) else "--",
        "marker": MARKERS[place % len(MARKERS)],
        "markeredgecolor": "white",
        "markeredgewidth": 0.5,
        "markersize": 5,
        "linewidth": 1.5,
    }


def _figure(
    grid: Mapping[str, Sequence[Panel]], styles: Mapping[str, dict[str, Any]], x_label: str, log_x: bool, log_y: bool
) -> Any:
    """Lay the panels out one by one; each has its exact size, and all of a row have one scale."""
    from matplotlib.figure import Figure

    columns = max(len(panels) for panels in grid.values())
    width, height = columns * (_WIDTH + _GAP), len(grid) * (_HEIGHT + _GAP)
    figure = Figure(figsize=(width, height), facecolor="white")
    for row, (y_label, panels) in enumerate(grid.items()):
        first: Any = None
        for column, panel in enumerate(panels):
            left, bottom = column * (_WIDTH + _GAP) / width, 1 - ((row + 1) * (_HEIGHT + _GAP) - _GAP) / height
            axes = figure.add_axes((left, bottom, _WIDTH / width, _HEIGHT / height), sharey=first)
            alike = row > 0 and [each.title for each in panels] == [each.title for each in next(iter(grid.values()))]
            _decorate(axes, first is None, row + 1 == len(grid), "" if alike else panel.title, log_y)
            if log_x:
                axes.set_xscale("log")
                _plain_ticks(axes.xaxis, (1,), {x for line in panel.lines for x, _, _ in line.points})
            first = first or axes
            _draw(axes, panel, styles)
            if {line.name for line in panel.lines} - {line.name for line in panels[-1].lines}:
                axes.legend(loc="lower right", frameon=False, fontsize=8)
        first.set_ylabel(y_label)
        if not log_y:
            first.set_ylim(bottom=0)
        _name(figure.axes[-1], panels[-1], styles)
    figure.axes[-(columns + 1) // 2].set_xlabel(x_label)
    return figure


def _decorate(axes: "Axes", is_first: bool, is_last_row: bool, title: str, log_y: bool) -> None:
    axes.grid(visible=True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, fontsize=10, loc="left", pad=5)
    if log_y:
        axes.set_yscale("log")
        _plain_ticks(axes.yaxis, (1, 2, 5))
    axes.tick_params(labelleft=is_first, labelbottom=is_last_row, which="both")


def _plain_ticks(axis: "Axis", subs: tuple[int, ...], values: Collection[float] = ()) -> None:
    """Write 20 and 50, not powers of ten; where there are few values, just those."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

    if 0 < len(values) <= _FEW:
        axis.set_major_locator(FixedLocator(sorted(values)))
        axis.set_minor_locator(NullLocator())
    else:
        axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _draw(axes: "Axes", panel: Panel, styles: Mapping[str, dict[str, Any]]) -> None:
    for line in panel.lines:
        xs, means, spreads = zip(*line.points, strict=True)
        style = styles[line.name] | (
            {} if line.mark is None else {"markevery": [xs.index(line.mark)] if line.mark in xs else []}
        )
        if any(spreads):
            low, high = (
                [mean + sign * spread for mean, spread in zip(means, spreads, strict=True)] for sign in (-1, 1)
            )
            if axes.get_yscale() == "log":
                low = [max(value, 0.05 * mean) for value, mean in zip(low, means, strict=True)]
            axes.fill_between(xs, low, high, color=style["color"], alpha=0.13, linewidth=0)
        axes.plot(xs, means, gid=f"line-{line.name}", label=line.name, **style)


def _name(axes: "Axes", panel: Panel, styles: Mapping[str, dict[str, Any]]) -> None:
    """Name the lines of a row right of its last panel."""
    axes.margins(x=0.04)
    axes.autoscale_view()
    into = axes.transAxes.inverted()
    ends = []
    for line in panel.lines:
        x, mean, _ = line.points[-1]
        ends.append(tuple(into.transform(axes.transData.transform((x, mean)))))
    named = [NamedLine(f"name-{line.name}", line.name, [], styles[line.name]) for line in panel.lines]
    name_lines(axes, named, ends)
