"""Runs batches of cases, each in a child process with limits of time and memory.

The child is forked, so it need not import anything. It reports its progress through shared memory and writes faults to
a file. Its own alarm ends it if a case takes too long, so its parent only has to wait.
"""

import faulthandler
import json
import mmap
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from fuzz.cases import Case, Fault, attempt, place

MOST_S = 10.0
"""A case that takes more CPU time hangs, however busy the machine is."""
MOST_WALL_S = 40.0
"""A case that takes more wall time hangs, too."""
MOST_BYTES = 2 << 30
"""The most memory of a process, beyond that of a process that has only imported treefold."""


_ALARMS: dict[int, str] = {
    signal.SIGPROF: f"computes longer than {MOST_S:g} s",
    signal.SIGALRM: f"takes longer than {MOST_WALL_S:g} s",
}
"""The fault of a case that each alarm's signal ends."""

_MEMORY = "/dev/shm"
"""A folder in memory, as a disk would take longer than treefold."""


class Job(NamedTuple):
    """The work of a child."""

    make: Callable[[int], Case]
    run: Callable[[Path], None]
    numbers: Iterable[int]
    """The numbers of the cases."""
    until: float = float("inf")
    """The time, by `time.monotonic`, after which no case begins."""


class Ended(NamedTuple):
    """The results of a batch."""

    faults: dict[int, Fault]
    """The faults by the number of the case."""
    done: int
    """How many cases ended, with or without a fault."""
    last: int
    """The number of the last case that began."""
    slowest_s: float
    slowest: int
    peak_bytes: int


class Batch:
    """A child process at work."""

    def __init__(self, job: Job) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="treefold-fuzz-", dir=_MEMORY if os.path.isdir(_MEMORY) else None))
        # The numbers are: how many cases have ended, the current case, the slowest case's seconds, and its number.
        self._progress = memoryview(mmap.mmap(-1, 4 * 8)).cast("d")
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _run_child(job, self._folder, self._progress, parent)

    def end(self, status: int, usage: Any) -> Ended:
        """Return the results of the batch, after `os.wait4` returned its status and usage."""
        done, last, slowest_s, slowest = self._progress
        faults = _read_faults(self._folder / "faults")
        if status:
            done += 1
            faults[int(last)] = _death(status, (self._folder / "stderr").read_text(errors="replace"))
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
        return Ended(faults, int(done), int(last), slowest_s, int(slowest), usage.ru_maxrss << 10)

    def kill(self) -> None:
        """End the child and all processes that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


def only(run: Callable[[Path], None], case: Case) -> Fault | None:
    """Run one case in its own child, and return its fault."""
    batch = Batch(Job(lambda _: case, run, [0]))
    _, status, usage = os.wait4(batch.pid, 0)
    return batch.end(status, usage).faults.get(0)


def _run_child(job: Job, folder: Path, progress: memoryview, parent: int) -> NoReturn:
    """Run the child process."""
    try:
        os.setsid()
        _redirect(folder / "stderr")
        _limit()
        with (folder / "faults").open("w") as faults:
            _work(job, folder, progress, parent, lambda *fault: print(json.dumps(fault), file=faults, flush=True))
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


def _redirect(stderr: Path) -> None:
    """Disconnect the child from the terminal, and write its standard error to a file."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    errors = os.open(stderr, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    for descriptor, target in enumerate((nowhere, nowhere, errors)):
        os.dup2(target, descriptor)


def _limit() -> None:
    """Let alarms print a traceback and end the process, and limit its memory."""
    faulthandler.enable(2)
    for number in _ALARMS:
        signal.signal(number, signal.SIG_DFL)
        faulthandler.register(number, 2, chain=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _work(job: Job, folder: Path, progress: memoryview, parent: int, report: Callable[[int, Any], None]) -> None:
    """Run the cases of a job until the time is over or the parent has ended."""
    for number in job.numbers:
        if time.monotonic() > job.until or os.getppid() != parent:
            return
        progress[1] = number
        os.ftruncate(2, 0)
        path = job.make(number).write(folder / "case")
        start = time.monotonic()
        _set_alarms(MOST_S, MOST_WALL_S)
        fault = attempt(job.run, path)
        _set_alarms(0, 0)
        took_s = time.monotonic() - start
        if took_s > progress[2]:
            progress[2], progress[3] = took_s, number
        if fault is not None:
            report(number, asdict(fault))
        path.unlink()
        progress[0] += 1


def _set_alarms(cpu_s: float, wall_s: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    signal.setitimer(signal.ITIMER_REAL, wall_s)


def _read_faults(path: Path) -> dict[int, Fault]:
    lines = path.read_text().splitlines() if path.exists() else []
    return {number: Fault(**fields) for number, fields in map(json.loads, lines)}


def _death(status: int, stderr: str) -> Fault:
    """Return the fault that ended a child."""
    if not os.WIFSIGNALED(status):
        return Fault("exit", f"the process ended with code {os.waitstatus_to_exitcode(status)}", place(stderr), stderr)
    number = os.WTERMSIG(status)
    if number in _ALARMS:
        return Fault("hang", _ALARMS[number], place(stderr), stderr)
    kind = "memory" if "memory allocation" in stderr else "signal"
    return Fault(kind, signal.Signals(number).name, place(stderr), stderr)
