"""What process groups say that they have done: as values, as lines of JSON, as a summary, in the profiler."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

import treefold
import treefold.torch
from tests_torch.test_sites import HERE, MESH, at_sites, network  # noqa: F401
from treefold.rendezvous.sockets import free_port

ON_A_RING = {"TREEFOLD_TOPOLOGY": "ring:4"}
MIB = 1 << 20


def some_calls(rank: int, size: int) -> Any:
    """Return what was counted of calls, with seconds by a clock."""
    for _ in range(3):
        dist.all_reduce(torch.ones(MIB // 4))
    for work in [dist.all_reduce(torch.ones(MIB // 4), async_op=True) for _ in range(3)]:
        work.wait()
    dist.all_gather_into_tensor(torch.empty(MIB), torch.ones(MIB // 4))
    dist.reduce_scatter_tensor(torch.empty(MIB // 4), torch.ones(MIB))
    dist.all_to_all_single(torch.empty(MIB // 4), torch.ones(MIB // 4), [MIB // 16] * 4, [MIB // 16] * 4)
    dist.all_reduce(torch.ones(10))
    dist.barrier()
    [mine] = [
        each for each in treefold.torch.statistics() if each.algorithm is not None and each.ranks == [0, 1, 2, 3]
    ][-1:]
    return mine


def test_calls_and_bytes(workers):
    for found in workers(some_calls, **ON_A_RING):
        calls = {each.call: each for each in found.calls}
        assert [calls["all_reduce"][index] for index in (1, 2, 5, 6)] == [6, 6 * MIB, 1, 40]
        assert [calls["all_gather"][index] for index in (1, 2)] == [1, 4 * MIB]
        assert [calls["reduce_scatter"][index] for index in (1, 2)] == [1, 4 * MIB]
        assert [calls["all_to_all"][index] for index in (1, 2)] == [1, MIB]
        assert calls["barrier"].passed_on == 1 and calls["barrier"].part_of_bound is None
        assert all(each.seconds > 0 and 0 < each.part_of_bound < 1 for each in found.calls if each.calls)
        # Each rank sends 3/4 of a vector twice in an all-reduce and an all-to-all, and once in the others.
        least = (6 * 2 * 3 / 4 + 2 * 4 * 3 / 4 + 3 / 4) * MIB
        assert least <= found.bytes_between < 1.2 * least
        assert (found.sites, found.bytes_inside, found.replans) == ([], 0, [])


def on_a_mesh(rank: int, size: int) -> list[Any]:
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    dist.all_reduce(torch.ones(MIB // 4))
    dist.all_reduce(torch.ones(MIB // 4), group=mesh["replicate"].get_group())
    dist.all_reduce(torch.ones(MIB // 4), group=mesh["shard"].get_group())
    dist.all_gather_into_tensor(torch.empty(MIB), torch.ones(MIB // 4))
    return treefold.torch.statistics()[-3:]


def test_bytes_between_sites_and_inside(workers, network):  # noqa: F811
    answers = workers(at_sites, MESH, on_a_mesh, backend=None, TREEFOLD_TOPOLOGY=network)
    for rank, (world, across, inside) in enumerate(answers):
        assert (world.sites, across.sites) == (["paris", "oslo"], ["paris", "oslo"])
        assert MIB / 2 <= world.bytes_between < 0.6 * MIB and MIB <= across.bytes_between < 1.1 * MIB
        assert (world.bytes_inside, across.bytes_inside, inside.bytes_inside) == (MIB, 0, MIB)
        assert (world.bytes_unplanned, across.bytes_unplanned, inside.bytes_unplanned) == (4 * MIB, 0, 0)
        assert (inside.algorithm, inside.bytes_between) == (None, None)
        assert across.ranks == [rank % 2, rank % 2 + 2]


def rounded(rank: int, size: int) -> Any:
    dist.all_reduce(torch.ones(MIB))
    return treefold.torch.statistics()[-1]


def test_parts_of_the_bound_count_the_bytes_that_cross(workers):
    for found in workers(rounded, TREEFOLD_WIRE="int8", **ON_A_RING):
        assert found.bytes_between < 2 * MIB
        [call] = found.calls
        assert call.bytes == 4 * MIB
        bound = treefold.bounds.collective_bounds_of(treefold.topology("ring:4"), "all-reduce", 0).rate.rate_Bps
        assert call.part_of_bound == pytest.approx((1 + 4 / 256) * MIB / call.seconds / bound, rel=0.01)


def with_slow_links(rank: int, size: int) -> dict[str, float]:
    """Return the links that fell short if each sends at 4 MB/s, except the last rank's, which are as fast as known."""
    dist.all_reduce(torch.ones(MIB))
    transport = dist.group.WORLD.planned.group.transport
    seconds = 0.8 if rank == 3 else 2.0
    used = [SimpleNamespace(rank=(rank + 1) % size, sent_bytes=8_000_000, busy_s=seconds)]
    transport.link_usage = lambda: used
    return treefold.torch.statistics()[-1].short_links


def test_links_that_fall_short_are_named(workers, tmp_path: Path):
    file = tmp_path / "network.json"
    treefold.save(treefold.topology("ring:4", bandwidth_Bps=1e7), file)
    answers = workers(with_slow_links, TREEFOLD_TOPOLOGY=str(file))
    assert answers == [{f"GPU{rank} -> GPU{rank + 1}": pytest.approx(0.4)} for rank in range(3)] + [{}]


SCRIPT = """
import sys, torch, torch.distributed as dist, treefold.torch
dist.init_process_group("treefold")
for _ in range(2):
    dist.all_reduce(torch.ones(1 << 18))
dist.all_reduce(torch.ones(3))
dist.destroy_process_group()
"""


def run_two(environment: dict[str, str], tmp_path: Path) -> list[str]:
    """Run a script in two processes; return what each has written to stderr."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    port = str(free_port("127.0.0.1"))
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", **environment}
    common |= {"TREEFOLD_TOPOLOGY": "ring:2", "GLOO_SOCKET_IFNAME": "lo"}
    started = [
        subprocess.Popen([sys.executable, script], env=common | {"RANK": str(rank)}, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    return [each.communicate(timeout=120)[1] for each in started]


def test_lines_and_summary(tmp_path):
    log = tmp_path / "log.jsonl"
    first, second = run_two({"TREEFOLD_LOG": str(log), "TREEFOLD_SUMMARY": "yes"}, tmp_path)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert sorted(each["rank"] for each in lines) == [0, 1]
    for each in lines:
        assert each["calls"][0]["call"] == "all_reduce" and each["calls"][0]["bytes"] == 2 * MIB
        assert (each["ranks"], each["network"]) == ([0, 1], "ring:2")
    assert "treefold: what rank 0 did in " in first and "2MiB" in first and "on network 'ring:2'; sent " in first
    assert "treefold: what rank" not in second, "rank 0 tells what the groups did"


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("TREEFOLD_LOG", "/no/such/folder/log", "TREEFOLD_LOG: '/no/such/folder/log' cannot be written: No such file"),
        ("TREEFOLD_SUMMARY", "maybe", "TREEFOLD_SUMMARY: 'maybe' is unknown; it is yes (1, true, on) or no"),
    ],
)
def test_variables_that_cannot_be_used(tmp_path, variable, value, words):
    for text in run_two({variable: value}, tmp_path):
        assert words in text


def profiled(rank: int, size: int) -> list[tuple[str, bool]]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        work = dist.all_reduce(torch.ones(MIB), async_op=True)
        dist.broadcast(torch.ones(MIB), 0)
        work.wait()
    return [(each.name, each.time_range.elapsed_us() > 100) for each in profile.events() if "treefold" in each.name]


def test_the_profiler_sees_operations_by_name(workers):
    for found in workers(profiled, **ON_A_RING):
        assert sorted(found) == [("treefold::all_reduce", True), ("treefold::broadcast", True)]
