"""The communication hook: DDP on any backend averages its gradients through treefold."""

import atexit
import queue
import threading
import weakref
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist

from treefold.errors import TreefoldError
from treefold.torch.group import ProcessGroup
from treefold.torch.planned import PlannedCalls
from treefold.torch.reporting import Status
from treefold.torch.sources import Members
from treefold.torch.starting import start
from treefold.torch.work import OrderedExecutor
from treefold.torch.wrapped import wraps_of

_TIMEOUT = timedelta(minutes=5)
_AVERAGE = dist.ReduceOp.RedOpType.AVG


def comm_hook(state: dist.ProcessGroup | None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average a bucket of gradients over the ranks, as a communication hook of DDP.

    A planned bucket waits at most 5 minutes for the other ranks, whatever the timeout of the process group is; then its
    future raises the error.

    Args:
        state: The process group of the model, of any backend; None for the group of all ranks.
        bucket: The bucket of DDP. If nothing is planned (no plan or topology, a small bucket), the
            group's own all_reduce averages it.

    Returns:
        A future of the averaged bucket.

    Example:
        >>> model.register_comm_hook(None, treefold.torch.comm_hook)       # doctest: +SKIP

    """
    group = state if state is not None else dist.group.WORLD
    buffer = bucket.buffer()
    if not isinstance(group, ProcessGroup):
        executor, planned = _executor_of(group)
        if planned.takes([buffer], _AVERAGE):
            how = {"tensors": [buffer], "operator": _AVERAGE, "crossing": planned.crossing}
            return start(planned, executor, "all_reduce", [buffer], **how).get_future().then(_first)
    buffer.div_(dist.get_world_size(group))
    return dist.all_reduce(buffer, group=group, async_op=True).get_future().then(_first)


def _first(done: Any) -> torch.Tensor:
    tensor: torch.Tensor = done.value()[0]
    return tensor


_executors: "weakref.WeakKeyDictionary[dist.ProcessGroup, tuple[OrderedExecutor, PlannedCalls]]" = (
    weakref.WeakKeyDictionary()
)


def _executor_of(group: dist.ProcessGroup) -> tuple[OrderedExecutor, PlannedCalls]:
    """Return what runs the planned operations of a group of another backend; it ends with the group."""
    if group not in _executors:
        store = dist.PrefixStore("treefold-hook/", group.get_group_store())
        ranks = dist.get_process_group_ranks(group)
        members = Members(store, group.rank(), group.size(), ranks, _TIMEOUT)
        planned = PlannedCalls(None, members, wraps=wraps_of(group))
        executor = OrderedExecutor("treefold-hook")
        _executors[group] = executor, planned
        _close_with(group, executor, planned)
    return _executors[group]


def status(group: dist.ProcessGroup | None = None) -> Status:
    """Return which operations of a process group run by a plan, or why none do; `print` shows it as a sentence.

    Args:
        group: A process group of the backend treefold, or of another one with the communication hook; None for the
            group of all ranks.

    Raises:
        TreefoldError: If there is no process group yet, or it is of another backend and no bucket has come to the
            communication hook so far: ask after the first backward pass.

    Example:
        >>> print(treefold.torch.status())                                 # doctest: +SKIP
        treefold plans tensors of 4KiB or more with ring on network 'ring:4' (4 ranks), over tcp; ...

    """
    group = group if group is not None else dist.group.WORLD
    if isinstance(group, ProcessGroup):
        return group.planned.status
    if group is None:
        raise TreefoldError("there is no process group yet; call init_process_group first")
    if group not in _executors:
        raise TreefoldError(
            f"the process group's backend is {dist.get_backend(group)} and no bucket has come to the communication "
            "hook; name the backend treefold, or ask after the first backward pass"
        )
    return _executors[group][1].status


def _close_with(group: dist.ProcessGroup, executor: OrderedExecutor, planned: PlannedCalls) -> None:
    """Close what runs the operations of a group when the group is gone, or at the end of the program.

    Groups go when Python collects garbage, which it may do in any thread, even in one that holds a lock of `threading`
    because it starts. There nothing may wait. So a thread of its own closes, and what it is told through may be called
    anywhere (`SimpleQueue.put`).
    """
    gone: queue.SimpleQueue[None] = queue.SimpleQueue()
    closer = threading.Thread(target=_close, args=(gone, executor, planned), name="treefold-hook-closer", daemon=True)
    closer.start()
    weakref.finalize(group, gone.put, None)
    atexit.register(_close_now, gone, closer)


def _close(gone: "queue.SimpleQueue[None]", executor: OrderedExecutor, planned: PlannedCalls) -> None:
    gone.get()
    executor.close()
    planned.close()


def _close_now(gone: "queue.SimpleQueue[None]", closer: threading.Thread) -> None:
    gone.put(None)
    closer.join()
