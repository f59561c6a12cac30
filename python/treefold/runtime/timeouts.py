"""How long the workers of a group wait for each other."""

from typing import NamedTuple


class Timeouts(NamedTuple):
    """The timeouts of a group, in seconds.

    Attributes:
        silence_s: After this many seconds without a byte, an operation over TCP pings all workers; workers that do not
            answer within another `silence_s` are lost. Over MPI or torch, the operation fails after `silence_s`,
            without a ping.
        dead_after_s: If the other end of a TCP connection does not acknowledge data for so long, the connection is cut.
        operation_s: If an operation over TCP takes more seconds than this, all workers give it up, even if all of them
            answer; None sets no limit.

    Example:
        >>> from treefold import runtime
        >>> runtime.Timeouts(silence_s=5.0).dead_after_s
        20.0

    """

    silence_s: float = 30.0
    dead_after_s: float = 20.0
    operation_s: float | None = None


DEFAULT = Timeouts()
