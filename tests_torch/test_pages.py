"""What README and the manual start with torchrun runs as they say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))  # behind this folder, which has a conftest.py, too
import pages  # noqa: E402

GUIDE = ROOT / "docs" / "guides" / "pytorch.md"
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if 'title="with torchrun"' in page.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_starts_with_torchrun_runs(page, tmp_path):
    for block in [*pages.blocks(GUIDE), *pages.blocks(page)]:
        if "." in block.title:
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    texts = [block.text for block in pages.blocks(page) if block.title == "with torchrun"]
    lines = [line for text in texts for line in text.replace("\\\n", "").splitlines()]
    assert lines
    for line in lines:
        environment = os.environ | {"PATH": path, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
        done = subprocess.run(
            line, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        assert not {"train.py", "hsdp.py"} & set(line.split()) or "treefold plans tensors" in done.stdout, done.stdout
