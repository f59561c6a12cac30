"""Ranks tell each other through torch's store why they give up, so that all ranks learn it and not only peers."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from treefold.errors import TreefoldError
from treefold.runtime.faults import RankLostError

_LINGER_S = 2.0
"""How long a rank that gives up waits until the others have read why, because it may keep the store."""
_EVER = timedelta(days=365)
_NOTHING = "null"


class AbortMessages:
    """A key of the store for each rank, for which a thread of that rank waits.

    The store may be gone or silent at any time, so no method raises an error or waits long for it.
    """

    def __init__(self, store: Any, rank: int, size: int, on_abort: Callable[[TreefoldError], None]) -> None:
        """Begin to listen.

        Args:
            store: The store that the ranks share.
            rank: This rank.
            size: How many ranks there are.
            on_abort: A function that gets the error of another rank that gives up.

        """
        self._store, self._rank, self._size, self._on_abort = store, rank, size, on_abort
        # A thread that waits for a key blocks its connection to the store for other threads.
        self._listener = threading.Thread(target=self._listen, args=(store.clone(),), name="treefold-aborts")
        self._listener.daemon = True
        self._listener.start()

    def _listen(self, store: Any) -> None:
        with suppress(Exception):
            store.wait([_key(self._rank)], _EVER)
            if (error := _error(store.get(_key(self._rank)))) is not None:
                self._on_abort(error)

    def received(self) -> TreefoldError | None:
        """Return why another rank has given up, if one has."""
        with suppress(Exception):
            if self._store.check([_key(self._rank)]):
                return _error(self._store.get(_key(self._rank)))
        return None

    def broadcast(self, error: BaseException) -> None:
        """Tell all others why this rank gives up, unless it does so because of another one's message."""
        message = {"by": self._rank, "why": str(error) or type(error).__name__, "lost": getattr(error, "workers", [])}
        sender = threading.Thread(target=self._send, args=(json.dumps(message),), name="treefold-aborts", daemon=True)
        sender.start()
        sender.join(_LINGER_S)

    def _send(self, message: str) -> None:
        deadline = time.monotonic() + _LINGER_S
        with suppress(Exception):
            if self.received() is None:
                for other in {*range(self._size)} - {self._rank}:
                    self._store.set(_key(other), message)
            count = self._store.add("given up", 1)
            while count < self._size and time.monotonic() < deadline:
                time.sleep(0.02)
                count = self._store.add("given up", 0)

    def close(self) -> None:
        """End the thread."""
        with suppress(Exception):
            self._store.set(_key(self._rank), _NOTHING)
        self._listener.join(_LINGER_S)


def _key(rank: int) -> str:
    return f"aborts/{rank}"


def _error(message: bytes) -> TreefoldError | None:
    fields = json.loads(message)
    if fields is None:
        return None
    text = f"worker {fields['by']} gave up: {fields['why']}"
    return RankLostError(text, fields["lost"]) if fields["lost"] else TreefoldError(text)
