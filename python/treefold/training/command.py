"""The command `treefold train`."""

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
from treefold.training.gpu import OPTIMIZERS
from treefold.training.iteration import ACCELERATORS, ASSUMED, BATCH, PARALLELISMS, Trained, train_and_trace
from treefold.training.models import MODELS
from treefold.training.program import OVERLAPS
from treefold.training.trace import to_chrome


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
    accelerator: Annotated[
        str | None,
        typer.Option(
            help=f"What computes: {', '.join(ACCELERATORS)}; by default {ASSUMED}.",
            autocompletion=completing(ACCELERATORS),
        ),
    ] = None,
    batch: Annotated[
        int, typer.Option(help="How many samples a rank has (all ranks together, with model parallelism).")
    ] = BATCH,
    overlap: Annotated[str, typer.Option(help=f"When gradients are added: {', '.join(OVERLAPS)}.")] = "none",
    bucket: Annotated[
        str | None,
        typer.Option(help="How many gradients go together with --overlap bucket; by default 25MiB, first 1MiB."),
    ] = None,
    optimizer: Annotated[
        str | None,
        typer.Option(help=f"The optimizer: {', '.join(OPTIMIZERS)}; by default adam, which systolic gets for free."),
    ] = None,
    sharded: Annotated[
        bool, typer.Option("--sharded", help="Let each rank update a share of the parameters, and gather the others'.")
    ] = False,
    parallelism: Annotated[str, typer.Option(help=f"The parallelism: {', '.join(PARALLELISMS)}.")] = "data",
    gradient_bytes: Annotated[
        int | None, typer.Option(help="How many bytes a gradient has; by default 4 (systolic) or 2 (GPUs).")
    ] = None,
    stolen: Annotated[
        float | None,
        typer.Option(help="Which part of the compute an all-reduce in software takes; by default 0 (systolic) or 0.2."),
    ] = None,
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
            trained = train_and_trace(
                model,
                loaded,
                algorithms,
                accelerator=accelerator or ASSUMED,
                batch=batch,
                overlap=overlap,
                bucket_bytes=None if bucket is None else _core.parse_size(bucket),
                optimizer=optimizer,
                sharded=sharded,
                parallelism=parallelism,
                gradient_bytes=gradient_bytes,
                stolen=stolen,
                simulator=simulator,
                link_model=link_model,
                machine=machine,
                inputs=inputs or (),
            )
    except verbs.Interrupted as stop:
        _show([each.row for each in stop.rows], accelerator, as_json)
        raise
    rows = [each.row for each in trained]
    if plot is not None:
        _draw(plot, trained, f"{rows[0]['model']} on {loaded.name}")
    if trace is not None:
        write_text_atomically(trace, to_chrome({each.row["algorithm"]: each.timeline for each in trained}))
    _show(rows, accelerator, as_json, trace)


def _show(rows: list[dict[str, Any]], accelerator: str | None, as_json: bool, written: Path | None = None) -> None:
    assumed = f"\n# {ASSUMED} was assumed, as no --accelerator was given; for GPUs write for example --accelerator h100"
    show_rows(rows, as_json, lambda rows: train_table(rows) + ("" if accelerator else assumed), written)


train.__doc__ = f"""Predict the time of a training iteration with each algorithm; '*' marks the fastest.

MODEL is one of {", ".join(MODELS)}; a file of layers (.csv as SCALE-Sim's, .json); or my_module:build, a function
that returns a torch.nn.Module.
"""


def _draw(path: Path, trained: list[Trained], title: str) -> None:
    spans = {}
    for row, timeline in trained:
        mark = " *" if row["winner"] else ""
        spans[f"{row['algorithm']}{mark}\n{format_time(timeline.iteration_s)}"] = timeline.spans
    subtitle = training_facts([each.row for each in trained]).partition(": ")[2]
    write_bytes_atomically(path, plot_timelines(spans, title=title, subtitle=subtitle, format=plot_format(path)))
