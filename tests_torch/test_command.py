"""`treefold run` over torch's messages."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import treefold
from treefold import runtime
from treefold.runtime import engines


@pytest.mark.parametrize("collective", ["all-reduce", "all-to-all"])
def test_run_over_gloo_messages(collective):
    command = [sys.executable, "-m", "treefold", "run", "ring:3", "--local", "3", "--transport", "torch"]
    wanted = ["--size", "1MiB", "--iters", "2", "--collective", collective, "--json"]
    done = subprocess.run([*command, *wanted], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)
    assert (row["transport"], row["wrong"], row["iterations"]) == ("torch", 0, 2)


def test_torchs_store_listens_on_the_asked_address_only():
    from torch import distributed

    [place] = runtime.local(1)
    place._address = "127.0.0.2"
    store = engines._store(distributed, place)
    assert (store.port, "0200007F") in listening()
    assert [address for port, address in listening() if port == store.port] == ["0200007F"]


def listening() -> list[tuple[int, str]]:
    """Ports and addresses, as Linux writes them, on which anyone here listens."""
    lines = [line.split() for kind in ("tcp", "tcp6") for line in Path(f"/proc/net/{kind}").read_text().splitlines()]
    ends = [line[1].split(":") for line in lines if line[3] == "0A"]
    return [(int(port, 16), address) for address, port in ends]


def test_an_address_that_gloo_cannot_use_is_told():
    [place] = runtime.local(1)
    place._address = "192.0.2.1"
    with pytest.raises(treefold.TreefoldError, match=r"gloo cannot use 192\.0\.2\.1: .*; choose another interface"):
        engines.engine_maker("torch", place)
