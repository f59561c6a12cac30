"""Runs what stands on a page of Markdown, in the order in which it stands there.

Each line of a block of ```sh runs in a shell; of a ```console block the output is compared, too, where `...` stands for
anything; a block of ```python runs as a program. A block's title says more: one that names a file becomes that file;
one "on each worker" runs in two workers; and those "with torchrun" or "with mpiexec" are run by tests_torch and
tests_mpi. What is "for example" depends on machines and times, and does not run. Whatever is none of these fails.
"""

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from commands import TREEFOLD, command
from treefold.rendezvous.sockets import free_port

BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)

ON_EACH_WORKER = "on each worker"
ELSEWHERE = ("with torchrun", "with mpiexec")
NOWHERE = "for example"
RUN = ("sh", "console", "python")
DATA = ("text", "csv", "json", "toml", "dot", "gml", "graphml")
WORKERS = 2
SHELL = re.compile(r"[|&;<>$`*]")
"""Characters that mean something to a shell."""
PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


class Block(NamedTuple):
    """What stands between two fences."""

    language: str
    title: str
    text: str


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, all of whose fences stand at the beginning of a line."""
    text = page.read_text(encoding="utf-8")
    found = [Block(*each) for each in BLOCK.findall(text)]
    assert 2 * len(found) == len(re.findall(r"^\s*```", text, re.MULTILINE)), f"{page}: a fence that is not understood"
    return found


def is_run(block: Block) -> bool:
    """Tell whether a block runs here; one whose language or title is unknown is refused."""
    assert block.language in RUN + DATA, f"nothing runs ```{block.language}"
    is_file = re.fullmatch(r"[\w.-]+\.\w+", block.title) is not None
    assert is_file or block.title in ("", ON_EACH_WORKER, NOWHERE, *ELSEWHERE), f'nothing runs "{block.title}"'
    return block.language in RUN and block.title in ("", ON_EACH_WORKER)


def commands(text: str) -> list[str]:
    """Return the commands in a block of shell, one for each line; comments are left out."""
    lines = (line.split("  #")[0].strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def sessions(text: str) -> list[tuple[str, str]]:
    """Return each command of a console, and the output below it."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


def run(page: Path, folder: Path) -> None:
    """Run all blocks of a page in a folder, but those of other tests; each runs at least one command or program."""
    for block in blocks(page):
        if is_run(block):
            assert _run_block(block, folder), f"nothing runs in this block:\n{block.text}"
        elif block.title and block.title not in (NOWHERE, *ELSEWHERE):
            (folder / block.title).write_text(block.text, encoding="utf-8")


def _run_block(block: Block, folder: Path) -> int:
    """Run a block, and return how many commands or programs it has."""
    if block.title == ON_EACH_WORKER:
        return _on_each_worker(block, folder)
    if block.language == "sh":
        return len([_printed(command, folder) for command in commands(block.text)])
    if block.language == "console":
        compared = [compare(command, expected, _printed(command, folder)) for command, expected in sessions(block.text)]
        return len(compared)
    _succeed([subprocess.Popen([sys.executable, "-c", block.text], cwd=folder, **PIPES)], block.text)
    return 1


def _on_each_worker(block: Block, folder: Path) -> int:
    """Start each command, or the program, on every worker at once, as a user without a launcher does."""
    lines = [[sys.executable, "-c", block.text]]
    if block.language == "sh":
        lines = [[str(TREEFOLD), *shlex.split(command)[1:]] for command in commands(block.text)]
    for line in lines:
        meeting = {"WORLD_SIZE": str(WORKERS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port("127.0.0.1"))}
        meeting["XDG_CACHE_HOME"] = str(folder / "cache")
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


def _printed(line: str, folder: Path) -> str:
    """Return what a line prints in a shell that finds treefold and python.

    A line that is nothing but a command of treefold runs within this process, which saves the start of another.
    """
    words = shlex.split(line)
    if words[0] == "treefold" and not SHELL.search(line):
        done = _command_in(folder, words[1:])
        assert done.returncode == 0, (line, done.stderr)
        return str(done.stdout)
    environment = os.environ | {"PATH": f"{TREEFOLD.parent}{os.pathsep}{os.environ['PATH']}"}
    how: dict[str, Any] = {"shell": True, "cwd": folder, "env": environment, "timeout": 60}
    done = subprocess.run(line, capture_output=True, text=True, check=False, **how)
    assert done.returncode == 0, (line, done.stderr)
    return str(done.stdout)


def _command_in(folder: Path, arguments: list[str]) -> "subprocess.CompletedProcess[str]":
    here = Path.cwd()
    os.chdir(folder)
    try:
        return command(*arguments)
    finally:
        os.chdir(here)


def compare(command: str, expected: str, seen: str) -> None:
    """Hold the output of a command to that on the page; spaces at the end of lines do not count."""
    wanted, got = (re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).strip() + "\n" for text in (expected, seen))
    assert doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS), f"$ {command}\n{got}"
