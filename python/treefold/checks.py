"""What callers give: names that are known, whole numbers, numbers; what is none is refused in one line."""

import math
import reprlib
from collections.abc import Iterable
from numbers import Real
from typing import Any, SupportsIndex

from treefold._core import Plan, named, nearest
from treefold.errors import TreefoldError
from treefold.text import visible

LONGEST_SHOWN = 80
_brief = reprlib.Repr()
_brief.maxlevel, _brief.maxlist, _brief.maxdict = 3, 8, 8
_brief.maxstring = _brief.maxlong = _brief.maxother = LONGEST_SHOWN


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
    """Return the one of `known` that is meant, whatever its case, hyphens and underscores.

    Raises:
        TreefoldError: If it is none of them, with what may have been meant.

    """
    names = list(known)
    if not isinstance(given, str):
        raise TreefoldError(f"{what} {shown(given)} is no name; known are {', '.join(names)}")
    return named(what, visible(given), names)


def arguments(function: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse keyword arguments that a function does not have."""
    names = list(known)
    for each in given:
        if each not in names:
            near = nearest(each, names)
            hint = f"did you mean {' or '.join(near)}? " if near else ""
            raise TreefoldError(f"{function} has no argument '{each}'; {hint}known are {', '.join(names)}")


def plan(given: Any) -> Plan:
    """Return a plan; refuse what is none."""
    if not isinstance(given, Plan):
        raise TreefoldError(f"plan {shown(given)} is none; make one with treefold.plan")
    return given


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


def number(what: str, given: Any, unit: str) -> float:
    """Return a finite number, which stands for `unit`."""
    try:
        if isinstance(given, Real) and not isinstance(given, bool) and math.isfinite(given):
            return float(given)
    except OverflowError:
        pass
    raise TreefoldError(f"{what} must be a number of {unit}, got {shown(given)}")
