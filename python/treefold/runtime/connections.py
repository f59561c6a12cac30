"""How the workers of a group are connected, and how long they wait for each other."""

from typing import NamedTuple


class Connections(NamedTuple):
    """The connections of a group, with timeouts in seconds.

    Attributes:
        silence_s: After this many seconds without a byte, an operation over TCP pings all workers; workers that do not
            answer within another `silence_s` are lost. Over MPI or torch, the operation fails after `silence_s`,
            without a ping.
        dead_after_s: If the other end of a TCP connection does not acknowledge data for so long, the connection is cut.
        operation_s: If an operation over TCP takes more seconds than this, all workers give it up, even if all of them
            answer; None sets no limit.
        streams: How many TCP streams side by side join two workers, from 1 to 256. By default it is what
            TREEFOLD_STREAMS says, or else what the network tells of its links (`Link.streams`), or else as many as the
            line holds data for: its bandwidth times its round trip, over what the kernel lets one stream have under
            way. Of two workers that differ, the one that calls decides: the higher rank, unless only the lower one can.
            An engine has no streams, and refuses a number of them.
        newcomers: Whether workers may come to the group later, or come back, which `admit` lets in: True on all
            workers, or on none. The workers meet at MASTER_ADDR and MASTER_PORT without torchrun and mpiexec, and
            worker 0 goes on listening there. Where such a group runs already, `join` waits until the group lets this
            worker in.

    Example:
        >>> from treefold import runtime
        >>> runtime.Connections(silence_s=5.0).dead_after_s
        20.0

    """

    silence_s: float = 30.0
    dead_after_s: float = 20.0
    operation_s: float | None = None
    streams: int | None = None
    newcomers: bool = False


DEFAULT = Connections()
