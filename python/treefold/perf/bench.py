"""Measures a collective on vectors of one size, and verifies every result on every rank.

An iteration begins with a tiny all-reduce, so that all ranks start together, and takes as long as its slowest rank.
Another one comes before results are verified, so that all ranks have ended.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

from treefold import _core
from treefold._core import Plan, Trace
from treefold.collectives import COLLECTIVES
from treefold.perf import memory, patterns
from treefold.perf.job import SMALLER, Job
from treefold.perf.recorder import Recorder, median_run
from treefold.perf.teams import Kind, Team
from treefold.rendezvous import validation
from treefold.runtime.arrays import crossing, wire_for
from treefold.runtime.threads import Array

Track = Callable[[Sequence[int]], Iterable[int]]
"""A function that passes the iterations on, and may show how far they are."""


class Plans(NamedTuple):
    """The plans of a measurement."""

    collective: Plan
    """The plan that is measured."""
    all_reduce: Plan
    """The plan of an all-reduce, for barriers."""


class Measurement(NamedTuple):
    """The measurement of one size."""

    elements: int
    """How many elements the vector has, or the longest one of an all-to-all with unequal blocks."""
    wire: str | None
    """The type in which numbers crossed lines; None if they crossed as they are."""
    time_s: float
    """The mean time of an iteration."""
    min_time_s: float
    median_time_s: float
    wrong: int
    """How many elements of results were wrong, on all ranks together."""
    trace: Trace | None = None
    """When the messages of the run with the median time left and came, if that was asked of this process."""


def measure(team: Team, plans: Plans, job: Job, size_bytes: int, track: Track) -> Measurement:
    """Run one size, and return what was measured.

    Args:
        team: The team that runs the operations.
        plans: The plan to measure, and the one for barriers.
        job: The job of which this is one size.
        size_bytes: The size of the vector.
        track: A function that passes the iterations on, and may show how far they are.

    Raises:
        TreefoldError: If memory runs out, or the team fails.

    """
    with memory.exhaustion_reported(f"{_core.format_size(size_bytes)} for each rank take", SMALLER):
        bench = _Bench(team, plans, job, size_bytes)
        recorder = Recorder(team) if job.trace is not None else None
        for iteration in track(range(job.warmup + job.iterations)):
            with recorder.recorded() if recorder and iteration >= job.warmup else nullcontext():
                bench.iterate(iteration)
            bench.verify(iteration)
    times = (validation.is_amount,) * len(bench.seconds)
    reports = validation.exchange(team.exchange, [bench.seconds, bench.wrong], (times, validation.is_count))
    slowest = [max(each) for each in zip(*(seconds for seconds, _ in reports), strict=True)][job.warmup :]
    wrong = sum(wrong for _, wrong in reports)
    result = Measurement(bench.elements, bench.wire, fmean(slowest), min(slowest), median(slowest), wrong)
    if recorder is None:
        return result
    what = (*plans, bench.elements, bench.element_bytes)
    return result._replace(trace=recorder.trace(median_run(slowest), *what))


class _Bench:
    """The vectors of one size, and how long operations on them took."""

    def __init__(self, team: Team, plans: Plans, job: Job, size_bytes: int) -> None:
        self.team, self.plans, self.job = team, plans, job
        kind = patterns.storage(job.type)
        self.elements = size_bytes // kind.itemsize
        self.seconds: list[float] = []
        self.wrong = 0
        plan = plans.collective
        wire = wire_for(job.wire, job.type)
        self.wire, self.element_bytes = crossing(plan, self.elements, kind.itemsize, team.message_s, wire)
        tables = patterns.Tables(plan.topology.ranks, job.type, job.operator)
        cut = patterns.Cut(self.elements, plan.topology.ranks, plan.blocks)
        self.tolerance = tables.tolerance(job.wire)
        self.inputs = [patterns.inputs(tables, job.collective, cut, rank) for rank in team.ranks]
        root = plan.root or 0
        self.wanted = [patterns.results(tables, job.collective, cut, rank, root) for rank in team.ranks]
        self.vectors = [np.zeros(cut.vector(rank), kind) for rank in team.ranks]
        self.results: list[Array] = []
        if COLLECTIVES[job.collective].is_personalized:
            self.results = [np.zeros(parts[-1].elements.stop, kind) for parts in self.wanted]

    def iterate(self, iteration: int) -> None:
        """Run the collective once, and measure it."""
        for vector, parts in zip(self.vectors, self.inputs, strict=True):
            patterns.fill(vector, parts, iteration)
        self.barrier()
        start = time.perf_counter()
        job = self.job
        kind = Kind(job.operator, job.type, job.wire)
        self.team.run(self.plans.collective, self.vectors, kind, self.results, self.elements)
        self.seconds.append(time.perf_counter() - start)

    def verify(self, iteration: int) -> None:
        """Count wrong elements, when all ranks are done: it takes processor time from those of this machine."""
        self.barrier()
        for vector, parts in zip(self.results or self.vectors, self.wanted, strict=True):
            self.wrong += patterns.count_wrong(vector, parts, iteration, self.tolerance)

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        flags = [np.ones(1, np.int32) for _ in self.team.ranks]
        self.team.run(self.plans.all_reduce, flags, Kind("sum", "int32"), [], 1)
