"""MPI as an engine: messages by `mpi4py`, polled with short sleeps, because ranks often outnumber cores."""

import time
from collections.abc import Iterable
from typing import Any

from treefold._core import TreefoldError
from treefold.runtime.driver import Bytes, Ended

_SLEEP_S = 2e-4


class MpiEngine:
    """Messages between the processes of a communicator; `worker_of_rank` tells which of them is which rank."""

    width = 8
    message_s = 10e-6

    def __init__(self, communicator: Any, worker_of_rank: list[int]) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._comm = communicator.Dup()
        self._worker = worker_of_rank
        self._tags = int(self._comm.Get_attr(MPI.TAG_UB)) + 1
        self._requests: list[Any] = []
        self._keys: list[Ended] = []
        self._with: list[int] = []

    def send(self, rank: int, tag: int, message: Bytes, key: Ended) -> None:
        """See `driver.Engine`."""
        worker = self._worker[rank]
        self._add(self._comm.Isend([message, self._mpi.BYTE], worker, tag % self._tags), worker, key)

    def receive(self, rank: int, tag: int, message: Bytes, key: Ended) -> None:
        """See `driver.Engine`."""
        worker = self._worker[rank]
        self._add(self._comm.Irecv([message, self._mpi.BYTE], worker, tag % self._tags), worker, key)

    def _add(self, request: Any, worker: int, key: Ended) -> None:
        self._requests.append(request)
        self._keys.append(key)
        self._with.append(worker)

    def ended(self, patience_s: float) -> Iterable[Ended]:
        """See `driver.Engine`."""
        deadline = time.monotonic() + patience_s
        while not (done := self._mpi.Request.Testsome(self._requests)):
            if time.monotonic() > deadline:
                waited = ", ".join(map(str, sorted(set(self._with))))
                raise TreefoldError(
                    f"nothing came from or left for rank {waited} within {patience_s:g} s: it hangs, is gone, or does "
                    "something else; look at its output"
                )
            time.sleep(_SLEEP_S)
        keys = [self._keys[index] for index in done]
        gone = set(done)
        self._requests = [each for index, each in enumerate(self._requests) if index not in gone]
        self._keys = [each for index, each in enumerate(self._keys) if index not in gone]
        self._with = [each for index, each in enumerate(self._with) if index not in gone]
        return keys

    def close(self) -> None:
        """Give the communicator back; all ranks do. What an error left under way is cancelled."""
        for request in self._requests:
            request.Cancel()
            request.Free()
        self._comm.Free()
