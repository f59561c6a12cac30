"""The table of torch's changes is true of the torch that runs, and the backend does what the table says."""

import subprocess
import sys
from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from treefold.torch import versions, wrapped

CONNECTS = """
import torch.distributed as dist
{first}
dist.init_process_group({backend!r}, store=dist.HashStore(), rank=0, world_size=1)
print("connected")
dist.destroy_process_group()
"""


def connected(backend: str, first: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a program that connects."""
    code = CONNECTS.format(backend=backend, first=first)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def exchanges_lists(rank: int, size: int) -> bool:
    try:
        dist.all_to_all([torch.empty(2) for _ in range(size)], list(torch.ones(2 * size).chunk(size)))
    except RuntimeError:
        return False
    return True


CLAIMS = {
    "quiet gloo": lambda _: connected("gloo").stdout == "connected\n",
    "lists over gloo": lambda workers: all(workers(exchanges_lists, backend="gloo")),
    "single names": lambda _: hasattr(dist.ProcessGroup, "all_gather_single"),
    "entry points": lambda _: hasattr(c10d.Backend, "_ensure_backend_registered"),
}


@pytest.mark.parametrize("change", versions.CHANGES)
def test_the_torch_that_runs_has_what_the_table_says(workers, change):
    assert CLAIMS[change](workers) == versions.has(change)


def test_the_table_has_what_changed_since_the_oldest_version_in_order():
    since = [change.since for change in versions.CHANGES.values()]
    assert since == sorted(since) and since[0] > versions.OLDEST_TORCH


def test_groups_of_ours_print_nothing():
    done = connected("treefold", "import treefold.torch")
    assert done.stdout == "connected\n", done.stderr


def test_who_does_not_import_the_backend_has_it_where_torch_finds_it():
    done = connected("treefold")
    assert (done.stdout == "connected\n") == versions.has("entry points"), done.stderr
    assert versions.has("entry points") or "treefold" in done.stderr.lower()


def test_two_threads_may_connect_at_a_time(monkeypatch, capfd):
    """Standard output is back when both are done, whoever is done first."""
    monkeypatch.setattr(versions, "has", lambda _: False)
    first, second = versions.quiet_gloo(), versions.quiet_gloo()
    for enter_or_leave in (first.__enter__, second.__enter__, lambda: first.__exit__(None, None, None)):
        enter_or_leave()
        subprocess.run(["echo", "connected"], check=True)
    second.__exit__(None, None, None)
    subprocess.run(["echo", "result"], check=True)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("result\n", "connected\n" * 3)


def test_backends_of_torch_are_known_by_name(monkeypatch):
    monkeypatch.setattr(wrapped, "_is_here", lambda device: True)
    assert wrapped.backends_of("nccl") == {"cuda": "nccl"}
    assert wrapped.backends_of("cpu:gloo,cuda:nccl") == {"cpu": "gloo", "cuda": "nccl"}


@pytest.mark.skipif(torch.cuda.is_available(), reason="nccl would be made, and wait for other ranks")
def test_nccl_is_made_by_hand_up_to_the_missing_gpu():
    given = {"store": dist.HashStore(), "group_rank": 0, "group_size": 1, "timeout": timedelta(seconds=5)}
    with pytest.raises(ValueError, match="no GPUs found"):
        versions._nccl(SimpleNamespace(**given, group_id="0", global_ranks_in_group=[0]))


def four_arguments(store: object, rank: int, size: int, timeout: object) -> object:
    return dist.ProcessGroupGloo(dist.PrefixStore("mine", store), rank, size, timeout=timeout)


def described(given: object, options: object) -> object:
    assert options is None
    return four_arguments(given.store, given.group_rank, given.group_size, given.timeout)


def of_others(rank: int, size: int, is_described: bool) -> float:
    """Wrap a backend of somebody else's."""
    import treefold.torch

    make = described if is_described else four_arguments
    c10d.Backend.register_backend(name := f"others{is_described}".lower(), make, is_described, ["cpu"])
    dist.init_process_group("treefold", rank=rank, world_size=size, pg_options=treefold.torch.Options(wraps=name))
    try:
        dist.all_reduce(tensor := torch.ones(3))
        return tensor.sum().item()
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("is_described", [False, True])
def test_backends_of_others_are_wrapped(workers, is_described):
    assert workers(of_others, is_described, backend=None) == [12.0] * 4
