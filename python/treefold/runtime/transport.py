"""The protocol of a transport, which carries the messages of a group."""

from collections.abc import Collection
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from treefold._core import Plan, Program, Topology
from treefold.runtime.networks import Pair

Array = NDArray[Any]
Bytes = NDArray[np.uint8]


class Operation(NamedTuple):
    """One operation as a transport runs it: this rank's values, their type and the operator."""

    vector: Bytes
    """The bytes of this rank's vector, which the operation changes in place."""
    number: str
    """The name of the number type."""
    operator: str
    """The name of the operator."""
    result: Bytes | None = None
    """The memory for the result of collectives that do not leave it in the vector."""
    wire: str | None = None
    """The type in which numbers cross lines; None if they cross as they are."""
    residual: NDArray[np.float32] | None = None
    """What rounding has taken from each element in earlier operations; None without error feedback."""


class Transport(Protocol):
    """Carries the messages of one worker's operations, which end in the order in which they begin."""

    @property
    def message_s(self) -> float:
        """The cost of sending or receiving a message besides its bytes, in seconds; it decides how small chunks are."""

    @property
    def apart(self) -> Collection[Pair]:
        """The pairs of ranks that are known not to connect."""

    def connect(self, plan: Plan) -> dict[Pair, str]:
        """Connect to the ranks that `plan` needs; all ranks call this together.

        Returns:
            The pairs of this rank that could not connect, and why.

        Raises:
            TreefoldError: If a rank is not of this group.

        """

    def reaches(self, plan: Plan) -> bool:
        """Return whether all ranks are connected to those that `plan` needs; all ranks get the same answer."""

    def pace(self, plan: Plan, tested: Topology) -> None:
        """Send no faster than a plan needs, if it counts on that and on what tests of its network have shown."""

    def start(self, program: Program, operation: Operation) -> int:
        """Begin this rank's program on its values, and return its number; all ranks begin the same ones in order.

        Raises:
            TreefoldError: If the arguments do not fit.

        """

    def end(self, number: int) -> None:
        """Wait until the operation of this number has ended; it is called once for each.

        Raises:
            RankLostError: If a rank is gone.
            TreefoldError: If the ranks disagree on the operation, or it takes too long.

        """

    def close(self) -> None:
        """Close all connections, which ends an operation that runs in another thread; it may be called again."""
