"""Lays out results as tables of HTML, with which notebooks show them."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from treefold._core import Trace, format_bandwidth, format_size, format_time

_MOST_ROWS = 60
"""Further rows are counted, not shown."""
_UNITS = ("_s", "_Bps", "_bytes")
"""The ends of names that tell a unit, which then stands beside the value."""


def title_of(value: object) -> str:
    """Return a title for a result: what it is, and what its `repr` says of it beside what a table has.

    Example:
        >>> from treefold import html
        >>> html.title_of(treefold.summarize(treefold.plan("ring:4", "ring")))
        'Plan summary: ring, all-reduce on ring:4'

    """
    said = repr(value).partition("(")[2].removesuffix(")")
    parts = [part for part in said.split(", ") if not re.match(r"\w+=", part)]
    name = getattr(value, "name", None)
    told = ", ".join(parts) or (name if isinstance(name, str) else "")
    return f"{kind_of(value)}: {told}" if told else kind_of(value)


def kind_of(value: object) -> str:
    """Return in words what a result is.

    Example:
        >>> from treefold import html
        >>> html.kind_of(treefold.describe("ring:4"))
        'Network summary'

    """
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", type(value).__name__).capitalize()


def of_record(title: str, values: Mapping[str, Any]) -> str:
    """Return a table with a row for each value, with units that people read.

    Args:
        title: What stands above the table.
        values: The values by name; the end of a name tells the unit, as in `time_s`.

    Example:
        >>> from treefold import html
        >>> html.of_record("Prediction", {"time_s": 0.5}).count("<td>500ms</td>")
        1

    """
    rows = "".join(f"<tr><th>{_name(name)}</th>{_cell(name, value)}</tr>" for name, value in _flat(values).items())
    return f"<table><caption>{escape(title)}</caption><tbody>{rows}</tbody></table>"


def of_rows(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table with a row for each dictionary and a column for each key; rows that win are bold.

    What is the same text in all rows stands in the title instead.

    Args:
        title: What stands above the table.
        rows: The rows; the end of a key tells the unit.

    Example:
        >>> from treefold import html
        >>> html.of_rows("Comparison", [{"algorithm": "ring", "winner": True}]).count("<b>ring</b>")
        1

    """
    flat = [_flat(row) for row in rows]
    names = [name for name in dict.fromkeys(name for row in flat for name in row) if name != "winner"]
    common = [name for name in names if len(flat) > 1 and _is_common(name, flat)]
    names = [name for name in names if name not in common]
    title = ", ".join([title, *(f"{_name(name)} {flat[0][name]}" for name in common if flat[0][name])])
    head = "".join(f"<th>{_name(name)}</th>" for name in names)
    body = "".join(_row(names, row) for row in flat[:_MOST_ROWS])
    rest = f"<p>{len(flat) - _MOST_ROWS} more rows are not shown.</p>" if len(flat) > _MOST_ROWS else ""
    table = f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return table + rest


def of_trace(trace: Trace) -> str:
    """Return a table of a trace's links, the busiest ones first.

    Args:
        trace: The trace, for example of `treefold.trace`.

    Example:
        >>> from treefold import html
        >>> trace = treefold.trace(treefold.plan("ring:4", "ring"), size_bytes=4096)
        >>> html.of_trace(trace).count("<tr>")
        9

    """
    links = sorted(trace.links(), key=lambda link: -link.busy_s)
    parts = ("source", "target", "busy_s", "full_rate_s")
    plan = trace.plan
    title = f"Trace: {plan.collective} by {plan.algorithm} in {format_time(trace.time_s)}, the busiest links first"
    return of_rows(title, [{part: getattr(link, part) for part in parts} for link in links])


def _row(names: Sequence[str], row: Mapping[str, Any]) -> str:
    cells = "".join(_cell(name, row.get(name), is_bold=row.get("winner") is True) for name in names)
    return f"<tr>{cells}</tr>"


def _is_common(name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    return isinstance(rows[0].get(name), str) and all(row.get(name) == rows[0][name] for row in rows)


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values without inner dictionaries, and without lists, which a table has no room for."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": each for inner, each in _flat(value).items()}
        elif not isinstance(value, list | tuple):
            flat[name] = value
    return flat


def _name(name: str) -> str:
    unit = next((end for end in _UNITS if name.endswith(end)), "")
    return escape(name.removesuffix(unit).replace("_", " "))


def _cell(name: str, value: Any, is_bold: bool = False) -> str:
    text = escape(_text(name, value))
    return f"<td><b>{text}</b></td>" if is_bold else f"<td>{text}</td>"


def _text(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool | str):
        return str(value)
    if name.endswith("_Bps"):
        return format_bandwidth(value)
    if name.endswith("_s"):
        return format_time(value)
    if name.endswith("_bytes"):
        return format_size(int(value))
    if name.endswith("_fraction"):
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
