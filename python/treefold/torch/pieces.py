"""Cuts calls on tensors of a device into pieces, each of which is an operation of its own on host memory.

A piece says what to copy to its host vector, what to run there, and what to copy back. Pieces of an all-reduce have a
part of each tree's elements, so that their sums are, bit for bit, those of a whole vector on the CPU. Pieces of the
other collectives have the same elements of each rank's block, or of the vector.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from treefold._core import Plan, vector_parts
from treefold.runtime.group import Group
from treefold.torch import collectives
from treefold.torch.crossing import Crossing
from treefold.torch.devices import Device


class Copy(NamedTuple):
    """Elements on the device, and the element of the host vector at which they begin."""

    device: torch.Tensor
    first: int


class Piece(NamedTuple):
    """A piece of a call."""

    elements: int
    """How many elements its host vector has."""
    into: list[Copy]
    back: list[Copy]
    run: Callable[[Group, torch.Tensor], Iterator[None]]
    """Begins the operation on the host vector up to its first yield, and waits for its end behind it."""


class Call(NamedTuple):
    """A call that is staged."""

    dtype: torch.dtype
    pieces: list[Piece]
    uses: list[torch.Tensor]
    """All tensors that it reads or writes."""
    stores: list[tuple[torch.Tensor, torch.Tensor]]
    """Tensors that are not contiguous, and what is to be copied to them in the end."""
    finish: Callable[[], None] = lambda: None
    """What is to be done in the end on the stream that copies back."""


class Cut(NamedTuple):
    """How calls are cut."""

    device: Device
    group: Group
    plan: Plan
    """The all-reduce's plan that says what belongs together, the same on all ranks at any time."""
    most_bytes: int
    """The most bytes of a host vector."""


Rows = Sequence[torch.Tensor]
"""The flat blocks of all workers, by worker."""


def all_reduce(cut: Cut, tensors: Sequence[torch.Tensor], operator: Any, crossing: Crossing) -> Call:
    """Return the pieces of an all-reduce of tensors, in place."""
    pieces, uses, stores = [], list(tensors), []
    for tensor in tensors:
        dense = _dense(cut, tensor)
        uses.append(dense)
        stores += _stores([tensor], [dense])
        wire, kept = crossing.wire_of(tensor, operator), crossing.residual_of(tensor, operator)
        flat = dense.view(-1)
        for part, places in _parts(cut.plan, flat.numel(), max(1, cut.most_bytes // flat.element_size())):
            copies = _copies(flat, places)
            run = partial(_reduce, plan=part, operator=operator, wire=wire, residual=_Residual(kept, places))
            pieces.append(Piece(sum(stop - start for start, stop in places), copies, copies, run))
    return Call(tensors[0].dtype, pieces, uses, stores)


@lru_cache(maxsize=64)
def _parts(plan: Plan, elements: int, most: int) -> list[tuple[Plan, list[tuple[int, int]]]]:
    """Return the parts of a vector: the buckets of a model come again in each step."""
    return vector_parts(plan, elements, most)


def _copies(flat: torch.Tensor, places: Sequence[tuple[int, int]]) -> list[Copy]:
    copies, first = [], 0
    for start, stop in places:
        copies.append(Copy(flat[start:stop], first))
        first += stop - start
    return copies


class _Residual:
    """What rounding has taken from the elements of a piece, if that is kept."""

    def __init__(self, kept: torch.Tensor | None, places: Sequence[tuple[int, int]]) -> None:
        self._kept, self._places = kept, places

    def gathered(self) -> Any:
        """Return it as an array of its own; None if it is not kept."""
        if self._kept is None:
            return None
        flat = self._kept.reshape(-1)
        return torch.cat([flat[start:stop] for start, stop in self._places]).numpy()

    def keep(self, array: Any) -> None:
        """Keep it again after the operation."""
        if self._kept is None:
            return
        flat, first = self._kept.reshape(-1), 0
        for start, stop in self._places:
            flat[start:stop] = torch.from_numpy(array[first : first + stop - start])
            first += stop - start
        if flat.data_ptr() != self._kept.data_ptr():
            self._kept.copy_(flat.view(self._kept.shape))


def _reduce(
    group: Group, host: torch.Tensor, plan: Plan, operator: Any, wire: str | None, residual: _Residual
) -> Iterator[None]:
    feedback = residual.gathered()
    pending = collectives.start_plan(group, plan, host, operator, wire=wire, residual=feedback)
    yield
    pending.wait()
    residual.keep(feedback)
    collectives.average(group, host, operator)


def broadcast(cut: Cut, tensor: torch.Tensor, root: int) -> Call:
    """Return the pieces of a broadcast of worker `root`'s tensor, in place."""
    is_root = cut.group.worker == root
    return _of_vector(cut, tensor, partial(collectives.broadcast, root=root), is_read=is_root, is_written=not is_root)


def reduce(cut: Cut, tensor: torch.Tensor, root: int, operator: Any) -> Call:
    """Return the pieces of a reduction into the tensor of worker `root`; others keep theirs."""
    run = partial(collectives.reduce, root=root, operator=operator)
    return _of_vector(cut, tensor, run, is_read=True, is_written=cut.group.worker == root)


def _of_vector(cut: Cut, tensor: torch.Tensor, run: Any, is_read: bool, is_written: bool) -> Call:
    dense = _dense(cut, tensor)
    flat, pieces = dense.view(-1), []
    for first, stop in _cuts(flat.numel(), max(1, cut.most_bytes // flat.element_size())):
        copy = [Copy(flat[first:stop], 0)]
        pieces.append(Piece(stop - first, copy if is_read else [], copy if is_written else [], run))
    return Call(tensor.dtype, pieces, [tensor, dense], _stores([tensor] if is_written else [], [dense]))


def _dense(cut: Cut, tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor if it is contiguous, or a copy that is, which the caller's stream fills."""
    if tensor.is_contiguous():
        return tensor.detach()
    dense = torch.empty_like(tensor, memory_format=torch.contiguous_format)
    cut.device.copy(dense, tensor.detach(), cut.device.current())
    return dense


def _stores(targets: Sequence[torch.Tensor], dense: Sequence[torch.Tensor]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the tensors to which dense copies have to be copied in the end."""
    pairs = zip(targets, dense, strict=False)
    return [(target, each) for target, each in pairs if each.data_ptr() != target.data_ptr()]


def all_gather(cut: Cut, output: torch.Tensor, block: torch.Tensor) -> Call:
    """Return the pieces of an all-gather into one tensor."""
    dense = _dense(cut, output)
    return _gather(cut, list(dense.view(cut.group.size, -1)), block, _stores([output], [dense]))


def all_gather_list(cut: Cut, outputs: Sequence[torch.Tensor], block: torch.Tensor) -> Call:
    """Return the pieces of an all-gather into a tensor for each worker."""
    dense = [_dense(cut, output) for output in outputs]
    return _gather(cut, [each.view(-1) for each in dense], block, _stores(outputs, dense))


def _gather(cut: Cut, rows: Rows, block: torch.Tensor, stores: list[tuple[torch.Tensor, torch.Tensor]]) -> Call:
    group, flat, pieces = cut.group, _dense(cut, block).view(-1), []
    for first, stop in _cuts_of_blocks(cut, flat, group.size):
        length = stop - first
        into, back = [Copy(flat[first:stop], group.rank * length)], _of_rows(group, rows, first, stop)
        pieces.append(Piece(group.size * length, into, back, collectives.gather_in_place))
    return Call(block.dtype, pieces, [*rows, flat, *(target for target, _ in stores)], stores)


def reduce_scatter(cut: Cut, output: torch.Tensor, vector: torch.Tensor, operator: Any, crossing: Crossing) -> Call:
    """Return the pieces of a reduce-scatter."""
    group, dense, pieces = cut.group, _dense(cut, output), []
    flat, rows = dense.view(-1), list(_dense(cut, vector).view(cut.group.size, -1))
    run = partial(collectives.scatter_in_place, operator=operator, crossing=crossing)
    for first, stop in _cuts_of_blocks(cut, flat, group.size):
        length = stop - first
        into, back = _of_rows(group, rows, first, stop), [Copy(flat[first:stop], group.rank * length)]
        pieces.append(Piece(group.size * length, into, back, run))
    return Call(output.dtype, pieces, [output, dense, *rows], _stores([output], [dense]))


def all_to_all(cut: Cut, output: torch.Tensor, vector: torch.Tensor) -> Call:
    """Return the pieces of an all-to-all of equal blocks; what is received stands behind what is sent."""
    group, dense, pieces = cut.group, _dense(cut, output), []
    received, rows = (list(each.view(group.size, -1)) for each in (dense, _dense(cut, vector)))
    for first, stop in _cuts_of_blocks(cut, rows[0], 2 * group.size):
        behind = group.size * (stop - first)
        into, back = _of_rows(group, rows, first, stop), _of_rows(group, received, first, stop, behind)
        pieces.append(Piece(2 * behind, into, back, collectives.swap_halves))
    return Call(output.dtype, pieces, [output, *received, *rows], _stores([output], [dense]))


def _of_rows(group: Group, rows: Rows, first: int, stop: int, behind: int = 0) -> list[Copy]:
    """Return the same elements of all blocks; on the host, they stand in the order of the plan's ranks."""
    order = group.mapping.rank_of_worker
    return [Copy(row[first:stop], behind + order[worker] * (stop - first)) for worker, row in enumerate(rows)]


def _cuts(elements: int, most: int) -> Iterator[tuple[int, int]]:
    """Cut so many elements into pieces of at most `most`, which are nearly equal."""
    count = -(-elements // most)
    return pairwise(elements * number // count for number in range(count + 1))


def _cuts_of_blocks(cut: Cut, block: torch.Tensor, copies: int) -> Iterator[tuple[int, int]]:
    """Cut a block so that `copies` pieces of it together have no more bytes than one piece may have."""
    return _cuts(block.numel(), max(1, cut.most_bytes // (block.element_size() * copies)))
