"""How long the workers of a group wait for each other."""

from typing import NamedTuple


class Timeouts(NamedTuple):
    """How long to wait for what, in seconds.

    >>> from treefold import runtime
    >>> runtime.Timeouts(silence_s=5.0).dead_after_s
    20.0
    """

    silence_s: float = 30.0
    """How long an operation waits for a byte, and then as long again for an answer to "who is there?"."""
    dead_after_s: float = 20.0
    """How long the other end of a connection may take to acknowledge data."""
    operation_s: float | None = None
    """How long an operation over TCP may take although all ranks answer; None sets no limit."""


DEFAULT = Timeouts()
