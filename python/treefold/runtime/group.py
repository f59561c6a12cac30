"""Joined workers: each holds its own array, and together they run plans on them."""

from collections.abc import Sequence

import numpy as np

from treefold import checks
from treefold._core import Plan
from treefold.errors import TreefoldError
from treefold.runtime import exchange
from treefold.runtime.arrays import block, check_array, number_of, wire_for
from treefold.runtime.control import ControlMessage
from treefold.runtime.plans import GroupPlans
from treefold.runtime.rank_mapping import RankMapping
from treefold.runtime.threads import Array
from treefold.runtime.transport import Operation, Transport


class Group:
    """Workers that run plans together; `join` and `regroup` make it.

    One thread at a time calls a group's collectives, and all workers call the same ones in the same order. Arrays are
    C-contiguous, writeable NumPy arrays of the same shape and number type on all workers; the types are those of
    `treefold.run`. NumPy has no `bfloat16`: its numbers travel as two-byte integers, with `number="bfloat16"`. All
    collectives raise what `Group.run` and `Group.plan_for` raise.

    Attributes:
        worker: This worker's number in its rendezvous, counted from 0; it is torch's rank, or RANK.
        rank: The rank of the plan that this worker is; it may differ from `worker` if all workers have names.
        size: How many workers, and so how many ranks, the group has.
        mapping: Which worker is which rank of the plan, as `mapping.rank_of_worker` and `mapping.worker_of_rank`.
        transport: The transport that carries the messages.

    Example:
        >>> from treefold import runtime
        >>> runtime.in_threads(2, lambda group: (group.worker, group.rank, group.size, group.plan.collective))
        [(0, 0, 2, 'all-reduce'), (1, 1, 2, 'all-reduce')]

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
        self._is_closed = False

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

    def all_reduce(self, array: Array, op: str = "sum", number: str | None = None, wire: str | None = None) -> None:
        """Reduce the arrays of all workers, in place: afterwards all hold the result.

        Args:
            array: This worker's array.
            op: One of `treefold.runtime.OPERATORS`: `sum`, `prod`, `min`, `max`, `band`, `bor` or `bxor`.
            number: The number type of the values if NumPy lacks it: `bfloat16`, for an array of two-byte integers.
                It is refused with any other array. By default it is the array's own type.
            wire: The type in which float32 and bfloat16 numbers cross lines: `bfloat16`, `float16`, `float8` or `int8`,
                the last two with a scale for each 256 numbers. Sums are rounded each time that they cross a line, by
                so much as `docs/concepts/wire.md` says; all workers end with the same bits. By default numbers cross
                as they are.

        Example:
            >>> import numpy as np
            >>> from treefold import runtime
            >>> def work(group):
            ...     array = np.full(2, 10.0**group.worker)
            ...     group.all_reduce(array)
            ...     return array.tolist()
            >>> runtime.in_threads(3, work)
            [[111.0, 111.0], [111.0, 111.0], [111.0, 111.0]]

        """
        self.run(self.plan_for("all-reduce"), array, op, number, wire=wire)

    def broadcast(self, array: Array, root: int = 0, number: str | None = None, wire: str | None = None) -> None:
        """Give all workers the array of worker `root`, in place.

        Args:
            array: This worker's array.
            root: The worker whose values all get.
            number: As in `all_reduce`; only a wire type needs to know it.
            wire: As in `all_reduce`; the root's own values are rounded, too.

        Raises:
            TreefoldError: If there is no such worker.

        Example:
            >>> import numpy as np
            >>> from treefold import runtime
            >>> def work(group):
            ...     array = np.full(2, group.worker)
            ...     group.broadcast(array, root=1)
            ...     group.all_reduce(np.zeros(1))  # nobody leaves before all are done
            ...     return array.tolist()
            >>> runtime.in_threads(3, work)
            [[1, 1], [1, 1], [1, 1]]

        """
        self.run(self.plan_for("broadcast", self._rank_of(root)), array, number=number, wire=wire)

    def reduce(
        self, array: Array, root: int = 0, op: str = "sum", number: str | None = None, wire: str | None = None
    ) -> None:
        """Reduce the arrays of all workers into that of worker `root`, in place; the others' values are lost.

        Args:
            array: This worker's array.
            root: The worker that gets the result.
            op: An operator of `all_reduce`.
            number: As in `all_reduce`.
            wire: As in `all_reduce`.

        Raises:
            TreefoldError: If there is no such worker.

        Example:
            >>> import numpy as np
            >>> from treefold import runtime
            >>> def work(group):
            ...     array = np.full(2, 10.0**group.worker)
            ...     group.reduce(array, root=2)
            ...     group.all_reduce(np.zeros(1))  # nobody leaves before all are done
            ...     return array.tolist() if group.worker == 2 else None
            >>> runtime.in_threads(3, work)
            [None, None, [111.0, 111.0]]

        """
        self.run(self.plan_for("reduce", self._rank_of(root)), array, op, number, wire=wire)

    def all_gather(self, array: Array, number: str | None = None, wire: str | None = None) -> Array:
        """Return the arrays of all workers, flat and one after the other, in the workers' order.

        Args:
            array: This worker's array, of any shape.
            number: As in `all_reduce`.
            wire: As in `all_reduce`; this worker's own numbers are rounded in the result, too.

        Returns:
            A flat array, which is as long as the arrays of all workers together.

        Example:
            >>> import numpy as np
            >>> from treefold import runtime
            >>> runtime.in_threads(2, lambda group: group.all_gather(np.full(2, group.worker)).tolist())
            [[0, 0, 1, 1], [0, 0, 1, 1]]

        """
        check_array(array)
        vector = np.empty(array.size * self.size, array.dtype)
        vector[block(vector.size, self.size, self.rank)] = array.reshape(-1)
        self.run(self.plan_for("all-gather"), vector, number=number, wire=wire)
        if self.mapping.is_in_order:
            return vector
        return vector.reshape(self.size, -1)[self.mapping.rank_of_worker].reshape(-1)

    def reduce_scatter(
        self, array: Array, op: str = "sum", number: str | None = None, wire: str | None = None
    ) -> Array:
        """Return this worker's block of the reduction of all arrays.

        Args:
            array: This worker's array, which stays as it is.
            op: An operator of `all_reduce`.
            number: As in `all_reduce`.
            wire: As in `all_reduce`.

        Returns:
            A flat array: with n elements and w workers, the block of worker k begins at element n * k // w.

        Example:
            >>> import numpy as np
            >>> from treefold import runtime
            >>> runtime.in_threads(2, lambda group: group.reduce_scatter(np.arange(4)).tolist())
            [[0, 2], [4, 6]]

        """
        vector, own = exchange.in_blocks(array, self.mapping, self.worker)
        self.run(self.plan_for("reduce-scatter"), vector, op, number, wire=wire)
        first = block(vector.size, self.size, self.rank).start
        return vector[first : first + own].copy()

    def all_to_all(
        self,
        array: Array,
        number: str | None = None,
        sizes: Sequence[int] | None = None,
        wire: str | None = None,
    ) -> Array:
        """Return this worker's block of every worker's array, in the workers' order.

        Args:
            array: This worker's array, which stays as it is; its blocks are those of `reduce_scatter`, unless sizes are
                given.
            number: As in `all_reduce`.
            sizes: How many elements of the array each worker gets, in the workers' order, if blocks are unequal. All
                workers give sizes, or none does. An all-gather tells them to all workers first.
            wire: As in `all_reduce`; the block that stays with this worker is not rounded.

        Returns:
            A flat array with one block from each worker.

        Raises:
            TreefoldError: If there is not a whole size for each worker, or they do not add up to that of the array.

        Example:
            >>> import numpy as np
            >>> from treefold import runtime
            >>> runtime.in_threads(2, lambda group: group.all_to_all(np.array([0, 1]) + 10 * group.worker).tolist())
            [[0, 10], [1, 11]]
            >>> def work(group):
            ...     array = np.arange(3) + 10 * group.worker
            ...     return group.all_to_all(array, sizes=[1, 2] if group.worker == 0 else [0, 3]).tolist()
            >>> runtime.in_threads(2, work)
            [[0], [1, 2, 10, 11, 12]]

        """
        if sizes is not None:
            check_array(array)
            return self.exchange(array, self.sizes_of_all(array.size, sizes), number, wire)
        vector, own = exchange.in_blocks(array, self.mapping, self.worker)
        mine = block(vector.size, self.size, self.rank)
        result = np.empty((self.size, mine.stop - mine.start), array.dtype)
        self.run(self.plan_for("all-to-all"), vector, number=number, result=result, wire=wire)
        return result[self.mapping.rank_of_worker, :own].reshape(-1)

    def sizes_of_all(self, elements: int, sizes: Sequence[int]) -> Array:
        """Return how many elements each worker sends to each, a row for each worker; all workers call it at once.

        Args:
            elements: How many elements this worker's array has.
            sizes: How many of them each worker gets.

        Raises:
            TreefoldError: If there is not a whole size for each worker, or they do not add up to the elements.

        Example:
            >>> from treefold import runtime
            >>> runtime.in_threads(2, lambda group: group.sizes_of_all(3, [group.worker, 3 - group.worker]).tolist())
            [[[0, 3], [1, 2]], [[0, 3], [1, 2]]]

        """
        exchange.check_sizes(sizes, self.size, elements)
        return self.all_gather(np.array(sizes, np.int64)).reshape(self.size, self.size)

    def exchange(self, array: Array, sizes: Array, number: str | None = None, wire: str | None = None) -> Array:
        """Return this worker's block of every worker's array, in the workers' order; blocks have these sizes.

        Args:
            array: This worker's array, which stays as it is.
            sizes: How many elements each worker sends to each, a row for each worker, as `sizes_of_all` returns it.
            number: As in `all_reduce`.
            wire: As in `all_to_all`.

        Example:
            >>> import numpy as np
            >>> from treefold import runtime
            >>> sizes = np.array([[0, 1], [2, 0]])
            >>> runtime.in_threads(2, lambda group: group.exchange(np.arange(1 + group.worker), sizes).tolist())
            [[0, 1], [0]]

        """
        flat = array.reshape(-1)
        if exchange.is_empty(sizes):
            return exchange.own_block(flat, sizes, self.worker)
        vector = exchange.reordered(flat, sizes[self.worker], self.mapping.worker_of_rank)
        result = np.empty(int(sizes[:, self.worker].sum()), array.dtype)
        plan = self.plan_for("all-to-all").with_blocks(exchange.by_rank(sizes, self.mapping))
        self.run(plan, vector, "sum", number, result, int(sizes.sum(axis=1).max()), wire)
        received = sizes[list(self.mapping.worker_of_rank), self.worker]
        return exchange.reordered(result, received, self.mapping.rank_of_worker)

    def _rank_of(self, root: int) -> int:
        """Return the rank of the worker `root`, which has to exist."""
        checks.root(root, self.size, "workers")
        return self.mapping.rank_of_worker[root]

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
        check_array(array)
        if self._is_closed:
            raise TreefoldError("the group is closed; join a new one")
        kind = number_of(array, number)
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise TreefoldError("the array must be C-contiguous and writeable; pass np.ascontiguousarray(array)")
        view = array.reshape(-1).view(np.uint8)
        out = None if result is None else result.reshape(-1).view(np.uint8)
        plan = self._reach(plan)
        operation = Operation(view, kind, op, out, wire_for(wire, kind))
        self._execute(plan, operation, array.size if elements is None else elements, array.itemsize)

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

    def _execute(self, plan: Plan, operation: Operation, elements: int, element_bytes: int) -> None:
        self.transport.run(self._plans.program(plan, elements, element_bytes, operation.wire), operation)

    def changes(self) -> list[str]:
        """Return the changes of the network since the last call, a line each; without `adapt` there are none.

        Example:
            >>> from treefold import runtime
            >>> runtime.in_threads(2, lambda group: group.changes())
            [[], []]

        """
        return []

    def unhandled(self, received: Sequence[ControlMessage]) -> list[ControlMessage]:
        """Return those control messages that this group does not handle; only treefold itself calls it."""
        return list(received)

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
        self.transport.close()
