"""The README and the pages of the manual do what they say; the site is built from them and from the code."""

from pathlib import Path

import pytest

import pages
from treefold import _core

ROOT = Path(__file__).parents[1]
OTHERS = {"files.md", "models.md"}
"""These pages have tests of their own."""
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name not in OTHERS)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_stands_on_a_page_runs(page, tmp_path):
    count = pages.run(page, tmp_path)
    here = [block for block in pages.blocks(page) if not block.title or block.title == pages.ON_EACH_WORKER]
    assert count >= len([block for block in here if block.language in ("sh", "console", "python")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_only_the_installation_is_not_run(page):
    plain = [line for block in pages.blocks(page) if block.language == "text" for line in block.text.splitlines()]
    assert [line for line in plain if not line.startswith(("pip install ", "make ", "source "))] == []


def test_the_page_on_networks_names_every_kind():
    page = (ROOT / "docs" / "networks.md").read_text(encoding="utf-8")
    assert [kind for kind in _core.generators() if f"`{kind.split(':')[0]}" not in page] == []


def test_a_wrong_output_is_seen():
    pages.compare("x", "one\n...\nthree\n", "one\ntwo\nthree  \n")
    with pytest.raises(AssertionError):
        pages.compare("x", "one\ntwo\n", "one\nthree\n")
