"""The command `reproduce`."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from treefold import checks
from treefold.cli.groups import expanded
from treefold.cli.options import Json
from treefold.cli.terminal import notify, print_lines, show, track
from treefold.errors import TreefoldError
from treefold.report import claims_table, key_values
from treefold.text import visible


@dataclass(frozen=True, kw_only=True)
class FigureOptions:
    """The options of figures."""

    trials: Annotated[
        int,
        typer.Option(
            help="The number of random networks of each setting, in the figures of mtree that use random networks."
        ),
    ] = 20
    networks: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="The networks to use, for example b4,idn-like (mtree), torus:4x4 (multitree) or dgx2:planes=6 "
            "(in-network); by default all networks of the figure.",
        ),
    ] = None
    skews: Annotated[
        str, typer.Option(metavar="LIST", help="The values of skew to use, in figures 6 to 8 of mtree.")
    ] = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9"
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZES",
            help="The sizes of the vector to use, for example 32KiB:2MiB or 1MiB,3MiB; by default those of the "
            "figure. A figure with fixed sizes refuses this option.",
        ),
    ] = None
    jobs: Annotated[int | None, typer.Option(help="How many processes to use; by default one per core.")] = None


Folder = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        help="The folder for the figure's files; by default reproduction/results/FIGURE in the current folder.",
    ),
]


@expanded
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="FIGURE", help="A figure such as mtree/fig6, or mtree for the whole paper; without it, list all."
        ),
    ] = None,
    output: Folder = None,
    *,
    options: FigureOptions,
    as_json: Json = False,
) -> None:
    """Reproduce a figure of a paper, and check its claims.

    It writes the figure's data and a picture. Finished trials are kept in the folder (trials.jsonl): after an
    interrupt, the same command goes on where it stopped.

    The figures are part of treefold's repository, not of an installed package: the command works in a clone, and
    anywhere if treefold is an editable install of one.

    Examples:
    treefold reproduce
    treefold reproduce multitree/fig9 --networks torus:4x4,torus:8x8 --sizes 32KiB:2MiB -o figure
    treefold reproduce mtree/fig6 --networks b4 --skews 0.1,0.5 --trials 5 -o figure

    """
    from treefold.checkout import import_reproduction

    reproduction = import_reproduction()
    if name is None:
        titles = {each: figure.title for each, figure in reproduction.figures().items()}
        show(titles, as_json, lambda: key_values(titles))
        return
    networks = tuple(reproduction.split_networks(options.networks)) if options.networks else ()
    sizes = tuple(checks.sizes(options.sizes)) if options.sizes else ()
    settings = reproduction.Settings(options.trials, networks, _skews(options.skews, reproduction.are_skews), sizes)
    jobs = os.cpu_count() or 1 if options.jobs is None else options.jobs
    done = []
    for each in reproduction.named(name):
        unused = reproduction.misfits(settings, reproduction.figures()[each])
        if unused and each != name:
            notify(f"{each} is skipped, because it does not take {' and '.join(unused)}")
            continue
        folder = output if output is None or each == name else output / each.partition("/")[2]
        reproduced = reproduction.reproduce(each, settings, folder, jobs, partial(track, description=each))
        done.append(reproduction.summary(reproduced))
        if not as_json:
            print_lines(f"{each}, in {visible(done[-1]['folder'])}")
            print_lines(f"{claims_table(done[-1]['claims'])}\n")
    if as_json:
        print_lines(json.dumps(done[0] if done[0]["figure"] == name else done))


def _skews(text: str, are_skews: Callable[[tuple[float, ...]], bool]) -> tuple[float, ...]:
    with suppress(ValueError):
        skews = tuple(float(part) for part in text.split(","))
        if are_skews(skews):
            return skews
    raise TreefoldError(f"--skews '{text}' is not a list of numbers from 0 to 1; write for example 0.1,0.5")
