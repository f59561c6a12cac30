"""Commands that run on every worker of a box: waiting for them, ending them, and what they left."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Any

from treefold import TreefoldError

BEAT_S = 0.05
TAIL = 2000


@dataclass(frozen=True)
class Outcome:
    """What a worker's command left; a returncode of -9 is a command that was ended here."""

    node: str
    returncode: int
    stdout: str
    stderr: str


def exit_code(command: Callable[[], int]) -> int:
    """Run a script's command; return its exit code, or that of the error that it told."""
    try:
        return command()
    except TreefoldError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def wait(
    running: Sequence[subprocess.Popen[Any]], timeout_s: float, check: bool, meanwhile: Callable[[], object]
) -> list[int]:
    """Wait for all, or with `check` for the first that fails; return the places of those not done in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        codes = [process.poll() for process in running]
        if None not in codes or (check and any(codes)):
            return []
        if time.monotonic() > deadline:
            return [place for place, code in enumerate(codes) if code is None]
        meanwhile()
        time.sleep(BEAT_S)


def end(process: subprocess.Popen[Any]) -> None:
    """End a process that leads its own session, and what it started there: its children may hold ports."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def text(file: IO[bytes]) -> str:
    """Return all that was written to a file."""
    file.seek(0)
    return file.read().decode(errors="replace")


def complaints(outcomes: Sequence[Outcome]) -> str:
    """Return the ends of what failed workers wrote."""
    return "\n".join(f"{one.node} (exit code {one.returncode}): {one.stderr.strip()[-TAIL:]}" for one in outcomes)
