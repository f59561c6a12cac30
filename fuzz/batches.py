"""A batch: cases that a child process runs one after the other, within limits of time and memory.

The child is forked, so that it need not import anything. It tells how far it is through shared memory, writes faults
into a file, and an alarm of its own ends it when a case takes too long: its parent only has to wait for its end.
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
"""A case that computes longer hangs, however busy the machine is with something else."""
MOST_WALL_S = 40.0
"""A case that waits longer hangs, too."""
MOST_BYTES = 2 << 30
"""What a process may have besides what it has when it has only imported treefold."""


_ALARMS: dict[int, str] = {
    signal.SIGPROF: f"computes longer than {MOST_S:g} s",
    signal.SIGALRM: f"takes longer than {MOST_WALL_S:g} s",
}
"""What each signal of an alarm says of the case that it ends."""

_MEMORY = "/dev/shm"
"""A folder in memory: a disk would take longer than treefold."""


class Job(NamedTuple):
    """What a child has to do."""

    make: Callable[[int], Case]
    run: Callable[[Path], None]
    numbers: Iterable[int]
    """Of the cases."""
    until: float = float("inf")
    """Begin no case after `time.monotonic` says this."""


class Ended(NamedTuple):
    """What became of a batch."""

    faults: dict[int, Fault]
    """By the case's number."""
    done: int
    """How many cases have ended, with a fault or without."""
    last: int
    """Number of the last one that was begun."""
    slowest_s: float
    slowest: int
    peak_bytes: int


class Batch:
    """A child process at work."""

    def __init__(self, job: Job) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="treefold-fuzz-", dir=_MEMORY if os.path.isdir(_MEMORY) else None))
        # How many cases have ended, the one at work, how long the slowest took, and which that was.
        self._progress = memoryview(mmap.mmap(-1, 4 * 8)).cast("d")
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _live(job, self._folder, self._progress, parent)

    def end(self, status: int, usage: Any) -> Ended:
        """Return what became of it, from what `os.wait4` says of its end."""
        done, last, slowest_s, slowest = self._progress
        faults = _read_faults(self._folder / "faults")
        if status:
            done += 1
            faults[int(last)] = _death(status, (self._folder / "stderr").read_text(errors="replace"))
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
        return Ended(faults, int(done), int(last), slowest_s, int(slowest), usage.ru_maxrss << 10)

    def kill(self) -> None:
        """End it now, and all that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


def only(run: Callable[[Path], None], case: Case) -> Fault | None:
    """Run one case in a child of its own; return its fault."""
    batch = Batch(Job(lambda _: case, run, [0]))
    _, status, usage = os.wait4(batch.pid, 0)
    return batch.end(status, usage).faults.get(0)


def _live(job: Job, folder: Path, progress: memoryview, parent: int) -> NoReturn:
    """Be the child."""
    try:
        os.setsid()
        _redirect(folder / "stderr")
        _limit()
        with (folder / "faults").open("w") as faults:
            _work(job, folder, progress, parent, lambda *found: print(json.dumps(found), file=faults, flush=True))
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


def _redirect(stderr: Path) -> None:
    """Read nothing, say nothing to the terminal, and keep what goes to standard error in a file."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    errors = os.open(stderr, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    for descriptor, target in enumerate((nowhere, nowhere, errors)):
        os.dup2(target, descriptor)


def _limit() -> None:
    """Let the alarm tell where the process is and end it; limit memory."""
    faulthandler.enable(2)
    for number in _ALARMS:
        signal.signal(number, signal.SIG_DFL)
        faulthandler.register(number, 2, chain=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _work(job: Job, folder: Path, progress: memoryview, parent: int, tell: Callable[[int, Any], None]) -> None:
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
            tell(number, asdict(fault))
        path.unlink()
        progress[0] += 1


def _set_alarms(cpu_s: float, wall_s: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    signal.setitimer(signal.ITIMER_REAL, wall_s)


def _read_faults(path: Path) -> dict[int, Fault]:
    lines = path.read_text().splitlines() if path.exists() else []
    return {number: Fault(**fields) for number, fields in map(json.loads, lines)}


def _death(status: int, said: str) -> Fault:
    """Return the fault that ended a child."""
    if not os.WIFSIGNALED(status):
        return Fault("exit", f"the process ended with code {os.waitstatus_to_exitcode(status)}", place(said), said)
    number = os.WTERMSIG(status)
    if number in _ALARMS:
        return Fault("hang", _ALARMS[number], place(said), said)
    kind = "memory" if "memory allocation" in said else "signal"
    return Fault(kind, signal.Signals(number).name, place(said), said)
