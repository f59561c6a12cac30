"""The command `train`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from treefold.cli.compare import check_plot
from treefold.cli.groups import completing, expanded
from treefold.cli.options import Algorithms, Json, Network, NetworkOptions, PlannerOptions, SimulatorOptions
from treefold.cli.terminal import check_alone, show_rows, working
from treefold.comparison import Interrupted
from treefold.files.writing import check_writable, write_bytes_atomically, write_text_atomically
from treefold.report import plot_format, plot_timelines, train_table
from treefold.training.chrome import to_chrome
from treefold.training.iteration import train as predict
from treefold.training.models import MODELS
from treefold.training.options import TrainingOptions
from treefold.training.results import TrainingIteration, TrainingReport

_NOTE = "\n# --accelerator is {} by default; for others write for example --accelerator a100"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of `train` beside the recipe."""

    algorithms: Algorithms = None
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=SHAPE[:TYPE]",
            help="An input of a PyTorch module for one sample, without the batch, for example x=3x224x224, or "
            "tokens=128:int64 (float32 if no type is given); may be repeated.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Report:
    """The options for output of `train`."""

    plot: Annotated[Path | None, typer.Option(help="Also draw the timelines to this file, .png, .svg or .pdf.")] = None
    trace: Annotated[
        Path | None, typer.Option(help="Also write the timelines to this file, as a Chrome trace for Perfetto.")
    ] = None
    as_json: Json = False


@expanded
def train(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="The model to train: a name, a file of layers, or my_module:build.",
            autocompletion=completing(MODELS),
        ),
    ],
    network: Network,
    *,
    asked: Asked,
    shown: Report,
    training: TrainingOptions,
    planner: PlannerOptions,
    simulator: SimulatorOptions,
    network_options: NetworkOptions,
) -> None:
    """Predict the time of a training iteration with each algorithm."""
    if shown.plot is not None:
        check_plot(shown.plot)
    check_alone(shown.trace, shown.as_json)
    if shown.trace is not None:
        check_writable(shown.trace)
    loaded = network_options.load(network)

    def table(rows: Sequence[TrainingIteration]) -> str:
        note = "" if training.accelerator else _NOTE.format(rows[0].accelerator)
        return train_table(rows) + note

    try:
        with working("training"):
            report = predict(
                model,
                loaded,
                asked.algorithms,
                simulator=simulator.asked().named,
                link_model=simulator.link_model,
                inputs=asked.inputs or (),
                **vars(training),
                **planner.asked(),
            )
    except Interrupted as stop:
        show_rows(TrainingReport(stop.rows), shown.as_json, table)
        raise
    if shown.plot is not None:
        write_bytes_atomically(shown.plot, plot_timelines(report, format=plot_format(shown.plot)))
    if shown.trace is not None:
        write_text_atomically(shown.trace, to_chrome({each.algorithm: each.timeline for each in report}))
    show_rows(report, shown.as_json, table, shown.trace)


train.__doc__ = f"""Predict the time of a training iteration.

One prediction is made for each algorithm, and '*' marks the fastest. The table says what speed-ups are over: the first
algorithm that you name; if you name none, nccl if it is among those that fit, and otherwise the first of them.

MODEL is one of {", ".join(MODELS)}; or a file of layers (.json, or .csv as SCALE-Sim has it); or my_module:build, a
function of your own that returns a torch.nn.Module. NAME:paper is the variant of NAME that the MultiTree paper trained;
alexnet:paper, for example, has only the convolutions.

Examples:
treefold train resnet50 torus:8x8 -a ring,multitree
treefold train bert-large dgx2:planes=6 --accelerator volta --overlap bucket --plot bert.svg
treefold train my_module:build cluster --sharding fsdp
treefold train megatron-8.3b cluster --accelerator h100 --model-parallel 8 --batch 8 --accumulate 8
"""
