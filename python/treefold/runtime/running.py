"""Joined workers that run plans on their arrays, whatever the collective."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from treefold._core import Plan
from treefold.errors import TreefoldError
from treefold.runtime.control import ControlMessage
from treefold.runtime.operations import memory_of, operation_on
from treefold.runtime.pending import Pending, Window
from treefold.runtime.plans import GroupPlans
from treefold.runtime.rank_mapping import RankMapping
from treefold.runtime.tcp import TcpTransport
from treefold.runtime.threads import Array
from treefold.runtime.transport import Operation, Transport

if TYPE_CHECKING:
    from treefold.runtime.membership import Membership


class PlanRunner:
    """A worker that runs plans with others; `Group` adds the collectives.

    Attributes:
        worker: This worker's number in its rendezvous, counted from 0; it is torch's rank, or RANK.
        rank: The rank of the plan that this worker is; it may differ from `worker` if all workers have names.
        size: How many workers, and so how many ranks, the group has.
        mapping: Which worker is which rank of the plan, as `mapping.rank_of_worker` and `mapping.worker_of_rank`.
        transport: The transport that carries the messages.

    """

    def __init__(self, worker: int, plan: Plan, mapping: RankMapping, transport: Transport) -> None:
        """Hold a worker's place in a group whose workers are connected as the plan needs it.

        Args:
            worker: This worker's number in the rendezvous.
            plan: The plan for all-reduce on which all have agreed.
            mapping: Which worker is which rank of the plan.
            transport: The transport that carries messages.

        """
        self.worker, self.size = worker, len(mapping.rank_of_worker)
        self.mapping, self.rank = mapping, mapping.rank_of_worker[worker]
        self.transport = transport
        self._plans = GroupPlans(plan, self.rank, transport.message_s, transport.apart)
        self._window = Window()
        self._is_closed = False
        self._kept: list[ControlMessage] = []
        self.begun = 0
        """How many all-reduces have begun, which end on no worker before worker 0 has begun them."""
        self.membership: Membership | None = None
        """This worker's part in taking in newcomers; None if the group is not open to them."""

    @property
    def plan(self) -> Plan:
        """The current plan, which is for an all-reduce."""
        return self._plans.all_reduce

    def plan_for(self, collective: str, root: int = 0) -> Plan:
        """Return the group's plan of a collective, which is made when it is first asked for.

        For all-gathers, reduce-scatters and all-to-alls, `auto` chooses the fastest if it chose the plan of the
        all-reduce; `forest` plans each in its own way if it was named. Otherwise the trees of the all-reduce serve, and
        for broadcasts and reduces wherever they fit, as each root would need a search.

        Args:
            collective: `all-reduce`, `reduce-scatter`, `all-gather`, `broadcast`, `reduce` or `all-to-all`.
            root: The rank of the plan, not the worker, that broadcasts or receives.

        Raises:
            MisfitError: If the plan's trees do not fit the collective, as those of `p2p` and `exchange` do not.
            TreefoldError: If there is no such collective or root.

        Example:
            >>> from treefold import runtime
            >>> runtime.in_threads(2, lambda group: group.plan_for("broadcast", root=1).collective)
            ['broadcast', 'broadcast']

        """
        return self._plans.plan_for(collective, root)

    def serve(self, plan: Plan) -> None:
        """Use a plan for its collective from now on; all workers do so. Plans of a changed network take its place.

        Args:
            plan: The plan, for the network of the group; the blocks of an all-to-all are equal.

        Raises:
            TreefoldError: If the blocks are unequal.

        Example:
            >>> import treefold
            >>> from treefold import runtime
            >>> def work(group):
            ...     group.serve(treefold.plan(group.plan.topology, "ring", collective="all-gather"))
            ...     return group.plan_for("all-gather").algorithm
            >>> runtime.in_threads(2, work)
            ['ring', 'ring']

        """
        self._plans.serve(plan)

    def current(self, plan: Plan) -> Plan:
        """Return the current plan for the same collective as `plan`, which may be outdated.

        Example:
            >>> from treefold import runtime
            >>> runtime.in_threads(2, lambda group: group.current(group.plan) is group.plan)
            [True, True]

        """
        return self._plans.current(plan)

    def run(
        self,
        plan: Plan,
        array: Array,
        op: str = "sum",
        number: str | None = None,
        result: Array | None = None,
        elements: int | None = None,
        wire: str | None = None,
    ) -> None:
        """Run the plan of any collective on this worker's whole vector, in place.

        Args:
            plan: One that `plan_for` returns; its blocks are numbered by rank, not by worker.
            array: The whole vector, which is overwritten. For an all-gather, this rank's block stands at its place in
                it; after a reduce-scatter, only this rank's block of it is valid.
            op: An operator of `all_reduce`.
            number: As in `all_reduce`.
            result: A flat array of the vector's type, or None. An all-to-all needs it: an array as long as the blocks
                of all ranks for this rank together. A reduce-scatter copies this rank's block to it.
            elements: How many elements the longest vector of all ranks has, if the plan has blocks of unequal sizes.
            wire: As in `all_reduce`.

        Raises:
            RankLostError: If a worker is gone; the error names it.
            TreefoldError: If the workers disagree, the type lacks the operator, the array does not fit, or the group is
                closed.

        Example:
            >>> import numpy as np
            >>> from treefold import runtime
            >>> def work(group):
            ...     array = np.full(2, 10.0**group.worker)
            ...     group.run(group.plan, array, op="max")
            ...     return array.tolist()
            >>> runtime.in_threads(2, work)
            [[10.0, 10.0], [10.0, 10.0]]

        """
        self.start(plan, array, op, number, result, elements, wire).wait()

    def start(
        self,
        plan: Plan,
        array: Array,
        op: str = "sum",
        number: str | None = None,
        result: Array | None = None,
        elements: int | None = None,
        wire: str | None = None,
        residual: Array | None = None,
    ) -> Pending:
        """Begin what `run` does with these arguments, and return a handle that waits for its end.

        A residual is that of `Group.all_reduce`.

        Raises:
            TreefoldError: If the type lacks the operator, the array does not fit, or the group is closed.

        Example:
            >>> import numpy as np
            >>> from treefold import runtime
            >>> def work(group):
            ...     array = np.full(2, group.worker)
            ...     group.start(group.plan_for("broadcast", root=1), array).wait()
            ...     group.all_reduce(np.zeros(1))  # nobody leaves before all are done
            ...     return array.tolist()
            >>> runtime.in_threads(2, work)
            [[1, 1], [1, 1]]

        """
        operation = operation_on(array, op, number, wire, result, residual)
        return self._start(plan, operation, array.size if elements is None else elements, array.itemsize)

    def check_open(self) -> None:
        """Refuse to go on with a group that is closed, or whose place another one has taken."""
        if self._is_closed:
            raise TreefoldError("the group is closed; join a new one")

    def _start(self, plan: Plan, operation: Operation, elements: int, element_bytes: int) -> Pending:
        self.check_open()
        plan = self._reach(plan)
        memory = memory_of(operation)
        self._window.make_room(memory)
        self.begun += plan.collective == "all-reduce" and elements > 0
        pending = Pending(memory, partial(self._end, self._begin(plan, operation, elements, element_bytes)))
        self._window.add(pending)
        return pending

    def _reach(self, plan: Plan) -> Plan:
        """Connect to the ranks that a plan needs; return it, or one that goes round those that cannot connect."""
        while not (plan is self.plan or self.transport.reaches(plan)):
            # Then all are here, and none waits for long to be connected. Other calls do not look like this one, so
            # workers that disagree on what they call are told so.
            self.run(self.plan, np.zeros(1, np.uint8), "bxor")
            missed = self.transport.connect(plan)
            has_failed = np.array([pair in missed for pair in plan.pairs], np.uint8)
            self.run(self.plan, has_failed, "bor")
            if not has_failed.any():
                break
            plan = self._plans.around(plan, has_failed, self.mapping)
        return plan

    def _begin(self, plan: Plan, operation: Operation, elements: int, element_bytes: int) -> int:
        self.transport.pace(plan, plan.topology)
        return self.transport.start(self._plans.program(plan, elements, element_bytes, operation.wire), operation)

    def _end(self, number: int) -> None:
        self.transport.end(number)

    def changes(self) -> list[str]:
        """Return the changes of the network since the last call, a line each; without `adapt` there are none.

        Example:
            >>> from treefold import runtime
            >>> runtime.in_threads(2, lambda group: group.changes())
            [[], []]

        """
        return []

    def settle(self) -> None:
        """Wait until no operation is in flight; only treefold itself calls it."""
        self._window.settle()

    def messages(self) -> list[ControlMessage]:
        """Return the control messages that have come and that this group does not handle; treefold itself calls it."""
        kept, self._kept = self._kept, []
        return kept + self._received()

    def keep(self, messages: Sequence[ControlMessage]) -> None:
        """Let the next call of `messages` return these, too; only treefold itself calls it."""
        self._kept += messages

    def _received(self) -> list[ControlMessage]:
        return self.transport.receive() if isinstance(self.transport, TcpTransport) else []

    def succeed(self) -> None:
        """Begin no more operations, because another group takes this one's place; only treefold itself calls it."""
        self._is_closed = True

    def close(self) -> None:
        """Leave the group, which ends an operation that runs in another thread. Calling it again does nothing.

        Close the group after a collective in which all workers wait for each other, such as an all-reduce. The root of
        a broadcast, for example, may be done before the others; if it then closes the group, they get a
        `RankLostError`.

        Example:
            >>> import numpy as np
            >>> from treefold import runtime
            >>> def work(group):
            ...     array = np.ones(1)
            ...     group.all_reduce(array)
            ...     group.close()
            ...     return array.item()
            >>> runtime.in_threads(2, work)
            [2.0, 2.0]

        """
        self._is_closed = True
        if self.membership is not None:
            self.membership.close()
        self.transport.close()
