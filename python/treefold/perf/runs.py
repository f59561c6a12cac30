"""Runs a whole job, among processes or threads, and returns a row of JSON for each size."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np

from treefold import _core, checks
from treefold._core import Plan, Topology
from treefold.collectives import COLLECTIVES
from treefold.errors import TreefoldError
from treefold.files.traces import check_trace_writable, save_trace
from treefold.perf import patterns
from treefold.perf.bench import Measurement, Plans, Track, measure
from treefold.perf.job import Job
from treefold.perf.teams import GroupTeam, ThreadTeam
from treefold.rendezvous import Rendezvous, validation
from treefold.rendezvous.meeting import all_or_none
from treefold.runtime.adaptive import check_learn
from treefold.runtime.agreement import AgreedPlans, agreed_plans, all_reduce_beside, check_base, first_plan
from treefold.runtime.engine import MakeEngine
from treefold.runtime.forming import form
from treefold.runtime.group import Group
from treefold.runtime.plans import plan_like
from treefold.runtime.rank_mapping import map_ranks
from treefold.simulation import simulate
from treefold.text import visible

_MOST_SHOWN = 200
_FLAGS = {"sizes_bytes": "sizes", "iterations": "iters"}
"""The options whose names are not those of what they say."""


def among_processes(
    meeting: Rendezvous,
    job: Job,
    source: Plan | Topology | None,
    options: Mapping[str, Any],
    engine: MakeEngine | None,
    track: Track,
    is_network_real: bool = True,
) -> list[dict[str, Any]]:
    """Run a job as one of several processes, which all call this; return the rows of `treefold run --json`.

    Args:
        meeting: The rendezvous of the processes.
        job: The measurements to make.
        source: A plan, or the network to plan for; without either, workers are assumed to reach each other equally
            well.
        options: The `algorithm`, and fields of `treefold.PlannerOptions`.
        engine: A function that makes the engine which carries the messages; None for TCP.
        track: A function that passes the iterations on, and may show how far they are.
        is_network_real: Whether the processes run on the network of `source`; only then it has a bound and a
            prediction for them.

    Raises:
        TreefoldError: If workers disagree, do not match the network, or are lost.

    """
    check_alike(meeting, job, source, options)
    measured: list[tuple[Plan, Job, Measurement, list[str]]] = []
    group: Group | None = None
    try:
        for size_bytes in job.sizes_bytes:
            network = source if isinstance(source, Topology) else None
            given = source if isinstance(source, Plan) else None
            agreed = agreed_plans(meeting, given, network, size_bytes, options, job.crossing)
            if group is None or not _serves(group, agreed.all_reduce, job.collective):
                if group is not None:
                    group.close()
                group = form(meeting, agreed, job.connections, engine, job.adapt, job.learn)
            agreed = agreed._replace(all_reduce=group.plan)
            if agreed.given is not None and agreed.given.blocks is None:
                group.serve(agreed.given)
            plan = _planned(agreed, job, group.plan_for, group.mapping.rank_of_worker[job.root])
            team = GroupTeam(group, meeting.exchange)
            result = measure(team, Plans(plan, agreed.all_reduce), job, size_bytes, track)
            # After a change the network is another one, and so are its bound and the prediction.
            done = replace(job, root=group.mapping.worker_of_rank[plan.root or 0])
            measured.append((group.current(plan), done, result, group.changes()))
    finally:
        if group is not None:
            group.close()
    _save([result for _, _, result, _ in measured], job)
    is_known = is_network_real and source is not None and meeting.rank == 0  # which prints
    return [row(*each, is_known) for each in measured]


def check_alike(meeting: Rendezvous, job: Job, source: Plan | Topology | None, options: Mapping[str, Any]) -> None:
    """Check before long work that all workers were started alike, and that the job suits their number and can be kept.

    Raises:
        TreefoldError: On every worker, if one was started otherwise, or the job cannot be run.

    """
    agree(meeting, job, source, options)
    checks.root(job.root, meeting.size, "workers")
    all_or_none(meeting, lambda: None if meeting.rank else _check_writable(job))


def _serves(group: Group, base: Plan, collective: str) -> bool:
    """Return whether a group has this all-reduce, and would plan the collective for the size of it."""
    is_for_size = collective == "all-reduce" or base.size_bytes == group.plan.size_bytes
    return base.fingerprint == group.plan.fingerprint and is_for_size


def among_threads(
    ranks: int, job: Job, source: Plan | Topology | None, options: Mapping[str, Any], track: Track
) -> list[dict[str, Any]]:
    """Run a job with all ranks as threads of this process, without the network of `source` between them."""
    checks.root(job.root, ranks, "workers")
    job.check_memory(ranks)
    _check_writable(job)
    rows = []
    for size_bytes in job.sizes_bytes:
        agreed = _agreed_alone(ranks, source, size_bytes, options, job.crossing)
        map_ranks([None] * ranks, agreed.all_reduce.topology)
        plan = _planned(agreed, job, partial(plan_like, agreed.all_reduce), job.root)
        result = measure(ThreadTeam(ranks), Plans(plan, agreed.all_reduce), job, size_bytes, track)
        _save([result], job)
        rows.append(row(plan, job, result, [], is_known=False))
    return rows


def _check_writable(job: Job) -> None:
    """Refuse before the run a file that cannot be written during or after it."""
    if job.trace is not None:
        check_trace_writable(job.trace)
    check_learn(job.learn, job.adapt)


def _save(measured: Sequence[Measurement], job: Job) -> None:
    """Write the trace of a measurement, if this process has one."""
    for each in measured:
        if each.trace is not None and job.trace is not None:
            save_trace(each.trace, job.trace)


def _agreed_alone(
    ranks: int,
    source: Plan | Topology | None,
    size_bytes: int,
    options: Mapping[str, Any],
    crossing: tuple[str, int] | None,
) -> AgreedPlans:
    """Return the plans of ranks that are all in this process."""
    if not isinstance(source, Plan):
        return AgreedPlans(first_plan([None] * ranks, source, size_bytes, options, crossing))
    check_base(source)
    return AgreedPlans(source) if source.collective == "all-reduce" else AgreedPlans(all_reduce_beside(source), source)


def _planned(agreed: AgreedPlans, job: Job, plan_for: Callable[[str, int], Plan], root: int) -> Plan:
    """Return the plan of the job from or to a rank: the one that was given, or that of `plan_for` for equal blocks."""
    if agreed.given is not None:
        return agreed.given
    if job.blocks is None:
        return plan_for(job.collective, root)
    return plan_like(agreed.all_reduce, job.collective, root, np.array(job.blocks, np.uint64))


def agree(meeting: Rendezvous, job: Job, source: Plan | Topology | None, options: Mapping[str, Any]) -> None:
    """Check that all workers were started alike; those without a plan or network use worker 0's.

    Raises:
        TreefoldError: On every worker, naming the first that differs from worker 0.

    """
    mine = {**asdict(job), **options, "network": _digest(source)}
    first, *others = validation.exchange(meeting.exchange, mine, {"network": str | None})
    for worker, other in enumerate(others, 1):
        if other["network"] not in (None, first["network"]):
            raise TreefoldError(
                f"worker {worker} was started with another plan or network than worker 0; give all the same file"
            )
        for key in {**first, **other}:
            if other.get(key) != first.get(key) and key != "network":
                raise TreefoldError(
                    f"worker {worker} was started {_given(key, other.get(key))}, worker 0 "
                    f"{_given(key, first.get(key))}; start all with the same"
                )


def _digest(source: Plan | Topology | None) -> str | None:
    return None if source is None else sha256(source.to_json().encode()).hexdigest()


def _given(key: str, value: object) -> str:
    """Return how a worker was started: with an option of `treefold run` that has this value, or without it."""
    flag = f"--{_FLAGS.get(key, key.replace('_', '-'))}"
    if value is None or value is False:
        return f"without {flag}"
    if value is True:
        return f"with {flag}"
    each = value if isinstance(value, list) else [value]
    is_size = key == "sizes_bytes" and all(map(validation.is_count, each))
    text = ",".join(map(_core.format_size if is_size else str, each))
    return visible(f"with {flag} {text}"[:_MOST_SHOWN])


def _crossing_bytes(job: Job, measured: Measurement) -> int:
    """Return the bytes of a vector as it crosses lines."""
    if measured.wire is None:
        return measured.elements * patterns.storage(job.type).itemsize
    return _core.wire_bytes(measured.wire, measured.elements)


def row(plan: Plan, job: Job, measured: Measurement, changes: Sequence[str], is_known: bool) -> dict[str, Any]:
    """Return the JSON of a size: what was measured, and what the network allows where it is known."""
    collective = COLLECTIVES[job.collective]
    size_bytes = measured.elements * patterns.storage(job.type).itemsize
    algbw = size_bytes / measured.time_s
    bound_s = predicted_s = None
    if is_known:
        predicted = simulate(plan, size_bytes=_crossing_bytes(job, measured), simulator="flow")
        bound_s, predicted_s = predicted.bound_s, predicted.time_s
    return {
        "size_bytes": size_bytes,
        "count": measured.elements,
        "type": job.type,
        "wire": measured.wire,
        "redop": job.op if collective.reduces else "none",
        "root": job.root if collective.has_root else -1,
        "collective": job.collective,
        "algorithm": plan.algorithm,
        "transport": job.transport,
        "ranks": plan.topology.ranks,
        "time_s": measured.time_s,
        "min_time_s": measured.min_time_s,
        "median_time_s": measured.median_time_s,
        "algbw_Bps": algbw,
        "busbw_Bps": algbw * plan.bus_factor,
        "wrong": measured.wrong,
        "bound_s": bound_s,
        "bound_fraction": None if bound_s is None else bound_s / measured.time_s,
        "predicted_s": predicted_s,
        "iterations": job.iterations,
        "changes": list(changes),
    }
