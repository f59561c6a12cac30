"""Aligned tables on plain text, which also look right in a pipe or a log."""

from collections.abc import Mapping, Sequence
from typing import Any

from treefold._core import format_bandwidth, format_time

_COUNT_BYTES = 4  # nccl-tests counts floats unless told otherwise


def compare_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Lay out the rows of `treefold.compare` under nccl-tests' column names; `*` marks the fastest of a size."""
    header = ["size", "count", "type", "redop", "time", "algbw", "busbw", "bound", "util", "algorithm", ""]
    units = ["(B)", "(elements)", "", "", "(us)", "(GB/s)", "(GB/s)", "(%)", "(%)", "", ""]
    body = []
    last_size = None
    for row in rows:
        if last_size not in (None, row["size_bytes"]):
            body.append([""] * len(header))
        last_size = row["size_bytes"]
        body.append(_cells(row))
    return _align([header, units, *body], left={2, 3, 9, 10})


def _cells(row: Mapping[str, Any]) -> list[str]:
    reduces = row["collective"] in ("all-reduce", "reduce-scatter", "reduce")
    chosen = f" ({row['chosen']})" if "chosen" in row else ""
    return [
        str(row["size_bytes"]),
        str(row["size_bytes"] // _COUNT_BYTES),
        "float",
        "sum" if reduces else "none",
        f"{row['time_s'] * 1e6:.2f}",
        _gigabytes(row["algbw_Bps"]),
        _gigabytes(row["busbw_Bps"]),
        "-" if row["bound_fraction"] is None else f"{row['bound_fraction'] * 100:.1f}",
        f"{row['link_utilization']['mean'] * 100:.1f}",
        row["algorithm"] + chosen,
        "*" if row.get("winner") else "",
    ]


def _gigabytes(bandwidth: float | None) -> str:
    """Three significant digits at least, down to WANs of a few MB/s."""
    if bandwidth is None:
        return "-"
    return f"{bandwidth / 1e9:.2f}" if bandwidth >= 1e9 else f"{bandwidth / 1e9:.3g}"


def plan_table(summary: Mapping[str, Any]) -> str:
    """Lay out `treefold.summarize` for people."""
    network = summary["topology"]
    nodes = f"{network['accelerators']} accelerators, {network['switches']} switches, {network['links']} links"
    steps = "streamed in chunks" if summary["steps"] is None else str(summary["steps"])
    rate = "nothing to send"
    if summary["rate_Bps"] is not None:
        rate = f"{format_bandwidth(summary['rate_Bps'])} at most, by the busiest link"
    return key_values(
        {
            "topology": f"{network['name']} ({nodes})",
            "algorithm": summary["algorithm"],
            "collective": summary["collective"],
            "trees": str(summary["trees"]),
            "steps": steps,
            "height": f"{summary['max_height']} at most, {summary['mean_height']:.2f} on average",
            "fanout": f"{summary['max_fanout']} at most",
            "rate": rate,
        }
    )


def candidates_table(candidates: Sequence[tuple[str, tuple[float, float] | None, str | None]]) -> str:
    """Lay out how each algorithm fared, fastest first: its time, and what of it is latency and what bandwidth."""
    fitting = sorted((seconds, name) for name, seconds, _ in candidates if seconds is not None)
    rows = []
    for (total, latency), name in fitting:
        rows.append(
            [f"  {name}", format_time(total), f"= {format_time(latency)} latency + {format_time(total - latency)}"]
        )
    rows += [[f"  {name}", "-", reason] for name, _, reason in candidates if reason is not None]
    return _align(rows, left={0, 2})


def bound_table(bounds: Mapping[str, Any]) -> str:
    """Lay out `treefold.bound` for people."""
    names = {
        "reduce_scatter_all_gather_Bps": "reduce-scatter, then all-gather",
        "all_reduce_Bps": "all-reduce",
        "in_network_Bps": "all-reduce with switches that reduce",
    }
    rows = [["bound", "rate", "", "found by"]]
    for key, name in names.items():
        if key in bounds:
            rate = "nothing to send" if bounds[key] is None else format_bandwidth(bounds[key])
            rows.append([name, rate, "exact" if bounds["exact"][key] else "valid", bounds["method"][key]])
    return _align(rows, left={0, 2, 3})


def key_values(values: Mapping[str, str]) -> str:
    """Lay out names and values in two columns."""
    return _align([[name, value] for name, value in values.items()], left={0, 1})


def _align(rows: Sequence[Sequence[str]], left: set[int]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    pad = [str.ljust if column in left else str.rjust for column in range(len(widths))]
    lines = ("  ".join(pad[i](cell, widths[i]) for i, cell in enumerate(row)).rstrip() for row in rows)
    return "\n".join(lines)
