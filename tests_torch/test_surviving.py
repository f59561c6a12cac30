"""The manual's page on sites trains with FSDP on two sites through the loss and the return of one of them."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))
import pages  # noqa: E402
from treefold.rendezvous.sockets import free_port  # noqa: E402

PATIENCE_S = 240


@contextmanager
def running(folder: Path, name: str, *command: Any, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a process group of its own, with its output in a file."""
    tool = Path(sys.executable).with_name(command[0])
    variables = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"} | environment
    with open(folder / f"{name}.log", "ab") as log:
        how: dict[str, Any] = {"cwd": folder, "env": variables, "stdout": log, "stderr": log}
        process = subprocess.Popen([tool, *map(str, command[1:])], start_new_session=True, **how)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)


def until(is_so: Callable[[], bool], folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            pytest.fail("\n".join(log.read_text()[-3000:] for log in folder.glob("*.log")))
        time.sleep(0.1)


def test_one_site_goes_on_alone_and_takes_the_other_in_again(tmp_path):
    for block in pages.blocks(ROOT / "docs" / "guides" / "sites.md"):
        if block.title in ("wan.csv", "surviving.py"):
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
    port = free_port("127.0.0.1")
    shared = {"TORCHFT_LIGHTHOUSE": f"http://127.0.0.1:{port}", "TREEFOLD_TOPOLOGY": "wan.csv", "STEPS": "1000000"}
    train = ("torchrun", "--standalone", "--nproc-per-node", 2, "surviving.py")
    times = ("--join_timeout_ms", 10_000, "--heartbeat_timeout_ms", 2000, "--quorum_tick_ms", 50)

    def steps(site: str) -> list[tuple[int, int]]:
        """Return the number of each step that a site has made, and with how many sites."""
        told = re.findall(r"^step (\d+) with (\d) sites", (tmp_path / f"{site}.log").read_text(), re.MULTILINE)
        return [(int(step), int(sites)) for step, sites in told]

    def trains(site: str, sites: int) -> bool:
        return bool(made := steps(site)) and made[-1][1] == sites

    lighthouse = ("torchft_lighthouse", "--bind", f"[::]:{port}", "--min_replicas", 1, *times)
    with running(tmp_path, "lighthouse", *lighthouse), running(tmp_path, "paris", *train, SITE="paris", **shared):
        with running(tmp_path, "oslo", *train, SITE="oslo", **shared):
            until(lambda: trains("paris", 2), tmp_path)
        until(lambda: trains("paris", 1), tmp_path)
        alone, before = steps("paris")[-1][0], len(steps("oslo"))
        with running(tmp_path, "oslo", *train, SITE="oslo", **shared):
            until(lambda: trains("paris", 2) and len(steps("oslo")) > before, tmp_path)
    assert steps("oslo")[before][0] > alone, "it goes on where the others are"
