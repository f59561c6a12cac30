"""`treefold run` over torch's messages."""

import json
import subprocess
import sys

import pytest


@pytest.mark.parametrize("collective", ["all-reduce", "all-to-all"])
def test_run_over_gloo_messages(collective):
    command = [sys.executable, "-m", "treefold", "run", "ring:3", "--local", "3", "--transport", "torch"]
    wanted = ["--size", "1MiB", "--iters", "2", "--collective", collective, "--json"]
    done = subprocess.run([*command, *wanted], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)
    assert (row["transport"], row["wrong"], row["iterations"]) == ("torch", 0, 2)
