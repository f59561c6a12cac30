"""Examples in docstrings that need PyTorch do what they say."""

import doctest
import inspect

import treefold.torch
from treefold import runtime

PUBLIC = {name: getattr(treefold.torch, name) for name in treefold.torch.__all__} | {"from_store": runtime.from_store}


def documented(name):
    return doctest.DocTestFinder().find(PUBLIC[name], name, module=False)


def test_examples_in_docstrings_do_what_they_say():
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert sum(runner.run(each).attempted for name in PUBLIC for each in documented(name)) >= 20
    assert runner.summarize().failed == 0


def test_every_public_function_and_class_has_an_example():
    called = {name for name, each in PUBLIC.items() if inspect.isclass(each) or inspect.isroutine(each)}
    assert called - {each.name for name in called for each in documented(name) if each.examples} == set()
