"""Runs commands on every worker of a box: starts them, waits for them, ends them, and returns what they left."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

from treefold import TreefoldError

_BEAT_S = 0.05
TAIL = 2000
"""An error shows so many last characters of what a command complained about."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a worker's command; a returncode of -9 means that it was ended here."""

    node: str
    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Running:
    """A command that runs on a node, and the files that collect what it prints."""

    node: str
    process: subprocess.Popen[Any]
    stdout: IO[bytes]
    stderr: IO[bytes]

    def outcome(self) -> Outcome:
        """Return what the command left."""
        return Outcome(self.node, self.process.returncode, _text(self.stdout), _text(self.stderr))


@contextlib.contextmanager
def files() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Offer two files for what a command prints, which are gone afterwards."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        yield out, err


def exit_code(command: Callable[[], int]) -> int:
    """Run a script's command; return its exit code, or that of the error that it printed."""
    try:
        return command()
    except TreefoldError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def wait(running: Sequence[Running], timeout_s: float, check: bool, meanwhile: Callable[[], object]) -> list[str]:
    """Wait for all, or with `check` for the first that fails; return the nodes of those that were not done in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        codes = [one.process.poll() for one in running]
        if None not in codes or (check and any(codes)):
            return []
        if time.monotonic() > deadline:
            return [one.node for one, code in zip(running, codes, strict=True) if code is None]
        meanwhile()
        time.sleep(_BEAT_S)


def end(process: subprocess.Popen[Any]) -> None:
    """End a process that leads its own session, and what it started there: its children may hold ports."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def judge(command: Sequence[str], outcomes: Sequence[Outcome], late: Sequence[str], timeout_s: float) -> None:
    """Refuse outcomes of which any is late or failed."""
    if late:
        raise TreefoldError(f"not done within {timeout_s:.0f} s: {', '.join(late)}\n{_complaints(outcomes)}")
    failed = [outcome for outcome in outcomes if outcome.returncode not in (0, -signal.SIGKILL)]
    if failed:
        raise TreefoldError(f"`{' '.join(map(str, command))}` failed\n{_complaints(failed)}")


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _complaints(outcomes: Sequence[Outcome]) -> str:
    """Return the ends of what workers wrote to standard error."""
    return "\n".join(f"{one.node} (exit code {one.returncode}): {one.stderr.strip()[-TAIL:]}" for one in outcomes)
