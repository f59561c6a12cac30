"""The drawings of the pages on concepts: two trees on a small network, and a cut through it.

`python -m tools.manual.drawings` writes them beside the pages; a test holds the written files to what is drawn here.
"""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from treefold.report.looks import GREY, INK, picture, style

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "concepts"
PLACES = {"paris": (0.0, 0.0), "london": (0.9, 1.5), "frankfurt": (2.6, 0.2), "dublin": (3.2, 1.8)}
CABLES = [
    *(("paris", "london", "10 Gbit/s"), ("paris", "frankfurt", "10 Gbit/s"), ("london", "frankfurt", "5 Gbit/s")),
    *(("london", "dublin", "2.5 Gbit/s"), ("frankfurt", "dublin", "2.5 Gbit/s")),
]
TREES = {
    "tree 1, root london": ("#0072B2", [("london", "paris"), ("london", "frankfurt"), ("london", "dublin")]),
    "tree 2, root frankfurt": (
        "#D55E00",
        [("frankfurt", "paris"), ("frankfurt", "london"), ("frankfurt", "dublin")],
    ),
}


def files() -> dict[Path, bytes]:
    """Return the content of each drawing."""
    return {FOLDER / "two-trees.svg": _drawn(_two_trees, 2), FOLDER / "cut.svg": _drawn(_cut, 1)}


def _drawn(draw: Any, columns: int) -> bytes:
    with style():
        figure = Figure(figsize=(4.2 * columns, 2.9), facecolor="white")
        for column in range(columns):
            axes = figure.add_axes((column / columns, 0, 1 / columns, 1))
            axes.set_axis_off()
            axes.set_aspect("equal")
            axes.set_xlim(-0.6, 3.8)
            axes.set_ylim(-0.65, 2.35)
            draw(axes, column)
            for name, (x, y) in PLACES.items():
                box = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": INK}
                axes.text(x, y, name, ha="center", va="center", bbox=box, color=INK, zorder=3)
        return picture(figure, "svg")


def _line(axes: Any, ends: tuple[str, str], colour: str, kind: str, width: float) -> None:
    patch = FancyArrowPatch(
        PLACES[ends[0]], PLACES[ends[1]], arrowstyle=kind, mutation_scale=15, color=colour, linewidth=width,
        shrinkA=22, shrinkB=22, zorder=2,
    )  # fmt: skip
    axes.add_patch(patch)


def _two_trees(axes: Any, column: int) -> None:
    title, (colour, edges) = list(TREES.items())[column]
    for a, b, _ in CABLES:
        _line(axes, (a, b), "#DDDDDD", "-", 1.5)
    for edge in edges:
        _line(axes, edge, colour, "<|-|>", 2.2)
    axes.text(1.6, -0.5, f"{title}: half of the vector", ha="center", color=colour)


def _cut(axes: Any, _column: int) -> None:
    for a, b, bandwidth in CABLES:
        _line(axes, (a, b), GREY, "-", 1.8)
        (x, y), (u, v) = PLACES[a], PLACES[b]
        axes.text((x + u) / 2, (y + v) / 2 + 0.12, bandwidth, ha="center", fontsize=8, color=GREY)
    axes.plot([1.9, 3.5], [2.2, 0.5], color="#D55E00", linestyle="--", linewidth=2)
    axes.text(2.0, -0.5, "5 Gbit/s cross the cut in each direction", ha="center", color="#D55E00")


if __name__ == "__main__":
    for _path, _content in files().items():
        _path.write_bytes(_content)
