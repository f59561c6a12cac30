"""The operations in flight of an adaptive group, which can run again from the values that each has kept.

Each is two runs of the transport: its data, and a tiny all-reduce that confirms that all ranks have all their data.
The second one waits for the first, so a rank whose confirmation has come has the data of all operations before, too.
"""

import time
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from treefold._core import Fault, Plan
from treefold.runtime.plans import GroupPlans
from treefold.runtime.tcp import TcpTransport
from treefold.runtime.transport import Bytes, Operation


@dataclass
class Flight:
    """An operation in flight."""

    number: int
    """Its number among the group's operations."""
    plan: Plan
    operation: Operation
    elements: int
    element_bytes: int
    kept: Bytes
    """This worker's values at its beginning, and behind them its residual."""
    is_alone: bool
    """Whether no other operation was in flight when it began."""
    runs: tuple[int, int] = (0, 0)
    """The numbers of its data and of its confirmation among the transport's runs."""
    since_s: float = 0.0
    """When it began, the last time."""
    outcomes: dict[int, Fault | None] = field(default_factory=dict)
    """Why runs that have ended have no result."""


class Flights:
    """The operations in flight, in the order in which they began."""

    def __init__(self, transport: TcpTransport, plans: GroupPlans) -> None:
        self._transport, self._plans, self._tested = transport, plans, plans.all_reduce.topology
        self._flights: deque[Flight] = deque()
        self._spare: list[Bytes] = []

    def __len__(self) -> int:
        return len(self._flights)

    @property
    def first(self) -> Flight | None:
        """The operation that ends first; None if there is none."""
        return self._flights[0] if self._flights else None

    def add(self, number: int, plan: Plan, operation: Operation, elements: int, element_bytes: int) -> None:
        """Keep an operation's values, and begin it."""
        kept = self._memory(sum(each.size for each in _changed(operation)))
        np.concatenate(_changed(operation), out=kept)
        flight = Flight(number, plan, operation, elements, element_bytes, kept, not self._flights)
        self._launch(flight)
        self._flights.append(flight)

    def _memory(self, size: int) -> Bytes:
        """Return memory of this size, of an earlier operation if there is some."""
        for index, spare in enumerate(self._spare):
            if spare.size == size:
                return self._spare.pop(index)
        self._spare.clear()
        return np.empty(size, np.uint8)

    def _launch(self, flight: Flight) -> None:
        """Begin both runs of an operation, by the current plan."""
        plan = self._plans.current(flight.plan)
        program = self._plans.program(plan, flight.elements, flight.element_bytes, flight.operation.wire)
        confirm = self._plans.program(self._plans.all_reduce, 1, 1)
        self._transport.pace(plan, self._tested)
        flight.since_s, flight.outcomes = time.monotonic(), {}
        data = self._transport.start(program, flight.operation)
        token = Operation(np.zeros(1, np.uint8), "uint8", "sum")
        flight.runs = (data, self._transport.start(confirm, token, waits=True))

    def fault(self, flight: Flight) -> Fault | None:
        """Wait until an operation has ended; return why it has no result that all ranks have."""
        return self._outcome(flight, 0) or self._outcome(flight, 1)

    def _outcome(self, flight: Flight, part: int) -> Fault | None:
        run = flight.runs[part]
        if run not in flight.outcomes:
            flight.outcomes[run] = self._transport.outcome(run)
        return flight.outcomes[run]

    def pop(self) -> Flight:
        """Remove the first operation, and return it."""
        flight = self._flights.popleft()
        self._spare.append(flight.kept)
        return flight

    def settle(self) -> int:
        """Wait until no run is under way; return how many operations, from the first on, have all their data here."""
        for flight in self._flights:
            self.fault(flight)
            self._outcome(flight, 1)
        done = 0
        for flight in self._flights:
            if self._outcome(flight, 0) is not None:
                break
            done += 1
        return done

    def relaunch(self) -> None:
        """Run all operations again, from the values that they have kept."""
        for flight in self._flights:
            first = 0
            for memory in _changed(flight.operation):
                memory[:] = flight.kept[first : first + memory.size]
                first += memory.size
            self._launch(flight)


def _changed(operation: Operation) -> list[Bytes]:
    """Return the memory that an operation changes in place."""
    residual = [] if operation.residual is None else [operation.residual.view(np.uint8)]
    return [operation.vector, *residual]
