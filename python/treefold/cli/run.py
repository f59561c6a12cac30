"""The command `run`."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treefold import _core, checks, interrupts, simulation
from treefold._core import Plan, Topology
from treefold.blocks import matrix as read_blocks
from treefold.blocks import size_or_default
from treefold.cli.discover import DiscoverOptions
from treefold.cli.groups import expanded, flags_given
from treefold.cli.launch import WorkerOptions, among_workers, measuring, stay_local, without_local
from treefold.cli.options import (
    SIZES_HELP,
    Json,
    MaybeSize,
    NetworkOptions,
    PlannerOptions,
    PlanOptions,
    one_algorithm,
)
from treefold.cli.simulate import own_size
from treefold.cli.terminal import check_alone, notify, show
from treefold.errors import TreefoldError
from treefold.files.plans import is_plan_file, load_plan

if TYPE_CHECKING:
    from treefold.blocks import Blocks
    from treefold.perf.job import Job
    from treefold.probe.keeping import Found
    from treefold.rendezvous import Rendezvous


@dataclass(frozen=True, kw_only=True)
class RunOptions(PlanOptions):
    """The options of what to plan, whose root is one of the workers."""

    root: Annotated[
        int | None,
        typer.Option(help="The worker (not the rank of the plan) that broadcasts or receives; by default 0."),
    ] = None

    def of_plan(self, plan: Plan, file: str) -> dict[str, Any]:
        """Return what `asked` returns where a plan is given; one of another collective says all that it needs."""
        if plan.collective == "all-reduce":
            return self.asked()
        said = [f"--{name}" for name in ("collective", "root", "blocks") if getattr(self, name) is not None]
        if said:
            raise TreefoldError(f"{file} is a plan of {plan.collective}, and says all of it; drop {', '.join(said)}")
        return {"collective": plan.collective, "root": plan.root or 0, "blocks": plan.blocks}


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """The options of the job: the vectors, the operator, and the repetitions."""

    size: MaybeSize = None
    sizes: Annotated[str | None, typer.Option(metavar="SIZES", help=f"{SIZES_HELP}; not together with --size.")] = None
    op: Annotated[
        str, typer.Option(help="The operator: sum, prod, min or max; for integers and bool also band, bor or bxor.")
    ] = "sum"
    number: Annotated[
        str,
        typer.Option(
            "--type",
            help="The data type of the elements: float16, bfloat16, float32, float64, complex64, complex128, int8, "
            "int16, int32, int64, uint8, uint16, uint32, uint64, or bool.",
        ),
    ] = "float32"
    wire: Annotated[
        str | None,
        typer.Option(
            help="The type in which numbers cross lines, if it is to take fewer bytes: bfloat16, float16, float8 or "
            "int8, for elements of float32 or bfloat16. Results are rounded; they are wrong if they differ by more "
            "than the type allows."
        ),
    ] = None
    iters: Annotated[int, typer.Option(help="The number of measured runs of each size.")] = 5
    warmup: Annotated[int, typer.Option(help="The number of runs of each size before those that are measured.")] = 1
    transport: Annotated[
        str | None,
        typer.Option(
            help="The transport: tcp, mpi, torch or threads; by default threads with --local, mpi under mpiexec, and "
            "tcp otherwise."
        ),
    ] = None
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json",
            help="Record when each transfer started, was sent and was received, and write it to this file of worker 0: "
            "of one size, the run with the median time. It needs the transport tcp or threads.",
        ),
    ] = None
    adapt: Annotated[
        str | None,
        typer.Option(
            "--adapt",
            metavar="[same|auto|no]",
            help="Make a new plan when links change or die during a run: with the plan's own algorithm and options "
            "(--adapt or --adapt same), or with the fastest algorithm (--adapt auto). It needs the transport tcp, and "
            "a network without switches. Where no tests of a probe have shown what links share, and the network's file "
            "joins each two workers by a link of their own, the run also learns it. An all-reduce over tcp on a "
            "network that --discover measures adapts unless you say --adapt no or --trace.",
        ),
    ] = None
    learn: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write what a run with --adapt learns about the network to this file of worker 0, whenever a better "
            "plan has run: a topology file (.json, .graphml, .dot, .gv), which may be that of the network; with "
            "--discover, by default it is that.",
        ),
    ] = None
    streams: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Join each two workers by so many TCP streams side by side, from 1 to 256; by default as many as "
            "TREEFOLD_STREAMS or the network's file tells (treefold probe measures it), or else as their line needs by "
            "its bandwidth and latency. It needs the transport tcp.",
        ),
    ] = None

    def adapts(self, by_default: bool) -> bool | str:
        """Return whether the plan follows links that change, as a job takes it."""
        if self.adapt is None:
            return by_default
        kind = checks.name("--adapt", self.adapt, _ADAPT)
        return kind if kind == "auto" else kind == "same"

    def on_discovered(self, job: "Job", found: "Found") -> "tuple[Job, Topology]":
        """Return the job on a network that was discovered, to whose file goes what it learns; and the network."""
        from treefold.runtime.learning import why_not

        if self.adapt is None and self.learn is None and found.network.switches:
            job = replace(job, adapt=False)  # such a file comes from somebody else
        learns = job.adapt and not why_not(found.network)
        return replace(job, learn=job.learn or (found.file if learns else None)), found.network

    def sizes_for(self, what: Plan | Topology | None, blocks: "Blocks | None") -> list[int]:
        """Return the sizes to run: those of the options, else that of the plan, of the blocks, or else 64 MiB."""
        if self.size is not None and self.sizes is not None:
            raise TreefoldError("--size and --sizes are both given; drop one")
        if self.sizes is not None:
            return checks.sizes(self.sizes)
        if self.size is not None:
            return [_core.parse_size(self.size)]
        return [simulation.size_for(what, None) if isinstance(what, Plan) else size_or_default(None, blocks)]


_ADAPT = ("same", "auto", "no")
_BEYOND_BOUND = 1.1
"""Runs that reach more than this part of the bound show that the network is faster than it is said to be."""

_Source = Annotated[
    str | None,
    typer.Argument(
        metavar="PLAN.json|NETWORK",
        help="The file of a plan; the network and the algorithm of an all-reduce plan serve other collectives, too. Or "
        "the network to plan for, by default full:N for N workers, a complete graph with links of 16GB/s and 150ns. "
        "Plans in which switches reduce can only be simulated.",
    ),
]


@expanded
def run(
    source: _Source = None,
    *,
    what: RunOptions,
    job_options: JobOptions,
    discovering: DiscoverOptions,
    as_json: Json = False,
    planner: PlannerOptions,
    workers: WorkerOptions,
    network: NetworkOptions,
) -> None:
    """Run a collective between workers, verify and measure it.

    Start one process for each worker: with torchrun, with mpiexec, or by hand with RANK, WORLD_SIZE, MASTER_ADDR and
    MASTER_PORT set. Or start a single process with --local N: it runs N workers, one for each rank, on this host. The
    times of --local say nothing about the network. Worker r is rank r, unless every worker has a TREEFOLD_NAME: then
    each is the accelerator of that name. TREEFOLD_TLS names the folder of a worker's certificate (see treefold
    certificates); without it nothing is encrypted. TREEFOLD_JOB is a secret word that all workers of the job have. auto
    compares plans with the flow simulator. Only worker 0 prints; HOST in the examples is its host. The exit code is 1
    if a result is wrong.

    Examples:
    treefold run torus:2x2 --local 4 --sizes 1MiB:64MiB
    treefold run --discover --size 64MiB
    torchrun --nproc-per-node 1 --nnodes 4 --rdzv-backend c10d --rdzv-endpoint HOST:29500 -m treefold run plan.json

    """
    with interrupts.at_once():
        from treefold.perf import runs
        from treefold.rendezvous.meeting import all_or_none
        from treefold.runtime.engines import engine_maker

    check_alone(job_options.trace, as_json)
    asked = {"algorithm": one_algorithm(what.algorithm) or "auto", **planner.asked()}
    discovering.check(source, flags_given(network), job_options.trace, asked["algorithm"])
    is_local, discovers = workers.local is not None, discovering.is_on
    prepare = cache(partial(_prepare, source, what, job_options, planner, workers, network, discovers))

    def work(joined: "Rendezvous") -> list[dict[str, Any]]:
        job, read = all_or_none(joined, prepare)
        engine = all_or_none(joined, lambda: engine_maker(job.transport, joined))
        if discovers:
            runs.check_alike(joined, job, read, asked)  # before anything is measured
            job, read = job_options.on_discovered(job, discovering.found(joined))
        follow = iter if joined.rank else measuring
        rows = runs.among_processes(joined, job, read, asked, engine, follow, discovers or not is_local)
        if joined.rank and any(row["wrong"] for row in rows):
            raise typer.Exit(1)
        return rows

    if workers.local is not None and job_options.transport in (None, "threads") and not discovers:
        rows: list[dict[str, Any]] | None = runs.among_threads(_threads(workers), *prepare(), asked, measuring)
    else:
        workers.check(2)
        if is_local:
            prepare()  # refuses mistakes before any process starts
        rows = among_workers(work, workers, without_local(sys.argv[1:]))
    if rows is not None:
        _show(rows, as_json, _notes(prepare()[1], job_options, is_local, rows, discovering), job_options.trace)
        raise typer.Exit(int(any(row["wrong"] for row in rows)))


def _threads(workers: WorkerOptions) -> int:
    """Return how many workers are threads of this process, after checks of their options."""
    workers.check(1)
    if workers.timeout != WorkerOptions.timeout:
        raise TreefoldError(f"--timeout {workers.timeout:g} has no effect with --local; drop it")
    stay_local()
    return workers.local or 0


def _prepare(
    source: str | None,
    what: RunOptions,
    options: JobOptions,
    planner: PlannerOptions,
    workers: WorkerOptions,
    network: NetworkOptions,
    discovers: bool,
) -> "tuple[Job, Plan | Topology | None]":
    """Return the job, and the plan or the network to plan for, after checks."""
    named = ["--algorithm"] if what.algorithm not in (None, "auto") else []
    read = _read(source, named + flags_given(planner), network)
    return _job(source, read, options, what, workers, discovers), read


def _job(
    source: str | None,
    read: Plan | Topology | None,
    options: JobOptions,
    what: RunOptions,
    workers: WorkerOptions,
    discovers: bool,
) -> "Job":
    """Return the job of the options, after checks; `read` is what was read from `source`."""
    from treefold.perf.job import Job
    from treefold.runtime.arrays import WIRE_TYPES
    from treefold.runtime.engines import choose_transport

    asked = what.of_plan(read, str(source)) if isinstance(read, Plan) else what.asked()
    network = read.topology if isinstance(read, Plan) else read
    ranks = None if network is None else network.ranks
    blocks = None if asked["blocks"] is None else read_blocks(asked["blocks"], ranks)
    is_between_processes = discovers and workers.local is not None and options.transport is None
    transport = choose_transport("tcp" if is_between_processes else options.transport, workers.local is not None)
    is_plain = asked["collective"] == "all-reduce" and options.trace is None
    job = Job(
        sizes_bytes=tuple(options.sizes_for(read, blocks)),
        collective=asked["collective"],
        op=options.op,
        type=options.number,
        wire=None if options.wire is None else checks.name("wire type", options.wire, WIRE_TYPES),
        root=asked["root"],
        blocks=None if blocks is None else tuple(map(tuple, blocks.tolist())),
        iterations=options.iters,
        warmup=options.warmup,
        transport=transport,
        adapt=options.adapts(discovers and transport == "tcp" and is_plain),
        learn=None if options.learn is None else str(options.learn),
        streams=options.streams,
        discover=discovers,
        trace=None if options.trace is None else str(options.trace),
    )
    job.check()
    if workers.port is not None and job.transport != "tcp":
        raise TreefoldError(f"--port {workers.port}: only tcp listens on it, not {job.transport}; drop it")
    if options.trace is not None and isinstance(read, Plan) and _is_same_file(options.trace, str(source)):
        raise TreefoldError(f"--trace {options.trace}: it is the file of the plan; name another one")
    if options.learn is not None and isinstance(read, Plan) and _is_same_file(options.learn, str(source)):
        raise TreefoldError(f"--learn {options.learn}: it is the file of the plan, not of a network; name another one")
    job.check_memory(workers.local or 1)
    return job


def _is_same_file(path: Path, other: str) -> bool:
    return path.exists() and path.samefile(other)


def _read(source: str | None, planning: list[str], network: NetworkOptions) -> Plan | Topology | None:
    """Return the plan, or the network to plan for; a plan's file refuses the flags of planners in `planning`."""
    is_plan = source is not None and is_plan_file(source)
    given = flags_given(network) if source is None or is_plan else []
    if given := given + (planning if is_plan else []):
        why = "no network is given" if source is None else f"{source} is already a plan"
        raise TreefoldError(f"{why}; drop {', '.join(given)}")
    if source is None:
        return None
    return load_plan(source) if is_plan else network.load(source)


def _notes(
    read: Plan | Topology | None,
    options: JobOptions,
    is_local: bool,
    rows: Sequence[Mapping[str, Any]],
    discovering: DiscoverOptions,
) -> str:
    """Return the notes below the table of these rows."""
    note = ""
    if isinstance(read, Plan) and options.size is None and options.sizes is None:
        note = own_size(read)
    if is_local and read is not None:
        note += "\n# no bound and no prediction: local workers are not joined by the network that was planned for"
    for row in rows if options.wire is not None and options.wire != options.number else ():
        if row["wire"] is None:
            note += (
                f"\n# {_core.format_size(row['size_bytes'])} crossed lines as {options.number}: in plans of "
                f"{row['algorithm']} ranks add up by themselves; name another algorithm, for example multitree"
            )
    if any((row["bound_fraction"] or 0) > _BEYOND_BOUND for row in rows):
        slow = "the given network allows: measure it with treefold probe"
        if discovering.is_on:
            where = discovering.file or "the cache"
            slow = f"the network in {where} allows: delete that file to measure anew, with more --probe-seconds"
        note += f"\n# faster than {slow}"
    if options.trace is not None:
        median_s = rows[-1]["median_time_s"]
        note += f"\n# {options.trace} has the transfers of the run with the median time, {median_s * 1e6:.2f} us"
    return note


def _show(rows: Sequence[dict[str, Any]], as_json: bool, notes: str, trace: Path | None) -> None:
    from treefold.report.measured import run_table

    for change in (change for row in rows for change in row["changes"]):
        notify(change if change.startswith("learnt: ") else f"planned anew: {change}")
    show(rows, as_json, lambda: run_table(rows) + notes, written=trace)
