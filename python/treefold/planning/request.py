"""What a caller asks of a planner, and the options that each planner has."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from treefold import checks, declared
from treefold._core import Topology
from treefold.errors import TreefoldError
from treefold.options import PlannerOptions

if TYPE_CHECKING:
    from treefold.blocks import Blocks


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a caller asks of a planner, read and checked."""

    network: Topology
    algorithm: str
    """The planner, or `auto`."""
    size_bytes: int
    """The size of the vector that the plan should be good for."""
    collective: str
    root: int
    """The rank that broadcasts or receives; other collectives ignore it."""
    blocks: "Blocks | None" = None
    """The sizes of the blocks of an all-to-all, rank by rank; None if they are equal."""
    simulator: str
    """The simulator by which `auto` compares plans: `analytic` or `flow`."""
    crossing: tuple[str, int] | None = None
    """The type in which numbers cross lines, and the bytes of an element, which `auto` counts; None if they cross as
    they are."""
    ranks_relay: bool
    """Whether ranks may relay data of other ranks; the packet simulator's fabric cannot do that."""
    options: PlannerOptions


def planners_with(name: str) -> tuple[str, ...] | None:
    """Return the planners that have an option; None if all planners have it."""
    return declared.options("planner")[name].planners


def has_option(algorithm: str, name: str) -> bool:
    """Tell whether an algorithm has an option; `auto` has all, as one of its candidates may."""
    planners = planners_with(name)
    return planners is None or algorithm in (*planners, "auto")


def owners(name: str) -> str:
    """Say which planners accept an option, as errors do: `packing and mtree accept it`."""
    return declared.options("planner")[name].owners()


def read_options(function: Callable[..., Any], given: Mapping[str, Any]) -> PlannerOptions:
    """Return the planner options that a caller of `function` gave beside its own arguments.

    Raises:
        TreefoldError: If an option is unknown or its value is not allowed.

    """
    checks.arguments(function.__name__, given, (*checks.names_of(function), *declared.options("planner")))
    return PlannerOptions(**given)


def changed(options: PlannerOptions) -> list[str]:
    """Return the names of the options that differ from their defaults."""
    return [name for name, each in declared.options("planner").items() if getattr(options, name) != each.default]


def settings(options: PlannerOptions, algorithm: str) -> dict[str, Any]:
    """Return the options of an algorithm that differ from their defaults, by name, as a plan remembers them."""
    return {name: getattr(options, name) for name in changed(options) if has_option(algorithm, name)}


def limits(options: PlannerOptions) -> list[str]:
    """Return the names of the limits that are set: trees, height, least_rate, steps."""
    return [name for name in changed(options) if declared.options("planner")[name].is_limit]


def check_options(options: PlannerOptions, algorithm: str) -> None:
    """Refuse options that a named algorithm does not have.

    Raises:
        TreefoldError: If an option is foreign to the algorithm; the error names the algorithms that have it.

    """
    for name in changed(options):
        if not has_option(algorithm, name):
            raise TreefoldError(f"{algorithm} has no option {name}; {owners(name)}")


def without_foreign(options: PlannerOptions, algorithm: str) -> PlannerOptions:
    """Return the options; those that an algorithm does not have get their defaults."""
    return without(options, [name for name in changed(options) if not has_option(algorithm, name)])


def without(options: PlannerOptions, names: Iterable[str]) -> PlannerOptions:
    """Return the options; those with these names get their defaults."""
    return replace(options, **{name: declared.options("planner")[name].default for name in names})
