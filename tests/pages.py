"""Runs what stands on a page of Markdown, in the order in which it stands there.

A block of ```sh runs; of a ```console block the output is compared, too, where `...` stands for anything; a block of
```python runs as a program; and a block of ```csv, ```json or ```toml with a title becomes a file of that name.
"""

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from commands import start

BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


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
    """Run all blocks of a page in a folder, and return how many commands and programs there were."""
    count = 0
    for block in blocks(page):
        if block.title:
            (folder / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            for command in commands(block.text):
                _printed(command, folder)
                count += 1
        elif block.language == "console":
            for command, expected in sessions(block.text):
                compare(command, expected, _printed(command, folder))
                count += 1
        elif block.language == "python":
            done = subprocess.run([sys.executable, "-c", block.text], cwd=folder, capture_output=True, text=True)
            assert done.returncode == 0, f"{block.text}\n{done.stderr}"
            count += 1
    return count


def _printed(command: str, folder: Path) -> str:
    done = start(*shlex.split(command)[1:], cwd=folder)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def compare(command: str, expected: str, seen: str) -> None:
    """Hold the output of a command to that on the page; spaces at the end of lines do not count."""
    wanted, got = (re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).strip() + "\n" for text in (expected, seen))
    assert doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS), f"$ {command}\n{got}"
