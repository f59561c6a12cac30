"""Plans over MPI: real ranks under mpiexec, one job for many cases, and what goes wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
HERE = Path(__file__).resolve().parent
TIMEOUT_S = 240


def mpiexec(ranks, *command, names=None):
    """Run a command on so many ranks; each starts with TREEFOLD_NAME where names are given."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PMI_", "MPI", "OMPI_"))}
    parts = [["-n", "1", "-env", "TREEFOLD_NAME", name, *command] for name in names or []]
    line = [str(BIN / "mpiexec"), *(["-n", str(ranks), *command] if names is None else _joined(parts))]
    return subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment)


def _joined(parts):
    return [word for number, part in enumerate(parts) for word in ([":"] if number else []) + part]


def treefold_run(ranks, *arguments, names=None):
    return mpiexec(ranks, str(BIN / "treefold"), "run", *map(str, arguments), names=names)


@pytest.mark.parametrize("ranks", [2, 4])
def test_groups_over_mpi_compute_what_numpy_does(ranks):
    done = mpiexec(ranks, sys.executable, str(HERE / "worker.py"), "collectives")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("fine") == ranks


def test_numbers_cross_in_fewer_bytes_over_mpi_and_nothing_is_lost():
    done = mpiexec(3, sys.executable, str(HERE / "worker.py"), "wire")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("fine") == 3


def told(scenario):
    """Return what four ranks print when an operation fails; all go on with a new group."""
    done = mpiexec(4, sys.executable, str(HERE / "worker.py"), scenario)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("an earlier operation of this group failed (") == 4
    assert done.stdout.count("fine") == 4
    return done.stdout


def test_ranks_that_disagree_are_told_so_on_every_rank():
    words = told("disagree")
    assert words.count("the ranks disagree: rank ") == 8
    assert "'sum' of 100 float32 by plan " in words
    assert "'sum' of 200 float32 by plan " in words


def test_a_rank_that_fails_is_named_on_every_rank():
    # Told by the operation and by the next one; mpiexec may mix lines of several ranks.
    words = told("fail")
    assert words.count("rank 1 has had enough") == 8
    assert words.count("worker 1 gave up: rank 1 has had enough") == 6


def test_the_command_prints_one_row_a_size_on_rank_0_only():
    done = treefold_run(4, "--sizes", "1KiB,1MiB", "--iters", 2, "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["size_bytes"] for row in rows] == [1 << 10, 1 << 20]
    assert all(row["transport"] == "mpi" and row["wrong"] == 0 for row in rows)


def test_other_collectives_types_and_transports():
    for arguments in (("--collective", "all-to-all"), ("--type", "bfloat16", "--op", "prod"), ("--transport", "tcp")):
        done = treefold_run(3, "--size", "100KB", "--iters", 2, *arguments)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[2].split()[8] == "0"


def test_names_say_who_is_which_rank():
    done = treefold_run(
        3, "ring:3", "--size", "1KiB", "--collective", "broadcast", "--root", 1, names=["GPU2", "GPU0", "GPU1"]
    )
    assert done.returncode == 0, done.stderr
    wrong = treefold_run(3, "ring:3", "--size", "1KiB", names=["GPU2", "GPU0", "x"])
    assert wrong.returncode == 2
    assert wrong.stderr.count("it has no rank x, and no worker is called GPU1; set TREEFOLD_NAME") == 3


def test_bad_input_is_told_on_every_rank(tmp_path):
    plan = tmp_path / "plan.json"
    subprocess.run([str(BIN / "treefold"), "plan", "ring:4", "-o", str(plan)], check=True, capture_output=True)
    for arguments, message in (
        ((plan,), "3 workers for 4 ranks of network 'ring:4'"),
        (("--type", "float32", "--op", "band"), "float32 numbers have no operator 'band'"),
        (("--transport", "threads"), "transport 'threads' joins the threads of one process"),
    ):
        done = treefold_run(3, *arguments)
        assert done.returncode == 2
        assert done.stderr.count(message) == 3
        assert done.stdout == ""
