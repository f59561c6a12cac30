"""All JSON that peers send is read and checked here before anything relies on it, so that errors name the sender."""

import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Sequence
from types import UnionType
from typing import Any

from treefold.errors import TreefoldError
from treefold.text import visible

Schema = type | UnionType | Callable[[Any], bool] | dict[str, Any] | list[Any] | tuple[Any, ...]
"""A description of a JSON value. A type asks for a value of that type, and a function for a value of which it is true.
A dict asks for an object with at least these keys, a list for an array of any length whose elements match its one
schema, a tuple for an array with exactly these elements."""

_MOST_TEXT = 1000
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that move a terminal's cursor or reorder the text around them, and those that no text holds."""


def read(sender: str, blob: bytes, schema: Schema) -> Any:
    """Return the JSON value that `sender` has sent.

    Raises:
        TreefoldError: If it is not JSON, or does not match the schema; the error names the sender.

    """
    try:
        value = json.loads(blob)
    except (ValueError, RecursionError):
        raise unexpected(sender, f"{len(blob)} bytes that are not JSON") from None
    check(sender, value, schema)
    return value


def check(sender: str, value: Any, schema: Schema) -> None:
    """Refuse a value of `sender` that does not match the schema.

    Raises:
        TreefoldError: Naming the sender and the part of the value that does not match.

    """
    if mismatch := _mismatch(value, schema, ""):
        raise unexpected(sender, mismatch)


def matches(value: Any, schema: Schema) -> bool:
    """Return whether a value matches a schema."""
    return _mismatch(value, schema, "") is None


def read_all(blobs: Sequence[bytes], schema: Schema) -> list[Any]:
    """Return the JSON values of all ranks, by rank.

    Raises:
        TreefoldError: Naming the first rank whose value does not match the schema.

    """
    return [read(f"worker {rank}", blob, schema) for rank, blob in enumerate(blobs)]


def exchange(gather: Callable[[bytes], list[bytes]], mine: Any, schema: Schema) -> list[Any]:
    """Send this rank's JSON value to all ranks; return the values of all, by rank.

    Args:
        gather: The function that exchanges blobs, such as `Rendezvous.exchange`.
        mine: This rank's value.
        schema: The schema that the value of each rank has to match.

    Raises:
        TreefoldError: If the exchange fails, or naming the first rank whose value does not match.

    """
    return read_all(gather(json.dumps(mine).encode()), schema)


def read_texts(blobs: Sequence[bytes]) -> list[str]:
    """Return the texts of all ranks, fit to be printed."""
    return [visible(blob[: 4 * _MOST_TEXT].decode(errors="replace"))[:_MOST_TEXT] for blob in blobs]


def read_names(blobs: Sequence[bytes]) -> list[str | None]:
    """Return the names of all ranks, by rank; None stands for a rank without one.

    Raises:
        TreefoldError: If a name is not a text that can be printed.

    """
    texts = [blob.decode(errors="replace") for blob in blobs]
    for rank, (text, blob) in enumerate(zip(texts, blobs, strict=True)):
        if not is_name(text) or text.encode() != blob:
            raise unexpected(f"worker {rank}", "a name that is not a text of at most 1000 printable characters")
    return [text or None for text in texts]


def is_name(value: Any) -> bool:
    """Return whether a value can be a worker's name."""
    return isinstance(value, str) and len(value) <= _MOST_TEXT and _CONTROLS.search(value) is None


def is_count(value: Any) -> bool:
    """Return whether a value is a whole number of at least 0 that fits 63 bits."""
    return type(value) is int and 0 <= value < 1 << 63


def is_amount(value: Any) -> bool:
    """Return whether a value is a finite number of at least 0."""
    return type(value) in (int, float) and 0 <= value < float("inf")


def is_port(value: Any) -> bool:
    """Return whether a value is a port; 0 stands for none."""
    return is_count(value) and value < 1 << 16


def is_endpoint(value: Any) -> bool:
    """Return whether a value is an IP address with a port."""
    address, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    try:
        ipaddress.ip_address(address.strip("[]"))
    except ValueError:
        return False
    return port.isascii() and port.isdecimal() and len(port) <= 5 and is_port(int(port))


def unexpected(sender: str, what: str) -> TreefoldError:
    """Return the error that `sender` has sent what no worker sends."""
    return TreefoldError(f"{sender} has sent {what}; start all ranks with the same version of treefold")


def _mismatch(value: Any, schema: Schema, key: str) -> str | None:
    """Return a description of the first part of a value that does not match; None if all of it does."""
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            return _description(value, key)
        missing = next((each for each in schema if each not in value), None)
        if missing is not None:
            return f"an object without '{missing}'"
        return _first(_mismatch(value[each], of_value, each) for each, of_value in schema.items())
    if isinstance(schema, list | tuple):
        if not isinstance(value, list) or (isinstance(schema, tuple) and len(value) != len(schema)):
            return _description(value, key)
        schemas = schema if isinstance(schema, tuple) else schema * len(value)
        return _first(_mismatch(each, of_value, key) for each, of_value in zip(value, schemas, strict=True))
    if isinstance(schema, type | UnionType):
        is_match = isinstance(value, schema) and (type(value) is not bool or schema is bool)
    else:
        is_match = schema(value)
    return None if is_match else _description(value, key)


def _first(mismatches: Iterable[str | None]) -> str | None:
    return next((each for each in mismatches if each is not None), None)


def _description(value: Any, key: str) -> str:
    shown = visible(repr(value))
    return f"{shown[:40]}{'...' if len(shown) > 40 else ''}{f' as {key!r}' if key else ''}, which does not fit"
