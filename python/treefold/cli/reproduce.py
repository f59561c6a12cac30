"""The command `reproduce`."""

import json
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from treefold.cli.groups import expanded
from treefold.cli.options import Json, parse_sizes
from treefold.cli.terminal import say, show, tell, track
from treefold.errors import TreefoldError
from treefold.report import claims_table, key_values
from treefold.text import visible


@dataclass(frozen=True, kw_only=True)
class FigureOptions:
    """What of a figure is computed."""

    trials: Annotated[
        int, typer.Option(help="How many networks are drawn for each setting. Only figures of mtree draw networks.")
    ] = 20
    networks: Annotated[
        str | None,
        typer.Option(
            help="Which of the figure's networks are used, such as b4,idn-like (mtree), torus:4x4,torus:8x8 "
            "(multitree) or dgx2:planes=6 (in-network). By default all of them are used."
        ),
    ] = None
    skews: Annotated[
        str, typer.Option(help="Which values of skewness are used. Only figures of mtree vary the skewness.")
    ] = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9"
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Which sizes of vectors are used: 32KiB:2MiB. Some figures of multitree and in-network take it; "
            "others have their own sizes and say so."
        ),
    ] = None
    jobs: Annotated[
        int | None, typer.Option(help="How many processes run trials side by side; by default one for each core.")
    ] = None


@expanded
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(help="A figure such as mtree/fig6, or mtree for all of that paper; left out, all are listed."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The folder for its files; by default reproduction/results/NAME."),
    ] = None,
    *,
    options: FigureOptions,
    as_json: Json = False,
) -> None:
    """Reproduce a figure of a paper: its data, a picture, and how the paper's claims fare.

    The figures are part of treefold's repository and not of an installed package: run this in a clone.

    Examples:
    treefold reproduce
    treefold reproduce multitree/fig9 --networks torus:4x4 --sizes 32KiB:2MiB -o figure

    """
    from treefold.checkout import import_reproduction

    reproduction = import_reproduction()
    if name is None:
        titles = {each: figure.title for each, figure in reproduction.figures().items()}
        show(titles, as_json, lambda: key_values(titles))
        return
    networks = tuple(reproduction.split_networks(options.networks)) if options.networks else ()
    sizes = tuple(parse_sizes(options.sizes)) if options.sizes else ()
    settings = reproduction.Settings(options.trials, networks, _numbers(options.skews), sizes)
    jobs = os.cpu_count() or 1 if options.jobs is None else options.jobs
    done = []
    for each in reproduction.named(name):
        if settings.sizes and each != name and not reproduction.figures()[each].has_sizes:
            tell(f"{each} has its own sizes: skipped")
            continue
        folder = output if output is None or each == name else output / each.partition("/")[2]
        reproduced = reproduction.reproduce(each, settings, folder, jobs, partial(track, description=each))
        done.append(reproduction.summary(reproduced))
        if not as_json:
            say(f"{each}, in {visible(done[-1]['folder'])}")
            say(f"{claims_table(done[-1]['claims'])}\n")
    if as_json:
        say(json.dumps(done[0] if done[0]["figure"] == name else done))


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise TreefoldError(f"numbers '{text}': write them with commas between, for example 0.1,0.5") from None
