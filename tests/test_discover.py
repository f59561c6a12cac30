"""A network that nobody described: workers measure it once, keep it in a file of worker 0, and run on it."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import treefold
from commands import TREEFOLD, command, refused, start
from treefold import PeerError, TreefoldError, probe, rendezvous
from treefold.perf import runs
from treefold.probe import keeping
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


def network_of(*names, bandwidth_Bps=1e9):
    """Returns a network that joins workers of these names, whose latencies say between whom they are."""
    links = [
        {"source": one, "target": other, "bandwidth_Bps": bandwidth_Bps, "latency_s": 1e-3 * number}
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
    beginning, end = said
    assert beginning == f"measuring the network between 3 workers, for {file}"
    assert re.match("[0-9]+ tests? of many pairs at once: an all-reduce at ", end)
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


def test_workers_of_the_same_names_at_other_addresses_have_another_file_in_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def file(*workers):
        return keeping._path(None, [keeping._Worker(*worker) for worker in workers])

    here = file(("rome", "10.0.0.1"), ("oslo", "10.0.0.2"))
    assert here == file(("oslo", "10.0.0.2"), ("rome", "10.0.0.1"))
    assert here != file(("rome", "10.0.0.1"), ("oslo", "10.0.0.3"))


@pytest.mark.parametrize(
    ("workers", "settings", "parallel"), [(12, {}, False), (13, {}, True), (2, {"parallel": True}, True)]
)
def test_many_workers_measure_pairs_at_the_same_time(monkeypatch, tmp_path, workers, settings, parallel):
    seen = []

    def measured(meeting, settings, *_):
        seen.append(settings.parallel)
        raise TreefoldError("that will do")

    monkeypatch.setattr(keeping, "measure", measured)
    discovered(tmp_path / "net.json", (None,) * workers, probe.Settings(**settings))
    assert seen == [parallel] * workers


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


@pytest.mark.parametrize("text", ["", "{", "{}"])
def test_a_broken_file_is_refused(tmp_path, text):
    (file := tmp_path / "net.json").write_text(text)
    errors, _ = discovered(file)
    assert len(set(errors)) == 1 and str(file) in errors[0]
    assert "the network's file cannot be read; delete it to measure anew, or name another one" in errors[0]


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


def test_what_is_unfinished_is_beside_the_file_and_measured_anew(monkeypatch, tmp_path):
    file, part = tmp_path / "net.json", tmp_path / "net.part.json"
    measure = keeping.measure

    def cut_off(meeting, settings, announce, track, keep):
        def kept(measured):
            keep(measured)
            raise PeerError("the line is cut")

        try:
            return measure(meeting, settings, announce, track, kept)
        except TreefoldError as error:
            raise PeerError(str(error)) from None

    monkeypatch.setattr(keeping, "measure", cut_off)
    errors, _ = discovered(file, (None, None), timeout_s=30)
    assert errors[0] == f"the line is cut; {part} has the network as far as it was measured"
    assert not file.exists() and treefold.topology(part).ranks == 2
    monkeypatch.undo()
    _, said = discovered(file, (None, None))
    assert said == [f"measuring the network between 2 workers, for {file}; the last time did not end, and left {part}"]
    assert treefold.topology(file).ranks == 2 and not part.exists()


def test_a_file_that_cannot_be_written_any_more_is_told_to_every_worker(tmp_path):
    (folder := tmp_path / "folder").mkdir()
    errors, _ = discovered(folder / "net.json", announce=lambda _: shutil.rmtree(folder, ignore_errors=True))
    assert len(set(errors)) == 1 and "there is no folder 'folder'" in errors[0]


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
        ("--probe-bytes 1MiB", "--probe-bytes 1MiB: only --discover measures; drop it"),
        ("--discover --probe-bytes 0", "--probe-bytes must be at least 1, got 0"),
        ("--discover --probe-bytes much", "--probe-bytes: size 'much': write a number and a unit"),
        ("--discover --size 1e18", "or take --adapt no, which keeps no copies"),
        ("--discover --adapt no --learn x.json", "--learn x.json: only a run that adapts learns"),
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


@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        (("--probe-seconds", 1), "1 s are too short for 19 transfers and the round trips, which take at least 2.8 s"),
        (("--probe-bytes", "1MB"), "1MB are too few for 19 transfers of 1MiB or more, 19MiB in all"),
    ],
)
def test_limits_that_are_too_small_are_refused_with_the_option_of_run(tmp_path, limit, problem):
    done = start("run", "--local", 3, "--discover", tmp_path / "net.json", *limit)
    assert done.returncode == 2 and list(tmp_path.iterdir()) == []
    assert done.stderr.splitlines()[-1] == f"error: {problem}; allow more with {limit[0]}"


def adapting(monkeypatch, file, *arguments):
    """Returns whether a run on a network that is kept adapts, and what it calls the file for what it learns."""
    seen = []

    def among_processes(meeting, job, *_):
        seen.append((job.adapt, job.learn))
        raise TreefoldError("that will do")

    monkeypatch.setattr(runs, "among_processes", among_processes)
    assert "that will do" in command("run", "--discover", file, "--local", 3, "--size", "1KiB", *arguments).stderr
    return seen[0]


@pytest.fixture
def kept(tmp_path):
    """Returns the file of a network between three workers of this machine."""
    treefold.save(network_of(*(f"{HOST}#{rank}" for rank in range(3))), tmp_path / "net.json")
    return tmp_path / "net.json"


def test_a_run_on_what_it_discovered_adapts_and_keeps_what_it_learns(monkeypatch, kept):
    other = str(kept.with_name("other.json"))
    assert adapting(monkeypatch, kept) == (True, str(kept))
    assert adapting(monkeypatch, kept, "--adapt", "auto") == ("auto", str(kept))
    assert adapting(monkeypatch, kept, "--learn", other) == (True, other)


def test_a_run_on_what_it_discovered_does_not_adapt_where_it_cannot_or_must_not(monkeypatch, kept):
    for arguments in (["--adapt", "no"], ["--collective", "broadcast"], ["--trace", str(kept.with_name("t.json"))]):
        assert adapting(monkeypatch, kept, *arguments) == (False, None)
    names = treefold.topology(kept).rank_names
    nodes = [{"name": name} for name in names] + [{"name": "hub", "kind": "switch"}]
    links = [
        {"source": name, "target": "hub", "bandwidth_Bps": 1e9, "latency_s": 1e-4, "both_ways": True} for name in names
    ]
    document = {"format": "treefold-topology", "version": 1, "nodes": nodes, "links": links}
    treefold.save(treefold.topology(document), kept)
    assert adapting(monkeypatch, kept) == (False, None)


def test_a_run_that_is_faster_than_the_file_says_to_measure_anew(kept):
    treefold.save(network_of(*treefold.topology(kept).rank_names, bandwidth_Bps=1e6), kept)
    done = start("run", "--local", 3, "--discover", kept, "--size", "64KiB", "--iters", 1)
    note = f"# faster than the network in {kept} allows: delete that file to measure anew, with more --probe-seconds"
    assert note in done.stdout.splitlines() and "treefold probe" not in done.stdout


def wait_for(file):
    for _ in range(600):
        if file.exists():
            return
        time.sleep(0.05)


def test_an_interrupted_run_names_the_network_so_far_and_the_next_one_measures_anew(tmp_path):
    file, part = tmp_path / "net.json", tmp_path / "net.part.json"
    arguments = [TREEFOLD, "run", "--local", "3", "--discover", file, "--size", "1KiB"]
    with subprocess.Popen([*arguments, "--probe-seconds", "20"], stderr=subprocess.PIPE, text=True) as running:
        wait_for(part)
        running.send_signal(signal.SIGINT)
        error = running.communicate(timeout=60)[1]
    assert running.returncode == 130 and f"{part} has the network as far as it was measured" in error
    assert [path.name for path in tmp_path.iterdir()] == ["net.part.json"]
    again = start(*arguments[1:], "--probe-seconds", "3.5")
    assert f"for {file}; the last time did not end, and left {part}" in again.stderr.splitlines()[0]
    assert [path.name for path in tmp_path.iterdir()] == ["net.json"]


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
    assert [path.name for path in tmp_path.iterdir()] in ([], ["net.part.json"])
