"""torch.distributed's point-to-point messages as an engine that carries plans: over gloo, or another CPU backend.

gloo tells of a message's end only to a thread that waits for it, so every message under way has a thread that waits,
without the GIL.
"""

import queue
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from treefold._core import TreefoldError
from treefold.runtime.driver import SENDS_UNDER_WAY, Bytes, Ended


class TorchEngine:
    """Messages between the ranks of `group`: a torch process group or backend that nobody else sends on.

    `worker_of_rank` tells which rank of the group is which rank of the plan.
    """

    width = 16

    def __init__(self, group: Any, worker_of_rank: list[int]) -> None:
        self._group, self._worker = group, worker_of_rank
        most = (self.width + SENDS_UNDER_WAY) * max(1, len(worker_of_rank) - 1)
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="treefold-messages")
        self._ended: queue.SimpleQueue[tuple[Ended, int, Exception | None]] = queue.SimpleQueue()

    def send(self, rank: int, tag: int, message: Bytes, key: Ended) -> None:
        """See `driver.Engine`."""
        self._await(self._group.send([torch.from_numpy(message)], self._worker[rank], tag), rank, key)

    def receive(self, rank: int, tag: int, message: Bytes, key: Ended) -> None:
        """See `driver.Engine`."""
        self._await(self._group.recv([torch.from_numpy(message)], self._worker[rank], tag), rank, key)

    def _await(self, work: Any, rank: int, key: Ended) -> None:
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
                reason = str(error).partition("\n")[0]
                raise TreefoldError(f"rank {self._worker[rank]} is gone or does not answer ({reason})") from None
        return [key for key, _, _ in found]

    def close(self) -> None:
        """End the threads; those that wait for lost messages end with the group."""
        self._threads.shutdown(wait=False)
        for end in ("abort", "shutdown"):
            getattr(self._group, end, lambda: None)()
