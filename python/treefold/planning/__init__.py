"""The planners: those of the core, and those that need a solver, which are the modules of this package.

Callers ask here whether a planner is quick on a network, and whether switches reduce in its plans.

To add a planner that needs a solver, add a module with a function `plan(request)` and an entry in `PLANNERS`. Modules
are imported when they are used, because solvers take long to import.
"""

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from treefold import _core, checks, progress
from treefold._core import Forest, Plan, Topology
from treefold.planning.request import Request

__all__ = ["collectives", "is_fabric", "is_in_network", "is_quick"]
"""What is of use outside of the package."""


class Planned(NamedTuple):
    """A plan, and its planner's report of what it proved or measured, for `treefold plan --json`."""

    plan: Plan
    report: dict[str, Any]


class SolverPlanner(NamedTuple):
    """A planner that needs a solver."""

    summary: str
    """What it does, in one line."""
    gap: str
    """What the gap means that it proves; {} stands for the gap in percent."""
    collectives: str = "all"
    """The collectives that it plans; all others than all-reduces are derived."""
    in_network: bool = False
    """Whether switches reduce in its plans."""
    most_work: float = math.inf
    """The most ranks times links for which it takes seconds only."""


CORE = {each.name: each for each in _core.algorithms()}
"""The planners of the core, by name."""
PLANNERS = {
    "packing": SolverPlanner(
        "spanning trees with the largest total rate, packed by column generation, streamed",
        gap="the bound is at most {} above this rate",
        most_work=300_000,
    ),
    "innet": SolverPlanner(
        "trees of switches that reduce and multicast, packed by column generation, streamed",
        gap="the in-network bound is at most {} above this rate",
        in_network=True,
    ),
    "mtree": SolverPlanner(
        "low spanning trees over links of high bandwidth, with shares by an integer program (MTree), streamed",
        gap="the best choice of the trees that were grown is at most {} above this rate",
        most_work=300_000,
    ),
    "blink": SolverPlanner(
        "the fewest trees of one root that together reach 95 % of that root's best rate (Blink), streamed",
        gap="at most {} of the trees might not be needed",
        most_work=30_000,
    ),
}


def collectives(algorithm: str) -> str:
    """Return which collectives an algorithm plans: `all-reduce` only, `all`, or `each`.

    Where it is `all`, the other collectives are derived: each is a part of the all-reduce, or its blocks travel along
    the same trees. Where it is `each`, every collective has a plan of its own.

    Args:
        algorithm: One of `treefold.algorithms()`.

    Raises:
        TreefoldError: If the algorithm is unknown.

    Example:
        >>> [treefold.planning.collectives(name) for name in ("p2p", "ring", "forest")]
        ['all-reduce', 'all', 'each']

    """
    return _planner(algorithm).collectives


def _planner(algorithm: str) -> _core.Algorithm | SolverPlanner:
    algorithm = checks.name("algorithm", algorithm, [*CORE, *PLANNERS])
    return PLANNERS.get(algorithm) or CORE[algorithm]


def is_quick(network: Topology, algorithm: str = "packing") -> bool:
    """Tell whether a planner takes seconds at most on a network.

    If not, `auto` leaves it out, and `compare` and `train` use it only if it is named.

    Args:
        network: A `Topology`; `treefold.topology` makes one of a spec or a file.
        algorithm: The planner, one of `treefold.algorithms()`. `forest`, `packing` and `mtree` are quick if the number
            of ranks times the number of links is at most 300,000, and `blink` if it is at most 30,000; all others are
            always quick.

    Raises:
        TreefoldError: If the network is not a `Topology`, or the algorithm is unknown.

    Example:
        >>> network = treefold.topology("torus:32x32")
        >>> treefold.planning.is_quick(network), treefold.planning.is_quick(network, "ring")
        (False, True)

    """
    checks.network(network)
    return network.ranks * network.num_links <= _planner(algorithm).most_work


def is_in_network(algorithm: str) -> bool:
    """Tell whether switches reduce in an algorithm's plans; none do in those of an unknown one.

    Args:
        algorithm: One of `treefold.algorithms()`.

    Example:
        >>> treefold.planning.is_in_network("innet-push"), treefold.planning.is_in_network("ring")
        (True, False)

    """
    if algorithm in PLANNERS:
        return PLANNERS[algorithm].in_network
    return algorithm in CORE and CORE[algorithm].in_network


def is_fabric(network: Topology) -> bool:
    """Tell whether any switch both reduces and multicasts.

    Args:
        network: A `Topology`; `treefold.topology` makes one of a spec or a file.

    Raises:
        TreefoldError: If the network is not a `Topology`.

    Example:
        >>> [treefold.planning.is_fabric(treefold.topology(spec)) for spec in ("dgx2", "ring:4")]
        [True, False]

    """
    checks.network(network)
    return any(map(all, list(zip(*network.abilities(), strict=True))[network.ranks :]))


def plan(request: Request) -> Planned:
    """Plan the collective of the request with its algorithm, which is a planner's name and not `auto`.

    Raises:
        MisfitError: If a limit cannot be kept, or the algorithm does not fit the network.

    """
    name, network = request.algorithm, request.network
    if name not in PLANNERS:
        asked = request.collective, request.root, request.size_bytes, request.options
        return Planned(_core.plan(name, network, *asked), {})
    if network.ranks == 1:
        planned = Planned(_alone(name, network), {})
    else:
        progress.report(name)
        planner: Callable[[Request], Planned] = import_module(f"treefold.planning.{name}").plan
        planned = planner(request)
    if request.collective == "all-reduce":
        return planned
    # What a planner proves holds for the all-reduce only.
    return Planned(planned.plan.derive(request.collective, request.root), {})


def _alone(algorithm: str, network: Topology) -> Plan:
    """Return the plan for a single rank: one tree, which sends nothing."""
    forest = Forest(network)
    forest.add_cheapest([1.0] * len(forest.capacity), [0])
    return forest.plan(algorithm, [1.0], True)
