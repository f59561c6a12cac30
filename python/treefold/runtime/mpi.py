"""MPI as an engine: messages by `mpi4py`, polled with short sleeps, because ranks often outnumber cores."""

import time
from collections.abc import Iterable
from typing import Any

from treefold._core import TreefoldError
from treefold.runtime.driver import Bytes, Ended

_SLEEP_S = 2e-4


class MpiEngine:
    """Messages between the processes of a communicator; `worker_of_rank` tells which of them is which rank."""

    ahead = 8
    message_s = 10e-6

    def __init__(self, communicator: Any, worker_of_rank: list[int]) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._comm = communicator.Dup()
        self._worker = worker_of_rank
        self._requests: list[Any] = []
        self._awaited: list[Ended] = []

    def send(self, rank: int, message: Bytes) -> None:
        """See `driver.Engine`."""
        self._add(self._comm.Isend([message, self._mpi.BYTE], self._worker[rank]), Ended(rank, message, False))

    def receive(self, rank: int, message: Bytes) -> None:
        """See `driver.Engine`."""
        self._add(self._comm.Irecv([message, self._mpi.BYTE], self._worker[rank]), Ended(rank, message, True))

    def _add(self, request: Any, awaited: Ended) -> None:
        self._requests.append(request)
        self._awaited.append(awaited)

    def ended(self, patience_s: float) -> Iterable[Ended]:
        """See `driver.Engine`."""
        deadline = time.monotonic() + patience_s
        while not (done := self._mpi.Request.Testsome(self._requests)):
            if time.monotonic() > deadline:
                waited = ", ".join(map(str, sorted({self._worker[each.rank] for each in self._awaited})))
                raise TreefoldError(
                    f"nothing came from or left for rank {waited} within {patience_s:g} s: it hangs, is gone, or does "
                    "something else; look at its output"
                )
            time.sleep(_SLEEP_S)
        ended = [self._awaited[index] for index in done]
        for index in sorted(done, reverse=True):
            del self._requests[index], self._awaited[index]
        return ended

    def close(self) -> None:
        """Give the communicator back; all ranks do. What an error left under way is cancelled."""
        for request in self._requests:
            request.Cancel()
            request.Free()
        self._comm.Free()
