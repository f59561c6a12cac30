"""Lays out predictions for people: first the answer, then the full table with the column names of nccl-tests."""

from collections.abc import Sequence

from treefold._core import format_bandwidth, format_size, format_time
from treefold.collectives import COLLECTIVES
from treefold.report.align import align
from treefold.results import Comparison, Prediction

_COUNT_BYTES = 4  # nccl-tests counts floats by default
_CYCLES = 5  # the number of the column before the time
MOST_ROWS = 24
"""A longer full table is shown only on request."""
_MOST_LINKS = 3
"""So many of the busiest links are named."""
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
"""The units of the time column, from seconds for WANs to the microseconds of nccl-tests."""


def compare_table(rows: Sequence[Prediction], is_whole: bool = False) -> str:
    """Return tables of predictions: first the fastest algorithm of each size, then all rows if these are at most 24.

    With only one algorithm, all rows are shown and nothing stands before them.

    Args:
        rows: The result of `treefold.compare`, or some of its predictions, size by size.
        is_whole: Whether to show all rows even if there are more than 24; `*` marks the fastest of each size.

    Example:
        >>> from treefold import report
        >>> comparison = treefold.compare("ring:4", "ring,dbtree", sizes_bytes=[1 << 20])
        >>> print(report.compare_table(comparison).splitlines()[1])
        1MiB  ring     99.204us  10.57GB/s    50%  dbtree  1.33 x     -

    """
    parts = [_answer(Comparison(rows))] if len({row.algorithm for row in rows}) > 1 else []
    hidden = f"# {len(rows)} rows are not shown; is_whole=True shows them"
    parts.append(_full(rows) if is_whole or len(rows) <= MOST_ROWS or not parts else hidden)
    return "\n\n".join(parts) + f"\n{_origin(rows)}"


def _answer(comparison: Comparison) -> str:
    """Return a table of the fastest algorithm of each size, and of how much longer the next one and the ring take."""
    header = ["size", "fastest", "time", "algbw", "bound", "next", "", "ring"]
    body = [_best(comparison.at(size)) for size in comparison.sizes()]
    return align([header, *body], left={1, 5, 6})


def _best(ranked: Sequence[Prediction]) -> list[str]:
    """Return the row of a size; `ranked` begins with the fastest prediction."""
    best, *others = ranked
    if best.time_s == 0:
        return [format_size(best.size_bytes), "-", format_time(0), *["-"] * 5]
    ring = next((each for each in others if each.algorithm == "ring"), None)
    chosen = f" ({best.chosen})" if best.chosen else ""
    return [
        format_size(best.size_bytes),
        best.algorithm + chosen,
        format_time(best.time_s),
        "-" if best.algbw_Bps is None else format_bandwidth(best.algbw_Bps),
        "-" if best.bound_fraction is None else f"{best.bound_fraction:.0%}",
        others[0].algorithm if others else "-",
        _factor(best, others[0] if others else None),
        _factor(best, ring),
    ]


def _factor(best: Prediction, other: Prediction | None) -> str:
    """Return how many times as long as the best another prediction is."""
    return "-" if other is None else f"{other.time_s / best.time_s:.2f} x"


def _full(rows: Sequence[Prediction]) -> str:
    slowest = max(row.time_s for row in rows)
    factor, unit = next((each for each in _TIMES if slowest >= 100 * each[0]), _TIMES[-1])
    is_slow = max(row.algbw_Bps or 0.0 for row in rows) < 1e8
    scale, rate_unit = (1e6, "MB/s") if is_slow else (1e9, "GB/s")
    header = ["size", "count", "type", "redop", "time", "algbw", "busbw", "bound", "util", "algorithm", ""]
    units = ["(B)", "(elements)", "", "", f"({unit})", f"({rate_unit})", f"({rate_unit})", "(%)", "(%)", "", ""]
    has_cycles = rows[0].packets is not None
    if has_cycles:
        header.insert(_CYCLES, "cycles")
        units.insert(_CYCLES, "")
    body: list[list[str]] = []
    for place, row in enumerate(rows):
        if place and row.size_bytes != rows[place - 1].size_bytes:
            body.append([""] * len(header))
        body.append(_cells(row, factor, scale))
    return align([header, units, *body], left={2, 3, len(header) - 2, len(header) - 1})


def _cells(row: Prediction, time_factor: float, scale: float) -> list[str]:
    chosen = f" ({row.chosen})" if row.chosen else ""
    cells = [
        str(row.size_bytes),
        str(row.size_bytes // _COUNT_BYTES),
        "float",
        _operator(row),
        _number(row.time_s / time_factor),
        rate(row.algbw_Bps, scale),
        rate(row.busbw_Bps, scale),
        "-" if row.bound_fraction is None else f"{row.bound_fraction * 100:.1f}",
        f"{row.link_utilization.mean * 100:.1f}",
        row.algorithm + chosen,
        "*" if row.winner else "",
    ]
    if row.packets is not None:
        cells.insert(_CYCLES, str(row.packets.cycles))
    return cells


def _operator(row: Prediction) -> str:
    fabric = None if row.packets is None else row.packets.fabric
    in_switches = None if fabric is None else fabric.op
    return in_switches or "sum" if COLLECTIVES[row.collective].reduces else "none"


def rate(bandwidth: float | None, scale: float = 1e9) -> str:
    """Return a bandwidth in GB/s, or in `scale` bytes per second, with at least three significant digits."""
    return "-" if bandwidth is None else _number(bandwidth / scale)


def _number(value: float) -> str:
    """Return a number with two decimals, or with three significant digits if it is below 1."""
    return f"{value:.3g}" if 0 < value < 1 else f"{value:.2f}"


def _origin(rows: Sequence[Prediction]) -> str:
    """Say what was simulated and how. The line begins with `#`, as nccl-tests marks lines that are not rows."""
    first = rows[0]
    hockney = ", latency occupies links (hockney)" if first.link_model == "hockney" else ""
    packets = [row.packets for row in rows if row.packets is not None]
    clock = f" at {packets[0].clock_hz / 1e9:.6g}GHz" if packets else ""
    machines = {each.switches for each in packets}
    machine = f" ({' and '.join(sorted(machines))})" if "fabric" in machines else ""
    warned = "".join(f"; {each}" for each in first.warnings)
    lines = [f"# {first.collective}, {first.simulator} simulator{machine}{clock}{hockney}{warned}"]
    if len(rows) == 1:
        lines += _details(first)
    return "\n".join(lines)


def busiest(links: Sequence[str]) -> str:
    """Name the busiest links, up to a few; the two directions of a cable are written as one."""
    all_links = frozenset(links)
    back = {link: " -> ".join(reversed(link.split(" -> "))) for link in links}
    named = [link if back[link] not in all_links else link.replace(" -> ", " - ") for link in links]
    named = [name for name, link in zip(named, links, strict=True) if name == link or link < back[link]]
    others = len(named) - _MOST_LINKS
    tail = f" and {others} other{'s' * (others > 1)}" if others > 0 else ""
    return f"busiest link{'s' * (len(named) > 1)}: {', '.join(named[:_MOST_LINKS])}{tail}"


def _details(row: Prediction) -> list[str]:
    """Return more lines about a single prediction: its busiest link, and the reduction tables of a fabric."""
    lines = []
    if row.busiest_links:
        lines.append(f"# {busiest(row.busiest_links)}, for {row.link_utilization.max:.1%} of the time")
    fabric = None if row.packets is None else row.packets.fabric
    if fabric is not None and fabric.table_bytes:
        parts = [f"reduction tables of {fabric.table_bytes} bytes per port, {fabric.table_peak_bytes} at most in use"]
        if fabric.timeout_cycles is not None:
            evicted = f"{fabric.evictions} evictions, {fabric.timeouts} of them by timeout"
            parts.append(f"{evicted} (after {fabric.timeout_cycles} cycles)")
        parts.append(f"mean latency of a packet {fabric.packet_latency_s * 1e6:.3g}us")
        lines.append(f"# {'; '.join(parts)}")
    if fabric is not None and fabric.retransmissions:
        lines.append(f"# links sent {fabric.retransmissions} packets again, of which {fabric.duplicates} came twice")
    if fabric is not None and fabric.failed_allocations:
        lines.append(f"# waves asked {fabric.failed_allocations} times for a counter and found none")
    return lines
