"""README and examples do what they say: every command and every block of Python in them runs."""

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import treefold
from treefold import probe, runtime

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands() -> list[str]:
    lines = (line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines())
    return [line for line in lines if line.startswith("treefold ")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that the README's commands name."""
    folder = tmp_path_factory.mktemp("readme")
    for name, spec in [("backbone.graphml", "b4"), ("pod.json", "torus:4x4")]:
        subprocess.run([BIN / "treefold", "topology", spec, "-o", folder / name], check=True, capture_output=True)
    matrix = (ROOT / "tests" / "data" / "pairs.csv").read_text(encoding="utf-8")
    (folder / "measured_pairs.csv").write_text(matrix, encoding="utf-8")
    return folder


def test_the_readmes_commands_run_in_order(folder):
    assert len(commands()) >= 8
    for command in commands():
        program, *arguments = shlex.split(command)
        result = subprocess.run([BIN / program, *arguments], cwd=folder, capture_output=True, text=True, check=False)
        assert result.returncode == 0, (command, result.stderr)


def test_the_readmes_python_runs(folder):
    for block in blocks("python"):
        subprocess.run([sys.executable, "-c", block], cwd=folder, check=True, capture_output=True)


# Those with PyTorch run in tests_torch.
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if "import torch" not in path.read_text("utf-8")]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_print_what_stands_beside_them(example, tmp_path):
    result = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout == example.with_suffix(".out").read_text(encoding="utf-8")


def test_the_algorithms_and_networks_of_the_readme_are_those_of_the_code():
    from treefold import _core

    for name, _ in _core.algorithms():
        assert f"| `{name}` |" in README
    for example in _core.generators():
        assert f"`{example.split(':')[0]}" in README


@pytest.mark.parametrize(("module", "least"), [(treefold, 5), (runtime, 40), (probe, 5)])
def test_examples_in_docstrings_do_what_they_say(module, least, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The classes of the core have no methods with examples.
    finder, runner = doctest.DocTestFinder(recurse=module is not treefold), doctest.DocTestRunner()
    public = [(name, getattr(module, name)) for name in module.__all__]
    examples = [each for name, value in public for each in finder.find(value, name, module=False)]
    assert sum(runner.run(each).attempted for each in examples) >= least
    assert runner.summarize().failed == 0
