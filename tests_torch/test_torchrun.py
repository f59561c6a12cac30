"""`treefold run` under a real torchrun."""

import json
import subprocess
import sys
from pathlib import Path

import treefold

TORCHRUN = Path(sys.executable).with_name("torchrun")


def under_torchrun(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    # A port of its own choosing, so that tests may run side by side.
    launch = [TORCHRUN, "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    command = [*launch, "-m", "treefold", "run", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


def test_rank_0_prints_what_was_measured():
    done = under_torchrun("--size", "1MiB", "--json")
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)
    assert (row["transport"], row["wrong"], row["size_bytes"]) == ("tcp", 0, 1 << 20)


def test_a_plan_for_more_ranks_is_told_without_a_traceback_of_ours(tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(treefold.plan(treefold.topology("ring:3"), "ring").to_json())
    done = under_torchrun(plan, "--size", "1MiB", "--json")
    assert done.returncode != 0
    assert done.stdout == ""
    assert "2 workers for 3 ranks of network" in done.stderr
    assert "exitcode  : 2" in done.stderr
    assert "treefold/cli.py" not in done.stderr
