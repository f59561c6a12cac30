"""torch.distributed's point-to-point messages as an engine that carries plans: over gloo, or another CPU backend.

gloo reports the end of a message only to a thread that waits for it. Messages to one rank are sent in order, as those
from it arrive in order, so one thread waits for each of these queues, without the GIL.
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
from treefold.runtime.engine import Completion, silence
from treefold.runtime.faults import RankLostError
from treefold.runtime.transport import Bytes
from treefold.torch.aborts import AbortMessages
from treefold.torch.versions import quiet_gloo

_BLAME_TIMEOUT = timedelta(seconds=3)
"""How long a missed rank has to record that it misses another one itself."""
_END_S = 1.0
"""How long threads have to end."""
_TAG = 0
_Event = tuple[Completion | None, Exception | None]
"""A message that was sent or received, or that failed with an error; without a message, the error of another rank that
has given up."""


class TorchEngine:
    """Messages between the ranks of `group`: a torch process group or backend on which nothing else is sent.

    `worker_of_rank` lists which rank of the group is which rank of the plan. In `store` the ranks record whom they
    miss, and tell each other why they give up.
    """

    ahead = 32
    message_s = 125e-6

    def __init__(self, group: Any, worker_of_rank: list[int], store: Any) -> None:
        # A thread that waits for a store blocks all others that use it, so this engine has a connection of its own.
        self._group, self._worker, self._store = group, worker_of_rank, store.clone()
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._waiters: dict[tuple[int, bool], _Waiter] = {}
        self._under_way: Counter[int] = Counter()
        """How many messages from or for each rank of the plan are under way."""
        events = self._events  # a reference to this engine would keep the store alive in a cycle
        self._aborts = AbortMessages(self._store, group.rank(), group.size(), lambda error: events.put((None, error)))

    def send(self, rank: int, message: Bytes) -> None:
        """Begin to send, as in `Engine`."""
        self._begin(self._group.send, Completion(rank, message, False))

    def receive(self, rank: int, message: Bytes) -> None:
        """Begin to receive, as in `Engine`."""
        self._begin(self._group.recv, Completion(rank, message, True))

    def _begin(self, post: Callable[..., Any], awaited: Completion) -> None:
        worker = self._worker[awaited.rank]
        try:
            work = post([torch.from_numpy(awaited.message)], worker, _TAG)
        except RuntimeError as error:  # the connection is closed already
            raise self._lost(worker, str(error)) from None
        key = (awaited.rank, awaited.is_received)
        if key not in self._waiters:
            self._waiters[key] = _Waiter(self._events)
        self._under_way[awaited.rank] += 1
        self._waiters[key].put((work, awaited))

    def completions(self, timeout_s: float) -> Iterable[Completion]:
        """Return what has been sent or received, as in `Engine`."""
        try:
            events = [self._events.get(timeout=timeout_s)]
        except queue.Empty:
            awaited = [self._worker[rank] for rank, count in self._under_way.items() if count]
            raise silence(awaited, timeout_s) from None
        while not self._events.empty():
            events.append(self._events.get())
        return [self._completed(*event) for event in events]

    def _completed(self, completion: Completion | None, error: Exception | None) -> Completion:
        """Return the message of an event; raise the event's error if it has one."""
        if completion is None:
            assert error is not None
            raise error
        if error is not None:
            raise self._lost(self._worker[completion.rank], str(error))
        self._under_way[completion.rank] -= 1
        return completion

    def give_up(self, error: BaseException) -> None:
        """Tell all ranks the error, as in `Engine`."""
        self._aborts.broadcast(error)

    def _lost(self, worker: int, reason: str) -> TreefoldError:
        """Return the error that a worker is missed; if it misses another one itself, the error names that one."""
        if (received := self._aborts.received()) is not None:  # a rank says why before it leaves
            return received
        reason = reason.partition("\n")[0]
        blamed, known = worker, {self._group.rank()}
        with suppress(Exception):  # the store may be gone too
            self._store.set(f"gone/{self._group.rank()}", str(blamed))
            while blamed not in known:
                known.add(blamed)
                self._store.wait([f"gone/{blamed}"], _BLAME_TIMEOUT)
                blamed = int(self._store.get(f"gone/{blamed}"))
        message = (
            f"worker {blamed} is gone or does not answer ({reason}); form a new group of the others, or start it again"
        )
        return RankLostError(message, [blamed])

    def close(self) -> None:
        """End the group and the threads.

        gloo cannot cancel a message that is under way after an error: the thread that waits for it ends when gloo's
        timeout is over.
        """
        self._aborts.close()
        self._group.abort()
        for waiter in self._waiters.values():
            waiter.end()
        deadline = time.monotonic() + _END_S
        for waiter in self._waiters.values():
            waiter.join(max(0.0, deadline - time.monotonic()))


class _Waiter:
    """A thread that waits for messages which end one after the other."""

    def __init__(self, events: "queue.SimpleQueue[_Event]") -> None:
        self._awaited: queue.SimpleQueue[tuple[Any, Completion] | None] = queue.SimpleQueue()
        self._events = events
        self._thread = threading.Thread(target=self._wait, name="treefold-messages", daemon=True)
        self._is_over = False
        self._thread.start()
        self.put, self.join = self._awaited.put, self._thread.join

    def _wait(self) -> None:
        while (next_one := self._awaited.get()) is not None and not self._is_over:
            work, awaited = next_one
            try:
                work.wait()
            except Exception as error:  # the driver's thread has to get every error that the backend raises
                self._events.put((awaited, error))
            else:
                self._events.put((awaited, None))

    def end(self) -> None:
        self._is_over = True
        self._awaited.put(None)


def gloo_on(device: Any, store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    """Return a new gloo group, which listens on the address of one of gloo's devices."""
    options = dist.ProcessGroupGloo._Options()
    options._devices = [device]
    options._timeout = timeout
    with quiet_gloo():
        return dist.ProcessGroupGloo(store, rank, size, options)
