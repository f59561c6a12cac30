"""MPI as an engine: messages by `mpi4py`, polled with short sleeps, because ranks often outnumber cores."""

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from treefold.errors import TreefoldError
from treefold.runtime.engine import Completion, silence
from treefold.runtime.transport import Bytes

_POLL_S = 2e-4
_MESSAGE_TAG, _ERROR_TAG = 0, 1
_ERROR_BYTES = 1 << 10  # short enough for MPI to send before a receive is posted
_LINGER_S = 1.0
"""How long a rank that gives up waits for its error to be sent."""
_kept: list[Any] = []
"""Memory that MPI may still read and write after an error: that of messages which could not be cancelled."""


class MpiEngine:
    """Messages between the processes of a communicator; `worker_of_rank` lists which of them is which rank."""

    ahead = 8
    message_s = 10e-6

    def __init__(self, communicator: Any, worker_of_rank: list[int]) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._comm = communicator.Dup()
        self._worker = worker_of_rank
        self._requests: list[Any] = []
        self._awaited: list[Completion] = []
        self._is_over = False

    def send(self, rank: int, message: Bytes) -> None:
        """Begin to send, as in `Engine`."""
        request = self._comm.Isend([message, self._mpi.BYTE], self._worker[rank], _MESSAGE_TAG)
        self._add(request, Completion(rank, message, False))

    def receive(self, rank: int, message: Bytes) -> None:
        """Begin to receive, as in `Engine`."""
        request = self._comm.Irecv([message, self._mpi.BYTE], self._worker[rank], _MESSAGE_TAG)
        self._add(request, Completion(rank, message, True))

    def _add(self, request: Any, awaited: Completion) -> None:
        self._requests.append(request)
        self._awaited.append(awaited)

    def completions(self, timeout_s: float) -> Iterable[Completion]:
        """Return what has been sent or received, as in `Engine`."""
        deadline = time.monotonic() + timeout_s
        while not (done := self._mpi.Request.Testsome(self._requests)):
            self._poll_errors()
            if time.monotonic() > deadline:
                raise silence({self._worker[each.rank] for each in self._awaited}, timeout_s)
            time.sleep(_POLL_S)
        completed = [self._awaited[index] for index in done]
        for index in sorted(done, reverse=True):
            del self._requests[index], self._awaited[index]
        return completed

    def _poll_errors(self) -> None:
        """Raise the error of another rank that has given up."""
        status = self._mpi.Status()
        if self._comm.Iprobe(self._mpi.ANY_SOURCE, _ERROR_TAG, status):
            text, sender = bytearray(status.Get_count(self._mpi.BYTE)), status.Get_source()
            self._comm.Recv([text, self._mpi.BYTE], sender, _ERROR_TAG)
            self._is_over = True
            raise TreefoldError(f"worker {sender} gave up: {text.decode(errors='replace')}")

    def give_up(self, error: BaseException) -> None:
        """Tell all ranks the error, as in `Engine`."""
        if self._is_over:  # all have been told already
            return
        self._is_over = True
        with suppress(self._mpi.Exception):
            self._broadcast_error((str(error) or type(error).__name__).encode()[:_ERROR_BYTES])

    def _broadcast_error(self, text: bytes) -> None:
        """Send an error to all other ranks, and wait a while for it to be sent."""
        others = set(range(self._comm.Get_size())) - {self._comm.Get_rank()}
        sends = [self._comm.Isend([text, self._mpi.BYTE], other, _ERROR_TAG) for other in sorted(others)]
        _kept.append((text, sends))
        deadline = time.monotonic() + _LINGER_S
        while not self._mpi.Request.Testall(sends) and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def close(self) -> None:
        """Free the communicator, as in `Engine`.

        After an error the messages under way are cancelled, and the communicator is kept: the next one would get its
        number, and with it messages that are still to come.
        """
        if not self._is_over and not self._requests:
            self._comm.Free()
            return
        for request in self._requests:
            request.Cancel()
            request.Free()
        _kept.append(self._awaited)
        self._requests, self._awaited = [], []
