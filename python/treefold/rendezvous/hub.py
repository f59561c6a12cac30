"""The hub gathers blobs of all ranks, whether they are threads of this process or reach it through a `server`.

A hub fails once and for all, and for every rank: without a rank that is missing, gone or wrong the job cannot go on.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from treefold.errors import DeadlineError, PeerError, TreefoldError

MAX_BLOB_BYTES = 64 << 20
"""The most that a blob may hold; the largest blobs are plans."""

_MOST_REMARKS = 3
_MOST_NAMED = 8


@dataclass
class _Round:
    start: float = field(default_factory=time.monotonic)
    blobs: dict[int, bytes] = field(default_factory=dict)
    fetched: int = 0


class Hub:
    """An all-gather among `size` ranks, as often as they like."""

    def __init__(self, size: int, timeout_s: float):
        self.size = size
        self.notify: Callable[[], None] = lambda: None
        """The thread that changes something calls this afterwards."""
        self._timeout_s = timeout_s
        self._changed = threading.Condition()
        self._next_round = [0] * size
        self._rounds: dict[int, _Round] = {}
        self._gone: dict[int, str] = {}
        self._remarks: deque[str] = deque(maxlen=_MOST_REMARKS)
        self._failure: TreefoldError | None = None

    def gather(self, rank: int, blob: bytes) -> list[bytes]:
        """Return the blobs of all ranks, by rank, once all have come.

        Raises:
            DeadlineError: If a rank is missing after the timeout.
            PeerError: If a rank is gone.
            TreefoldError: If the hub has failed before: the same error.

        """
        number = self.put(rank, blob)
        with self._changed:
            current = self._rounds[number]
            while (blobs := self._result(number)) is None:
                self._changed.wait(max(current.start + self._timeout_s - time.monotonic(), 0))
            return blobs

    def put(self, rank: int, blob: bytes) -> int:
        """Add a rank's blob; return the number of the round to which it belongs."""
        with self._changed:
            number = self._next_round[rank]
            self._next_round[rank] += 1
            self._rounds.setdefault(number, _Round()).blobs[rank] = blob
            self._has_changed()
            return number

    def result(self, number: int, ranks: int) -> list[bytes] | None:
        """Return the blobs of a round on behalf of so many ranks; None if some blobs may still come.

        Raises:
            TreefoldError: In the cases of `gather`.

        """
        with self._changed:
            return self._result(number, ranks)

    def _result(self, number: int, ranks: int = 1) -> list[bytes] | None:
        current = self._rounds[number]
        if len(current.blobs) < self.size:
            self._fail_if_hopeless(current)
            return None
        current.fetched += ranks
        if current.fetched == self.size:
            del self._rounds[number]
        return [current.blobs[rank] for rank in range(self.size)]

    def _fail_if_hopeless(self, current: _Round) -> None:
        is_late = time.monotonic() >= current.start + self._timeout_s
        if self._failure is None and (self._gone or is_late):
            missing = [rank for rank in range(self.size) if rank not in current.blobs]
            gone = [self._gone[rank] for rank in missing if rank in self._gone]
            if gone or is_late:
                self._failure = PeerError(gone[0]) if gone else absence(missing, self._timeout_s, self._remarks)
                self._has_changed()
        if self._failure is not None:
            raise type(self._failure)(str(self._failure))  # each rank raises an error of its own

    def _has_changed(self) -> None:
        self._changed.notify_all()
        self.notify()

    def withdraw(self, rank: int) -> bool:
        """Forget the first blob of a caller that was not this rank; return False if all have got that blob already."""
        with self._changed:
            if min(self._next_round) > 0:
                return False
            self._next_round[rank] = 0
            if 0 in self._rounds:
                self._rounds[0].blobs.pop(rank, None)
            return True

    def leave(self, rank: int, why: str) -> None:
        """Record that `rank` will not come any more; the ranks that wait for it get the error `why`."""
        with self._changed:
            self._gone.setdefault(rank, why)
            self._has_changed()

    def fail(self, why: str) -> None:
        """Give every rank that waits, now or later, the error `why`."""
        with self._changed:
            self._failure = self._failure or TreefoldError(why)
            self._has_changed()

    def remark(self, text: str) -> None:
        """Keep a remark for the error of ranks that wait in vain."""
        with self._changed:
            self._remarks.append(text)

    @property
    def failure(self) -> TreefoldError | None:
        """The error that ended this hub; None while it works."""
        with self._changed:
            return self._failure

    @property
    def has_gathered(self) -> bool:
        """Tell whether all ranks have come at least once."""
        with self._changed:
            return min(self._next_round) > 0


def absence(ranks: Sequence[int], timeout_s: float, remarks: Sequence[str] = ()) -> DeadlineError:
    """Return the error that these ranks did not come."""
    named = ", ".join(map(str, ranks[:_MOST_NAMED]))
    more = f" and {len(ranks) - _MOST_NAMED} more" if len(ranks) > _MOST_NAMED else ""
    heard = f" ({'; '.join(remarks)})" if remarks else ""
    plural, them, they = ("s", "them", "they") if len(ranks) > 1 else ("", "it", "it")
    missing = f"worker{plural} {named}{more} did not come within {timeout_s:g} s"
    return DeadlineError(f"{missing}; start {them}, or see why {they} failed{heard}")
