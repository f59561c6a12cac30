"""Training scripts that know nothing of treefold: DDP, its communication hook, FSDP."""

import gc
import json
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

import treefold.torch
from treefold.torch import hook
from treefold.torch.versions import has
from treefold.torch.work import OrderedExecutor

ON_A_LINE = {"TREEFOLD_TOPOLOGY": "line:4"}


def model_and_data(rank: int) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(rank)  # DDP starts from rank 0's weights
    first, second, third = torch.nn.Linear(64, 256), torch.nn.Linear(256, 64), torch.nn.Linear(64, 1)
    data = torch.randn(32, 64)
    model = torch.nn.Sequential(first, torch.nn.Tanh(), second, torch.nn.Tanh(), third)
    return model, data, data[:, :3].sum(1, keepdim=True)


def train(model: torch.nn.Module, data: torch.Tensor, target: torch.Tensor, steps: int = 8) -> list[float]:
    """Return the loss after each step."""
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    losses = []
    for _ in range(steps):
        loss = torch.nn.functional.mse_loss(model(data), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def with_ddp(rank: int, size: int, hooked: bool, **wishes: object) -> tuple[list[float], torch.Tensor]:
    model, data, target = model_and_data(rank)
    parallel = DistributedDataParallel(model, bucket_cap_mb=0.05, **wishes)
    if hooked:
        parallel.register_comm_hook(None, treefold.torch.comm_hook)
    losses = train(parallel, data, target)
    return losses, torch.cat([weight.detach().flatten() for weight in model.parameters()])


def expect_as_on_gloo(results: list[tuple[list[float], torch.Tensor]], on_gloo: list[tuple[list[float], torch.Tensor]]):
    for (losses, weights), (expected, _) in zip(results, on_gloo, strict=True):
        assert weights.equal(results[0][1]), "weights differ between ranks"
        torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected))
        assert losses[-1] < losses[0]


def one_leaves(rank: int, size: int, hooked: bool) -> tuple[str, list[int]]:
    """Train until rank 1 leaves; return what the others are told by `backward`, and about whom."""
    model, data, target = model_and_data(rank)
    parallel = DistributedDataParallel(model, bucket_cap_mb=0.05)
    if hooked:
        parallel.register_comm_hook(None, treefold.torch.comm_hook)
    train(parallel, data, target, 2)
    if rank == 1:
        end_planned()
        return "left", [1]
    try:
        train(parallel, data, target, 2)
    except treefold.torch.RankLostError as lost:
        return str(lost), lost.workers
    return "nothing", []


def end_planned() -> None:
    """Have this rank leave what is planned, as if its process had died."""
    world = dist.group.WORLD
    planned = world.planned if hasattr(world, "planned") else hook._executor_of(world)[1]
    planned.close()


@pytest.mark.parametrize(("hooked", "backend"), [(False, "treefold"), (True, "gloo")], ids=["backend", "hook"])
def test_ddp_is_told_who_is_gone(workers, hooked, backend):
    for rank, (told, lost) in enumerate(workers(one_leaves, hooked, backend=backend, **ON_A_LINE)):
        assert rank == 1 or told.startswith("worker 1 (GPU1) "), told
        assert "\n" not in told
        assert 1 in lost


@pytest.mark.parametrize("how", [("treefold",), ("gloo", "hook")], ids=["backend", "hook"])
def test_ddp_is_told_who_was_killed(how):
    script = Path(__file__).with_name("dies.py")
    done = subprocess.run([sys.executable, script, *how], capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if has("quiet gloo") or not line.startswith("[Gloo] ")]
    told = sorted(map(json.loads, lines), key=lambda each: each["rank"])
    assert [each["rank"] for each in told] == [0, 2]
    for each in told:
        assert each["ranks"] == [1]
        assert each["error"].startswith("worker 1 (GPU1) is gone: ")


def unused(rank: int, size: int) -> tuple[list[float], torch.Tensor]:
    """DDP that looks for unused parameters issues small all-reduces between large ones."""
    model, data, target = model_and_data(rank)
    model[0].spare = torch.nn.Linear(100, 100)
    parallel = DistributedDataParallel(model, bucket_cap_mb=0.05, find_unused_parameters=True)
    return train(parallel, data, target), torch.cat([weight.detach().flatten() for weight in model.parameters()])


def test_ddp(workers):
    on_gloo = workers(with_ddp, False, backend="gloo")
    expect_as_on_gloo(workers(with_ddp, False, **ON_A_LINE), on_gloo)
    expect_as_on_gloo(workers(with_ddp, False, backend="cpu:treefold"), on_gloo)
    expect_as_on_gloo(workers(with_ddp, True, backend="gloo", **ON_A_LINE), on_gloo)
    expect_as_on_gloo(workers(with_ddp, True, backend="gloo"), on_gloo)
    expect_as_on_gloo(workers(with_ddp, True, **ON_A_LINE), on_gloo)
    expect_as_on_gloo(workers(unused, **ON_A_LINE), on_gloo)


def test_groups_of_the_hook_may_be_collected_anywhere():
    """Even in a thread that holds the lock which ending a thread needs, as one does that starts."""
    executor, closed, gone = OrderedExecutor("treefold-hook"), threading.Event(), set()
    executor._starter.submit(int).result()
    groups = [threading.Event()]  # anything that a weak reference may have
    hook._close_with(groups[0], executor, SimpleNamespace(close=closed.set))

    def collect() -> None:
        with getattr(threading, "_shutdown_locks_lock", nullcontext()):
            groups.clear()
            gc.collect()
        gone.add(True)

    threading.Thread(target=collect, daemon=True).start()
    assert closed.wait(20)
    assert gone


def with_fsdp(rank: int, size: int) -> list[float]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, data, target = model_and_data(0)
    fully_shard(model, mesh=init_device_mesh("cpu", (size,)))
    torch.manual_seed(rank)
    return train(model, data + torch.randn_like(data), target)


def test_fsdp(workers):
    on_gloo = workers(with_fsdp, backend="gloo")
    for losses, expected in zip(workers(with_fsdp, **ON_A_LINE), on_gloo, strict=True):
        torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected))
