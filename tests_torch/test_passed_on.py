"""Without a plan every operation reaches gloo and gives what gloo gives."""

import threading
from collections.abc import Callable

import torch
import torch.distributed as dist

from treefold.torch.versions import has


def everything(rank: int, size: int) -> dict[str, object]:
    """Call every collective once; the same code runs on gloo and on treefold."""
    got: dict[str, object] = {}
    mine = torch.arange(8.0) * (rank + 1)
    for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX"):
        got[name] = dist.all_reduce(each := mine.clone(), getattr(dist.ReduceOp, name)) or each
    dist.all_reduce(bits := torch.tensor([rank, 7 - rank]), dist.ReduceOp.BXOR)
    dist.reduce(reduced := mine.clone(), 2)
    dist.broadcast(sent := mine.clone(), 1)
    dist.all_gather(gathered := [torch.empty(8) for _ in range(size)], mine)
    dist.all_gather_into_tensor(joined := torch.empty(8 * size), mine)
    dist.reduce_scatter(part := torch.empty(2), list((mine + 1).chunk(size)))
    dist.reduce_scatter_tensor(block := torch.empty(2), mine)
    dist.all_to_all_single(turned := torch.empty(8), mine)
    turned_list = [torch.zeros(2) for _ in range(size)]
    got["a2a list"] = outcome(lambda: dist.all_to_all(turned_list, list(mine.chunk(size)))), turned_list
    dist.gather(mine, collected := [torch.empty(8) for _ in range(size)] if rank == 3 else None, 3)
    dist.scatter(piece := torch.empty(2), list(mine.chunk(size)) if rank == 0 else None, 0)
    got |= {"bits": bits, "broadcast": sent, "all_gather": gathered, "into": joined, "rs": part, "rst": block}
    got |= {"a2a": turned, "gather": collected, "scatter": piece}
    got |= {"reduce": reduced if rank == 2 else None}
    return got | point_to_point(rank, size) | objects(rank, size) | groups_of_operations(rank, size)


def outcome(call: Callable[[], object]) -> str:
    """Return what a call says that gloo of some versions refuses."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return "done"


def point_to_point(rank: int, size: int) -> dict[str, object]:
    after, before = (rank + 1) % size, (rank - 1) % size
    handles = [
        dist.isend(torch.full((3,), float(rank)), after, tag=5),
        dist.irecv(got := torch.empty(3), before, tag=5),
    ]
    for handle in handles:
        handle.wait()
    batch = [dist.P2POp(dist.isend, torch.ones(2) * rank, after), dist.P2POp(dist.irecv, two := torch.empty(2), before)]
    for handle in dist.batch_isend_irecv(batch):
        handle.wait()
    if rank == 0:
        source = [dist.recv(any_source := torch.empty(2)) for _ in range(1)]
    else:
        source, any_source = None, None
        if rank == 1:
            dist.send(torch.ones(2), 0)
    return {"isend": got, "batch": two, "recv": source, "any": any_source}


def objects(rank: int, size: int) -> dict[str, object]:
    dist.all_gather_object(everyone := [None] * size, {"rank": rank})
    dist.broadcast_object_list(told := [f"from {rank}"], 1)
    dist.scatter_object_list(dealt := [None], list(range(size)) if rank == 0 else None, 0)
    dist.gather_object((rank,), taken := [None] * size if rank == 0 else None)
    return {"objects": (everyone, told, dealt, taken)}


def groups_of_operations(rank: int, size: int) -> dict[str, object]:
    group = dist.group.WORLD
    with dist._coalescing_manager():
        dist.all_reduce(first := torch.ones(3))
        dist.all_reduce(second := torch.ones(2) * rank)
    ops, name = torch.ops._c10d_functional, group.group_name  # what torch.compile and DTensor call
    functional = [
        ops.wait_tensor(ops.all_reduce(torch.ones(3) * rank, "sum", name)),
        ops.wait_tensor(ops.all_gather_into_tensor(torch.ones(2) * rank, size, name)),
        ops.wait_tensor(ops.reduce_scatter_tensor(torch.arange(8.0), "sum", size, name)),
    ]
    future = dist.all_reduce(late := torch.ones(3), async_op=True).get_future().then(lambda done: done.value()[0] * 2)
    dist.barrier()
    return {"coalesced": (first, second), "functional": functional, "future": future.wait() + late}


def test_everything_is_as_on_gloo(workers):
    on_gloo, on_treefold = workers(everything, backend="gloo"), workers(everything)
    assert all((each["a2a list"][0] == "done") == has("lists over gloo") for each in on_treefold)
    for ours, theirs in zip(on_treefold, on_gloo, strict=True):
        assert ours.keys() == theirs.keys()
        for name in theirs:
            assert repr(ours[name]) == repr(theirs[name]), name


def names_of_backends(rank: int, size: int) -> tuple[object, ...]:
    return dist.get_backend(), type(dist.group.WORLD).__module__, dist.group.WORLD.name()


def test_backend_of_a_device(workers):
    for found in workers(names_of_backends, backend="cpu:treefold"):
        assert found == ("cpu:treefold", "treefold.torch.group", "treefold")


def sub_groups(rank: int, size: int) -> list[torch.Tensor]:
    halves = [dist.new_group([0, 2]), dist.new_group([3, 1])]
    mine = halves[rank % 2]
    dist.all_reduce(half := torch.ones(4) * rank, group=mine)
    dist.barrier(group=mine)
    dist.destroy_process_group(mine)
    dist.all_reduce(whole := torch.ones(2))
    return [half, whole]


def test_sub_groups(workers):
    for rank, (half, whole) in enumerate(workers(sub_groups)):
        assert half.tolist() == [[2.0], [4.0]][rank % 2] * 4
        assert whole.tolist() == [4.0, 4.0]


def many_small_ones(rank: int, size: int) -> float:
    """Would deadlock now and then if the calls reached gloo through the base class, which holds the GIL."""
    tensor = torch.ones(16)
    for _ in range(3000):
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        dist.broadcast(tensor, 0)
    return tensor.sum().item()


def test_many_small_ones(workers):
    assert workers(many_small_ones) == [16.0] * 4


def threads_after_the_group(rank: int, size: int) -> list[str]:
    import treefold.torch  # noqa: F401

    before = {thread.ident for thread in threading.enumerate()}
    dist.init_process_group("treefold", rank=rank, world_size=size)
    dist.all_reduce(torch.ones(4), async_op=True).wait()
    dist.destroy_process_group()
    return [thread.name for thread in threading.enumerate() if thread.ident not in before]


def test_no_thread_is_left(workers):
    assert workers(threads_after_the_group, backend=None) == [[]] * 4
