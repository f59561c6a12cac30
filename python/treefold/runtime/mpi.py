"""MPI as an engine: messages by `mpi4py`, polled with short sleeps, because ranks often outnumber cores."""

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from treefold.errors import TreefoldError
from treefold.runtime.driver import Bytes, Ended, silence

_SLEEP_S = 2e-4
_MESSAGES, _WORDS = 0, 1  # tags
_WORDS_BYTES = 1 << 10  # short enough for MPI to send without a receive that waits for it
_LINGER_S = 1.0
"""How long a rank that gives up waits for its words to leave."""
_left_behind: list[Any] = []
"""What MPI may still read and write after an error: the memory of messages that could not be taken back."""


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
        self._is_over = False

    def send(self, rank: int, message: Bytes) -> None:
        """See `driver.Engine`."""
        request = self._comm.Isend([message, self._mpi.BYTE], self._worker[rank], _MESSAGES)
        self._add(request, Ended(rank, message, False))

    def receive(self, rank: int, message: Bytes) -> None:
        """See `driver.Engine`."""
        request = self._comm.Irecv([message, self._mpi.BYTE], self._worker[rank], _MESSAGES)
        self._add(request, Ended(rank, message, True))

    def _add(self, request: Any, awaited: Ended) -> None:
        self._requests.append(request)
        self._awaited.append(awaited)

    def ended(self, patience_s: float) -> Iterable[Ended]:
        """See `driver.Engine`."""
        deadline = time.monotonic() + patience_s
        while not (done := self._mpi.Request.Testsome(self._requests)):
            self._heed()
            if time.monotonic() > deadline:
                raise silence({self._worker[each.rank] for each in self._awaited}, patience_s)
            time.sleep(_SLEEP_S)
        ended = [self._awaited[index] for index in done]
        for index in sorted(done, reverse=True):
            del self._requests[index], self._awaited[index]
        return ended

    def _heed(self) -> None:
        """Raise what another rank has given up for."""
        status = self._mpi.Status()
        if self._comm.Iprobe(self._mpi.ANY_SOURCE, _WORDS, status):
            words, by = bytearray(status.Get_count(self._mpi.BYTE)), status.Get_source()
            self._comm.Recv([words, self._mpi.BYTE], by, _WORDS)
            self._is_over = True
            raise TreefoldError(f"rank {by} gave up: {words.decode(errors='replace')}")

    def give_up(self, error: BaseException) -> None:
        """See `driver.Engine`."""
        if self._is_over:  # all have been told already
            return
        self._is_over = True
        with suppress(self._mpi.Exception):
            self._tell((str(error) or type(error).__name__).encode()[:_WORDS_BYTES])

    def _tell(self, words: bytes) -> None:
        """Send words to all other ranks, and wait a while for them to leave."""
        others = set(range(self._comm.Get_size())) - {self._comm.Get_rank()}
        sends = [self._comm.Isend([words, self._mpi.BYTE], other, _WORDS) for other in sorted(others)]
        _left_behind.append((words, sends))
        deadline = time.monotonic() + _LINGER_S
        while not self._mpi.Request.Testall(sends) and time.monotonic() < deadline:
            time.sleep(_SLEEP_S)

    def close(self) -> None:
        """Give the communicator back; all ranks do.

        After an error what is under way is cancelled, and the communicator is kept: the next one would get its number,
        and with it messages that are still to come.
        """
        if not self._is_over and not self._requests:
            self._comm.Free()
            return
        for request in self._requests:
            request.Cancel()
            request.Free()
        _left_behind.append(self._awaited)
        self._requests, self._awaited = [], []
