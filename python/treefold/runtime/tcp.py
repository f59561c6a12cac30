"""The transport over TCP connections of treefold's own.

Between operations a thread without Python's lock keeps the connections alive: it passes on control messages, and
notices which ranks are gone.
"""

import atexit
import json
import math
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from treefold._core import Fault, LinkUsage, Mesh, Plan, Program, Recording, Topology
from treefold.errors import TreefoldError
from treefold.rendezvous import Rendezvous
from treefold.runtime import control, pacing
from treefold.runtime.connections import Connections
from treefold.runtime.control import ControlMessage
from treefold.runtime.faults import error_of
from treefold.runtime.networks import Pair, direct_pairs, pair_of
from treefold.runtime.rank_mapping import RankMapping
from treefold.runtime.streams import asked_streams, streams_of
from treefold.runtime.transport import Operation

CONNECT_S = 15.0
"""How long ranks try to connect to each other: long enough for each end of a pair to call more than once."""

_WAKE_S = 0.02
_PACE_AGAIN_S = 5.0
"""Limits are set anew after so many seconds, as a stream may have been made anew."""
_EXIT_S = 2.0
"""How long an interpreter that ends waits for the thread of a group that nobody has closed."""

Life = tuple[int, int, int | None]
"""Two ranks, and the life of their connection from which on plans use it: how often it was cut before, or None."""


class TcpTransport:
    """One rank's connections to other ranks; ranks are the plan's."""

    def __init__(
        self,
        mesh: Mesh,
        rank: int,
        mapping: RankMapping,
        connections: Connections,
        meeting: Rendezvous,
        addresses: Sequence[str],
        message_s: float,
    ) -> None:
        """Wrap the core's connections.

        Args:
            mesh: The core's connections, which listen already.
            rank: This rank of the plan.
            mapping: Which worker is which rank.
            connections: How ranks are connected, and how long they wait for each other.
            meeting: The rendezvous at which the group formed.
            addresses: The address and port of each rank; the port is 0 if it does not listen.
            message_s: The cost of a message on the slowest of all ranks, in seconds.

        """
        self._mesh, self.rank, self.mapping, self.connections = mesh, rank, mapping, connections
        self.meeting, self.addresses, self.message_s = meeting, addresses, message_s
        self.size = len(addresses)
        self.apart: set[Pair] = set()
        """The pairs of ranks that were known not to connect when the group formed; all ranks know the same ones."""
        self._joined: set[Pair] = set()
        """The pairs of ranks that the plans so far have connected; all ranks know the same ones."""
        self._is_resting = self._is_closed = False
        self._keeper: threading.Thread | None = None
        self._recording: Recording | None = None
        self._paced: Plan | None = None
        self._pace_again_s = 0.0
        self.paces: dict[int, float] = {}
        """How fast this rank sends to others at most, in bytes per second; those that are absent have no limit."""
        self._held: dict[int, float] = {}

    def connect(self, plan: Plan, idle: Collection[Pair] = (), most_s: float = math.inf) -> dict[Pair, str]:
        """Connect to all ranks that the plan joins to this one, as in `Transport`, and over idle links, in `most_s`."""
        pairs = {*plan.pairs, *idle}
        partners = {end for pair in pairs if self.rank in pair for end in pair} - {self.rank}
        asked = asked_streams(self.connections.streams)
        needed = streams_of(plan, self.rank) if asked is None else dict.fromkeys(partners, asked)
        self._mesh.use_streams(needed)
        missed = self.connect_to(sorted(partners), min(CONNECT_S, most_s))
        self._joined |= pairs
        return {pair_of(self.rank, other): why for other, why in missed.items()}

    def reaches(self, plan: Plan) -> bool:
        """Return whether all ranks are connected to those that `plan` needs, as in `Transport`."""
        return self._joined.issuperset(plan.pairs)

    def connect_to(self, ranks: Sequence[int], timeout_s: float) -> dict[int, str]:
        """Connect to these ranks, which do the same at the same time, but not to those from which this one is cut off.

        Returns:
            The ranks that were not reached in time, and why.

        Raises:
            TreefoldError: If a rank is not of this group.

        """
        cut_off = {rank for pair in self._mesh.cut_pairs if self.rank in pair for rank in pair}
        peers = {other: self.addresses[other] for other in ranks if other not in cut_off}
        return self._mesh.connect(peers, timeout_s, self.connections.dead_after_s)

    def serve(self, poll: Callable[[], bool] = lambda: False) -> None:
        """Start the thread that serves the connections between operations.

        Args:
            poll: A function that handles control messages, and returns whether it could; the thread calls it again and
                again.

        """
        self._mesh.name_ranks([self.mapping.describe(rank) for rank in range(self.size)])
        self._is_resting = False
        self._keeper = threading.Thread(target=self._keep_alive, args=(poll,), name="treefold-idle", daemon=True)
        _SERVING.add(self)
        self._keeper.start()

    def _keep_alive(self, poll: Callable[[], bool]) -> None:
        while not self._is_resting:
            self._mesh.serve(1.0)
            if not poll():
                time.sleep(0.001)

    def pace(self, plan: Plan, tested: Topology) -> None:
        """Send no faster than a plan needs, as in `Transport`; a stream that is made anew gets its limit in a while."""
        now = time.monotonic()
        if plan is self._paced and (not self.paces or now < self._pace_again_s):
            return
        before, self._paced, self._pace_again_s = self.paces.keys(), plan, now + _PACE_AGAIN_S
        self.paces = pacing.paces(plan, self.rank, tested)
        self._held |= self.paces
        with suppress(TreefoldError):  # a rank that may not open more files sends as fast as it can
            for rank in before | self.paces.keys():
                pacing.limit(self._mesh.descriptors(rank), self.paces.get(rank))

    def held(self) -> dict[int, float]:
        """Return how fast this rank sent at most to those that were held back at any time since the last call."""
        held, self._held = self._held, dict(self.paces)
        return held

    def start(self, program: Program, operation: Operation, waits: bool = False) -> int:
        """Begin a program, as in `Transport`; if it `waits`, it sends nothing before the earlier ones are done here."""
        vector, number, operator, result, _, residual = operation
        times = (self.connections.silence_s, self.connections.operation_s)
        arrays = (vector, result, residual)
        return self._mesh.start(program, arrays, number, operator, times, self._recording, waits)

    def end(self, number: int) -> None:
        """Wait until an operation has ended, as in `Transport`."""
        if (fault := self.outcome(number)) is not None:
            raise self.error(fault)

    def outcome(self, number: int) -> Fault | None:
        """Wait until an operation has ended, once; return why it has no result, None if it has one."""
        return self._mesh.wait(number)

    def await_end(self, number: int) -> None:
        """Wait until an operation has ended; its outcome is kept."""
        self._mesh.wait_for_end(number)

    @contextmanager
    def recorded(self, recording: Recording) -> Iterator[None]:
        """Record when the messages of this rank leave and come; the last program that runs meanwhile is kept."""
        self._recording = recording
        try:
            yield
        finally:
            self._recording = None

    def error(self, fault: Fault) -> TreefoldError:
        """Return a fault as an error that names workers."""
        return error_of(fault, self.mapping, [] if self._is_closed else self.lost)

    # Control messages, and what adapting and regrouping need to know.

    def broadcast(self, kind: str, **fields: Any) -> None:
        """Send a control message to all other ranks."""
        self._mesh.broadcast(json.dumps({"kind": kind, **fields}).encode())

    def receive(self) -> list[ControlMessage]:
        """Return the control messages that have come since the last call.

        Raises:
            TreefoldError: If a message is not one that a rank sends; the error names the sender.

        """
        return [
            ControlMessage(each.sender, control.read(self.mapping.describe(each.sender), each.message, self.size))
            for each in self._mesh.receive()
        ]

    def idle(self, most_s: float) -> None:
        """Serve the connections until something has come, or for `most_s` seconds."""
        self._mesh.idle(most_s)

    def serve_once(self) -> None:
        """Serve each connection once, so that those that carry no data time a round trip if it is due."""
        self._mesh.serve_once()

    def link_usage(self, moments: int = 0) -> list[LinkUsage]:
        """Return for each peer since the last call the bytes that left while others waited, and the seconds for that.

        With `moments`, it returns the same by so many moments, too.
        """
        return self._mesh.link_usage(moments)

    @property
    def sent_bytes(self) -> int:
        """The bytes that have left for all peers so far."""
        return self._mesh.sent_bytes

    @property
    def failure(self) -> Fault | None:
        """The fault that has ended operations; None while they can run."""
        return self._mesh.failure

    @property
    def lost(self) -> list[int]:
        """The ranks that are known to be gone."""
        return self._mesh.lost

    @property
    def pairs_to_avoid(self) -> list[Pair]:
        """The pairs of ranks whose connection is cut, as any rank has noticed, and which plans still use."""
        return self._mesh.pairs_to_avoid

    @property
    def sequence(self) -> int:
        """The number of the last run."""
        return self._mesh.sequence

    @property
    def lives(self) -> dict[Pair, int]:
        """The life of each pair's last connection that was cut, as far as this rank knows; the first has life 0."""
        return self._mesh.lives

    @property
    def returned(self) -> dict[int, int]:
        """The life of the connection to each peer that was cut, came back and is not used yet."""
        return self._mesh.returned

    def use(self, lives: Iterable[Life]) -> None:
        """Use these pairs' connections from these lives on, and all other connections."""
        self._mesh.use_from({(one, other): life for one, other, life in lives})

    def skip_to(self, sequence: int) -> None:
        """Go on after a cut, as if the last run had this number."""
        self._mesh.skip_to(sequence)

    def watch(self, plan: Plan) -> None:
        """Watch all links, and probe those that the plan does not use."""
        used = set(plan.pairs)
        idle = {end for pair in direct_pairs(plan.topology) - used if self.rank in pair for end in pair} - {self.rank}
        self._mesh.watch(sorted(idle))

    def probes(self) -> list[LinkUsage]:
        """Return what probes of idle links have measured since the last call, as `link_usage` does."""
        return self._mesh.probes()

    @property
    def round_trips(self) -> dict[int, float]:
        """The seconds of the least of the last few round trips to each peer of which enough are known."""
        return self._mesh.round_trips

    def rest(self, most_s: float = math.inf) -> None:
        """End the thread that serves the connections, which stay open, or stop waiting for that after `most_s`."""
        self._is_resting = True
        deadline = time.monotonic() + most_s
        if self._keeper is not None:
            while self._keeper.is_alive() and time.monotonic() < deadline:
                _ = self._mesh.sequence  # wakes the thread, unless it is just about to sleep
                self._keeper.join(_WAKE_S)
            self._keeper = None

    def close(self) -> None:
        """Close all connections, as in `Transport`."""
        if self._is_closed:
            return
        self._mesh.stop()
        self.rest()
        self._is_closed = True
        self._mesh.close()


_SERVING: weakref.WeakSet[TcpTransport] = weakref.WeakSet()


@atexit.register
def _rest_at_exit() -> None:
    """End the threads of groups that nobody has closed.

    Before version 3.14 Python ends a thread that is inside the core by unwinding its stack, which may crash the
    process instead.
    """
    transports, deadline = [*_SERVING], time.monotonic() + _EXIT_S
    for transport in transports:
        transport._is_resting = True
    for transport in transports:
        transport.rest(deadline - time.monotonic())
