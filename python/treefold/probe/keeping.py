"""Measures the network between workers once, and keeps it in a file of worker 0, so that later jobs start at once.

While they measure, the network so far is in a file beside it, `net.part.json` for `net.json`. So the file itself is
always a whole one, and workers that were interrupted measure anew.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from treefold._core import Topology
from treefold.errors import OutsideError, TreefoldError, kind_of, of_kind
from treefold.exporters import check_document_writable, write
from treefold.files.writing import is_stream
from treefold.networks import topology
from treefold.probe.measuring import LEAST_TIMEOUT_S, Track, measure
from treefold.probe.names import distinct_names, own_name
from treefold.probe.report import document
from treefold.probe.results import Measurements, outcome_of
from treefold.probe.settings import Settings
from treefold.rendezvous import Rendezvous, validation
from treefold.rendezvous.meeting import all_or_none
from treefold.report.measured import outcome_line
from treefold.text import message, some

MOST_ONE_BY_ONE = 12
"""More workers measure pairs at the same time that share no worker: it is less exact, but their pairs are too many."""

_MOST_NAMED = 8
_KEY_DIGITS = 16
_BY_DEFAULT = Settings()
_ANEW = "delete it to measure anew"


class Found(NamedTuple):
    """The network between workers, and where it is kept."""

    network: Topology
    file: str
    """The path of the network's file on worker 0's machine."""


class _Worker(NamedTuple):
    """Who a worker is."""

    name: str
    address: str
    """The address on which others reach it; empty if it does not know that."""


def discover(
    meeting: Rendezvous,
    file: str | os.PathLike[str] | None = None,
    settings: Settings = _BY_DEFAULT,
    say: Callable[[str], None] = lambda _: None,
    announce: Callable[[str], None] = lambda _: None,
    track: Track = lambda steps: steps,
) -> Topology:
    """Return the network between the workers of a rendezvous; all of them call this together.

    If worker 0 has the network's file, it is used. Else the workers measure the network, and worker 0 writes the file.
    Until then the network so far is in a file beside it, `net.part.json` for `net.json`: from when all pairs were
    measured, and after each round of tests. If the workers are interrupted, that file stays, and the next call measures
    anew.

    Args:
        meeting: A rendezvous of at least 2 workers, whose timeout is at least `LEAST_TIMEOUT_S`.
        file: The network's file, whose ranks are the workers by their names, or those of their machines: .json,
            .graphml, .dot or .gv. By default it is one in the folder `treefold` of XDG_CACHE_HOME (or ~/.cache), and
            other workers, or those at other addresses, have another one. Worker 0's counts.
        settings: How to probe, as in `measure`. Among more than 12 workers, pairs that share no worker are always
            measured at the same time, as there are many.
        say: A function that worker 0 calls with a line that says whether the workers measure, and what the file is.
        announce: A function that is told how the probe goes, as in `measure`.
        track: A function that wraps the steps of the probe, as in `measure`.

    Returns:
        The network, the same on every worker. Rank r is worker r.

    Raises:
        TreefoldError: On every worker, if the file is of other workers or cannot be written, or as in `measure`.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> from treefold import probe, runtime
        >>> settings = probe.Settings(seconds=1.0, most_bytes=64 << 20)
        >>> with ThreadPoolExecutor(2) as pool:
        ...     found = list(pool.map(lambda meeting: probe.discover(meeting, "net.json", settings), runtime.local(2)))
        >>> found[0] == found[1] == treefold.topology("net.json")
        True

    """
    return found(meeting, file, settings, say, announce, track).network


def found(
    meeting: Rendezvous,
    file: str | os.PathLike[str] | None,
    settings: Settings,
    say: Callable[[str], None],
    announce: Callable[[str], None] = lambda _: None,
    track: Track = lambda steps: steps,
) -> Found:
    """Return what `discover` returns, and the network's file."""
    if meeting.size < 2:
        raise TreefoldError("a network is discovered between workers, and there is 1; start 2 or more")
    workers = _introduced(meeting)
    names = [worker.name for worker in workers]
    path = all_or_none(meeting, lambda: None if meeting.rank else _path(file, workers))
    network = all_or_none(meeting, lambda: None if path is None else _kept(path, names))
    if path is not None:
        say(_beginning(path, network is not None, len(names)))
    told = _of_worker_0(meeting, network, path)
    if told is None:
        all_or_none(meeting, partial(_check_timeout, meeting))
        settings = replace(settings, parallel=settings.parallel or meeting.size > MOST_ONE_BY_ONE)
        _measure(meeting, path, say, partial(measure, meeting, settings, announce, track))
        told = _of_worker_0(meeting, all_or_none(meeting, lambda: None if path is None else _kept(path, names)), path)
    assert told is not None  # the file is there now
    return told


def _introduced(meeting: Rendezvous) -> list[_Worker]:
    """Return all workers, whose names differ."""
    mine = [own_name(meeting), meeting._address or ""]
    told = validation.exchange(meeting.exchange, mine, (validation.is_name, str))
    names = distinct_names([name for name, _ in told])
    return [_Worker(name, address) for name, (_, address) in zip(names, told, strict=True)]


def _path(file: str | os.PathLike[str] | None, workers: Sequence[_Worker]) -> Path:
    """Return the path of the network's file, in a folder that exists."""
    if file is not None:
        return Path(file)
    given = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(given if os.path.isabs(given) else os.path.expanduser("~/.cache")) / "treefold"
    # Machines of several clusters may have the same names.
    listed = sorted(f"{worker.name} {worker.address}" for worker in workers)
    key = sha256("\n".join(listed).encode()).hexdigest()[:_KEY_DIGITS]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"cannot be made: {error.strerror}; name a file for the network, or set XDG_CACHE_HOME"
        raise OutsideError(message(str(folder), problem)) from None
    return folder / f"{len(workers)}-workers-{key}.json"


def _part_of(path: Path) -> Path:
    """Return the path of the file that has the network so far while it is measured."""
    return path.with_name(f"{path.stem}.part{path.suffix}")


def _kept(path: Path, names: Sequence[str]) -> Topology | None:
    """Return the network of a file, if there is one, with the workers of these names as its ranks, in this order.

    Raises:
        TreefoldError: If it is no network of these workers, or there is none and it cannot be written.

    """
    if not os.path.exists(path):
        check_document_writable(path)
        return None
    if is_stream(path):
        raise TreefoldError(message(str(path), "is no file that keeps a network; name a file, for example net.json"))
    try:
        network = topology(path)
    except OutsideError:
        raise
    except TreefoldError as error:
        problem = f"the network's file cannot be read; {_ANEW}, or name another one"
        raise TreefoldError(f"{problem}: {error}") from None
    if sorted(network.rank_names) != sorted(names):
        of_file, of_workers = (some(sorted(each), _MOST_NAMED) for each in (network.rank_names, names))
        problem = f"is a network of {of_file}, and the workers are {of_workers}; delete it, or name another file"
        raise TreefoldError(message(str(path), problem))
    return network.with_ranks([network.accelerator_names.index(name) for name in names])


def _beginning(path: Path, is_kept: bool, workers: int) -> str:
    """Return a line that says whether the workers measure, and what the file is."""
    what = f"the network between {workers} workers"
    if is_kept:
        return f"{path} is {what}; {_ANEW}"
    anew = f"; the last time did not end, and left {part}" if (part := _part_of(path)).exists() else ""
    return f"measuring {what}, for {path}{anew}"


def _measure(
    meeting: Rendezvous, path: Path | None, say: Callable[[str], None], take: Callable[..., Measurements]
) -> None:
    """Measure the network, and write it to the file if this worker has one."""
    part = None if path is None else _part_of(path)

    def keep(measured: Measurements) -> None:
        if part is not None:
            with suppress(TreefoldError):  # if nothing can be written in the end, all workers get that error
                write(document(measured), part)

    def finish(measured: Measurements) -> None:
        if path is not None and part is not None:
            write(document(measured), path)
            part.unlink(missing_ok=True)
            if measured.tests:
                say(outcome_line(outcome_of(measured) or {}))

    try:
        measured = take(keep)
        all_or_none(meeting, partial(finish, measured))
    except OutsideError as error:
        if part is None or not part.exists():
            raise
        raise of_kind(kind_of(error), f"{error}; {_so_far(part)}") from None
    except TreefoldError:
        raise
    except BaseException:  # an interrupt, which may have become another exception on its way
        if part is not None and part.exists():
            say(_so_far(part))
        raise


def _so_far(part: Path) -> str:
    return f"{part} has the network as far as it was measured"


def _of_worker_0(meeting: Rendezvous, network: Topology | None, path: Path | None) -> Found | None:
    """Return worker 0's network and file on all workers; None if it has none."""
    mine = ["" if network is None else network.to_json(), str(path or "")]
    told, file = validation.exchange(meeting.exchange, mine, (str, str))[0]
    return Found(Topology.from_json(told), file) if told else None


def _check_timeout(meeting: Rendezvous) -> None:
    if meeting._timeout_s < LEAST_TIMEOUT_S:
        raise TreefoldError(
            f"a timeout of {meeting._timeout_s:g} s is too short to discover a network, as it takes a while to notice "
            f"dead connections; give {LEAST_TIMEOUT_S:g} s or more"
        )
