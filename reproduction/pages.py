"""Writes the files of a figure's folder: data, picture, and the claims inside a page that people may add to."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

from reproduction.figures import Claim, Figure, Row, display
from treefold.files.reading import decode, read_bytes
from treefold.files.writing import write_bytes_atomically, write_text_atomically

_BEGIN, _END = "<!-- claims: written by treefold reproduce -->", "<!-- end of claims -->"
_WIDTH = 120


class Reproduced(NamedTuple):
    """A figure's data and how its paper's claims fared."""

    name: str
    title: str
    folder: Path
    networks: tuple[str, ...]
    seeds: int
    """How many seeds each setting was tried with."""
    rows: list[Row]
    claims: list[Claim]


def write(done: Reproduced, figure: Figure) -> None:
    """Write the figure's data, picture and claims."""
    write_text_atomically(done.folder / "data.csv", _table(done.rows))
    trials = f"{done.seeds} {'trial' if done.seeds == 1 else 'trials'} of each setting"
    drawn = f"means of {trials} and their standard deviations; " if done.seeds > 1 else ""
    write_bytes_atomically(done.folder / "plot.svg", figure.draw(done.rows, f"{drawn}{figure.setting}"))
    networks = ", ".join(map(display, done.networks))
    measured = _wrapped(f"Measured with {trials if done.seeds > 1 else figure.setting} on {networks}:")
    _write_page(done, figure, f"{measured}\n\n{_markdown(done.claims)}")


def _table(rows: Sequence[Row]) -> str:
    table = io.StringIO()
    writer = csv.DictWriter(table, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return table.getvalue()


def _write_page(done: Reproduced, figure: Figure, measured: str) -> None:
    """Write the claims between the marks of the page that is there, or into a new one."""
    path = done.folder / "README.md"
    text = decode(read_bytes(str(path)), str(path)) if path.is_file() else _first_page(done, figure)
    write_text_atomically(path, _with_claims(text, measured))


def _first_page(done: Reproduced, figure: Figure) -> str:
    command = f"```sh\ntreefold reproduce {done.name}\n```"
    paper = _wrapped(f"The paper: {figure.paper}")
    return f"# {done.title}\n\n{command}\n\n{paper}\n\n![figure](plot.svg)\n\n{_BEGIN}\n{_END}\n"


def _with_claims(text: str, measured: str) -> str:
    """Replace what stands between the marks; without marks, leave the text alone."""
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    return f"{before}{begin}\n{measured}\n{end}{after}" if begin and end else text


def _wrapped(text: str) -> str:
    return fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _markdown(claims: Sequence[Claim]) -> str:
    """Lay out the paper's claims, and below them those that do not count."""
    paper, rest = ([claim for claim in claims if claim.counts is counts] for counts in (True, False))
    parts = [_claims_table(paper, "paper")] if paper else []
    if rest:
        parts += ["Not counted, because the paper does not say so, or because it was calibrated to this value:"]
        parts += [_claims_table(rest, "expected")]
    return "\n\n".join(parts)


def claims_header(source: str) -> list[str]:
    """Return the first lines of a table of claims of the `paper`, or of what is `expected` besides."""
    return [f"| claim | {source} | tolerance | measured | reproduced |", "|---|---|---|---|---|"]


def _claims_table(claims: Sequence[Claim], source: str) -> str:
    lines = claims_header(source)
    lines += [f"| {' | '.join(claim[:4])} | {'yes' if claim.reproduced else '**no**'} |" for claim in claims]
    return "\n".join(lines)
