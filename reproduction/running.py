"""Reproduces one figure: runs its trials, judges the paper's claims, and has the files of its folder written."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reproduction import store
from reproduction.catalogue import figures
from reproduction.figures import Figure, Settings
from reproduction.pages import Reproduced, write
from treefold import TreefoldError, checks
from treefold.files.writing import check_writable
from treefold.text import message

FOLDER = Path("reproduction", "results")
"""Figures go under this folder of the working directory unless told otherwise."""

_MOST_TRIALS, _MOST_JOBS = 10_000, 1024
"""Larger numbers are taken for typing errors."""

Track = Callable[[Sequence[Any]], Iterable[Any]]


def reproduce(
    name: str, settings: Settings, folder: Path | None = None, jobs: int = 1, track: Track = iter
) -> Reproduced:
    """Reproduce a figure and write its files.

    Args:
        name: The figure's name, `mtree/fig6`.
        settings: How much of the figure to reproduce.
        folder: Where its files go; by default `reproduction/results/mtree/fig6` of the working directory.
        jobs: How many processes run trials side by side.
        track: Wraps the sequence of trials to run, to show progress.

    """
    figure = figures()[name]
    settings = _checked(settings._replace(networks=settings.networks or figure.networks), name, figure, jobs)
    folder = folder or FOLDER / name
    others = _siblings(name, folder)
    _make(folder)
    trials = figure.trials(settings)
    rows = figure.rows(store.run(trials, folder, others, jobs, track))
    seeds = len({getattr(trial, "seed", 1) for trial in trials})
    done = Reproduced(name, figure.title, folder, settings.networks, seeds, rows, figure.claims(rows))
    write(done, figure)
    return done


def _siblings(name: str, folder: Path) -> list[Path]:
    """Return the folders of the paper's other figures, if `folder` bears its figure's name: some trials are shared."""
    paper, _, own = name.partition("/")
    names = [other.partition("/")[2] for other in figures() if other.startswith(f"{paper}/")]
    return [folder.parent / other for other in names if other != own] if folder.name == own else []


def _checked(settings: Settings, name: str, figure: Figure, jobs: int) -> Settings:
    """Return the settings with the networks' full names, or refuse what does not fit the figure."""
    checks.whole("trials", settings.trials, 1, _MOST_TRIALS)
    checks.whole("jobs", jobs, 1, _MOST_JOBS)
    if not are_skews(settings.skews):
        raise TreefoldError(f"skewness must be between 0 and 1, got {', '.join(map(str, settings.skews)) or 'none'}")
    if unused := misfits(settings, figure):
        raise TreefoldError(f"{name} does not take {' and '.join(unused)}; drop {'it' if len(unused) == 1 else 'them'}")
    return settings._replace(networks=tuple(_network(each, figure) for each in settings.networks))


def are_skews(skews: Sequence[float]) -> bool:
    """Return whether these can be the values of skew of a figure."""
    return bool(skews) and all(0 <= skew <= 1 for skew in skews)


def misfits(settings: Settings, figure: Figure) -> list[str]:
    """Return the options of the command line that are set although the figure has nothing that they vary."""
    own = [name for name in ("trials", "skews", "sizes") if name not in figure.takes]
    return [f"--{name}" for name in own if getattr(settings, name) != Settings._field_defaults[name]]


def _network(given: str, figure: Figure) -> str:
    known = dict.fromkeys((*figure.others, *figure.networks))
    try:
        return checks.name("network", given, known)
    except TreefoldError:
        there = ", ".join(known)
        raise TreefoldError(f"{figure.title} has no network {checks.shown(given)}; it has {there}") from None


def _make(folder: Path) -> None:
    """Make the folder, and refuse before long work what could not be written after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"cannot be made: {error.strerror}; choose another folder with -o"
        raise TreefoldError(message(str(folder), problem)) from None
    for name in (store.FILE, "data.csv", "plot.svg", "README.md"):
        check_writable(folder / name)


def summary(done: Reproduced) -> Mapping[str, Any]:
    """Return what `treefold reproduce --json` prints."""
    claims = [claim._asdict() for claim in done.claims]
    head = {"figure": done.name, "folder": str(done.folder), "networks": done.networks, "trials": done.seeds}
    return head | {"rows": done.rows, "claims": claims}
