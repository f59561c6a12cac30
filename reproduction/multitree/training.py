"""Makes figure 11 of the MultiTree paper: what an iteration of training is made of, with and without overlap.

Compute comes from the models of `treefold.training`, communication from the packet simulator.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from reproduction.drawing.bars import Bar, draw_bars
from reproduction.figures import Figure, Results, Row, Settings, networks_of
from reproduction.multitree import training_claims as claims
from reproduction.multitree.machines import MACHINES
from reproduction.multitree.training_trials import MODELS, Accelerators
from reproduction.multitree.trials import FlowControl, Interfaces

_VARIANTS: tuple[tuple[str, FlowControl], ...] = (
    ("ring", "packet"),
    ("dbtree", "packet"),
    ("ring2d", "packet"),
    ("multitree", "packet"),
    ("multitree", "message"),
    ("ring", "message"),
    ("dbtree", "message"),
    ("ring2d", "message"),
)
"""Each variant is an algorithm and its flow control. The paper draws the first five, and has a sentence on the rest."""


def _trials(settings: Settings) -> list[Accelerators]:
    return [
        Accelerators(network, *variant, interfaces)
        for network in settings.networks
        for interfaces in MACHINES
        for variant in _VARIANTS
    ]


def _rows(results: Results, overlap: str) -> list[Row]:
    """Return the rows of one kind of overlap, with the ring's on the same machine as the measure."""
    rows = [
        {"network": trial.network, "interfaces": trial.ni, "algorithm": trial.name, **row}
        for trial, result in results
        for row in result["rows"]
        if row["overlap"] == overlap
    ]
    keys = ("network", "interfaces", "model")
    ring = {tuple(row[key] for key in keys): row for row in rows if row["algorithm"] == "ring"}
    for row in rows:
        rival = ring[tuple(row[key] for key in keys)]
        row["allreduce_speedup"] = rival["communication_s"] / row["communication_s"]
        row["iteration_over_ring"] = row["iteration_s"] / rival["iteration_s"]
    return rows


def _draw(rows: list[Row], subtitle: str, *, title: str) -> bytes:
    """Draw a group of bars for each model on each machine; all bars of a group run on the same machine."""
    networks = networks_of(rows)
    rows = [row for row in rows if row["algorithm"] in claims.SHOWN]
    groups = {
        _group(model, interfaces, network if len(networks) > 1 else ""): [
            _bar(row)
            for row in rows
            if (row["network"], row["interfaces"], row["model"]) == (network, interfaces, model)
        ]
        for network in networks
        for interfaces in MACHINES
        for model in MODELS
    }
    above = "" if rows[0]["overlap"] == "layer" else "; above: all-reduce speed-up"
    return draw_bars(groups, title=title, subtitle=f"{subtitle}{above}", y_label="iteration over ring's", top=2.0)


def _group(model: str, interfaces: Interfaces, network: str) -> str:
    """Return the label of a group of bars."""
    rule = "any free" if interfaces == "shared" else "ports bound"
    return "\n".join(filter(None, (model, rule, network)))


def _bar(row: Row) -> Bar:
    """Return the bar of an iteration, whose parts are measured by the ring's whole iteration."""
    scale = row["iteration_over_ring"] / row["iteration_s"]
    is_overlapped = row["overlap"] != "none"
    parts = _overlapped_parts(row) if is_overlapped else _serial_parts(row)
    note = "" if is_overlapped else f"{row['allreduce_speedup']:.1f}"
    return Bar(row["algorithm"], {part: seconds * scale for part, seconds in parts.items()}, note)


def _serial_parts(row: Row) -> Mapping[str, float]:
    return {
        "compute": row["compute_s"],
        "local aggregation": row["local_aggregation_s"],
        "all-reduce": row["communication_s"],
    }


def _overlapped_parts(row: Row) -> Mapping[str, float]:
    overlapped = row["communication_s"] - row["exposed_communication_s"]
    return {
        "compute": row["compute_s"] + row["local_aggregation_s"] - overlapped,
        "overlapped": overlapped,
        "all-reduce": row["exposed_communication_s"],
    }


def _figure(title: str, paper: str, overlap: str, claim: Callable[[list[Row]], Any]) -> Figure:
    return Figure(
        title,
        paper,
        ("torus:8x8",),
        _trials,
        partial(_rows, overlap=overlap),
        claim,
        partial(_draw, title=title),
        "the paper's models and Table III; large all-reduces are interpolated (data.csv tells how well)",
        ("torus:4x4",),
    )


FIGURES = {
    "fig11a": _figure(
        "Fig. 11a: an iteration without overlap",
        "Communication takes 30 to 88 % of ring's iteration. MultiTree's all-reduce is on average 2.2 times as fast as "
        "ring's and 1.51 times as fast as 2D-ring's (message-based 2.3 and 1.56 times, a gain of 6 %, which the others "
        "could have, too). Training improves by up to 34 and 15 % on convolutional networks, by up to 81 and 30 % "
        "where communication dominates.",
        "none",
        claims.fig11a,
    ),
    "fig11b": _figure(
        "Fig. 11b: an iteration with layer-wise all-reduces",
        "Computation hides most of the communication of convolutional networks, where MultiTree improves training by "
        "up to 10 %, and 2D-ring is similar with more overlap. On NCF and Transformer it hides a small amount, and "
        "MultiTree is 2 and 1.37 times as fast as ring and 2D-ring.",
        "layer",
        claims.fig11b,
    ),
}
