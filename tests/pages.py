"""Runs what stands on a page of Markdown, in the order in which it stands there.

A block of ```sh runs; of a ```console block the output is compared, too, where `...` stands for anything; a block of
```python runs as a program. A block's title says more: one that names a file becomes that file; one "on each worker"
runs in two workers; and those "with torchrun" or "with mpiexec" are run by tests_torch and tests_mpi.
"""

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from commands import TREEFOLD, start
from treefold.rendezvous.sockets import free_port

BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)

ON_EACH_WORKER = "on each worker"
ELSEWHERE = ("with torchrun", "with mpiexec")
WORKERS = 2
PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


class Block(NamedTuple):
    """What stands between two fences."""

    language: str
    title: str
    text: str


def blocks(page: Path) -> list[Block]:
    return [Block(*found) for found in BLOCK.findall(page.read_text(encoding="utf-8"))]


def commands(text: str) -> list[str]:
    """Return the commands of treefold in a block of shell; comments are left out."""
    lines = (line.split("  #")[0].strip() for line in text.splitlines())
    return [line for line in lines if line.startswith("treefold ")]


def sessions(text: str) -> list[tuple[str, str]]:
    """Return each command of a console, and the output below it."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


def run(page: Path, folder: Path) -> int:
    """Run all blocks of a page in a folder, but those of other tests, and return how many commands and programs ran."""
    return sum(_run_block(block, folder) for block in blocks(page) if block.title not in ELSEWHERE)


def _run_block(block: Block, folder: Path) -> int:
    if block.title == ON_EACH_WORKER:
        return _on_each_worker(block, folder)
    if block.title:
        (folder / block.title).write_text(block.text, encoding="utf-8")
        return 0
    if block.language == "sh":
        return len([_printed(command, folder) for command in commands(block.text)])
    if block.language == "console":
        compared = [compare(command, expected, _printed(command, folder)) for command, expected in sessions(block.text)]
        return len(compared)
    if block.language == "python":
        _succeed([subprocess.Popen([sys.executable, "-c", block.text], cwd=folder, **PIPES)], block.text)
        return 1
    return 0


def _on_each_worker(block: Block, folder: Path) -> int:
    """Start each command, or the program, on every worker at once, as a user without a launcher does."""
    lines = [[sys.executable, "-c", block.text]]
    if block.language == "sh":
        lines = [[str(TREEFOLD), *shlex.split(command)[1:]] for command in commands(block.text)]
    for line in lines:
        meeting = {"WORLD_SIZE": str(WORKERS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port("127.0.0.1"))}
        places = [os.environ | meeting | {"RANK": str(rank)} for rank in range(WORKERS)]
        _succeed([subprocess.Popen(line, cwd=folder, env=place, **PIPES) for place in places], block.text)
    return len(lines)


def _succeed(processes: list[subprocess.Popen[str]], text: str) -> None:
    """Hold each process to an end without an error, after at most a minute."""
    try:
        errors = [process.communicate(timeout=60)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * len(processes), f"{text}\n{errors}"


def _printed(command: str, folder: Path) -> str:
    done = start(*shlex.split(command)[1:], cwd=folder)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def compare(command: str, expected: str, seen: str) -> None:
    """Hold the output of a command to that on the page; spaces at the end of lines do not count."""
    wanted, got = (re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).strip() + "\n" for text in (expected, seen))
    assert doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS), f"$ {command}\n{got}"
