"""The transport over an engine that has its own messages: MPI, or PyTorch's point-to-point messages.

The core's operation says what to send next and combines what arrives. Two sends at a time are under way to each peer:
more would let one tree run ahead of the others, and one would leave gaps. Each message begins with the number of its
transfer, so a receiver need not know which transfer comes next. It posts equal buffers ahead, as many as messages will
come, once the peer has said that it runs the same operation.
"""

from typing import cast

import numpy as np

from treefold import _core
from treefold._core import Plan, Program, Topology
from treefold.errors import TreefoldError
from treefold.runtime.engine import Completion, Engine
from treefold.runtime.networks import Pair
from treefold.runtime.transport import Bytes, Operation

_SENDS_UNDER_WAY = 2
_GREETING_BYTES = 96


class EngineTransport:
    """Runs operations over an engine, one after the other, and reuses the memory of their messages."""

    def __init__(self, engine: Engine, silence_s: float) -> None:
        self.engine = engine
        self.silence_s = silence_s
        """How long to wait for a message."""
        self._spare: list[Bytes] = []
        self._failure: str | None = None
        self._is_closed = False

    @property
    def message_s(self) -> float:
        """The cost of a message besides its bytes, as in `Transport`."""
        return self.engine.message_s

    @property
    def apart(self) -> set[Pair]:
        """The pairs of ranks that cannot connect, of which there are none."""
        return set()

    def connect(self, plan: Plan) -> dict[Pair, str]:
        """Return that no pair failed: the engine reaches all ranks."""
        return {}

    def reaches(self, plan: Plan) -> bool:
        """Return True, as in `Transport`: the engine reaches all ranks."""
        return True

    def pace(self, plan: Plan, tested: Topology) -> None:
        """Do nothing: an engine sends as fast as it can."""

    def start(self, program: Program, operation: Operation) -> int:
        """Run a program to its end, and return 0.

        Raises:
            TreefoldError: If the ranks disagree on the operation, an earlier one has failed, or the engine fails.

        """
        if self._failure is not None:
            raise TreefoldError(f"an earlier operation of this group failed ({self._failure}); form a new group")
        if self._spare and self._spare[0].size != program.message_bytes:
            self._spare = []
        vector, number, operator, result, _, residual = operation
        # Wrong arguments are refused before any message is under way, so that the group can go on.
        begun = _core.Operation(program, vector, number, operator, residual)
        run = _Run(self.engine, begun, program, self._spare)
        try:
            run.run(program.signature(number, operator), self.silence_s)
        except BaseException as error:  # an interrupt too, because the next operation would take messages of this one
            self._failure = str(error) or type(error).__name__
            self.engine.give_up(error)
            raise
        if result is not None:
            run.operation.result(result)
        return 0

    def end(self, number: int) -> None:
        """Do nothing: the operation has ended in `start`."""

    def close(self) -> None:
        """Close the engine; it may be called again."""
        if not self._is_closed:
            self._is_closed = True
            self.engine.close()


class _Peer:
    """The messages under way between this rank and another one."""

    def __init__(self, rank: int, index: int, receives: int) -> None:
        self.rank, self.index = rank, index
        self.sends = 0
        self.unposted = receives
        """How many messages will come for which no buffer is posted yet."""
        self.greeting = np.empty(_GREETING_BYTES, np.uint8)


class _Run:
    """One run of an operation."""

    def __init__(self, engine: Engine, operation: _core.Operation, program: Program, spare: list[Bytes]) -> None:
        self.engine, self.operation, self.rank = engine, operation, program.rank
        self.spare, self.message_bytes = spare, program.message_bytes
        receives = zip(program.peers, program.receives, strict=True)
        self.peers = {rank: _Peer(rank, index, count) for index, (rank, count) in enumerate(receives)}
        self.greeting = np.empty(0, np.uint8)
        self.greetings_left = 2 * len(self.peers)

    def run(self, signature: str, timeout_s: float) -> None:
        """Run to the end."""
        self.greet(signature)
        self.advance()
        while not self.is_done():
            for completion in self.engine.completions(timeout_s):
                self.complete(completion)
            self.advance()

    def greet(self, signature: str) -> None:
        """Tell every peer what this rank is about to do, and expect the same of the peer."""
        self.greeting = np.frombuffer(bytearray(signature.encode().ljust(_GREETING_BYTES)), np.uint8)
        for peer in self.peers.values():
            self.engine.receive(peer.rank, peer.greeting)
            self.engine.send(peer.rank, self.greeting)

    def advance(self) -> None:
        """Begin to send what may be sent."""
        for peer in self.peers.values():
            while peer.sends < _SENDS_UNDER_WAY and self.operation.may_send(peer.index):
                message = self.buffer()
                length = self.operation.next_send(peer.index, message)
                peer.sends += 1
                self.engine.send(peer.rank, message[:length])

    def complete(self, completion: Completion) -> None:
        """Handle a message that has been sent or received."""
        peer = self.peers[completion.rank]
        if completion.message is self.greeting:
            self.greetings_left -= 1
        elif completion.message is peer.greeting:
            self.greetings_left -= 1
            self.check_greeting(peer)
            self.post(peer, self.engine.ahead)
        elif completion.is_received:
            self.operation.received(peer.index, completion.message)
            self.spare.append(completion.message)
            self.post(peer, 1)
        else:
            self.operation.sent(completion.message)
            peer.sends -= 1
            self.spare.append(cast(Bytes, completion.message.base))

    def check_greeting(self, peer: _Peer) -> None:
        """Refuse a peer that runs another operation."""
        ours, theirs = (bytes(each).decode(errors="replace").strip() for each in (self.greeting, peer.greeting))
        if ours != theirs:
            raise TreefoldError(
                f"the ranks disagree: rank {peer.rank} runs {theirs}, rank {self.rank} runs {ours}; give all ranks the "
                "same size, type, operator, wire type and plan"
            )

    def post(self, peer: _Peer, count: int) -> None:
        """Post buffers for messages that will come from a peer."""
        for _ in range(min(count, peer.unposted)):
            peer.unposted -= 1
            self.engine.receive(peer.rank, self.buffer())

    def buffer(self) -> Bytes:
        """Return memory for a message."""
        return self.spare.pop() if self.spare else np.empty(self.message_bytes, np.uint8)

    def is_done(self) -> bool:
        """Return whether everything has been sent and received."""
        return self.greetings_left == 0 and self.operation.done()
