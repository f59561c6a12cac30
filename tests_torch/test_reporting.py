"""Users are told what is planned, or why nothing is: once a process, by one rank, without configuring logging."""

import contextlib
import io
import logging
from collections.abc import Callable
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import treefold
import treefold.torch
from treefold.torch import reporting

ON_A_RING = {"TREEFOLD_TOPOLOGY": "ring:4"}
PLANS_ON_A_RING = "on network 'ring:4' (4 ranks), over tcp; all else goes to gloo"
NOTHING = "treefold plans nothing, all goes to gloo: neither a plan nor a topology was given; set TREEFOLD_TOPOLOGY="


def shown(rank: int, size: int, action: Callable[[], object]) -> list[str]:
    """Return the lines that a fresh process would show while a group is made and used, and a second one is made."""
    reporting._reported.clear()
    with contextlib.redirect_stderr(io.StringIO()) as stream:
        dist.init_process_group("treefold", rank=rank, world_size=size, timeout=timedelta(seconds=20))
        try:
            action()
            dist.new_group(list(range(size)))
            dist.barrier()  # rank 0 keeps the store that the others need to meet
        finally:
            dist.destroy_process_group()
    return stream.getvalue().splitlines()


def use() -> None:
    dist.all_reduce(torch.ones(5000))


def use_other_tensors() -> None:
    """Tensors that are not on the CPU; torch does nothing with these, or in older versions refuses them."""
    for _ in range(2):
        with contextlib.suppress(NotImplementedError):
            dist.all_reduce(torch.empty(5000, device="meta"))


def halve() -> None:
    dist.new_group([0, 1])
    dist.new_group([2, 3])


def test_which_plan_is_used_is_told_once_by_rank_0(workers):
    first, *others = workers(shown, use, backend=None, **ON_A_RING)
    [line] = first
    assert line.startswith("treefold plans tensors of 4KiB or more with ")
    assert line.endswith(PLANS_ON_A_RING)
    assert others == [[]] * 3


def test_that_nothing_is_planned_is_told_once_by_rank_0(workers):
    first, *others = workers(shown, use, backend=None)
    [line] = first
    assert line.startswith(NOTHING)
    assert others == [[]] * 3


def test_a_misspelt_variable_is_told(workers):
    first, *others = workers(shown, use, backend=None, TREEFOLD_TOPOLOG="ring:4")
    assert first[0] == (
        "treefold: environment variable 'TREEFOLD_TOPOLOG' is unknown and ignored; did you mean TREEFOLD_TOPOLOGY?"
    )
    assert first[1].startswith(NOTHING)
    assert others == [[]] * 3


def test_tensors_of_another_device_are_told_of_once(workers):
    first, *others = workers(shown, use_other_tensors, backend=None, **ON_A_RING)
    assert first[1:] == ["treefold passes META tensors on to gloo: it plans CPU and CUDA tensors"]
    assert others == [[]] * 3


def test_groups_that_a_plan_does_not_fit_are_told_of(workers, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(treefold.plan("ring:4").to_json())
    for rank, lines in enumerate(workers(shown, halve, backend=None, TREEFOLD_PLAN=str(plan))):
        of_halves = [line for line in lines if "the plan is for the group of all ranks" in line]
        assert len(of_halves) == (1 if rank in (0, 2) else 0)


def level_where_info_is_shown(rank: int, size: int) -> list[int]:
    reporting._reported.clear()
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append
    reporting.LOG.addHandler(handler)
    reporting.LOG.setLevel(logging.INFO)
    try:
        dist.init_process_group("treefold", rank=rank, world_size=size, timeout=timedelta(seconds=20))
        dist.barrier()
        dist.destroy_process_group()
    finally:
        reporting.LOG.removeHandler(handler)
        reporting.LOG.setLevel(logging.NOTSET)
    return [record.levelno for record in records]


def test_a_plan_is_no_warning_where_logging_shows_more(workers):
    assert workers(level_where_info_is_shown, backend=None, **ON_A_RING) == [[logging.INFO], [], [], []]


def statuses(rank: int, size: int) -> list[treefold.torch.Status]:
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    mine = treefold.torch.status(pairs[rank // 2])
    world = dist.group.WORLD
    whole = treefold.torch.status()
    dist.barrier()  # rank 0 keeps the store that the others need to meet
    world.planned.close()
    return [whole, mine, treefold.torch.status(world)]


def test_status_of_groups(workers):
    for whole, half, closed in workers(statuses, **ON_A_RING):
        assert whole.algorithm and str(whole).endswith(PLANS_ON_A_RING)
        assert whole[1:] == ("ring:4", 4, 4096, "tcp", "gloo", "", False, None, False, False, None, 1)
        assert half.algorithm and half.ranks == 2
        assert closed.algorithm is None and closed.reason == "the process group is closed; form a new one"
    for whole, _, _ in workers(statuses):
        assert whole.algorithm is None and str(whole).startswith(NOTHING)


def status_on_gloo(rank: int, size: int) -> tuple[str, treefold.torch.Status]:
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(100, 100))
    model.register_comm_hook(None, treefold.torch.comm_hook)
    with pytest.raises(treefold.TreefoldError) as raised:
        treefold.torch.status()
    model(torch.ones(1, 100)).sum().backward()
    return str(raised.value), treefold.torch.status()


def test_status_of_the_hook(workers):
    for before, after in workers(status_on_gloo, backend="gloo", **ON_A_RING):
        assert "backend is gloo and no bucket has come to the communication hook" in before
        assert str(after).endswith(PLANS_ON_A_RING)


def test_status_without_a_group():
    with pytest.raises(treefold.TreefoldError, match="call init_process_group first"):
        treefold.torch.status()


def adapting(rank: int, size: int) -> treefold.torch.Status:
    return treefold.torch.status()


@pytest.mark.parametrize(
    ("text", "words"),
    [("yes", "over tcp, following links that change; all else"), ("auto", "that change by any algorithm; all else")],
)
def test_status_says_whether_the_plan_adapts(workers, text, words):
    for status in workers(adapting, TREEFOLD_ADAPT=text, **ON_A_RING):
        assert status.adapt == (text if text == "auto" else True)
        assert words in str(status)
