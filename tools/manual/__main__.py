"""Gathers the pages of the manual, and the configuration of its site, in `target/manual`."""

import json
import re
import shutil
from pathlib import Path

from tools.manual import algorithms, reference, repository
from tools.manual.relinking import relinked

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "target" / "manual"

Section = list[tuple[str, str]]
"""Titles of pages, and their paths."""

SECTIONS: dict[str, Section] = {
    "Start": [("Get started", "start.md"), ("Install", "install.md")],
    "Guides": [
        ("For architects", "guides/architect.md"),
        ("For ML engineers", "guides/ml-engineer.md"),
        ("For network operators", "guides/network-operator.md"),
        ("Which link to upgrade", "guides/explain.md"),
        ("For PyTorch users", "guides/pytorch.md"),
        ("Train across sites", "guides/sites.md"),
        ("For researchers", "guides/researcher.md"),
        ("See what a plan does", "guides/view.md"),
        ("Run on machines", "guides/run.md"),
        ("Training time", "models.md"),
        ("Questions", "faq.md"),
    ],
    "Concepts": [
        ("A plan", "concepts/plan.md"),
        ("The bound", "concepts/bound.md"),
        ("Three simulators", "concepts/simulators.md"),
        ("What the numbers mean", "numbers.md"),
        ("The proof", "concepts/proof.md"),
        ("Fewer bytes", "concepts/wire.md"),
        ("Glossary", "glossary.md"),
    ],
}

INPUTS: Section = [
    ("Networks", "networks.md"),
    ("Files", "files.md"),
    ("Plan files", "plan-files.md"),
    ("Options", "options.md"),
    ("PyTorch", "torch.md"),
    ("torchft", "torchft.md"),
]
"""The pages of the reference that people have written; the others come from the code."""


def main() -> None:
    """Write the pages and the configuration."""
    shutil.rmtree(BUILD, ignore_errors=True)
    pages = BUILD / "docs"
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("site.toml"))
    shutil.copytree(ROOT / "schema", pages / "schema")
    for page in pages.rglob("*.md"):
        text = relinked(page.read_text(encoding="utf-8"), page.relative_to(pages).as_posix())
        page.write_text(text, encoding="utf-8")
    _copy_package(BUILD / "python" / "treefold")
    sections = SECTIONS | {
        "Algorithms": algorithms.write(pages),
        "Reference": [*INPUTS, *reference.write(pages)],
        "Validation": repository.write_validation(ROOT, pages),
        "Development": repository.write_development(ROOT, pages),
    }
    home = {"Home": "index.md"}
    nav = [home, *({title: [{name: path} for name, path in section]} for title, section in sections.items())]
    settings = (ROOT / "docs" / "site.toml").read_text(encoding="utf-8")
    (BUILD / "zensical.toml").write_text(settings.replace("nav = []", f"nav = {_toml(nav)}"), encoding="utf-8")


def _copy_package(target: Path) -> None:
    """Copy the source of the package; its section "Example" is called "Examples", as mkdocstrings wants it."""
    source = ROOT / "python" / "treefold"
    for path in source.rglob("*.py"):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = re.sub(r"^( *)Example:$", r"\1Examples:", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        copy.write_text(text, encoding="utf-8")


def _toml(value: object) -> str:
    """Return lists, tables and texts as TOML writes them."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)


if __name__ == "__main__":
    main()
