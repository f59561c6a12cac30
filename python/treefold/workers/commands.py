"""Commands that run in every worker: read arguments, join the others, print on rank 0 only."""

import os
import secrets
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from treefold import _core, environment, interrupts, verbs
from treefold._core import Plan, Topology
from treefold.app import as_known
from treefold.arguments import (
    Bandwidth,
    Interface,
    Json,
    Latency,
    NodeCap,
    RankOrder,
    Ranks,
    Timeout,
    load,
    own_size,
    parse_sizes,
)
from treefold.errors import TreefoldError
from treefold.files.plans import is_plan_file, load_plan
from treefold.terminal import check_alone, show, tell, track

if TYPE_CHECKING:
    from treefold.rendezvous import Rendezvous

_Result = TypeVar("_Result")

_measuring = partial(track, description="measuring")

_LOOPBACK = "127.0.0.1"
_END_S = 5.0
_MOST_S = 1e7
_PROCESS_BYTES = 40 << 20
"""What a worker takes before it does anything, at least."""


def probe(
    local: Annotated[
        int | None,
        typer.Option(help="Measure between so many processes of this machine, over loopback, without a launcher."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the network to this file: .json, .graphml, .dot.")
    ] = None,
    links: Annotated[
        Path | None, typer.Option(help="Measure only the links of the network in this file, and keep its shape.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="How many seconds all may take, about; by default a second a transfer.")
    ] = None,
    most_bytes: Annotated[str, typer.Option("--bytes", help="How much all workers together send at most.")] = "64GiB",
    parallel: Annotated[
        bool, typer.Option("--parallel", help="Measure pairs without a common worker at the same time.")
    ] = False,
    interface: Interface = None,
    timeout: Timeout = 60,
    as_json: Json = False,
) -> None:
    """Measure the network between workers: latency and bandwidth of pairs, and caps of nodes.

    Start it in every worker: with torchrun, with mpiexec, or with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set.
    TREEFOLD_NAME names a worker. Rank 0's options count, it alone prints and writes.
    """
    with interrupts.at_once():
        from treefold import exporters
        from treefold.probe import LEAST_TIMEOUT_S, Settings, measure, report

    if seconds is not None and not 0 < seconds < _MOST_S:
        raise TreefoldError(f"--seconds {seconds:g}: must be more than 0 and less than {_MOST_S:g}")
    if timeout < LEAST_TIMEOUT_S:
        raise TreefoldError(f"--timeout {timeout:g}: dead connections show only after a while; write 30 or more")
    check_alone(output, as_json)
    if output is not None:
        exporters.check_document_writable(output)
    settings = Settings(seconds, _core.parse_size(most_bytes), parallel, None if links is None else _read(links))

    def work(joined: "Rendezvous") -> dict[str, Any]:
        if joined.rank:
            return report.summary(measure(joined, settings))
        found = measure(joined, settings, tell, _measuring)
        if output is not None:
            exporters.write(report.document(found, settings.links), output)
        return report.summary(found)

    _check_meeting(local, 2, interface, timeout)
    probed = _among_workers(work, local, interface, timeout, ["probe", "--timeout", str(timeout)])
    if probed is not None:
        show(probed, as_json, lambda: _probe_table(probed), written=output)


def run(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[PLAN.json|TOPOLOGY]",
            help="A plan's file, or the network to plan for; without it, all workers reach each other equally well.",
        ),
    ] = None,
    local: Annotated[
        int | None, typer.Option(help="Run so many ranks on this machine, without a launcher: as threads, or over tcp.")
    ] = None,
    algorithm: Annotated[
        str | None, typer.Option("--algorithm", "-a", help="The algorithm, as for plan; by default auto.")
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="The size of the vector; by default what a plan was made for, else 64MiB.")
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(help="The sizes of the vector: a range that doubles, 32KiB:64MiB, or a list.")
    ] = None,
    collective: Annotated[
        str, typer.Option(help=f"The collective, by the all-reduce's trees: {', '.join(_core.collectives())}.")
    ] = "all-reduce",
    root: Annotated[int, typer.Option(help="The rank that broadcasts or receives.")] = 0,
    op: Annotated[str, typer.Option(help="The operation: sum, prod, min, max, band, bor or bxor.")] = "sum",
    number: Annotated[
        str, typer.Option("--type", help="The type of the numbers, as NumPy calls it; or bfloat16.")
    ] = "float32",
    iters: Annotated[int, typer.Option(help="How often to measure each size.")] = 5,
    warmup: Annotated[int, typer.Option(help="How often to run each size before.")] = 1,
    transport: Annotated[
        str | None,
        typer.Option(
            help="What carries messages: tcp, mpi, torch, threads; by default threads with --local, mpi under mpiexec, "
            "else tcp."
        ),
    ] = None,
    adapt: Annotated[
        bool, typer.Option("--adapt", help="Plan anew when links change or die in mid-run; over tcp.")
    ] = False,
    trees: Annotated[int | None, typer.Option(help="How many trees a plan may have, as for plan.")] = None,
    height: Annotated[int | None, typer.Option(help="How high a tree may be, as for plan.")] = None,
    bandwidth: Bandwidth = None,
    latency: Latency = None,
    node_cap: NodeCap = None,
    ranks: Ranks = None,
    rank_order: RankOrder = None,
    interface: Interface = None,
    timeout: Timeout = 60,
    as_json: Json = False,
) -> None:
    """Run a collective for real, verify every result on every rank, and measure; exit code 1 if a result is wrong.

    Start it in every worker: with torchrun, with mpiexec, or with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set; or
    once with --local. TREEFOLD_NAME names a worker, which then is the accelerator of that name. Rank 0 prints.
    """
    with interrupts.at_once():
        from treefold.perf import runs
        from treefold.perf.job import Job
        from treefold.rendezvous.meeting import all_or_none
        from treefold.runtime.engines import choose_transport, engine_maker

    wishes = {"algorithm": algorithm or "auto", "trees": trees, "height": height}
    note = ""

    def prepare() -> tuple[Job, Plan | Topology | None]:
        carrier = choose_transport(transport, local is not None)
        if size is not None and sizes is not None:
            raise TreefoldError("--size and --sizes say the same thing twice; drop one")
        network = {"--bandwidth": bandwidth, "--latency": latency, "--node-cap": node_cap, "--ranks": ranks}
        what = _source(source, network | {"--rank-order": rank_order}, wishes)
        if isinstance(what, Plan) and size is None and sizes is None:
            nonlocal note
            note = own_size(what)
        found = _sizes(what, size, sizes)
        kind = _core.parse_collective(collective)
        job = Job(tuple(found), kind, op, number, root, iters, warmup, carrier, adapt)
        job.check()
        job.check_memory(local or 1)
        return job, what

    def work(joined: "Rendezvous") -> list[dict[str, Any]]:
        job, what = all_or_none(joined, prepare)
        engine = all_or_none(joined, lambda: engine_maker(job.transport, joined))
        track = iter if joined.rank else _measuring
        found = runs.among_processes(joined, job, what, wishes, engine, track, is_network_real=local is None)
        if joined.rank and any(row["wrong"] for row in found):
            raise typer.Exit(1)
        return found

    has_threads = local is not None and transport in (None, "threads")
    _check_meeting(local, 1 if has_threads else 2, interface, timeout)
    if local is not None and has_threads:
        environment.warn_of_strangers()
        rows: list[dict[str, Any]] | None = runs.among_threads(local, *prepare(), wishes, _measuring)
    else:
        if local is not None:
            prepare()  # before any process starts
        rows = _among_workers(work, local, interface, timeout, _without_local(sys.argv[1:]))
    if rows is not None:
        for change in (change for row in rows for change in row["changes"]):
            tell(f"planned anew: {change}")
        if local is not None and source is not None:
            note += "\n# no bound, nothing predicted: the network that was planned for is not what joins local ranks"
        show(rows, as_json, lambda: _run_table(rows) + note)
        raise typer.Exit(int(any(row["wrong"] for row in rows)))


def _without_local(arguments: Sequence[str]) -> list[str]:
    """Return a command line for the processes that `--local` starts."""
    kept = [each for each in arguments if not as_known(each).startswith("--local=")]
    names = [as_known(each) for each in kept]
    if "--local" in names:
        at = names.index("--local")
        del kept[at : at + 2]
    return kept


def _source(source: str | None, network: dict[str, str | None], wishes: dict[str, Any]) -> Plan | Topology | None:
    """Return the plan, or the network to plan for; `network` and `wishes` are options that only one of them takes."""
    options = network if source is None else {}
    if source is not None and is_plan_file(source):
        planning = {f"--{name}": value for name, value in wishes.items() if value not in (None, "auto")}
        options = network | planning
    if given := [name for name, value in options.items() if value is not None]:
        why = "no network is given" if source is None else f"{source}: a plan file is already planned"
        raise TreefoldError(f"{why}; drop {', '.join(given)}")
    if source is None:
        return None
    return load_plan(source) if is_plan_file(source) else load(source, *network.values())


def _sizes(what: Plan | Topology | None, size: str | None, sizes: str | None) -> list[int]:
    """Return the sizes to run: those that were named, or what a plan was made for."""
    if sizes is not None:
        return parse_sizes(sizes)
    if size is not None:
        return [_core.parse_size(size)]
    return [verbs.size_for(what, None) if isinstance(what, Plan) else verbs.DEFAULT_SIZE_BYTES]


def _run_table(rows: Sequence[dict[str, Any]]) -> str:
    from treefold.report.measured import run_table

    return run_table(rows)


def _probe_table(probed: dict[str, Any]) -> str:
    from treefold.report.measured import probe_table

    return probe_table(probed)


def _among_workers(
    work: Callable[["Rendezvous"], _Result],
    local: int | None,
    interface: str | None,
    timeout_s: float,
    arguments: Sequence[str],
) -> _Result | None:
    """Do `work` as one worker, with `local` as rank 0 of so many processes; on other ranks return None.

    The other processes run treefold with `arguments`.
    """
    from treefold import rendezvous

    with ExitStack() as stack:
        if local is None:
            joined = rendezvous.from_environment(timeout_s, interface)
        else:
            joined = stack.enter_context(_processes(local, timeout_s, arguments))
        stack.callback(joined.close)
        result = work(joined)
    return result if joined.rank == 0 else None


def _check_meeting(count: int | None, least: int, interface: str | None, timeout_s: float) -> None:
    """Refuse what workers cannot meet with: `--local`, which takes at least so many, its interface, the timeout."""
    from treefold.rendezvous import MOST_WORKERS

    if not 0 < timeout_s < _MOST_S:
        raise TreefoldError(f"--timeout {timeout_s:g}: must be more than 0 and less than {_MOST_S:g} seconds")
    if count is not None and not least <= count <= MOST_WORKERS:
        raise TreefoldError(f"--local {count}: it takes {least} to {MOST_WORKERS} workers; write for example --local 4")
    if count is not None and interface is not None:
        raise TreefoldError(f"--interface {interface}: ranks of --local meet on this machine; drop one of the two")


@contextmanager
def _processes(count: int, timeout_s: float, arguments: Sequence[str]) -> "Iterator[Rendezvous]":
    """Start the other workers of this machine as processes; they end with this one."""
    from treefold.perf import memory
    from treefold.rendezvous import from_master
    from treefold.rendezvous.sockets import free_port

    environment.warn_of_strangers()
    memory.check(f"--local {count}: its processes take", count * _PROCESS_BYTES, "write a smaller number")
    port = free_port(_LOOPBACK)
    foreign = ("TORCHELASTIC_USE_AGENT_STORE", "TREEFOLD_NAME", "TREEFOLD_INTERFACE")
    job = secrets.token_hex()
    variables = {name: value for name, value in os.environ.items() if name not in foreign}
    variables |= {"WORLD_SIZE": str(count), "MASTER_ADDR": _LOOPBACK, "MASTER_PORT": str(port), "TREEFOLD_JOB": job}
    command = [sys.executable, "-m", "treefold", *arguments]
    started = []
    try:
        for rank in range(1, count):
            with _told_failures(count):
                started.append(interrupts.start(command, variables | {"RANK": str(rank)}))
        yield from_master(0, count, _LOOPBACK, port, timeout_s, job=job)
    finally:
        for process in started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
            process.kill()
            process.wait()


@contextmanager
def _told_failures(count: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TreefoldError(f"--local {count}: no more processes can be started ({error.strerror})") from None


def _read(path: Path) -> dict[str, Any]:
    """Return a network whose links may lack what a probe measures."""
    from treefold import importers

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", importers.TopologyWarning)
        return importers.read(path, bandwidth_Bps=1.0, latency_s=0.0)
