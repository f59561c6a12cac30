"""Counts the papers' claims in the pages of figures: `python -m reproduction.counting` writes them into README.md.

What a paper does not say, and what a simulator was calibrated to, stands in a table of its own and is not counted.
"""

import re
from pathlib import Path
from typing import NamedTuple

from reproduction.pages import claims_header
from treefold.files.writing import write_text_atomically

_HERE = Path(__file__).parent
PAGE, RESULTS = _HERE / "README.md", _HERE / "results"
_MARKED = re.compile(r"(<!-- counts -->\n).*(<!-- end of counts -->)", re.DOTALL)


class Count(NamedTuple):
    """How the claims of a paper fared."""

    paper: str
    figures: int
    reproduced: int
    missed: int


def count(paper: str) -> Count:
    """Count the claims that stand in the pages of a paper's figures."""
    pages = [page.read_text(encoding="utf-8") for page in sorted((RESULTS / paper).glob("*/README.md"))]
    rows = [row for page in pages for row in _claims(page)]
    reproduced = sum(row.endswith("| yes |") for row in rows)
    return Count(paper, len(pages), reproduced, len(rows) - reproduced)


def _claims(page: str) -> list[str]:
    """Return the rows of the table of the paper's own claims."""
    _, header, rest = page.partition("\n".join(claims_header("paper")) + "\n")
    return rest.split("\n\n")[0].split("<!--")[0].strip().splitlines() if header else []


def table() -> str:
    """Return the counts of all papers, and their sum, as a table in Markdown."""
    counts = [count(paper) for paper in ("multitree", "mtree", "in-network", "synthesis")]
    total = Count("together", *(sum(each[field] for each in counts) for field in (1, 2, 3)))  # type: ignore[misc]
    lines = ["| paper | figures | claims reproduced | claims missed |", "|---|---|---|---|"]
    lines += [f"| {each.paper} | {each.figures} | {each.reproduced} | {each.missed} |" for each in (*counts, total)]
    return "\n".join(lines) + "\n"


def with_counts(text: str) -> str:
    """Return a page with the counts of today between its marks."""
    return _MARKED.sub(lambda found: found[1] + table() + found[2], text)


if __name__ == "__main__":
    write_text_atomically(PAGE, with_counts(PAGE.read_text(encoding="utf-8")))
