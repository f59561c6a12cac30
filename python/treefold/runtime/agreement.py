"""The plans on which workers agree before they connect: worker 0's, which it makes where none is given."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from treefold import checks, declared, plans
from treefold._core import Plan, Program, Topology
from treefold.errors import MisfitError, TreefoldError
from treefold.networks import as_network
from treefold.rendezvous import Rendezvous, validation
from treefold.rendezvous.meeting import all_or_none
from treefold.runtime import control
from treefold.runtime.networks import joined_directly, with_named_ranks
from treefold.runtime.rank_mapping import map_ranks, repeated_names


class AgreedPlans(NamedTuple):
    """The plans with which a group begins."""

    all_reduce: Plan
    """The plan of an all-reduce, which every group needs."""
    given: Plan | None = None
    """The plan that was given, if it is one of another collective."""
    is_given: bool = False
    """Whether the plan of the all-reduce was given to worker 0, which alone needs to know."""


def agreed_plans(
    meeting: Rendezvous,
    plan: Plan | None,
    network: Topology | str | None,
    size_bytes: int | str,
    options: Mapping[str, Any],
    crossing: tuple[str, int] | None = None,
) -> AgreedPlans:
    """Return worker 0's plans; all workers call this together.

    Args:
        meeting: The rendezvous of the workers.
        plan: This worker's plan, if it has one.
        network: The network for which worker 0 makes a plan if it has none, as in `first_plan`.
        size_bytes: The size for which worker 0 makes a plan.
        options: The options with which worker 0 plans, as in `first_plan`.
        crossing: How numbers cross lines in fewer bytes, as in `first_plan`.

    Raises:
        TreefoldError: On every worker, if one has an error or another plan than worker 0.

    """
    names = validation.read_names(meeting.exchange((meeting.name or "").encode()))

    def own() -> Plan | None:
        check_options(options)
        if plan is not None:
            check_base(plan)
        elif meeting.rank == 0:
            return first_plan(names, network, size_bytes, options, crossing)
        return plan

    agreed = shared_plan(meeting, all_or_none(meeting, own))
    if agreed.collective == "all-reduce":
        return AgreedPlans(agreed, is_given=plan is not None)
    made = all_or_none(meeting, lambda: None if meeting.rank else all_reduce_beside(agreed))
    return AgreedPlans(shared_plan(meeting, made), agreed)


def shared_plan(meeting: Rendezvous, mine: Plan | None) -> Plan:
    """Return the plan of worker 0, which has one; the others have the same one or none.

    Raises:
        TreefoldError: On every worker, if one has another plan than worker 0.

    """
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
    crossing: tuple[str, int] | None = None,
) -> Plan:
    """Return an all-reduce for the workers of these names.

    On a network, workers with names are its ranks, and its other accelerators relay; its switches only forward. Without
    a network, workers are assumed to reach each other equally well.

    Args:
        names: The name of each worker; None for a worker without one.
        network: The network, a spec or the path of a file.
        size_bytes: The size of the vector that the plan should be good for.
        options: The algorithm, if it is not `auto`, and fields of `treefold.PlannerOptions`. Where no all-reduce is
            possible in so few steps, the plan has more, but remembers the limit, which other collectives may keep.
        crossing: The type in which numbers cross lines, and the bytes of an element; None if they cross as they are.
            `auto` compares plans by the bytes that cross.

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
    network = network.with_plain_switches()
    try:
        return plans.plan_crossing(network, size_bytes, crossing, **options)
    except MisfitError:
        if options.get("steps") is None:
            raise
    # Other collectives may do with fewer steps than an all-reduce, which the group only needs to keep together.
    without = plans.plan_crossing(network, size_bytes, crossing, **{**options, "steps": None})
    kept = without.options | {"steps": declared.read("planner", {"steps": options["steps"]})["steps"]}
    return without.made_for(checks.size(size_bytes), without.chosen_by, kept)


def all_reduce_beside(plan: Plan) -> Plan:
    """Return an all-reduce for a group that was given a plan of another collective: the one that `auto` chooses."""
    network = plan.topology.with_plain_switches()
    return plans.plan(network, size_bytes=plan.size_bytes, simulator="flow")


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
    """Refuse a plan that no group can run.

    Raises:
        TreefoldError: If it is not a plan, or switches reduce in it.

    """
    Program(checks.plan(plan), 0, 1, 1, 0.0)  # the core refuses what workers cannot run
