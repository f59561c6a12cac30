"""Lays out the winners of networks and sizes as a table."""

from collections.abc import Sequence

from treefold._core import format_size, format_time
from treefold.report.align import align
from treefold.report.plots import hockney
from treefold.winner_results import RIVALS, Winner


def winners_table(rows: Sequence[Winner]) -> str:
    """Return a table of the fastest algorithms, and of how many times as long their rivals take.

    Args:
        rows: The result of `treefold.winners`, or some of it, network by network.

    Example:
        >>> from treefold import report
        >>> found = treefold.winners("torus:4x4", "ring,swing,bucket", sizes_bytes=["1KiB", "1MiB"])
        >>> print(report.winners_table(found))
        network    size  fastest     time  bound    ring  within 1 %
        torus:4x4  1KiB  swing      664ns    93%  6.96 x
                   1MiB  swing    31.92us    97%  3.99 x
        # all-reduce, analytic simulator

    """
    rivals = rivals_of(rows)
    header = ["network", "size", "fastest", "time", "bound", *rivals, "within 1 %"]
    body = []
    for place, row in enumerate(rows):
        is_first = place == 0 or rows[place - 1].network != row.network
        body.append([row.network if is_first else "", *_cells(row, rivals)])
    first = rows[0]
    origin = f"# {first.collective}, {first.simulator} simulator{hockney(first.link_model)}"
    return f"{align([header, *body], left={0, 2, len(header) - 1})}\n{origin}"


def rivals_of(rows: Sequence[Winner]) -> list[str]:
    """Return the rivals that were compared anywhere."""
    return [name for name in RIVALS if any(getattr(row.over, name) is not None for row in rows)]


def _cells(row: Winner, rivals: Sequence[str]) -> list[str]:
    factors = [getattr(row.over, name) for name in rivals]
    return [
        format_size(row.size_bytes),
        row.algorithm or "-",
        format_time(row.time_s),
        "-" if row.bound_fraction is None else f"{row.bound_fraction:.0%}",
        *("-" if factor is None else f"{factor:.2f} x" for factor in factors),
        ", ".join(row.ties),
    ]
