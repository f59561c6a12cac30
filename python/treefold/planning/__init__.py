"""The planners of the core, and what its table knows of each: which collectives it plans, and how long it takes."""

from dataclasses import fields
from typing import Any, NamedTuple

from treefold import _core, checks, progress
from treefold._core import Plan, Topology
from treefold.plan_results import Algorithm
from treefold.planning.request import Request

__all__ = ["collectives", "is_fabric", "is_in_network", "is_quick", "reducers"]
"""What is of use outside of the package."""


class Planned(NamedTuple):
    """A plan, and its planner's report of what it proved or measured, for `treefold plan --json`."""

    plan: Plan
    report: dict[str, Any]


def _entry(planner: _core.Algorithm) -> Algorithm:
    """Return an entry of the core's table; what is a list there is a tuple, as nothing may change it."""
    values: dict[str, Any] = {each.name: getattr(planner, each.name) for each in fields(Algorithm)}
    return Algorithm(**values | {"limits": tuple(planner.limits), "options": tuple(planner.options)})


PLANNERS = {each.name: _entry(each) for each in _core.algorithms()}
"""All planners, by name."""


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
    return PLANNERS[checks.name("algorithm", algorithm, PLANNERS)].collectives


def is_quick(network: Topology, algorithm: str = "packing") -> bool:
    """Tell whether a planner takes seconds at most on a network.

    If not, `auto` leaves it out, and `compare` and `train` use it only if it is named.

    Args:
        network: A `Topology`; `treefold.topology` makes one of a spec or a file.
        algorithm: The planner, one of `treefold.algorithms()`. Most are always quick; `treefold compare --help` says of
            the others how many ranks times links are the most.

    Raises:
        TreefoldError: If the network is not a `Topology`, or the algorithm is unknown.

    Example:
        >>> network = treefold.topology("torus:32x32")
        >>> treefold.planning.is_quick(network), treefold.planning.is_quick(network, "ring")
        (False, True)

    """
    return _core.is_quick(checks.network(network), checks.name("algorithm", algorithm, PLANNERS))


def is_in_network(algorithm: str) -> bool:
    """Tell whether switches reduce in an algorithm's plans; none do in those of an unknown one.

    Args:
        algorithm: One of `treefold.algorithms()`.

    Example:
        >>> treefold.planning.is_in_network("innet-push"), treefold.planning.is_in_network("ring")
        (True, False)

    """
    return algorithm in PLANNERS and PLANNERS[algorithm].in_network


def reducers() -> str:
    """Return the names of the algorithms in whose plans switches reduce, as an error lists them.

    Example:
        >>> treefold.planning.reducers()
        'innet-pull, innet-push or innet'

    """
    *others, last = (name for name in PLANNERS if is_in_network(name))
    return f"{', '.join(others)} or {last}"


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
    return _core.is_fabric(checks.network(network))


def plan(request: Request) -> Planned:
    """Plan the collective of the request with its algorithm, which is a planner's name and not `auto`.

    Raises:
        MisfitError: If a limit cannot be kept, or the algorithm does not fit the network.

    """
    return Planned(*_core.plan(request, progress.report))
