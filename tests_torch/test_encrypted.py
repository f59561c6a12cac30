"""Calls of any size run over encrypted connections where there are certificates, and users learn what does not."""

import contextlib
import io
import os
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import treefold.torch
from treefold import certificates
from treefold.torch import ProcessGroup, reporting

ON_A_RING = {"TREEFOLD_TOPOLOGY": "full:4", "TREEFOLD_WIRE": "int8"}
SITES = ("GPU0", "GPU1", "GPU2", "GPU3")
REST = "treefold: TREEFOLD_TLS does not encrypt what gloo carries: send, recv, gather, scatter, "


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    certificates.make(SITES, folder)
    return str(folder)


@contextlib.contextmanager
def grouped(rank: int, size: int, keys: str, host: int = 0, backend: str = "treefold") -> Any:
    """Make a group of ranks that have certificates, and addresses of their own on loopback unless `host` is given."""
    os.environ["TREEFOLD_TLS"] = f"{keys}/{SITES[rank]}"
    os.environ["TREEFOLD_INTERFACE"] = f"127.0.0.{host or rank + 1}"
    reporting._reported.clear()
    try:
        dist.init_process_group(backend, rank=rank, world_size=size, timeout=timedelta(seconds=20))
        try:
            yield
        finally:
            dist.barrier()  # rank 0 keeps the store that the others need
            dist.destroy_process_group()
    finally:
        del os.environ["TREEFOLD_TLS"], os.environ["TREEFOLD_INTERFACE"]


@contextlib.contextmanager
def passed_on() -> Any:
    """Note which calls reach gloo."""
    names: list[str] = []
    passes = ProcessGroup.pass_on

    def note(self: ProcessGroup, name: str, *args: Any, **kwargs: Any) -> Any:
        names.append(name)
        return passes(self, name, *args, **kwargs)

    ProcessGroup.pass_on = note
    try:
        yield names
    finally:
        ProcessGroup.pass_on = passes


def small_calls(rank: int, size: int, keys: str) -> tuple[list[str], dict[str, Any]]:
    """Make small calls; return what reached gloo, and the results."""
    with grouped(rank, size, keys), passed_on() as names:
        dist.all_reduce(whole := torch.tensor([1.0, 1000.0]) * (rank + 1))
        dist.broadcast(sent := torch.tensor([rank]), 2)
        dist.all_gather(blocks := [torch.zeros(1, 2) for _ in range(size)], torch.full((1, 2), float(rank)))
        dist.all_gather_object(objects := [None] * size, {"rank": rank, "long": "x" * rank})
        listed = [rank, "x"]
        dist.broadcast_object_list(listed, 1)
        dist.barrier(async_op=True).wait()
        before = list(names)
        dist.gather(torch.ones(1), [torch.zeros(1) for _ in range(size)] if rank == 0 else None)
        assert names == [*before, "gather"]
        dist.barrier()
    found = {"sum": whole.tolist(), "sent": sent.tolist(), "listed": listed}
    return before, found | {"blocks": torch.cat(blocks).tolist(), "objects": objects}


def test_small_calls_are_encrypted_and_not_rounded(workers, keys):
    for reached_gloo, found in workers(small_calls, keys, backend=None, **ON_A_RING):
        assert reached_gloo == []
        assert found == {
            "sum": [10.0, 10000.0],  # int8 would round the first
            "sent": [2],
            "listed": [1, "x"],
            "blocks": [[float(rank)] * 2 for rank in range(4)],
            "objects": [{"rank": rank, "long": "x" * rank} for rank in range(4)],
        }


def trains(rank: int, size: int, keys: str) -> list[str]:
    """Train with what needs small messages: buffers that are broadcast, and parameters that are not always used."""
    with grouped(rank, size, keys), passed_on() as names:
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
        parallel = DistributedDataParallel(model, find_unused_parameters=True)
        for _ in range(3):
            parallel(torch.randn(4, 8)).sum().backward()
    return names


def test_nothing_of_ddp_goes_by_gloo(workers, keys):
    assert workers(trains, keys, backend=None, **ON_A_RING) == [[]] * 4


def shards(rank: int, size: int, keys: str) -> list[str]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    with grouped(rank, size, keys), passed_on() as names:
        mesh = init_device_mesh("cpu", (size,))
        model = fully_shard(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)), mesh=mesh)
        for _ in range(2):
            model(torch.randn(4, 8)).sum().backward()
    return names


def test_nothing_of_fsdp_goes_by_gloo(workers, keys):
    assert workers(shards, keys, backend=None, **ON_A_RING) == [[]] * 4


def told(rank: int, size: int, keys: str, host: int) -> tuple[list[str], str, bool]:
    with contextlib.redirect_stderr(io.StringIO()) as stream, grouped(rank, size, keys, host):
        status = treefold.torch.status()
    return stream.getvalue().splitlines(), str(status), status.encrypted


@pytest.mark.parametrize(("host", "is_told"), [(0, True), (1, False)], ids=["machines", "one machine"])
def test_what_gloo_sends_between_machines_is_told_once_by_rank_0(workers, keys, host, is_told):
    (lines, status, is_encrypted), *others = workers(told, keys, host, backend=None, **ON_A_RING)
    assert [line.startswith(REST) for line in lines[1:]] == [True] * is_told
    assert is_encrypted and all(each[0] == [] for each in others)
    assert status.startswith("treefold plans tensors of any size with ")
    assert "over tcp with TLS, " in status and status.endswith("; all else goes to gloo, unencrypted")


@pytest.mark.parametrize(
    ("environment", "start"),
    [
        ({}, "treefold: TREEFOLD_TLS is set, but nothing is planned, and gloo encrypts nothing of what"),
        ({"TREEFOLD_PLAN": "p2p"}, "treefold: TREEFOLD_TLS encrypts only all_reduce and barrier in plans of p2p; gloo"),
    ],
)
def test_that_less_is_encrypted_is_told(workers, keys, tmp_path, environment, start):
    if environment:
        environment = {"TREEFOLD_PLAN": str(tmp_path / "plan.json")}
        treefold.save(treefold.plan("full:4", "p2p"), environment["TREEFOLD_PLAN"])
    lines, _, is_encrypted = workers(told, keys, 0, backend=None, **environment)[0]
    assert [line.startswith(start) for line in lines[1:]] == [True]
    assert is_encrypted == bool(environment)


def told_of_the_hook(rank: int, size: int, keys: str) -> tuple[list[str], bool]:
    with contextlib.redirect_stderr(io.StringIO()) as stream, grouped(rank, size, keys, backend="gloo"):
        model = DistributedDataParallel(torch.nn.Linear(4, 4))
        model.register_comm_hook(None, treefold.torch.comm_hook)
        model(torch.ones(1, 4)).sum().backward()
        is_encrypted = treefold.torch.status().encrypted
    return stream.getvalue().splitlines(), is_encrypted


def test_that_only_the_hook_is_encrypted_is_told(workers, keys):
    start = "treefold: TREEFOLD_TLS encrypts only gradients of the communication hook; gloo carries all else in clear"
    (lines, is_encrypted), *_ = workers(told_of_the_hook, keys, backend=None, **ON_A_RING)
    assert [line.startswith(start) for line in lines if line.startswith("treefold: ")] == [True]
    assert is_encrypted
