"""The NumPy executor: a plan adds real arrays, in one process.

It walks the lowered schedule, one NumPy call a piece: what it computes is what any executor computes that respects the
schedule's dependencies. It knows nothing of trees, so it also tests lowering.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treefold._core import Plan, Schedule, TreefoldError

Array = NDArray[Any]

OPERATORS: dict[str, np.ufunc] = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
"""Reduction operators by name."""

_NUMBERS = "biufc"


def run(plan: Plan, arrays: Sequence[ArrayLike], op: str = "sum") -> list[Array | None]:
    """Run `plan` on one array a rank.

    Args:
        plan: Any plan; its collective decides what the arrays mean.
        arrays: One array a rank, in rank order, of one shape and one number type: each rank's vector, or for
            all-gather each rank's block. For broadcast only the root's values matter.
        op: `sum`, `prod`, `min` or `max`.

    Returns:
        One array a rank: of the same shape for all-reduce, broadcast and reduce (None except at the root), flat for
        the others: a rank's block of the result (reduce-scatter), all blocks (all-gather), every rank's block for it
        (all-to-all). The inputs are left as they are.

    Raises:
        TreefoldError: If the number of arrays, a shape, a type or the operator does not fit.

    """
    if op not in OPERATORS:
        raise TreefoldError(f"operator '{op}' is unknown; known are {', '.join(OPERATORS)}")
    inputs = [np.asarray(array) for array in arrays]
    _check(plan, inputs)
    elements = inputs[0].size * (len(inputs) if plan.collective == "all-gather" else 1)
    schedule = plan.schedule(elements, inputs[0].itemsize)
    buffers = make_buffers(plan, schedule, inputs, elements)
    execute(schedule, buffers, OPERATORS[op], range(len(schedule)))
    return [_result(plan, buffers[rank], pieces, inputs[0].shape) for rank, pieces in enumerate(schedule.outputs)]


def _check(plan: Plan, arrays: Sequence[Array]) -> None:
    ranks = plan.topology.ranks
    if len(arrays) != ranks:
        raise TreefoldError(f"{len(arrays)} arrays for {ranks} ranks; give one a rank")
    first = arrays[0]
    if first.dtype.kind not in _NUMBERS:
        raise TreefoldError(f"arrays of type {first.dtype} cannot be reduced; use one of NumPy's number types")
    for rank, array in enumerate(arrays):
        if array.shape != first.shape or array.dtype != first.dtype:
            raise TreefoldError(
                f"rank {rank} has {array.dtype} of shape {array.shape}, rank 0 has {first.dtype} of shape "
                f"{first.shape}; all ranks need the same"
            )


class Blocks:
    """A rank's buffer for all-to-all: its own vector, and the blocks of others that pass through it.

    All-to-all numbers the elements of all ranks through; a rank sees few of them, each block always as the same pieces.
    """

    def __init__(self, own: Array, first: int) -> None:
        self._own, self._first = own, first
        self._pieces: dict[int, Array] = {}

    def __getitem__(self, piece: slice) -> Array:
        start, end = piece.start - self._first, piece.stop - self._first
        if start >= 0 and end <= self._own.size:
            return self._own[start:end]
        parts = [self._own[:0]]
        at = piece.start
        while at < piece.stop:
            parts.append(self._pieces[at])
            at += parts[-1].size
        return np.concatenate(parts)

    def __setitem__(self, piece: slice, values: Array) -> None:
        self._pieces[piece.start] = values


Buffer = Array | Blocks


def make_buffers(plan: Plan, schedule: Schedule, arrays: Sequence[Array], elements: int) -> list[Buffer]:
    """Return one array a buffer of the schedule, those of the ranks filled with their inputs."""
    flat = [array.reshape(-1) for array in arrays]
    if plan.collective == "all-to-all":
        own = [Blocks(vector, start) for vector, (start, _) in zip(flat, schedule.inputs, strict=True)]
        return [*own, *(Blocks(flat[0][:0], 0) for _ in schedule.buffers[len(own) :])]
    buffers = [np.empty(elements, arrays[0].dtype) for _ in schedule.buffers]
    for buffer, vector, (start, end) in zip(buffers, flat, schedule.inputs, strict=False):
        buffer[start:end] = vector[: end - start]
    return list(buffers)


def execute(schedule: Schedule, buffers: Sequence[Buffer], combine: np.ufunc, order: Iterable[int]) -> None:
    """Run the transfers in `order`, which must respect the schedule's dependencies; `buffers` change in place."""
    reduces, source, target = (column.tolist() for column in schedule.transfers())
    first, starts, ends = (column.tolist() for column in schedule.pieces())
    ranks = len(schedule.inputs)
    filled: set[tuple[int, int]] = set()
    for transfer in order:
        read, write = buffers[source[transfer]], buffers[target[transfer]]
        for piece in range(first[transfer], first[transfer + 1]):
            start, end = starts[piece], ends[piece]
            # A switch's buffer starts empty: it takes the first operand as it is.
            empty = target[transfer] >= ranks and (target[transfer], start) not in filled
            if reduces[transfer] and not empty:
                combine(write[start:end], read[start:end], out=write[start:end])
            else:
                write[start:end] = read[start:end]
                filled.add((target[transfer], start))


def _result(plan: Plan, buffer: Buffer, pieces: list[tuple[int, int]], shape: tuple[int, ...]) -> Array | None:
    if plan.collective in ("all-reduce", "broadcast", "reduce"):
        return buffer[:].reshape(shape) if pieces else None
    return np.concatenate([buffer[start:end] for start, end in pieces])
