"""The process group `treefold`: plans what it can, and passes everything else to the process group that it wraps.

Two groups in one: `wrapped` is a plain process group of torch over gloo (or others); ours is a Python subclass that
forwards to it. Every collective is forwarded explicitly. Left to the base class, a call would reach gloo too, but with
the GIL held, and deadlock with gloo's thread, which takes the GIL while it holds the lock of its queue (torch 2.15).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed.distributed_c10d import Backend

from treefold._core import TreefoldError
from treefold.torch.options import Options, chosen
from treefold.torch.planned import Planned
from treefold.torch.work import Lane, Work

_COLLECTIVES = (
    *("allgather", "_allgather_base", "all_gather_single", "allgather_coalesced", "all_gather_single_coalesced"),
    *("allgather_into_tensor_coalesced", "allreduce_sparse", "alltoall", "alltoall_base", "all_to_all_single"),
    *("barrier", "broadcast", "gather", "gather_into_tensor", "gather_single", "monitored_barrier", "reduce"),
    *("reduce_scatter", "_reduce_scatter_base", "reduce_scatter_single", "reduce_scatter_single_coalesced"),
    *("reduce_scatter_tensor_coalesced", "scatter"),
)
_POINT_TO_POINT = ("send", "recv", "recv_anysource", "_start_coalescing", "_end_coalescing")
_SETTINGS = ("set_timeout", "_set_default_timeout", "_add_ephemeral_timeout", "_set_sequence_number_for_group")


class ProcessGroup(dist.ProcessGroup):
    """A process group that runs large all-reduces by a plan."""

    def __init__(self, given: Any, options: Options) -> None:
        """Make the group of `given`, torch's options of a new group, which all of its ranks make at the same time."""
        super().__init__(given.store, given.group_rank, given.group_size)
        self.wrapped = _wrap(self, given, options)
        self._lane = Lane("treefold")
        self.planned = Planned(
            options, given.store, given.group_rank, given.group_size, given.global_ranks_in_group, given.timeout
        )
        if self.planned.is_active and not given.global_ranks_in_group:
            self.planned.join()  # a wrong plan is an error here, not in the first all-reduce

    def getBackendName(self) -> str:
        """Return the name by which the backend is registered."""
        return "treefold"

    def allreduce(self, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        """Reduce a list of one tensor in place, planned or not, as torch.distributed asks for it."""
        return self._all_reduce("allreduce", tensors, *args, **kwargs)

    def allreduce_coalesced(self, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        """Reduce each tensor of a list in place, planned or not."""
        return self._all_reduce("allreduce_coalesced", tensors, *args, **kwargs)

    def _all_reduce(self, name: str, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        options = args[0] if args else kwargs.get("opts")
        if isinstance(tensors, list) and isinstance(options, dist.AllreduceOptions):
            operator = options.reduceOp.op
            if self.planned.takes(tensors, operator):
                run = lambda: self.planned.all_reduce(tensors, operator)  # noqa: E731
                return self._lane.start(Work("all_reduce", tensors), run, in_background=options.asyncOp)
        return self.pass_on(name, *(tensors, *args), **kwargs)

    def pass_on(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Have the wrapped group run an operation, after the planned ones that were issued before."""
        operation = getattr(self.wrapped, name)
        if self._lane.is_idle:
            return operation(*args, **kwargs)
        return self._lane.start(Work(name, []), lambda: operation(*args, **kwargs).wait(), in_background=True)

    def shutdown(self) -> None:
        """End the group: its thread, its connections and the wrapped group."""
        self._lane.close()
        self.planned.close()
        self.wrapped.shutdown()

    def abort(self) -> None:
        """End the group at once."""
        self.planned.close()
        self.wrapped.abort()


def _forward(name: str, waits_its_turn: bool) -> Callable[..., Any]:
    def in_turn(self: ProcessGroup, *args: Any, **kwargs: Any) -> Any:
        return self.pass_on(name, *args, **kwargs)

    def at_once(self: ProcessGroup, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.wrapped, name)(*args, **kwargs)

    return in_turn if waits_its_turn else at_once


for _names, _waits in ((_COLLECTIVES, True), (_POINT_TO_POINT, False), (_SETTINGS, False)):
    for _name in _names:
        if hasattr(dist.ProcessGroup, _name):
            setattr(ProcessGroup, _name, _forward(_name, _waits))


def _wrap(group: ProcessGroup, given: Any, options: Options) -> Any:
    """Return the plain process group behind `group`, whose backends it is told of too."""
    store, rank, size = given.store, given.group_rank, given.group_size
    plain = dist.ProcessGroup(store, rank, size)
    made: dict[str, Any] = {}
    for device, name in _backends(options.wraps).items():
        if name not in made:
            made[name] = _backend(name, given)
        kind = Backend.backend_type_map.get(name, dist.ProcessGroup.BackendType.CUSTOM)
        for each in (plain, group):
            each._set_default_backend(kind)
            each._register_backend(torch.device(device), kind, made[name])
    return plain


def _backends(wraps: str | None) -> dict[str, str]:
    """Return the wrapped backend of each device type."""
    if wraps is None:
        has_cuda = torch.cuda.is_available() and dist.is_nccl_available()
        return {"cuda": "nccl", "cpu": "gloo"} if has_cuda else {"cpu": "gloo"}
    if ":" in wraps:
        pairs = [part.strip().partition(":") for part in wraps.split(",")]
        return {device: name.lower() for device, _, name in pairs}
    devices = Backend.backend_capability.get(wraps.lower(), ["cpu"])
    return {device: wraps.lower() for device in devices if device == "cpu" or torch.cuda.is_available()}


def _backend(name: str, given: Any) -> Any:
    """Return a new backend of torch for the ranks of `given`."""
    store = dist.PrefixStore(f"wrapped/{name}/", given.store)
    if name == "gloo":
        return dist.ProcessGroupGloo(store, given.group_rank, given.group_size, timeout=given.timeout)
    getattr(Backend, "_ensure_backend_registered", lambda _: None)(name)
    plugin = Backend._plugins.get(name.upper())
    if plugin is None or name == "treefold":
        known = ", ".join(sorted(Backend.backend_type_map.keys() - {"treefold", "undefined"}))
        raise TreefoldError(f"backend '{name}' cannot be wrapped; known are {known}")
    if not plugin.extended_api:
        return plugin.creator_fn(store, given.group_rank, given.group_size, given.timeout)
    outer, given.store = given.store, store
    try:
        return plugin.creator_fn(given, None)
    finally:
        given.store = outer


def _create(given: Any, options: object) -> ProcessGroup:
    return ProcessGroup(given, chosen(options))


def register() -> None:
    """Make the backend known to torch.distributed; harmless when called again."""
    if "TREEFOLD" not in Backend._plugins:
        Backend.register_backend("treefold", _create, extended_api=True, devices=["cpu", "cuda"])
