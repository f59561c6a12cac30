"""Tensors on a GPU, which several ranks share: every planned call, in the order of streams, and without waiting."""

from typing import Any

import pytest

from tests_torch.conftest import Workers

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU; the stand-in is tested instead")

HOW = {"TREEFOLD_TOPOLOGY": "ring:4", "TREEFOLD_WRAPS": "gloo", "TREEFOLD_STAGING": "8MiB"}
SLOW_CYCLES = 200_000_000


def collectives(rank: int, size: int, elements: int, dtype: str) -> list[str]:
    import torch
    import torch.distributed as dist

    kind = getattr(torch, dtype)

    def of(who: int, count: int = elements) -> Any:
        return (torch.arange(count, device="cuda") % 7 + who).to(kind)

    def late(values: Any) -> Any:
        torch.cuda._sleep(SLOW_CYCLES)
        return values.clone()

    wrong = []

    def check(name: str, found: Any, wanted: Any) -> None:
        if not torch.equal(found, wanted):
            wrong.append(name)

    tensor = late(of(rank))
    dist.all_reduce(tensor)
    check("all_reduce", tensor, sum(of(each) for each in range(size)))
    wide = late(of(rank).repeat(2, 1).T)[:, 0]
    dist.all_reduce(wide, op=dist.ReduceOp.MAX)
    check("all_reduce of a column", wide, of(size - 1))
    tensor = late(of(rank))
    dist.broadcast(tensor, 2)
    check("broadcast", tensor, of(2))
    gathered, block = torch.zeros(size * elements, dtype=kind, device="cuda"), late(of(rank))
    dist.all_gather_into_tensor(gathered, block)
    check("all_gather", gathered, torch.cat([of(each) for each in range(size)]))
    own = torch.zeros(elements, dtype=kind, device="cuda")
    dist.reduce_scatter_tensor(own, late(of(rank, size * elements)))
    wanted = sum(of(each, size * elements) for each in range(size))
    check("reduce_scatter", own, wanted[rank * elements : (rank + 1) * elements])
    dist.all_to_all_single(gathered, late(torch.cat([of(10 * rank + each) for each in range(size)])))
    check("all_to_all", gathered, torch.cat([of(10 * each + rank) for each in range(size)]))
    return wrong


@pytest.mark.parametrize(("elements", "dtype"), [(5_000, "float32"), (3_000_001, "float32"), (4_000_003, "bfloat16")])
def test_every_planned_call_is_staged(workers: Workers, elements: int, dtype: str) -> None:
    assert workers(collectives, elements, dtype, **HOW) == [[]] * 4


def calls_of_cuda(rank: int, size: int) -> list[str]:
    import torch
    import torch.distributed as dist

    tensor = torch.ones(1 << 22, device="cuda")
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        dist.all_reduce(tensor, async_op=True).wait()
    torch.cuda.synchronize()
    return [event.name for event in profile.events()]


def test_copies_are_pinned_and_nothing_waits_for_the_device(workers: Workers) -> None:
    for names in workers(calls_of_cuda, **HOW):
        assert not [name for name in names if "Pageable" in name or "DeviceSynchronize" in name]
        assert [name for name in names if "Pinned" in name]


def bits(rank: int, size: int, device: str) -> list[int]:
    import torch
    import torch.distributed as dist

    values = torch.randn(3_000_000, generator=torch.Generator().manual_seed(rank)).to(device)
    dist.all_reduce(values)
    return values.cpu().view(torch.int32)[::97].tolist()


def test_sums_are_those_of_the_cpu_to_the_last_bit(workers: Workers) -> None:
    assert workers(bits, "cuda", **HOW) == workers(bits, "cpu", **HOW)
