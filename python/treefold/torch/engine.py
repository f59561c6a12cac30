"""torch.distributed's point-to-point messages as an engine that carries plans: over gloo, or another CPU backend.

gloo tells of a message's end only to a thread that waits for it. Messages to one rank leave in order, as those from it
come in order, so one thread waits for each of these lines, without the GIL.
"""

import queue
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch

from treefold._core import TreefoldError
from treefold.runtime.driver import Bytes, Ended
from treefold.workers.group import RankLostError

_CONFESSION = timedelta(seconds=3)
"""How long a missed rank has to note that it misses another one."""
_TAG = 0


class TorchEngine:
    """Messages between the ranks of `group`: a torch process group or backend that nobody else sends on.

    `worker_of_rank` tells which rank of the group is which rank of the plan. In `store` ranks note whom they miss.
    """

    ahead = 32
    message_s = 125e-6

    def __init__(self, group: Any, worker_of_rank: list[int], store: Any) -> None:
        self._group, self._worker, self._store = group, worker_of_rank, store
        self._ended: queue.SimpleQueue[tuple[Ended, Exception | None]] = queue.SimpleQueue()
        self._lines: dict[tuple[int, bool], _Line] = {}

    def send(self, rank: int, message: Bytes) -> None:
        """See `driver.Engine`."""
        self._begin(self._group.send, Ended(rank, message, False))

    def receive(self, rank: int, message: Bytes) -> None:
        """See `driver.Engine`."""
        self._begin(self._group.recv, Ended(rank, message, True))

    def _begin(self, post: Callable[..., Any], awaited: Ended) -> None:
        worker = self._worker[awaited.rank]
        try:
            work = post([torch.from_numpy(awaited.message)], worker, _TAG)
        except RuntimeError as error:  # the connection is closed already
            raise self._lost(worker, str(error)) from None
        key = (awaited.rank, awaited.has_come)
        if key not in self._lines:
            self._lines[key] = _Line(self._ended)
        self._lines[key].put((work, awaited))

    def ended(self, patience_s: float) -> Iterable[Ended]:
        """See `driver.Engine`."""
        try:
            found = [self._ended.get(timeout=patience_s)]
        except queue.Empty:
            raise TreefoldError(
                f"nothing came or left for {patience_s:g} s; look at the output of the other ranks"
            ) from None
        while not self._ended.empty():
            found.append(self._ended.get())
        for ended, error in found:
            if error is not None:
                raise self._lost(self._worker[ended.rank], str(error))
        return [ended for ended, _ in found]

    def _lost(self, worker: int, reason: str) -> RankLostError:
        """Return the error about a worker that is missed; if it misses another one itself, about that one."""
        reason = reason.partition("\n")[0]
        blamed, seen = worker, {self._group.rank()}
        with suppress(Exception):  # the store may be gone too
            self._store.set(f"gone/{self._group.rank()}", str(blamed))
            while blamed not in seen:
                seen.add(blamed)
                self._store.wait([f"gone/{blamed}"], _CONFESSION)
                blamed = int(self._store.get(f"gone/{blamed}"))
        message = (
            f"rank {blamed} is gone or does not answer ({reason}); form a new group of the others, or start it again"
        )
        return RankLostError(message, [blamed])

    def close(self) -> None:
        """End the group, which fails what is still awaited, and the threads."""
        self._group.abort()
        for line in self._lines.values():
            line.close()


class _Line:
    """A thread that waits for messages which end one after the other."""

    def __init__(self, ended: "queue.SimpleQueue[tuple[Ended, Exception | None]]") -> None:
        self._awaited: queue.SimpleQueue[tuple[Any, Ended] | None] = queue.SimpleQueue()
        self._ended = ended
        self._thread = threading.Thread(target=self._wait, name="treefold-messages", daemon=True)
        self._thread.start()
        self.put = self._awaited.put

    def _wait(self) -> None:
        while (next_one := self._awaited.get()) is not None:
            work, awaited = next_one
            try:
                work.wait()
            except Exception as error:  # whatever the backend raises: the driver's thread has to know
                self._ended.put((awaited, error))
            else:
                self._ended.put((awaited, None))

    def close(self) -> None:
        self._awaited.put(None)
        self._thread.join()
