"""The protocol of an engine that has its own messages, such as MPI or PyTorch's point-to-point messages."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from treefold.errors import DeadlineError
from treefold.runtime.transport import Bytes


class Completion(NamedTuple):
    """A message that has been sent or received."""

    rank: int
    """The rank at the other end."""
    message: Bytes
    """The buffer that was given to `send` or `receive`."""
    is_received: bool
    """Whether the message was received, not sent."""


class Engine(Protocol):
    """Sends and receives messages; ranks are the plan's."""

    ahead: int
    """How many receives are posted ahead from each peer."""
    message_s: float
    """The cost of sending or receiving a message besides its bytes, in seconds (bench/README.md)."""

    def send(self, rank: int, message: Bytes) -> None:
        """Begin to send a message, which must not change before its completion."""

    def receive(self, rank: int, message: Bytes) -> None:
        """Begin to receive a message of at most this length; messages between two ranks arrive in order."""

    def completions(self, timeout_s: float) -> Iterable[Completion]:
        """Return the messages that have been sent or received since the last call, at least one.

        Raises:
            TreefoldError: If nothing completes in time, a peer is gone, or a rank has given up.

        """

    def give_up(self, error: BaseException) -> None:
        """Tell all ranks, not only peers, why this one ends here; it raises nothing and takes a few seconds at most."""

    def close(self) -> None:
        """Release what the engine holds; all ranks call this together."""


MakeEngine = Callable[[list[int]], Engine]
"""A function that makes an engine from the list of each rank's worker."""


def silence(workers: Iterable[int], timeout_s: float) -> DeadlineError:
    """Return the error that no message of the awaited `workers` has completed in time."""
    awaited = ", ".join(map(str, sorted(workers)))
    return DeadlineError(
        f"nothing came from or left for worker {awaited} within {timeout_s:g} s: it hangs, is gone, or does something "
        "else; look at its output"
    )
