"""The command `treefold train`."""

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from treefold import _core, verbs
from treefold._core import format_time
from treefold.arguments import (
    Algorithms,
    Bandwidth,
    Json,
    Latency,
    NodeCap,
    RankOrder,
    Ranks,
    check_plot,
    completing,
    load,
    with_machine,
)
from treefold.files.writing import check_writable, write_bytes_atomically, write_text_atomically
from treefold.machine import Machine
from treefold.report import plot_format, plot_timelines, train_table
from treefold.report.tables import training_facts
from treefold.terminal import check_alone, show_rows, status
from treefold.training.accelerators import ASSUMED
from treefold.training.chrome import to_chrome
from treefold.training.iteration import train as predict
from treefold.training.models import MODELS
from treefold.training.options import TrainingOptions
from treefold.training.results import TrainingIteration, TrainingReport

_FIELDS = {each.name: each for each in fields(TrainingOptions)}
_DEFAULT = TrainingOptions()
_NOTE = f"{ASSUMED} was assumed, as no --accelerator was given; for GPUs write for example --accelerator h100"


def _option(name: str) -> Any:
    """Return the option of a field of `TrainingOptions`."""
    metadata = _FIELDS[name].metadata
    completion = completing(metadata["values"]) if metadata["values"] else None
    flags = [metadata["flag"]] if metadata["flag"] else []
    return typer.Option(*flags, help=metadata["help"], autocompletion=completion)


@with_machine
def train(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="The model: a name, a file of layers, or my_module:build.",
            autocompletion=completing(MODELS),
        ),
    ],
    network: Annotated[
        str, typer.Argument(metavar="TOPOLOGY", help="The network: a file, or a spec such as torus:8x8.")
    ],
    algorithms: Algorithms = None,
    accelerator: Annotated[str | None, _option("accelerator")] = None,
    batch: Annotated[int, _option("batch")] = _DEFAULT.batch,
    overlap: Annotated[str, _option("overlap")] = _DEFAULT.overlap,
    bucket: Annotated[str | None, _option("bucket_bytes")] = None,
    optimizer: Annotated[str | None, _option("optimizer")] = None,
    sharded: Annotated[bool, _option("sharded")] = False,
    parallelism: Annotated[str, _option("parallelism")] = _DEFAULT.parallelism,
    gradient_bytes: Annotated[int | None, _option("gradient_bytes")] = None,
    compute_overhead: Annotated[float | None, _option("compute_overhead")] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", metavar="NAME=SHAPE", help="The inputs of a PyTorch module: x=3x224x224, tokens=128:int64."
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the timelines to this file, too: .png or .svg.")] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write the timelines to this file, too, as a Chrome trace for Perfetto.")
    ] = None,
    simulator: Annotated[
        str | None,
        typer.Option("--model", help=f"The simulator: {', '.join(verbs.MODELS)}; by default the first that can."),
    ] = None,
    link_model: Annotated[
        str, typer.Option(help=f"What latency does: {', '.join(verbs.LINK_MODELS)}; see treefold simulate --help.")
    ] = "propagation",
    bandwidth: Bandwidth = None,
    latency: Latency = None,
    node_cap: NodeCap = None,
    ranks: Ranks = None,
    rank_order: RankOrder = None,
    as_json: Json = False,
    machine: Machine | None = None,
) -> None:
    """Predict the time of a training iteration with each algorithm; '*' marks the fastest."""
    if plot is not None:
        check_plot(plot)
    check_alone(trace, as_json)
    if trace is not None:
        check_writable(trace)
    loaded = load(network, bandwidth, latency, node_cap, ranks, rank_order)
    try:
        with status("training"):
            report = predict(
                model,
                loaded,
                algorithms,
                accelerator=accelerator,
                batch=batch,
                overlap=overlap,
                bucket_bytes=None if bucket is None else _core.parse_size(bucket),
                optimizer=optimizer,
                sharded=sharded,
                parallelism=parallelism,
                gradient_bytes=gradient_bytes,
                compute_overhead=compute_overhead,
                simulator=simulator,
                link_model=link_model,
                machine=machine,
                inputs=inputs or (),
            )
    except verbs.Interrupted as stop:
        _show(stop.rows, accelerator, as_json)
        raise
    if plot is not None:
        _draw(plot, report, f"{report[0].model} on {loaded.name}")
    if trace is not None:
        write_text_atomically(trace, to_chrome({each.algorithm: each.timeline for each in report}))
    _show(report, accelerator, as_json, trace)


def _show(
    iterations: Iterable[TrainingIteration], accelerator: str | None, as_json: bool, written: Path | None = None
) -> None:
    rows = [each.as_dict() for each in iterations]
    show_rows(rows, as_json, lambda rows: train_table(rows) + ("" if accelerator else f"\n# {_NOTE}"), written)


train.__doc__ = f"""Predict the time of a training iteration with each algorithm; '*' marks the fastest.

MODEL is one of {", ".join(MODELS)}; a file of layers (.csv as SCALE-Sim's, .json); or my_module:build, a function
that returns a torch.nn.Module.
"""


def _draw(path: Path, report: TrainingReport, title: str) -> None:
    bars = {}
    for each in report:
        mark = " *" if each.winner else ""
        bars[f"{each.algorithm}{mark}\n{format_time(each.iteration_s)}"] = each.timeline.activities
    subtitle = training_facts(report.rows()).partition(": ")[2]
    write_bytes_atomically(path, plot_timelines(bars, title=title, subtitle=subtitle, format=plot_format(path)))
