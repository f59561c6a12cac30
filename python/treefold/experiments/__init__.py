"""Figures of the papers, reproduced: `treefold reproduce mtree/fig6`.

Each paper is a module with a table `FIGURES`. A figure's folder receives `data.csv`, `plot.svg`, the claims inside
`README.md`, and `trials.jsonl`, from which an interrupted experiment goes on.
"""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from treefold import checks
from treefold.errors import TreefoldError
from treefold.experiments.figures import Claim, Figure, Row, Settings, display
from treefold.files.reading import decode, read_bytes
from treefold.files.writing import check_writable, write_bytes_atomically, write_text_atomically
from treefold.text import message

__all__ = ["PAPERS", "Claim", "Figure", "Reproduced", "Row", "Settings", "figures", "named", "reproduce", "summary"]

PAPERS = ("mtree", "multitree", "in-network")
FOLDER = Path("experiments")
"""Under the current folder: where figures go unless told otherwise."""

_BEGIN, _END = "<!-- claims: written by treefold reproduce -->", "<!-- end of claims -->"


class Reproduced(NamedTuple):
    """A figure's data and how its paper's claims fared."""

    name: str
    title: str
    folder: Path
    networks: tuple[str, ...]
    seeds: int
    """Of each setting."""
    rows: list[Row]
    claims: list[Claim]


_MOST_TRIALS, _MOST_JOBS = 10_000, 1024
"""More are typing errors."""


def figures() -> dict[str, Figure]:
    """Return every figure by its name, `mtree/fig6`."""
    tables = {paper: import_module(f"treefold.experiments.{paper.replace('-', '_')}").FIGURES for paper in PAPERS}
    return {f"{paper}/{name}": figure for paper, table in tables.items() for name, figure in table.items()}


def named(name: str) -> list[str]:
    """Return the figures that a figure's or a paper's name stands for.

    Raises:
        TreefoldError: If it is neither.

    """
    known = figures()
    meant = checks.name("figure", name, [*PAPERS, *known])
    return [each for each in known if meant in (each, each.partition("/")[0])]


def reproduce(
    name: str,
    settings: Settings,
    folder: Path | None = None,
    jobs: int = 1,
    track: Callable[[Sequence[Any]], Iterable[Any]] = iter,
) -> Reproduced:
    """Reproduce a figure, `mtree/fig6`, and write its files into `folder`, by default `experiments/mtree/fig6`."""
    from treefold.experiments import store

    figure = figures()[name]
    settings = _checked(settings._replace(networks=settings.networks or figure.networks), figure, jobs)
    folder = folder or FOLDER / name
    others = _siblings(name, folder)
    _make(folder)
    trials = figure.trials(settings)
    rows = figure.rows(store.run(trials, folder, others, jobs, track))
    seeds = len({getattr(trial, "seed", 1) for trial in trials})
    done = Reproduced(name, figure.title, folder, settings.networks, seeds, rows, figure.claims(rows))
    _write(done, figure)
    return done


def split_networks(text: str) -> list[str]:
    """Return the networks of a list with commas, which some names have inside: fattree:8,2."""
    known = {name for figure in figures().values() for name in (*figure.others, *figure.networks)}
    parts, found = text.split(","), []
    while parts:
        length = next((many for many in range(len(parts), 1, -1) if ",".join(parts[:many]).strip() in known), 1)
        found.append(",".join(parts[:length]).strip())
        del parts[:length]
    return found


def _siblings(name: str, folder: Path) -> list[Path]:
    """Return the folders of the paper's other figures, if `folder` bears its figure's name: some trials are shared."""
    paper, _, own = name.partition("/")
    names = [other.partition("/")[2] for other in figures() if other.startswith(f"{paper}/")]
    return [folder.parent / other for other in names if other != own] if folder.name == own else []


def _checked(settings: Settings, figure: Figure, jobs: int) -> Settings:
    known = dict.fromkeys((*figure.others, *figure.networks))
    if settings.sizes and not figure.has_sizes:
        raise TreefoldError(f"{figure.title} has its own sizes; drop --sizes")
    checks.whole("trials", settings.trials, 1, _MOST_TRIALS)
    checks.whole("jobs", jobs, 1, _MOST_JOBS)
    if not settings.skews or not all(0 <= skew <= 1 for skew in settings.skews):
        raise TreefoldError(f"skewness must be between 0 and 1, got {', '.join(map(str, settings.skews)) or 'none'}")
    chosen = tuple(checks.name("network", network, known) for network in settings.networks)
    return settings._replace(networks=chosen)


def _make(folder: Path) -> None:
    """Make the folder, and refuse before long work what could not be written after it."""
    from treefold.experiments import store

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"cannot be made: {error.strerror}; choose another folder with -o"
        raise TreefoldError(message(str(folder), problem)) from None
    for name in (store.FILE, "data.csv", "plot.svg", "README.md"):
        check_writable(folder / name)


def _write(done: Reproduced, figure: Figure) -> None:
    """Write the figure's data, picture and claims."""
    table = io.StringIO()
    writer = csv.DictWriter(table, list(done.rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(done.rows)
    write_text_atomically(done.folder / "data.csv", table.getvalue())
    trials = f"{done.seeds} {'trial' if done.seeds == 1 else 'trials'} of each setting"
    drawn = f"means of {trials} and their standard deviations; " if done.seeds > 1 else ""
    subtitle = f"{drawn}{figure.setting}"
    write_bytes_atomically(done.folder / "plot.svg", figure.draw(done.rows, subtitle))
    networks = ", ".join(map(display, done.networks))
    measured = (
        f"Measured with {trials if done.seeds > 1 else figure.setting} on {networks}:\n\n{_markdown(done.claims)}"
    )
    readme = done.folder / "README.md"
    text = _first_readme(done, figure)
    if readme.is_file():
        text = decode(read_bytes(str(readme)), str(readme))
    write_text_atomically(readme, _with_claims(text, measured))


def _first_readme(done: Reproduced, figure: Figure) -> str:
    run = f"```sh\ntreefold reproduce {done.name}\n```"
    return f"# {done.title}\n\n{run}\n\nThe paper: {figure.paper}\n\n![figure](plot.svg)\n\n{_BEGIN}\n{_END}\n"


def _with_claims(text: str, measured: str) -> str:
    """Replace what stands between the marks; without marks, leave the text alone."""
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    return f"{before}{begin}\n{measured}\n{end}{after}" if begin and end else text


def _markdown(claims: Sequence[Claim]) -> str:
    lines = ["| claim | paper | tolerance | measured | reproduced |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(claim[:4])} | {'yes' if claim.reproduced else '**no**'} |" for claim in claims]
    return "\n".join(lines)


def summary(done: Reproduced) -> Mapping[str, Any]:
    """Return what `treefold reproduce --json` prints."""
    claims = [claim._asdict() for claim in done.claims]
    found = {"figure": done.name, "folder": str(done.folder), "networks": done.networks, "trials": done.seeds}
    return found | {"rows": done.rows, "claims": claims}
