"""What other ranks say: JSON that is looked at before it is believed, so that an error names who said it."""

import ipaddress
import json
import re
from collections.abc import Callable, Sequence
from types import UnionType
from typing import Any

from treefold.errors import TreefoldError
from treefold.text import visible

Form = type | UnionType | Callable[[Any], bool] | dict[str, Any] | list[Any] | tuple[Any, ...]
"""What a value has to be: of a type, or such that a function is true of it; an object with at least these keys, a list
of any length, or a list of exactly these."""

_MOST_TEXT = 1000
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What moves a terminal's cursor, reorders what stands beside it, or is no text."""


def read(who: str, blob: bytes, form: Form) -> Any:
    """Return the JSON value that `who` has said.

    Raises:
        TreefoldError: If it is none, or not of this form.

    """
    try:
        value = json.loads(blob)
    except (ValueError, RecursionError):
        raise nonsense(who, f"{len(blob)} bytes that are no JSON") from None
    check(who, value, form)
    return value


def check(who: str, value: Any, form: Form) -> None:
    """Refuse a value that is not of this form; otherwise as `read`."""
    if misfit := _misfit(value, form, ""):
        raise nonsense(who, misfit)


def read_all(blobs: Sequence[bytes], form: Form) -> list[Any]:
    """Return the JSON values that all ranks have said, by rank; otherwise as `read`."""
    return [read(f"rank {rank}", blob, form) for rank, blob in enumerate(blobs)]


def exchange(gather: Callable[[bytes], list[bytes]], mine: Any, form: Form) -> list[Any]:
    """Exchange JSON values; return everyone's, by rank; otherwise as `read`."""
    return read_all(gather(json.dumps(mine).encode()), form)


def read_texts(blobs: Sequence[bytes]) -> list[str]:
    """Return the texts that all ranks have said, fit to be printed."""
    return [visible(blob[: 4 * _MOST_TEXT].decode(errors="replace"))[:_MOST_TEXT] for blob in blobs]


def read_names(blobs: Sequence[bytes]) -> list[str | None]:
    """Return the names that ranks have given themselves, None for none.

    Raises:
        TreefoldError: If one is no text that can be printed.

    """
    texts = [blob.decode(errors="replace") for blob in blobs]
    for rank, (text, blob) in enumerate(zip(texts, blobs, strict=True)):
        if not is_name(text) or text.encode() != blob:
            raise nonsense(f"rank {rank}", "a name that is no text of at most 1000 printable characters")
    return [text or None for text in texts]


def is_name(value: Any) -> bool:
    """Whether this can be a worker's name."""
    return isinstance(value, str) and len(value) <= _MOST_TEXT and _CONTROLS.search(value) is None


def is_count(value: Any) -> bool:
    """Whether this is a whole number from 0 on that fits 63 bits."""
    return type(value) is int and 0 <= value < 1 << 63


def is_amount(value: Any) -> bool:
    """Whether this is a finite number from 0 on."""
    return type(value) in (int, float) and 0 <= value < float("inf")


def is_port(value: Any) -> bool:
    """Whether this is a port; 0 stands for none."""
    return is_count(value) and value < 1 << 16


def is_endpoint(value: Any) -> bool:
    """Whether this is an address with a port."""
    address, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    try:
        ipaddress.ip_address(address.strip("[]"))
    except ValueError:
        return False
    return port.isascii() and port.isdecimal() and len(port) <= 5 and is_port(int(port))


def nonsense(who: str, what: str) -> TreefoldError:
    """Return the error that `who` has sent what no worker sends."""
    return TreefoldError(f"{who} has sent {what}; start all ranks with the same version of treefold")


def fits(value: Any, form: Form) -> bool:
    """Whether a value is of a form."""
    return _misfit(value, form, "") is None


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
    shown = visible(repr(value))
    return f"{shown[:40]}{'...' if len(shown) > 40 else ''}{f' as {place!r}' if place else ''}, which does not fit"
