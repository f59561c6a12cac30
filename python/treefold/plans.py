"""Makes plans, proves them, describes them, and plans anew after a network has changed."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from treefold import auto, checks, declared, planning
from treefold._core import Plan, Topology
from treefold.blocks import read as read_blocks
from treefold.blocks import size_or_default
from treefold.collectives import COLLECTIVES
from treefold.errors import MisfitError
from treefold.networks import as_network, describe, like
from treefold.options import PlannerOptions
from treefold.planning import replan as replanning
from treefold.planning.request import (
    Request,
    check_options,
    limits,
    read_options,
    settings,
    without,
    without_foreign,
)
from treefold.planning.sharing import limiting, warn_of_shared
from treefold.results import Choice, NetworkCounts, PlanSummary, Replanned, Verdict
from treefold.simulation import simulate, simulator_of, size_for
from treefold.text import visible

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from typing_extensions import Unpack

    from treefold.options import PlannerArguments


class Explained(NamedTuple):
    """A plan, and what explains it."""

    plan: Plan
    report: dict[str, Any]
    """The planner's report of what it proved or measured; empty if `auto` chose."""
    choice: Choice | None
    """The reason why `auto` chose the plan; None if an algorithm was named."""


def plan(
    network: Topology | str,
    algorithm: str = "auto",
    *,
    size_bytes: int | str | None = None,
    collective: str = "all-reduce",
    root: int = 0,
    blocks: "ArrayLike | str | None" = None,
    simulator: str = "analytic",
    **options: "Unpack[PlannerArguments]",
) -> Plan:
    """Return a plan for a collective on a network.

    Args:
        network: A `Topology`, a spec, or the path of a file.
        algorithm: One of `treefold.algorithms()`, or `auto` for the fastest at `size_bytes`.
        size_bytes: The size of the vector that the plan should be good for, in bytes or as a text with a unit such as
            `1MiB`; the plan runs at any size. By default 64 MiB, or that of the largest vector if blocks are given.
        collective: `all-reduce`, `reduce-scatter`, `all-gather`, `broadcast`, `reduce` or `all-to-all`.
        root: The rank that broadcasts or receives; other collectives ignore it, but it must be a rank.
        blocks: The sizes of the blocks of an all-to-all if they are unequal: a matrix, or the path of a .csv or .json
            file with one. Row s has what rank s sends to each rank, in bytes or as texts such as `4MiB`. At another
            size, blocks grow or shrink with the largest vector.
        simulator: The simulator by which `auto` compares plans: `analytic` or `flow`. With `packet`, which would be too
            slow, `auto` compares by `flow`, and only plans that the packet simulator can run.
        options: Fields of `treefold.PlannerOptions`. `auto` leaves out algorithms that cannot keep the limits
            `trees`, `height`, `least_rate` and `steps`; a named algorithm refuses options that it does not have.

    Raises:
        MisfitError: If the algorithm cannot plan for the network.
        TreefoldError: If an argument is unknown or not possible.

    Warns:
        UserWarning: If links share a capacity that limits the plan, and the named algorithm does not plan around it.

    Example:
        >>> treefold.plan("torus:4x4", "multitree", tree_order="ascending")
        Plan("multitree", all-reduce, trees=16)

    """
    request = requested(
        network,
        algorithm,
        size_bytes=size_bytes,
        collective=checks.name("collective", collective, COLLECTIVES),
        root=root,
        blocks=blocks,
        simulator=simulator,
        options=read_options(plan, options),
    )
    return named_plan(request, 3).plan


def plan_crossing(
    network: Topology | str,
    size_bytes: int | str,
    crossing: tuple[str, int] | None,
    algorithm: str = "auto",
    **options: "Unpack[PlannerArguments]",
) -> Plan:
    """Return what `plan` does for an all-reduce that is run; `auto` compares plans by the bytes that cross lines.

    `crossing` is the type in which numbers cross, and the bytes of an element; None if they cross as they are.
    """
    request = requested(
        network,
        algorithm,
        size_bytes=size_bytes,
        collective="all-reduce",
        root=0,
        simulator="flow",
        options=read_options(plan, options),
    )
    return named_plan(replace(request, crossing=crossing), 3).plan


def requested(
    network: Topology | str,
    algorithm: str,
    *,
    size_bytes: int | str | None,
    collective: str,
    root: int,
    simulator: str,
    options: PlannerOptions,
    blocks: "ArrayLike | str | None" = None,
) -> Request:
    """Check what a caller asks of a planner, and return it as a request.

    Raises:
        TreefoldError: If a value is unknown or impossible, or the algorithm does not have an option; the error names
            it.

    """
    algorithm = checks.name("algorithm", algorithm, auto.names())
    network = as_network(network)
    checks.root(root, network.ranks)
    used = simulator_of(simulator).name
    check_options(options, algorithm)
    sizes = read_blocks(blocks, collective, network.ranks)
    return Request(
        network=network,
        algorithm=algorithm,
        size_bytes=size_or_default(size_bytes, sizes),
        collective=collective,
        root=root,
        blocks=sizes,
        # A packet simulation of every candidate would take minutes.
        simulator="flow" if used == "packet" else used,
        ranks_relay=used != "packet",
        options=options,
    )


def explained_plan(request: Request) -> Explained:
    """Return a plan, with its planner's report or the reason of the choice.

    Raises:
        MisfitError: If the algorithm cannot plan for the network.

    """
    if request.algorithm == "auto":
        chosen, choice = auto.choose(request)
        return Explained(_remembering(chosen, request), {}, choice)
    planned, report = planning.plan(request)
    return Explained(_remembering(planned, request), report, None)


def named_plan(request: Request, stacklevel: int) -> Explained:
    """Return what `explained_plan` does, and warn if a named algorithm does not plan around what limits its plan."""
    explained = explained_plan(request)
    if request.algorithm != "auto":
        warn_of_shared({request.algorithm: limiting(explained.plan)}, stacklevel)
    return explained


def _remembering(plan: Plan, request: Request, chosen_by: str | None = None) -> Plan:
    """Return the plan, which remembers its size, its options, and the simulator by which `auto` chose its algorithm.

    `chosen_by` is that simulator if `auto` chose the algorithm of the request for an earlier plan.
    """
    if request.algorithm == "auto":
        chosen_by = request.simulator
    return plan.made_for(request.size_bytes, chosen_by, settings(request.options, plan.algorithm))


def replan(
    plan: Plan,
    network: Topology | str,
    algorithm: str | None = None,
    *,
    size_bytes: int | str | None = None,
    simulator: str = "flow",
    **options: "Unpack[PlannerArguments]",
) -> Replanned:
    """Make a new plan after the network of a plan has changed: its bandwidths, links, nodes or ranks.

    The new plan has the algorithm, the options and the size of the old one, unless the arguments say something else. If
    that algorithm cannot keep the old limits (`trees`, `height`, `least_rate`, `steps`) on the changed network, as few
    of them as possible are dropped. If it does not fit without them either, the fastest algorithm that fits takes its
    place. `Replanned.gave_way` then says why. An algorithm or a limit that is given here never gives way.

    Args:
        plan: The old plan, for an all-reduce.
        network: The network as it is now: a `Topology`, or a spec or file, which gets the old ranks if it names none.
        algorithm: One of `treefold.algorithms()`, or `auto` for the fastest; by default that of the old plan.
        size_bytes: The size that the new plan should be good for, in bytes or as a text with a unit such as `1MiB`; by
            default the size of the old plan.
        simulator: The simulator by which the old and the new plan compete, one of `treefold.SIMULATORS`.
        options: Fields of `treefold.PlannerOptions` that should differ from those of the old plan.

    Returns:
        The plan for `network`, and what has changed. An old plan that still runs and has no limits is kept unless the
        new one is more than 1 % faster; `packing` also keeps single trees where that costs at most 0.1 %.

    Raises:
        MisfitError: If the plan is not for an all-reduce, or no algorithm that may be used fits the network.
        TreefoldError: If an argument is unknown or not possible.

    Example:
        >>> ring = treefold.topology("ring:4")
        >>> replanned = treefold.replan(treefold.plan(ring), ring.without_links([("GPU0", "GPU1")]))
        >>> replanned.changes
        ('link GPU0 -> GPU1 is gone', 'link GPU1 -> GPU0 is gone')

    """
    size = size_for(plan, size_bytes)
    if plan.collective != "all-reduce":
        raise MisfitError(
            f"the plan is of {plan.collective}; replan its all-reduce, and use Plan.derive for the {plan.collective}"
        )
    requests = _requests(plan, network, algorithm, size, options)
    return _replanned(plan, requests, plan.chosen_by if algorithm is None else None, simulator)


def replan_as(plan: Plan, first: Plan, network: Topology, size_bytes: int | None = None) -> Replanned:
    """Make a new plan for a changed network as `first` was made: by its algorithm, and with its options.

    Args:
        plan: The plan that runs.
        first: The plan as it was first, whose algorithm or limits gave way on the network of `plan`.
        network: The network as it is now, with the ranks of both.
        size_bytes: As for `replan`.

    Raises:
        MisfitError: If the algorithm and the limits of `first` do not fit the network either.

    """
    request = _request(
        network,
        first.algorithm,
        size_for(plan, size_bytes),
        PlannerOptions(**declared.read("planner", first.options)),
        first.chosen_by,
    )
    return _replanned(plan, iter([request]), first.chosen_by, "flow")


def _replanned(plan: Plan, requests: Iterator[Request], chosen_by: str | None, simulator: str) -> Replanned:
    """Return the plan of the first request that fits, or the old one if it is better.

    `chosen_by` is the simulator by which `auto` chose the algorithm of the requests, if it did.
    """
    request, fresh, gave_way = _first_that_fits(requests)
    chosen, old = replanning.choose(
        plan, fresh, request, lambda each: simulate(each, size_bytes=request.size_bytes, simulator=simulator)
    )
    return Replanned(
        plan=_remembering(chosen.plan, request, chosen_by),
        changes=tuple(replanning.changes(plan.topology, request.network)),
        gave_way=gave_way,
        serves=old is not None,
        old=old,
        new=chosen.prediction,
        kept_trees=chosen.kept,
    )


def _requests(
    plan: Plan, network: Topology | str, algorithm: str | None, size_bytes: int, given: Mapping[str, Any]
) -> Iterator[Request]:
    """Yield what to ask of planners when a network has changed, what is best first."""
    network = network if isinstance(network, Topology) else like(as_network(network), plan.topology)
    asked = read_options(replan, given)
    names = auto.names()
    own = plan.algorithm if plan.algorithm in names else "auto"
    name = own if algorithm is None else checks.name("algorithm", algorithm, names)
    kept = PlannerOptions(**declared.read("planner", plan.options))
    kept = replace(without_foreign(kept, name), **{key: getattr(asked, key) for key in given})

    def request(algorithm: str, options: PlannerOptions) -> Request:
        return _request(network, algorithm, size_bytes, options, plan.chosen_by)

    yield request(name, kept)
    if algorithm is None:
        inherited = [limit for limit in limits(kept) if limit not in given]
        for count in range(1, len(inherited) + 1):
            yield from (request(name, without(kept, some)) for some in combinations(inherited, count))
        yield request("auto", kept)
        yield request("auto", without(kept, inherited))


def _request(
    network: Topology, algorithm: str, size_bytes: int, options: PlannerOptions, simulator: str | None
) -> Request:
    """Return the request of an all-reduce; `auto` chooses by the simulator, or if it is None by `analytic`."""
    return requested(
        network,
        algorithm,
        size_bytes=size_bytes,
        collective="all-reduce",
        root=0,
        simulator=simulator or "analytic",
        options=options,
    )


def _first_that_fits(requests: Iterator[Request]) -> tuple[Request, Plan, str]:
    """Return the first request that can be met, its plan, and the reason why those before it gave way."""
    misfits: list[str] = []
    for request in requests:
        try:
            fresh = explained_plan(request).plan
        except MisfitError as error:
            if not misfits:
                first, misfit = request, error
            misfits.append(f"{request.algorithm} does not fit ({error})")
            continue
        return request, fresh, f"{misfits[0]}: {_giving_way(first, request, fresh)}" if misfits else ""
    raise misfit


def _giving_way(first: Request, request: Request, fresh: Plan) -> str:
    """Say which algorithm and which limits gave way between two requests."""
    declarations, left = declared.options("planner"), limits(request.options)
    values = {name: getattr(first.options, name) for name in limits(first.options) if name not in left}
    dropped = [f"{name.replace('_', ' ')} {declarations[name].written(value)}" for name, value in values.items()]
    parts = [] if first.algorithm in ("auto", fresh.algorithm) else [f"{fresh.algorithm} takes its place"]
    parts += [f"{', '.join(dropped)} {'are' if len(dropped) > 1 else 'is'} dropped"] if dropped else []
    return ", and ".join(parts)


def check(plan: Plan) -> Verdict:
    """Prove or refute that a plan computes its collective, and that it keeps its promises about the use of links.

    Args:
        plan: The plan.

    Returns:
        A verdict, which is true if the plan is correct; else its `reason` is the first fault.

    Example:
        >>> treefold.check(treefold.plan("ring:4"))
        Verdict(correct)

    """
    reason = checks.plan(plan).check()
    return Verdict(reason is None, visible(reason or ""))


def summarize(plan: Plan) -> PlanSummary:
    """Summarize a plan in a few numbers.

    Args:
        plan: The plan; one from a file is proven first.

    Raises:
        TreefoldError: If the plan is from a file and wrong.

    Example:
        >>> treefold.summarize(treefold.plan("torus:4x4", "ring")).steps
        30

    """
    checks.plan(plan)
    shape = plan.shape
    network = describe(plan.topology)
    rate_Bps = plan.rate
    return PlanSummary(
        algorithm=plan.algorithm,
        collective=plan.collective,
        size_bytes=plan.size_bytes,
        topology=NetworkCounts(network.name, network.accelerators, network.switches, network.links),
        trees=plan.num_trees,
        pace=", ".join(dict.fromkeys(shape.paces)),
        steps=plan.steps,
        max_height=shape.max_height,
        mean_height=shape.mean_height,
        max_fanout=shape.max_fanout,
        mean_max_fanout=shape.mean_max_fanout,
        rate_Bps=rate_Bps,
        normalized_throughput=_normalized(plan, rate_Bps),
        busiest_links=plan.busiest_links,
    )


def _normalized(plan: Plan, rate_Bps: float | None) -> float | None:
    """Return the rate of an all-reduce, divided by the rate of trees that would use up all cables.

    Return None if a link has no opposite one, and for a single rank, whose tree uses no cable.
    """
    cables, ranks = plan.topology.cable_capacity, plan.topology.ranks
    if cables is None or rate_Bps is None or ranks < 2 or plan.collective != "all-reduce":
        return None
    return rate_Bps / (cables / (ranks - 1))
