"""Training time in both papers: Fig. 11 of MultiTree (ISCA 2021), Fig. 1 and 11 of in-network reduction (ISCA 2020).

Compute comes from the models of `treefold.training`, communication from the packet simulator. The in-network paper's
own model of a Volta GPU is not public, so figures 1 and 11 stand beside the values that its text gives.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from treefold.experiments import training_claims as claims
from treefold.experiments.figures import Figure, Results, Row, Settings, networks_of, panel_of
from treefold.experiments.training_trials import (
    ETHERNETS,
    NVLINK,
    PAPER_MODELS,
    PUSH,
    RINGS,
    WORKLOADS,
    Accelerators,
    Gpus,
    Megatron,
    MessageSizes,
)
from treefold.report.bars import Bar, draw_bars
from treefold.report.panels import Line, Panel, draw_panels
from treefold.training import load

_TORUS = "torus:8x8"
_LINKS = (*ETHERNETS, NVLINK)
_SIZES = ("megatron-345m", "megatron-1.2b", "megatron-2.5b", "megatron-4.2b", "megatron-8.3b")


def _accelerators(settings: Settings) -> list[Accelerators]:
    plain = ("ring", "dbtree", "ring2d", "multitree")
    return [
        Accelerators(network, *each)
        for network in settings.networks
        for each in (
            *((name, "packet", "bound") for name in plain),
            ("multitree", "message", "bound"),
            ("multitree", "packet", "shared"),
            ("multitree", "message", "shared"),
        )
    ]


def _accelerator_rows(results: Results, overlap: str) -> list[Row]:
    found = [
        {"network": trial.network, "algorithm": trial.name, **row}
        for trial, result in results
        for row in result["rows"]
        if row["overlap"] == overlap
    ]
    ring = {(row["network"], row["model"]): row for row in found if row["algorithm"] == "ring"}
    for row in found:
        rival = ring[row["network"], row["model"]]
        row["allreduce_speedup"] = rival["communication_s"] / row["communication_s"]
        row["iteration_over_ring"] = row["iteration_s"] / rival["iteration_s"]
    return found


def _draw_breakdown(title: str) -> Callable[[list[Row], str], bytes]:
    def draw(rows: list[Row], subtitle: str) -> bytes:
        networks = networks_of(rows)
        groups = {
            model if len(networks) == 1 else f"{model}\n{network}": [
                _bar(row) for row in rows if (row["network"], row["model"]) == (network, model)
            ]
            for network in networks
            for model in PAPER_MODELS
        }
        above = "" if rows[0]["overlap"] == "layer" else "; above: all-reduce speed-up"
        return draw_bars(groups, title=title, subtitle=f"{subtitle}{above}", y_label="iteration over ring's", top=2.0)

    return draw


def _bar(row: Row) -> Bar:
    """Return what an iteration is made of, over ring's."""
    scale = row["iteration_over_ring"] / row["iteration_s"]
    if row["overlap"] == "none":
        parts = {
            "compute": row["compute_s"],
            "local aggregation": row["local_aggregation_s"],
            "all-reduce": row["communication_s"],
        }
        note = f"{row['allreduce_speedup']:.1f}"
    else:
        overlapped = row["communication_s"] - row["exposed_communication_s"]
        parts = {
            "compute": row["compute_s"] + row["local_aggregation_s"] - overlapped,
            "overlapped": overlapped,
            "all-reduce": row["exposed_communication_s"],
        }
        note = ""
    return Bar(row["algorithm"], {part: seconds * scale for part, seconds in parts.items()}, note)


def _gpus(settings: Settings) -> list[Gpus]:
    return [Gpus(network, algorithm) for network in settings.networks for algorithm in (RINGS, PUSH)]


def _ring_rows(results: Results) -> list[Row]:
    return [
        {"network": trial.network, **row, "share": row["communication_s"] / row["iteration_s"]}
        for trial, result in results
        for row in result["rows"]
        if (trial.algorithm, row["model"], row["overlap"]) == (RINGS, "transformer", "none")
    ]


def _speedup_rows(model: str) -> Callable[[Results], list[Row]]:
    """Compare the best of one-shot and overlap, as the paper does."""

    def rows(results: Results) -> list[Row]:
        times: dict[tuple[str, str, str, int], dict[str, float]] = {}
        for trial, result in results:
            for row in result["rows"]:
                by = "ring" if trial.algorithm == RINGS else "push"
                how = "oneshot" if row["overlap"] == "none" else "overlap"
                key = (trial.network, row["model"], row["gpu"], row["batch"])
                times.setdefault(key, {})[f"{by}_{how}_s"] = row["iteration_s"]
        found: list[Row] = [
            {"network": network, "model": of, "gpu": gpu, "batch": batch, **each, "speedup": _speedup(each)}
            for (network, of, gpu, batch), each in times.items()
        ]
        best: dict[tuple[str, str], float] = {}
        for row in (row for row in found if row["model"] == "transformer"):
            place = (row["network"], row["gpu"])
            best[place] = max(best.get(place, 0.0), row["speedup"])
        own = [row for row in found if row["model"] == model]
        return [row | {"transformers_best": best[row["network"], row["gpu"]]} for row in own]

    return rows


def _speedup(found: dict[str, float]) -> float:
    ring, push = (min(found[f"{of}_oneshot_s"], found[f"{of}_overlap_s"]) for of in ("ring", "push"))
    return ring / push


def _by_batch(
    title: str,
    y: tuple[str, float],
    labels: tuple[str, str],
    samples: int = 1,
    published: Mapping[str, float] | None = None,
) -> Callable[[list[Row], str], bytes]:
    """Draw a panel for each network, with a line for each GPU, and published values of NVLink as level lines."""

    def draw(rows: list[Row], subtitle: str) -> bytes:
        axes = (("batch", 1 / samples), y)
        panels = [
            panel_of(network, [row for row in rows if row["network"] == network], lambda row: str(row["gpu"]), *axes)
            for network in networks_of(rows)
        ]
        ends = (min(row["batch"] for row in rows) * samples, max(row["batch"] for row in rows) * samples)
        for panel in (panel for panel in panels if panel.title == NVLINK):
            panel.lines.extend(
                Line(name, [(x, value, 0.0) for x in ends], mark=-1.0) for name, value in (published or {}).items()
            )
        return draw_panels({labels[1]: panels}, title=title, subtitle=subtitle, x_label=labels[0], log_x=True)

    return draw


def _sizes(settings: Settings) -> list[MessageSizes]:
    return [MessageSizes(network, model) for network in settings.networks for model in WORKLOADS]


def _size_rows(results: Results) -> list[Row]:
    rows = []
    for trial, result in results:
        sizes = sorted(result["sizes_bytes"])
        rows.append(
            {
                "network": trial.network,
                "model": trial.model,
                "messages": len(sizes),
                "total_bytes": sum(sizes),
                "mean_bytes": sum(sizes) / len(sizes),
                "median_bytes": sizes[len(sizes) // 2],
                "below_6MB": sum(size < 6e6 for size in sizes) / len(sizes),
                "sizes_bytes": " ".join(map(str, sizes)),
            }
        )
    return rows


def _draw_sizes(rows: list[Row], subtitle: str) -> bytes:
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
        Megatron(network, model, ranks, algorithm)
        for network in settings.networks
        for model in _SIZES
        for ranks in (2, 4, 8, 16)
        if _heads(model) % ranks == 0
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
    panels = [
        panel_of(
            title,
            [row for row in rows if row["algorithm"] == algorithm],
            lambda row: str(row["model"]),
            ("ranks", 1.0),
            ("share", 0.01),
        )
        for algorithm, title in ((PUSH, "in-network push"), (RINGS, "software's ring"))
    ]
    panels[1].lines.append(Line("paper: the largest, on 16", [(2.0, 30.0, 0.0), (16.0, 30.0, 0.0)], mark=16.0))
    title = "Fig. 1c: part of an iteration in all-reduces, model parallelism"
    return draw_panels({"all-reduce (%)": panels}, title=title, subtitle=subtitle, x_label="GPUs", log_x=True)


def _breakdown(title: str, paper: str, overlap: str, claim: Any) -> Figure:
    return Figure(
        title,
        paper,
        (_TORUS,),
        _accelerators,
        lambda results: _accelerator_rows(results, overlap),
        claim,
        _draw_breakdown(title),
        "the paper's models and Table III; larger all-reduces are interpolated (data.csv tells how well)",
        ("torus:4x4",),
    )


MULTITREE = {
    "fig11a": _breakdown(
        "Fig. 11a: an iteration without overlap",
        "Communication takes 30 to 88 % of ring's iteration. MultiTree's all-reduce is on average 2.2 times as fast as "
        "ring's and 1.51 times as fast as 2D-ring's (message-based 2.3 and 1.56 times). Training improves by up to 34 "
        "and 15 % on convolutional networks, by up to 81 and 30 % where communication dominates.",
        "none",
        claims.fig11a,
    ),
    "fig11b": _breakdown(
        "Fig. 11b: an iteration with layer-wise all-reduces",
        "Computation hides most of the communication of convolutional networks, where MultiTree improves training by "
        "up to 10 %; on NCF and Transformer it is 2 and 1.37 times as fast as ring and 2D-ring.",
        "layer",
        claims.fig11b,
    ),
}

_GPU = "a roofline for compute, launches of 6 us; software's ring takes 20 % of the compute beside it"


def _figure(
    title: str, paper: str, networks: Sequence[str], trials: Any, rows: Any, claim: Any, draw: Any, setting: str = _GPU
) -> Figure:
    return Figure(title, paper, tuple(networks), trials, rows, claim, draw, setting)


def _fig11(letter: str, model: str, paper: str, claim: Any, label: str, samples: int = 1) -> Figure:
    title = f"Fig. 11{letter}: speed-up of push over software's ring, {model}"
    draw = _by_batch(title, ("speedup", 1.0), (label, "times"), samples)
    return _figure(title, paper, _LINKS, _gpus, _speedup_rows(model), claim, draw)


IN_NETWORK = {
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
        _by_batch(
            "Fig. 1b: part of an iteration in all-reduces, Transformer",
            ("share", 0.01),
            ("tokens of a GPU", "all-reduce (%)"),
            80,
            {"paper: Volta, at most": 30.0, "paper: projected, at most": 42.0},
        ),
    ),
    "fig1c": _figure(
        "Fig. 1c: part of an iteration in all-reduces, model parallelism",
        "Measured on a DGX-2: the part grows with the model; the largest one on 16 GPUs spends about 30 % in "
        "all-reduces, of which in-network reduction would save half (VI-E).",
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
        "with ring only above 640 tokens on Volta and above 5120 on Volta 4:1.",
        claims.fig11_transformer,
        "tokens of a GPU",
        80,
    ),
    "fig11b": _fig11(
        "b",
        "resnet50",
        "Lower than Transformer's, because of the small model; larger for smaller batches and faster GPUs.",
        claims.fig11_other,
        "images of a GPU",
    ),
    "fig11c": _fig11(
        "c",
        "bert-large",
        "Larger for smaller batches and faster GPUs.",
        claims.fig11_other,
        "sentences of a GPU",
    ),
}
