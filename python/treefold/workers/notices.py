"""What ranks tell each other over a group's connections, beside its operations: of which kinds, and how it looks."""

import base64
import binascii
from collections.abc import Callable
from typing import Any

from treefold.errors import TreefoldError
from treefold.text import visible
from treefold.workers import said
from treefold.workers.said import Form

_STAGES = ("data", "commit", "idle")
_MOST_SEQUENCE = (1 << 32) - 1


def read(who: str, words: bytes, size: int) -> dict[str, Any]:
    """Return the notice that `who` has told a group of so many workers.

    Raises:
        TreefoldError: If it is none.

    """
    notice: dict[str, Any] = said.read(who, words, {"kind": str})
    kinds = _kinds(size)
    if notice["kind"] not in kinds:
        raise said.nonsense(who, f"a notice of kind '{visible(notice['kind'])[:40]}'")
    said.check(who, notice, kinds[notice["kind"]])
    return notice


def tried(who: str, make: Callable[[str], Any], text: str) -> Any:
    """Return what is made of a text that `who` has sent; an error names who."""
    try:
        return make(text)
    except TreefoldError as error:
        raise TreefoldError(f"{who} has sent {error}") from None


def _kinds(size: int) -> dict[str, Form]:
    def is_rank(value: Any) -> bool:
        return type(value) is int and 0 <= value < size

    def are_rates(value: Any) -> bool:
        ranks = [str(rank) for rank in range(size)]
        return isinstance(value, dict) and all(key in ranks and said.is_amount(value[key]) for key in value)

    def is_sequence(value: Any) -> bool:
        return said.is_count(value) and value < _MOST_SEQUENCE

    return {
        "rates": {"rates": are_rates},
        "state": {"round": said.is_count, "state": (said.is_count, _STAGES.__contains__, is_sequence)},
        "resume": {
            "round": said.is_count,
            "error": str,
            "lost": [is_rank],
            "ways": [(is_rank, is_rank)],
            "changes": [str],
            "last": said.is_count,
            "done": bool,
            "sequence": is_sequence,
            "plan": str,
        },
        "plan": {"from": said.is_count, "plan": str, "changes": [str]},
        "lost": {"lost": [is_rank]},
        "meet": {"round": said.is_count, "blob": _is_base64},
    }


def _is_base64(value: Any) -> bool:
    try:
        return isinstance(value, str) and base64.b64decode(value, validate=True) is not None
    except (binascii.Error, ValueError):
        return False
