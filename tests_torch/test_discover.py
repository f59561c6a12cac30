"""TREEFOLD_TOPOLOGY=discover: the ranks measure their network once, keep it, and use their part of it."""

import contextlib
import io
import re
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import treefold
import treefold.torch
from treefold.torch import reporting

QUICK = {"TREEFOLD_PROBE_SECONDS": "6s"}
MEASURING = "treefold: measuring the network between 4 workers, for "


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("discovered")


def used(rank: int, size: int, backend: str = "treefold") -> tuple[list[str], float, list[str]]:
    """Return the lines that a fresh process shows, the sum of an all-reduce, and the networks of smaller groups."""
    reporting._reported.clear()
    with contextlib.redirect_stderr(io.StringIO()) as stream:
        dist.init_process_group(backend, rank=rank, world_size=size, timeout=timedelta(seconds=60))
        try:
            tensor = torch.ones(5000)
            dist.all_reduce(tensor)
            halves = [dist.new_group(ranks, backend="treefold") for ranks in ([0, 1], [2, 3])]
            dist.all_reduce(torch.ones(5000), group=halves[rank // 2])
            networks = [str(treefold.torch.status(halves[rank // 2]).network)]
            dist.barrier()  # rank 0 keeps the store that the others need to meet
        finally:
            dist.destroy_process_group()
    return stream.getvalue().splitlines(), float(tensor[0]), networks


def test_ranks_discover_their_network_once_and_use_their_part_of_it(workers, folder):
    here = {"TREEFOLD_TOPOLOGY": "discover", "XDG_CACHE_HOME": str(folder), **QUICK}
    first, *others = workers(used, backend=None, **here)
    [kept] = (folder / "treefold").iterdir()
    assert first[0][0] == f"{MEASURING}{kept}"
    assert re.match(r"treefold: 6 pairs, at most \d+ transfers of 0\.1\d* s or ", first[0][1])
    assert first[0][-1].startswith("treefold plans ") and "'probe of 4 workers'" in first[0][-1]
    assert all(re.match(r"treefold: (round |\d+ tests? of many pairs at once: )", line) for line in first[0][2:-1])
    assert [lines for lines, _, _ in others] == [[]] * 3
    assert {total for _, total, _ in (first, *others)} == {4.0}
    assert {each for _, _, networks in (first, *others) for each in networks} == {"probe of 4 workers"}
    before = kept.read_bytes()
    again = workers(used, backend=None, **here)[0][0]
    assert again[0] == f"treefold: {kept} is the network between 4 workers; delete it to measure anew"
    assert kept.read_bytes() == before and treefold.topology(kept).ranks == 4


def test_the_file_may_be_named_and_is_rank_0s_alone(workers, folder):
    [kept] = (folder / "treefold").iterdir()
    file = folder / "named.json"
    file.write_bytes(kept.read_bytes())
    lines = workers(used, backend=None, TREEFOLD_TOPOLOGY=f"discover:{file}")[0][0]
    assert lines[0] == f"treefold: {file} is the network between 4 workers; delete it to measure anew"


def failure(rank: int, size: int, of_rank_0: str, of_others: str, timeout_s: float = 20) -> str:
    with pytest.MonkeyPatch.context() as patch:  # the processes of the ranks run the next tests, too
        patch.setenv("TREEFOLD_TOPOLOGY", of_others if rank else of_rank_0)
        try:
            dist.init_process_group("treefold", rank=rank, world_size=size, timeout=timedelta(seconds=timeout_s))
        except treefold.TreefoldError as error:
            return str(error)
    dist.destroy_process_group()
    return ""


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        ("discover:/no/such/folder/net.json", "there is no folder 'folder'; create it first"),
        ("discover:", "topology 'discover:' names no file; write discover:net.json, or discover alone"),
        ("discover:net.txt", "net.txt: cannot write the extension '.txt'"),
        ("discover:new.json", "a timeout of 20 s is too short to discover a network"),
        ("discovr", "discovr"),
    ],
)
def test_what_cannot_be_discovered_is_refused_on_every_rank(workers, topology, message):
    errors = workers(failure, topology, topology, backend=None, TREEFOLD_TOPOLOGY="")
    assert all(message in error for error in errors), errors


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("TREEFOLD_PROBE_SECONDS", "1", "1 s are too short for {0}; allow more probe_seconds (TREEFOLD_PROBE_SECONDS)"),
        ("TREEFOLD_PROBE_BYTES", "1MB", "1MB are too few for {0}; allow more probe_bytes"),
        ("TREEFOLD_PROBE_SECONDS", "soon", "TREEFOLD_PROBE_SECONDS: time 'soon'"),
        ("TREEFOLD_PROBE_SECONDS", "-1", "probe_seconds -1.0: must be above 0, for example 30"),
        ("TREEFOLD_PROBE_BYTES", "0", "probe_bytes must be at least 1, got 0"),
    ],
)
def test_limits_that_do_not_do_are_refused_by_the_name_of_their_variable(workers, tmp_path, variable, text, message):
    where = f"discover:{tmp_path}/net.json"
    errors = workers(failure, where, where, 60, backend=None, **{variable: text})
    start, _, end = message.partition("{0}")
    assert all(start in error and end in error for error in errors), errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("limit", [{"probe_seconds": 30}, {"probe_bytes": "1GiB"}])
def test_limits_of_what_is_not_discovered_are_refused(limit):
    with pytest.raises(treefold.TreefoldError, match="only discover measures; drop it"):
        treefold.torch.Options(topology="ring:4", **limit)


def test_a_rank_that_discovers_where_rank_0_has_nothing_is_refused(workers):
    errors = workers(failure, "", "discover", backend=None, TREEFOLD_TOPOLOGY="")
    assert all("rank 1 has a plan or a topology, rank 0 has none" in error for error in errors), errors


def test_options_tell_whether_they_discover():
    of_file, of_cache, other = (treefold.torch.Options(topology=each) for each in ("discover:x.json", "discover", "b4"))
    assert of_file.discovers and of_file.discovered_file == "x.json"
    assert of_cache.discovers and of_cache.discovered_file is None
    assert not other.discovers
