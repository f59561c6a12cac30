"""Draws iterations over time: what compute and network were busy with, for each algorithm."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from treefold._core import format_time
from treefold.errors import TreefoldError
from treefold.report.looks import GREY, check_format, name_parts, picture, style
from treefold.report.tables import training_summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from treefold.training.results import TrainingIteration
    from treefold.training.timeline import Activity

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


def plot_timelines(report: "Sequence[TrainingIteration]", *, format: str = "svg") -> bytes:
    """Draw the iterations with each algorithm below one another on one axis of time; `*` marks the fastest.

    Args:
        report: The result of `treefold.train`, or some of its iterations.
        format: `svg`, `png` or `pdf`.

    Returns:
        The content of the file; the same iterations give the same bytes.

    Raises:
        TreefoldError: If there is no iteration, or the format is unknown.

    Example:
        >>> from pathlib import Path
        >>> from treefold import report
        >>> trained = treefold.train("alexnet", "ring:4", "ring,multiring")
        >>> Path("alexnet.svg").write_bytes(report.plot_timelines(trained)) > 0
        True

    """
    check_format(format)
    if not report:
        raise TreefoldError("nothing to draw: the report has no iteration")
    title = f"{report[0].model} on {report[0].topology}"
    with style():
        return picture(_figure(report, title, training_summary(report).partition(": ")[2]), format)


def _figure(report: "Sequence[TrainingIteration]", title: str, subtitle: str) -> "Figure":
    from matplotlib.figure import Figure

    timelines = [each.timeline.activities for each in report]
    labels = [f"{each.algorithm}{' *' if each.winner else ''}\n{format_time(each.iteration_s)}" for each in report]
    most = max((bar.end_s for bars in timelines for bar in bars), default=0.0)
    unit, scale = next(((unit, scale) for unit, scale in (("s", 1.0), ("ms", 1e3)) if most * scale >= 1), ("µs", 1e6))
    height = _ROW * len(timelines)
    figure = Figure(figsize=(_WIDTH, height), facecolor="white")
    axes: Any = figure.add_axes((0, 0, 1, 1))
    for row, bars in enumerate(timelines):
        _draw(axes, row, bars, scale)
    axes.set_yticks(range(len(timelines)), labels)
    axes.set_ylim(len(timelines) - 0.5, -0.5)
    axes.set_xlim(0, most * scale * 1.01 or 1)
    axes.set_xlabel(f"time ({unit}); above: compute, below: network")
    axes.grid(visible=True, axis="x")
    axes.spines[["top", "right"]].set_visible(False)
    kinds = {bar.kind for bars in timelines for bar in bars}
    name_parts(axes, {label: colour for kind, (label, colour) in _KINDS.items() if kind in kinds}, 1 + 0.02 / height)
    place: dict[str, Any] = {"transform": axes.transAxes, "parse_math": False, "va": "bottom"}
    axes.text(0, 1 + 0.35 / height, subtitle, color=GREY, **place)
    axes.text(0, 1 + 0.58 / height, title, fontsize=12, fontweight="bold", **place)
    return figure


def _draw(axes: Any, row: int, activities: "Sequence[Activity]", scale: float) -> None:
    """Draw a row's bars, one collection for each kind of a lane; a few collectives are separated by white lines."""
    bars: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for lane, _, kind, start, end in activities:
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
