"""Lays out columns of plain text, which also look right in a pipe or a log."""

from collections.abc import Mapping, Sequence

from treefold.text import visible


def align(rows: Sequence[Sequence[str]], left: set[int]) -> str:
    """Return rows as text in columns, flush left in the columns with their number in `left`, else flush right."""
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    pad = [str.ljust if column in left else str.rjust for column in range(len(widths))]
    lines = ("  ".join(pad[i](cell, widths[i]) for i, cell in enumerate(row)).rstrip() for row in rows)
    return "\n".join(lines)


def key_values(values: Mapping[str, str]) -> str:
    """Return names and values as text in two columns.

    Args:
        values: The values by name.

    Example:
        >>> from treefold import report
        >>> print(report.key_values({"ranks": "4", "bandwidth": "16GB/s"}))
        ranks      4
        bandwidth  16GB/s

    """
    return align([[name, value] for name, value in values.items()], left={0, 1})
