"""What is planned with the help of a solver, between calls of the core.

To add a planner: a module with a function `plan(network, wishes)`, and a line in `PLANNERS`. Modules are imported when
they are used, because solvers take long to import.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, NamedTuple

from treefold import checks
from treefold._core import Forest, Plan, Topology
from treefold.errors import TreefoldError


class Wishes(NamedTuple):
    """What a caller may ask of a planner; each reads what means something to it."""

    size_bytes: int = 64 << 20
    trees: int | None = None
    """At most so many; MultiTree: exactly so many."""
    height: int | None = None
    """At most so many hops, or quanta of latency, from root to leaf."""
    heights: str = "hops"
    """How heights count: `hops` or `latency`."""
    least_rate_Bps: float | None = None
    """No tree carries less."""
    rho: float = 1.0
    """MTree: the part of the total rate that lower trees must keep."""
    seed: int = 1
    """Of what is drawn at random."""
    pipeline: bool = True
    """Whether trees cut their parts into chunks."""
    turn: str | None = None
    """MultiTree: in which order trees take turns, `ascending` or `remaining-height`; the better one by default."""
    neighbors: str = "listed"
    """MultiTree: in which order a node's links are tried, `listed` or `reversed`."""
    trunks: str = "source"
    """innet-push: what decides between equally long ways to a home switch, `source` or `address`."""
    ranks_relay: bool = True
    """innet: whether ranks may pass on what is others', which the packet model's fabric does not know."""


class Planned(NamedTuple):
    """A plan, and what its planner found out on the way, for `treefold plan --json`."""

    plan: Plan
    facts: dict[str, Any]


PLANNERS = {
    "packing": "the optimum: spanning trees packed by column generation, streamed",
    "innet": "ours: Steiner trees with switches that reduce and multicast, packed by column generation, streamed",
    "mtree": "MTree: low spanning trees of wide capacity, shares by an integer program, streamed",
    "blink": "Blink: trees of one root by multiplicative weights, as few as carry 95 %, streamed",
}


LIMITED = {
    "trees": ("packing", "mtree", "blink", "multitree", "topoadopt", "psld", "plink"),
    "height": ("packing", "mtree"),
    "least_rate_Bps": ("packing", "mtree"),
}
"""Which planners keep to a limit."""


def keepers(wishes: Wishes) -> set[str] | None:
    """Return the planners that keep to all limits of the wishes; None where there is no limit."""
    limits = [limit for limit in LIMITED if getattr(wishes, limit) is not None]
    return set.intersection(*(set(LIMITED[limit]) for limit in limits)) if limits else None


_told: ContextVar[Callable[[str], None]] = ContextVar("_told", default=lambda _: None)


@contextmanager
def telling(listener: Callable[[str], None]) -> Iterator[None]:
    """Have planners that take long tell `listener` what they are at."""
    token = _told.set(listener)
    try:
        yield
    finally:
        _told.reset(token)


def tell(what: str) -> None:
    """Tell whoever listens what a planner is at."""
    _told.get()(what)


@contextmanager
def at(what: str) -> Iterator[None]:
    """Tell what is worked on; what is told inside is told together with it."""
    tell(what)
    outer = _told.get()
    with telling(lambda inner: outer(f"{what}: {inner}")):
        yield


_QUICK = {"packing": 300_000, "mtree": 300_000, "blink": 30_000}


def is_quick(network: Topology, algorithm: str = "packing") -> bool:
    """Tell whether a planner, of these or the core, takes seconds at most, so that it need not be named to be tried."""
    return network.ranks * network.links <= _QUICK.get(algorithm, math.inf)


def is_in_network(algorithm: str) -> bool:
    """Tell whether switches reduce in an algorithm's plans."""
    return algorithm.startswith("innet")


def is_fabric(network: Topology) -> bool:
    """Tell whether a switch both reduces and multicasts."""
    return any(map(all, list(zip(*network.abilities(), strict=True))[network.ranks :]))


def plan(algorithm: str, network: Topology, wishes: Wishes) -> Planned:
    """Plan an all-reduce with one of `PLANNERS`.

    Raises:
        TreefoldError: If a wish cannot be met, or the algorithm does not fit the network.

    """
    if network.ranks == 1:
        return Planned(_alone(algorithm, network), {})
    tell(algorithm)
    module = import_module(f"treefold.planning.{algorithm}")
    planner: Callable[[Topology, Wishes], Planned] = module.plan
    return planner(network, wishes)


def _alone(algorithm: str, network: Topology) -> Plan:
    """Return the plan of a single rank: one tree, in which nothing is sent."""
    forest = Forest(network)
    forest.add_cheapest([1.0] * len(forest.capacity), [0])
    return forest.plan(algorithm, [1.0], True)


def check(wishes: Wishes, algorithm: str = "auto") -> Wishes:
    """Return the wishes with names as they are known; refuse what no planner can grant, and limits not kept to.

    Raises:
        TreefoldError: Naming the wish and its value.

    """
    for limit in ("trees", "height"):
        if getattr(wishes, limit) is not None:
            checks.whole(limit, getattr(wishes, limit), 1, 2**32 - 1)
    checks.whole("seed", wishes.seed, 0, 2**64 - 1)
    for name in ("turn", "neighbors", "trunks"):
        given = getattr(wishes, name)
        if not isinstance(given, str) and (given is not None or Wishes._field_defaults[name] is not None):
            raise TreefoldError(f"{name} {checks.shown(getattr(wishes, name))} is no name")
    if not isinstance(wishes.pipeline, bool):
        raise TreefoldError(f"pipeline must be True or False, got {checks.shown(wishes.pipeline)}")
    if not 0 < checks.number("rho", wishes.rho, "at most 1") <= 1:
        raise TreefoldError(f"rho must be above 0 and at most 1, got {wishes.rho}")
    if wishes.least_rate_Bps is not None and checks.number("least rate", wishes.least_rate_Bps, "bytes a second") < 0:
        raise TreefoldError(f"least rate must not be negative, got {wishes.least_rate_Bps}")
    for limit, planners in LIMITED.items():
        if getattr(wishes, limit) is not None and algorithm not in ("auto", *planners):
            raise TreefoldError(f"{algorithm} has no limit of {_NAMES[limit]}; {', '.join(planners)} keep to one")
    return wishes._replace(heights=checks.name("heights", wishes.heights, ("hops", "latency")))


_NAMES = {"trees": "trees", "height": "heights", "least_rate_Bps": "a least rate"}
