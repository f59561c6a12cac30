"""Makes figures 2, 5, 9 and 10 of the MultiTree paper, and compares the authors' own simulator with ours.

The paper is "Communication Algorithm-Architecture Co-Design for Distributed Deep Learning" by Huang, Majumder, Kim,
Muzahid, Yum and Kim (ISCA 2021). The packet simulator has the paper's Table III. Where accelerators have several ports,
figures 9 to 11 show two machines: a message takes any free interface, as the authors measured, or that of its port,
which is our reading of the paper's section V-A, footnote 3 and Fig. 8. All algorithms of a panel run on the same
machine, and claims are judged on the first one. The strong baseline `multiring` is ours: it uses both directions and
edge-disjoint cycles.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from reproduction.drawing.panels import Line, Panel, draw_panels
from reproduction.figures import Axis, Figure, Results, Row, Settings, networks_of, panel_of
from reproduction.multitree import claims, steps, training
from reproduction.multitree.machines import MACHINES
from reproduction.multitree.trials import FlowControl, Interfaces, Point, TableSize
from treefold._core import format_size

GRIDS = ("torus:4x4", "torus:8x8", "mesh:4x4", "mesh:8x8")
FABRICS = ("dgx2", "fattree:8,2", "bigraph:4x8", "bigraph:4x16")
SCALE = ("torus:4x4", "torus:6x6", "torus:8x8", "torus:12x12", "torus:16x16")
SIZES = tuple(32 << 10 << doublings for doublings in range(12))
PAYLOADS = (64, 128, 192, 256)
KIB_A_RANK = 375
FLOWS: tuple[FlowControl, ...] = ("packet", "message")

_ORDER = (
    "ring",
    "multiring (ours)",
    "dbtree",
    "ring2d",
    "hdrm",
    "multitree",
    "multitree, message-based",
)
"""This order gives an algorithm one look in all figures."""

_ONLY_ON = {"bucket": GRIDS}
"""Where those are shown that do not fit all networks."""
_FOR_SMALL = ("recursive-doubling",)
"""Nobody takes these for more than the text's small sizes, at which they send several times what others send."""
_BESIDE = ("multiring (ours)", "multitree")
"""The lines of the paper's panels that other algorithms are shown beside."""

_SETTING = "the paper's Table III, an interface for each port"
_BOTH = "the paper's Table III, with any free interface and with an interface for each port"


def _machines(network: str) -> tuple[Interfaces, ...]:
    """Return the rules of interfaces to show: with one port, as in switched networks, there is nothing to choose."""
    return ("shared", "bound") if network in GRIDS or network in SCALE else ("shared",)


def _algorithms(network: str) -> list[tuple[str, FlowControl]]:
    """Return the algorithms of a network, each with its flow control."""
    names = ["ring", "multiring", "dbtree", *(["ring2d"] if network in GRIDS else [])]
    names += ["hdrm"] if network.startswith("bigraph") else []
    algorithms: list[tuple[str, FlowControl]] = [(name, "packet") for name in names]
    return algorithms + [("multitree", flow) for flow in FLOWS]


def _others(network: str, size: int, sizes: Sequence[int]) -> list[str]:
    """Return those to show that the paper does not have: up to a quarter of the largest size, as they take long."""
    if size > max(min(sizes), max(sizes) // 4):
        return []
    names = [name for name in claims.OTHERS if network in _ONLY_ON.get(name, (network,))]
    return [name for name in names if size <= claims.SMALL_BYTES or name not in _FOR_SMALL]


def _fig9(settings: Settings) -> list[Point]:
    sizes = settings.sizes or SIZES
    return [
        Point(network, name, size, flow, interfaces, lockstep=lockstep)
        for size in sizes
        for network in settings.networks
        for interfaces in _machines(network)
        for name, flow in [*_algorithms(network), *((name, FLOWS[0]) for name in _others(network, size, sizes))]
        for lockstep in ((True, False) if name == "multitree" and _is_shown(size, sizes) else (True,))
    ]


def _is_shown(size: int, sizes: Sequence[int]) -> bool:
    """Return whether lockstep is also switched off at this size: at every third one, which is a tick of the figure."""
    return (len(sizes) - 1 - sizes.index(size)) % 3 == 0


def _fig10(settings: Settings) -> list[Point]:
    ranks = {network: _ranks(network) for network in settings.networks}
    algorithms: tuple[tuple[str, FlowControl], ...] = (
        ("ring", "packet"),
        ("ring2d", "packet"),
        ("multitree", "message"),
        ("multiring", "packet"),
    )
    return [
        Point(network, name, size, flow, interfaces)
        for network in settings.networks
        for size in dict.fromkeys((KIB_A_RANK * ranks[network] << 10, claims.STRONG_BYTES))
        for interfaces in _machines(network)
        for name, flow in algorithms
    ]


def _ranks(torus: str) -> int:
    rows, columns = torus.partition(":")[2].split("x")
    return int(rows) * int(columns)


def _fig2(settings: Settings) -> list[Point]:
    sizes = settings.sizes or (1 << 20,)
    return [
        Point(network, "multitree", size, flow, payload_bytes=payload)
        for network in settings.networks
        for size in sizes
        for payload in PAYLOADS
        for flow in FLOWS
    ]


def _authors(settings: Settings) -> list[Point]:
    def point(network: str, kib: int, name: str, flow: FlowControl) -> Point:
        order = claims.RING_ORDERS.get(network) if name == "ring" else None
        # In theirs MultiTree alone keeps lockstep; of the others it would change the cycles of 2D-ring only.
        return Point(network, name, kib << 10, flow, "shared", lockstep=name != "ring2d", rank_order=order)

    return [point(*key) for key in claims.AUTHORS if key[0] in settings.networks]


def _tables(settings: Settings) -> list[TableSize]:
    return [TableSize(network) for network in settings.networks]


def _table_rows(results: Results) -> list[Row]:
    return [{"network": trial.network, **result} for trial, result in results]


def _rows(results: Results) -> list[Row]:
    return [
        {
            "network": point.network,
            "ranks": result["ranks"],
            "algorithm": point.name,
            "size_bytes": point.size_bytes,
            "payload_bytes": point.payload_bytes,
            "cycles": result["cycles"],
            "time_s": result["time_s"],
            "algbw_Bps": result["algbw_Bps"],
            "bound_fraction": result["bound_fraction"],
            "packets": result["packets"],
            "head_overhead": result["head_flits"] / (result["flits"] - result["head_flits"]),
        }
        for point, result in results
    ]


def _machine_rows(results: Results) -> list[Row]:
    """Return rows in which the rule of interfaces is a column."""
    rows = zip(results, _rows(results), strict=True)
    return [row | {"algorithm": point.variant, "interfaces": point.ni} for (point, _), row in rows]


def _scaled_rows(results: Results) -> list[Row]:
    """Return rows with times in units of ring's on the smallest network with weak scaling, on the same machine."""
    rows = _machine_rows(results)
    weak = [row for row in rows if row["algorithm"] == "ring" and row["size_bytes"] == KIB_A_RANK * row["ranks"] << 10]
    for row in rows:
        unit = min((each for each in weak if each["interfaces"] == row["interfaces"]), key=lambda each: each["ranks"])
        row["time_over_ring"] = row["time_s"] / unit["time_s"]
    return rows


def _panel(title: str, rows: Iterable[Row], x: Axis, y: Axis) -> Panel:
    """Return a panel with a line for each algorithm."""
    return panel_of(title, rows, lambda row: str(row["algorithm"]), x, y)


def _draw_fig9(rows: list[Row], subtitle: str) -> bytes:
    """Draw a row of panels for grids on each machine, and one for switches; then such rows of other algorithms."""
    shown = [row for row in rows if "no lockstep" not in row["algorithm"]]
    papers = [row for row in shown if row["algorithm"] not in claims.OTHERS]
    others = [row for row in shown if row["algorithm"] in (*_BESIDE, *claims.OTHERS)]
    x = Axis("size_bytes", 1 << 20, "size (MiB)")
    grid = _fig9_rows(papers, x, "GB/s") | _fig9_rows(others, x, "GB/s,\nnot in the paper (dashed)")
    title = "Fig. 9: all-reduce bandwidth (size / time) against size"
    subtitle = f"{subtitle}; dashed: not in the paper"
    return draw_panels(
        grid, title=title, subtitle=subtitle, x_label=x.label, log_x=True, order=_ORDER, dashed=claims.OTHERS
    )


def _fig9_rows(rows: Sequence[Row], x: Axis, unit: str) -> dict[str, Sequence[Panel]]:
    """Return the rows of panels by their labels: one for grids on each machine, and one for switches."""
    grid: dict[str, Sequence[Panel]] = {}
    kinds = [(GRIDS, interfaces, words) for interfaces, words in MACHINES.items()]
    for networks, interfaces, words in (*kinds, (FABRICS, "shared", "switched networks")):
        y = Axis("algbw_Bps", 1e9, f"{words}: {unit}")
        own = [row for row in rows if row["network"] in networks and row["interfaces"] == interfaces]
        if own:
            grid[y.label] = [
                _panel(one, [row for row in own if row["network"] == one], x, y) for one in networks_of(own)
            ]
    return grid


def _draw_fig10(rows: list[Row], subtitle: str) -> bytes:
    weak_title, strong_title = f"weak: {KIB_A_RANK} KiB a rank", f"strong: {format_size(claims.STRONG_BYTES)}"
    grid: dict[str, Sequence[Panel]] = {}
    for interfaces, words in MACHINES.items():
        own = [row for row in rows if row["interfaces"] == interfaces]
        weak = [row for row in own if row["size_bytes"] == KIB_A_RANK * row["ranks"] << 10]
        strong = [row for row in own if row["size_bytes"] == claims.STRONG_BYTES]
        x, y = Axis("ranks", 1, "ranks"), Axis("time_over_ring", 1, f"{words}: time")
        grid[y.label] = [_panel(weak_title, weak, x, y), _panel(strong_title, strong, x, y)]
    title = "Fig. 10: time of an all-reduce, over ring's on the smallest network (weak scaling)"
    return draw_panels(grid, title=title, subtitle=subtitle, x_label="ranks", order=_ORDER)


def _draw_fig2(rows: list[Row], subtitle: str) -> bytes:
    x, y = Axis("payload_bytes", 1, "payload (bytes)"), Axis("head_overhead", 0.01, "head flits (%)")
    panels = [
        _panel(network, [row for row in rows if row["network"] == network], x, y) for network in networks_of(rows)
    ]
    title = "Fig. 2: head flits for each flit of payload"
    return draw_panels({y.label: panels}, title=title, subtitle=subtitle, x_label=x.label)


def _draw_authors(rows: list[Row], subtitle: str) -> bytes:
    """Draw our cycles over theirs, with a panel for each network."""

    def line(name: str, own: Sequence[Row]) -> Line:
        mine = [row for row in own if row["algorithm"] == name]
        return Line(name, [(row["size_bytes"] / 1024, row["cycles"] / claims.theirs(row), 0.0) for row in mine])

    panels = []
    for network in networks_of(rows):
        own = [row for row in rows if row["network"] == network]
        panels.append(Panel(network, [line(name, own) for name in dict.fromkeys(row["algorithm"] for row in own)]))
    title = "Cycles beside the authors' own simulator"
    return draw_panels({"ours / theirs": panels}, title=title, subtitle=subtitle, x_label="KiB")


def _draw_tables(rows: list[Row], subtitle: str) -> bytes:
    lines = [
        Line(kind, [(row["ranks"], row["bytes"], 0.0) for row in rows if row["network"].startswith(kind)])
        for kind in ("torus", "mesh")
    ]
    panels = [Panel("MultiTree", [line for line in lines if line.points])]
    title = "Fig. 5: the longest schedule table"
    return draw_panels({"bytes": panels}, title=title, subtitle=subtitle, x_label="ranks")


def _figure(
    title: str, paper: str, networks: Sequence[str], trials: Any, claim: Any, draw: Any, setting: str = _SETTING
) -> Figure:
    takes = ("sizes",) if trials in (_fig2, _fig9) else ()
    rows = _ROWS.get(trials, _rows)
    return Figure(title, paper, tuple(networks), trials, rows, claim, draw, setting, takes=takes)


_ROWS = {_tables: _table_rows, _fig9: _machine_rows, _fig10: _scaled_rows}

FIGURES: dict[str, Figure] = {
    "fig2": _figure(
        "Fig. 2: head-flit overhead against payload",
        "With flits of 16 bytes, head flits take 6 to 25 % of the bandwidth for payloads of 256 to 64 bytes.",
        ("torus:4x4",),
        _fig2,
        claims.fig2,
        _draw_fig2,
    ),
    **steps.FIGURES,
    "fig5": _figure(
        "Fig. 5: schedule tables",
        "The four tables of the 2x2 mesh (its accelerator 2 gathers flow 2: erratum). A table of 64 nodes has 128 "
        "entries of 200 bits, 3.2 KB.",
        ("mesh:2x2", "mesh:4x4", "mesh:8x8", "torus:4x4", "torus:8x8"),
        _tables,
        claims.fig5,
        _draw_tables,
    ),
    "fig9": _figure(
        "Fig. 9: all-reduce bandwidth on eight networks",
        "On tori and meshes MultiTree is ahead of ring, 2D-ring and double binary tree (DBTree) at every size, DBTree "
        "is the slowest, and 2D-ring is ahead of ring but on the 8x8 mesh. On fat trees and BiGraphs MultiTree is "
        "ahead of ring for small sizes and almost equal for large ones; DBTree beats ring for small sizes only, on 64 "
        "nodes up to larger ones than on fewer; HDRM is worse for small sizes. Message-based flow control adds 6 %. "
        "The axes end at 30 and 20 GB/s (4x4 and 8x8 torus), 14 and 12 (meshes), and 10 (switches).",
        (*GRIDS, *FABRICS),
        _fig9,
        claims.fig9,
        _draw_fig9,
        _BOTH,
    ),
    "fig10": _figure(
        "Fig. 10: scalability",
        "Message-based MultiTree is 3 times as fast as ring and 1.4 times as fast as 2D-ring from 16 to 256 nodes with "
        "375 KiB a node; all three scale linearly. With a fixed large size there is only small variation.",
        SCALE,
        _fig10,
        claims.fig10,
        _draw_fig10,
        _BOTH,
    ),
    "authors": _figure(
        "Calibration: the authors' own simulator",
        "Cycles of one all-reduce, from runs of the authors' published code.",
        ("torus:4x4", "torus:8x8", "mesh:4x4", "dgx2", "fattree:8,2", "bigraph:4x8", "bigraph:4x16"),
        _authors,
        claims.authors,
        _draw_authors,
        "the paper's Table III, any free interface",
    ),
    **training.FIGURES,
}
