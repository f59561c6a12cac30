"""What other ranks say: JSON that is looked at before it is believed, so that an error names who said it."""

import json
from collections.abc import Callable, Sequence
from types import UnionType
from typing import Any

from treefold._core import TreefoldError

Form = type | UnionType | Callable[[Any], bool] | dict[str, Any] | list[Any] | tuple[Any, ...]
"""What a value has to be: of a type, or such that a function is true of it; an object with at least these keys, a list
of any length, or a list of exactly these."""

_MOST_TEXT = 1000


def read(who: str, blob: bytes, form: Form) -> Any:
    """Return the JSON value that `who` has said.

    Raises:
        TreefoldError: If it is none, or not of this form.

    """
    try:
        value = json.loads(blob)
    except (ValueError, RecursionError):
        raise _nonsense(who, f"{len(blob)} bytes that are no JSON") from None
    if misfit := _misfit(value, form, ""):
        raise _nonsense(who, misfit)
    return value


def read_all(blobs: Sequence[bytes], form: Form) -> list[Any]:
    """Return the JSON values that all ranks have said, by rank; otherwise as `read`."""
    return [read(f"rank {rank}", blob, form) for rank, blob in enumerate(blobs)]


def exchange(gather: Callable[[bytes], list[bytes]], mine: Any, form: Form) -> list[Any]:
    """Exchange JSON values; return everyone's, by rank; otherwise as `read`."""
    return read_all(gather(json.dumps(mine).encode()), form)


def read_texts(blobs: Sequence[bytes]) -> list[str]:
    """Return the texts that all ranks have said, fit to be printed."""
    return [printable(blob[: 4 * _MOST_TEXT].decode(errors="replace"))[:_MOST_TEXT] for blob in blobs]


def read_names(blobs: Sequence[bytes]) -> list[str | None]:
    """Return the names that ranks have given themselves, None for none.

    Raises:
        TreefoldError: If one is no text that can be printed.

    """
    for rank, blob in enumerate(blobs):
        if (
            not is_name(blob.decode(errors="ignore"))
            or b"\xff" in blob
            or blob.decode(errors="replace").encode() != blob
        ):
            raise _nonsense(f"rank {rank}", "a name that is no text of at most 1000 printable characters")
    return [blob.decode() or None for blob in blobs]


def is_name(value: Any) -> bool:
    """Whether this can be a worker's name."""
    return isinstance(value, str) and len(value) <= _MOST_TEXT and value.isprintable()


def printable(text: str) -> str:
    """Return a stranger's text as one line that a terminal only shows."""
    safe = text.encode(errors="replace").decode()
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in safe)


def _nonsense(who: str, what: str) -> TreefoldError:
    return TreefoldError(f"{who} has sent {what}; start all ranks with the same version of treefold")


def _misfit(value: Any, form: Form, place: str) -> str | None:
    """Return what is wrong with a value, None if nothing is."""
    if isinstance(form, dict):
        if not isinstance(value, dict):
            return _wrong(value, place)
        missing = next((key for key in form if key not in value), None)
        if missing is not None:
            return f"an object without '{missing}'"
        return _first(_misfit(value[key], each, key) for key, each in form.items())
    if isinstance(form, list | tuple):
        if not isinstance(value, list) or (isinstance(form, tuple) and len(value) != len(form)):
            return _wrong(value, place)
        forms = form if isinstance(form, tuple) else form * len(value)
        return _first(_misfit(each, one, place) for each, one in zip(value, forms, strict=True))
    if isinstance(form, type | UnionType):
        fits = isinstance(value, form) and (type(value) is not bool or form is bool)
    else:
        fits = form(value)
    return None if fits else _wrong(value, place)


def _first(misfits: Any) -> str | None:
    return next((each for each in misfits if each is not None), None)


def _wrong(value: Any, place: str) -> str:
    shown = printable(repr(value))
    return f"{shown[:40]}{'...' if len(shown) > 40 else ''}{f' as {place!r}' if place else ''}, which does not fit"
