"""Draws iterations over time: what compute and network were busy with, for each algorithm."""

from collections.abc import Mapping, Sequence
from typing import Any

from treefold.report.looks import GREY, name_parts, picture, style

_ROW, _WIDTH, _BAR = 0.62, 8.0, 0.34  # inches: of an algorithm, of the axes; of a bar, in rows
_MANY = 60
"""So many bars are no longer separated by white lines."""
_KINDS = {
    "forward": ("forward", "#56B4E9"),
    "backward": ("backward", "#0072B2"),
    "aggregation": ("local aggregation", "#CC79A7"),
    "optimizer": ("optimizer", "#009E73"),
    "all-reduce": ("all-reduce", "#D55E00"),
    "reduce-scatter": ("reduce-scatter", "#D55E00"),
    "all-gather": ("all-gather", "#E69F00"),
}
"""The label and colour of each kind of bar."""

Spans = Sequence[tuple[str, str, str, float, float]]
"""Each span has a lane (`compute` or `network`), a name, a kind, and its start and end in seconds."""


def plot_timelines(timelines: Mapping[str, Spans], *, title: str, subtitle: str, format: str = "svg") -> bytes:
    """Draw iterations below one another on one axis of time.

    Args:
        timelines: The spans of each algorithm by its label, which stands to the left of them.
        title: The model and the network.
        subtitle: The recipe.
        format: `svg` or `png`.

    """
    from matplotlib.figure import Figure

    most = max((end for spans in timelines.values() for *_, end in spans), default=0.0)
    unit, scale = next(((unit, scale) for unit, scale in (("s", 1.0), ("ms", 1e3)) if most * scale >= 1), ("µs", 1e6))
    with style():
        height = _ROW * len(timelines)
        figure = Figure(figsize=(_WIDTH, height), facecolor="white")
        axes: Any = figure.add_axes((0, 0, 1, 1))
        for row, spans in enumerate(timelines.values()):
            _draw(axes, row, spans, scale)
        axes.set_yticks(range(len(timelines)), timelines)
        axes.set_ylim(len(timelines) - 0.5, -0.5)
        axes.set_xlim(0, most * scale * 1.01 or 1)
        axes.set_xlabel(f"time ({unit}); above: compute, below: network")
        axes.grid(visible=True, axis="x")
        axes.spines[["top", "right"]].set_visible(False)
        kinds = {kind for spans in timelines.values() for _, _, kind, _, _ in spans}
        name_parts(
            axes, {label: colour for kind, (label, colour) in _KINDS.items() if kind in kinds}, 1 + 0.02 / height
        )
        place: dict[str, Any] = {"transform": axes.transAxes, "parse_math": False, "va": "bottom"}
        axes.text(0, 1 + 0.35 / height, subtitle, color=GREY, **place)
        axes.text(0, 1 + 0.58 / height, title, fontsize=12, fontweight="bold", **place)
        return picture(figure, format)


def _draw(axes: Any, row: int, spans: Spans, scale: float) -> None:
    """Draw a row's bars, one collection for each kind of a lane; a few collectives are separated by white lines."""
    bars: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for lane, _, kind, start, end in spans:
        bars.setdefault((lane, kind), []).append((start * scale, (end - start) * scale))
    for (lane, kind), spaced in bars.items():
        top = row - _BAR if lane == "compute" else row
        is_apart = lane == "network" and len(spaced) < _MANY
        edge = (
            {"edgecolor": "white", "linewidth": 0.4} if is_apart else {"edgecolor": _KINDS[kind][1], "linewidth": 0.2}
        )
        axes.broken_barh(spaced if is_apart else _joined(spaced), (top, _BAR), facecolors=_KINDS[kind][1], **edge)


def _joined(bars: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join bars that touch, as thousands of layers would be as many rectangles."""
    joined: list[tuple[float, float]] = []
    for start, length in bars:
        if joined and start <= sum(joined[-1]) * (1 + 1e-9):
            joined[-1] = (joined[-1][0], start + length - joined[-1][0])
        else:
            joined.append((start, length))
    return joined
