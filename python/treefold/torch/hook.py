"""The communication hook: DDP on any backend, its gradients averaged through treefold."""

import weakref
from typing import Any

import torch
from torch import distributed as dist

from treefold.torch.group import ProcessGroup
from treefold.torch.options import chosen
from treefold.torch.planned import Planned
from treefold.torch.work import Lane, Work

_AVERAGE = dist.ReduceOp.RedOpType.AVG


def comm_hook(state: dist.ProcessGroup | None, bucket: dist.GradBucket) -> Any:
    """Average a bucket of gradients over the ranks; `model.register_comm_hook(None, treefold.torch.comm_hook)`.

    Args:
        state: The process group of the model, of any backend; None for the one of all ranks.
        bucket: The bucket that DDP hands over. Where nothing is planned (no plan or topology, a small bucket, gradients
            on a GPU), the group's own all_reduce averages it.

    Returns:
        A future of the averaged bucket.

    """
    group = state if state is not None else dist.group.WORLD
    buffer = bucket.buffer()
    if not isinstance(group, ProcessGroup):
        lane, planned = _lane_of(group)
        if planned.takes([buffer], _AVERAGE):
            work = Work("gradient bucket", [buffer])
            lane.start(work, lambda: planned.all_reduce([buffer], _AVERAGE), in_background=True)
            return work.get_future().then(_first)
    buffer.div_(dist.get_world_size(group))
    return dist.all_reduce(buffer, group=group, async_op=True).get_future().then(_first)


def _first(done: Any) -> torch.Tensor:
    tensor: torch.Tensor = done.value()[0]
    return tensor


_lanes: "weakref.WeakKeyDictionary[dist.ProcessGroup, tuple[Lane, Planned]]" = weakref.WeakKeyDictionary()


def _lane_of(group: dist.ProcessGroup) -> tuple[Lane, Planned]:
    """Return what runs the planned operations of a group of another backend; it ends with the group."""
    if group not in _lanes:
        members = dist.get_process_group_ranks(group)
        is_world = len(members) == dist.get_world_size()
        store = dist.PrefixStore("treefold-hook/", group.get_group_store())
        planned = Planned(chosen(None), store, group.rank(), group.size(), () if is_world else members)
        lane = Lane("treefold-hook")
        _lanes[group] = lane, planned
        weakref.finalize(group, _end, lane, planned)
    return _lanes[group]


def _end(lane: Lane, planned: Planned) -> None:
    lane.close()
    planned.close()
