"""Checks of the arguments that callers give: names, numbers, plans and roots. Each error is one line."""

import math
import reprlib
from collections.abc import Callable, Iterable
from itertools import islice
from numbers import Real
from typing import Any, SupportsIndex

from treefold._core import Plan, Topology, named, nearest, parse_size
from treefold.errors import TreefoldError
from treefold.text import visible

DEFAULT_SIZE_BYTES = 64 << 20
"""The size that a plan is made for unless its caller names another: 64 MiB."""

LONGEST_SHOWN = 80
_brief = reprlib.Repr()
_brief.maxlevel, _brief.maxlist, _brief.maxdict = 3, 8, 8
_brief.maxstring = _brief.maxlong = _brief.maxother = LONGEST_SHOWN
_MOST_COMPARED = 10_000
"""Only so many names are compared with a misspelt one: a file may hold many more."""


def shown(value: object) -> str:
    """Return a value as an error shows it: quoted, on one line, and cut when it is long or deep."""
    if isinstance(value, str):
        value = value[: LONGEST_SHOWN + 1]
    try:
        text = repr(value) if isinstance(value, str) else _brief.repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


def name(what: str, given: Any, known: Iterable[str]) -> str:
    """Return the known name that is meant; case, hyphens and underscores do not matter.

    Raises:
        TreefoldError: If the name is unknown; the error suggests similar names.

    """
    names = list(known)
    if not isinstance(given, str):
        raise TreefoldError(f"{what} {shown(given)} is not a name; known are {', '.join(names)}")
    if not given.strip():
        raise TreefoldError(f"the name of the {what} is empty; known are {', '.join(names)}")
    return named(what, visible(given), names)


def guess(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that a misspelt word most likely means; None if none is similar."""
    words = [each for each in islice(known, _MOST_COMPARED) if len(each) <= LONGEST_SHOWN]
    return next(iter(nearest(visible(word), words)), None)


def arguments(function: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse keyword arguments that a function does not have."""
    names = list(known)
    for each in given:
        if each not in names:
            near = nearest(each, names)
            hint = f"did you mean {' or '.join(near)}? " if near else ""
            raise TreefoldError(f"{function} has no argument '{each}'; {hint}known are {', '.join(names)}")


def names_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's arguments, without those that `**options` collects."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def plan(given: Any) -> Plan:
    """Return the plan; refuse anything that is not a plan."""
    if not isinstance(given, Plan):
        raise TreefoldError(f"plan {shown(given)} is not a treefold.Plan; make one with treefold.plan")
    return given


def network(given: Any) -> Topology:
    """Return the network; refuse anything that is not a `Topology`."""
    if not isinstance(given, Topology):
        raise TreefoldError(f"network {shown(given)} is not a treefold.Topology; make one with treefold.topology")
    return given


def root(given: Any, count: int, candidates: str = "ranks") -> None:
    """Refuse a root that is not one of the ranks, or of what else `candidates` says.

    Raises:
        TreefoldError: If there is no such root; the error names the root and the range of candidates.

    """
    if not isinstance(given, SupportsIndex) or not 0 <= given.__index__() < count:
        raise TreefoldError(f"root {shown(given)} does not exist: there are {count} {candidates}, 0 to {count - 1}")


def whole(what: str, given: Any, least: int, most: int) -> int:
    """Return a whole number from `least` to `most`."""
    if isinstance(given, bool) or not isinstance(given, SupportsIndex):
        raise TreefoldError(f"{what} must be a whole number, got {shown(given)}")
    number = given.__index__()
    if number < least:
        raise TreefoldError(f"{what} must be at least {least}, got {shown(number)}")
    if number > most:
        raise TreefoldError(f"{what} must be at most {most}, got {shown(number)}")
    return number


def whole_in(text: str, least: int, most: int) -> int | None:
    """Return the whole number from `least` to `most` that a text is; None if it is none, however long it is."""
    digits = text.lstrip("0") or text[-1:]
    if not (text.isascii() and text.isdecimal()) or len(digits) > len(str(most)):
        return None
    return int(digits) if least <= int(digits) <= most else None


def size(given: Any) -> int:
    """Return a size, which is a number of bytes or a text with a unit, as a whole number of bytes.

    Raises:
        TreefoldError: If it is not such a number, or not such a text.

    """
    if isinstance(given, str):
        return parse_size(given)
    is_number = isinstance(given, Real) and not isinstance(given, bool)
    if not is_number or not 0 <= given <= 10**18 or given != int(given):
        raise TreefoldError(
            f"size {shown(given)}: must be a whole number of bytes between 0 and 1e18, or a text such as '64MiB'"
        )
    return int(given)


def sizes(text: str) -> list[int]:
    """Return the sizes, in bytes, of a text: a list such as `1MiB,4MiB`, or a range that doubles such as `32KiB:64MiB`.

    Raises:
        TreefoldError: If the text is neither.

    """
    try:
        given = [parse_size(part) for part in (text.split(":", 1) if ":" in text else text.split(","))]
    except TreefoldError as error:
        raise TreefoldError(f"{error}; a list is 1MiB,4MiB, and a range that doubles is 32KiB:64MiB") from None
    if ":" not in text:
        return given
    first, last = given
    if not 0 < first <= last:
        raise TreefoldError(f"sizes '{text}': the range must rise from at least 1B; write for example 32KiB:64MiB")
    doubled = [first]
    while doubled[-1] * 2 <= last:
        doubled.append(doubled[-1] * 2)
    return doubled


def quantity(what: str, given: Any, unit: str, parse: Callable[[str], float]) -> float:
    """Return a finite number of `unit`, which `parse` reads if it is a text such as `10Gbit/s` or `5ms`."""
    return parse(given) if isinstance(given, str) else number(what, given, f"{unit}, or a text with a unit")


def number(what: str, given: Any, unit: str) -> float:
    """Return a finite number; `unit` says in errors what it counts."""
    try:
        if isinstance(given, Real) and not isinstance(given, bool) and math.isfinite(given):
            return float(given)
    except OverflowError:
        pass
    raise TreefoldError(f"{what} must be a number of {unit}, got {shown(given)}")
