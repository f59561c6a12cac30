"""The page on `treefold.torch` says which calls run by a plan; here each of them is called."""

import re
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import treefold.torch
from treefold.torch.versions import has

PAGE = (Path(__file__).parents[1] / "docs" / "torch.md").read_text(encoding="utf-8")
ON_A_RING = {"TREEFOLD_TOPOLOGY": "ring:4"}
LENGTH = 4096


def calls(rank: int, size: int) -> dict[str, object]:
    """Return each call by its name in the table; those with a choice of arguments have all of them."""
    vector, block = torch.ones(LENGTH), torch.ones(LENGTH // size)
    parts = list(torch.ones(LENGTH).chunk(size))
    whole = [torch.empty(LENGTH) for _ in range(size)]
    after, before = (rank + 1) % size, (rank - 1) % size

    def exchange() -> None:
        sent = dist.isend(vector, after)
        dist.recv(torch.empty(LENGTH), before)
        sent.wait()

    return {
        "all_reduce": lambda: dist.all_reduce(vector),
        "broadcast": lambda: dist.broadcast(vector, 1),
        "reduce": lambda: dist.reduce(vector, 1),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(torch.empty(LENGTH), block),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(block, vector),
        "all_to_all_single": lambda: dist.all_to_all_single(torch.empty(LENGTH), vector),
        "all_gather": lambda: dist.all_gather(whole, vector),
        "gather": lambda: dist.gather(vector, whole if rank == 0 else None, 0),
        "scatter": lambda: dist.scatter(block, parts if rank == 0 else None, 0),
        "reduce_scatter": lambda: dist.reduce_scatter(block, parts),
        "all_to_all": lambda: dist.all_to_all([torch.empty(LENGTH // size) for _ in parts], parts),
        "barrier": lambda: dist.barrier(),
        "send": exchange,
        "recv": exchange,
        "smaller": lambda: dist.all_reduce(torch.ones(100)),
        "with sizes": lambda: dist.all_to_all_single(
            torch.empty(LENGTH), vector, [LENGTH // size] * size, [LENGTH // size] * size
        ),
    }


def planned_of(rank: int, size: int) -> dict[str, bool]:
    """Return whether each call ran by the plan."""
    group, runs = dist.group.WORLD.planned.group, []
    start = group._start
    group._start = lambda *arguments: (runs.append(1), start(*arguments))[1]
    found = {}
    for name, call in calls(rank, size).items():
        before = len(runs)
        refuses = name == "all_to_all" and not has("lists over gloo")
        with pytest.raises(RuntimeError, match="gloo does not support") if refuses else nullcontext():
            call()
        found[name] = len(runs) > before
    return found


def test_each_call_runs_where_the_table_says(workers):
    [row] = [line for line in PAGE.splitlines() if line.startswith("| call |")]
    by_plan, passed_on = (set(re.findall(r"`(\w+)`", cell)) for cell in row.split("|")[2:4])
    expected = dict.fromkeys(passed_on, False) | dict.fromkeys(by_plan, True)
    expected |= {"smaller": False, "with sizes": True}
    for found in workers(planned_of, **ON_A_RING):
        assert found == expected


def test_the_page_names_everything_that_is_public():
    public = PAGE.partition("## What is public")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)", public, re.MULTILINE)) == set(treefold.torch.__all__)
    assert all(f"`{name}`" in public for name in treefold.torch.Status._fields)
