"""The plan on which workers agree before they connect: worker 0's, which it makes where none is given."""

from collections.abc import Mapping, Sequence
from typing import Any

from treefold import checks, declared, plans
from treefold._core import Plan, Program, Topology
from treefold.errors import TreefoldError
from treefold.networks import as_network
from treefold.rendezvous import Rendezvous, validation
from treefold.rendezvous.meeting import all_or_none
from treefold.runtime import control
from treefold.runtime.networks import joined_directly, with_named_ranks, with_plain_switches
from treefold.runtime.rank_mapping import map_ranks, repeated_names


def agreed_plan(
    meeting: Rendezvous,
    plan: Plan | None,
    network: Topology | str | None,
    size_bytes: int | str,
    options: Mapping[str, Any],
) -> Plan:
    """Return worker 0's plan; all workers call this together.

    Args:
        meeting: The rendezvous of the workers.
        plan: This worker's plan, if it has one.
        network: The network for which worker 0 makes a plan if it has none, as in `first_plan`.
        size_bytes: The size for which worker 0 makes a plan.
        options: The options with which worker 0 plans, as in `first_plan`.

    Raises:
        TreefoldError: On every worker, if one has an error or another plan than worker 0.

    """
    names = validation.read_names(meeting.exchange((meeting.name or "").encode()))

    def own() -> Plan | None:
        check_options(options)
        if plan is not None:
            check_base(plan)
        elif meeting.rank == 0:
            return first_plan(names, network, size_bytes, options)
        return plan

    mine = all_or_none(meeting, own)
    offer: dict[str, Any] = {"plan": "", "fingerprint": None}
    if mine is not None:
        offer = {"plan": mine.to_json() if meeting.rank == 0 else "", "fingerprint": mine.fingerprint}
    first, *others = validation.exchange(meeting.exchange, offer, {"plan": str, "fingerprint": int | None})
    for worker, other in enumerate(others, 1):
        if other["fingerprint"] not in (None, first["fingerprint"]):
            raise TreefoldError(f"worker {worker} has another plan than worker 0; give all workers the same file")
    return control.read_plan("worker 0", first["plan"])


def first_plan(
    names: Sequence[str | None],
    network: Topology | str | None,
    size_bytes: int | str,
    options: Mapping[str, Any],
) -> Plan:
    """Return an all-reduce for the workers of these names.

    On a network, workers with names are its ranks, and its other accelerators relay; its switches only forward. Without
    a network, workers are assumed to reach each other equally well.

    Args:
        names: The name of each worker; None for a worker without one.
        network: The network, a spec or the path of a file.
        size_bytes: The size of the vector that the plan should be good for.
        options: The algorithm, if it is not `auto`, and fields of `treefold.PlannerOptions`.

    Raises:
        TreefoldError: If workers and network do not match, or an option is unknown.

    """
    check_options(options)
    network = None if network is None else as_network(network)
    if network is None:
        network = joined_directly(names)
    elif _are_other_ranks(names, network):
        network = with_named_ranks(network, names)
    map_ranks(names, network)
    return plans.plan(with_plain_switches(network), size_bytes=size_bytes, simulator="flow", **options)


def _are_other_ranks(names: Sequence[str | None], network: Topology) -> bool:
    """Return whether the workers have names of accelerators of a network which are not all of its ranks."""
    are_accelerators = set(names) < set(network.accelerator_names) and not repeated_names(names)
    return are_accelerators and set(names) != set(network.rank_names)


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse options with which no group can plan.

    Raises:
        TreefoldError: If an option is unknown, or would make a plan that is not for all-reduce.

    """
    if settled := [name for name in ("collective", "root", "simulator") if name in options]:
        raise TreefoldError(
            f"{' and '.join(settled)} cannot be chosen here: a group plans an all-reduce, for which auto compares "
            f"plans by flow, and other collectives when they are called; drop {', '.join(settled)}"
        )
    checks.arguments("join", options, ("algorithm", *declared.options("planner")))


def check_base(plan: Plan) -> None:
    """Refuse a plan with which a group cannot start.

    Raises:
        TreefoldError: If it is not a plan, or not one for all-reduce, or switches reduce in it.

    """
    checks.plan(plan)
    if plan.collective != "all-reduce":
        raise TreefoldError(
            f"the plan is for {plan.collective}, and a group begins with one for an all-reduce, by which it plans the "
            f"others; make that, and run it with collective={plan.collective!r}"
        )
    Program(plan, 0, 1, 1, 0.0)  # the core refuses what workers cannot run
