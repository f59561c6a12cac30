"""The examples in the docstrings of `treefold.torch` do what they say."""

import doctest

import treefold.torch


def test_examples_in_docstrings_do_what_they_say():
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    public = [(name, getattr(treefold.torch, name)) for name in treefold.torch.__all__]
    examples = [each for name, value in public for each in finder.find(value, name, module=False)]
    assert sum(runner.run(each).attempted for each in examples) >= 4
    assert runner.summarize().failed == 0
