"""How ranks tell each other through torch's store why they give up, so that all of them hear it and not only peers."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from treefold.errors import TreefoldError
from treefold.workers.group import RankLostError

_LINGER_S = 2.0
"""How long a rank that gives up waits for the others to hear why: it may be the one that keeps the store."""
_EVER = timedelta(days=365)
_NOTHING = "null"


class Words:
    """A key for each rank, at which a thread of that rank listens; `hear` gets the error of what is told.

    The store may be gone or silent at any time, so nothing here raises, or waits for it for long.
    """

    def __init__(self, store: Any, rank: int, size: int, hear: Callable[[TreefoldError], None]) -> None:
        self._store, self._rank, self._size, self._hear = store, rank, size, hear
        # Whoever waits for a key keeps its connection from others.
        self._listener = threading.Thread(target=self._listen, args=(store.clone(),), name="treefold-words")
        self._listener.daemon = True
        self._listener.start()

    def _listen(self, store: Any) -> None:
        with suppress(Exception):
            store.wait([_key(self._rank)], _EVER)
            if (error := _error(store.get(_key(self._rank)))) is not None:
                self._hear(error)

    def heard(self) -> TreefoldError | None:
        """Return why another rank has given up, if one has."""
        with suppress(Exception):
            if self._store.check([_key(self._rank)]):
                return _error(self._store.get(_key(self._rank)))
        return None

    def tell(self, error: BaseException) -> None:
        """Tell all others why this rank gives up, unless it does so because it was told."""
        said = {"by": self._rank, "why": str(error) or type(error).__name__, "lost": getattr(error, "ranks", [])}
        teller = threading.Thread(target=self._tell, args=(json.dumps(said),), name="treefold-words", daemon=True)
        teller.start()
        teller.join(_LINGER_S)

    def _tell(self, said: str) -> None:
        deadline = time.monotonic() + _LINGER_S
        with suppress(Exception):
            if self.heard() is None:
                for other in {*range(self._size)} - {self._rank}:
                    self._store.set(_key(other), said)
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
    return f"words/{rank}"


def _error(words: bytes) -> TreefoldError | None:
    said = json.loads(words)
    if said is None:
        return None
    message = f"rank {said['by']} gave up: {said['why']}"
    return RankLostError(message, said["lost"]) if said["lost"] else TreefoldError(message)
