"""Operations that run by a plan give what gloo gives."""

import os
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import treefold
from treefold.rendezvous.sockets import free_port

FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTEGERS = ["int8", "uint8", "int32", "int64", "bool"]
BY_OPERATOR = {
    "SUM": [*FLOATS, *INTEGERS, "complex64", "complex128"],
    "AVG": [*FLOATS, "complex64", "complex128"],
    **dict.fromkeys(("PRODUCT", "MIN", "MAX"), FLOATS + INTEGERS),
    **dict.fromkeys(("BAND", "BOR", "BXOR"), INTEGERS),
}
ON_A_RING = {"TREEFOLD_TOPOLOGY": "ring:4", "TREEFOLD_LEAST_SIZE": "1"}


def numbers(rank: int, length: int, dtype: torch.dtype) -> torch.Tensor:
    """Small whole numbers, whose sums and products every type holds exactly or wraps around."""
    values = torch.randint(0, 4, (length,), generator=torch.Generator().manual_seed(rank))
    return (values + 1j * values.flip(0)).to(dtype) if dtype.is_complex else values.to(dtype)


def reductions(rank: int, size: int, lengths: list[int]) -> dict[str, torch.Tensor]:
    got = {}
    for operator, types in BY_OPERATOR.items():
        for dtype in types:
            for length in lengths:
                dist.all_reduce(mine := numbers(rank, length, getattr(torch, dtype)), getattr(dist.ReduceOp, operator))
                got[f"{operator} {dtype} {length}"] = mine
    return got


def expect_same(ours: list[dict[str, object]], theirs: list[dict[str, object]]) -> None:
    for rank, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        assert mine.keys() == other.keys()
        for name, value in other.items():
            torch.testing.assert_close(mine[name], value, rtol=0, atol=0, msg=lambda text, name=name: f"{name}: {text}")
        assert mine, rank


def test_all_reduce_of_every_type_and_operator(workers):
    lengths = [1, 3, 1000, 5001]
    expect_same(workers(reductions, lengths, **ON_A_RING), workers(reductions, lengths, backend="gloo"))


def others(rank: int, size: int, length: int) -> dict[str, object]:
    """Call the other planned collectives."""
    got: dict[str, object] = {}
    for root in range(size):
        dist.broadcast(sent := numbers(rank, length, torch.float32), root)
        dist.reduce(reduced := numbers(rank, length, torch.int64), root, dist.ReduceOp.MAX)
        got[f"broadcast {root}"] = sent
        got[f"reduce {root}"] = reduced if rank == root else None
    block = numbers(rank, length, torch.bfloat16)
    dist.all_gather_into_tensor(joined := torch.empty(size * length, dtype=block.dtype), block)
    vector = numbers(rank, size * length, torch.float64)
    dist.reduce_scatter_tensor(mine := torch.empty(length, dtype=vector.dtype), vector, dist.ReduceOp.AVG)
    dist.all_to_all_single(turned := torch.empty_like(vector), vector)
    got |= {"all_to_all": turned}
    return got | {"all_gather": joined, "reduce_scatter": mine, "input stays": vector}


@pytest.mark.parametrize("length", [1, 4097])
def test_other_collectives(workers, length):
    expect_same(workers(others, length, **ON_A_RING), workers(others, length, backend="gloo"))


ANOTHER_ORDER = ["GPU2", "GPU0", "GPU3", "GPU1"]


def named(rank: int, size: int, order: list[str], work: Callable[..., Any], argument: Any) -> Any:
    """Do some work by workers that are not in the order of the topology's accelerators."""
    os.environ["TREEFOLD_NAME"] = order[rank]
    try:
        dist.init_process_group("treefold", rank=rank, world_size=size, timeout=timedelta(seconds=20))
        return work(rank, size, argument)
    finally:
        del os.environ["TREEFOLD_NAME"]
        if dist.is_initialized():
            dist.destroy_process_group()


def test_ranks_in_another_order_than_accelerators(workers):
    ours = workers(named, ANOTHER_ORDER, others, 100, backend=None, **ON_A_RING)
    expect_same(ours, workers(others, 100, backend="gloo"))


def test_over_gloo_messages(workers):
    over_gloo = ON_A_RING | {"TREEFOLD_TRANSPORT": "torch"}
    expect_same(workers(others, 50_000, **over_gloo), workers(others, 50_000, backend="gloo"))
    expect_same(workers(reductions, [7, 5001], **over_gloo), workers(reductions, [7, 5001], backend="gloo"))
    assert workers(threads_left, two_ports(), backend=None, **over_gloo) == [[]] * 4


def odd_memory(rank: int, size: int) -> dict[str, object]:
    across = torch.arange(3000.0).view(50, 60).t()[::2]
    dist.all_reduce(across)
    dist.all_reduce(learned := torch.ones(2000, requires_grad=True))
    dist.all_reduce(one := torch.tensor(2.0))
    dist.all_reduce(none := torch.empty(0))
    return {"across": across.clone(), "learned": learned.detach(), "one": one, "none": none}


def test_memory_in_odd_order(workers):
    expected = torch.arange(3000.0).view(50, 60).t()[::2] * 4
    for got in workers(odd_memory, **ON_A_RING):
        torch.testing.assert_close(got["across"], expected)
        assert got["learned"].eq(4).all() and got["one"] == 8 and got["none"].numel() == 0


def handles(rank: int, size: int) -> dict[str, object]:
    tensors = [torch.full((20_000,), float(rank + step)) for step in range(10)]
    works = [dist.all_reduce(each, async_op=True) for each in tensors]
    late = dist.all_reduce(small := torch.ones(1, dtype=torch.int64), async_op=True)
    chained = works[3].get_future().then(lambda done: done.value()[0][0].item() * 2)
    for each in works[::-1]:
        assert each.wait(timedelta(seconds=20)) and each.is_completed() and each.is_success()
    late.wait()
    values = [each[0].item() for each in tensors]
    return {
        "values": values,
        "result": works[0].result()[0][5].item(),
        "chained": chained.wait(),
        "small": small.item(),
    }


def test_async_handles(workers):
    sums = [6.0 + 4 * step for step in range(10)]
    for got in workers(handles, **ON_A_RING):
        assert got == {"values": sums, "result": 6.0, "chained": 2 * sums[3], "small": 4}


def passed_on_after_planned(rank: int, size: int) -> list[object]:
    """gloo's operations wait for the planned ones before them, and have results of their own."""
    first = dist.all_reduce(large := torch.full((500_000,), 1.0), async_op=True)
    second = dist.all_reduce(large[:4], async_op=True)  # small: gloo's
    third = dist.all_gather(got := [torch.empty(1) for _ in range(size)], torch.tensor([float(rank)]), async_op=True)
    dist.barrier()
    dist.all_gather_object(everyone := [None] * size, rank)
    return [
        large[0].item(),
        large[4].item(),
        got,
        second.get_future().wait()[0].tolist(),
        everyone,
        first.wait(),
        third.wait(),
    ]


def test_passed_on_operations_wait_their_turn(workers):
    blocks = [torch.tensor([float(each)]) for each in range(4)]
    for got in workers(passed_on_after_planned, TREEFOLD_TOPOLOGY="ring:4"):
        assert got == [16.0, 4.0, blocks, [16.0] * 4, [0, 1, 2, 3], True, True]


def sub_groups(rank: int, size: int) -> list[float]:
    pairs = [dist.new_group([0, 3]), dist.new_group([2, 1])]
    ours = pairs[rank in (1, 2)]
    dist.all_reduce(mine := torch.full((5000,), float(rank)), group=ours)
    three = dist.new_group([0, 1, 3])
    everyone = dist.new_group(list(range(size)))
    if rank != 2:
        dist.all_reduce(mine, group=three)
    dist.broadcast(mine, 1, group=everyone)
    dist.destroy_process_group(ours)
    return [mine[0].item(), mine[-1].item()]


@pytest.mark.parametrize("topology", ["ring:4", "full:4"])
def test_sub_groups(workers, topology):
    assert workers(sub_groups, TREEFOLD_TOPOLOGY=topology) == [[9.0, 9.0]] * 4


def first_use_of_a_sub_group(rank: int, size: int) -> float:
    """Rank 1 uses the group only after what rank 0 sends after its own use."""
    pair = dist.new_group([0, 1])
    mine = torch.full((5000,), float(rank + 1))
    if rank == 0:
        work = dist.all_reduce(mine, group=pair, async_op=True)
        dist.send(torch.ones(1), 1)
        work.wait()
    elif rank == 1:
        dist.recv(torch.empty(1), 0)
        dist.all_reduce(mine, group=pair)
    return mine[0].item()


@pytest.mark.parametrize("transport", ["tcp", "torch"])
def test_the_first_use_of_a_sub_group_waits_for_nobody(workers, transport):
    assert workers(first_use_of_a_sub_group, TREEFOLD_TRANSPORT=transport, **ON_A_RING) == [3.0, 3.0, 3.0, 4.0]


def uneven(rank: int, size: int, counts: list[list[int]]) -> dict[str, object]:
    sent, came = counts[rank], [row[rank] for row in counts]
    vector = torch.arange(3.0 * sum(sent)).view(-1, 3) + 10_000 * rank
    dist.all_to_all_single(turned := torch.empty(sum(came), 3), vector, came, sent)
    half = vector.to(torch.bfloat16)
    work = dist.all_to_all_single(
        halves := torch.empty(sum(came), 3, dtype=half.dtype), half, came, sent, async_op=True
    )
    work.wait()
    return {"turned": turned, "halves": halves}


EVEN_ON_SOME = [[500] * 4, [500, 600, 400, 500], [500, 400, 600, 500], [500] * 4]
ONE_IS_HUGE = [[0, 0, 0, 0], [1, 0, 0, 20_000], [0, 0, 3, 0], [0, 0, 0, 0]]
NOTHING_FOR_OTHERS = [[7, 0, 0, 0], [0, 2000, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
SMALL = [[1, 2, 0, 1]] * 4


@pytest.mark.parametrize("counts", [EVEN_ON_SOME, ONE_IS_HUGE, NOTHING_FOR_OTHERS, SMALL])
def test_blocks_of_unequal_sizes(workers, counts):
    expect_same(workers(uneven, counts, **ON_A_RING), workers(uneven, counts, backend="gloo"))


def test_unequal_blocks_of_ranks_in_another_order_than_accelerators(workers):
    ours = workers(named, ANOTHER_ORDER, uneven, EVEN_ON_SOME, backend=None, **ON_A_RING)
    expect_same(ours, workers(uneven, EVEN_ON_SOME, backend="gloo"))


def sizes_that_disagree(rank: int, size: int) -> str:
    sent = [300] * size
    expected = [300] * (size - 1) + [299 if rank == 1 else 300]
    try:
        dist.all_to_all_single(torch.empty(sum(expected)), torch.empty(sum(sent)), expected, sent)
    except treefold.TreefoldError as error:
        return str(error)
    return ""


def test_sizes_that_ranks_do_not_agree_on_are_named(workers):
    said = workers(sizes_that_disagree, **ON_A_RING)
    assert "rank 3 sends 300 elements to rank 1, which expects 299" in said[1]
    assert [said[0], said[2], said[3]] == [""] * 3


def listening() -> dict[str, str]:
    """Return the sockets on which this process listens, and their addresses."""
    own = {os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()}
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in own:
                found[inode] = local.partition(":")[0]
    return found


def new_sockets(rank: int, size: int) -> set[str]:
    """Return the addresses on which a new group listens; gloo keeps the sockets of old ones."""
    before = listening()
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    dist.all_reduce(torch.ones(5000), group=pairs[rank // 2])
    dist.all_reduce(torch.ones(1), group=pairs[rank // 2])
    dist.barrier()  # rank 0 keeps the store that the others need to meet
    return {address for socket, address in listening().items() if socket not in before}


@pytest.mark.parametrize("transport", ["tcp", "torch"])
def test_sockets_listen_where_they_are_asked_to(workers, transport):
    asked = {"TREEFOLD_INTERFACE": "127.0.0.2", "GLOO_SOCKET_IFNAME": ""}
    assert workers(new_sockets, TREEFOLD_TRANSPORT=transport, **asked, **ON_A_RING) == [{"0200007F"}] * 4


def two_ports() -> list[int]:
    return [free_port("127.0.0.1") for _ in range(2)]


def threads_left(rank: int, size: int, ports: list[int]) -> list[str]:
    before = {thread.ident for thread in threading.enumerate()}
    for port in ports:  # a rank that is quick would meet the store of the group before, which is about to close
        begin = f"tcp://127.0.0.1:{port}"
        dist.init_process_group(
            "treefold", init_method=begin, rank=rank, world_size=size, timeout=timedelta(seconds=20)
        )
        dist.all_reduce(torch.ones(5000), async_op=True).wait()
        dist.destroy_process_group()
    return [thread.name for thread in threading.enumerate() if thread.ident not in before]


def test_no_thread_is_left(workers):
    assert workers(threads_left, two_ports(), backend=None, **ON_A_RING) == [[]] * 4
