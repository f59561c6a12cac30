"""Figures 7 to 10 of the in-network paper (ISCA 2020), its claims on table sizes and on packets' latency.

Packet by packet, software and switches on the same fabric of shared memory.
"""

from collections.abc import Callable
from typing import Any

from treefold._core import format_size
from treefold.experiments import in_network_claims as claims
from treefold.experiments import training
from treefold.experiments.figures import Figure, Results, Row, Settings, panel_of
from treefold.experiments.in_network_trials import Point
from treefold.report.panels import draw_panels

DGX2, FAT_TREE = "dgx2:planes=6", "fattree128"
RANKS = (2, 4, 8, 16)
SIZES = tuple(4 << 10 << doublings for doublings in range(15))
LARGER = tuple(16 << 10 << 2 * fourfold for fourfold in range(5))
TABLES = (256, 512, 1024, 2048, 4096)
UNORDERED: dict[str, Any] = {"reorder": 1 << 16, "window": 4096}
"""Requests in any order, so many of them read ahead: what "without waves" leaves open."""

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
            Point(FAT_TREE, ranks, "innet-push", size, **push, homes="shuffled"),
            Point(FAT_TREE, ranks, "innet-push", size, **push, homes="shuffled", trunks="address"),
            Point(FAT_TREE, ranks, "innet-pull", size, table_bytes=1024, waves=16),
        )
    ]


def _fig9(settings: Settings) -> list[Point]:
    return [
        Point(DGX2, 16, algorithm, size, table_bytes=table, waves=0, **UNORDERED)
        for size in settings.sizes or (*LARGER[1:], 16 << 20)
        for algorithm in ("innet-pull", "innet-push")
        for table in TABLES
    ]


def _fig10(settings: Settings) -> list[Point]:
    push = [(waves, "innet-push", 256) for waves in (1, 2, 4, 8, 16, 32, 64)]
    pull = [(waves, "innet-pull", 1024) for waves in (1, 2, 4, 8, 16)]
    return [
        Point(FAT_TREE, 128, algorithm, size, table_bytes=table, waves=waves)
        for size in settings.sizes or LARGER[2:]
        for waves, algorithm, table in pull + push
    ]


def _tables(settings: Settings) -> list[Point]:
    return [
        Point(DGX2, 16, "innet-pull", size, table_bytes=table, waves=waves)
        for size in settings.sizes or (32 << 20,)
        for waves in (1, 2, 4)
        for table in (512, 768, 1024, 1408, 2048, 4096)
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
    """Add how many times as fast as ring each is."""
    rows = _rows(results)
    ring = {(row["ranks"], row["size_bytes"]): row for row in rows if row["algorithm"] == "ring"}
    for row in rows:
        rival = ring[row["ranks"], row["size_bytes"]]
        row["speedup"] = rival["time_s"] / row["time_s"]
        row["accesses_saved"] = 1 - row["memory_access_bytes"] / rival["memory_access_bytes"]
    return [row for row in rows if row["algorithm"] != "ring"]


_BY_SIZE = ("size_bytes", float(1 << 20))
_ALGBW = ("algbw_Bps", 1e9)


def _by_algorithm(title: str, y: tuple[str, float], label: str) -> Callable[[list[Row], str], bytes]:
    """Draw a panel for each number of ranks."""

    def draw(rows: list[Row], subtitle: str) -> bytes:
        counts = sorted({row["ranks"] for row in rows})
        panels = [
            panel_of(
                f"{count} accelerators",
                [row for row in rows if row["ranks"] == count],
                lambda row: row["algorithm"],
                _BY_SIZE,
                y,
            )
            for count in counts
        ]
        return draw_panels(
            {label: panels}, title=title, subtitle=subtitle, x_label="size (MiB)", log_x=True, log_y=y[0] == "speedup"
        )

    return draw


def _by_parameter(
    title: str, name: Callable[[Row], str], x: tuple[str, float], y: tuple[str, float], labels: tuple[str, str]
) -> Callable[[list[Row], str], bytes]:
    """Draw a panel for each method, with a line for each value of a parameter."""

    def draw(rows: list[Row], subtitle: str) -> bytes:
        panels = [
            panel_of(method, [row for row in rows if row["algorithm"] == method], name, x, y)
            for method in dict.fromkeys(row["algorithm"] for row in rows)
        ]
        return draw_panels({labels[1]: panels}, title=title, subtitle=subtitle, x_label=labels[0], log_x=True)

    return draw


def _draw_latency(rows: list[Row], subtitle: str) -> bytes:
    def name(row: Row) -> str:
        return "waves" if row["waves"] else "no waves"

    axes = (_BY_SIZE, ("packet_latency_s", 1e-6))
    panels = [
        panel_of(method, [row for row in rows if row["algorithm"] == method], name, *axes)
        for method in ("push", "pull")
    ]
    title = "Mean latency of a packet, with waves and without"
    return draw_panels({"us": panels}, title=title, subtitle=subtitle, x_label="size (MiB)", log_x=True, log_y=True)


def _figure(title: str, paper: str, network: str, trials: Any, claim: Any, draw: Any, rows: Any = _rows) -> Figure:
    return Figure(title, paper, (network,), trials, rows, claim, draw, _SETTING, has_sizes=True)


FIGURES: dict[str, Figure] = {
    "fig7a": _figure(
        "Fig. 7a: all-reduce bandwidth of a DGX-2",
        "Push (256 B a port, 16 waves) comes to about 120 GB/s for any number of accelerators, pull (4 kB, 4 waves) "
        "slightly below; its barrier costs small sizes most.",
        DGX2,
        _fig7a,
        claims.fig7a,
        _by_algorithm("Fig. 7a: all-reduce bandwidth (size / time)", _ALGBW, "GB/s"),
    ),
    "fig7b": _figure(
        "Fig. 7b: speed-up over a software ring",
        "Up to 18 times as fast for small sizes, about 2 times for large ones; at least half of the memory accesses "
        "are saved. What a ring leaves to gain with p accelerators is 2 (p - 1) / p.",
        DGX2,
        _fig7b,
        claims.fig7b,
        _by_algorithm("Fig. 7b: speed-up over software's ring", ("speedup", 1.0), "times"),
        _sped_up,
    ),
    "fig8": _figure(
        "Fig. 8: a fat tree with 64 and 128 accelerators",
        "About 100 GB/s with 64 accelerators; about 70 GB/s with 128, for which congestion is suspected.",
        FAT_TREE,
        _fig8,
        claims.fig8,
        _by_algorithm("Fig. 8: all-reduce bandwidth on the fat tree (size / time)", _ALGBW, "GB/s"),
    ),
    "fig9": _figure(
        "Fig. 9: tables of several sizes, without waves",
        "Without waves push is much more sensitive to the size of tables than pull.",
        DGX2,
        _fig9,
        claims.fig9,
        _by_parameter(
            "Fig. 9: all-reduce bandwidth without waves, by bytes of a table",
            lambda row: f"{row['table_bytes']} B",
            _BY_SIZE,
            _ALGBW,
            ("size (MiB)", "GB/s"),
        ),
    ),
    "fig10": _figure(
        "Fig. 10: waves on the fat tree",
        "Pull (1 kB) is at its peak with 4 waves, push (256 B) needs 64.",
        FAT_TREE,
        _fig10,
        claims.fig10,
        _by_parameter(
            "Fig. 10: all-reduce bandwidth with 128 accelerators",
            lambda row: format_size(row["size_bytes"]),
            ("waves", 1.0),
            _ALGBW,
            ("waves", "GB/s"),
        ),
    ),
    "tables": _figure(
        "Section VI-D: how large tables must be",
        "By equation (1) pull needs about 1.4 kB a port, which simulations confirm; by equation (2) push needs 270 B.",
        DGX2,
        _tables,
        claims.tables,
        _by_parameter(
            "Pull on a DGX-2: tables and waves",
            lambda row: "1 wave" if row["waves"] == 1 else f"{row['waves']} waves",
            ("table_bytes", 1.0),
            _ALGBW,
            ("table (bytes)", "GB/s"),
        ),
    ),
    "speedup": _figure(
        "Section IV-E: internal speed-up of a switch",
        "2 (p - 1) / p flits must cross a switch for each that leaves it: about 2.",
        DGX2,
        _speedup,
        claims.speedup,
        _by_parameter(
            "All-reduce bandwidth by internal speed-up",
            lambda row: format_size(row["size_bytes"]),
            ("speedup_inside", 1.0),
            _ALGBW,
            ("flits that cross for each that leaves", "GB/s"),
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
    **training.IN_NETWORK,
}
