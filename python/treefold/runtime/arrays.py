"""Runs a plan on NumPy arrays of one process, with a thread for each rank; checks of arrays."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from treefold import checks
from treefold._core import Plan, Program, Recording, Trace, measured_trace, number_bytes, wire_type
from treefold.collectives import COLLECTIVES
from treefold.errors import TreefoldError
from treefold.runtime import threads
from treefold.runtime.recordings import table_of
from treefold.runtime.threads import Array

OPERATORS = ("sum", "prod", "min", "max", "band", "bor", "bxor")
"""The reduction operators.

`band`, `bor` and `bxor` take integers and bool only; `min` and `max` take no complex numbers.
"""

WIRE_TYPES = ("bfloat16", "float16", "float8", "int8")
"""The types in which float32 and bfloat16 numbers may cross lines, instead of as they are."""

_NUMBERS = "biufc"
_OF_TENSORS = "give tensor.detach().cpu().numpy(), and of a type that NumPy lacks (bfloat16) tensor.float() before"


@overload
def run(
    plan: Plan, arrays: Iterable[ArrayLike], op: str = ..., *, trace: Literal[False] = ..., wire: str | None = ...
) -> list[Array | None]: ...
@overload
def run(
    plan: Plan, arrays: Iterable[ArrayLike], op: str = ..., *, trace: Literal[True], wire: str | None = ...
) -> tuple[list[Array | None], Trace]: ...
def run(
    plan: Plan, arrays: Iterable[ArrayLike], op: str = "sum", *, trace: bool = False, wire: str | None = None
) -> list[Array | None] | tuple[list[Array | None], Trace]:
    """Run `plan` on one array for each rank, with a thread for each rank.

    Args:
        plan: The plan, of any collective, which decides what the arrays mean. Plans in which switches reduce or
            multicast can only be simulated.
        arrays: One array for each rank, in rank order, of one shape and one number type: the rank's vector, or for
            all-gather the rank's block. For broadcast only the root's values matter. In an all-to-all with unequal
            blocks, each array has as many elements as its rank's row of `plan.blocks` adds up to, or all have the same
            multiple of it. The types are float16, float32,
            float64, complex64, complex128, int8 to int64, uint8 to uint64, and bool.
        op: One of `sum`, `prod`, `min`, `max`, `band`, `bor` and `bxor` (`treefold.runtime.OPERATORS`). The last three
            need integers or bool; `min` and `max` need numbers that are not complex.
        trace: Whether to record when each message between the threads left and came.
        wire: The type in which numbers of float32 arrays cross between the ranks: `bfloat16`, `float16`, `float8` or
            `int8`, as in `treefold.runtime.Group.all_reduce`. By default they cross as they are.

    Returns:
        One array for each rank; with `trace`, these arrays and a `Trace`, as `treefold.load_trace` returns it. Threads
        share memory, so its times are not those of the plan's network. An array has the shape of the inputs for
        all-reduce, broadcast and reduce (for reduce it is None except at the root). It is flat for the others: a rank's
        block of the result (reduce-scatter), all blocks (all-gather), or every rank's block for this rank (all-to-all).
        The inputs stay as they are.

    Raises:
        MisfitError: If switches reduce or multicast in the plan.
        TreefoldError: If the number of arrays, a shape, a type or the operator does not fit.

    Example:
        >>> import treefold
        >>> plan = treefold.plan("ring:3", "ring")
        >>> [array.tolist() for array in treefold.run(plan, [[1, 2], [10, 20], [100, 200]])]
        [[111, 222], [111, 222], [111, 222]]
        >>> arrays, trace = treefold.run(plan, [[1, 2], [10, 20], [100, 200]], trace=True)
        >>> trace.size_bytes
        16

    """
    if not isinstance(trace, bool):
        raise TreefoldError(f"trace is of type {type(trace).__name__}; write trace=True, and save what is returned")
    inputs = _inputs(plan, arrays)
    _check(plan, inputs, op)
    kind = inputs[0].dtype.newbyteorder("=")
    number_bytes(kind.name, op)
    wire = wire_for(wire, kind.name)
    vectors = [_vector(plan, rank, array, kind) for rank, array in enumerate(inputs)]
    recordings = [Recording() for _ in vectors] if trace else None
    pieces = threads.execute(plan, vectors, op, kind.name, recordings, wire)
    results = [_result(plan, *each, inputs[0].shape) for each in zip(vectors, pieces, strict=True)]
    return results if recordings is None else (results, _trace(plan, vectors, recordings, wire))


def _trace(plan: Plan, vectors: Sequence[Array], recordings: list[Recording], wire: str | None) -> Trace:
    """Return the trace of a run of threads, which all have one clock."""
    elements, overhead_s = max(vector.size for vector in vectors), threads.MESSAGE_OVERHEAD_S
    _, element_bytes = crossing(plan, elements, vectors[0].itemsize, overhead_s, wire)
    return measured_trace(plan, elements, element_bytes, overhead_s, table_of(recordings), 0.0)


def crossing(
    plan: Plan, elements: int, element_bytes: int, message_s: float, wire: str | None
) -> tuple[str | None, int]:
    """Return the type in which numbers cross lines, and the bytes of an element in it, without a block's scale.

    They cross as they are where the ranks would not end alike otherwise, as each adds up by itself.
    """
    if wire is None:
        return None, element_bytes
    program = Program(plan, 0, elements, element_bytes, message_s, wire)
    return program.wire, program.element_bytes_crossing


def wire_for(wire: object, number: str) -> str | None:
    """Return the wire type that vectors of a number type need; None if there is none, or if they have it already."""
    return None if wire is None else wire_type(checks.name("wire type", wire, WIRE_TYPES), number)


def block(size: int, ranks: int, rank: int) -> slice:
    """Return the elements of a vector of `size` elements that are rank `rank`'s block; each cut is rounded down."""
    return slice(size * rank // ranks, size * (rank + 1) // ranks)


def check_array(array: object) -> None:
    """Refuse what is not an array of numbers as this machine stores them."""
    if not isinstance(array, np.ndarray):
        raise TreefoldError(f"a {type(array).__name__} is not a NumPy array; pass np.asarray(values)")
    if not array.dtype.isnative:
        raise TreefoldError(
            f"the array's numbers are of type {array.dtype.str}; pass array.astype('{array.dtype.name}')"
        )


def number_of(array: Array, number: str | None) -> str:
    """Return the number type of an array's values; refuse one that the array cannot hold."""
    own = array.dtype.name
    if number is None or number == own:
        return own
    size = number_bytes(number, "sum")
    if array.dtype.kind not in "iu" or array.itemsize != size:
        raise TreefoldError(
            f"{number} numbers travel in an array of {size}-byte integers, and this one is of {own}; pass the numbers' "
            "bits as such integers, or drop the number type"
        )
    return number


def _inputs(plan: Plan, arrays: Iterable[ArrayLike]) -> list[Array]:
    """Return one NumPy array for each rank."""
    if not isinstance(plan, Plan):
        raise TreefoldError(f"the plan is of type {type(plan).__name__}; make one with treefold.plan(network)")
    if isinstance(arrays, str | bytes | Mapping) or not isinstance(arrays, Iterable):
        raise TreefoldError(f"the arrays are of type {type(arrays).__name__}; give a list with one array per rank")
    inputs, ranks = [_array(rank, array) for rank, array in enumerate(arrays)], plan.topology.ranks
    if len(inputs) != ranks:
        raise TreefoldError(f"{len(inputs)} arrays for {ranks} ranks; give one per rank")
    return inputs


def _array(rank: int, given: ArrayLike) -> Array:
    try:
        array = np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists and some tensors cause these
        reason = (str(error).splitlines() or ["no reason given"])[0].rstrip(".")
        remedy = _OF_TENSORS if hasattr(given, "detach") else "give rows of equal length"
        raise TreefoldError(
            f"rank {rank} has a {type(given).__name__} that is not a NumPy array ({reason}); {remedy}"
        ) from None
    if array.dtype.kind not in _NUMBERS:
        raise TreefoldError(
            f"rank {rank} has values of type {array.dtype}, which cannot be reduced; use one of NumPy's number types"
        )
    return array


def _check(plan: Plan, arrays: Sequence[Array], op: str) -> None:
    if not isinstance(op, str):
        raise TreefoldError(f"operator {op!r} is unknown; known are {', '.join(OPERATORS)}")
    first = arrays[0]
    if plan.blocks is not None:
        _check_lengths(plan.blocks.sum(axis=1).tolist(), arrays)
        arrays = [array.reshape(-1)[:0] for array in arrays]
        first = arrays[0]
    for rank, array in enumerate(arrays):
        if array.shape != first.shape or array.dtype != first.dtype:
            raise TreefoldError(
                f"rank {rank} has {array.dtype} of shape {array.shape}, rank 0 has {first.dtype} of shape "
                f"{first.shape}; all ranks need the same"
            )


def _check_lengths(shares: Sequence[int], arrays: Sequence[Array]) -> None:
    """Refuse arrays whose lengths are not in proportion to the shares of their ranks."""
    longest = max(array.size for array in arrays)
    for rank, (array, share) in enumerate(zip(arrays, shares, strict=True)):
        wanted = longest * share // max(shares)
        if array.size != wanted:
            raise TreefoldError(
                f"rank {rank} has {array.size} elements; its blocks have {wanted} where the longest array has {longest}"
            )


def _vector(plan: Plan, rank: int, array: Array, kind: np.dtype[Any]) -> Array:
    """Return the vector of a rank: a copy of its array, or for all-gather room for all blocks with its own in place."""
    if COLLECTIVES[plan.collective].before != "block":
        return array.reshape(-1).astype(kind)
    ranks = plan.topology.ranks
    vector = np.empty(array.size * ranks, kind)
    vector[block(vector.size, ranks, rank)] = array.reshape(-1)
    return vector


def _result(plan: Plan, vector: Array, pieces: list[Array], shape: tuple[int, ...]) -> Array | None:
    collective = COLLECTIVES[plan.collective]
    if not collective.has_blocks:
        return vector.reshape(shape) if pieces else None
    return vector if collective.after == "whole" else np.concatenate([vector[:0], *pieces])
