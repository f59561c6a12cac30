"""The README and the pages of the manual do what they say; the site is built from them and from the code."""

import re
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
    fences = re.findall(r"^```(sh|console|python)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert count >= len(fences)


def test_the_page_on_networks_names_every_kind():
    page = (ROOT / "docs" / "networks.md").read_text(encoding="utf-8")
    assert [kind for kind in _core.generators() if f"`{kind.split(':')[0]}" not in page] == []


def test_a_wrong_output_is_seen():
    pages.compare("x", "one\n...\nthree\n", "one\ntwo\nthree  \n")
    with pytest.raises(AssertionError):
        pages.compare("x", "one\ntwo\n", "one\nthree\n")
