"""Where blobs of all ranks meet, whether these are threads of this process or reach it through a `server`.

A hub fails once and for all, for every rank: a rank that is missing, gone or wrong leaves no job to go on with.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from treefold.errors import TreefoldError

MAX_BLOB_BYTES = 64 << 20
"""Plans travel in blobs; nothing larger does."""

_MOST_NOTES = 3


@dataclass
class _Round:
    start: float = field(default_factory=time.monotonic)
    blobs: dict[int, bytes] = field(default_factory=dict)
    fetched: int = 0


class Hub:
    """All-gather among `size` ranks."""

    def __init__(self, size: int, timeout_s: float):
        self.size = size
        self.tell: Callable[[], None] = lambda: None
        """Is called when something has changed, by whichever thread has changed it."""
        self._timeout_s = timeout_s
        self._changed = threading.Condition()
        self._next_round = [0] * size
        self._rounds: dict[int, _Round] = {}
        self._gone: dict[int, str] = {}
        self._notes: deque[str] = deque(maxlen=_MOST_NOTES)
        self._failure: str | None = None

    def gather(self, rank: int, blob: bytes) -> list[bytes]:
        """Return the blobs of all ranks once all have come, by rank.

        Raises:
            TreefoldError: If a rank is missing after the timeout, is gone, or the hub has failed before.

        """
        number = self.give(rank, blob)
        with self._changed:
            current = self._rounds[number]
            while (blobs := self._result(number)) is None:
                self._changed.wait(max(current.start + self._timeout_s - time.monotonic(), 0))
            return blobs

    def give(self, rank: int, blob: bytes) -> int:
        """Bring a rank's blob; return the number of the round to which it belongs."""
        with self._changed:
            number = self._next_round[rank]
            self._next_round[rank] += 1
            self._rounds.setdefault(number, _Round()).blobs[rank] = blob
            self._has_changed()
            return number

    def result(self, number: int, ranks: int) -> list[bytes] | None:
        """Return the blobs of a round for so many ranks, None if some may still come.

        Raises:
            TreefoldError: As `gather`.

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
        return [current.blobs[each] for each in range(self.size)]

    def _fail_if_hopeless(self, current: _Round) -> None:
        is_late = time.monotonic() >= current.start + self._timeout_s
        if self._failure is None and (self._gone or is_late):
            missing = [rank for rank in range(self.size) if rank not in current.blobs]
            gone = [self._gone[rank] for rank in missing if rank in self._gone]
            if gone or is_late:
                self._failure = gone[0] if gone else absent(missing, self._timeout_s, self._notes)
                self._has_changed()
        if self._failure is not None:
            raise TreefoldError(self._failure)

    def _has_changed(self) -> None:
        self._changed.notify_all()
        self.tell()

    def take_back(self, rank: int) -> bool:
        """Forget a rank that turns out to be none; False if all have already got its blob."""
        with self._changed:
            if min(self._next_round) > 0:
                return False
            self._next_round[rank] = 0
            if 0 in self._rounds:
                self._rounds[0].blobs.pop(rank, None)
            return True

    def leave(self, rank: int, why: str) -> None:
        """Note that `rank` will not come any more; who waits for it gets the error `why`."""
        with self._changed:
            self._gone.setdefault(rank, why)
            self._has_changed()

    def fail(self, why: str) -> None:
        """Give every rank that waits, now or later, the error `why`."""
        with self._changed:
            self._failure = self._failure or why
            self._has_changed()

    def note(self, what: str) -> None:
        """Keep what those should hear who wait in vain."""
        with self._changed:
            self._notes.append(what)

    @property
    def failure(self) -> str | None:
        """What ended this hub; None while it works."""
        with self._changed:
            return self._failure

    @property
    def has_gathered(self) -> bool:
        """Whether all ranks have come at least once."""
        with self._changed:
            return min(self._next_round) > 0


_MOST_NAMED = 8


def absent(ranks: Sequence[int], timeout_s: float, notes: Sequence[str] = ()) -> str:
    """Return the error that ranks did not come."""
    named = ", ".join(map(str, ranks[:_MOST_NAMED]))
    more = f" and {len(ranks) - _MOST_NAMED} more" if len(ranks) > _MOST_NAMED else ""
    told = f" ({'; '.join(notes)})" if notes else ""
    plural = "s" if len(ranks) > 1 else ""
    return f"rank{plural} {named}{more} did not come within {timeout_s:g} s; start or look at them{told}"
