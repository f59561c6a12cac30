"""What the manual starts with mpiexec runs as it says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
sys.path.insert(0, str(ROOT / "tests"))
import pages  # noqa: E402

TITLE = "with mpiexec"


PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if f'title="{TITLE}"' in page.read_text("utf-8")]


def run(*command, **how):
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(*command, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=240, **how)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_starts_with_mpiexec_runs(page):
    for block in (each for each in pages.blocks(page) if each.title == TITLE):
        if block.language == "python":
            run([str(BIN / "mpiexec"), "-n", "4", sys.executable, "-c", block.text])
        for line in block.text.splitlines() if block.language == "sh" else ():
            run(line, shell=True)
