"""Makes failing cases small: it leaves out parts as long as the case fails."""

import json
import time
from collections.abc import Callable
from typing import Any, TypeVar

from fuzz.cases import Case

MOST_TRIES = 3000
MOST_S = 60.0

_Items = TypeVar("_Items", bytes, list[Any])


class _EnoughError(Exception):
    """The limit of tries or of time is reached."""


def shrink(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Return a smaller case that still fails, after at most some thousand tries."""
    best, tries, until = case, 0, time.monotonic() + MOST_S

    def still_fails(content: bytes) -> bool:
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
            _shrink_json(case.content, still_fails)
        _shrink_items(best.content, still_fails)
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
    """Leave out elements and keys of a value, and of the values inside it."""
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
    """Leave out halves, then quarters, and so on down to single items."""
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
