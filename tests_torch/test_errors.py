"""What goes wrong is said on every rank, by name."""

import os
import sys
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import treefold
import treefold.torch
from treefold.torch.options import chosen
from treefold.torch.wrapped import backends_of

ON_A_RING = {"TREEFOLD_TOPOLOGY": "ring:4"}


def message_of(action, *arguments: object) -> str:
    """Return what an action raises, as one line."""
    try:
        action(*arguments)
    except treefold.TreefoldError as error:
        return str(error)
    return "no error"


def disagree(rank: int, size: int, how: str) -> str:
    length, dtype, operator = 5000, torch.float32, dist.ReduceOp.SUM
    if rank == 2:
        length = 6000 if how == "size" else length
        dtype = torch.int32 if how == "type" else dtype
        operator = dist.ReduceOp.MAX if how == "operator" else operator
    begun = time.monotonic()
    message = message_of(dist.all_reduce, torch.ones(length, dtype=dtype), operator)
    dist.group.WORLD.planned.close()
    assert time.monotonic() - begun < 10
    return message


@pytest.mark.parametrize("transport", ["tcp", "torch"])
@pytest.mark.parametrize("how", ["size", "type", "operator"])
def test_ranks_that_disagree(workers, how, transport):
    for message in workers(disagree, how, TREEFOLD_TRANSPORT=transport, **ON_A_RING):
        assert "the ranks disagree" in message
        assert "worker 2" in message or "rank 2" in message


def fail(rank: int, size: int) -> list[str]:
    """Rank 1 fails while much is under way."""
    engine, came = dist.group.WORLD.planned.group.transport.engine, 0
    completions = engine.completions

    def failing(timeout_s: float) -> object:
        nonlocal came
        came += 1
        if rank == 1 and came == 2:  # so early that nobody has all
            raise treefold.TreefoldError("enough")
        return completions(timeout_s)

    engine.completions = failing
    return [message_of(dist.all_reduce, torch.ones(2_000_000)) for _ in range(2)]


def test_a_rank_that_fails_over_gloo_messages(workers):
    for rank, (first, second) in enumerate(workers(fail, TREEFOLD_TRANSPORT="torch", **ON_A_RING)):
        assert first == ("enough" if rank == 1 else "worker 1 gave up: enough")
        assert second == f"an earlier operation of this group failed ({first}); form a new group"


def one_waits(rank: int, size: int) -> str:
    if rank == 2:
        time.sleep(4)
        return "late"
    # Rank 0 is not near rank 2: if its time were over first, all would hear that it awaits ranks 1 and 3.
    dist.group.WORLD.planned.group.transport.silence_s = 3 if rank == 0 else 1
    return message_of(dist.all_reduce, torch.ones(5000))


def test_who_is_late_is_named_over_gloo_messages(workers):
    for rank, message in enumerate(workers(one_waits, TREEFOLD_TRANSPORT="torch", **ON_A_RING)):
        awaited = message.partition("nothing came from or left for worker ")[2].partition(" within")[0]
        assert rank == 2 or "2" in awaited.split(", ")


def start(rank: int, size: int, only_on: int | None) -> str:
    if only_on is not None and rank != only_on:
        os.environ.pop("TREEFOLD_TOPOLOGY", None)

    def begin() -> None:
        dist.init_process_group("treefold", rank=rank, world_size=size, timeout=timedelta(seconds=20))

    try:
        return message_of(begin)
    finally:
        os.environ.setdefault("TREEFOLD_TOPOLOGY", "")
        if dist.is_initialized():
            dist.destroy_process_group()


def test_options_that_do_not_fit(workers, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(treefold.plan("ring:3").to_json())
    for environment, words in [
        ({"TREEFOLD_PLAN": str(plan)}, "the plan is for 3 ranks, the process group has 4"),
        ({"TREEFOLD_TOPOLOGY": "ring:5"}, "has 5 ranks, the process group has 4"),
        ({"TREEFOLD_PLAN": str(tmp_path / "none.json")}, "none.json"),
        ({"TREEFOLD_TOPOLOGY": "ring:4", "TREEFOLD_LEAST_SIZE": "much"}, "much"),
        ({"TREEFOLD_WRAPS": "carrier-pigeon"}, "backend 'carrier-pigeon' cannot be wrapped"),
    ]:
        for message in workers(start, None, backend=None, **environment):
            assert words in message


@pytest.mark.parametrize(
    ("wraps", "words"),
    [
        ("nccl", "backend 'nccl' cannot be wrapped for cuda tensors: torch finds no such device here"),
        ("cpu:gloo, CUDA:nccl", "backend 'nccl' cannot be wrapped for cuda tensors"),
        ("pigeon:gloo", "backend 'gloo' cannot be wrapped for pigeon tensors"),
        ("cpu:", "backend '' cannot be wrapped; known are "),
    ],
)
def test_a_backend_of_a_device_that_is_not_here(monkeypatch, wraps, words):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: None)
    assert words in message_of(backends_of, wraps)


def test_a_topology_on_one_rank_only(workers):
    for message in workers(start, 2, backend=None, **ON_A_RING):
        assert "rank 2 has a plan or a topology, rank 0 has none" in message


def start_with(rank: int, size: int, variables: list[dict[str, str]]) -> tuple[str, float]:
    """Start a group and run an operation while each rank has variables of its own."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables[rank].items():
            patch.setenv(name, value)
        begun = time.monotonic()
        message = message_of(use, rank, size)
        return message, time.monotonic() - begun


def use(rank: int, size: int) -> None:
    try:
        dist.init_process_group("treefold", rank=rank, world_size=size, timeout=timedelta(seconds=20))
        dist.all_reduce(vector := torch.ones(5000))
        assert (vector == size).all()
        dist.all_reduce(small := torch.ones(1))
        assert small.item() == size
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


@pytest.mark.parametrize("transport", ["tcp", "torch"])
def test_an_interface_on_some_ranks_only(workers, transport):
    some = [{}, {"TREEFOLD_INTERFACE": "127.0.0.2"}, {"TREEFOLD_INTERFACE": "lo"}, {}]
    answers = workers(start_with, some, backend=None, TREEFOLD_TRANSPORT=transport, **ON_A_RING)
    assert [message for message, _ in answers] == ["no error"] * 4


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ([{}, {}, {"TREEFOLD_INTERFACE": "eth77"}, {}], "worker 2: TREEFOLD_INTERFACE: interface 'eth77' does not exi"),
        ([{}, {"TREEFOLD_INTERFACE": "192.0.2.1"}] * 2, "workers 1, 3: TREEFOLD_INTERFACE: address '192.0.2.1' is not"),
        ([{}, {}, {}, {"TREEFOLD_NAME": "x\ny"}], "worker 3: TREEFOLD_NAME 'x\\ny' is not a name"),
        ([{"TREEFOLD_JOB": "a"}, {"TREEFOLD_JOB": "a"}, {"TREEFOLD_JOB": "b"}, {}], "workers 2, 3 have another TREEFO"),
        ([{}, {"TREEFOLD_JOB": "a"}, {}, {}], "worker 1 has another TREEFOLD_JOB than worker 0, or only one"),
        ([{"TREEFOLD_ADAPT": "ja"}] * 4, "all ranks: TREEFOLD_ADAPT: 'ja' is unknown; known are yes (1, true, on), no"),
        ([{}, {"TREEFOLD_ADAPT": "Ture"}, {}, {}], "rank 1: TREEFOLD_ADAPT: 'Ture' is unknown; did you mean true?"),
        ([{}, {"TREEFOLD_LEAST_SIZE": "big"}] * 2, "ranks 1, 3: TREEFOLD_LEAST_SIZE: size 'big': write a number and "),
        ([{"TREEFOLD_TRANSPORT": "tpc"}] * 4, "all ranks: TREEFOLD_TRANSPORT: transport 'tpc' is unknown; did"),
        (
            [{"TREEFOLD_NAME": name} for name in ("GPU0", "GPU1", "GPU3", "GPUU2")],
            "it has no rank GPUU2, and no worker is called GPU2; set TREEFOLD_NAME to its accelerators' names; worker "
            "3 is called 'GPUU2', did you mean 'GPU2'?",
        ),
    ],
)
def test_a_variable_that_does_not_do_is_told_to_all_ranks_at_once(workers, variables, words):
    for message, seconds in workers(start_with, variables, backend=None, **ON_A_RING):
        assert words in message
        assert seconds < 15


@pytest.mark.parametrize(("text", "adapt"), [("TRUE", True), ("yes", True), ("off", False), ("Auto", "auto")])
def test_spellings_of_adapt(monkeypatch, text, adapt):
    monkeypatch.setenv("TREEFOLD_ADAPT", text)
    assert chosen(None).adapt == adapt


def one_leaves(rank: int, size: int) -> tuple[str, float]:
    dist.all_reduce(torch.ones(5000))
    dist.barrier()  # a rank may end the all-reduce, and leave, before others have their sums
    if rank == 1:
        dist.distributed_c10d._get_default_group().planned.close()
        return "left", 0.0
    begun = time.monotonic()
    return message_of(dist.all_reduce, torch.ones(5000)), time.monotonic() - begun


@pytest.mark.parametrize("transport", ["tcp", "torch"])
def test_a_rank_that_is_gone(workers, transport):
    answers = workers(one_leaves, TREEFOLD_TRANSPORT=transport, **ON_A_RING)
    for rank, (message, seconds) in enumerate(answers):
        assert rank == 1 or ("worker 1" in message and seconds < 30)


def test_unknown_options():
    with pytest.raises(treefold.TreefoldError, match="option 'colour' is unknown; known are plan, topology"):
        treefold.torch.configure(colour="red")
    with pytest.raises(treefold.TreefoldError, match="give one of the two"):
        treefold.torch.configure(plan="a", topology="b")
    for value in (-1, 4096.5):
        with pytest.raises(treefold.TreefoldError, match="least_bytes must be"):
            treefold.torch.configure(least_bytes=value)
    assert treefold.torch.Options(least_bytes="64KiB").least_bytes == 65536


def test_no_torch_or_another_one(monkeypatch):
    from treefold.torch.versions import check_torch

    with monkeypatch.context() as without:
        without.setitem(sys.modules, "torch", None)
        with pytest.raises(treefold.TreefoldError, match=r"needs PyTorch.*pip install 'treefold\[torch\]'"):
            check_torch()
    monkeypatch.setattr(torch, "__version__", "1.13.1+cpu")
    with pytest.raises(treefold.TreefoldError, match=r"1.13.1.* is too old.*pip install 'treefold\[torch\]'"):
        check_torch()
