"""The command line: reads arguments, calls the verbs, prints.

Errors of the caller are one line on standard error and exit code 2; `check` exits with 1 when a plan is wrong. With
`--json` a command prints one JSON value and nothing else on standard output. What takes long to import is imported
where it is used: `treefold --help` should feel instant.
"""

import errno
import json
import os
import sys
import time
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

import treefold
from treefold import _core, interrupts, verbs
from treefold.app import SETTINGS, USAGE_ERROR, Command, Commands, explain
from treefold.arguments import (
    Algorithm,
    Algorithms,
    Bandwidth,
    Collective,
    Json,
    Latency,
    MaybeCollective,
    NodeCap,
    RankOrder,
    Ranks,
    Simulator,
    check_plot,
    load,
    own_size,
    parse_region,
    parse_sizes,
    quantity,
    with_machine,
)
from treefold.errors import TreefoldError
from treefold.files.plans import check_plan_writable, is_plan_file, load_plan, save_plan
from treefold.files.writing import check_writable, write_bytes_atomically, write_text_atomically
from treefold.machine import Machine
from treefold.regions import switch_tables
from treefold.report import (
    bound_table,
    claims_table,
    compare_table,
    key_values,
    plan_table,
    plot_comparison,
    plot_format,
)
from treefold.terminal import check_alone, prepare_streams, say, show, show_rows, status, tell, track
from treefold.text import visible
from treefold.training.command import train
from treefold.workers import commands as workers

app = typer.Typer(cls=Commands, rich_markup_mode=None, pretty_exceptions_enable=False, context_settings=SETTINGS)
command = partial(app.command, cls=Command)

Network = Annotated[str, typer.Argument(metavar="TOPOLOGY", help="The network: a file, or a spec such as torus:8x8.")]
Root = Annotated[int, typer.Option(help="The rank that broadcasts or receives.")]
Size = Annotated[str, typer.Option(help="The size of the vector: 64MiB.")]
LinkModel = Annotated[
    str,
    typer.Option(
        help="What latency does: it only delays (propagation), or occupies the link once a message (hockney)."
    ),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"treefold {treefold.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Give it your network; get the fastest all-reduce for it, proof that it is right, a prediction of its time."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@command()
def topology(
    network: Network,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the network to this file: .json, .graphml, .dot.")
    ] = None,
    bandwidth: Bandwidth = None,
    latency: Latency = None,
    node_cap: NodeCap = None,
    ranks: Ranks = None,
    rank_order: RankOrder = None,
    as_json: Json = False,
) -> None:
    """Describe or convert a network."""
    from treefold import exporters

    check_alone(output, as_json)
    if output is not None:
        exporters.check_document_writable(output)
    loaded = load(network, bandwidth, latency, node_cap, ranks, rank_order)
    if output is not None:
        exporters.save(loaded, output)
    description = verbs.describe(loaded)
    table = {name: str(value) for name, value in description.items()}
    show(description, as_json, lambda: key_values(table), written=output)


topology.__doc__ = f"""Describe or convert a network.

TOPOLOGY is a file (.json, .graphml, .gml, .dot, .csv) or one of {", ".join(_core.generators())}.
"""


@command()
def plan(
    network: Network,
    algorithm: Algorithm = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the plan to this file, .json.")] = None,
    size: Size = "64MiB",
    collective: Collective = "all-reduce",
    root: Root = 0,
    trees: Annotated[
        int | None, typer.Option(help="How many trees a plan may have; MultiTree grows exactly so many.")
    ] = None,
    height: Annotated[
        int | None,
        typer.Option(help="How high a tree may be, in hops or quanta of latency (packing, mtree); see --heights."),
    ] = None,
    heights: Annotated[
        str, typer.Option(help="What heights count: hops; or latency, in multiples of the least link's, rounded up.")
    ] = "hops",
    least_rate: Annotated[
        str | None, typer.Option(help="How much each tree carries at least: 10Mbit/s (packing, mtree).")
    ] = None,
    rho: Annotated[float, typer.Option(help="Which part of the rate lower trees must keep (mtree).")] = 1.0,
    seed: Annotated[int, typer.Option(help="The seed of all that is drawn at random.")] = 1,
    pipeline: Annotated[bool, typer.Option(help="Whether streamed trees send their parts in chunks.")] = True,
    turn: Annotated[
        str | None, typer.Option(help="The order of trees within a step: ascending, remaining-height (multitree).")
    ] = None,
    neighbors: Annotated[
        str, typer.Option(help="The order in which links are tried: listed, reversed (multitree).")
    ] = "listed",
    trunks: Annotated[
        str, typer.Option(help="What decides between equally long routes to a home: source, address (innet-push).")
    ] = "source",
    model: Annotated[
        str, typer.Option(help=f"The simulator by which auto chooses: {', '.join(verbs.MODELS)}.")
    ] = "analytic",
    tables: Annotated[
        bool, typer.Option("--tables", help="Also show each rank's schedule table, and its cost.")
    ] = False,
    region: Annotated[
        list[str] | None,
        typer.Option(
            metavar="START:SIZE[:RANKS]",
            help="Register a multicast region, 0x0:1MiB:0-7, and show the switches' tables; may be given again.",
        ),
    ] = None,
    bandwidth: Bandwidth = None,
    latency: Latency = None,
    node_cap: NodeCap = None,
    ranks: Ranks = None,
    rank_order: RankOrder = None,
    as_json: Json = False,
) -> None:
    """Plan a collective."""
    check_alone(output, as_json)
    if output is not None:
        check_plan_writable(output)
    loaded = load(network, bandwidth, latency, node_cap, ranks, rank_order)
    regions = [parse_region(text) for text in region or ()]
    start = time.perf_counter()
    with status("planning"):
        planned, facts = verbs.plan_and_facts(
            loaded,
            algorithm or "auto",
            _core.parse_size(size),
            collective,
            root,
            model,
            trees=trees,
            height=height,
            heights=heights,
            least_rate_Bps=quantity("--least-rate", _core.parse_bandwidth, least_rate),
            rho=rho,
            seed=seed,
            pipeline=pipeline,
            turn=turn,
            neighbors=neighbors,
            trunks=trunks,
        )
    summary = verbs.summarize(planned) | facts | {"wall_s": time.perf_counter() - start}
    if tables:
        summary["schedule_tables"] = verbs.tables(planned)
    if regions:
        summary["switch_tables"] = switch_tables(loaded, regions, planned.algorithm)
    if output is not None:
        save_plan(planned, output)
    show(summary, as_json, lambda: plan_table(summary), written=output)


@command()
def check(
    plan_file: Annotated[
        Path, typer.Argument(metavar="PLAN.json", help="The plan: a file that 'treefold plan -o' wrote.")
    ],
    as_json: Json = False,
) -> None:
    """Prove or refute that a plan computes its collective; exit code 1 if it does not."""
    loaded = load_plan(plan_file)
    verdict = verbs.check(loaded)
    text = f"correct: {loaded.collective} by {loaded.algorithm} on {loaded.topology.name}"
    result = {"correct": verdict.correct, "reason": verdict.reason}
    show(result, as_json, lambda: text if verdict.correct else f"wrong: {verdict.reason}")
    raise typer.Exit(0 if verdict.correct else 1)


@command()
def bound(
    network: Network,
    bandwidth: Bandwidth = None,
    latency: Latency = None,
    node_cap: NodeCap = None,
    ranks: Ranks = None,
    rank_order: RankOrder = None,
    as_json: Json = False,
) -> None:
    """Tell what no plan can beat: rates for large vectors."""
    loaded = load(network, bandwidth, latency, node_cap, ranks, rank_order)
    with status("bounding"):
        bounds = verbs.bound(loaded)
    show(bounds, as_json, lambda: bound_table(bounds))


@command()
@with_machine
def simulate(
    source: Annotated[str, typer.Argument(metavar="TOPOLOGY|PLAN.json", help="The network, or a plan's file.")],
    algorithm: Algorithm = None,
    size: Annotated[
        str | None, typer.Option(help="The size of the vector; by default what a plan was made for, else 64MiB.")
    ] = None,
    model: Simulator = None,
    link_model: LinkModel = "propagation",
    trace: Annotated[
        Path | None,
        typer.Option(help="Write every transfer to this file, as a Chrome trace for Perfetto (flow, packet)."),
    ] = None,
    collective: MaybeCollective = None,
    root: Annotated[int | None, typer.Option(help="The rank that broadcasts or receives.")] = None,
    bandwidth: Bandwidth = None,
    latency: Latency = None,
    node_cap: NodeCap = None,
    ranks: Ranks = None,
    rank_order: RankOrder = None,
    as_json: Json = False,
    machine: Machine | None = None,
) -> None:
    """Predict the time of a collective."""
    size_bytes = None if size is None else _core.parse_size(size)
    model = verbs.model_of(model, machine, "analytic" if trace is None else "flow")
    link_model = verbs.link_model_of(link_model)
    check_alone(trace, as_json)
    if trace is not None:
        _check_trace(trace, model)
    if is_plan_file(source):
        options = {
            "--algorithm": algorithm,
            "--collective": collective,
            "--root": root,
            "--bandwidth": bandwidth,
            "--latency": latency,
            "--node-cap": node_cap,
            "--ranks": ranks,
            "--rank-order": rank_order,
        }
        if given := [name for name, value in options.items() if value is not None]:
            raise TreefoldError(f"{source}: a plan file is already planned; drop {', '.join(given)}")
        planned = load_plan(source)
    else:
        loaded = load(source, bandwidth, latency, node_cap, ranks, rank_order)
        size_bytes = verbs.DEFAULT_SIZE_BYTES if size_bytes is None else size_bytes
        with status("planning"):
            planned = verbs.plan(
                verbs.under(loaded, link_model),
                algorithm or "auto",
                size_bytes=size_bytes,
                collective=collective or "all-reduce",
                root=root or 0,
                model=model,
            )
    with status("simulating"):
        if trace is None:
            row = verbs.simulate(planned, size_bytes=size_bytes, model=model, link_model=link_model, machine=machine)
        else:
            row, seen = verbs.simulate_and_trace(planned, size_bytes, link_model, model, machine)
            write_text_atomically(trace, seen.to_chrome())
    note = own_size(planned) if size_bytes is None else ""
    show(row, as_json, lambda: compare_table([row]) + note, written=trace)


@command()
@with_machine
def compare(
    network: Network,
    algorithms: Algorithms = None,
    sizes: Annotated[
        str, typer.Option(help="The sizes of the vector: a range that doubles, 32KiB:64MiB, or a list.")
    ] = "32KiB:64MiB",
    plot: Annotated[Path | None, typer.Option(help="Draw the comparison to this file, too: .png or .svg.")] = None,
    model: Simulator = None,
    link_model: LinkModel = "propagation",
    collective: Collective = "all-reduce",
    root: Root = 0,
    bandwidth: Bandwidth = None,
    latency: Latency = None,
    node_cap: NodeCap = None,
    ranks: Ranks = None,
    rank_order: RankOrder = None,
    as_json: Json = False,
    machine: Machine | None = None,
) -> None:
    """Compare algorithms over sizes; '*' marks the fastest of each size."""
    if plot is not None:
        check_plot(plot)
    loaded = load(network, bandwidth, latency, node_cap, ranks, rank_order)
    try:
        with status("comparing"):
            rows = verbs.compare(
                loaded,
                algorithms,
                sizes_bytes=parse_sizes(sizes),
                model=model,
                link_model=link_model,
                machine=machine,
                collective=collective,
                root=root,
            )
    except verbs.Interrupted as stop:
        show_rows(stop.rows, as_json, compare_table)
        raise
    if plot is not None:
        _write_plot(plot, rows, loaded.name)
    show(rows, as_json, lambda: compare_table(rows))


@command()
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(help="A figure such as mtree/fig6, or mtree for all of that paper; left out, all are listed."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The folder for its files; by default reproduction/results/NAME."),
    ] = None,
    trials: Annotated[
        int, typer.Option(help="How many networks are drawn for each setting. Only figures of mtree draw networks.")
    ] = 20,
    networks: Annotated[
        str | None,
        typer.Option(
            help="Which of the figure's networks are used, such as b4,idn-like (mtree), torus:4x4,torus:8x8 "
            "(multitree) or dgx2:planes=6 (in-network). By default all of them are used."
        ),
    ] = None,
    skews: Annotated[
        str, typer.Option(help="Which values of skewness are used. Only figures of mtree vary the skewness.")
    ] = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9",
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Which sizes of vectors are used: 32KiB:2MiB. Some figures of multitree and in-network take it; "
            "others have their own sizes and say so."
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="How many processes run trials side by side; by default one for each core.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Reproduce a figure of a paper: its data, a picture, and how the paper's claims fare.

    The figures are part of treefold's repository and not of an installed package: run this in a clone.
    """
    from treefold.checkout import import_reproduction

    reproduction = import_reproduction()
    if name is None:
        titles = {each: figure.title for each, figure in reproduction.figures().items()}
        show(titles, as_json, lambda: key_values(titles))
        return
    chosen = tuple(reproduction.split_networks(networks)) if networks else ()
    settings = reproduction.Settings(trials, chosen, _numbers(skews), tuple(parse_sizes(sizes)) if sizes else ())
    jobs = os.cpu_count() or 1 if jobs is None else jobs
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


command()(train)
command()(workers.probe)
command()(workers.run)


def _check_trace(path: Path, model: str | None) -> None:
    """Refuse what cannot work before a long simulation, not after it."""
    if model == "analytic":
        raise TreefoldError("model 'analytic' has no transfers to trace; use --model flow or packet")
    check_writable(path)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise TreefoldError(f"numbers '{text}': write them with commas between, for example 0.1,0.5") from None


def _write_plot(path: Path, rows: Sequence[dict[str, Any]], title: str) -> None:
    write_bytes_atomically(path, plot_comparison(rows, title=title, format=plot_format(path)))


_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def _fail(message: str) -> NoReturn:
    tell(f"error: {message}")
    sys.exit(2)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    tell(f"warning: {message}")


def main() -> None:
    """Run the command line."""
    prepare_streams()
    warnings.showwarning = _show_warning
    try:
        result = app(standalone_mode=False)
    except TreefoldError as error:
        _fail(str(error))
    except UnicodeEncodeError as error:
        _fail(f"'{error.object}' is no text; write it in UTF-8")
    except USAGE_ERROR as error:
        _fail(explain(error))
    except (typer.Abort, KeyboardInterrupt):
        result = interrupts.EXIT_CODE
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        sys.stdout = None  # else the interpreter tries once more at exit
        _fail(f"standard output cannot be written ({error.strerror}); is its disk full?")
    if result == interrupts.EXIT_CODE:  # which typer returns where it catches the interrupt itself
        interrupts.end()
    sys.exit(result if isinstance(result, int) else 0)
