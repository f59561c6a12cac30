"""Sums cross lines in fewer bytes, with error feedback, and training ends as well as without."""

import gc
import logging
from datetime import timedelta

import pytest
import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

import treefold
import treefold.torch
from treefold.errors import TreefoldError
from treefold.torch import hook

ON_A_RING = {"TREEFOLD_TOPOLOGY": "full:4", "TREEFOLD_LEAST_SIZE": "1"}
INT8 = ON_A_RING | {"TREEFOLD_WIRE": "int8"}
FED_BACK = INT8 | {"TREEFOLD_ERROR_FEEDBACK": "yes"}


def numbers(rank: int, length: int) -> torch.Tensor:
    """Draw multiples of a 64th, whose sums are exact in every type; some are far larger than all others."""
    drawn = torch.randint(-32, 33, (length,), generator=torch.Generator().manual_seed(rank)) / 64
    drawn[::100] = 32
    return drawn


def sums(rank: int, size: int) -> dict[str, torch.Tensor]:
    """Return what may be rounded, and what may not."""
    got = {}
    for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.float16):
        dist.all_reduce(added := numbers(rank, 9001).to(dtype))
        dist.all_reduce(averaged := numbers(rank, 9001).to(dtype), dist.ReduceOp.AVG)
        got |= {f"sum {dtype}": added, f"average {dtype}": averaged}
    dist.all_reduce(most := numbers(rank, 9001), dist.ReduceOp.MAX)
    dist.all_reduce(whole := torch.arange(9001) * rank)
    dist.broadcast(sent := numbers(rank, 9001), 1)
    dist.reduce(reduced := numbers(rank, 9001), 2)
    dist.all_gather_into_tensor(gathered := torch.empty(4 * 9001), numbers(rank, 9001))
    dist.reduce_scatter_tensor(scattered := torch.empty(2250), numbers(rank, 9000))
    got |= {"most": most, "whole": whole, "sent": sent, "gathered": gathered, "scattered": scattered}
    return got | {"reduced": reduced if rank == 2 else torch.zeros(1)}


ROUNDED = {f"{what} torch.{kind}" for what in ("sum", "average") for kind in ("float32", "bfloat16")} | {"scattered"}


@pytest.mark.parametrize("transport", ["tcp", "torch"])
def test_only_sums_of_float32_and_bfloat16_are_rounded(workers, transport):
    as_they_are = workers(sums, **ON_A_RING)
    found = workers(sums, TREEFOLD_TRANSPORT=transport, **INT8)
    for rank, (ours, exact) in enumerate(zip(found, as_they_are, strict=True)):
        for name, value in exact.items():
            off = (ours[name].double() - value.double()).abs().max()
            assert (0 < off < 3) if name in ROUNDED else off == 0, (rank, name, off)


def totals(rank: int, size: int, spread: bool) -> tuple[torch.Tensor, float, int]:
    """Sum up in the same memory again and again; return the mean, and what the last residuals have."""
    memory = torch.zeros(1000, 2).t()[:1] if spread else torch.zeros(1000)
    total = torch.zeros(memory.shape)
    gradient = torch.where(torch.arange(1000) % 7 == 0, 1.0, 1e-3 * (1 + rank)).reshape(memory.shape)
    for _ in range(400):
        memory.copy_(gradient)
        dist.all_reduce(memory)
        total += memory
    crossing = dist.group.WORLD.planned.crossing
    kept_bytes = crossing.kept_bytes
    del memory
    gc.collect()
    dist.all_reduce(torch.ones(10))
    return total / 400, float(total.mean()), (kept_bytes, crossing.kept_bytes)


@pytest.mark.parametrize("spread", [False, True], ids=["contiguous", "spread"])
@pytest.mark.parametrize("transport", ["tcp", "torch"])
def test_error_feedback_lets_small_numbers_through(workers, spread, transport):
    exact = torch.where(torch.arange(1000) % 7 == 0, 4.0, 0.01)
    (lost, *_), *_ = workers(totals, spread, **INT8)
    for mean, _, (kept, after) in workers(totals, spread, TREEFOLD_TRANSPORT=transport, **FED_BACK):
        assert (mean - exact).abs().max() < 1e-3
        assert (lost - exact).abs().max() > 3e-3
        assert kept == 4 * 1000 * (1 + spread)
        assert after == 40, "what was kept for memory that is gone is gone"


def trained(rank: int, size: int, hooked: bool) -> tuple[float, torch.Tensor, int]:
    """Train a small network on a part of the data; return the loss on all of it, and the residuals' bytes."""
    torch.manual_seed(1)
    data = torch.randn(2048, 16) * torch.logspace(0, -2, 16)
    target = torch.tanh(data @ (torch.randn(16, 1) * torch.logspace(0, 1.5, 16)[:, None])) + 0.05 * torch.randn(2048, 1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 96), torch.nn.Tanh(), torch.nn.Linear(96, 1))
    parallel = DistributedDataParallel(model)
    if hooked:
        parallel.register_comm_hook(None, treefold.torch.comm_hook)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(300):
        mine = torch.arange(rank + size * 16 * (step % 32), 2048)[::size][:16]
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(parallel(data[mine]), target[mine]).backward()
        optimizer.step()
    with torch.no_grad():
        loss = torch.nn.functional.mse_loss(model(data), target).item()
    planned = dist.group.WORLD.planned if not hooked else hook._executor_of(dist.group.WORLD)[1]
    weights = torch.cat([weight.detach().flatten() for weight in model.parameters()])
    return loss, weights, planned.crossing.kept_bytes


@pytest.mark.parametrize(("hooked", "backend"), [(False, "treefold"), (True, "gloo")], ids=["backend", "hook"])
def test_training_with_int8_and_error_feedback_ends_as_well(workers, hooked, backend):
    as_it_is = workers(trained, False, **ON_A_RING)[0][0]
    results = workers(trained, hooked, backend=backend, **FED_BACK)
    for loss, weights, kept_bytes in results:
        assert weights.equal(results[0][1])
        assert abs(loss - as_it_is) < 0.01 * as_it_is
        assert 4 * len(weights) <= kept_bytes <= 9 * len(weights)


def statuses(rank: int, size: int) -> tuple[str | None, bool, str]:
    status = treefold.torch.status()
    return status.wire, status.error_feedback, str(status)


def test_the_status_tells_how_sums_cross_lines(workers):
    for wire, feeds_back, text in workers(statuses, **FED_BACK):
        assert (wire, feeds_back) == ("int8", True)
        assert "over tcp, sums across lines as int8 with error feedback; all else goes to gloo" in text
    assert {text.count("across lines") for *_, text in workers(statuses, **ON_A_RING)} == {0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"wire": "itn8"}, "wire type 'itn8' is unknown; did you mean int8"),
        ({"wire": 8}, "wire type 8 is not a name"),
        ({"wire": ""}, "the name of the wire type is empty"),
        ({"error_feedback": True}, r"error_feedback needs a wire type.*TREEFOLD_WIRE"),
        ({"wire": "int8", "error_feedback": "ja"}, "error_feedback 'ja' is unknown; it is True or False"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(TreefoldError, match=message):
        treefold.torch.Options(**options)


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("TREEFOLD_WIRE", "itn8", "TREEFOLD_WIRE: wire type 'itn8' is unknown; did you mean int8"),
        ("TREEFOLD_ERROR_FEEDBACK", "yess", "TREEFOLD_ERROR_FEEDBACK: 'yess' is unknown; did you mean yes?"),
        ("TREEFOLD_ERROR_FEEDBACK", "1", r"error_feedback needs a wire type"),
    ],
)
def test_wrong_variables_are_refused(monkeypatch, variable, text, message):
    monkeypatch.setenv(variable, text)
    with pytest.raises(TreefoldError, match=message):
        treefold.torch.options.chosen(None)


def own_options(rank: int, size: int) -> tuple[str | None, bool, float]:
    """Form a group in which only rank 0 names a wire type."""
    named = {"wire": "int8", "error_feedback": True} if rank == 0 else {}
    treefold.torch.configure(topology="full:4", least_bytes=1, **named)
    try:
        dist.init_process_group("treefold", rank=rank, world_size=size, timeout=timedelta(seconds=20))
        status = treefold.torch.status()
        dist.all_reduce(added := numbers(rank, 1000))
        return status.wire, status.error_feedback, added.sum().item()
    finally:
        treefold.torch.configure()
        if dist.is_initialized():
            dist.destroy_process_group()


def test_options_of_rank_0_count_for_all(workers):
    found = workers(own_options, backend=None)
    assert found == [("int8", True, found[0][2])] * 4


def told(rank: int, size: int) -> list[str]:
    """Return what treefold reports about a plan in which numbers cross as they are."""
    records = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    logging.getLogger("treefold.torch").addHandler(handler)
    treefold.torch.configure(plan=treefold.plan("full:4", "p2p"), wire="int8", least_bytes=1)
    try:
        dist.init_process_group("treefold", rank=rank, world_size=size, timeout=timedelta(seconds=20))
        dist.all_reduce(numbers(rank, 1000))
        return records
    finally:
        logging.getLogger("treefold.torch").removeHandler(handler)
        treefold.torch.configure()
        if dist.is_initialized():
            dist.destroy_process_group()


def test_a_plan_whose_ranks_add_up_by_themselves_is_told(workers):
    first, *others = workers(told, backend=None)
    assert any("sums cross lines as they are, not as int8: in plans of p2p ranks add up" in text for text in first)
    assert not any("as they are" in text for texts in others for text in texts)
