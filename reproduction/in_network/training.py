"""Makes figures 1 and 11 of the in-network paper: what all-reduces take of a training iteration, and what push gains.

Compute comes from the models of `treefold.training`, communication from the packet simulator. The paper's own model of
a Volta GPU is not public, so these figures stand beside the values that its text gives.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from reproduction.drawing.panels import Line, Panel, draw_panels
from reproduction.figures import Axis, Figure, Results, Row, Settings, networks_of, panel_of
from reproduction.in_network import training_claims as claims
from reproduction.in_network.training_trials import (
    ETHERNETS,
    GENERATIONS,
    NVLINK,
    PULL,
    PUSH,
    RINGS,
    SENTENCE,
    WORKLOADS,
    Gpus,
    Megatron,
    MessageSizes,
)
from treefold.training import load

_LINKS = (*ETHERNETS, NVLINK)
_SIZES = ("megatron-345m", "megatron-1.2b", "megatron-2.5b", "megatron-4.2b", "megatron-8.3b")

Draw = Callable[[list[Row], str], bytes]


def _gpus(settings: Settings) -> list[Gpus]:
    return [Gpus(network, algorithm) for network in settings.networks for algorithm in (RINGS, PUSH, PULL)]


def _ring_rows(results: Results) -> list[Row]:
    return [
        {"network": trial.network, **row, "share": row["communication_s"] / row["iteration_s"]}
        for trial, result in results
        for row in result["rows"]
        if (trial.algorithm, row["model"], row["overlap"]) == (RINGS, "transformer", "none")
    ]


_METHODS = {RINGS: "ring", PUSH: "push", PULL: "pull"}


def _speedup_rows(results: Results) -> list[Row]:
    """Return a row for each network, model, GPU and batch, with the times of ring, push and pull, and the speed-up.

    The better of one-shot and overlap counts, as in the paper.
    """
    times: dict[tuple[str, str, str, int], dict[str, float]] = {}
    for trial, result in results:
        for row in result["rows"]:
            how = "oneshot" if row["overlap"] == "none" else "overlap"
            key = (trial.network, row["model"], row["gpu"], row["batch"])
            times.setdefault(key, {})[f"{_METHODS[trial.algorithm]}_{how}_s"] = row["iteration_s"]
    return [
        {"network": network, "model": model, "gpu": gpu, "batch": batch, **each, "speedup": _speedup(each)}
        for (network, model, gpu, batch), each in times.items()
    ]


def _speedup_rows_of(results: Results, model: str, rival: str, key: str) -> list[Row]:
    """Return the rows of one model, each with the best speed-up that a rival has on the same network and GPU."""
    rows = _speedup_rows(results)
    best: dict[tuple[str, str], float] = {}
    for row in (row for row in rows if row["model"] == rival):
        place = (row["network"], row["gpu"])
        best[place] = max(best.get(place, 0.0), row["speedup"])
    return [row | {key: best[row["network"], row["gpu"]]} for row in rows if row["model"] == model]


def _speedup(times: Mapping[str, float]) -> float:
    ring, push = (min(times[f"{by}_oneshot_s"], times[f"{by}_overlap_s"]) for by in ("ring", "push"))
    return ring / push


def _draw_by_batch(
    rows: list[Row],
    subtitle: str,
    *,
    title: str,
    x: Axis,
    y: Axis,
    published: Mapping[str, float],
) -> bytes:
    """Draw a panel for each network, with a line for each GPU, and published values of NVLink as level lines."""
    panels = [
        panel_of(network, [row for row in rows if row["network"] == network], lambda row: str(row["gpu"]), x, y)
        for network in networks_of(rows)
    ]
    batches = [row["batch"] for row in rows]
    ends = (min(batches) / x.unit, max(batches) / x.unit)
    for panel in (panel for panel in panels if panel.title == NVLINK):
        for name, value in published.items():
            panel.lines.append(Line(name, [(end, value, 0.0) for end in ends], mark=-1.0))
    return draw_panels({y.label: panels}, title=title, subtitle=subtitle, x_label=x.label, log_x=True)


def _sizes(settings: Settings) -> list[MessageSizes]:
    return [MessageSizes(network, model) for network in settings.networks for model in WORKLOADS]


def _size_rows(results: Results) -> list[Row]:
    rows = []
    for trial, result in results:
        sizes = sorted(result["sizes_bytes"])
        row = {
            "network": trial.network,
            "model": trial.model,
            "messages": len(sizes),
            "total_bytes": sum(sizes),
            "mean_bytes": sum(sizes) / len(sizes),
            "median_bytes": sizes[len(sizes) // 2],
            "below_6MB": sum(size < 6e6 for size in sizes) / len(sizes),
            "sizes_bytes": " ".join(map(str, sizes)),
        }
        rows.append(row)
    return rows


def _draw_sizes(rows: list[Row], subtitle: str) -> bytes:
    """Draw the distribution of message sizes, a line for each model."""
    lines = []
    for row in rows:
        sizes = [int(size) / 1e6 for size in row["sizes_bytes"].split()]
        last = {size: place for place, size in enumerate(sizes, 1)}
        lines.append(Line(row["model"], [(size, 100 * place / len(sizes), 0.0) for size, place in last.items()]))
    lines.append(Line("paper: half of transformer's", [(6.0, 50.0, 0.0)]))
    title = "Fig. 1a: sizes of layer-wise all-reduces"
    panel = [Panel("", lines)]
    return draw_panels({"messages (%)": panel}, title=title, subtitle=subtitle, x_label="at most (MB)", log_x=True)


def _megatron(settings: Settings) -> list[Megatron]:
    return [
        Megatron(network, model, ranks, algorithm, gpu)
        for network in settings.networks
        for model in _SIZES
        for ranks in (2, 4, 8, 16)
        if _heads(model) % ranks == 0
        for gpu in (GENERATIONS if ranks == 16 else GENERATIONS[:1])
        for algorithm in (RINGS, PUSH)
    ]


def _heads(model: str) -> int:
    return next(layer.copies for layer in load(model).layers if layer.split == "heads")


def _megatron_rows(results: Results) -> list[Row]:
    return [
        {**trial._asdict(), **result, "share": result["communication_s"] / result["iteration_s"]}
        for trial, result in results
    ]


def _draw_megatron(rows: list[Row], subtitle: str) -> bytes:
    """Draw a panel for each algorithm, with a line for each model."""
    x, y = Axis("ranks", 1.0, "GPUs"), Axis("share", 0.01, "all-reduce (%)")
    today = [row for row in rows if row["gpu"] == "volta"]
    panels = [
        panel_of(name, [row for row in today if row["algorithm"] == algorithm], lambda row: str(row["model"]), x, y)
        for algorithm, name in ((PUSH, "in-network push"), (RINGS, "software's ring"))
    ]
    panels[1].lines.append(Line("paper: the largest, on 16", [(2.0, 30.0, 0.0), (16.0, 30.0, 0.0)], mark=16.0))
    title = "Fig. 1c: part of an iteration in all-reduces, model parallelism"
    return draw_panels({y.label: panels}, title=title, subtitle=subtitle, x_label=x.label, log_x=True)


_GPU = (
    "a roofline with tiles and waves for compute, launches of 6 us; software's ring takes 20 % of the compute beside it"
)


def _figure(
    title: str, paper: str, networks: Sequence[str], trials: Any, rows: Any, claim: Any, draw: Draw, setting: str = _GPU
) -> Figure:
    return Figure(title, paper, tuple(networks), trials, rows, claim, draw, setting)


def _fig11(letter: str, model: str, paper: str, claim: Any, x: Axis, rows: Any = _speedup_rows) -> Figure:
    title = f"Fig. 11{letter}: speed-up of push over software's ring, {model}"
    draw = partial(_draw_speedup, model=model, title=title, x=x)
    return _figure(title, paper, _LINKS, _gpus, rows, claim, draw)


def _draw_speedup(rows: list[Row], subtitle: str, *, model: str, title: str, x: Axis) -> bytes:
    own, y = [row for row in rows if row["model"] == model], Axis("speedup", 1.0, "times")
    return _draw_by_batch(own, subtitle, title=title, x=x, y=y, published={})


_BY_TOKENS = Axis("batch", 1 / SENTENCE, "tokens of a GPU")

FIGURES = {
    "fig1a": _figure(
        "Fig. 1a: sizes of layer-wise all-reduces",
        "ResNet-50: 50 MB, a message has 1 MB on average. Transformer: 420 MB, about 5 MB on average, half of all "
        "messages are smaller than 6 MB.",
        ("any",),
        _sizes,
        _size_rows,
        claims.fig1a,
        _draw_sizes,
        "gradients of 16 bits",
    ),
    "fig1b": _figure(
        "Fig. 1b: part of an iteration in all-reduces, Transformer",
        "On a DGX-2 with Volta up to 30 % of the time is spent in the all-reduce (ring, one-shot), with projected GPUs "
        "up to 42 %; on Ethernet communication dominates.",
        _LINKS,
        _gpus,
        _ring_rows,
        claims.fig1b,
        partial(
            _draw_by_batch,
            title="Fig. 1b: part of an iteration in all-reduces, Transformer",
            x=_BY_TOKENS,
            y=Axis("share", 0.01, "all-reduce (%)"),
            published={"paper: Volta, at most": 30.0, "paper: projected, at most": 42.0},
        ),
    ),
    "fig1c": _figure(
        "Fig. 1c: part of an iteration in all-reduces, model parallelism",
        "Measured on a DGX-2: the part grows with the model; the largest one on 16 GPUs spends about 30 % in "
        "all-reduces, of which in-network reduction would save half (VI-E): 15 % of the time, and more on future GPUs.",
        (NVLINK,),
        _megatron,
        _megatron_rows,
        claims.fig1c,
        _draw_megatron,
    ),
    "fig11a": _fig11(
        "a",
        "transformer",
        "Up to 1.4 times as fast on NVLink, about 1.8 times on Ethernet. With push, overlap always beats one-shot; "
        "with ring only above 640 tokens on Volta and above 5120 on Volta 4:1. In all models smaller batches and "
        "faster GPUs gain more, and pull is slightly slower than push.",
        claims.fig11_transformer,
        _BY_TOKENS,
    ),
    "fig11b": _fig11(
        "b",
        "resnet50",
        "Lower than Transformer's, because of the small model.",
        claims.fig11_resnet,
        Axis("batch", 1.0, "images of a GPU"),
        partial(_speedup_rows_of, model="resnet50", rival="transformer", key="transformers_best"),
    ),
    "fig11c": _fig11(
        "c",
        "bert-large",
        "Its text only says what holds for all models (fig. 11a).",
        claims.fig11_bert,
        Axis("batch", 1.0, "sentences of a GPU"),
        partial(_speedup_rows_of, model="bert-large", rival="resnet50", key="resnets_best"),
    ),
}
