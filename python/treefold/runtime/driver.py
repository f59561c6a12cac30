"""Runs an operation over an engine that has its own messages: MPI, or PyTorch's point-to-point.

The operation (in Rust) says what to send next and joins what comes. Two sends are under way to each peer: more let one
tree run ahead of the others, one leaves gaps. A message begins with the number of its transfer, so a receiver need not
know what comes next: he posts equal buffers ahead, as many as will come, once the peer has said that it runs the same
operation.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from treefold._core import Operation, Program
from treefold.errors import TreefoldError

Bytes = NDArray[np.uint8]

_SENDS_UNDER_WAY = 2
_GREETING_BYTES = 96


class Ended(NamedTuple):
    """A message that has left or come."""

    rank: int
    """To or from whom."""
    message: Bytes
    """What was given to `send` or `receive`."""
    has_come: bool


class Engine(Protocol):
    """What the driver needs of an engine. Ranks are the plan's."""

    ahead: int
    """Receives that are posted ahead from each peer."""
    message_s: float
    """What sending or receiving a message costs, besides its bytes (bench/README.md)."""

    def send(self, rank: int, message: Bytes) -> None:
        """Begin to send; `message` stays as it is until the end."""

    def receive(self, rank: int, message: Bytes) -> None:
        """Expect a message of at most this length; messages between two ranks come in order."""

    def ended(self, patience_s: float) -> Iterable[Ended]:
        """Return what has ended, waiting for something to.

        Raises:
            TreefoldError: If nothing does, a peer is gone, or a rank has given up.

        """

    def give_up(self, error: BaseException) -> None:
        """Tell all ranks, not only peers, why this one ends here; raises nothing, and lasts a few seconds at most."""

    def close(self) -> None:
        """Let go of what the engine holds; all ranks do."""


def silence(workers: Iterable[int], patience_s: float) -> TreefoldError:
    """Return the error of an engine for which nothing has ended; `workers` are awaited."""
    awaited = ", ".join(map(str, sorted(workers)))
    return TreefoldError(
        f"nothing came from or left for rank {awaited} within {patience_s:g} s: it hangs, is gone, or does something "
        "else; look at its output"
    )


class Driver:
    """Runs operations over an engine, one after the other, and reuses the memory of their messages."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._spare: list[Bytes] = []
        self._failure: str | None = None

    def run(
        self,
        program: Program,
        vector: Bytes,
        number: str,
        operator: str,
        patience_s: float,
        result: Bytes | None = None,
    ) -> None:
        """Run one operation on `vector` in place.

        Args:
            program: This rank's part.
            vector: Its bytes.
            number: Name of the number type.
            operator: Name of the operator.
            patience_s: How long nothing may end.
            result: Where to copy the result, for collectives that do not leave it in the vector.

        Raises:
            TreefoldError: If ranks disagree on the operation, an earlier one failed, or as the engine does.

        """
        if self._failure is not None:
            raise TreefoldError(f"an earlier operation of this group failed ({self._failure}); form a new group")
        if self._spare and self._spare[0].size != program.message_bytes:
            self._spare = []
        # What is wrong with the arguments is told before anything is under way: then the group can go on.
        run = _Run(self.engine, Operation(program, vector, number, operator), program, self._spare)
        try:
            run.whole(program.signature(number, operator), patience_s)
        except BaseException as error:  # an interrupt too: messages are under way, which the next operation would take
            self._failure = str(error) or type(error).__name__
            self.engine.give_up(error)
            raise
        if result is not None:
            run.operation.result(result)

    def close(self) -> None:
        """Let go of the engine."""
        self.engine.close()


class _Peer:
    """What is under way between this rank and another one."""

    def __init__(self, rank: int, index: int, to_come: int) -> None:
        self.rank, self.index = rank, index
        self.sends = 0
        self.to_come = to_come
        """Messages for which no buffer is posted yet."""
        self.greeting = np.empty(_GREETING_BYTES, np.uint8)


class _Run:
    """An operation at work."""

    def __init__(self, engine: Engine, operation: Operation, program: Program, spare: list[Bytes]) -> None:
        self.engine, self.operation, self.rank = engine, operation, program.rank
        self.spare, self.message_bytes = spare, program.message_bytes
        to_come = zip(program.peers, program.receives, strict=True)
        self.peers = {rank: _Peer(rank, index, count) for index, (rank, count) in enumerate(to_come)}
        self.greeting = np.empty(0, np.uint8)
        self.greetings = 2 * len(self.peers)

    def whole(self, signature: str, patience_s: float) -> None:
        """Run to the end."""
        self.greet(signature)
        self.advance()
        while not self.done():
            for ended in self.engine.ended(patience_s):
                self.end(ended)
            self.advance()

    def greet(self, signature: str) -> None:
        """Tell every peer what this rank is about to do, and expect the same of it."""
        self.greeting = np.frombuffer(bytearray(signature.encode().ljust(_GREETING_BYTES)), np.uint8)
        for peer in self.peers.values():
            self.engine.receive(peer.rank, peer.greeting)
            self.engine.send(peer.rank, self.greeting)

    def advance(self) -> None:
        """Send what may be sent."""
        for peer in self.peers.values():
            while peer.sends < _SENDS_UNDER_WAY and self.operation.may_send(peer.index):
                message = self.buffer()
                length = self.operation.next_send(peer.index, message)
                peer.sends += 1
                self.engine.send(peer.rank, message[:length])

    def end(self, ended: Ended) -> None:
        """Go on with what has left or come."""
        peer = self.peers[ended.rank]
        if ended.message is self.greeting:
            self.greetings -= 1
        elif ended.message is peer.greeting:
            self.greetings -= 1
            self.heed(peer)
            self.expect(peer, self.engine.ahead)
        elif ended.has_come:
            self.operation.received(peer.index, ended.message)
            self.spare.append(ended.message)
            self.expect(peer, 1)
        else:
            self.operation.sent(ended.message)
            peer.sends -= 1
            self.spare.append(cast(Bytes, ended.message.base))

    def heed(self, peer: _Peer) -> None:
        ours, theirs = (bytes(each).decode(errors="replace").strip() for each in (self.greeting, peer.greeting))
        if ours != theirs:
            raise TreefoldError(
                f"the ranks disagree: rank {peer.rank} runs {theirs}, rank {self.rank} runs {ours}; give all ranks the "
                "same size, type, operator and plan"
            )

    def expect(self, peer: _Peer, count: int) -> None:
        for _ in range(min(count, peer.to_come)):
            peer.to_come -= 1
            self.engine.receive(peer.rank, self.buffer())

    def buffer(self) -> Bytes:
        return self.spare.pop() if self.spare else np.empty(self.message_bytes, np.uint8)

    def done(self) -> bool:
        return self.greetings == 0 and self.operation.done()
