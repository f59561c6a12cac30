"""Distributes cases to child processes, keeps those that fail, and counts them."""

import hashlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from random import Random

from fuzz.batches import Batch, Ended, Job, only
from fuzz.cases import Case, Fault
from fuzz.shrinking import shrink

TARGETS = ("files", "plans", "traces", "specs", "commands", "networks", "peers")
FOUND = Path(__file__).resolve().parent / "found"
_BATCH = 2000
_BATCH_S = 20.0


@dataclass
class Tally:
    """The counts of a target."""

    target: str
    seed: int
    cases: int = 0
    wall_s: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)
    """The number of faults of each signature."""
    peak_bytes: int = 0
    slowest_s: float = 0.0
    slowest: int = 0
    """The number of the slowest case."""

    def add(self, ended: Ended) -> None:
        """Add the results of a batch."""
        self.cases += ended.done
        self.peak_bytes = max(self.peak_bytes, ended.peak_bytes)
        if ended.slowest_s > self.slowest_s:
            self.slowest_s, self.slowest = ended.slowest_s, ended.slowest


def runner(target: str) -> Callable[[Path], None]:
    """Return the function that runs a case of a target."""
    return import_module(f"fuzz.targets.{target}").run


def maker(target: str, seed: int) -> Callable[[int], Case]:
    """Return a function from a number to a case, which does not depend on cases made before."""
    module = import_module(f"fuzz.targets.{target}")
    corpus = module.corpus()
    return lambda number: module.make(Random(f"{target} {seed} {number}"), corpus)


def fuzz(tally: Tally, numbers: range, most_s: float, processes: int) -> None:
    """Run the cases of these numbers in parallel until the time is over, and count them in `tally`."""
    start = time.monotonic()
    make, run, open_ranges = maker(tally.target, tally.seed), runner(tally.target), [numbers]
    running: dict[int, tuple[Batch, range]] = {}
    try:
        while True:
            while len(running) < processes and open_ranges and time.monotonic() - start < most_s:
                taken = _take(open_ranges)
                until = min(time.monotonic() + _BATCH_S, start + most_s)
                batch = Batch(Job(make, run, taken, until))
                running[batch.pid] = batch, taken
            if not running:
                return
            pid, status, usage = os.wait4(-1, 0)
            batch, taken = running.pop(pid)
            ended = batch.end(status, usage)
            tally.add(ended)
            tally.wall_s = time.monotonic() - start
            if left := range(max(ended.last + 1, taken.start), taken.stop):
                open_ranges.append(left)
            for number, fault in ended.faults.items():
                _keep(tally, number, fault, make, run)
    finally:
        for batch, _ in running.values():
            batch.kill()


def _take(open_ranges: list[range]) -> range:
    taken = open_ranges.pop()
    if rest := taken[_BATCH:]:
        open_ranges.append(rest)
    return taken[:_BATCH]


def _keep(tally: Tally, number: int, fault: Fault, make: Callable[[int], Case], run: Callable[[Path], None]) -> None:
    """Count a fault; if it is new, keep the smallest case that shows it."""
    tally.faults[fault.signature] = tally.faults.get(fault.signature, 0) + 1
    if tally.faults[fault.signature] > 1:
        return

    def fails(case: Case) -> bool:
        other = only(run, case)
        return other is not None and other.signature == fault.signature

    case = make(number)
    is_same = fails(case)
    if fault.kind == "hang" and not is_same:
        del tally.faults[fault.signature]  # the machine was busy with other work
        return
    FOUND.mkdir(exist_ok=True)
    stem = FOUND / f"{tally.target}-{hashlib.sha1(fault.signature.encode()).hexdigest()[:8]}"
    kept = (shrink(case, fails) if is_same else case).write(stem)
    again = f"{os.path.relpath(sys.executable)} -m fuzz {tally.target} --case {os.path.relpath(kept)}"
    note = f"{fault}\nseed {tally.seed}, case {number}{'' if is_same else '; it did not fail again'}\n{again}\n"
    stem.with_name(stem.name + ".txt").write_text(note + fault.trace)
    print(f"{tally.target} {number}: {fault}\n  {again}", file=sys.stderr, flush=True)
