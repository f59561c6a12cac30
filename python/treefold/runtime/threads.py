"""Runs an operation on all ranks in one process, with a thread for each; it needs no engine and no extra package."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treefold._core import Plan, Program, Recording, run_threads

Array = NDArray[Any]

MESSAGE_OVERHEAD_S = 1e-5
"""The cost of a message between threads, in seconds; it decides how small chunks are."""


@lru_cache(maxsize=32)
def _programs(plan: Plan, elements: int, element_bytes: int, wire: str | None) -> list[Program]:
    return Program.all(plan, elements, element_bytes, MESSAGE_OVERHEAD_S, wire)


def execute(
    plan: Plan,
    vectors: Sequence[Array],
    op: str,
    number: str,
    recordings: list[Recording] | None = None,
    wire: str | None = None,
) -> list[list[Array]]:
    """Run `plan` on the vectors of all ranks, in place.

    Args:
        plan: A plan for any collective.
        vectors: One vector for each rank; all are C-contiguous and flat, and of one length unless the blocks of an
            all-to-all are unequal.
        op: The name of the operator.
        number: The name of the number type.
        recordings: For each rank what gets to know when its messages left and came; None for no rank.
        wire: The type in which numbers cross between the ranks; None if they cross as they are.

    Returns:
        For each rank the pieces of its result, in order: parts of its vector, and of what passed through it.

    Raises:
        TreefoldError: If the type has no such operator, or the plan needs switches that compute.

    """
    kind = vectors[0].dtype
    programs = _programs(plan, max(vector.size for vector in vectors), kind.itemsize, wire)
    bytes_of = [vector.view(np.uint8) for vector in vectors]
    scratch = run_threads(programs, bytes_of, number, op, recordings)
    return [
        [_piece(own, other.view(np.uint8), piece).view(kind) for piece in program.output]
        for program, own, other in zip(programs, bytes_of, scratch, strict=True)
    ]


def _piece(vector: Array, scratch: Array, piece: tuple[int, int]) -> Array:
    start, end = piece
    if start < vector.size:
        return vector[start:end]
    return scratch[start - vector.size : end - vector.size]
