"""Tensors of a device are staged through pinned memory: over a stand-in for a GPU, which knows the rules of streams."""

import contextlib
import os
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from tests_torch.conftest import Workers

SMALL = {"TREEFOLD_TOPOLOGY": "ring:4", "TREEFOLD_STAGING": "1MiB"}
NETWORK = "bench/wan/topologies/six-dense.json"


@contextlib.contextmanager
def stand_in(**how: Any) -> Iterator[Any]:
    """Let tensors of the CPU be those of a stand-in, from the next call on."""
    import torch

    from tests_torch.standin import StandIn
    from treefold.runtime.group import Group
    from treefold.torch.devices import STAGED

    device, plain = StandIn(torch.device("cpu"), **how), Group.start

    def start(group: Group, plan: Any, array: Any, *rest: Any, **more: Any) -> Any:
        memory = torch.from_numpy(array)
        device.on_host(memory, "the network")
        pending = plain(group, plan, array, *rest, **more)
        wait = pending.wait

        def waited() -> None:
            wait()
            device.on_host(memory, "the network")

        pending.wait = waited
        return pending

    STAGED["cpu"], Group.start = lambda _: device, start  # type: ignore[method-assign]
    try:
        yield device
    finally:
        Group.start = plain  # type: ignore[method-assign]
        del STAGED["cpu"]


def in_stream(device: Any, tensor: Any, values: Any) -> None:
    """Let the caller's stream write a tensor later."""
    device.run(device.current(), lambda: tensor.copy_(values), writes=[tensor])


def later(device: Any, tensor: Any) -> Any:
    """Return what the caller's stream reads from a tensor."""
    found = tensor.new_empty(tensor.shape)
    device.run(device.current(), lambda: found.copy_(tensor), reads=[tensor], writes=[found])
    device.finish()
    return found


def staged_collectives(rank: int, size: int, elements: int, dtype: str) -> list[str]:
    import torch
    import torch.distributed as dist

    kind = getattr(torch, dtype)

    def of(who: int, count: int = elements) -> Any:
        return (torch.arange(count) % 7 + who).to(kind)

    wrong = []

    def check(name: str, found: Any, wanted: Any) -> None:
        if not torch.equal(found, wanted):
            wrong.append(name)

    with stand_in() as device:
        tensor = torch.zeros(elements, dtype=kind)
        in_stream(device, tensor, of(rank))
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        check("all_reduce", later(device, tensor), sum(of(each) for each in range(size)))

        wide = torch.zeros(elements, 2, dtype=kind)[:, 0]
        in_stream(device, wide, of(rank))
        dist.all_reduce(wide, op=dist.ReduceOp.MAX)
        check("all_reduce of a column", later(device, wide), of(size - 1))

        in_stream(device, tensor, of(rank))
        dist.broadcast(tensor, 2)
        check("broadcast", later(device, tensor), of(2))

        in_stream(device, tensor, of(rank))
        dist.reduce(tensor, 1)
        wanted = sum(of(each) for each in range(size)) if rank == 1 else of(rank)
        check("reduce", later(device, tensor), wanted)

        gathered, block = torch.zeros(size * elements, dtype=kind), torch.zeros(elements, dtype=kind)
        in_stream(device, block, of(rank))
        dist.all_gather_into_tensor(gathered, block)
        check("all_gather", later(device, gathered), torch.cat([of(each) for each in range(size)]))

        vector, own = torch.zeros(size * elements, dtype=kind), torch.zeros(elements, dtype=kind)
        in_stream(device, vector, of(rank, size * elements))
        dist.reduce_scatter_tensor(own, vector)
        wanted = sum(of(each, size * elements) for each in range(size))
        check("reduce_scatter", later(device, own), wanted[rank * elements : (rank + 1) * elements])

        in_stream(device, vector, torch.cat([of(10 * rank + each) for each in range(size)]))
        dist.all_to_all_single(gathered, vector)
        check("all_to_all", later(device, gathered), torch.cat([of(10 * each + rank) for each in range(size)]))
        return wrong + device.races


@pytest.mark.parametrize(("elements", "dtype"), [(5_000, "float32"), (90_001, "float32"), (200_003, "bfloat16")])
def test_every_planned_call_is_staged(workers: Workers, elements: int, dtype: str) -> None:
    assert workers(staged_collectives, elements, dtype, **SMALL) == [[]] * 4


def chained(rank: int, size: int) -> list[Any]:
    import torch
    import torch.distributed as dist

    with stand_in() as device:
        tensor, other = torch.zeros(300_000), torch.zeros(300_000)
        in_stream(device, tensor, torch.full((300_000,), 1.0 + rank))
        in_stream(device, other, torch.full((300_000,), 1.0))
        works = [dist.all_reduce(each, async_op=True) for each in (tensor, other, tensor, tensor)]
        works[-1].wait()
        works[1].wait()
        return [set(later(device, each).tolist()) for each in (tensor, other)] + device.races


def test_calls_on_the_same_tensor_follow_each_other(workers: Workers) -> None:
    assert workers(chained, **SMALL) == [[{160.0}, {4.0}]] * 4


def bits(rank: int, size: int, staged: bool) -> list[int]:
    import torch
    import torch.distributed as dist

    values = torch.randn(400_000, generator=torch.Generator().manual_seed(rank)) * 10.0 ** (rank % 3)
    with stand_in(prompt=True) if staged else contextlib.nullcontext():
        dist.all_reduce(values)
    return values.view(torch.int32).tolist()


def test_staged_sums_are_those_of_the_cpu_to_the_last_bit(workers: Workers) -> None:
    plain = workers(bits, False, TREEFOLD_TOPOLOGY="mesh:2x2", TREEFOLD_STAGING="1MiB")
    staged = workers(bits, True, TREEFOLD_TOPOLOGY="mesh:2x2", TREEFOLD_STAGING="1MiB")
    assert plain == staged


def rounded(rank: int, size: int) -> float:
    import torch
    import torch.distributed as dist

    tensor, total = torch.zeros(300_000), torch.zeros(300_000, dtype=torch.float64)
    values = torch.randn(300_000, generator=torch.Generator().manual_seed(rank))
    wanted = sum(torch.randn(300_000, generator=torch.Generator().manual_seed(each)) for each in range(size))
    with stand_in() as device:
        for _ in range(8):
            in_stream(device, tensor, values)
            dist.all_reduce(tensor)
            total += later(device, tensor)
        assert not device.races
    return float((total / 8 - wanted).abs().mean())


def test_error_feedback_follows_the_elements_of_pieces(workers: Workers) -> None:
    without = workers(rounded, TREEFOLD_WIRE="int8", **SMALL)
    kept = workers(rounded, TREEFOLD_WIRE="int8", TREEFOLD_ERROR_FEEDBACK="1", **SMALL)
    assert max(kept) < 0.5 * min(without)


def blind(rank: int, size: int) -> int:
    import torch
    import torch.distributed as dist

    with stand_in(blind=True) as device:
        tensor = torch.zeros(300_000)
        in_stream(device, tensor, torch.ones(300_000))
        dist.all_reduce(tensor)
        later(device, tensor)
        return len(device.races)


def test_the_stand_in_notices_streams_that_do_not_wait(workers: Workers) -> None:
    assert min(workers(blind, **SMALL)) > 0


def without_memory(rank: int, size: int) -> tuple[Any, list[str]]:
    import torch
    import torch.distributed as dist

    with stand_in(most_pinned=300_000) as device, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tensor = torch.ones(500_000)
        dist.all_reduce(tensor)
        return set(later(device, tensor).tolist()), [str(each.message) for each in caught][:1]


def test_where_no_memory_can_be_pinned_copies_are_only_slower(workers: Workers) -> None:
    for values, texts in workers(without_memory, **SMALL):
        assert values == {4.0}
        assert texts == [
            "no 128KiB of pinned memory are left (no pinned memory): copies are slower; allow less "
            "(TREEFOLD_STAGING), or raise the limit of locked memory (ulimit -l)"
        ]


def captured(rank: int, size: int) -> tuple[Any, list[str]]:
    import logging

    import torch
    import torch.distributed as dist

    told: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("treefold.torch").addHandler(handler)
    with stand_in() as device:
        device.captures = True
        tensor = torch.ones(500_000)
        for _ in range(2):
            dist.all_reduce(tensor)
        return set(tensor.tolist()), [line for line in told if "graph" in line]


def test_captured_graphs_go_their_usual_way(workers: Workers) -> None:
    answers = workers(captured, **SMALL)
    assert [values for values, _ in answers] == [{16.0}] * 4
    assert answers[0][1] == [
        "treefold passes CPU tensors on to gloo: a graph is being captured, and the network cannot be part of it"
    ]


def fails(rank: int, size: int) -> str:
    import torch
    import torch.distributed as dist

    with stand_in():
        tensor = torch.ones(500_000 if rank else 400_000)
        try:
            dist.all_reduce(tensor, async_op=True).wait()
        except Exception as error:
            return type(error).__name__
    return "nothing"


def test_an_error_reaches_who_waits(workers: Workers) -> None:
    assert "nothing" not in workers(fails, **SMALL)


def trained(rank: int, size: int, staged: bool) -> list[float]:
    import torch
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 900), torch.nn.ReLU(), torch.nn.Linear(900, 64))
    with stand_in(prompt=True) if staged else contextlib.nullcontext():
        wrapped = DistributedDataParallel(model, bucket_cap_mb=0.1)
        optimizer = torch.optim.SGD(wrapped.parameters(), 0.05)
        random = torch.Generator().manual_seed(1 + rank)
        losses = []
        for _ in range(4):
            loss = (wrapped(torch.randn(32, 64, generator=random)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def test_a_model_has_the_same_losses_staged_or_not(workers: Workers) -> None:
    how = {"TREEFOLD_STAGING": "1MiB", "TREEFOLD_TOPOLOGY": "mesh:2x2"}
    assert workers(trained, False, **how) == workers(trained, True, **how)


def test_too_little_staging_is_refused() -> None:
    import treefold.torch
    from treefold.errors import TreefoldError

    with pytest.raises(TreefoldError, match="staging_bytes must be at least 1048576, got 1024"):
        treefold.torch.Options(topology="ring:4", staging_bytes="1KiB")
    assert "TREEFOLD_STAGING" not in os.environ
