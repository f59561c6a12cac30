"""The collectives of torch on a treefold group: tensors become arrays, and blocks are in the order of torch's ranks.

Every function makes a generator, which begins the operation up to its first yield, and waits for its end behind it. So
operations overlap. It works in place on contiguous CPU tensors, and releases the GIL while data move.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import distributed as dist

from treefold._core import Plan
from treefold.errors import TreefoldError
from treefold.runtime.group import Group
from treefold.runtime.pending import Pending
from treefold.torch.crossing import Crossing

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_COMPLEX = (torch.complex64, torch.complex128)
_INTEGERS = (torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool)
_NUMBERS = frozenset(_FLOATS + _INTEGERS)

_Reduction = dist.ReduceOp.RedOpType
OPERATORS: dict[Any, tuple[str, frozenset[torch.dtype]]] = {
    _Reduction.SUM: ("sum", _NUMBERS | frozenset(_COMPLEX)),
    _Reduction.AVG: ("sum", frozenset(_FLOATS + _COMPLEX)),
    _Reduction.PRODUCT: ("prod", _NUMBERS),
    _Reduction.MIN: ("min", _NUMBERS),
    _Reduction.MAX: ("max", _NUMBERS),
    _Reduction.BAND: ("band", frozenset(_INTEGERS)),
    _Reduction.BOR: ("bor", frozenset(_INTEGERS)),
    _Reduction.BXOR: ("bxor", frozenset(_INTEGERS)),
}
"""treefold's name of each of torch's reductions, and the types for which gloo has it."""


def all_reduce(group: Group, tensors: Sequence[torch.Tensor], operator: Any, crossing: Crossing) -> Iterator[None]:
    """Reduce each of the tensors over all ranks, in place."""
    begun = []
    for tensor in tensors:
        dense, wire = tensor.detach().contiguous(), crossing.wire_of(tensor, operator)
        kept = crossing.residual_of(tensor, operator)
        residual = None if kept is None else kept.contiguous()
        feedback = None if residual is None else _array(residual)
        pending = group.start_all_reduce(_array(dense), OPERATORS[operator][0], _number(dense), wire, feedback)
        begun.append((tensor, dense, kept, residual, pending))
    yield
    for tensor, dense, kept, residual, pending in begun:
        pending.wait()
        average(group, dense, operator)
        _store(dense, tensor)
        if kept is not None and residual is not None:
            _store(residual, kept)


def broadcast(group: Group, tensor: torch.Tensor, root: int) -> Iterator[None]:
    """Give all ranks the tensor of the torch rank `root`, in place."""
    dense = tensor.detach().contiguous()
    pending = _start(group, "broadcast", dense, root=root)
    yield
    pending.wait()
    _store(dense, tensor)


def reduce(group: Group, tensor: torch.Tensor, root: int, operator: Any) -> Iterator[None]:
    """Reduce the tensors of all ranks into that of `root`; the others keep theirs."""
    is_root = group.worker == root
    dense = tensor.detach().contiguous() if is_root else tensor.detach().clone(memory_format=torch.contiguous_format)
    pending = _start(group, "reduce", dense, operator, root)
    yield
    pending.wait()
    if is_root:
        average(group, dense, operator)
        _store(dense, tensor)


def all_gather(group: Group, output: torch.Tensor, block: torch.Tensor) -> Iterator[None]:
    """Fill `output` with the blocks of all ranks, by rank; it is as long as all of them together."""
    dense = output.detach().contiguous()
    blocks = dense.view(group.size, -1)
    blocks[group.rank].copy_(block.detach().reshape(-1))
    pending = _start(group, "all-gather", dense)
    yield
    pending.wait()
    if not group.mapping.is_in_order:
        blocks.copy_(blocks[group.mapping.rank_of_worker])
    _store(dense, output)


def gather_in_place(group: Group, vector: torch.Tensor) -> Iterator[None]:
    """Fill a vector of one block for each rank of the plan, of which this rank's is there."""
    pending = _start(group, "all-gather", vector)
    yield
    pending.wait()


def scatter_in_place(group: Group, vector: torch.Tensor, operator: Any, crossing: Crossing) -> Iterator[None]:
    """Reduce the vectors of all ranks, and leave this rank's block of the result in its place."""
    pending = _start(group, "reduce-scatter", vector, operator, wire=crossing.wire_of(vector, operator))
    yield
    pending.wait()
    average(group, vector.view(group.size, -1)[group.rank], operator)


def swap_halves(group: Group, vector: torch.Tensor) -> Iterator[None]:
    """Send the blocks of a vector's first half to the ranks of the plan, and fill its second half with what comes."""
    sent, received = vector.view(2, -1)
    pending = _start(group, "all-to-all", sent, result=received)
    yield
    pending.wait()


def all_gather_list(group: Group, outputs: Sequence[torch.Tensor], block: torch.Tensor) -> Iterator[None]:
    """Fill the tensor of each rank in `outputs` with its block."""
    blocks = torch.empty((group.size, block.numel()), dtype=block.dtype)
    yield from all_gather(group, blocks, block)
    for output, gathered in zip(outputs, blocks, strict=True):
        output.detach().copy_(gathered.view(output.shape))


def barrier(group: Group) -> Iterator[None]:
    """Wait for all ranks: who has the maximum of what all have sent knows that all are there."""
    yield from all_reduce(group, [torch.ones(1, dtype=torch.uint8)], _Reduction.MAX, Crossing())


def reduce_scatter(
    group: Group, output: torch.Tensor, vector: torch.Tensor, operator: Any, crossing: Crossing
) -> Iterator[None]:
    """Reduce the vectors of all ranks and leave this rank's block of the result in `output`."""
    blocks = vector.detach().reshape(group.size, -1)
    ordered = blocks.clone() if group.mapping.is_in_order else blocks[group.mapping.worker_of_rank]
    pending = _start(group, "reduce-scatter", ordered, operator, wire=crossing.wire_of(ordered, operator))
    yield
    pending.wait()
    own = ordered[group.rank]
    average(group, own, operator)
    output.detach().copy_(own.view(output.shape))


def all_to_all(group: Group, output: torch.Tensor, vector: torch.Tensor) -> Iterator[None]:
    """Send block r of the vector to rank r, and fill `output` with the blocks received, by rank; blocks are equal."""
    blocks = vector.detach().reshape(group.size, -1)
    received = torch.empty_like(output, memory_format=torch.contiguous_format)
    pending = _start(group, "all-to-all", blocks[group.mapping.worker_of_rank], result=received)
    yield
    pending.wait()
    in_order = received.view(group.size, -1)[group.mapping.rank_of_worker]
    output.detach().copy_(in_order.view(output.shape))


class Sizes(NamedTuple):
    """How many rows a rank sends to each rank, and gets from each; an empty list stands for equally many."""

    sent: list[int]
    received: list[int]


def sizes_of_all(group: Group, vector: torch.Tensor, sizes: Sizes) -> Any:
    """Return a NumPy array with a row for each rank: the elements that it sends to each rank."""
    return group.sizes_of_all(vector.numel(), _elements(vector, sizes.sent, group.size))


def exchange(group: Group, output: torch.Tensor, vector: torch.Tensor, of_all: Any, sizes: Sizes) -> None:
    """Send each rank its block of the vector, and fill `output` with the blocks received, by rank, before it returns.

    Raises:
        TreefoldError: If another rank sends a block of another size than this one expects.

    """
    dense = vector.detach().contiguous()
    received = group.exchange(_array(dense), of_all, _number(dense))
    # A rank whose sizes are wrong has taken part, so that the others end.
    wanted = _elements(output, sizes.received, group.size)
    for rank, (sent, expected) in enumerate(zip(of_all[:, group.worker].tolist(), wanted, strict=True)):
        if sent != expected:
            raise TreefoldError(
                f"rank {rank} sends {sent} elements to rank {group.worker}, which expects {expected}; "
                "output_split_sizes must be what the others' input_split_sizes say"
            )
    tensor = torch.from_numpy(received).view(output.dtype)
    output.detach().copy_(tensor.view(output.shape))


def _elements(tensor: torch.Tensor, rows: list[int], ranks: int) -> list[int]:
    """Return how many elements the parts of a tensor have that is cut along its first dimension."""
    row = tensor.shape[1:].numel()
    if rows:
        return [count * row for count in rows]
    if len(tensor) % ranks:
        raise TreefoldError(f"{len(tensor)} rows cannot be cut into {ranks} equal parts; give the sizes of all")
    return [len(tensor) // ranks * row] * ranks


def _start(
    group: Group,
    collective: str,
    dense: torch.Tensor,
    operator: Any = _Reduction.SUM,
    root: int = 0,
    result: torch.Tensor | None = None,
    wire: str | None = None,
) -> Pending:
    """Begin a collective on the memory of a contiguous tensor; `root` is a torch rank."""
    plan = group.plan_for(collective, group.mapping.rank_of_worker[root])
    target = None if result is None else _array(result)
    return group.start(plan, _array(dense), OPERATORS[operator][0], _number(dense), target, wire=wire)


def start_plan(
    group: Group, plan: Plan, dense: torch.Tensor, operator: Any, wire: str | None, residual: Any
) -> Pending:
    """Begin a plan of sums on the memory of a contiguous tensor."""
    return group.start(plan, _array(dense), OPERATORS[operator][0], _number(dense), wire=wire, residual=residual)


def _number(dense: torch.Tensor) -> str:
    return str(dense.dtype).removeprefix("torch.")


def _array(dense: torch.Tensor) -> Any:
    flat = dense.view(-1)
    return flat.view(torch.int16).numpy() if flat.dtype == torch.bfloat16 else flat.numpy()


def average(group: Group, summed: torch.Tensor, operator: Any) -> None:
    """Divide sums by the number of ranks if an average was asked for."""
    if operator == _Reduction.AVG:
        summed.div_(group.size)


def _store(dense: torch.Tensor, target: torch.Tensor) -> None:
    """Copy a result back to a tensor that was not contiguous."""
    if dense.data_ptr() != target.data_ptr():
        target.detach().copy_(dense)
