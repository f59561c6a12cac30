"""Reads `--ranks` and `--rank-order`, which list accelerators by name, place or range of places.

A place is the number of an accelerator in the order of its file, counted from 0.
"""

from collections.abc import Mapping, Sequence
from typing import SupportsIndex

from treefold.checks import guess, shown
from treefold.errors import TreefoldError

_MOST_DIGITS = 18


def places_of(ranks: str | Sequence[int | str], names: Sequence[str]) -> list[int]:
    """Return the places of the accelerators in a text such as `0-7,12`, or in a list of places or names.

    Raises:
        TreefoldError: If an accelerator does not exist, or a range runs backwards.

    """
    if not isinstance(ranks, str | Sequence):
        raise TreefoldError(f"ranks {shown(ranks)} are not a list; write for example 0-7,12")
    places = {name: place for place, name in enumerate(names)}
    parts = _split(ranks, places) if isinstance(ranks, str) else ranks
    found: list[int] = []
    for part in parts:
        found += _places(part, places)
        if len(found) > len(places):  # one is listed twice, so the rest does not matter
            break
    return found


def _split(text: str, places: Mapping[str, int]) -> list[str]:
    """Split at commas, but not inside a name that holds commas; the longest such name counts."""
    parts, found = text.split(","), []
    most = 1 + max((name.count(",") for name in places), default=0)
    at = 0
    while at < len(parts):
        joined = (",".join(parts[at : at + many]).strip() for many in range(most, 1, -1))
        found.append(next((name for name in joined if name in places), parts[at].strip()))
        at += 1 + found[-1].count(",")
    return found


def _places(rank: int | str, places: Mapping[str, int]) -> Sequence[int]:
    if isinstance(rank, str):
        return _range(rank.strip(), places)
    if not isinstance(rank, SupportsIndex) or not 0 <= rank.__index__() < len(places):
        raise _unknown(rank, places)
    return [rank.__index__()]


def _range(part: str, places: Mapping[str, int]) -> Sequence[int]:
    """Return the places that one part of `0-7,12,GPU3` stands for; names that are numbers win over places."""
    if part in places:
        return [places[part]]
    first, dash, last = part.partition("-")
    ends = [first, last] if dash else [first]
    if all(end in places for end in ends):
        found = [places[end] for end in ends]
    elif all(end.isascii() and end.isdecimal() for end in ends):
        found = [_number(end, places) for end in ends]
    else:
        near = guess(part, places)
        remedy = f"did you mean {near}?" if near else f"write indices or names such as 0-7,12 or {next(iter(places))}"
        raise TreefoldError(f"rank {shown(part)} does not exist; {remedy}")
    if found[-1] < found[0]:
        raise TreefoldError(f"rank range '{part}' runs backwards; write {last}-{first}")
    if found[-1] >= len(places):
        raise _unknown(found[-1], places)
    return range(found[0], found[-1] + 1)


def _number(digits: str, places: Mapping[str, int]) -> int:
    if len(digits) > _MOST_DIGITS:
        raise _unknown(digits, places)
    return int(digits)


def _unknown(rank: object, places: Mapping[str, int]) -> TreefoldError:
    return TreefoldError(
        f"no accelerator has index {shown(rank)}: the network has {len(places)}; write indices from 0 to "
        f"{len(places) - 1}"
    )
