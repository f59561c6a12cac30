"""Makes figures 7 to 10 of the in-network paper, and tests its claims on table sizes and on packets' latency.

The paper is "An In-Network Architecture for Accelerating Shared-Memory Multiprocessor Collectives" by Klenk, Jiang,
Thorson and Dennison (ISCA 2020). Software and switches are simulated packet by packet on the same fabric of shared
memory.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from reproduction.drawing.panels import Panel, draw_panels
from reproduction.figures import Axis, Figure, Results, Row, Settings, networks_of, panel_of
from reproduction.in_network import claims, training
from reproduction.in_network.machines import DGX2, FAT_TREE, ONE_SWITCH
from reproduction.in_network.trials import Point
from treefold._core import format_size

RANKS = (2, 4, 8, 16)
SIZES = tuple(4 << 10 << doublings for doublings in range(15))
LARGER = tuple(16 << 10 << 2 * fourfold for fourfold in range(5))
TABLES = (256, 512, 1024, 2048, 4096)
UNORDERED: tuple[dict[str, Any], ...] = ({"reorder": 1024, "window": 1024}, {"reorder": 1 << 16, "window": 4096})
"""Without waves, requests come in an order that the paper does not say: each is picked at random among so many that
come next, and so many are read ahead. The first is judged: as many requests as the paper's 16 waves hold. The second is
told beside it."""

_PUSH: dict[str, Any] = {"table_bytes": 256, "waves": 16}
_PULL: dict[str, Any] = {"table_bytes": 4096, "waves": 4}
_ON_ONE_LINK: dict[str, dict[str, Any]] = {
    "innet-push": {"table_bytes": 256, "waves": 3},
    "innet-pull": {"table_bytes": 4096, "waves": 1},
}
"""Each accelerator of one switch has a sixth of the links, and of what is outstanding; there is no part of a wave."""
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
    sizes = settings.sizes or (4 << 10, *LARGER, 8 << 20)
    ends = (min(sizes), max(sizes))
    methods = [
        point
        for size in sizes
        for ranks in (64, 128)
        for point in (
            Point(FAT_TREE, ranks, "innet-push", size, **push),
            Point(FAT_TREE, ranks, "innet-push", size, **push, homes="interleaved"),
            Point(FAT_TREE, ranks, "innet-push", size, **push, trunks="address"),
            Point(FAT_TREE, ranks, "innet-pull", size, table_bytes=1024, waves=16),
        )
    ]
    return methods + [Point(FAT_TREE, ranks, "ring", size) for size in dict.fromkeys(ends) for ranks in (64, 128)]


def _fig9(settings: Settings) -> list[Point]:
    return [
        Point(DGX2, 16, algorithm, size, table_bytes=table, waves=0, **order)
        for size in settings.sizes or (*LARGER[1:], 16 << 20)
        for algorithm in ("innet-pull", "innet-push")
        for order in UNORDERED
        for table in TABLES
    ]


def _fig10(settings: Settings) -> list[Point]:
    pull = [(waves, "innet-pull", 1024) for waves in (1, 2, 4, 8)] + [(4, "innet-pull", 256)]
    push = [(waves, "innet-push", 256) for waves in (1, 2, 4, 8, 16, 32, 64, 128)]
    # Of 4 MiB an accelerator pulls four waves, so that no more could be outstanding.
    return [
        Point(FAT_TREE, 128, algorithm, size, table_bytes=table, waves=waves)
        for methods, sizes in ((pull, (*LARGER[2:4], 8 << 20)), (push, LARGER[2:]))
        for size in settings.sizes or sizes
        for waves, algorithm, table in methods
    ]


def _tables(settings: Settings) -> list[Point]:
    tables = (512, 768, 1024, 1152, 1280, 1408, 2048, 4096)
    pull = [("innet-pull", waves, table) for waves in (1, 2, 4) for table in tables]
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
        for held in (parameters, *(parameters | {"waves": 0} | order for order in UNORDERED))
    ]


def _speedup(settings: Settings) -> list[Point]:
    methods = {DGX2: {"innet-push": _PUSH, "innet-pull": _PULL}, ONE_SWITCH: _ON_ONE_LINK}
    return [
        Point(network, 16, algorithm, size, **parameters, speedup=speedup)
        for size in settings.sizes or (8 << 20,)
        for network in settings.networks
        for algorithm, parameters in methods[network].items()
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


def _unordered(results: Results) -> list[Row]:
    """Return the rows; the algorithms of those without waves say among how many requests each is picked."""
    return [
        row if point.waves else row | {"algorithm": f"{row['algorithm']}, {claims.picked(point.reorder)}"}
        for (point, _), row in zip(results, _rows(results), strict=True)
    ]


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
        return "waves" if row["waves"] else f"no waves, {row['algorithm'].partition(', ')[2]}"

    y = Axis("packet_latency_s", 1e-6, "us")
    panels = [
        panel_of(method, [row for row in rows if row["algorithm"].startswith(method)], name, _BY_SIZE, y)
        for method in ("push", "pull")
    ]
    grid = {y.label: panels}
    title = "Mean latency of a packet, with waves and without"
    return draw_panels(grid, title=title, subtitle=subtitle, x_label=_BY_SIZE.label, log_x=True, log_y=True)


def _draw_speedup(rows: list[Row], subtitle: str) -> bytes:
    """Draw the bandwidth by internal speed-up, with a panel for each network and a line for each method and size."""

    def name(row: Row) -> str:
        return f"{row['algorithm']}, {format_size(row['size_bytes'])}"

    x = Axis("speedup_inside", 1.0, "flits that cross for each that leaves")
    panels = [
        panel_of(network, [row for row in rows if row["network"] == network], name, x, _ALGBW)
        for network in networks_of(rows)
    ]
    title = "All-reduce bandwidth by internal speed-up"
    return draw_panels({_ALGBW.label: panels}, title=title, subtitle=subtitle, x_label=x.label, log_x=True)


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
        "for any number of accelerators; pull's barrier costs small sizes much more than large ones.",
        DGX2,
        _fig7a,
        claims.fig7a,
        partial(_draw_by_ranks, title="Fig. 7a: all-reduce bandwidth (size / time)", y=_ALGBW),
    ),
    "fig7b": _figure(
        "Fig. 7b: speed-up over a software ring",
        "Up to 18 times as fast for small sizes, about 2 times for large ones; at least half of the memory accesses "
        "are saved. What a ring leaves to gain with p accelerators is 2 (p - 1) / p in bandwidth.",
        DGX2,
        _fig7b,
        claims.fig7b,
        partial(_draw_by_ranks, title="Fig. 7b: speed-up over software's ring", y=Axis("speedup", 1.0, "times")),
        _sped_up,
    ),
    "fig8": _figure(
        "Fig. 8: a fat tree with 64 and 128 accelerators",
        "About 100 GB/s with 64 accelerators; about 70 GB/s with 128, for which congestion is suspected. Push has a "
        "higher bandwidth than pull for large sizes, orders of magnitude more than a ring for small ones, and always "
        "about twice a ring's.",
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
        _unordered,
    ),
    "fig10": _figure(
        "Fig. 10: waves on the fat tree",
        "Pull (1 kB a port) is at its peak with just 4 waves, and significantly slower with 256 B a port; push (256 B) "
        "comes to a high bandwidth with 64 waves, which is what its tables hold.",
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
        "By equation (1) pull needs about 1.4 kB a port, which simulations confirm, and by equation (2) push needs "
        "about 270 B. As they are printed, and with our memory, the equations say 1,288 B with the mean latency of "
        "the memory and 1,384 B with the longest, and 234 B.",
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
        "On one switch 2 (p - 1) / p flits must cross for each that leaves it, about 2; so a speed-up of 2 suffices.",
        DGX2,
        _speedup,
        claims.speedup,
        _draw_speedup,
    )._replace(networks=(DGX2, ONE_SWITCH)),
    "latency": _figure(
        "Section VI-D: latency of packets",
        "Waves reduce the mean latency of packets in an all-reduce of 8 MB by about 90 %.",
        DGX2,
        _latency,
        claims.latency,
        _draw_latency,
        _unordered,
    ),
    **training.FIGURES,
}
