"""An executor for tests: it walks a lowered schedule, one NumPy call a piece.

What it computes is what any executor computes that respects the schedule's dependencies. It knows nothing of trees, so
it tests lowering; and it has buffers for switches that compute, which no process is.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treefold import Plan
from treefold._core import Schedule

Array = NDArray[Any]


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
