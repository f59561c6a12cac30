"""What the manual starts with mpiexec runs as it says."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
sys.path.insert(0, str(ROOT / "tests"))
import pages  # noqa: E402

TITLE = "with mpiexec"


def blocks_of(name):
    return [block for block in pages.blocks(ROOT / "docs" / name) if block.title == TITLE]


def run(*command, **how):
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(*command, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=240, **how)
    assert done.returncode == 0, done.stderr


def test_the_commands_of_the_guide_run():
    (block,) = blocks_of("guides/run.md")
    for line in block.text.splitlines():
        run(line, shell=True)


def test_the_program_of_the_questions_runs():
    (block,) = blocks_of("faq.md")
    run([str(BIN / "mpiexec"), "-n", "4", sys.executable, "-c", block.text])
