"""How long the workers of a group wait for each other."""

from typing import NamedTuple


class Timeouts(NamedTuple):
    """How long to wait for what, in seconds.

    Attributes:
        silence_s: If no byte comes for so long, an operation over TCP asks all workers whether they are there, and
            those that do not answer within as long again are lost. Over MPI or torch the operation fails at once.
        dead_after_s: If the other end of a TCP connection does not acknowledge data for so long, the connection is cut.
        operation_s: If an operation over TCP takes longer, all workers give it up, although all of them answer; None
            sets no limit.

    Example:
        >>> from treefold import runtime
        >>> runtime.Timeouts(silence_s=5.0).dead_after_s
        20.0

    """

    silence_s: float = 30.0
    dead_after_s: float = 20.0
    operation_s: float | None = None


DEFAULT = Timeouts()
