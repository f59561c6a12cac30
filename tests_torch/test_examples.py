"""Examples in docstrings that need PyTorch, and the example with torchft, do what they say."""

import doctest
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import treefold.torch
import treefold.torchft
from treefold import runtime

PUBLIC = {name: getattr(treefold.torch, name) for name in treefold.torch.__all__} | {"from_store": runtime.from_store}
PUBLIC |= {name: getattr(treefold.torchft, name) for name in treefold.torchft.__all__}
ACROSS_SITES = Path(__file__).parents[1] / "examples" / "04_across_sites.py"


def documented(name):
    return doctest.DocTestFinder().find(PUBLIC[name], name, module=False)


def test_examples_in_docstrings_do_what_they_say():
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert sum(runner.run(each).attempted for name in PUBLIC for each in documented(name)) >= 20
    assert runner.summarize().failed == 0


def test_every_public_function_and_class_has_an_example():
    called = {name for name, each in PUBLIC.items() if inspect.isclass(each) or inspect.isroutine(each)}
    assert called - {each.name for name in called for each in documented(name) if each.examples} == set()


@pytest.mark.parametrize("option", [[], pytest.param(["--box"], marks=pytest.mark.slow)])
def test_sites_train_through_a_kill_and_a_join(option):
    if option and os.geteuid() != 0:
        pytest.skip("a box needs root")
    done = subprocess.run([sys.executable, ACROSS_SITES, *option], capture_output=True, text=True, timeout=600)
    assert done.stdout == ACROSS_SITES.with_suffix(".out").read_text(encoding="utf-8"), done.stderr
