"""Makes operations of the arrays that callers pass to a group, after a check of them."""

import numpy as np

from treefold.errors import TreefoldError
from treefold.runtime.arrays import check_array, number_of, wire_for
from treefold.runtime.transport import Array, Bytes, Operation

_REMEDY = "pass np.zeros(array.shape, np.float32) at first, and the same array from then on"


def operation_on(
    array: Array,
    op: str,
    number: str | None,
    wire: str | None,
    result: Array | None = None,
    residual: Array | None = None,
) -> Operation:
    """Return the operation on this worker's whole array, which a transport runs in place.

    Raises:
        TreefoldError: If no operation can run on the array, no number of its type crosses lines as `wire`, or the
            residual does not fit.

    """
    check_array(array)
    kind = number_of(array, number)
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise TreefoldError("the array must be C-contiguous and writeable; pass np.ascontiguousarray(array)")
    out = None if result is None else result.reshape(-1).view(np.uint8)
    operation = Operation(array.reshape(-1).view(np.uint8), kind, op, out, wire_for(wire, kind))
    if residual is None:
        return operation
    if wire is None:
        raise TreefoldError("a residual needs a wire type, as nothing is rounded without; add for example wire='int8'")
    _check_residual(array, residual)
    return operation._replace(residual=residual.reshape(-1))


def memory_of(operation: Operation) -> list[Bytes]:
    """Return all memory that an operation changes."""
    residual = None if operation.residual is None else operation.residual.view(np.uint8)
    return [memory for memory in (operation.vector, operation.result, residual) if memory is not None]


def _check_residual(array: Array, residual: object) -> None:
    """Refuse what cannot keep what rounding takes from the numbers of an array."""
    if not isinstance(residual, np.ndarray):
        raise TreefoldError(f"a residual of type {type(residual).__name__} is not a NumPy array; {_REMEDY}")
    if residual.shape != array.shape or residual.dtype != np.float32 or not residual.dtype.isnative:
        raise TreefoldError(
            f"the residual has {residual.dtype} of shape {residual.shape}, and the array needs float32 of shape "
            f"{array.shape}; {_REMEDY}"
        )
    if not residual.flags.carray:
        raise TreefoldError(f"the residual must be C-contiguous, aligned and writeable; {_REMEDY}")
    if np.may_share_memory(residual, array):
        raise TreefoldError(f"the residual shares its memory with the array; {_REMEDY}")
