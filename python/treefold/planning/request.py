"""What a caller asks of a planner, read and checked once."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from treefold import _core, checks
from treefold._core import Topology
from treefold.errors import TreefoldError
from treefold.options import PlannerOptions

DEFAULT_SIZE_BYTES = 64 << 20
"""The size that a plan should be good for unless its caller says otherwise: 64 MiB."""


@dataclass(frozen=True)
class Request:
    """A plan that is asked for."""

    network: Topology
    size_bytes: int = DEFAULT_SIZE_BYTES
    """The size of the vector that the plan should be good for."""
    collective: str = "all-reduce"
    root: int = 0
    """The rank that broadcasts or receives, for the collectives that have one."""
    judge: str = "analytic"
    """The simulator that compares plans: `analytic` or `flow`."""
    ranks_relay: bool = True
    """Whether ranks may pass on what belongs to others, which the packet simulator's fabric does not know."""
    options: PlannerOptions = field(default_factory=PlannerOptions)

    def for_core(self) -> dict[str, Any]:
        """Return the options as the core reads them."""
        return asdict(self.options)


@cache
def _declared() -> dict[str, Any]:
    properties: dict[str, Any] = json.loads(_core.option_schema("planner"))["properties"]
    return properties


def heeding(name: str) -> tuple[str, ...] | None:
    """Return the planners that have an option; None where all have it."""
    planners = _declared()[name].get("x-planners")
    return None if planners is None else tuple(planners)


def read_options(function: str, given: Mapping[str, Any]) -> PlannerOptions:
    """Return the planner options that a caller of `function` gave by name.

    Raises:
        TreefoldError: If an option is unknown or has no such value.

    """
    checks.arguments(function, given, _declared())
    return PlannerOptions(**json.loads(_core.read_options("planner", dict(given))))


def changed(options: PlannerOptions) -> list[str]:
    """Return the names of the options that are not at their defaults."""
    defaults = PlannerOptions()
    return [name for name in _declared() if getattr(options, name) != getattr(defaults, name)]


def limits(options: PlannerOptions) -> list[str]:
    """Return the names of the limits that are set: trees, height, least_rate."""
    return [name for name in changed(options) if _declared()[name].get("x-limit")]


def keepers(options: PlannerOptions) -> set[str] | None:
    """Return the planners that keep to all limits; None where there is no limit."""
    of_limits = [set(heeding(name) or ()) for name in limits(options)]
    return set.intersection(*of_limits) if of_limits else None


def check_heeded(options: PlannerOptions, algorithm: str) -> None:
    """Refuse options that an algorithm, which was asked for by name, does not have.

    Raises:
        TreefoldError: Naming the option and the algorithms that have it.

    """
    for name in changed(options):
        planners = heeding(name)
        if planners is not None and algorithm not in planners:
            have = "has" if len(planners) == 1 else "have"
            raise TreefoldError(f"{algorithm} has no option {name}; {', '.join(planners)} {have} it")


def with_heeded(options: PlannerOptions, algorithm: str) -> PlannerOptions:
    """Return the options with those left out that an algorithm does not have."""
    from dataclasses import replace

    defaults = PlannerOptions()
    foreign = [name for name in changed(options) if algorithm not in (heeding(name) or (algorithm,))]
    return replace(options, **{name: getattr(defaults, name) for name in foreign})
