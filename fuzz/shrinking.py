"""Making what fails small: parts are left out as long as it fails."""

import json
import time
from collections.abc import Callable
from typing import Any, TypeVar

from fuzz.cases import Case

MOST_TRIES = 3000
MOST_S = 60.0

_Items = TypeVar("_Items", bytes, list[Any])


class _EnoughError(Exception):
    """No more tries."""


def shrink(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Return a smaller case that still fails, as small as some thousand tries make it."""
    best, tries, until = case, 0, time.monotonic() + MOST_S

    def still(content: bytes) -> bool:
        nonlocal best, tries
        tries += 1
        if tries > MOST_TRIES or time.monotonic() > until:
            raise _EnoughError
        if not fails(smaller := Case(case.suffix, content)):
            return False
        best = smaller
        return True

    try:
        if case.suffix.endswith("json"):
            _shrink_json(case.content, still)
        _shrink_items(best.content, still)
    except _EnoughError:
        pass
    return best


def _shrink_json(content: bytes, fails: Callable[[bytes], bool]) -> None:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return
    _shrink_value(value, lambda smaller: fails(json.dumps(smaller).encode()))


def _shrink_value(value: Any, fails: Callable[[Any], bool]) -> Any:
    """Leave out elements and keys, here and further in."""
    if isinstance(value, dict):
        kept = _shrink_items(list(value.items()), lambda items: fails(dict(items)))
        for at, (key, inner) in enumerate(kept):
            kept[at] = key, _shrink_value(inner, lambda new, at=at, key=key: fails({**dict(kept), key: new}))
        return dict(kept)
    if isinstance(value, list):
        kept = _shrink_items(value, fails)
        for at, inner in enumerate(kept):
            kept[at] = _shrink_value(inner, lambda new, at=at: fails([*kept[:at], new, *kept[at + 1 :]]))
        return kept
    return value


def _shrink_items(items: _Items, fails: Callable[[_Items], bool]) -> _Items:
    """Leave out halves, quarters, ..., single items."""
    size = (len(items) + 1) // 2
    while size:
        start = 0
        while start < len(items):
            fewer = items[:start] + items[start + size :]
            if fails(fewer):
                items = fewer
            else:
                start += size
        size //= 2
    return items
