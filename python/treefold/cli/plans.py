"""The commands `plan` and `check`."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from treefold import _core, auto, checks, networks, planning, plans, simulation
from treefold.checks import DEFAULT_SIZE_BYTES
from treefold.cli.groups import completing, expanded
from treefold.cli.options import Json, Network, NetworkOptions, PlannerOptions, PlanOptions, one_algorithm
from treefold.cli.terminal import check_alone, show, working
from treefold.errors import TreefoldError
from treefold.files.plans import check_plan_writable, load_plan, save_plan
from treefold.planning.request import read_options
from treefold.regions import LINE_BYTES, Region, switch_tables
from treefold.report import plan_table, replan_table, schedule_table, switch_table


@dataclass(frozen=True, kw_only=True)
class Report:
    """The options for output of `plan`."""

    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the plan to this file, .json.")] = None
    tables: Annotated[
        bool, typer.Option("--tables", help="Also show each rank's schedule table and the memory that it takes.")
    ] = False
    region: Annotated[
        list[str] | None,
        typer.Option(
            metavar="START:SIZE[:LIST]",
            help="Also show the switch tables of a region: where each switch forwards the packets of a range of "
            f"addresses that accelerators share. It has a START (a multiple of {LINE_BYTES}), a SIZE, and a LIST of "
            "two or more accelerators by name or by index (by default all ranks), for example 0x0:1MiB:0-7. Each "
            f"region gets a plan of its own by the same algorithm, which must be {planning.reducers()}: name "
            "it with -a. May be repeated.",
        ),
    ] = None
    as_json: Json = False


PlannedSize = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Optimize the plan for a vector of this size; it runs at any size. By default "
        f"{_core.format_size(DEFAULT_SIZE_BYTES)}, or that of the largest vector with --blocks.",
    ),
]


@expanded
def plan(
    network: Network,
    *,
    what: PlanOptions,
    size: PlannedSize = None,
    simulator: Annotated[
        str | None,
        typer.Option(
            help="The simulator with which auto compares plans: analytic (the default), flow or packet. "
            "packet would be too slow: auto then compares with flow, and only plans that the packet simulator can run.",
            autocompletion=completing(simulation.SIMULATORS),
        ),
    ] = None,
    shown: Report,
    planner: PlannerOptions,
    network_options: NetworkOptions,
) -> None:
    """Plan a collective: which data take which links, and when.

    Examples:
    treefold plan torus:8x8 -a multitree -o plan.json
    treefold plan b4 --trees 4
    treefold plan dgx2:planes=6 -a innet-push --region 0x0:1MiB:0-7

    """
    check_alone(shown.output, shown.as_json)
    if shown.output is not None:
        check_plan_writable(shown.output)
    loaded = network_options.load(network)
    regions = [parse_region(text) for text in shown.region or ()]
    start = time.perf_counter()
    with working("planning"):
        request = plans.requested(
            loaded,
            size_bytes=None if size is None else _core.parse_size(size),
            simulator=_simulator_for(what.algorithm, simulator),
            options=read_options(plans.plan, planner.asked()),
            **what.asked(),
        )
        planned, report, choice = plans.named_plan(request, 1)
    summary = plans.summarize(planned)
    values = summary.as_dict() | report
    if choice is not None:
        values["choice"] = choice.as_dict()
    values["wall_s"] = time.perf_counter() - start
    parts = [plan_table(summary, proof=report, choice=choice)]
    if shown.tables:
        tables = simulation.tables(planned)
        values["schedule_tables"] = tables.as_dict()
        parts.append(schedule_table(tables))
    if regions:
        entries = switch_tables(loaded, regions, planned.algorithm)
        values["switch_tables"] = {name: [entry.as_dict() for entry in rows] for name, rows in entries.items()}
        parts.append(switch_table(entries))
    if shown.output is not None:
        save_plan(planned, shown.output)
    show(values, shown.as_json, lambda: "\n\n".join(parts), written=shown.output)


def _simulator_for(algorithm: str | None, simulator: str | None) -> str:
    """Return the simulator by which to plan; refuse one that a named algorithm does not read."""
    if simulator is None:
        return "analytic"
    named = checks.name("algorithm", one_algorithm(algorithm) or "auto", auto.names())
    if named != "auto" and not planning.PLANNERS[named].reads_simulator:
        raise TreefoldError(f"--simulator {simulator}: only auto compares plans, but {named} is named; drop one")
    return simulator


def parse_region(text: str) -> Region:
    """Return the multicast region of a text such as `0x0:1MiB:0-7`."""
    start, _, rest = text.partition(":")
    size, _, members = rest.partition(":")
    try:
        address = int(start, 0)
    except ValueError:
        raise TreefoldError(f"region '{text}': '{start}' is not an address; write for example 0x0:1MiB:0-7") from None
    if not size:
        raise TreefoldError(f"region '{text}' has no size; write for example 0x0:1MiB:0-7")
    return Region(address, _core.parse_size(size), members or None)


PlanFile = Annotated[Path, typer.Argument(metavar="PLAN.json", help="The plan: a file that 'treefold plan -o' wrote.")]


@dataclass(frozen=True, kw_only=True)
class ReplanOptions:
    """The options of `replan`; what is None is as in the old plan."""

    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "-a",
            help="The algorithm, or auto for the fastest; by default that of the plan.",
            autocompletion=completing(auto.names()),
        ),
    ] = None
    size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Optimize the new plan for a vector of this size; by default that of the plan."
        ),
    ] = None
    simulator: Annotated[
        str,
        typer.Option(
            help="The simulator by which both plans compete: analytic, flow or packet.",
            autocompletion=completing(simulation.SIMULATORS),
        ),
    ] = "flow"

    def asked(self) -> dict[str, Any]:
        """Return the keyword arguments of `treefold.replan`."""
        size_bytes = None if self.size is None else _core.parse_size(self.size)
        algorithm = one_algorithm(self.algorithm)
        return {"algorithm": algorithm, "size_bytes": size_bytes, "simulator": self.simulator}


@expanded
def replan(
    plan_file: Annotated[
        Path,
        typer.Argument(metavar="PLAN.json", help="The plan of an all-reduce: a file that 'treefold plan -o' wrote."),
    ],
    network: Annotated[str, typer.Argument(metavar="NETWORK", help="The network as it is now: a file, or a spec.")],
    *,
    what: ReplanOptions,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the new plan to this file, .json.")
    ] = None,
    as_json: Json = False,
    planner: PlannerOptions,
    network_options: NetworkOptions,
) -> None:
    """Make a new plan after the network of a plan has changed.

    The new plan has the algorithm, the options and the ranks of the old one, unless others are given. If that algorithm
    cannot keep the old limits (--trees, --height, --least-rate, --steps) any more, as few of them as possible are
    dropped; the value none, as in --trees none --height none, releases them in any case. If it does not fit without
    them either, the fastest algorithm that fits takes its place. An old plan that still runs and has no limits is kept
    unless the new one is more than 1 % faster; packing also keeps single trees where that costs at most 0.1 %.

    Examples:
    treefold plan b4 -a mtree --trees 3 -o plan.json
    treefold replan plan.json b4:skew=0.5,seed=1 -o new.json
    treefold replan plan.json changed.json -a auto

    """
    check_alone(output, as_json)
    if output is not None:
        check_plan_writable(output)
    old, changed = load_plan(plan_file), network_options.load(network)
    if network_options.ranks is None and network_options.rank_order is None:
        changed = networks.like(changed, old.topology, network_options.may_relay())
    with working("planning"):
        replanned = plans.replan(old, changed, **what.asked(), **planner.asked())
    if output is not None:
        save_plan(replanned.plan, output)
    show(replanned.as_dict(), as_json, lambda: replan_table(old, replanned), written=output)


def check(
    plan_file: PlanFile,
    as_json: Json = False,
) -> None:
    """Prove that a plan is correct, or name its first fault.

    A correct plan computes its collective, and keeps its promises about links, for example that no link is used twice
    in a step. The exit code is 1 if the plan is not correct.

    Examples:
    treefold plan torus:8x8 -a multitree -o plan.json
    treefold check plan.json

    """
    loaded = load_plan(plan_file)
    verdict = plans.check(loaded)
    text = (
        f"correct: {loaded.collective} by {loaded.algorithm} on {loaded.topology.name}; every unit of the vector ends "
        "where it should, with each contribution once"
    )
    show(verdict.as_dict(), as_json, lambda: text if verdict.correct else f"wrong: {verdict.reason}")
    raise typer.Exit(0 if verdict.correct else 1)
