"""The command `draw`: a network, or what a plan sends over it, as a picture for a paper."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from treefold import drawing, plans
from treefold._core import Plan, Topology
from treefold.cli.compare import check_plot
from treefold.cli.groups import expanded, flags_given
from treefold.cli.options import NetworkOptions, PlannerOptions, PlanOptions
from treefold.cli.terminal import notify, working
from treefold.errors import TreefoldError
from treefold.files.plans import is_plan_file, load_plan
from treefold.files.writing import write_bytes_atomically
from treefold.report import plot_format
from treefold.report.looks import MOST_COLOURED


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a picture shows; None if it is not said."""

    tree: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help=f"Draw only these trees of the plan, by number from 0, such as 3 or 0-2,5; at most "
            f"{MOST_COLOURED}, but for --step and --loads.",
        ),
    ] = None
    step: Annotated[
        int | None,
        typer.Option(help="Draw the transfers of this step, from 1, as arrows in the colours of their trees."),
    ] = None
    phase: Annotated[
        int | None,
        typer.Option(help="Draw only the trees of this phase, from 0; with --step by default the first one."),
    ] = None
    loads: Annotated[
        bool,
        typer.Option("--loads", help="Draw how long each link is busy, as a share of the busiest one."),
    ] = False
    limit: Annotated[
        bool,
        typer.Option("--limit", help="Draw the links that bound the rate of the collective, and the rate."),
    ] = False

    def is_of_plan(self) -> bool:
        """Return whether a plan is needed for it."""
        return self.loads or any(each is not None for each in (self.tree, self.step, self.phase))


@expanded
def draw(
    source: Annotated[str, typer.Argument(metavar="NETWORK|PLAN.json", help="A network, or the file of a plan.")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="Draw to this file: .svg, .pdf or .png.")],
    shown: Shown,
    what: PlanOptions,
    planner: PlannerOptions,
    network_options: NetworkOptions,
) -> None:
    """Draw a network, or what a plan sends over it, for a paper.

    A network is drawn alone, with bandwidths as widths. Of a plan all trees are drawn, each in its colour; if there are
    more than 8, the loads of links instead. A NETWORK is planned on if an option of a plan is given, such as -a.

    Examples:
    treefold draw torus:4x4 -o torus.pdf
    treefold draw b4 -a packing -o trees.svg
    treefold draw torus:4x4 -a multitree --step 2 -o step.pdf
    treefold draw b4 --limit -o limit.pdf

    """
    check_plot(output)
    tree = None if shown.tree is None else _numbers(shown.tree)
    drawn = _drawn(source, shown, what, planner, network_options)
    with working("drawing"):
        picture = drawing.draw(
            drawn,
            tree=tree,
            step=shown.step,
            phase=shown.phase,
            loads=shown.loads,
            limit=shown.limit,
            format=plot_format(output),
        )
    write_bytes_atomically(output, picture)
    notify(f"wrote {output}")


def _drawn(
    source: str, shown: Shown, what: PlanOptions, planner: PlannerOptions, network_options: NetworkOptions
) -> Plan | Topology:
    """Return the plan of a file, a network, or a plan for it if anything of a plan is asked for."""
    if is_plan_file(source):
        if given := flags_given(what, planner, network_options):
            raise TreefoldError(f"{source} is already a plan; drop {', '.join(given)}")
        return load_plan(source)
    network = network_options.load(source)
    if not (shown.is_of_plan() or flags_given(what, planner)):
        return network
    with working("planning"):
        return plans.plan(network, **what.asked(), **planner.asked())


def _numbers(text: str) -> list[int]:
    """Return the numbers of a list such as `0-2,5`."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = (each.strip() for each in part.partition("-"))
        numbers = (first, last) if dash else (first, first)
        if not all(each.isdecimal() and each.isascii() for each in numbers):
            raise TreefoldError(f"--tree {text}: '{part}' is no number of a tree; write for example 3 or 0-2,5")
        low, high = int(numbers[0]), int(numbers[1])
        if low > high or high - low > drawing.MOST_TREES:
            raise TreefoldError(f"--tree {text}: '{part}' is no range of trees; write for example 0-2,5")
        found += range(low, high + 1)
    return found
