"""Reads what the core declares of its options: the options of planners, and those of the packet simulator's machine.

In all functions, `what` is `planner` or `machine`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from treefold import _core

_WRITERS: Mapping[str, Callable[[Any], str]] = {
    "bytes": _core.format_size,
    "seconds": _core.format_time,
    "bytes/second": _core.format_bandwidth,
    "hertz": lambda value: f"{value:g}Hz".replace("e+", "e"),
}
"""The functions that write a quantity of each unit as a person does."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """An option, as the core declares it."""

    help: str
    """The description, in one line."""
    source: str | None
    """The paper and the section that the option comes from; None if it is in no paper."""
    default: Any
    types: frozenset[str]
    """The names that JSON Schema has for the types of values; choices have none."""
    choices: tuple[str, ...]
    """The values of an option that is a choice."""
    unit: str | None
    """The unit of a quantity; None if the option is not a quantity."""
    minimum: Any
    maximum: Any
    planners: tuple[str, ...] | None
    """The planners that have the option; None if all planners have it."""
    is_limit: bool
    """Whether `auto` leaves out planners that do not have the option."""

    def explained(self) -> str:
        """Return the description with the source."""
        return self.help if self.source is None else f"{self.help} ({self.source})"

    def owners(self) -> str:
        """Say which planners accept the option: `packing and mtree accept it`; they are all if none is listed."""
        if self.planners is None:
            return "all planners accept it"
        *others, last = self.planners
        return f"{', '.join(others)} and {last} accept it" if others else f"{last} accepts it"

    def written(self, value: Any) -> str:
        """Return a value of the option as a person writes it."""
        if self.unit is not None:
            return _WRITERS[self.unit](value)
        return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def schema(what: str) -> Mapping[str, Any]:
    """Return the options as a JSON Schema."""
    return _core.option_schema(what)


@cache
def options(what: str) -> Mapping[str, Option]:
    """Return the options by name."""
    return {name: _option(properties) for name, properties in schema(what)["properties"].items()}


def _option(declared: Mapping[str, Any]) -> Option:
    parts = [declared, *declared.get("anyOf", ())]
    types = [part.get("type", ()) for part in parts]
    return Option(
        help=" ".join(declared["description"].split()),
        source=declared.get("x-paper"),
        default=declared["default"],
        types=frozenset(name for each in types for name in ([each] if isinstance(each, str) else each)),
        choices=tuple(each["const"] for part in parts for each in part.get("oneOf", ())),
        unit=declared["format"] if declared.get("format") in _WRITERS else None,
        minimum=declared.get("minimum"),
        maximum=declared.get("maximum"),
        planners=tuple(declared["x-planners"]) if "x-planners" in declared else None,
        is_limit=declared.get("x-limit", False),
    )


def read(what: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all options, the defaults of those that are not given.

    Raises:
        TreefoldError: If an option is unknown or its value is not allowed.

    """
    return _core.read_options(what, dict(given))
