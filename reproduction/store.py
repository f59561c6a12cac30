"""Keeps results of trials in a file as soon as they are there: an interrupted figure goes on where it stopped.

A result counts only for the code that computed it: planners, simulators and the trial itself. Each line of the file is
a JSON object; a torn last line is a trial that was not finished.
"""

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from multiprocessing import parent_process
from operator import methodcaller
from pathlib import Path
from typing import Any

import treefold
from reproduction.figures import Trial
from treefold import interrupts

FILE = "trials.jsonl"

Results = list[tuple[Trial, dict[str, Any]]]
Track = Callable[[Sequence[Trial]], Iterable[Trial]]


def run(wanted: Sequence[Trial], folder: Path, others: Sequence[Path], jobs: int, track: Track) -> Results:
    """Return the results of `wanted`, running those that neither `folder` nor the `others` hold.

    Args:
        wanted: Trials, each once.
        folder: Where results are kept.
        others: Folders of related figures, some of whose trials are the same.
        jobs: How many processes run trials side by side.
        track: Wraps the sequence of trials to run, to show progress.

    """
    known = {trial: result for each in [*others, folder] for trial, result in _read(each / FILE, wanted[0])}
    missing = [trial for trial in wanted if trial not in known]
    own = {trial for trial, _ in _read(folder / FILE, wanted[0])}
    with (folder / FILE).open("a", encoding="utf-8") as file, _mapping(jobs) as mapped:
        file.write("\n")  # a torn line stays alone
        file.writelines(_line(trial, known[trial]) for trial in wanted if trial in known and trial not in own)
        for trial, result in zip(track(missing), mapped(methodcaller("measure"), missing), strict=True):
            known[trial] = result
            file.write(_line(trial, result))
            file.flush()
    return [(trial, known[trial]) for trial in wanted]


def _read(path: Path, like: Trial) -> Iterator[tuple[Trial, dict[str, Any]]]:
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            kept = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(kept, dict) or not isinstance(kept.get("trial"), dict):
            continue
        # A paper's figures may try different things.
        if kept.get("code") == _code_of(like) and kept["trial"].keys() == like._asdict().keys():
            yield type(like)(**kept["trial"]), kept["result"]


def _line(trial: Trial, result: dict[str, Any]) -> str:
    return json.dumps({"code": _code_of(trial), "trial": trial._asdict(), "result": result}) + "\n"


def _code_of(trial: Trial) -> str:
    """Return a digest of all code on which the trial's result depends."""
    module = sys.modules[type(trial).__module__]
    measuring = (module, *getattr(module, "SHARED", ()))
    return _fingerprint(getattr(module, "PACKAGES", ("planning",)), tuple(each.__file__ or "" for each in measuring))


@lru_cache(maxsize=4)
def _fingerprint(packages: tuple[str, ...], measuring: tuple[str, ...]) -> str:
    """Return a digest of the core, of the code of these packages but their commands, and of the files that measure."""
    root = Path(treefold.__file__).parent
    sources = [path for package in packages for path in sorted((root / package).glob("*.py"))]
    digest = hashlib.sha256()
    for path in [*sorted(root.glob("_core*.so")), *sorted(root.glob("_core*.pyd")), *sources, *map(Path, measuring)]:
        if path.name != "command.py":
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _mapping(jobs: int) -> Iterator[Callable[..., Iterable[dict[str, Any]]]]:
    """Offer `map`, in this process or over several; when interrupted, what has not begun is dropped."""
    if jobs == 1:
        yield map
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context, resource_tracker

    with _quiet():
        resource_tracker.ensure_running()  # it lets interrupts through while it starts
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_obey_parent)

    def apply(*arguments: Any) -> Iterable[dict[str, Any]]:
        with _quiet():
            return pool.map(*arguments)

    try:
        yield apply
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _quiet() -> Iterator[None]:
    """Have interrupts wait; processes that start in the meantime leave them, and standard error, to this one for ever.

    What goes wrong in a trial comes back as an exception; all else that they would print is that this one has gone.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    errors, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(errors, 2)
        os.close(errors)
        os.close(nowhere)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _obey_parent() -> None:
    """Let this process of the pool end with the one that has started it."""
    if parent := parent_process():
        interrupts.end_with(parent.pid or 0)
