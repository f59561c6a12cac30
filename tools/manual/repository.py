"""The pages that the repository has already: the reproduced figures of the papers, and the documents for developers."""

import posixpath
import re
import shutil
from pathlib import Path

from reproduction.counting import count

PAPERS = {
    "multitree": "MultiTree (Huang et al., ISCA 2021)",
    "mtree": "MTree (Luo, Wang, Xing)",
    "in-network": "In-network reduction (Klenk et al., ISCA 2020)",
    "synthesis": "Published plans of TE-CCL, TACCL and SCCL",
}
DOCUMENTS = {
    "ARCHITECTURE.md": "Architecture",
    "DESIGN.md": "Design",
    "CONTRIBUTING.md": "Contributing",
    "CHANGELOG.md": "Changes",
}
SOURCE = "https://github.com/treefold/treefold/blob/main/"


def write_validation(root: Path, pages: Path) -> list[tuple[str, str]]:
    """Write a page for each paper, with its figures and claims; return titles and paths."""
    folder = pages / "validation"
    folder.mkdir()
    summary = []
    for paper, title in PAPERS.items():
        counted = count(paper)
        sections = []
        for figure in sorted((root / "reproduction" / "results" / paper).iterdir(), key=_by_number):
            if (figure / "README.md").is_file():
                sections.append(_figure(paper, figure, folder))
        text = "\n\n".join(sections)
        summary.append(f"| [{title}]({paper}.md) | {counted.figures} | {counted.reproduced} | {counted.missed} |")
        (folder / f"{paper}.md").write_text(f"# {title}\n\n{text}\n", encoding="utf-8")
    head = (
        "# Validation\n\ntreefold reproduces the figures of three papers, and has one of plans that other programs "
        "have published, beside its own. The page of a paper has a section for each figure, with a table of claims: "
        "what the paper says, what treefold measures, and whether that is within a tolerance that was set before. "
        "Claims that do not hold stay on the page.\n\n"
        "| paper | figures | claims reproduced | claims missed |\n|---|---|---|---|\n"
    )
    (folder / "index.md").write_text(head + "\n".join(summary) + "\n", encoding="utf-8")
    return [("Summary", "validation/index.md"), *((title, f"validation/{paper}.md") for paper, title in PAPERS.items())]


def _by_number(figure: Path) -> tuple[str, int, str]:
    """Return a key that sorts fig9 before fig10, and fig10a before fig10b."""
    name, number, rest = re.fullmatch(r"(\D*)(\d*)(.*)", figure.name).groups()  # type: ignore[union-attr]
    return name, int(number or 0), rest


def _figure(paper: str, figure: Path, folder: Path) -> str:
    """Return a figure's page as a section, and copy its picture."""
    text = (figure / "README.md").read_text(encoding="utf-8")
    if (figure / "plot.svg").is_file():
        shutil.copy(figure / "plot.svg", folder / f"{paper}-{figure.name}.svg")
    text = text.replace("](plot.svg)", f"]({paper}-{figure.name}.svg)")
    text = re.sub(r"<!--.*?-->\n?", "", text)
    return _relinked(
        re.sub(r"^#", "##", text, flags=re.MULTILINE), f"reproduction/results/{paper}/{figure.name}/"
    ).strip()


def write_development(root: Path, pages: Path) -> list[tuple[str, str]]:
    """Copy the documents for developers; return titles and paths."""
    folder = pages / "development"
    folder.mkdir()
    for name in DOCUMENTS:
        text = (root / name).read_text(encoding="utf-8")
        (folder / name.lower()).write_text(_relinked(text, ""), encoding="utf-8")
    return [(title, f"development/{name.lower()}") for name, title in DOCUMENTS.items()]


def _relinked(text: str, base: str) -> str:
    """Return Markdown whose relative links to other files of the repository lead to the repository."""

    def link(found: re.Match[str]) -> str:
        target = found[2]
        if re.match(r"[a-z]+:|#", target) or target.endswith(".svg"):
            return found[0]
        path, _, anchor = target.partition("#")
        if path in DOCUMENTS:
            return f"[{found[1]}]({path.lower()}{'#' if anchor else ''}{anchor})"
        if target.startswith("docs/"):
            return f"[{found[1]}](../{target.removeprefix('docs/')})"
        return f"[{found[1]}]({SOURCE}{posixpath.normpath(base + target)})"

    return re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", link, text)
