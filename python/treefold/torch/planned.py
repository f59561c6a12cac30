"""What a group runs by a plan: which operations, and on which executor.

An operation is planned where the group has a plan and the tensors are CPU tensors of a type and operator that gloo has,
large enough; all ranks decide alike because they see the same sizes and types. The rest is the wrapped backend's.
"""

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist

from treefold import verbs
from treefold._core import Plan, Topology, TreefoldError
from treefold.torch.options import Options

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_COMPLEX = (torch.complex64, torch.complex128)
_INTEGERS = (torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool)

_Reduction = dist.ReduceOp.RedOpType
OPERATORS: dict[Any, tuple[str, frozenset[torch.dtype]]] = {
    _Reduction.SUM: ("sum", frozenset(_FLOATS + _COMPLEX + _INTEGERS)),
    _Reduction.AVG: ("sum", frozenset(_FLOATS + _COMPLEX)),
    _Reduction.PRODUCT: ("prod", frozenset(_FLOATS + _INTEGERS)),
    _Reduction.MIN: ("min", frozenset(_FLOATS + _INTEGERS)),
    _Reduction.MAX: ("max", frozenset(_FLOATS + _INTEGERS)),
    _Reduction.BAND: ("band", frozenset(_INTEGERS)),
    _Reduction.BOR: ("bor", frozenset(_INTEGERS)),
    _Reduction.BXOR: ("bxor", frozenset(_INTEGERS)),
}
"""The executor's name of each of torch's reductions, and the types for which gloo has it."""


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a CPU tensor of numbers in memory, as the executor takes them."""
    return (
        tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not (tensor.is_conj() or tensor.is_neg() or tensor.is_quantized)
    )


def as_bytes(tensor: torch.Tensor) -> Any:
    """Return the memory of a contiguous tensor as a flat NumPy array of bytes."""
    return tensor.detach().reshape(-1).view(torch.uint8).numpy()


class Planned:
    """The planned operations of one group; its workers join when the first of them is run, or `join` is called."""

    def __init__(
        self,
        options: Options,
        store: dist.Store,
        rank: int,
        size: int,
        members: Sequence[int] = (),
        timeout: timedelta = timedelta(minutes=30),
    ) -> None:
        self._options, self._store, self._rank, self._size = options, store, rank, size
        self._timeout_s = timeout.total_seconds()
        self._source = source_of(options, size, members)
        self._executor: Any = None

    @property
    def is_active(self) -> bool:
        """Whether anything is planned in this group."""
        return self._source is not None

    def takes(self, tensors: Sequence[torch.Tensor], operator: Any) -> bool:
        """Return whether an all-reduce of these tensors is planned; the same on all ranks."""
        if self._source is None or operator not in OPERATORS:
            return False
        types = OPERATORS[operator][1]
        total = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        return total >= max(1, self._options.least_bytes) and all(is_plain(t) and t.dtype in types for t in tensors)

    def join(self) -> Any:
        """Return this rank's executor; the first call meets the other ranks."""
        if self._executor is None:
            from treefold.workers import group, rendezvous

            store = dist.PrefixStore("treefold/", self._store)
            met = rendezvous.of_store(store, self._rank, self._size, timeout_s=self._timeout_s)
            self._executor = group.join(met, self._source, transport=self._options.transport)
        return self._executor

    def all_reduce(self, tensors: Sequence[torch.Tensor], operator: Any) -> None:
        """Reduce each of the tensors over all ranks, in place; blocks."""
        name = OPERATORS[operator][0]
        for tensor in tensors:
            if tensor.numel() == 0:
                continue
            dense = tensor.detach().contiguous()
            self.join().all_reduce(as_bytes(dense), name, dtype=str(dense.dtype).removeprefix("torch."))
            if operator == _Reduction.AVG:
                dense.div_(self._size)
            if dense.data_ptr() != tensor.data_ptr():
                tensor.detach().copy_(dense)

    def close(self) -> None:
        """Leave the group."""
        executor, self._executor, self._source = self._executor, None, None
        if executor is not None:
            executor.close()


def source_of(options: Options, size: int, members: Sequence[int]) -> Plan | Topology | None:
    """Return what a group of `size` ranks, the global ranks `members` (none: all), goes by; None hands everything on."""
    if size == 1:
        return None
    is_world = list(members) in ([], list(range(size)))
    if options.plan is not None:
        return _plan_for(options.plan, size, is_world)
    if options.topology is not None:
        return _topology_for(options.topology, list(members) or list(range(size)), is_world)
    return None


def _plan_for(source: Plan | str | os.PathLike[str], size: int, is_world: bool) -> Plan | None:
    plan = source if isinstance(source, Plan) else _read_plan(source)
    if plan.topology.ranks == size:
        return plan if is_world else None
    if is_world:
        raise TreefoldError(
            f"the plan is for {plan.topology.ranks} ranks, the process group has {size}; "
            f"plan for {size} ranks, or give a topology (TREEFOLD_TOPOLOGY) instead of a plan"
        )
    return None


def _read_plan(path: str | os.PathLike[str]) -> Plan:
    try:
        return Plan.from_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise TreefoldError(f"plan {os.fspath(path)} cannot be read ({error}); make it with `treefold plan -o`") from None


def _topology_for(
    source: Topology | str | os.PathLike[str], members: Sequence[int], is_world: bool
) -> Topology:
    network = source if isinstance(source, Topology) else verbs.topology(source)
    if os.environ.get("TREEFOLD_NAME"):
        return network  # workers find their accelerators by name when they join
    if max(members) >= network.ranks or (is_world and len(members) != network.ranks):
        raise TreefoldError(
            f"topology {network.name} has {network.ranks} ranks, the process group has {len(members)}; give a "
            "topology with one rank a process, or name every process in it with TREEFOLD_NAME"
        )
    positions = [network.accelerator_names.index(name) for name in network.rank_names]
    return network.with_ranks([positions[member] for member in members])
