"""Sets the style of all pictures (colours, fonts, legends), and turns figures into the content of files."""

import io
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from treefold.checks import shown
from treefold.errors import TreefoldError
from treefold.extras import is_installed, missing

# These are Okabe and Ito's colours, which colour-blind people can distinguish, without yellow (too pale on white) and
# black (the bound has it), and two of Tol's. There are more markers than colours, so that pairs repeat late.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#999933")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "h", ">", "p")
MOST_COLOURED = len(COLOURS)
"""More things than these cannot be told apart by colour."""
INK, GREY, _PALE = "#222222", "#666666", "#E4E4E4"
_STYLE: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that pictures are the same everywhere
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "axes.axisbelow": True,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": _PALE,
    "grid.linewidth": 0.8,
    "svg.hashsalt": "treefold",
}


FORMATS = ("png", "svg", "pdf")
"""The formats of pictures."""


def check_format(format: str) -> None:
    """Check that pictures of a format can be drawn: that it is known, and that matplotlib is installed.

    Args:
        format: `png`, `svg` or `pdf`.

    Raises:
        TreefoldError: If it is none of them, or the extra `plot` is not installed.

    Example:
        >>> from treefold import report
        >>> report.check_format("gif")
        Traceback (most recent call last):
            ...
        treefold.TreefoldError: format 'gif' cannot be drawn; use one of png, svg, pdf

    """
    if format not in FORMATS:
        raise TreefoldError(f"format {shown(format)} cannot be drawn; use one of {', '.join(FORMATS)}")
    if not is_installed("plot"):
        raise missing("a picture", "plot")


def parts(colour: str) -> tuple[float, float, float]:
    """Return the shares of red, green and blue of a colour such as `#0072B2`."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return red, green, blue


@contextmanager
def style() -> Iterator[None]:
    """Draw with matplotlib's defaults and ours, not the user's; a character without a glyph becomes a box."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def name_parts(axes: Any, parts: Mapping[str, str], bottom: float) -> None:
    """Name colours in a line above the axes, at `bottom` in fractions of their height."""
    from matplotlib.patches import Patch

    axes.legend(
        handles=[Patch(facecolor=colour, label=part) for part, colour in parts.items()],
        loc="lower left",
        bbox_to_anchor=(0, bottom),
        ncols=len(parts),
        frameon=False,
        borderaxespad=0,
        borderpad=0,
        handlelength=1,
        columnspacing=1.4,
    )


def picture(figure: Any, format: str = "svg") -> bytes:
    """Return a figure as the content of a file, without empty margins; the same figure gives the same bytes."""
    file = io.BytesIO()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(format, {})
    figure.savefig(file, format=format, dpi=200, bbox_inches="tight", pad_inches=0.15, metadata=metadata)
    return file.getvalue()
