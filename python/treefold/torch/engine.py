"""torch.distributed's point-to-point messages as an engine that carries plans: over gloo, or another CPU backend.

gloo tells of a message's end only to a thread that waits for it, so every message under way has a thread that waits,
without the GIL.
"""

import queue
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch

from treefold._core import TreefoldError
from treefold.runtime.driver import SENDS_UNDER_WAY, Bytes, Ended
from treefold.workers.group import RankLostError

_CONFESSION = timedelta(seconds=3)
"""How long a missed rank has to note that it misses another one."""


class TorchEngine:
    """Messages between the ranks of `group`: a torch process group or backend that nobody else sends on.

    `worker_of_rank` tells which rank of the group is which rank of the plan. In `store` ranks note whom they miss.
    """

    width = 16
    message_s = 75e-6

    def __init__(self, group: Any, worker_of_rank: list[int], store: Any) -> None:
        self._group, self._worker, self._store = group, worker_of_rank, store
        most = (self.width + SENDS_UNDER_WAY) * max(1, len(worker_of_rank) - 1)
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="treefold-messages")
        self._ended: queue.SimpleQueue[tuple[Ended, int, Exception | None]] = queue.SimpleQueue()

    def send(self, rank: int, tag: int, message: Bytes, key: Ended) -> None:
        """See `driver.Engine`."""
        self._begin(self._group.send, rank, tag, message, key)

    def receive(self, rank: int, tag: int, message: Bytes, key: Ended) -> None:
        """See `driver.Engine`."""
        self._begin(self._group.recv, rank, tag, message, key)

    def _begin(self, post: Callable[..., Any], rank: int, tag: int, message: Bytes, key: Ended) -> None:
        try:
            work = post([torch.from_numpy(message)], self._worker[rank], tag)
        except RuntimeError as error:  # the connection is closed already
            raise self._lost(self._worker[rank], str(error)) from None

        def wait() -> None:
            try:
                work.wait()
            except Exception as error:  # whatever the backend raises: the driver's thread has to know
                self._ended.put((key, rank, error))
            else:
                self._ended.put((key, rank, None))

        self._threads.submit(wait)

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
        for _, rank, error in found:
            if error is not None:
                raise self._lost(self._worker[rank], str(error))
        return [key for key, _, _ in found]

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
        self._threads.shutdown()
