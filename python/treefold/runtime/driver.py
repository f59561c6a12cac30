"""Runs an operation over an engine that has its own messages: MPI, or PyTorch's point-to-point.

The operation (in Rust) says what to send next and what to expect; the engine posts both and tells what has ended. Two
sends are under way to each peer: more let one tree run ahead of the others, one leaves gaps. Receives are posted ahead
into buffers that are reused.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from treefold._core import Operation, Program

Bytes = NDArray[np.uint8]

SENDS_UNDER_WAY = 2


class Ended(NamedTuple):
    """A message that has left or come."""

    peer: int
    """Index among the program's peers."""
    task: int
    sent: bool


class Engine(Protocol):
    """What the driver needs of an engine. Ranks are the plan's."""

    width: int
    """Receives that are posted ahead from each peer."""
    message_s: float
    """What sending or receiving a message costs, besides its bytes (bench/README.md)."""

    def send(self, rank: int, tag: int, message: Bytes, key: Ended) -> None:
        """Begin to send; `message` stays as it is until the end."""

    def receive(self, rank: int, tag: int, message: Bytes, key: Ended) -> None:
        """Expect a message of just this length."""

    def ended(self, patience_s: float) -> Iterable[Ended]:
        """Return what has ended, waiting for something to; raise TreefoldError if nothing does, or a peer is gone."""

    def close(self) -> None:
        """Let go of what the engine holds; all ranks do."""


def drive(
    engine: Engine,
    program: Program,
    vector: Bytes,
    number: str,
    operator: str,
    patience_s: float,
    result: Bytes | None = None,
) -> None:
    """Run one operation on `vector` in place.

    Args:
        engine: Carries the messages.
        program: This rank's part.
        vector: Its bytes.
        number: Name of the number type.
        operator: Name of the operator.
        patience_s: How long nothing may end.
        result: Where to copy the result, for collectives that do not leave it in the vector.

    Raises:
        TreefoldError: As the engine does.

    """
    run = _Run(engine, Operation(program, vector, number, operator, engine.width), program.peers, vector)
    run.advance()
    while not run.operation.done():
        for ended in engine.ended(patience_s):
            run.end(ended)
        run.advance()
    if result is not None:
        run.operation.result(result)


class _Run:
    """An operation at work, and the buffers of its messages."""

    def __init__(self, engine: Engine, operation: Operation, peers: list[int], vector: Bytes) -> None:
        self.engine, self.operation, self.peers, self.vector = engine, operation, peers, vector
        self.under_way = [0] * len(peers)
        self.coming: dict[int, Bytes] = {}
        self.spare: dict[int, list[Bytes]] = defaultdict(list)
        for peer in range(len(peers)):
            self.expect(peer)

    def expect(self, peer: int) -> None:
        while (found := self.operation.next_receive(peer)) is not None:
            task, tag, length = found
            spare = self.spare[length]
            message = spare.pop() if spare else np.empty(length, np.uint8)
            self.coming[task] = message
            self.engine.receive(self.peers[peer], tag, message, Ended(peer, task, False))

    def advance(self) -> None:
        for peer in range(len(self.peers)):
            while self.under_way[peer] < SENDS_UNDER_WAY and (found := self.operation.next_send(peer)) is not None:
                task, tag, start, end = found
                self.under_way[peer] += 1
                self.engine.send(self.peers[peer], tag, self.message(task, start, end), Ended(peer, task, True))

    def message(self, task: int, start: int, end: int) -> Bytes:
        if start >= 0:
            return self.vector[start:end]
        message = np.empty(end, np.uint8)
        self.operation.payload(task, message)
        return message

    def end(self, ended: Ended) -> None:
        peer, task, sent = ended
        if sent:
            self.under_way[peer] -= 1
            self.operation.sent(peer, task)
            return
        message = self.coming.pop(task)
        self.operation.received(peer, task, message)
        self.spare[message.size].append(message)
        self.expect(peer)
