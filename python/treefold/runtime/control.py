"""Control messages: what the workers of a group tell each other over its connections, besides their operations' data.

Each is a JSON object with a `kind`:

- `rates`: the rates of the sender's links that differ from what the plan assumes.
- `delays`: the seconds that the sender's links take longer than in the beginning.
- `used`: how long an operation took on the sender, what left over each of its links by when, and how long data waited.
- `returned`: a connection of the sender that was cut has come back.
- `plan`: rank 0's new plan, from which operation on it is used, and which connections it may use.
- `window`: how many operations may be in flight from now on; rank 0 sends it.
- `state`: how far the sender is when a connection is cut.
- `resume`: how all ranks go on after a cut, or why they cannot; rank 0 sends it.
- `lost`: the ranks that the sender misses.
- `meet`: a blob of the rendezvous among those that are left.
- `admit`: after how many all-reduces all go over to the group with the newcomers; worker 0 sends it.
"""

import base64
import binascii
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from treefold._core import Plan
from treefold.errors import TreefoldError
from treefold.rendezvous import validation
from treefold.rendezvous.validation import Schema
from treefold.runtime.pending import MOST_IN_FLIGHT
from treefold.text import visible

_MOST_SEQUENCE = (1 << 32) - 1


class ControlMessage(NamedTuple):
    """A control message and its sender, a rank of the plan."""

    sender: int
    fields: dict[str, Any]


def read(sender: str, blob: bytes, size: int) -> dict[str, Any]:
    """Return the fields of a control message that `sender` has sent to a group of `size` workers.

    Raises:
        TreefoldError: If it is not a control message; the error names the sender.

    """
    fields: dict[str, Any] = validation.read(sender, blob, {"kind": str})
    schemas = _schemas(size)
    if fields["kind"] not in schemas:
        raise validation.unexpected(sender, f"a control message of kind '{visible(fields['kind'])[:40]}'")
    validation.check(sender, fields, schemas[fields["kind"]])
    return fields


def read_plan(sender: str, text: str) -> Plan:
    """Return the plan whose JSON `sender` has sent.

    Raises:
        TreefoldError: If it is not a plan; the error names the sender.

    """
    try:
        return Plan.from_json(text)
    except TreefoldError as error:
        raise TreefoldError(f"{sender} has sent {error}") from None


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_busy(value: Any) -> bool:
    return validation.matches(value, (validation.is_count, validation.is_amount))


def _is_course(value: Any) -> bool:
    is_pair = validation.matches(value, ([validation.is_count], [validation.is_count]))
    return is_pair and 1 < len(value[0]) == len(value[1])


def _schemas(size: int) -> dict[str, Schema]:
    """Return what the fields of each kind have to match."""

    def is_rank(value: Any) -> bool:
        return type(value) is int and 0 <= value < size

    def of_ranks(matches: Callable[[Any], bool]) -> Callable[[Any], bool]:
        ranks = [str(rank) for rank in range(size)]
        return lambda value: isinstance(value, dict) and all(key in ranks and matches(value[key]) for key in value)

    def is_life(value: Any) -> bool:
        return value is None or is_sequence(value)

    def is_window(value: Any) -> bool:
        return type(value) is int and 1 <= value <= MOST_IN_FLIGHT

    def is_sequence(value: Any) -> bool:
        return validation.is_count(value) and value < _MOST_SEQUENCE

    return {
        "rates": {"rates": of_ranks(validation.is_amount)},
        "delays": {"delays": of_ranks(_is_number)},
        "used": {
            "operation": validation.is_count,
            "seconds": validation.is_amount,
            "busy": of_ranks(_is_busy),
            "courses": of_ranks(_is_course),
        },
        "returned": {"peer": is_rank, "life": is_sequence},
        "state": {
            "round": validation.is_count,
            "state": (validation.is_count, is_sequence),
        },
        "resume": {
            "round": validation.is_count,
            "error": str,
            "lost": [is_rank],
            "lives": [(is_rank, is_rank, is_life)],
            "changes": [str],
            "done": validation.is_count,
            "sequence": is_sequence,
            "plan": str,
        },
        "plan": {
            "from": validation.is_count,
            "plan": str,
            "changes": [str],
            "lives": [(is_rank, is_rank, is_life)],
        },
        "window": {"operations": is_window},
        "lost": {"lost": [is_rank]},
        "admit": {"after": validation.is_count},
        "meet": {"round": validation.is_count, "blob": _is_base64},
    }


def _is_base64(value: Any) -> bool:
    try:
        return isinstance(value, str) and base64.b64decode(value, validate=True) is not None
    except (binascii.Error, ValueError):
        return False
