"""Runs an operation over an engine that has its own messages: MPI, or PyTorch's point-to-point.

The operation (in Rust) says what to send next and what to expect; the engine posts both and tells what has ended. Two
sends are under way to each peer: more let one tree run ahead of the others, one leaves gaps. Receives are posted ahead
into buffers that are reused, once the peer has said that it runs the same operation: nothing comes that does not fit.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from treefold._core import Operation, Program, TreefoldError

Bytes = NDArray[np.uint8]

SENDS_UNDER_WAY = 2

_SIGNATURE = -1  # in place of a task
_SIGNATURE_TAG = (1 << 31) - 1
_SIGNATURE_BYTES = 96


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
        TreefoldError: If ranks disagree on the operation, or as the engine does.

    """
    run = _Run(engine, Operation(program, vector, number, operator, engine.width), program, vector)
    run.greet(program.signature(number, operator))
    run.advance()
    while not run.done():
        for ended in engine.ended(patience_s):
            run.end(ended)
        run.advance()
    if result is not None:
        run.operation.result(result)


class _Run:
    """An operation at work, and the buffers of its messages."""

    def __init__(self, engine: Engine, operation: Operation, program: Program, vector: Bytes) -> None:
        self.engine, self.operation, self.vector = engine, operation, vector
        self.rank, self.peers = program.rank, program.peers
        self.under_way = [0] * len(self.peers)
        self.coming: dict[int, Bytes] = {}
        self.spare: dict[int, list[Bytes]] = defaultdict(list)
        self.greetings = 2 * len(self.peers)
        self.ours = np.empty(0, np.uint8)
        self.theirs: list[Bytes] = []

    def greet(self, signature: str) -> None:
        """Tell every peer what this rank is about to do, and expect the same of it."""
        self.ours = np.frombuffer(bytearray(signature.encode().ljust(_SIGNATURE_BYTES)), np.uint8)
        self.theirs = [np.empty(_SIGNATURE_BYTES, np.uint8) for _ in self.peers]
        for peer, (rank, theirs) in enumerate(zip(self.peers, self.theirs, strict=True)):
            self.engine.receive(rank, _SIGNATURE_TAG, theirs, Ended(peer, _SIGNATURE, False))
            self.engine.send(rank, _SIGNATURE_TAG, self.ours, Ended(peer, _SIGNATURE, True))

    def heed(self, peer: int) -> None:
        ours, theirs = (bytes(each).decode(errors="replace").strip() for each in (self.ours, self.theirs[peer]))
        if ours != theirs:
            raise TreefoldError(
                f"the ranks disagree: rank {self.peers[peer]} runs {theirs}, rank {self.rank} runs {ours}; give all "
                "ranks the same size, type, operator and plan"
            )
        self.expect(peer)

    def done(self) -> bool:
        return self.greetings == 0 and self.operation.done()

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
        if task == _SIGNATURE:
            self.greetings -= 1
            if not sent:
                self.heed(peer)
            return
        if sent:
            self.under_way[peer] -= 1
            self.operation.sent(peer, task)
            return
        message = self.coming.pop(task)
        self.operation.received(peer, task, message)
        self.spare[message.size].append(message)
        self.expect(peer)
