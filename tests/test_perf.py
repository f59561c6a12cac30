"""`treefold run`: what it measures and prints, how it finds wrong results, and what it refuses."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import treefold
from commands import TREEFOLD, printed
from treefold import runtime
from treefold.cli.main import main
from treefold.collectives import COLLECTIVES
from treefold.perf import patterns, runs, teams
from treefold.perf.job import Job
from treefold.rendezvous.sockets import listen
from vectors import DTYPES, operators

LOOPBACK = "127.0.0.1"
KEYS = {
    *(
        "size_bytes",
        "count",
        "type",
        "wire",
        "redop",
        "root",
        "collective",
        "algorithm",
        "transport",
        "ranks",
        "iterations",
    ),
    *("time_s", "min_time_s", "median_time_s", "algbw_Bps", "busbw_Bps", "wrong"),
    *("bound_s", "bound_fraction", "predicted_s", "changes", "wire"),
}


def run(*arguments, **environment):
    variables = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    command = [str(TREEFOLD), "run", *map(str, arguments)]
    return subprocess.Popen(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=variables | environment
    )


def outcome(process):
    out, error = process.communicate(timeout=60)
    return process.returncode, out, error


def workers(*arguments_of_each, names=None):
    """Start a process a rank; return each one's exit code, output and errors."""
    with listen(LOOPBACK) as listener:
        port = listener.getsockname()[1]
    group = {"WORLD_SIZE": str(len(arguments_of_each)), "MASTER_ADDR": LOOPBACK, "MASTER_PORT": str(port)}
    started = [
        run(*arguments, RANK=str(rank), **group, **({"TREEFOLD_NAME": names[rank]} if names else {}))
        for rank, arguments in enumerate(arguments_of_each)
    ]
    return [outcome(process) for process in started]


def measured(**job):
    rows = runs.among_threads(3, Job((400_004,), iterations=2, **job), None, {"algorithm": "auto"}, iter)
    assert set(rows[0]) == KEYS
    return rows[0]


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_is_verified(collective):
    row = measured(collective=collective, root=2)
    assert row["wrong"] == 0
    assert row["root"] == (2 if collective in ("broadcast", "reduce") else -1)
    assert row["redop"] == ("sum" if collective in ("all-reduce", "reduce-scatter", "reduce") else "none")


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_plans_of_every_collective_are_run_and_verified(collective, tmp_path):
    root = int(collective in ("broadcast", "reduce"))
    treefold.save(treefold.plan("ring:3", "ring", collective=collective, root=root), tmp_path / "plan.json")
    for transport in ("threads", "tcp"):
        [row] = on_this_machine(tmp_path / "plan.json", "--transport", transport, "--size", "99991B")
        assert (row["collective"], row["algorithm"], row["wrong"]) == (collective, "ring", 0)
        assert row["root"] == (root or -1)


BLOCKS = [[5, 70_000, 0], [0, 0, 9], [40_000, 1, 2]]


@pytest.mark.parametrize("source", ["plan", "network", None])
def test_unequal_blocks_are_run_and_verified(source, tmp_path):
    blocks, plan = tmp_path / "blocks.json", tmp_path / "plan.json"
    blocks.write_text(json.dumps(BLOCKS))
    treefold.save(treefold.plan("line:3", "forest", collective="all-to-all", blocks=BLOCKS), plan)
    given = {"plan": [plan], "network": ["line:3"], None: []}[source]
    given += [] if source == "plan" else ["--collective", "all-to-all", "--blocks", blocks]
    for transport in ("threads", "tcp"):
        rows = on_this_machine(*given, "--transport", transport)
        rows += on_this_machine(*given, "--transport", transport, "--sizes", "1KiB,99991B", "--type", "int8")
        assert [(row["size_bytes"], row["wrong"]) for row in rows] == [(70_004, 0), (1024, 0), (99_991, 0)]


def test_blocks_for_other_ranks_are_refused_by_their_file(monkeypatch, capsys, tmp_path):
    blocks = tmp_path / "blocks.csv"
    blocks.write_text("0,1,2\n1,0,2\n2,1,0\n")
    asked = ("ring:4", "--local", "4", "--collective", "all-to-all", "--blocks", str(blocks))
    error = refused(monkeypatch, capsys, *asked)
    assert str(blocks) in error and "3 rows" in error and "4" in error


def test_one_wrong_element_of_unequal_blocks_is_counted(monkeypatch):
    execute = teams.threads.execute

    def broken(plan, vectors, *how):
        found = execute(plan, vectors, *how)
        if plan.collective == "all-to-all":
            found[1][0][5] += 1
        return found

    monkeypatch.setattr(teams.threads, "execute", broken)
    assert measured(collective="all-to-all", blocks=tuple(map(tuple, BLOCKS)))["wrong"] == 2 + 1


def on_this_machine(*arguments):
    code, out, error = outcome(run(*arguments, "--local", 3, "--iters", 2, "--json"))
    assert (code, error) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize("number", [*DTYPES, "bfloat16"])
def test_every_type_and_operator_is_exact(number):
    for op in operators("float32" if number == "bfloat16" else number):
        assert measured(type=number, op=op)["wrong"] == 0


@pytest.mark.parametrize(("number", "ranks"), [("bfloat16", 300), ("float16", 2500), ("float32", 100), ("int8", 60)])
@pytest.mark.parametrize("op", ["sum", "prod"])
def test_patterns_are_exact_for_many_ranks(number, ranks, op, monkeypatch):
    monkeypatch.setattr(patterns, "TABLE", 97)
    tables = patterns.Tables(ranks, number, op)
    wide = [
        (each.astype(np.uint32) << 16).view(np.float32) if number == "bfloat16" else each for each in tables.of_rank
    ]
    most = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24, "int8": None}[number]
    if most is not None:
        exact = np.sum(np.abs(wide), axis=0, dtype=np.float64) if op == "sum" else np.abs(np.prod(wide, axis=0))
        assert exact.max() <= most


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_one_wrong_element_is_counted(collective, monkeypatch):
    execute = teams.threads.execute

    def broken(plan, vectors, *how):
        found = execute(plan, vectors, *how)
        if vectors[0].size > 1:
            found[1][0][5] += 1
        return found

    monkeypatch.setattr(teams.threads, "execute", broken)
    assert measured(collective=collective, root=1)["wrong"] == 2 + 1  # two iterations and a warm-up


def test_rates_follow_from_times_by_nccl_tests_factors():
    row = measured()
    assert row["count"] == 100_001
    assert row["min_time_s"] <= row["median_time_s"]
    assert row["algbw_Bps"] == pytest.approx(row["size_bytes"] / row["time_s"])
    assert row["busbw_Bps"] == pytest.approx(row["algbw_Bps"] * 4 / 3)
    assert row["bound_s"] is None and row["predicted_s"] is None


def on_a_network(**how):
    """Return what rank 0 of three finds on a network."""

    def work(place):
        wishes = {"algorithm": "ring"}
        return runs.among_processes(place, Job((1 << 20,)), treefold.topology("ring:3"), wishes, None, iter, **how)

    with ThreadPoolExecutor(3) as pool:
        [row] = next(pool.map(work, runtime.local(3)))
    return row


def test_a_networks_bound_and_prediction_stand_beside_what_was_measured():
    row = on_a_network()
    network = treefold.topology("ring:3")
    plan = treefold.plan(network, "ring")
    assert row["predicted_s"] == treefold.simulate(plan, size_bytes=1 << 20, simulator="flow").time_s
    assert row["bound_fraction"] == pytest.approx(row["bound_s"] / row["time_s"])


def test_what_runs_on_one_machine_is_not_judged_by_another_network():
    network = treefold.topology("ring:3")
    [of_threads] = runs.among_threads(3, Job((1 << 10,)), network, {"algorithm": "ring"}, iter)
    for row in (of_threads, on_a_network(is_network_real=False)):
        assert row["algorithm"] == "ring"
        assert row["bound_s"] is row["bound_fraction"] is row["predicted_s"] is None


def test_threads_without_any_extra(tmp_path):
    plan = tmp_path / "plan.json"
    printed("plan", "ring:4", "-a", "ring", "-o", plan)
    code, out, _ = outcome(run(plan, "--local", 4, "--sizes", "1KiB:4KiB"))
    assert code == 0
    header, units, *rows, origin, note = out.splitlines()
    columns = ["size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "bound", "predicted"]
    assert header.split() == columns
    assert "(us)" in units
    assert [row.split()[:5] for row in rows] == [
        [str(size), str(size // 4), "float", "sum", "-1"] for size in (1024, 2048, 4096)
    ]
    assert all(row.split()[-3:] == ["-", "-", "ring"] for row in rows)
    assert origin == "# all-reduce of 4 ranks over threads, mean of 5"
    assert note == "# no bound and no prediction: local workers are not joined by the network that was planned for"


def test_local_processes_over_tcp():
    code, out, error = outcome(run("--local", 3, "--transport=tcp", "--size", "1MB", "--type", "int16", "--json"))
    assert (code, error) == (0, "")
    [row] = json.loads(out)
    assert (row["wrong"], row["transport"], row["ranks"], row["type"]) == (0, "tcp", 3, "int16")


@pytest.mark.parametrize(("bandwidth", "is_told"), [("1MB/s", True), ("100TB/s", False)])
def test_a_run_that_is_faster_than_the_network_is_told(bandwidth, is_told):
    arguments = ("full:2", "--bandwidth", bandwidth, "--sizes", "1MiB:2MiB", "--iters", 1)
    (code, out, _), _ = workers(arguments, arguments)
    assert code == 0
    notes = [line for line in out.splitlines() if line.startswith("# faster")]
    assert notes == ["# faster than the given network allows: measure it with treefold probe"] * is_told


def test_workers_meet_and_only_rank_0_prints():
    arguments = ("ring:3", "--sizes", "100B,1MB", "--iters", 2, "--json")
    names = ["GPU2", "GPU0", "GPU1"]
    found = workers(arguments, arguments[1:], arguments, names=names)
    assert [code for code, _, _ in found] == [0, 0, 0]
    assert [out for _, out, _ in found[1:]] == ["", ""]
    assert [row["wrong"] for row in json.loads(found[0][1])] == [0, 0]


def job(**changes):
    return Job(**{"sizes_bytes": (1024,)} | changes)


@pytest.mark.parametrize(
    ("other", "source", "wishes", "message"),
    [
        (job(sizes_bytes=(1, 2)), None, {}, "with --sizes 1B,2B, worker 0 with --sizes 1KiB; start all with the same"),
        (job(type="int8"), None, {}, "worker 1 was started with --type int8, worker 0 with --type float32"),
        (job(wire="int8"), None, {}, "worker 1 was started with --wire int8, worker 0 without --wire"),
        (job(adapt=True), None, {}, "worker 1 was started with --adapt, worker 0 without --adapt"),
        (job(iterations=7), None, {}, "worker 1 was started with --iters 7, worker 0 with --iters 5"),
        (job(), None, {"algorithm": "ring"}, "was started with --algorithm ring, worker 0 with --algorithm auto"),
        (job(), None, {"steps": "3"}, "worker 1 was started with --steps 3, worker 0 without --steps"),
        (job(), "ring:2", {}, "worker 1 was started with another plan or network than worker 0; give all the same"),
    ],
)
def test_what_ranks_disagree_on_is_told_on_every_rank(other, source, wishes, message):
    def work(place):
        mine = (other, source and treefold.topology(source), {"algorithm": "auto"} | wishes)
        with pytest.raises(treefold.TreefoldError) as caught:
            runs.agree(place, *(mine if place.rank == 1 else (job(), None, {"algorithm": "auto"})))
        return str(caught.value)

    with ThreadPoolExecutor(2) as pool:
        assert all(message in error for error in pool.map(work, runtime.local(2)))


def test_bad_input_of_one_rank_is_told_on_every_rank():
    for code, out, error in workers(("--size", "1KiB"), ("--size", "1KiB", "--op", "band")):
        assert (code, out) == (2, "")
        assert "worker 1: float32 numbers have no operator 'band'" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--size", "2B"), "size 2B holds no float32 number; it takes 4 bytes at least"),
        (("--type", "float31"), "number type 'float31' is unknown; known are float16, bfloat16"),
        (("--op", "band"), "float32 numbers have no operator 'band'; they have sum, prod, min, max"),
        (("--op", "mean"), "operator 'mean' is unknown; known are sum, prod, min, max, band, bor, bxor"),
        (("--root", "4", "--collective", "reduce"), "root 4 does not exist: there are 4 workers, 0 to 3"),
        (("--iters", "0"), "--iters 0: must be at least 1"),
        (("--iters", "9" * 30), "--iters 999999999999999999999999999999: must be at most 1000000000"),
        (("--size", "1e18"), "on this machine take at least 4000000TB of memory, and "),
        (("--size", "1e18"), "are free; choose a smaller size, or fewer ranks"),
        (("--size", "1e18", "--transport", "tcp"), "at least 4000000TB of memory"),
        (("--local", "65536", "--size", "1GiB"), "1GiB for 65536 ranks on this machine take at least"),
        (("--local", "100000"), "--local 100000: it takes 1 to 65536 workers; write for example --local 4"),
        (("--local", "9" * 30, "--transport", "tcp", "--size", "4"), "it takes 2 to 65536 workers; write for"),
        (("--local", "65536", "--transport", "tcp", "--size", "4"), "its processes take at least 2.5TiB of memory"),
        (("--local", "0"), "--local 0: it takes 1 to 65536 workers"),
        (("--timeout", "nan", "--transport", "tcp"), "--timeout nan: must be more than 0 and less than 1e+07 seconds"),
        (("--timeout", "60x"), "'--timeout': time '60x': write a number and a unit, such as"),
        (("--timeout", "1e300", "--transport", "tcp"), "--timeout 1e+300: must be more than 0"),
        (("--size", "1KiB", "--sizes", "1KiB:2KiB"), "--size and --sizes are both given; drop one"),
        (("--transport", "pigeons"), "transport 'pigeons' is unknown; known are tcp, mpi, torch, threads"),
        (("--transport", "mpi"), "transport 'mpi' joins what mpiexec started: start treefold run by mpiexec -n"),
        (("--adapt", "foo"), "--adapt 'foo' is unknown; known are same, auto"),
        (("--bandwidth", "1GB/s"), "no network is given; drop --bandwidth"),
        (("--streams", "0", "--transport", "tcp"), "--streams 0: must be a whole number from 1 to 256"),
        (("--streams", "10000", "--transport", "tcp"), "--streams 10000: must be a whole number from 1 to 256"),
        (("--streams", "2"), "--streams 2: only tcp has streams, not threads; drop it"),
        (
            ("ring:5",),
            "4 workers for 5 ranks of network 'ring:5'; start 5 workers, or plan for 4 ranks of it",
        ),
        (("-a", "p2p", "--collective", "all-gather"), "p2p cannot do all-gather: its trees"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(arguments, message, monkeypatch, capsys):
    local = () if "--local" in arguments else ("--local", "4")
    assert message in refused(monkeypatch, capsys, *local, *arguments)


def test_vectors_that_do_not_fit_into_memory_are_told_when_it_runs_out(monkeypatch, capsys):
    def full(*_):
        raise MemoryError

    monkeypatch.setattr(patterns, "fill", full)
    error = refused(monkeypatch, capsys, "--local", "2", "--size", "1KiB")
    assert "1KiB for each rank take more memory than the " in error and "choose a smaller size" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--root", "1"), "is a plan of broadcast, and says all of it; drop --root"),
        (("--collective", "reduce"), "is a plan of broadcast, and says all of it; drop --collective"),
        (("-a", "ring"), "is already a plan; drop --algorithm"),
    ],
)
def test_what_a_plan_says_is_not_said_again(arguments, message, monkeypatch, capsys, tmp_path):
    treefold.save(treefold.plan("ring:3", "ring", collective="broadcast"), tmp_path / "plan.json")
    assert message in refused(monkeypatch, capsys, str(tmp_path / "plan.json"), "--local", "3", *arguments)


def test_a_limit_of_steps_is_that_of_the_collective_that_runs(monkeypatch, capsys):
    limited = ("ring:3", "--steps", "1", "--size", "1KiB")
    assert on_this_machine(*limited, "--collective", "all-gather")[0]["wrong"] == 0
    error = refused(monkeypatch, capsys, *limited, "--local", "3")
    assert "steps 1 is too few" in error and "takes at least 2 steps; allow 2 steps, or" in error


def refused(monkeypatch, capsys, *arguments):
    """Return the one line that says why."""
    monkeypatch.setattr(sys, "argv", ["treefold", "run", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    out, error = capsys.readouterr()
    assert (caught.value.code, out, error.count("\n")) == (2, "", 1)
    return error


def test_no_group_at_all(monkeypatch, capsys):
    error = refused(monkeypatch, capsys, "--size", "1KiB")
    assert "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT not set; start it with torchrun or mpiexec" in error
    assert "on this machine alone, --local 4 will do" in error


def test_an_extra_that_is_missing_is_named_with_what_installs_it(monkeypatch):
    from treefold.runtime import engines

    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    [place] = runtime.local(1)
    for transport in ("mpi", "torch"):
        with pytest.raises(treefold.TreefoldError, match=rf"install it: pip install 'treefold\[{transport}\]'"):
            engines.engine_maker(transport, place)


def test_an_interrupt_ends_all_ranks():
    process = run("--local", 3, "--transport", "tcp", "--size", "64MiB", "--iters", 10_000)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + 60
    while len(started := children.read_text().split()) < 2:  # they start when all is imported
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.2)  # a child that is just being started is not known to its parent yet
    process.send_signal(signal.SIGINT)
    assert outcome(process)[:2] == (130, "")
    assert not any(Path(f"/proc/{child}").exists() for child in started)


@pytest.mark.parametrize("given", [["--local", "2"], ["--LOCAL", "2"], ["--Local=2"], ["--local=2"]])
def test_the_processes_of_a_local_run_start_no_others_however_it_is_written(given):
    from treefold.cli.launch import without_local

    assert without_local(["run", *given, "--size", "1KiB"]) == ["run", "--size", "1KiB"]
