"""The process group `treefold`: it plans what it can, and passes everything else to the process group that it wraps.

It is a Python subclass of torch's process group, and `wrapped` is a plain one over gloo (or others). Every collective
is forwarded explicitly. If it were left to the base class, a call would reach gloo, too, but with the GIL held, and
deadlock with gloo's thread, which takes the GIL while it holds the lock of its queue (torch 2.15).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed import distributed_c10d as c10d

from treefold.errors import TreefoldError
from treefold.torch import collectives, wrapped
from treefold.torch.devices import with_current_stream
from treefold.torch.planned import PlannedCalls
from treefold.torch.sources import Agreed, Members
from treefold.torch.starting import start, start_on_host
from treefold.torch.work import OrderedExecutor, Work, bytes_of

_COLLECTIVES = (
    *("allgather_coalesced", "all_gather_single_coalesced"),
    *("allgather_into_tensor_coalesced", "alltoall"),
    *("gather", "gather_into_tensor", "gather_single", "monitored_barrier", "scatter"),
    *("reduce_scatter", "reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced"),
)
_POINT_TO_POINT = ("send", "recv", "recv_anysource", "_start_coalescing", "_end_coalescing")
_MESSAGES = ("send", "recv", "recv_anysource")
_CALLS = {
    **{"allreduce": "all_reduce", "allreduce_coalesced": "all_reduce", "allgather": "all_gather"},
    **{"_allgather_base": "all_gather", "_reduce_scatter_base": "reduce_scatter", "alltoall_base": "all_to_all"},
    **{"alltoall": "all_to_all"},
}
"""What statistics call the calls that are passed on, where that is not the wrapped group's name."""
_SETTINGS = ("set_timeout", "_add_ephemeral_timeout", "_set_sequence_number_for_group")


class ProcessGroup(dist.ProcessGroup):
    """A process group that runs the planned calls on tensors of `least_bytes` or more, or all with TLS, by a plan.

    It passes everything else to the group that it wraps.

    Example:
        >>> import torch.distributed as dist
        >>> import treefold.torch
        >>> dist.init_process_group("treefold", store=dist.HashStore(), rank=0, world_size=1)
        >>> isinstance(dist.group.WORLD, treefold.torch.ProcessGroup)
        True
        >>> dist.destroy_process_group()

    """

    def __init__(self, given: Any, options: object, agreed: Agreed | None = None) -> None:
        """Make a process group; all of its ranks do so at the same time.

        Args:
            given: torch's description of the new group.
            options: The group's `pg_options`.
            agreed: The plan on which its ranks have agreed already; by default that for which the options ask.

        """
        super().__init__(given.group_rank, given.group_size)  # without a store, because `get_group_store` is overridden
        self._store = given.store
        store = dist.PrefixStore("planned/", given.store)
        members = Members(store, given.group_rank, given.group_size, given.global_ranks_in_group, given.timeout, agreed)
        self.planned = PlannedCalls(options, members)
        try:
            is_lazy = agreed is not None and agreed.plan is not None  # most quorums of torchft never need gloo then
            self.wrapped = wrapped.wrap(given, self.planned.options.wraps, self, is_lazy=is_lazy)
        except BaseException:
            self.planned.close()  # a rank that was lost meanwhile must not leave the others' connections behind
            raise
        self._executor = OrderedExecutor("treefold")

    @property
    def bound_device_id(self) -> None:
        """No device, as a device mesh would split a group that has one, and make plain groups of it."""
        return None

    @bound_device_id.setter
    def bound_device_id(self, device: object) -> None:
        """Ignore what `init_process_group(device_id=...)` says."""

    def split_group(self, *_args: Any, **_kwargs: Any) -> Any:
        """Refuse to split, as the parts would be plain groups of the wrapped backend."""
        raise TreefoldError("a group of the backend treefold cannot be split; call new_group instead of split_group")

    def getBackendName(self) -> str:
        """Return the name by which the backend is registered."""
        return "treefold"

    def get_group_store(self) -> Any:
        """Return the store that the group's ranks share."""
        return self._store

    def allreduce(self, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        """Reduce a list of tensors in place."""
        options = _options(c10d.AllreduceOptions, args, kwargs)
        if options is not None and self.planned.takes(tensors, operator := options.reduceOp.op):
            how = {"tensors": tensors, "operator": operator, "crossing": self.planned.crossing}
            return self._plan(options, "all_reduce", tensors, **how)
        return self.pass_on("allreduce", tensors, *args, **kwargs)

    def allreduce_coalesced(self, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        """Reduce each tensor of a list in place."""
        options = _options(c10d.AllreduceCoalescedOptions, args, kwargs)
        if options is not None and self.planned.takes(tensors, operator := options.reduceOp.op):
            how = {"tensors": tensors, "operator": operator, "crossing": self.planned.crossing}
            return self._plan(options, "all_reduce", tensors, **how)
        return self.pass_on("allreduce_coalesced", tensors, *args, **kwargs)

    def broadcast(self, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        """Give all ranks the root's tensor."""
        options = _options(c10d.BroadcastOptions, args, kwargs)
        if options is not None and len(tensors) == 1 and self.planned.takes(tensors, collective="broadcast"):
            return self._plan(options, "broadcast", tensors, tensor=tensors[0], root=options.rootRank)
        return self.pass_on("broadcast", tensors, *args, **kwargs)

    def reduce(self, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        """Reduce a tensor into the root's."""
        options = _options(c10d.ReduceOptions, args, kwargs)
        if options is not None and len(tensors) == 1:
            how = {"tensor": tensors[0], "root": options.rootRank, "operator": options.reduceOp.op}
            if self.planned.takes(tensors, options.reduceOp.op, "reduce"):
                return self._plan(options, "reduce", tensors, **how)
        return self.pass_on("reduce", tensors, *args, **kwargs)

    def allgather(self, outputs: Any, blocks: Any, *args: Any, **kwargs: Any) -> Any:
        """Gather the blocks of all ranks into a tensor each; it is planned if calls of any size are."""
        options = _options(c10d.AllgatherOptions, args, kwargs)
        if options is not None and self.planned.takes_all and len(outputs) == len(blocks) == 1:
            (results,), (block,) = outputs, blocks
            fits = len(results) == self.size()
            fits = fits and all(each.shape == block.shape and each.dtype == block.dtype for each in results)
            if fits and self.planned.takes([*results, block], collective="all-gather"):
                return self._plan(options, "all_gather_list", results, block, outputs=results, block=block)
        return self.pass_on("allgather", outputs, blocks, *args, **kwargs)

    def barrier(self, *args: Any, **kwargs: Any) -> Any:
        """Wait for all ranks; it is planned if calls of any size are, and the barrier is not of other devices."""
        options = _options(c10d.BarrierOptions, args, kwargs)
        if options is not None and self.planned.takes_all and _is_on_cpu(options):
            run = partial(collectives.barrier, self.planned.group)
            return start_on_host(self._executor, run, [], in_background=_is_async(options))
        return self.pass_on("barrier", *args, **kwargs)

    def all_gather_single(self, output: Any, block: Any, *args: Any, **kwargs: Any) -> Any:
        """Gather blocks of all ranks into one tensor."""
        options = _options(c10d.AllgatherOptions, args, kwargs)
        fits = block.numel() * self.size() == output.numel() and block.dtype == output.dtype
        if options is not None and fits and self.planned.takes([output], collective="all-gather"):
            return self._plan(options, "all_gather", [output], block, output=output, block=block)
        return self.pass_on("_allgather_base", output, block, *args, **kwargs)

    def reduce_scatter_single(self, output: Any, vector: Any, *args: Any, **kwargs: Any) -> Any:
        """Reduce a tensor and leave every rank its block."""
        options = _options(c10d.ReduceScatterOptions, args, kwargs)
        fits = output.numel() * self.size() == vector.numel() and output.dtype == vector.dtype
        if (
            options is not None
            and fits
            and self.planned.takes([vector], operator := options.reduceOp.op, "reduce-scatter")
        ):
            how = {"output": output, "vector": vector, "operator": operator, "crossing": self.planned.crossing}
            return self._plan(options, "reduce_scatter", [output], vector, **how)
        return self.pass_on("_reduce_scatter_base", output, vector, *args, **kwargs)

    def all_to_all_single(
        self, output: Any, vector: Any, output_sizes: Any = (), input_sizes: Any = (), *args: Any, **kwargs: Any
    ) -> Any:
        """Exchange blocks between all ranks; blocks are equal if no sizes are given."""
        options = _options(c10d.AllToAllOptions, args, kwargs)
        forward = partial(self.wrapped.alltoall_base, output, vector, output_sizes, input_sizes, *args, **kwargs)
        if options is not None and output.dtype == vector.dtype:
            # Sizes that are equal on this rank may differ on another one, and all ranks have to decide alike.
            if output_sizes or input_sizes:
                is_on_host = self.planned.staging(vector.device) is None
                if is_on_host and self.planned.takes_any([vector, output], collective="all-to-all"):
                    sizes = collectives.Sizes(list(input_sizes), list(output_sizes))
                    run = partial(self._exchange, output, vector, sizes, forward)
                    return start_on_host(self._executor, run, [output], [vector], _is_async(options))
            elif (
                vector.numel() % self.size() == 0
                and output.numel() == vector.numel()
                and self.planned.takes([vector], collective="all-to-all")
            ):
                return self._plan(options, "all_to_all", [output], vector, output=output, vector=vector)
        return self.pass_on("alltoall_base", output, vector, output_sizes, input_sizes, *args, **kwargs)

    def _exchange(
        self, output: Any, vector: Any, sizes: collectives.Sizes, forward: Callable[[], Any]
    ) -> Iterator[None]:
        """Tell all ranks the sizes of all blocks, and exchange the blocks by the plan, or forward the call.

        All of it begins the operation, as ranks begin operations in the same order.
        """
        group = self.planned.group
        of_all = collectives.sizes_of_all(group, vector, sizes)
        size = vector.element_size() * int(of_all.sum(axis=1).max())
        if self.planned.is_large(size):
            end = self.planned.counters.begin("all_to_all", size, size, 0)
            try:
                collectives.exchange(group, output, vector, of_all, sizes)
            finally:
                end()
        else:
            self.planned.counters.pass_on("all_to_all", bytes_of(vector))
            _result(forward())
        yield

    alltoall_base = all_to_all_single
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single

    def _plan(self, options: Any, collective: str, results: list[Any], *inputs: torch.Tensor, **how: Any) -> Work:
        """Start a planned operation, which leaves its results in tensors; `how` is what its functions are given."""
        in_background = _is_async(options)
        return start(self.planned, self._executor, collective, results, *inputs, in_background=in_background, **how)

    def pass_on(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Let the wrapped group run an operation, after the planned ones that were issued before."""
        self.planned.counters.pass_on(_CALLS.get(name, name), max(map(bytes_of, args[:2]), default=0))
        call = partial(getattr(self.wrapped, name), *args, **kwargs)
        if self._executor.is_idle:
            return call()
        in_stream = with_current_stream(call)
        return self._executor.start(Work(name), lambda: _result(in_stream()), in_background=True)

    def shutdown(self) -> None:
        """End the group once its operations are done: its thread, its connections and the wrapped group."""
        self._executor.close()
        self.planned.close()
        self.wrapped.shutdown()

    def abort(self) -> None:
        """End the group; planned operations that are under way fail."""
        self.planned.abort()
        self.wrapped.abort()


def _options(kind: type, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the options of a call; None for the short forms of calls, which are left to the wrapped group."""
    options = args[0] if args else kwargs.get("opts")
    return options if isinstance(options, kind) else None


def _is_async(options: Any) -> bool:
    """Tell whether the caller does not wait; not all options say it."""
    return bool(getattr(options, "asyncOp", True))


def _is_on_cpu(options: Any) -> bool:
    """Tell whether a barrier waits for no other device than the CPU."""
    return not options.device_ids and (options.device is None or options.device.type == "cpu")


def _result(handle: Any) -> Any:
    """Wait for an operation of the wrapped group and return its result."""
    handle.wait()
    return handle.get_future().wait()


def _forward(name: str, waits_its_turn: bool) -> Callable[..., Any]:
    def in_turn(self: ProcessGroup, *args: Any, **kwargs: Any) -> Any:
        return self.pass_on(name, *args, **kwargs)

    def at_once(self: ProcessGroup, *args: Any, **kwargs: Any) -> Any:
        if name in _MESSAGES:
            self.planned.counters.pass_on(name, bytes_of(args[0]))
        return getattr(self.wrapped, name)(*args, **kwargs)

    return in_turn if waits_its_turn else at_once


for _names, _waits in ((_COLLECTIVES, True), (_POINT_TO_POINT, False), (_SETTINGS, False)):
    for _name in _names:  # some of them only some versions of torch have; the others never call them
        setattr(ProcessGroup, _name, _forward(_name, _waits))


def _create(given: Any, options: object) -> ProcessGroup:
    try:
        return ProcessGroup(given, options)
    except TreefoldError as error:
        raise error.with_traceback(None) from None  # its message says all; a traceback would hide it


def register() -> None:
    """Make the backend known to torch.distributed; harmless when called again.

    `import treefold.torch` calls it, which PyTorch 2.14 and later do by themselves.

    Example:
        >>> import torch.distributed as dist
        >>> import treefold.torch
        >>> treefold.torch.register()
        >>> "treefold" in dist.Backend.backend_list
        True

    """
    if "TREEFOLD" not in c10d.Backend._plugins:
        c10d.Backend.register_backend("treefold", _create, extended_api=True, devices=["cpu", "cuda"])
