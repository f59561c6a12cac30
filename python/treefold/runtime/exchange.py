"""All-to-alls with unequal blocks: arrays are cut by worker, and plans by rank."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from treefold import checks
from treefold.errors import TreefoldError
from treefold.runtime.arrays import block, check_array
from treefold.runtime.rank_mapping import RankMapping
from treefold.runtime.threads import Array

if TYPE_CHECKING:
    from treefold.blocks import Blocks


def check_sizes(sizes: Sequence[int], workers: int, elements: int) -> None:
    """Refuse sizes of blocks that are not one for each worker, or do not add up to the elements of an array."""
    if not isinstance(sizes, Sequence | np.ndarray) or isinstance(sizes, str):
        raise TreefoldError(f"sizes {checks.shown(sizes)} are not a list; give how many elements each worker gets")
    for worker, size in enumerate(sizes):
        checks.whole(f"the size for worker {worker}", size, 0, sys.maxsize)
    if len(sizes) != workers or sum(sizes) != elements:
        raise TreefoldError(
            f"sizes {checks.shown(list(sizes))}: there must be one for each of {workers} workers, and they must add up "
            f"to the {elements} elements of the array"
        )


def by_rank(sizes: Array, mapping: RankMapping) -> "Blocks":
    """Return the sizes of blocks rank by rank; those that are given are worker by worker."""
    order = list(mapping.worker_of_rank)
    return sizes[np.ix_(order, order)].astype(np.uint64)


def by_worker(vector: Array, mapping: RankMapping) -> Array:
    """Return a flat array of equal blocks, which are in the order of ranks, with its blocks in that of workers."""
    if mapping.is_in_order:
        return vector
    return vector.reshape(len(mapping.worker_of_rank), -1)[mapping.rank_of_worker].reshape(-1)


def is_empty(sizes: Array) -> bool:
    """Tell whether no worker has anything for another one."""
    return not (sizes.sum() - sizes.trace())


def reordered(array: Array, sizes: Array, order: Sequence[int]) -> Array:
    """Return a copy of a flat array, which has blocks of these sizes, with its blocks in another order."""
    ends = np.cumsum(sizes)
    blocks = np.split(array, ends[:-1])
    return np.concatenate([blocks[place] for place in order])


def own_block(array: Array, sizes: Array, worker: int) -> Array:
    """Return a copy of the block that a worker has for itself in its flat array."""
    first = int(sizes[worker, :worker].sum())
    return array[first : first + int(sizes[worker, worker])].copy()


def in_blocks(array: Array, mapping: RankMapping, worker: int) -> tuple[Array, int]:
    """Return a copy of `array` in which each rank's block is that of its worker, and the length of this worker's.

    The core cuts blocks by rank. Where workers are ranks in another order and blocks differ in length, the blocks of
    the copy are made equally long.
    """
    check_array(array)
    size = len(mapping.worker_of_rank)
    blocks = [block(array.size, size, each) for each in range(size)]
    own = blocks[worker].stop - blocks[worker].start
    if mapping.is_in_order:
        return array.reshape(-1).copy(), own
    rows = np.zeros((size, -(-array.size // size)), array.dtype)
    for row, each in zip(rows, mapping.worker_of_rank, strict=True):
        part = array.reshape(-1)[blocks[each]]
        row[: part.size] = part
    return rows.reshape(-1), own
