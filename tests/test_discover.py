"""A network that nobody described: workers measure it once, keep it in a file of worker 0, and run on it."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import treefold
from commands import TREEFOLD, refused, start
from treefold import TreefoldError, probe, rendezvous
from treefold.rendezvous.sockets import free_port

LOOPBACK = "127.0.0.1"
QUICK = probe.Settings(seconds=3.5, most_bytes=1 << 30)
HOST = socket.gethostname()
RUN = ("run", "--local", 3, "--probe-seconds", "3.5", "--size", "1KiB", "--iters", "1")


def discovered(file, names=(None, None, None), settings=QUICK, timeout_s=60, **how):
    """Returns what each worker of these names discovers, or its error, and what worker 0 says."""
    said = []

    def work(place):
        place.name = names[place.rank]
        try:
            return probe.discover(place, file, settings, said.append, **how)
        except TreefoldError as error:
            return str(error)
        finally:
            place.close()

    places = rendezvous.local(len(names), timeout_s)
    with ThreadPoolExecutor(len(places)) as pool:
        return list(pool.map(work, places)), said


def network_of(*names):
    """Returns a network that joins workers of these names, whose latencies say between whom they are."""
    links = [
        {"source": one, "target": other, "bandwidth_Bps": 1e9, "latency_s": 1e-3 * number}
        for number, (one, other) in enumerate((a, b) for a in names for b in names if a != b)
    ]
    return treefold.topology(
        {"format": "treefold-topology", "version": 1, "nodes": [{"name": name} for name in names], "links": links}
    )


def test_workers_measure_once_and_then_use_the_file_of_worker_0(tmp_path):
    file = tmp_path / "net.json"
    found, said = discovered(file)
    assert found == [treefold.topology(file)] * 3
    assert found[0].rank_names == [f"{HOST}#{rank}" for rank in range(3)]
    assert said == [f"measuring the network between 3 workers, for {file}"]
    before = file.read_bytes()
    again, said = discovered(file)
    assert again == found and file.read_bytes() == before
    assert said == [f"{file} is the network between 3 workers; delete it to measure anew"]


def test_each_set_of_workers_has_a_file_of_its_own_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found, _ = discovered(None, ("rome", "oslo"))
    [file] = (tmp_path / "treefold").iterdir()
    assert re.fullmatch(r"2-workers-[0-9a-f]{16}\.json", file.name)
    assert found[0] == treefold.topology(file)
    _, said = discovered(None, ("oslo", "rome"))
    assert said == [f"{file} is the network between 2 workers; delete it to measure anew"]
    discovered(None, ("oslo", "bonn"))
    assert len(list((tmp_path / "treefold").iterdir())) == 2


def test_a_file_fits_workers_that_come_in_another_order(tmp_path):
    file = tmp_path / "net.json"
    treefold.save(network_of("rome", "oslo", "bonn"), file)
    found, _ = discovered(file, ("bonn", "rome", "oslo"))
    assert found[0] == found[1] == found[2]
    assert found[0].rank_names == ["bonn", "rome", "oslo"]
    latencies = {(link.source, link.target): link.latency_s for link in found[0].links()}
    before = treefold.topology(file).links()
    assert latencies == {(link.source, link.target): link.latency_s for link in before}


@pytest.mark.parametrize("names", [("rome", "oslo"), ("rome", "oslo", "bern"), ("rome", "oslo", "bonn", "bern")])
def test_a_file_of_other_workers_is_refused_on_every_worker(tmp_path, names):
    file = tmp_path / "net.json"
    treefold.save(network_of("rome", "oslo", "bonn"), file)
    before = file.read_bytes()
    errors, _ = discovered(file, names)
    of_workers = ", ".join(sorted(names))
    problem = f"is a network of bonn, oslo, rome, and the workers are {of_workers}; delete it, or name another file"
    assert errors == [f"worker 0: {file}: {problem}"] * len(names)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("/no/such/folder/net.json", "there is no folder 'folder'; create it first"),
        ("net.txt", "cannot write the extension '.txt'"),
        ("/dev/null", "is no file that keeps a network"),
        ("/", "is a folder"),
    ],
)
def test_a_file_that_cannot_keep_a_network_is_refused_before_anything_is_measured(file, message):
    errors, said = discovered(file)
    assert all(message in error for error in errors) and len(set(errors)) == 1
    assert said == []


def test_a_cache_that_cannot_be_made_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    errors, _ = discovered(None)
    assert "cannot be made: Not a directory; name a file for the network, or set XDG_CACHE_HOME" in errors[0]


def test_a_broken_file_is_refused(tmp_path):
    (file := tmp_path / "net.json").write_text("{")
    errors, _ = discovered(file)
    assert len(set(errors)) == 1 and str(file) in errors[0]


def test_one_worker_and_a_short_timeout_are_refused(tmp_path):
    assert discovered(tmp_path / "net.json", (None,))[0] == [
        "a network is discovered between workers, and there is 1; start 2 or more"
    ]
    errors, _ = discovered(tmp_path / "net.json", timeout_s=5)
    assert "a timeout of 5 s is too short to discover a network" in errors[0]


def test_too_few_seconds_are_refused_and_leave_no_file(tmp_path):
    errors, _ = discovered(tmp_path / "net.json", settings=probe.Settings(seconds=0.1))
    assert all("allow more seconds" in error for error in errors)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_any_more_ends_the_probe_on_every_worker_at_once(tmp_path):
    (folder := tmp_path / "folder").mkdir()
    begun = []

    def say_and_remove(line):
        begun.append(time.perf_counter())
        folder.rmdir()

    errors = [None] * 3

    def work(place):
        try:
            probe.discover(place, folder / "net.json", QUICK, say_and_remove)
        except TreefoldError as error:
            errors[place.rank] = str(error)

    places = rendezvous.local(3)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, places))
    assert time.perf_counter() - begun[0] < 20
    assert len(set(errors)) == 1 and "there is no folder 'folder'; create it first" in errors[0]


# treefold run --discover


def test_run_measures_and_leaves_the_file_and_the_second_run_starts_at_once(tmp_path):
    file = tmp_path / "net.json"
    first = start(*RUN, "--discover", file, "--json")
    assert first.returncode == 0, first.stderr
    lines = first.stderr.splitlines()
    assert lines[0] == f"measuring the network between 3 workers, for {file}"
    assert lines[1].startswith("3 pairs, at most 19 transfers of ")
    [row] = json.loads(first.stdout)
    assert (row["ranks"], row["transport"], row["wrong"]) == (3, "tcp", 0)
    assert row["bound_s"] > 0 and row["predicted_s"] > 0
    assert treefold.topology(file).ranks == 3
    second = start(*RUN, "--json", "--discover", file)
    assert second.stderr == f"{file} is the network between 3 workers; delete it to measure anew\n"
    assert json.loads(second.stdout)[0]["wrong"] == 0


def test_discover_stands_alone_and_then_the_file_is_in_the_cache(tmp_path):
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    for more in (("--discover",), ("--discover", "cache"), ("--discover", "--json")):
        assert start(*RUN, *more, env=environment).returncode == 0
    assert len(list((tmp_path / "treefold").iterdir())) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("full:3 --discover", "--discover takes the place of full:3; drop one of the two"),
        ("--discover full:3", "--discover 'full:3' is no file that keeps the network; name one, for example net.json"),
        ("--discover=", "--discover '' is no file that keeps the network"),
        ("--discover --bandwidth 1GB/s --ranks 0-1", "--discover measures the network; drop --bandwidth, --ranks"),
        ("--probe-seconds 3", "--probe-seconds 3: only --discover measures; drop it"),
        ("--discover --probe-seconds 0", "--probe-seconds 0: must be more than 0 and less than 1e+07"),
        ("--discover --probe-seconds nan", "--probe-seconds nan: must be more than 0 and less than 1e+07"),
        ("--discover --transport threads", "--discover measures what is between processes, and threads are one; drop"),
        ("--discover x.json --trace x.json", "--trace x.json: it is the file of the network; name another one"),
        ("--discover --algorithm rign", "algorithm 'rign' is unknown; did you mean ring?"),
        ("--discover --op xyz", "operator 'xyz' is unknown"),
        ("--discover x.json --discover y.json", "--discover is given twice; give it once"),
    ],
)
def test_run_refuses_what_does_not_go_together_before_anything_starts(arguments, message):
    assert message in refused("run", *arguments.split(), "--local", "3")


def worker(rank, size, port, *arguments):
    """Returns the process of a worker that is started by hand."""
    variables = {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": LOOPBACK, "MASTER_PORT": str(port)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([TREEFOLD, "run", *map(str, arguments)], env=os.environ | variables, **pipes)


@pytest.mark.parametrize(
    ("of_0", "of_1", "message"),
    [
        (["--discover", "net.json"], [], "worker 1 was started without --discover, worker 0 with --discover"),
        (["full:2"], ["--discover"], "worker 1 was started with --discover, worker 0 without --discover"),
        (
            ["--discover", "net.json"],
            ["--discover", "--size", "2MiB"],
            "--sizes 2MiB, worker 0 with --sizes 64MiB",
        ),
        (["--discover", "net.json", "--collective", "broadcast", "--root", "5"],) * 2 + ("root 5 does not exist",),
    ],
)
def test_workers_that_are_started_otherwise_are_refused_before_anything_is_measured(of_0, of_1, message):
    port = free_port(LOOPBACK)
    running = [worker(rank, 2, port, *each) for rank, each in enumerate((of_0, of_1))]
    for each in running:
        _, error = each.communicate(timeout=60)
        assert each.returncode == 2 and message in error and "measuring" not in error


@pytest.mark.parametrize("leaves", [0, 2])
def test_a_worker_that_leaves_while_they_measure_is_named_and_what_is_left_is_a_network(tmp_path, leaves):
    file, port = tmp_path / "net.json", free_port(LOOPBACK)
    running = [worker(rank, 3, port, "--discover", file, "--size", "1KiB") for rank in range(3)]
    assert running[0].stderr.readline().startswith("measuring the network between 3 workers, for ")
    time.sleep(1.0)
    running[leaves].send_signal(signal.SIGKILL if leaves else signal.SIGINT)
    errors = [each.communicate(timeout=120)[1] for each in running]
    codes = [each.returncode for each in running]
    assert codes.pop(leaves) == (-signal.SIGKILL if leaves else 130) and codes == [2, 2]
    named = re.compile(rf"workers? ([0-9], )*{leaves}\b")
    assert all(named.search(error) for rank, error in enumerate(errors) if rank != leaves), errors
    assert [path.name for path in tmp_path.iterdir()] in ([], ["net.json"])
    assert not file.exists() or treefold.topology(file).ranks == 3
