"""Makes figures 7 to 10 of the in-network paper, and tests its claims on table sizes and on packets' latency.

The paper is "An In-Network Architecture for Accelerating Shared-Memory Multiprocessor Collectives" by Klenk, Jiang,
Thorson and Dennison (ISCA 2020). Software and switches are simulated packet by packet on the same fabric of shared
memory.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from reproduction.drawing.panels import Panel, draw_panels
from reproduction.figures import Axis, Figure, Results, Row, Settings, panel_of
from reproduction.in_network import claims, training
from reproduction.in_network.trials import Point
from treefold._core import format_size

DGX2, FAT_TREE = "dgx2:planes=6", "fattree128"
RANKS = (2, 4, 8, 16)
SIZES = tuple(4 << 10 << doublings for doublings in range(15))
LARGER = tuple(16 << 10 << 2 * fourfold for fourfold in range(5))
TABLES = (256, 512, 1024, 2048, 4096)
UNORDERED: dict[str, Any] = {"reorder": 1 << 16, "window": 4096}
"""Without waves, requests come in any order, and so many of them are read ahead."""
IN_FLIGHT = (UNORDERED, {"reorder": 1024, "window": 1024})
"""The paper does not say how many requests are in flight without waves: all, or as many as 16 waves have."""

_PUSH: dict[str, Any] = {"table_bytes": 256, "waves": 16}
_PULL: dict[str, Any] = {"table_bytes": 4096, "waves": 4}
_SETTING = "128 B a packet, 150 ns a switch, memory 180 to 360 cycles, waves of 8 kB"


def _dgx2_methods(size: int, ranks: int) -> list[Point]:
    return [
        Point(DGX2, ranks, "innet-push", size, **_PUSH),
        Point(DGX2, ranks, "innet-pull", size, **_PULL),
        Point(DGX2, ranks, "innet-pull", size, **_PULL, barrier=True),
    ]


def _fig7a(settings: Settings) -> list[Point]:
    return [point for size in settings.sizes or SIZES for ranks in RANKS for point in _dgx2_methods(size, ranks)]


def _fig7b(settings: Settings) -> list[Point]:
    sizes = settings.sizes or SIZES
    return _fig7a(settings) + [Point(DGX2, ranks, "ring", size) for size in sizes for ranks in RANKS]


def _fig8(settings: Settings) -> list[Point]:
    push: dict[str, Any] = {"table_bytes": 256, "waves": 64}
    return [
        point
        for size in settings.sizes or (*LARGER, 8 << 20)
        for ranks in (64, 128)
        for point in (
            Point(FAT_TREE, ranks, "innet-push", size, **push),
            Point(FAT_TREE, ranks, "innet-push", size, **push, homes="interleaved"),
            Point(FAT_TREE, ranks, "innet-push", size, **push, trunks="address"),
            Point(FAT_TREE, ranks, "innet-pull", size, table_bytes=1024, waves=16),
        )
    ]


def _fig9(settings: Settings) -> list[Point]:
    return [
        Point(DGX2, 16, algorithm, size, table_bytes=table, waves=0, **in_flight)
        for size in settings.sizes or (*LARGER[1:], 16 << 20)
        for algorithm in ("innet-pull", "innet-push")
        for in_flight in IN_FLIGHT
        for table in TABLES
    ]


def _fig10(settings: Settings) -> list[Point]:
    push = [(waves, "innet-push", 256) for waves in (1, 2, 4, 8, 16, 32, 64)]
    pull = [(waves, "innet-pull", 1024) for waves in (1, 2, 4, 8, 16)] + [(4, "innet-pull", 256)]
    return [
        Point(FAT_TREE, 128, algorithm, size, table_bytes=table, waves=waves)
        for size in settings.sizes or LARGER[2:]
        for waves, algorithm, table in pull + push
    ]


def _tables(settings: Settings) -> list[Point]:
    pull = [("innet-pull", waves, table) for waves in (1, 2, 4) for table in (512, 768, 1024, 1408, 2048, 4096)]
    push = [("innet-push", 16, table) for table in (128, 256, 384, 512, 1024)]
    return [
        Point(DGX2, 16, algorithm, size, table_bytes=table, waves=waves)
        for size in settings.sizes or (32 << 20,)
        for algorithm, waves, table in pull + push
    ]


def _latency(settings: Settings) -> list[Point]:
    return [
        Point(DGX2, 16, algorithm, size, **held)
        for size in settings.sizes or (1 << 20, 2 << 20, 4 << 20, 8 << 20)
        for algorithm, parameters in (("innet-push", _PUSH), ("innet-pull", _PULL))
        for held in (parameters, parameters | {"waves": 0} | UNORDERED)
    ]


def _speedup(settings: Settings) -> list[Point]:
    return [
        Point(DGX2, 16, algorithm, size, **parameters, speedup=speedup)
        for size in settings.sizes or (8 << 20,)
        for algorithm, parameters in (("innet-push", _PUSH), ("innet-pull", _PULL))
        for speedup in (1, 2, 3, 4, 8)
    ]


def _rows(results: Results) -> list[Row]:
    return [
        {
            "network": point.network,
            "ranks": point.ranks,
            "algorithm": point.name,
            "size_bytes": point.size_bytes,
            "table_bytes": point.table_bytes,
            "waves": point.waves,
            "speedup_inside": point.speedup,
            **result,
        }
        for point, result in results
    ]


def _sped_up(results: Results) -> list[Row]:
    """Return the rows of all but the ring, each with how many times as fast as the ring it is."""
    rows = _rows(results)
    ring = {(row["ranks"], row["size_bytes"]): row for row in rows if row["algorithm"] == "ring"}
    for row in rows:
        rival = ring[row["ranks"], row["size_bytes"]]
        row["speedup"] = rival["time_s"] / row["time_s"]
        row["accesses_saved"] = 1 - row["memory_access_bytes"] / rival["memory_access_bytes"]
    return [row for row in rows if row["algorithm"] != "ring"]


def _in_flight(results: Results) -> list[Row]:
    """Return the rows, whose algorithms say how many requests are in flight."""
    flights = [f", {point.reorder} in flight" for point, _ in results]
    return [row | {"algorithm": row["algorithm"] + flight} for row, flight in zip(_rows(results), flights, strict=True)]


_BY_SIZE = Axis("size_bytes", float(1 << 20), "size (MiB)")
_ALGBW = Axis("algbw_Bps", 1e9, "GB/s")


def _draw_by_ranks(rows: list[Row], subtitle: str, *, title: str, y: Axis) -> bytes:
    """Draw a panel for each number of ranks, with a line for each algorithm."""

    def panel(count: int) -> Panel:
        own = [row for row in rows if row["ranks"] == count]
        return panel_of(f"{count} accelerators", own, lambda row: str(row["algorithm"]), _BY_SIZE, y)

    grid = {y.label: [panel(count) for count in sorted({row["ranks"] for row in rows})]}
    log_y = y.key == "speedup"
    return draw_panels(grid, title=title, subtitle=subtitle, x_label=_BY_SIZE.label, log_x=True, log_y=log_y)


def _panels_by_method(rows: list[Row], name: Callable[[Row], str], x: Axis, y: Axis) -> list[Panel]:
    """Return a panel for each method, with a line for each name."""
    methods = dict.fromkeys(row["algorithm"] for row in rows)
    return [panel_of(method, [row for row in rows if row["algorithm"] == method], name, x, y) for method in methods]


def _draw_by_method(rows: list[Row], subtitle: str, *, title: str, name: Callable[[Row], str], x: Axis) -> bytes:
    """Draw the bandwidth, with a panel for each method and a line for each name."""
    grid = {_ALGBW.label: _panels_by_method(rows, name, x, _ALGBW)}
    return draw_panels(grid, title=title, subtitle=subtitle, x_label=x.label, log_x=True)


def _draw_latency(rows: list[Row], subtitle: str) -> bytes:
    def name(row: Row) -> str:
        return "waves" if row["waves"] else "no waves"

    y = Axis("packet_latency_s", 1e-6, "us")
    grid = {y.label: _panels_by_method(rows, name, _BY_SIZE, y)}
    title = "Mean latency of a packet, with waves and without"
    return draw_panels(grid, title=title, subtitle=subtitle, x_label=_BY_SIZE.label, log_x=True, log_y=True)


def _size_of(row: Row) -> str:
    return str(format_size(row["size_bytes"]))


def _table_of(row: Row) -> str:
    return f"{row['table_bytes']} B"


def _waves_and_table_of(row: Row) -> str:
    is_small_pull = row["algorithm"] == "pull" and row["table_bytes"] == 256
    return f"{_waves_of(row)}, 256 B" if is_small_pull else _waves_of(row)


def _waves_of(row: Row) -> str:
    return "1 wave" if row["waves"] == 1 else f"{row['waves']} waves"


def _figure(title: str, paper: str, network: str, trials: Any, claim: Any, draw: Any, rows: Any = _rows) -> Figure:
    return Figure(title, paper, (network,), trials, rows, claim, draw, _SETTING, takes=("sizes",))


FIGURES: dict[str, Figure] = {
    "fig7a": _figure(
        "Fig. 7a: all-reduce bandwidth of a DGX-2",
        "At most 120 GB/s are possible. Push (256 B a port, 16 waves) is optimal, pull (4 kB, 4 waves) almost, "
        "for any number of accelerators; pull's barrier costs small sizes most.",
        DGX2,
        _fig7a,
        claims.fig7a,
        partial(_draw_by_ranks, title="Fig. 7a: all-reduce bandwidth (size / time)", y=_ALGBW),
    ),
    "fig7b": _figure(
        "Fig. 7b: speed-up over a software ring",
        "Up to 18 times as fast for small sizes, about 2 times for large ones; at least half of the memory accesses "
        "are saved. What a ring leaves to gain with p accelerators is 2 (p - 1) / p.",
        DGX2,
        _fig7b,
        claims.fig7b,
        partial(_draw_by_ranks, title="Fig. 7b: speed-up over software's ring", y=Axis("speedup", 1.0, "times")),
        _sped_up,
    ),
    "fig8": _figure(
        "Fig. 8: a fat tree with 64 and 128 accelerators",
        "About 100 GB/s with 64 accelerators; about 70 GB/s with 128, for which congestion is suspected.",
        FAT_TREE,
        _fig8,
        claims.fig8,
        partial(_draw_by_ranks, title="Fig. 8: all-reduce bandwidth on the fat tree (size / time)", y=_ALGBW),
    ),
    "fig9": _figure(
        "Fig. 9: tables of several sizes, without waves",
        "Without waves push is much more sensitive to the size of tables than pull; pull is faster, though still slow.",
        DGX2,
        _fig9,
        claims.fig9,
        partial(
            _draw_by_method,
            title="Fig. 9: all-reduce bandwidth without waves, by bytes of a table",
            name=_table_of,
            x=_BY_SIZE,
        ),
        _in_flight,
    ),
    "fig10": _figure(
        "Fig. 10: waves on the fat tree",
        "Pull (1 kB a port) is at its peak with just 4 waves, and significantly slower with 256 B a port; push (256 B) "
        "comes to a high bandwidth with 64 waves.",
        FAT_TREE,
        _fig10,
        claims.fig10,
        partial(
            _draw_by_method,
            title="Fig. 10: all-reduce bandwidth with 128 accelerators, by outstanding waves",
            name=_waves_and_table_of,
            x=_BY_SIZE,
        ),
    ),
    "tables": _figure(
        "Section VI-D: how large tables must be",
        "Pull needs about 1.4 kB a port to be at its peak, and push about 270 B, as equations (1) and (2) say.",
        DGX2,
        _tables,
        claims.tables,
        partial(
            _draw_by_method,
            title="Pull and push on a DGX-2: tables and waves",
            name=_waves_of,
            x=Axis("table_bytes", 1.0, "table (bytes)"),
        ),
    ),
    "speedup": _figure(
        "Section IV-E: internal speed-up of a switch",
        "2 (p - 1) / p flits must cross a switch for each that leaves it: about 2.",
        DGX2,
        _speedup,
        claims.speedup,
        partial(
            _draw_by_method,
            title="All-reduce bandwidth by internal speed-up",
            name=_size_of,
            x=Axis("speedup_inside", 1.0, "flits that cross for each that leaves"),
        ),
    ),
    "latency": _figure(
        "Section VI-D: latency of packets",
        "Waves reduce the mean latency of packets in an all-reduce of 8 MB by about 90 %.",
        DGX2,
        _latency,
        claims.latency,
        _draw_latency,
    ),
    **training.FIGURES,
}
