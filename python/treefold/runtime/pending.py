"""Operations in flight: a handle waits for one of them, and a window bounds how many there are."""

import threading
from collections.abc import Callable

import numpy as np

from treefold.runtime.transport import Bytes

MOST_IN_FLIGHT = 16
"""The most operations of a group that are in flight at a time."""
MOST_BYTES_IN_FLIGHT = 256 << 20
"""The most bytes of their vectors, unless there is one operation only."""


class Pending:
    """An operation in flight, whose array must not be touched before it has ended.

    Example:
        >>> import numpy as np
        >>> from treefold import runtime
        >>> def work(group):
        ...     arrays = [np.full(2, 10.0**group.worker), np.full(3, 2.0)]
        ...     pending = [group.start_all_reduce(array) for array in arrays]
        ...     for each in pending:
        ...         each.wait()
        ...     return [array.tolist() for array in arrays]
        >>> runtime.in_threads(2, work)[0]
        [[11.0, 11.0], [4.0, 4.0, 4.0]]

    """

    def __init__(self, memory: list[Bytes], end: Callable[[], None]) -> None:
        """Wrap an operation on this memory; `end` waits for it, and raises its error."""
        self._memory, self._end = memory, end
        self._lock = threading.Lock()
        self.is_over = False
        """Whether it has ended."""
        self._error: BaseException | None = None

    @property
    def memory_bytes(self) -> int:
        """The bytes of its vector and of its result."""
        return sum(each.size for each in self._memory)

    def shares_memory(self, memory: list[Bytes]) -> bool:
        """Return whether it uses any of this memory."""
        return any(np.may_share_memory(own, other) for own in self._memory for other in memory)

    def wait(self) -> None:
        """Wait until the operation has ended; calling it again does nothing, or raises the same error.

        Raises:
            RankLostError: If a worker is gone; the error names it.
            TreefoldError: If the workers disagree, or it takes too long.

        """
        self.settle()
        if self._error is not None:
            raise self._error

    def settle(self) -> None:
        """Wait until the operation has ended, with or without an error."""
        with self._lock:
            if self.is_over:
                return
            try:
                self._end()
            except BaseException as error:
                self._error = error
                if not isinstance(error, Exception):  # an interrupt is raised wherever it comes
                    raise
            finally:
                # What has ended must not keep its group alive, whose end closes connections.
                self.is_over, self._memory, self._end = True, [], _nothing


def _nothing() -> None:
    """Wait for nothing."""


class Window:
    """The operations of a group that are in flight."""

    def __init__(self) -> None:
        self._flights: list[Pending] = []

    def make_room(self, memory: list[Bytes]) -> None:
        """Wait for the earliest operations until another one with this memory may begin.

        An operation begins only when all before it have ended that use any of its memory.
        """
        added = sum(each.size for each in memory)
        while flights := [flight for flight in self._flights if not flight.is_over]:
            total = added + sum(flight.memory_bytes for flight in flights)
            is_full = len(flights) >= MOST_IN_FLIGHT or total > MOST_BYTES_IN_FLIGHT
            if not is_full and not any(flight.shares_memory(memory) for flight in flights):
                break
            flights[0].settle()
        self._flights = flights

    def settle(self) -> None:
        """Wait until all operations have ended."""
        for flight in self._flights:
            flight.settle()
        self._flights = []

    def add(self, pending: Pending) -> None:
        """Add an operation that has begun."""
        self._flights.append(pending)
