"""Examples in docstrings that need PyTorch do what they say."""

import doctest

import treefold.torch
from treefold import runtime


def test_examples_in_docstrings_do_what_they_say():
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    public = [(name, getattr(treefold.torch, name)) for name in treefold.torch.__all__]
    public.append(("from_store", runtime.from_store))
    examples = [each for name, value in public for each in finder.find(value, name, module=False)]
    assert sum(runner.run(each).attempted for each in examples) >= 8
    assert runner.summarize().failed == 0
