"""Several ranks at each site: plans run between sites, and the wrapped backend inside them."""

import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import treefold
import treefold.torch
from tests_torch.test_passed_on import everything
from tests_torch.test_staging import in_stream, later, stand_in

HERE = ["paris", "oslo", "paris", "oslo"]
MESH = ["paris", "paris", "oslo", "oslo"]


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A network of three sites."""
    file = tmp_path_factory.mktemp("sites") / "wan.json"
    named = {"GPU0": "paris", "GPU1": "oslo", "GPU2": "rome"}
    treefold.save(treefold.topology("ring:3", bandwidth_Bps=1e7).renamed("wan", nodes=named), file)
    return str(file)


def at_sites(rank: int, size: int, names: list[str | None], function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function in a group whose ranks have names."""
    if (name := names[rank]) is not None:
        os.environ["TREEFOLD_NAME"] = name
    try:
        address = f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}"
        dist.init_process_group("treefold", init_method=address, rank=rank, world_size=size)
        try:
            return function(rank, size, *arguments)
        finally:
            dist.destroy_process_group()
    finally:
        os.environ.pop("TREEFOLD_NAME", None)


def same(found: Any, wanted: Any) -> bool:
    if isinstance(found, torch.Tensor):
        return torch.equal(found, wanted)
    if isinstance(found, list | tuple):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(found, dict):
        return found.keys() == wanted.keys() and all(same(found[key], wanted[key]) for key in found)
    return bool(found == wanted)


def test_every_call_gives_what_gloo_gives(workers, network):
    at = {"TREEFOLD_TOPOLOGY": network, "TREEFOLD_LEAST_SIZE": "1"}
    found = workers(at_sites, HERE, everything, backend=None, **at)
    for mine, wanted in zip(found, workers(everything, backend="gloo"), strict=True):
        assert [key for key in wanted if not same(mine[key], wanted[key])] == []


def reduced(rank: int, size: int, elements: int, dtype: torch.dtype) -> list[str]:
    """Return which operations gave something wrong."""

    def of(who: int, seed: int = 0) -> torch.Tensor:
        return ((torch.arange(elements) + seed) % 7 + who).to(dtype)

    total = sum((of(who) for who in range(size)), torch.zeros(elements, dtype=dtype))
    tensors = [of(rank, seed) for seed in range(4)]
    for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
        work.wait()
    columns = of(rank).view(-1, 1).expand(-1, 3).contiguous()
    dist.all_reduce(columns[:, 1])
    dist.all_reduce(most := of(rank), dist.ReduceOp.MAX)
    dist.all_reduce(mean := of(rank), dist.ReduceOp.AVG)
    dist.all_reduce_coalesced(several := [of(rank), of(rank, 3)[: elements // 2 + 1]])
    wrong = [] if torch.equal(several[0], total) else ["coalesced"]
    for root in range(size):
        dist.broadcast(sent := of(rank), root)
        wrong += [] if torch.equal(sent, of(root)) else [f"broadcast from {root}"]
    checks = {"sum": (tensors[0], total), "column": (columns[:, 1], total), "max": (most, of(size - 1))}
    checks |= {"avg": (mean, total / size), "others": (columns[:, 0], of(rank))}
    return wrong + [name for name, (found, wanted) in checks.items() if not torch.equal(found, wanted)]


@pytest.mark.parametrize(
    ("elements", "dtype"), [(1, "float64"), (3, "float32"), (40_001, "float32"), (9_998, "bfloat16")]
)
def test_sizes_that_sites_cannot_share_evenly(workers, network, elements, dtype):
    at = {"TREEFOLD_TOPOLOGY": network, "TREEFOLD_LEAST_SIZE": "1"}
    assert workers(at_sites, HERE, reduced, elements, getattr(torch, dtype), backend=None, **at) == [[]] * 4


def on_a_mesh(rank: int, size: int) -> tuple[Any, ...]:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    across, inside = (mesh[name].get_group() for name in ("replicate", "shard"))
    tensor = torch.full((5000,), float(rank))
    dist.all_reduce(tensor, group=across)
    whole = across.planned.group.plan.topology.links()[0].bandwidth_Bps
    statuses = [treefold.torch.status(group) for group in (None, across, inside)]
    return tensor[0].item(), whole, *statuses


def test_a_mesh_of_sites_and_ranks(workers, network):
    for rank, answer in enumerate(workers(at_sites, MESH, on_a_mesh, backend=None, TREEFOLD_TOPOLOGY=network)):
        total, rate, world, across, inside = answer
        assert total == 2 * (rank % 2) + 2
        assert rate == 5e6, "two such groups share each link"
        assert (world.sites, world.at_once, world.network) == (2, 2, "wan")
        assert (across.sites, across.at_once, across.ranks) == (None, 2, 2)
        assert "(2 sites of 2 ranks)" in str(world) and "(2 ranks, one of 2 groups at once)" in str(across)
        assert inside.reason == "all ranks are at one site, 'paris'" or rank > 1


def hsdp(rank: int, size: int, names: tuple[str, str]) -> tuple[list[float], bool]:
    """Train a model that is sharded inside each site and replicated between them; return its losses."""
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(1)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=names)
    model = torch.nn.Sequential(torch.nn.Linear(40, 90), torch.nn.Tanh(), torch.nn.Linear(90, 40))
    fully_shard(model, mesh=mesh)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    data = torch.Generator().manual_seed(rank)
    for _ in range(4):
        optimizer.zero_grad()
        batch = torch.randn(8, 40, generator=data)
        loss = (model(batch) - batch).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    group = mesh["across"].get_group()
    return losses, isinstance(group, treefold.torch.ProcessGroup) and not treefold.torch.status(group).reason


def test_hsdp_trains_as_with_gloo(workers, network):
    ours = workers(at_sites, MESH, hsdp, ("across", "inside"), backend=None, TREEFOLD_TOPOLOGY=network)
    theirs = workers(hsdp, ("across", "inside"), backend="gloo")
    for (mine, is_planned), (wanted, _) in zip(ours, theirs, strict=True):
        assert is_planned and mine == pytest.approx(wanted, rel=1e-5)


def hooked(rank: int, size: int, backend: str) -> tuple[list[float], str]:
    from torch.nn.parallel import DistributedDataParallel

    group = dist.new_group(backend=backend)
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Linear(40, 41), process_group=group)
    model.register_comm_hook(group, treefold.torch.comm_hook)
    model(torch.full((3, 40), float(rank))).sum().backward()
    return model.module.weight.grad[0, :3].tolist(), str(treefold.torch.status(group))


@pytest.mark.parametrize("backend", ["gloo", "cpu:gloo"])
def test_the_hook_plans_between_sites(workers, network, backend):
    for gradient, text in workers(at_sites, HERE, hooked, backend, backend=None, TREEFOLD_TOPOLOGY=network):
        assert gradient == [4.5] * 3 and "(2 sites of 2 ranks)" in text


def rounded(rank: int, size: int) -> list[float]:
    errors = []
    total = torch.zeros(20_001)
    tensor = torch.empty(20_001)
    for _ in range(20):
        tensor.copy_(torch.linspace(0.1, 1, 20_001) * (rank + 1))
        dist.all_reduce(tensor)
        total += tensor
        errors.append((total / (len(errors) + 1) - torch.linspace(0.1, 1, 20_001) * 10).abs().max().item())
    return errors


def test_error_feedback_between_sites(workers, network):
    at = {"TREEFOLD_TOPOLOGY": network, "TREEFOLD_WIRE": "int8"}
    plain = workers(at_sites, HERE, rounded, backend=None, **at)[0]
    kept = workers(at_sites, HERE, rounded, backend=None, TREEFOLD_ERROR_FEEDBACK="yes", **at)[0]
    assert kept[-1] < plain[-1] / 4, "errors of many steps do not add up"


def staged(rank: int, size: int) -> list[str]:
    """Return what went wrong with tensors of a stand-in for a GPU, whose operations inside sites are in its streams."""
    from treefold.torch import inside

    def streamed(function: Callable[..., None], device: Any) -> Callable[..., None]:
        def later_on(of: Any, things: Any, *rest: Any) -> None:
            used = [things] if isinstance(things, torch.Tensor) else [cut.tensor for cut in things]
            used += [each for each in rest if isinstance(each, torch.Tensor)]
            device.run(device.current(), lambda: function(of, things, *rest), reads=used, writes=used)

        return later_on

    names = ("_reduce_inside", "_gather_inside", "_send_inside", "_receive_inside")
    plain = {name: getattr(inside, name) for name in names}
    wrong = []
    with stand_in() as device:
        for name in names:
            setattr(inside, name, streamed(plain[name], device))
        try:
            for elements in (1, 70_001, 600_000):
                tensor, sent = torch.zeros(elements), torch.zeros(elements)
                in_stream(device, tensor, torch.arange(elements) % 5 * (rank + 1.0))
                in_stream(device, sent, torch.arange(elements) % 5 + float(rank))
                first = dist.all_reduce(tensor, async_op=True)
                dist.all_reduce(tensor, async_op=True).wait()
                first.wait()
                dist.broadcast(sent, 3)
                if not torch.equal(later(device, tensor), torch.arange(elements) % 5 * 40.0):
                    wrong.append(f"all-reduce of {elements}")
                if not torch.equal(later(device, sent), torch.arange(elements) % 5 + 3.0):
                    wrong.append(f"broadcast of {elements}")
        finally:
            for name in names:
                setattr(inside, name, plain[name])
        return wrong + device.races


def test_tensors_of_a_device_between_sites(workers, network):
    at = {"TREEFOLD_TOPOLOGY": network, "TREEFOLD_STAGING": "1MiB", "TREEFOLD_LEAST_SIZE": "1"}
    assert workers(at_sites, HERE, staged, backend=None, **at) == [[]] * 4


def status_text(rank: int, size: int) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return str(treefold.torch.status())


def error_of(rank: int, size: int, names: list[str | None]) -> str:
    try:
        at_sites(rank, size, names, status_text)
    except treefold.TreefoldError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["paris", "paris", "paris", "paris"], "plans nothing, all goes to gloo: all ranks are at one site, 'paris'"),
        (["paris", "oslo", "rome", "paris"], "sites have different numbers of ranks (paris has 2, oslo has 1, rome"),
        (["paris/0", "oslo:a", "paris/1", "oslo:b"], "(2 sites of 2 ranks)"),
    ],
)
def test_what_is_planned_at_sites(workers, network, names, words):
    for text in workers(at_sites, names, status_text, backend=None, TREEFOLD_TOPOLOGY=network):
        assert words in text


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["paris", None, "paris", "oslo"], "rank 1 has no site, and others are at oslo, paris; set TREEFOLD_NAME to"),
        (["paris", "osl", "paris", "oslo"], "rank 1 is at 'osl' (TREEFOLD_NAME), which the network does not have; did"),
        (["paris", "x", "paris", "oslo"], "which the network does not have; it has oslo, paris, rome"),
    ],
)
def test_names_that_are_no_sites_are_told_to_all_ranks(workers, network, names, words):
    for text in workers(error_of, names, backend=None, TREEFOLD_TOPOLOGY=network):
        assert words in text


def test_plans_for_sites(workers, network, tmp_path):
    sites = treefold.topology(network, ranks=["oslo", "paris"])
    plan, other = tmp_path / "plan.json", tmp_path / "other.json"
    treefold.save(treefold.plan(sites, "multitree"), plan)
    treefold.save(treefold.plan(treefold.topology(network), "multitree"), other)
    for text in workers(at_sites, HERE, status_text, backend=None, TREEFOLD_PLAN=str(plan)):
        assert "with multitree on network 'wan' (2 sites of 2 ranks)" in text
    for text in workers(at_sites, HERE, status_text, backend=None, TREEFOLD_PLAN=str(other)):
        assert "the plan is for 3 ranks, and this group has others; give the topology" in text


def mesh_status(rank: int, size: int) -> tuple[str, str]:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    dist.all_reduce(torch.ones(5000))
    return status_text(rank, size), str(treefold.torch.status(mesh["replicate"].get_group()))


def test_sites_that_nobody_described(workers, tmp_path: Path):
    at = {"TREEFOLD_TOPOLOGY": f"discover:{tmp_path / 'net.json'}", "TREEFOLD_PROBE_SECONDS": "1"}
    for _ in range(2):
        for world, across in workers(at_sites, MESH, mesh_status, backend=None, **at):
            assert "(2 sites of 2 ranks)" in world and "(2 ranks, one of 2 groups at once)" in across
    assert treefold.topology(tmp_path / "net.json").rank_names == ["paris", "oslo"]


def one_leaves(rank: int, size: int) -> str:
    dist.all_reduce(torch.ones(5000))
    dist.barrier()
    if rank == 1:
        dist.distributed_c10d._get_default_group().planned.close()
        return ""
    try:
        dist.all_reduce(torch.ones(5000))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def one_fails(rank: int, size: int) -> tuple[str, float]:
    """Return the error of each rank if an operation fails on one of them, which stays, and the seconds until then."""
    group = dist.distributed_c10d._get_default_group()
    dist.all_reduce(torch.ones(5000))
    dist.barrier()
    if rank == 1:

        def fail(*_: Any, **__: Any) -> None:
            raise treefold.TreefoldError("no plan today")

        group.planned.group.start_all_reduce = fail
    begun, text = time.monotonic(), ""
    try:
        dist.all_reduce(torch.ones(5000))
    except Exception as error:
        text = str(error)
    group._executor.close()
    dist.distributed_c10d._get_default_store().add("ended", 1)
    while dist.distributed_c10d._get_default_store().add("ended", 0) < size:
        time.sleep(0.05)  # no rank leaves before all have failed
    return text, time.monotonic() - begun


def test_what_fails_on_one_rank_fails_on_all(workers, network):
    answers = workers(at_sites, HERE, one_fails, backend=None, TREEFOLD_TOPOLOGY=network)
    assert answers[1][0] == "no plan today"
    assert all(text and seconds < 30 for text, seconds in answers)


def split(rank: int, size: int) -> str:
    try:
        dist.split_group(split_ranks=[[0, 1], [2, 3]])
    except (treefold.TreefoldError, RuntimeError) as error:  # older versions of PyTorch refuse by themselves
        return str(error)
    return ""


def test_groups_cannot_be_split(workers):
    for text in workers(split, TREEFOLD_TOPOLOGY="ring:4"):
        assert "cannot be split; call new_group" in text or "not safe to split" in text


def test_a_rank_that_is_gone(workers, network):
    answers = workers(at_sites, HERE, one_leaves, backend=None, TREEFOLD_TOPOLOGY=network)
    told = [text for rank, text in enumerate(answers) if rank != 1]
    assert all("RankLostError" in text or "ranks at site " in text for text in told)
    assert any("rank 1 of the process group is lost" in text or "rank 3 of the" in text for text in told)
