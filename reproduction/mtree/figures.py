"""Makes figures 6 to 13 of the MTree paper.

The paper is "Efficient inter-datacenter all-reduce with multiple trees"; its section IV has the figures. `mtree` is the
paper's Algorithm 1 as it is published. Beside it stand ours: `mtree` with the quarter rule (a tree takes a quarter of
the widest cable at a time, and has other starts where one fails) and `packing`; the paper's claims are judged without
them. The paper gives no K but in Fig. 13, so the number of trees has no limit in the others. H is what ITH (Algorithm
3) finds where nothing of the rate may be lost (rho = 1).
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import product
from operator import attrgetter
from typing import Any, NamedTuple

from reproduction.drawing.panels import Line, Panel, draw_panels
from reproduction.figures import SYNTHETIC, Figure, Results, Row, Settings, display, grouped, networks_of
from reproduction.mtree import claims
from reproduction.mtree.trials import TreeRate, Trial

NETWORKS = ("b4", "equinix-like", "idn-like")
INSTANCE_SKEW = 0.7
"""The instance in Figs. 9 and 10 has this skewness, which is the paper's default."""
HEIGHTS = tuple(range(1, 11))
TREE_LIMITS = (*range(1, 11), 12, 15, 20)

Variant = tuple[str, bool, TreeRate]
"""An algorithm, whether it pipelines (the paper's rivals send each part as a single message), and mtree's rule."""

_MTREES: tuple[TreeRate, ...] = ("all", "quarter")
_SHAPED: tuple[Variant, ...] = (
    *(("mtree", True, rule) for rule in _MTREES),
    ("packing", True, "all"),
    ("blink", True, "all"),
    ("topoadopt", True, "all"),
)
_TIMED: tuple[Variant, ...] = (
    *_SHAPED[:3],
    *(("mtree", False, rule) for rule in _MTREES),
    *((rival, False, "all") for rival in ("blink", "topoadopt", "plink", "psld")),
)


def _by_skew(variants: Iterable[Variant], settings: Settings) -> list[Trial]:
    """Return every algorithm on every network, skewness and seed; one network's planners stand together."""
    draws = product(settings.networks, settings.skews, range(1, settings.trials + 1))
    return [
        Trial(*draw, algorithm, pipeline=pipeline, tree_rate=rule)
        for draw in draws
        for algorithm, pipeline, rule in variants
    ]


def _by_height(settings: Settings) -> list[Trial]:
    draws = product(settings.networks, range(1, settings.trials + 1), HEIGHTS, _MTREES)
    return [
        Trial(name, INSTANCE_SKEW, seed, "mtree", height=height, tree_rate=rule) for name, seed, height, rule in draws
    ]


def _by_limit(settings: Settings) -> list[Trial]:
    draws = product(settings.networks, range(1, settings.trials + 1), TREE_LIMITS, _MTREES)
    return [Trial(name, INSTANCE_SKEW, seed, "mtree", trees=trees, tree_rate=rule) for name, seed, trees, rule in draws]


def _instance(settings: Settings) -> list[Trial]:
    draws = product(settings.networks, _MTREES)
    return [Trial(name, INSTANCE_SKEW, 1, "mtree", kind="curves", tree_rate=rule) for name, rule in draws]


def _grown_by_height(settings: Settings) -> list[Trial]:
    return [trial._replace(kind="grown") for trial in _by_height(settings)]


def _offset_instances(settings: Settings) -> list[Trial]:
    draws = product(settings.networks, range(1, settings.trials + 1), _MTREES)
    return [Trial(name, INSTANCE_SKEW, seed, "mtree", kind="offsets", tree_rate=rule) for name, seed, rule in draws]


_KEYS: dict[str, Callable[[Trial], Any]] = {
    "network": lambda trial: trial.network,
    "skew": lambda trial: trial.skew,
    "height": lambda trial: trial.height,
    "tree_limit": lambda trial: trial.trees,
    "algorithm": lambda trial: trial.name,
}


def _rows(results: Results, x: str, measures: tuple[str, ...]) -> list[Row]:
    return grouped(results, {key: _KEYS[key] for key in ("network", x, "algorithm")}, measures)


def _curve_rows(results: Results) -> list[Row]:
    """Return a row for each tree and chunk count: what the model says the reduction takes."""
    return [
        {
            "network": trial.network,
            "synthetic": trial.network in SYNTHETIC,
            "algorithm": trial.name,
            "tree": tree + 1,
            "best_chunks": best,
            "least_at_chunks": least,
            "chunks": count,
            "time_s": time_s,
        }
        for trial, result in results
        for tree, (best, least, curve) in enumerate(zip(result["best"], result["least"], result["curves"], strict=True))
        for count, time_s in zip(result["counts"], curve, strict=True)
    ]


class _Point(NamedTuple):
    """A time of Fig. 10: with chunk counts off the best ones, or in words what else was simulated."""

    network: str
    algorithm: str
    offset: int | str


def _offset_rows(results: Results) -> list[Row]:
    """Return a row for each offset; the others are one chunk a tree, and Fig. 8's times of the same plans."""
    spread = [point for trial, result in results for point in _points(trial, result)]
    keys = {field: attrgetter(field) for field in _Point._fields}
    return grouped(spread, keys, ("reduce_s", "all_reduce_s", "reduce_model_s"))


def _points(trial: Trial, result: Mapping[str, Any]) -> list[tuple[_Point, dict[str, float]]]:
    of = partial(_Point, trial.network, trial.name)
    measures = ("reduce_s", "all_reduce_s", "reduce_model_s")
    offsets = [
        (of(offset), {measure: result[measure][place] for measure in measures})
        for place, offset in enumerate(result["offsets"])
    ]
    ones = {"reduce_s": result["reduce_one_chunk_s"], "all_reduce_s": result["all_reduce_one_chunk_s"]}
    of_fig8 = [(of(f"Fig. 8, {name}"), {"reduce_s": result[f"{name}_s"]}) for name in ("pipelined", "unpipelined")]
    return [*offsets, (of("one chunk"), ones), *of_fig8]


def _panel(rows: list[Row], network: str, x: str, measure: str) -> Panel:
    """Return a network's panel of a measure, with a line for each algorithm."""
    own = [row for row in rows if row["network"] == network and row[f"{measure}_mean"] is not None]
    lines = []
    for name in dict.fromkeys(row["algorithm"] for row in own):
        points = [(row[x], row[f"{measure}_mean"], row[f"{measure}_std"]) for row in own if row["algorithm"] == name]
        lines.append(Line(name, points))
    return Panel(display(network), lines)


def _draw(
    rows: list[Row], subtitle: str, *, title: str, x: tuple[str, str], measures: dict[str, str], log: bool = False
) -> bytes:
    """Draw a row of panels for each measure, a column for each network."""
    grid = {
        label: [_panel(rows, network, x[0], measure) for network in networks_of(rows)]
        for measure, label in measures.items()
    }
    return draw_panels(grid, title=title, subtitle=subtitle, x_label=x[1], log_y=log)


def _by_algorithm(rows: list[Row]) -> dict[str, list[Row]]:
    """Return the rows of each network and algorithm, by what a panel of them is called."""
    own: dict[str, list[Row]] = {}
    for row in rows:
        own.setdefault(f"{display(row['network'])}, {row['algorithm']}", []).append(row)
    return own


def _draw_curves(rows: list[Row], subtitle: str) -> bytes:
    """Draw a panel for each network and algorithm, with a line for each tree, which is named by its best count."""
    panels = []
    for name, own in _by_algorithm(rows).items():
        lines = []
        for tree in dict.fromkeys(row["tree"] for row in own):
            points = [(row["chunks"], row["time_s"], 0.0) for row in own if row["tree"] == tree]
            best = next(row["best_chunks"] for row in own if row["tree"] == tree)
            lines.append(Line(f"tree {tree}: best {best}", points, mark=best))
        panels.append(Panel(name, lines))
    title = "Fig. 9: time of a tree's reduction against its number of chunks"
    subtitle = f"the model, one network of skewness {INSTANCE_SKEW}; links in Hockney's model"
    grid = {f"{panel.title}: s": [panel._replace(title="")] for panel in panels}
    return draw_panels(grid, title=title, subtitle=subtitle, x_label="chunks", log_y=True)


def _draw_offsets(rows: list[Row], subtitle: str) -> bytes:
    panels = []
    for name, every in _by_algorithm(rows).items():
        own = [row for row in every if isinstance(row["offset"], int)]
        lines = [
            Line(named, [(row["offset"], row[f"{measure}_mean"], row[f"{measure}_std"]) for row in own], mark=0)
            for measure, named in {"reduce_s": "reduce", "all_reduce_s": "all-reduce"}.items()
        ]
        panels.append(Panel(name, lines))
    title = "Fig. 10: simulated time against an offset on every tree's best number of chunks (skewness 0.7)"
    x_label = "offset, chunks"
    return draw_panels({"completion time (s)": panels}, title=title, subtitle=subtitle, x_label=x_label)


_SKEW, _HEIGHT, _LIMIT = ("skew", "skewness"), ("height", "H, hops"), ("tree_limit", "K, trees")
_SHAPES = {"mean_height": "mean height", "mean_max_fanout": "mean largest fanout"}
_TIMES = {"reduce_s": "reduce (s)", "all_reduce_s": "all-reduce (s)"}
_THROUGHPUT = {"throughput": "normalised throughput"}


def _figure(
    title: str, paper: str, trials: Any, x: tuple[str, str], measures: dict[str, str], claim: Any, log: bool = False
) -> Figure:
    rows = partial(_rows, x=x[0], measures=tuple(measures))
    draw = partial(_draw, title=title, x=x, measures=measures, log=log)
    takes = ("trials", "skews") if x == _SKEW else ("trials",)
    return Figure(title, paper, NETWORKS, trials, rows, claim, draw, takes=takes)


FIGURES: dict[str, Figure] = {
    "fig6": _figure(
        "Fig. 6: normalised throughput against skewness",
        "MTree's highest throughput is above 0.8 and hardly falls with skewness. Blink, which rises with skewness (on "
        "IDN slightly), is significantly below it, and above TopoAdopt on GScale and Equinix. TopoAdopt falls, and "
        "reaches on GScale two to three times what it reaches on Equinix and IDN.",
        partial(_by_skew, _SHAPED),
        _SKEW,
        _THROUGHPUT,
        claims.fig6,
    ),
    "fig7": _figure(
        "Fig. 7: mean height and mean largest fanout of trees",
        "MTree's trees are lower than TopoAdopt's, lower than Blink's on IDN and about as low on GScale and Equinix. "
        "On GScale all largest fanouts lie within one of each other, but at skewness 0.1; on Equinix and IDN MTree's "
        "is the smallest from skewness 0.2 on.",
        partial(_by_skew, _SHAPED),
        _SKEW,
        _SHAPES,
        claims.fig7,
    ),
    "fig8": _figure(
        "Fig. 8: completion time of 1 GB",
        "Pipelined MTree is 2.0 to 12.4 times faster than Blink, PLink, TopoAdopt and PSLD, none of which pipelines; "
        "MTree without pipelining up to 6.0 and 3.8 times faster than TopoAdopt and Blink.",
        partial(_by_skew, _TIMED),
        _SKEW,
        _TIMES,
        claims.fig8,
        True,
    ),
    "fig9": Figure(
        "Fig. 9: model of a tree's time against its number of chunks",
        "Nine trees on an instance of Equinix with skewness 0.7, with various best numbers of chunks.",
        ("equinix-like",),
        _instance,
        _curve_rows,
        claims.fig9,
        _draw_curves,
        others=NETWORKS,
    ),
    "fig10": Figure(
        "Fig. 10: simulated time against an offset on the best number of chunks",
        "On an instance of Equinix with skewness 0.7 the time is least, about 20 s, at offset 0, and rises on both "
        "sides; with one chunk a tree it is about 43 s. Both times are consistent with those of Fig. 8.",
        ("equinix-like",),
        _offset_instances,
        _offset_rows,
        claims.fig10,
        _draw_offsets,
        others=NETWORKS,
        takes=("trials",),
    ),
    "fig11": _figure(
        "Fig. 11: number of trees against their height limit H (no limit on trees, skewness 0.7)",
        "The number of trees grows with H and then stays: 5 to 6 on GScale, 10 or fewer on the others.",
        _grown_by_height,
        _HEIGHT,
        {"trees": "trees"},
        claims.fig11,
    ),
    "fig12": _figure(
        "Fig. 12: normalised throughput against the height limit H (no limit on trees, skewness 0.7)",
        "Throughput rises with H, but hardly once H is 4 (GScale), 5 (Equinix), 6 (IDN).",
        _by_height,
        _HEIGHT,
        _THROUGHPUT,
        claims.fig12,
    ),
    "fig13": _figure(
        "Fig. 13: normalised throughput against K (skewness 0.7)",
        "Throughput rises with K; with at most 10 trees MTree uses 70 to 85 % of the capacity.",
        _by_limit,
        _LIMIT,
        _THROUGHPUT,
        claims.fig13,
    ),
}
