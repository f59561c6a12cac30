"""Measures the network between workers once, and keeps it in a file of worker 0, so that later jobs start at once."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path

from treefold._core import Topology
from treefold.errors import OutsideError, TreefoldError
from treefold.exporters import check_document_writable, write
from treefold.files.writing import is_stream
from treefold.networks import topology
from treefold.probe.measuring import LEAST_TIMEOUT_S, Track, measure
from treefold.probe.names import distinct_names, own_name
from treefold.probe.report import document
from treefold.probe.results import Measurements
from treefold.probe.settings import Settings
from treefold.rendezvous import Rendezvous, validation
from treefold.rendezvous.meeting import all_or_none
from treefold.text import message, some

_MOST_NAMED = 8
_KEY_DIGITS = 16
_BY_DEFAULT = Settings()


def discover(
    meeting: Rendezvous,
    file: str | os.PathLike[str] | None = None,
    settings: Settings = _BY_DEFAULT,
    say: Callable[[str], None] = lambda _: None,
    announce: Callable[[str], None] = lambda _: None,
    track: Track = lambda steps: steps,
) -> Topology:
    """Return the network between the workers of a rendezvous; all of them call this together.

    If worker 0 has the network's file, it is used. Else the workers measure the network, and worker 0 writes the file:
    first when all pairs were measured, and then after each round of tests.

    Args:
        meeting: A rendezvous of at least 2 workers, whose timeout is at least `LEAST_TIMEOUT_S`.
        file: The network's file, whose ranks are the workers by their names, or those of their machines: .json,
            .graphml, .dot or .gv. By default it is one in the folder `treefold` of XDG_CACHE_HOME (or ~/.cache), and
            other workers have another one. Worker 0's counts.
        settings: How to probe, as in `measure`.
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
    if meeting.size < 2:
        raise TreefoldError("a network is discovered between workers, and there is 1; start 2 or more")
    names = distinct_names(validation.exchange(meeting.exchange, own_name(meeting), validation.is_name))
    path = all_or_none(meeting, lambda: None if meeting.rank else _path(file, names))
    network = all_or_none(meeting, lambda: None if path is None else _kept(path, names))
    if path is not None:
        what = f"the network between {len(names)} workers"
        say(f"{path} is {what}; delete it to measure anew" if network else f"measuring {what}, for {path}")
    told = _of_worker_0(meeting, network)
    if told == "":
        all_or_none(meeting, partial(_check_timeout, meeting))

        def keep(measured: Measurements) -> None:
            if path is not None:
                write(document(measured), path)

        measure(meeting, settings, announce, track, keep)
        told = _of_worker_0(meeting, all_or_none(meeting, lambda: None if path is None else _kept(path, names)))
    return Topology.from_json(told)


def _path(file: str | os.PathLike[str] | None, names: Sequence[str]) -> Path:
    """Return the path of the network's file, in a folder that exists."""
    if file is not None:
        return Path(file)
    given = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(given if os.path.isabs(given) else os.path.expanduser("~/.cache")) / "treefold"
    key = sha256("\n".join(sorted(names)).encode()).hexdigest()[:_KEY_DIGITS]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"cannot be made: {error.strerror}; name a file for the network, or set XDG_CACHE_HOME"
        raise OutsideError(message(str(folder), problem)) from None
    return folder / f"{len(names)}-workers-{key}.json"


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
    network = topology(path)
    if sorted(network.rank_names) != sorted(names):
        of_file, of_workers = (some(sorted(each), _MOST_NAMED) for each in (network.rank_names, names))
        problem = f"is a network of {of_file}, and the workers are {of_workers}; delete it, or name another file"
        raise TreefoldError(message(str(path), problem))
    return network.with_ranks([network.accelerator_names.index(name) for name in names])


def _of_worker_0(meeting: Rendezvous, network: Topology | None) -> str:
    """Return the JSON of worker 0's network on all workers; empty if it has none."""
    mine = "" if network is None else network.to_json()
    text: str = validation.exchange(meeting.exchange, mine, str)[0]
    return text


def _check_timeout(meeting: Rendezvous) -> None:
    if meeting._timeout_s < LEAST_TIMEOUT_S:
        raise TreefoldError(
            f"a timeout of {meeting._timeout_s:g} s is too short to discover a network, as it takes a while to notice "
            f"dead connections; give {LEAST_TIMEOUT_S:g} s or more"
        )
