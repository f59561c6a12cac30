"""Simulates several plans at once on one network, beside background traffic: how much they disturb each other."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from treefold import _core, checks
from treefold._core import Plan, Trace
from treefold.errors import TreefoldError
from treefold.job_results import BackgroundReport, Interference, JobPrediction
from treefold.networks import link_model_of, under
from treefold.options import Machine
from treefold.simulation import (
    Found,
    Simulator,
    listener_for,
    predicted,
    simulator_of,
    size_for,
)

if TYPE_CHECKING:
    from treefold._core import BackgroundCounts, PacketCounts

DEFAULT_MESSAGE_BYTES = 64
"""The size of a message of background traffic."""


class Background(NamedTuple):
    """Background traffic, as the core reads it."""

    load: float
    message_bytes: int
    seed: int


class Jobs(NamedTuple):
    """What runs together, with all choices made."""

    plans: list[Plan]
    sizes: list[int]
    simulator: Simulator
    link_model: str
    background: Background | None


def simulate_together(
    plans: Sequence[Plan],
    *,
    sizes_bytes: int | str | Sequence[int | str] | None = None,
    simulator: str | Machine = "flow",
    link_model: str = "propagation",
    background_load: float = 0.0,
    background_bytes: int | str | None = None,
    background_seed: int | None = None,
    alone: bool = True,
) -> Interference:
    """Predict the times of several plans that begin at once on one network.

    The networks of the plans may differ only in which accelerators are ranks (`ranks` of `treefold.topology`). An
    accelerator may be a rank of several plans; its interfaces then serve all of them in turn.

    Args:
        plans: The plans; a plan that is listed twice runs twice.
        sizes_bytes: The size of each plan's vector, or one size for all, in bytes or as texts with a unit such as
            `1MiB`; by default the size that each plan was made for, or 64 MiB if that is unknown.
        simulator: The simulator: `flow` or `packet`; or a `treefold.Machine`, on which the packet simulator runs the
            plans. The switches must be routers.
        link_model: The meaning of a link's latency: `propagation` or `hockney`.
        background_load: The fraction of the bandwidth of its links together, from 0 to below 1, that each accelerator
            sends as short messages to random others. The packet simulator sends them as packets, and their head flits
            count; the flow simulator takes their share from the bandwidth of each link.
        background_bytes: The size of such a message, in bytes or as a text with a unit; by default 64. It needs a
            `background_load`.
        background_seed: The seed of the messages' times and targets; by default 1. It needs a `background_load`.
        alone: Whether to simulate each plan alone, too, which the slowdown needs.

    Raises:
        TreefoldError: If the networks differ in more than their ranks, the analytic simulator is asked for, a plan
            would run on a fabric, there are neither as many sizes as plans nor one, the load is not from 0 to below 1,
            a size or a seed of messages is given without a load, or the background alone is more than a link can carry.

    Example:
        >>> ring = treefold.plan("ring:8", "ring", size_bytes=64 << 20)
        >>> [f"{job.slowdown:.2f}" for job in treefold.simulate_together([ring, ring]).jobs]
        ['2.00', '2.00']

    """
    background = background_of(background_load, background_bytes, background_seed)
    jobs = jobs_of(plans, sizes_bytes, simulator_of(simulator), link_model_of(link_model), background)
    return interference(jobs, alone, record=False)[0]


def background_of(load: float, message_bytes: int | str | None, seed: int | None) -> Background | None:
    """Return the background traffic; None if there is no load.

    Raises:
        TreefoldError: If a size or a seed is given without a load, or something is not a number.

    """
    load = checks.number("background load", load, "injection bandwidths, such as 0.1")
    for name, given in (("size", message_bytes), ("seed", seed)):
        if given is not None and load == 0:
            raise TreefoldError(
                f"background {name} {given} has no effect without background traffic; give it a load, such as "
                "background_load=0.1"
            )
    if load == 0:
        return None
    size = DEFAULT_MESSAGE_BYTES if message_bytes is None else checks.size(message_bytes)
    return Background(load, size, checks.whole("background seed", 1 if seed is None else seed, 0, 2**63 - 1))


def jobs_of(
    plans: Sequence[Plan],
    sizes_bytes: int | str | Sequence[int | str] | None,
    simulator: Simulator,
    link_model: str,
    background: Background | None,
) -> Jobs:
    """Return jobs with the sizes of their vectors.

    Raises:
        TreefoldError: If something is no plan, the numbers of plans and sizes differ, or the simulator takes only one
            plan.

    """
    if simulator.name == "analytic":
        raise TreefoldError(
            "the analytic simulator takes one plan at a time, without background traffic; use flow or packet"
        )
    plans = [checks.plan(plan) for plan in ([plans] if isinstance(plans, Plan) else plans)]
    given: Sequence[int | str | None]
    if isinstance(sizes_bytes, Sequence) and not isinstance(sizes_bytes, str):
        given = sizes_bytes
    else:
        given = [sizes_bytes] * len(plans)
    if len(given) != len(plans):
        raise TreefoldError(f"{len(given)} sizes for {len(plans)} plans; give one size for each, or one for all")
    sizes = [size_for(plan, size) for plan, size in zip(plans, given, strict=True)]
    return Jobs([under(plan, link_model) for plan in plans], sizes, simulator, link_model, background)


def interference(jobs: Jobs, alone: bool, record: bool) -> tuple[Interference, list[Trace]]:
    """Simulate jobs together, and each alone if `alone` is true; return the result and the traces.

    The traces list transfers only if `record` is true.
    """
    start = time.perf_counter()
    found, figures = _simulate(jobs, None, record)
    wall_s = time.perf_counter() - start
    is_alone = len(jobs.plans) == 1 and jobs.background is None
    rows: list[JobPrediction] = []
    times: dict[tuple[int, int], float] = {}
    for place, (plan, size, (trace, counts)) in enumerate(zip(jobs.plans, jobs.sizes, found, strict=True)):
        prediction = predicted(plan, size, jobs.simulator.name, jobs.link_model, Found(trace, counts, wall_s))
        alone_s = prediction.time_s if alone and is_alone else None
        if alone and not is_alone:
            if (id(plan), size) not in times:
                times[id(plan), size] = _alone(jobs, place)
            alone_s = times[id(plan), size]
        slowdown = prediction.time_s / alone_s if alone_s else None
        rows.append(JobPrediction(job=place + 1, prediction=prediction, alone_s=alone_s, slowdown=slowdown))
    background = None if jobs.background is None else _background_report(jobs.background, figures)
    result = Interference(jobs=tuple(rows), shared_ranks=_shared_ranks(jobs.plans), background=background)
    return result, [trace for trace, _ in found]


def _alone(jobs: Jobs, place: int) -> float:
    """Return the seconds that a job takes alone, on the machine on which all jobs run."""
    if jobs.simulator.name == "flow":
        return _core.simulate_flow(jobs.plans[place], jobs.sizes[place], False, _listener(jobs, place)).time_s
    [(trace, _)], _ = _simulate(jobs, place, False)
    return trace.time_s


def _simulate(
    jobs: Jobs, only: int | None, record: bool
) -> "tuple[list[tuple[Trace, PacketCounts | None]], BackgroundCounts | None]":
    """Return the trace and the counts of each job that sends, and the figures of the background."""
    plans, sizes, simulator, _, background = jobs
    listener = _listener(jobs, only)
    if simulator.name == "flow":
        traces = _core.simulate_flow_together(plans, sizes, background, record, listener)
        return [(trace, None) for trace in traces], None
    runs = _core.simulate_packet_together(plans, sizes, background, only, record, simulator.machine, listener)
    return [(run.trace, run.counts) for run in runs.jobs], runs.background


def _listener(jobs: Jobs, only: int | None) -> Callable[[float], None] | None:
    whose = "all jobs" if only is None else f"job {only + 1} alone"
    sending = list(zip(jobs.plans, jobs.sizes, strict=True))
    return listener_for(f"{jobs.simulator.name} simulator, {whose}", sending if only is None else [sending[only]])


def _background_report(background: Background, counts: "BackgroundCounts | None") -> BackgroundReport:
    return BackgroundReport(
        load=background.load,
        message_bytes=background.message_bytes,
        messages=None if counts is None else counts.messages,
        mean_latency_s=None if counts is None else counts.mean_latency_s,
        p99_latency_s=None if counts is None else counts.p99_latency_s,
    )


def _shared_ranks(plans: Sequence[Plan]) -> int:
    """Count the accelerators that are ranks of more than one plan."""
    counts = Counter(name for plan in plans for name in plan.topology.rank_names)
    return sum(count > 1 for count in counts.values())
