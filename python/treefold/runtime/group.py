"""Joined workers: each holds its own array, and together they run plans on them."""

from collections.abc import Sequence

import numpy as np

from treefold import checks
from treefold.runtime import exchange
from treefold.runtime.arrays import block, check_array
from treefold.runtime.operations import operation_on
from treefold.runtime.pending import Pending
from treefold.runtime.running import PlanRunner
from treefold.runtime.threads import Array


class Group(PlanRunner):
    """Workers that run plans together; `join` and `regroup` make it.

    One thread at a time calls a group's collectives, and all workers call the same ones in the same order. Arrays are
    C-contiguous, writeable NumPy arrays of the same shape and number type on all workers; the types are those of
    `treefold.run`. NumPy has no `bfloat16`: its numbers travel as two-byte integers, with `number="bfloat16"`. All
    collectives raise what `Group.run` and `Group.plan_for` raise.

    Example:
        >>> from treefold import runtime
        >>> runtime.in_threads(2, lambda group: (group.worker, group.rank, group.size, group.plan.collective))
        [(0, 0, 2, 'all-reduce'), (1, 1, 2, 'all-reduce')]

    """

    def all_reduce(
        self,
        array: Array,
        op: str = "sum",
        number: str | None = None,
        wire: str | None = None,
        residual: Array | None = None,
    ) -> None:
        """Reduce the arrays of all workers, in place: afterwards all hold the result.

        Args:
            array: This worker's array.
            op: One of `treefold.runtime.OPERATORS`: `sum`, `prod`, `min`, `max`, `band`, `bor` or `bxor`.
            number: The number type of the values if NumPy lacks it: `bfloat16`, for an array of two-byte integers.
                It is refused with any other array. By default it is the array's own type.
            wire: The type in which float32 and bfloat16 numbers cross lines: `bfloat16`, `float16`, `float8` or `int8`,
                the last two with a scale for each 256 numbers. Sums are rounded each time that they cross a line, by
                so much as `docs/concepts/wire.md` says; all workers end with the same bits. By default numbers cross
                as they are; so they do in plans in which ranks add up by themselves, of which the group warns once.
            residual: For error feedback of sums: a float32 array of the array's shape, zero at first. What rounding
                takes from numbers is kept in it and added to those of the next call. An error spoils it, too.

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
        self.start_all_reduce(array, op, number, wire, residual).wait()

    def start_all_reduce(
        self,
        array: Array,
        op: str = "sum",
        number: str | None = None,
        wire: str | None = None,
        residual: Array | None = None,
    ) -> Pending:
        """Begin an `all_reduce`, and return a handle that waits for its end.

        Operations that are in flight together overlap, so that together they pay the network's latency once. They end
        in the order in which they began. At most 16 are in flight, with 256 MiB: the next one begins when the first
        has ended. Over an engine, such as MPI's, they run one after the other.

        Args:
            array: As in `all_reduce`; it must not be touched before the end.
            op: As in `all_reduce`.
            number: As in `all_reduce`.
            wire: As in `all_reduce`.
            residual: As in `all_reduce`.

        Example:
            >>> import numpy as np
            >>> from treefold import runtime
            >>> def work(group):
            ...     array = np.full(2, 10.0**group.worker)
            ...     pending = group.start_all_reduce(array)
            ...     pending.wait()
            ...     return array.tolist()
            >>> runtime.in_threads(2, work)
            [[11.0, 11.0], [11.0, 11.0]]

        """
        operation = operation_on(array, op, number, wire, residual=residual)
        return self._start(self.plan_for("all-reduce"), operation, array.size, array.itemsize)

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
        return exchange.by_worker(vector, self.mapping)

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
