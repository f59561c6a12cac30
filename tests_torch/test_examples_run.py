"""The examples for torchrun print what stands beside them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
TORCHRUN = Path(sys.executable).with_name("torchrun")


def same(found: str, wanted: str) -> bool:
    """Return whether two words are the same, or numbers that differ as little as those of two processors do."""
    if found == wanted:
        return True
    try:
        return float(found) == pytest.approx(float(wanted), rel=0.05, abs=0.02)
    except ValueError:
        return False


@pytest.mark.parametrize("name", ["05_ddp", "06_hsdp", "07_gpt"])
def test_examples_print_what_stands_beside_them(name):
    launch = [TORCHRUN, "--nproc-per-node", "4", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = [*launch, EXAMPLES / f"{name}.py"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    found, wanted = done.stdout.split(), (EXAMPLES / f"{name}.out").read_text(encoding="utf-8").split()
    assert len(found) == len(wanted) and all(map(same, found, wanted)), done.stdout
