"""What `treefold run` measures: collectives on real vectors, every result verified on every rank.

A team runs operations for the ranks whose vectors this process holds: one of a `Group`, or all of them as threads. An
iteration begins with a tiny all-reduce, so that all ranks start together, and takes as long as its slowest rank.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from statistics import fmean, median
from typing import Any, NamedTuple, Protocol

import numpy as np

from treefold import _core, verbs
from treefold._core import Plan, Topology
from treefold.errors import TreefoldError
from treefold.runtime import threads
from treefold.text import visible
from treefold.workers import memory, patterns, said
from treefold.workers.agreement import agreed_plan, check_base, planned, seat
from treefold.workers.group import Group, MakeEngine, form
from treefold.workers.patterns import Array
from treefold.workers.rendezvous import Rendezvous

REDUCING = ("all-reduce", "reduce-scatter", "reduce")
ROOTED = ("broadcast", "reduce")
_MOST_SHOWN = 200
_MOST_ITERATIONS = 10**9
_SMALLER = "choose a smaller size, or fewer ranks"

Track = Callable[[Sequence[int]], Iterable[int]]


@dataclass(frozen=True)
class Job:
    """What to measure; the same on all ranks."""

    sizes_bytes: tuple[int, ...]
    """Of the vector: of what a rank ends with after all-gather, or begins with before reduce-scatter."""
    collective: str = "all-reduce"
    op: str = "sum"
    type: str = "float32"
    root: int = 0
    iterations: int = 5
    warmup: int = 1
    transport: str = "tcp"
    adapt: bool = False
    """Whether the plan follows the network; over TCP."""

    def check(self) -> None:
        """Refuse what no group can run.

        Raises:
            TreefoldError: Naming the option and its value.

        """
        if self.adapt and self.transport != "tcp":
            raise TreefoldError(f"--adapt works over tcp, not over {self.transport}; drop it or choose --transport tcp")
        element = _core.number_bytes(self.type, self.op if self.collective in REDUCING else "sum")
        for name, value, least in (("iters", self.iterations, 1), ("warmup", self.warmup, 0)):
            if value < least:
                raise TreefoldError(f"--{name} {value}: must be at least {least}")
            if value > _MOST_ITERATIONS:
                raise TreefoldError(f"--{name} {value}: must be at most {_MOST_ITERATIONS}")
        for size in self.sizes_bytes:
            if size < element:
                raise TreefoldError(
                    f"size {_core.format_size(size)} holds no {self.type} number; it takes {element} bytes at least"
                )

    def check_memory(self, ranks: int) -> None:
        """Refuse vectors that do not fit into memory, where so many ranks have theirs on this machine.

        Raises:
            TreefoldError: With what they take and what there is.

        """
        has_copy = self.adapt or self.collective == "all-to-all"
        size_bytes = max(self.sizes_bytes)
        who = f"{ranks} ranks" if ranks > 1 else "a rank"
        take = "take" if ranks > 1 else "takes"
        what = f"{_core.format_size(size_bytes)} for {who} on this machine {take}"
        memory.check(what, ranks * size_bytes * (2 if has_copy else 1), _SMALLER)

    def check_root(self, ranks: int) -> None:
        """Refuse a root that is no rank.

        Raises:
            TreefoldError: Naming it.

        """
        if not 0 <= self.root < ranks:
            raise TreefoldError(f"root {self.root} does not exist: there are {ranks} ranks, 0 to {ranks - 1}")


class Team(Protocol):
    """Who runs operations. Ranks are the plan's."""

    @property
    def ranks(self) -> Sequence[int]:
        """Whose vectors this process holds."""

    def run(self, plan: Plan, vectors: list[Array], op: str, number: str, results: list[Array]) -> None:
        """Run an operation on these ranks' vectors, in place; `results` takes what does not end there."""

    def exchange(self, blob: bytes) -> list[bytes]:
        """Return the blobs of all processes."""


class GroupTeam(NamedTuple):
    """One rank of a group."""

    group: Group
    exchange: Callable[[bytes], list[bytes]]

    @property
    def ranks(self) -> Sequence[int]:
        """See `Team`."""
        return [self.group.rank]

    def run(self, plan: Plan, vectors: list[Array], op: str, number: str, results: list[Array]) -> None:
        """See `Team`."""
        self.group.run(plan, vectors[0], op, number, results[0] if results else None)


class ThreadTeam:
    """All ranks, as threads of this process."""

    def __init__(self, ranks: int) -> None:
        self.ranks: Sequence[int] = range(ranks)

    def run(self, plan: Plan, vectors: list[Array], op: str, number: str, results: list[Array]) -> None:
        """See `Team`."""
        pieces = threads.execute(plan, vectors, op, number)
        for result, found in zip(results, pieces, strict=False):
            np.concatenate(found, out=result)

    def exchange(self, blob: bytes) -> list[bytes]:
        """See `Team`."""
        return [blob]


def agree(rendezvous: Rendezvous, job: Job, source: Plan | Topology | None, wishes: dict[str, Any]) -> None:
    """Make sure that all ranks were started alike; those that were given no plan or network take rank 0's.

    Raises:
        TreefoldError: On every rank, naming the first that differs from rank 0.

    """
    mine = asdict(job) | wishes | {"network": _digest(source)}
    first, *others = said.exchange(rendezvous.exchange, mine, {"network": str | None})
    for rank, other in enumerate(others, 1):
        if other["network"] not in (None, first["network"]):
            raise TreefoldError(
                f"rank {rank} was started with another plan or network than rank 0; give all ranks the same file"
            )
        for key, value in first.items():
            if other.get(key) != value and key != "network":
                raise TreefoldError(
                    f"rank {rank} was started with {key} {_shown(other.get(key))}, rank 0 with {_shown(value)}; start "
                    "all ranks with the same"
                )


def _digest(source: Plan | Topology | None) -> str | None:
    return None if source is None else sha256(source.to_json().encode()).hexdigest()


def _shown(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return visible(text[:_MOST_SHOWN])


def measure(team: Team, plan: Plan, base: Plan, job: Job, size_bytes: int, track: Track) -> dict[str, Any]:
    """Run one size, and return what was measured; the keys are those of `treefold run --json`.

    Args:
        team: Who runs.
        plan: For the job's collective.
        base: An all-reduce, for barriers.
        job: What to measure.
        size_bytes: Of the vector.
        track: Wraps the iterations, to show progress.

    """
    with memory.told(f"{_core.format_size(size_bytes)} for each rank take", _SMALLER):
        bench = _Bench(team, plan, base, job, size_bytes)
        for iteration in track(range(job.warmup + job.iterations)):
            bench.iterate(iteration)
    times = (said.is_amount,) * len(bench.seconds)
    heard = said.exchange(team.exchange, [bench.seconds, bench.wrong], (times, said.is_count))
    slowest = [max(each) for each in zip(*(seconds for seconds, _ in heard), strict=True)][job.warmup :]
    return {"count": bench.count, **_times(slowest), "wrong": sum(wrong for _, wrong in heard)}


def _times(seconds: list[float]) -> dict[str, float]:
    return {"time_s": fmean(seconds), "min_time_s": min(seconds), "median_time_s": median(seconds)}


class _Bench:
    """Vectors of one size, and how long operations on them took."""

    def __init__(self, team: Team, plan: Plan, base: Plan, job: Job, size_bytes: int) -> None:
        self.team, self.plan, self.base, self.job = team, plan, base, job
        kind = patterns.storage(job.type)
        self.count = size_bytes // kind.itemsize
        self.seconds: list[float] = []
        self.wrong = 0
        ranks = plan.topology.ranks
        self.op = job.op if job.collective in REDUCING else "sum"
        tables = patterns.Tables(ranks, job.type, self.op)
        self.inputs = [patterns.inputs(tables, job.collective, self.count, rank) for rank in team.ranks]
        root = plan.root or 0
        self.wanted = [patterns.results(tables, job.collective, self.count, rank, root) for rank in team.ranks]
        self.vectors = [np.zeros(self.count, kind) for _ in team.ranks]
        self.results: list[Array] = []
        if job.collective == "all-to-all":
            self.results = [np.zeros(parts[-1].elements.stop, kind) for parts in self.wanted]

    def iterate(self, iteration: int) -> None:
        for vector, parts in zip(self.vectors, self.inputs, strict=True):
            patterns.fill(vector, parts, iteration)
        self.barrier()
        start = time.perf_counter()
        self.team.run(self.plan, self.vectors, self.op, self.job.type, self.results)
        self.seconds.append(time.perf_counter() - start)
        for vector, parts in zip(self.results or self.vectors, self.wanted, strict=True):
            self.wrong += patterns.wrong(vector, parts, iteration)

    def barrier(self) -> None:
        flags = [np.ones(1, np.int32) for _ in self.team.ranks]
        self.team.run(self.base, flags, "sum", "int32", [])


def among_processes(
    rendezvous: Rendezvous,
    job: Job,
    source: Plan | Topology | None,
    wishes: dict[str, Any],
    engine: MakeEngine | None,
    track: Track,
    is_network_real: bool = True,
) -> list[dict[str, Any]]:
    """Measure as one of several processes, which all do the same; return the rows.

    Args:
        rendezvous: Where they meet.
        job: What to measure.
        source: A plan, or the network to plan for; None: workers that reach each other equally well.
        wishes: As for `treefold.plan`, `algorithm` among them.
        engine: Carries the messages; None: TCP does.
        track: Wraps the iterations, to show progress.
        is_network_real: Whether the network of `source` is the one under the run: only then it tells a bound, and
            predicts a time.

    Raises:
        TreefoldError: If workers disagree, do not match the network, or are lost.

    """
    agree(rendezvous, job, source, wishes)
    job.check_root(rendezvous.size)
    found, group = [], None
    try:
        for size_bytes in job.sizes_bytes:
            network = source if isinstance(source, Topology) else None
            given = source if isinstance(source, Plan) else None
            base = agreed_plan(rendezvous, given, network, size_bytes, wishes, job.collective)
            if group is None or base.fingerprint != group.plan.fingerprint:
                if group is not None:
                    group.close()
                group = form(rendezvous, base, engine=engine, adapt=job.adapt)
            root = group.seats.rank_of_worker[job.root]
            plan = group.derived(job.collective, root)
            measured = measure(GroupTeam(group, rendezvous.exchange), plan, base, job, size_bytes, track)
            # After a change the network is another one, and so are its bound and the prediction.
            found.append((group.current(plan), measured | {"changes": group.changes()}))
    finally:
        if group is not None:
            group.close()
    is_known = is_network_real and source is not None and rendezvous.rank == 0  # who prints
    return [row(plan, job, each, is_known) for plan, each in found]


def among_threads(
    ranks: int, job: Job, source: Plan | Topology | None, wishes: dict[str, Any], track: Track
) -> list[dict[str, Any]]:
    """Measure with all ranks as threads of this process, under which there is no network of `source`."""
    job.check_root(ranks)
    job.check_memory(ranks)
    found = []
    for size_bytes in job.sizes_bytes:
        if isinstance(source, Plan):
            check_base(base := source)
        else:
            base = planned([None] * ranks, source, size_bytes, wishes, job.collective)
        seat([None] * ranks, base.topology)
        plan = base.derive(job.collective, job.root)
        found.append((plan, measure(ThreadTeam(ranks), plan, base, job, size_bytes, track)))
    return [row(plan, job, each, is_known=False) for plan, each in found]


def row(plan: Plan, job: Job, measured: dict[str, Any], is_known: bool) -> dict[str, Any]:
    """Return the JSON of a size: what was measured, beside what the network allows where it is known."""
    size_bytes = measured["count"] * patterns.storage(job.type).itemsize
    algbw = size_bytes / measured["time_s"]
    bound_s = predicted_s = None
    if is_known:
        seen = verbs.simulate(plan, size_bytes=size_bytes, model="flow")
        bound_s, predicted_s = seen["bound_s"], seen["time_s"]
    return {
        "size_bytes": size_bytes,
        "count": measured["count"],
        "type": job.type,
        "redop": job.op if job.collective in REDUCING else "none",
        "root": job.root if job.collective in ROOTED else -1,
        "collective": job.collective,
        "algorithm": plan.algorithm,
        "transport": job.transport,
        "ranks": plan.topology.ranks,
        **{key: measured[key] for key in ("time_s", "min_time_s", "median_time_s")},
        "algbw_Bps": algbw,
        "busbw_Bps": algbw * plan.bus_factor,
        "wrong": measured["wrong"],
        "bound_s": bound_s,
        "bound_fraction": None if bound_s is None else bound_s / measured["time_s"],
        "predicted_s": predicted_s,
        "iterations": job.iterations,
        "changes": measured.get("changes", []),
    }
