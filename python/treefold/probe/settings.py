"""The settings of a probe, and the check of those that rank 0 sends."""

from dataclasses import dataclass

from treefold.importers import Document
from treefold.rendezvous import validation


@dataclass(frozen=True)
class Settings:
    """How to probe; rank 0's settings count for all workers.

    Example:
        >>> from treefold import probe
        >>> probe.Settings(seconds=30.0, parallel=True).most_bytes
        68719476736

    """

    seconds: float | None = None
    """About how many seconds all measurements may take together; by default each transfer takes one second."""
    most_bytes: int = 64 << 30
    """How many bytes all workers together send at most."""
    parallel: bool = False
    """Whether pairs that share no worker are measured at the same time."""
    links: Document | None = None
    """A network document whose links are measured, each in its direction; by default all pairs are measured."""


_DOCUMENT: validation.Schema = {
    "name": str,
    "nodes": [{"name": str, "kind": str}],
    "links": [{"source": str, "target": str, "both_ways": bool}],
}

SCHEMA: dict[str, validation.Schema] = {
    "seconds": lambda value: value is None or validation.is_amount(value),
    "most_bytes": validation.is_count,
    "parallel": bool,
    "links": lambda value: value is None or validation.matches(value, _DOCUMENT),
}
"""The schemas that the JSON of `Settings` has to match, by field."""
