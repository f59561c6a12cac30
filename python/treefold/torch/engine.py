"""torch.distributed's point-to-point messages as an engine that carries plans: over gloo, or another CPU backend.

gloo tells of a message's end only to a thread that waits for it. Messages to one rank leave in order, as those from it
come in order, so one thread waits for each of these lines, without the GIL.
"""

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist

from treefold.errors import TreefoldError
from treefold.runtime.driver import Bytes, Ended, silence
from treefold.torch.words import Words
from treefold.workers.group import RankLostError

_CONFESSION = timedelta(seconds=3)
"""How long a missed rank has to note that it misses another one."""
_END_S = 1.0
"""How long threads have to end."""
_TAG = 0
_News = tuple[Ended | None, Exception | None]
"""A message that has left or come, or why it has not; without one, why another rank has given up."""


class TorchEngine:
    """Messages between the ranks of `group`: a torch process group or backend that nobody else sends on.

    `worker_of_rank` tells which rank of the group is which rank of the plan. In `store` ranks note whom they miss, and
    tell each other why they give up.
    """

    ahead = 32
    message_s = 125e-6

    def __init__(self, group: Any, worker_of_rank: list[int], store: Any) -> None:
        # Whoever waits for a store keeps others from it: those who use the given one must not stop operations.
        self._group, self._worker, self._store = group, worker_of_rank, store.clone()
        self._ended: queue.SimpleQueue[_News] = queue.SimpleQueue()
        self._lines: dict[tuple[int, bool], _Line] = {}
        self._under_way: Counter[int] = Counter()
        """Messages from or for each rank of the plan."""
        ended = self._ended  # no reference to this engine, which would keep the store alive in a cycle
        self._words = Words(self._store, group.rank(), group.size(), lambda error: ended.put((None, error)))

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
        self._under_way[awaited.rank] += 1
        self._lines[key].put((work, awaited))

    def ended(self, patience_s: float) -> Iterable[Ended]:
        """See `driver.Engine`."""
        try:
            found = [self._ended.get(timeout=patience_s)]
        except queue.Empty:
            awaited = [self._worker[rank] for rank, count in self._under_way.items() if count]
            raise silence(awaited, patience_s) from None
        while not self._ended.empty():
            found.append(self._ended.get())
        return [self._good(*news) for news in found]

    def _good(self, ended: Ended | None, error: Exception | None) -> Ended:
        """Return a message that has left or come; raise what has gone wrong instead."""
        if ended is None:
            assert error is not None
            raise error
        if error is not None:
            raise self._lost(self._worker[ended.rank], str(error))
        self._under_way[ended.rank] -= 1
        return ended

    def give_up(self, error: BaseException) -> None:
        """See `driver.Engine`."""
        self._words.tell(error)

    def _lost(self, worker: int, reason: str) -> TreefoldError:
        """Return the error about a worker that is missed; if it misses another one itself, about that one."""
        if (told := self._words.heard()) is not None:  # it says why before it leaves
            return told
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
        """End the group and the threads.

        gloo lets nobody take back a message that an error has left under way: its thread ends with gloo's patience.
        """
        self._words.close()
        self._group.abort()
        for line in self._lines.values():
            line.end()
        deadline = time.monotonic() + _END_S
        for line in self._lines.values():
            line.join(max(0.0, deadline - time.monotonic()))


class _Line:
    """A thread that waits for messages which end one after the other."""

    def __init__(self, ended: "queue.SimpleQueue[_News]") -> None:
        self._awaited: queue.SimpleQueue[tuple[Any, Ended] | None] = queue.SimpleQueue()
        self._ended = ended
        self._thread = threading.Thread(target=self._wait, name="treefold-messages", daemon=True)
        self._is_over = False
        self._thread.start()
        self.put, self.join = self._awaited.put, self._thread.join

    def _wait(self) -> None:
        while (next_one := self._awaited.get()) is not None and not self._is_over:
            work, awaited = next_one
            try:
                work.wait()
            except Exception as error:  # whatever the backend raises: the driver's thread has to know
                self._ended.put((awaited, error))
            else:
                self._ended.put((awaited, None))

    def end(self) -> None:
        self._is_over = True
        self._awaited.put(None)


def gloo_on(device: Any, store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    """Return a new gloo group, which listens where one of gloo's devices does."""
    options = dist.ProcessGroupGloo._Options()
    options._devices = [device]
    options._timeout = timeout
    return dist.ProcessGroupGloo(store, rank, size, options)
