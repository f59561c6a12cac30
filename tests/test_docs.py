"""Examples and docstrings do what they say: each of them runs, and its output is compared."""

import doctest
import inspect
import re
import subprocess
import sys
from dataclasses import is_dataclass
from pathlib import Path

import pytest

import treefold
from treefold import (
    _core,
    explanation_results,
    html,
    importers,
    job_results,
    planning,
    probe,
    records,
    regions,
    report,
    results,
    runtime,
    schedule_tables,
    sizing,
    training,
    winner_results,
)
from treefold.rendezvous.sockets import free_port

ROOT = Path(__file__).parents[1]


# Those with PyTorch run in tests_torch.
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if "import torch" not in path.read_text("utf-8")]


SLOW = {"01_tour.py"}


def _case(example):
    return pytest.param(example, id=example.name, marks=[pytest.mark.slow] if example.name in SLOW else [])


@pytest.mark.parametrize("example", [_case(each) for each in EXAMPLES])
def test_examples_print_what_stands_beside_them(example, tmp_path):
    result = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout == example.with_suffix(".out").read_text(encoding="utf-8")


CORE = (
    *(treefold.Topology, treefold.Plan, treefold.Trace),
    *(_core.Tree, _core.Edge, _core.Node, _core.Link, _core.LinkUse, _core.Schedule),
    *(_core.TreeShape, _core.Pipeline, _core.Utilization, _core.PathSummary),
)
"""The public classes of the core."""
NEED_TORCH = {"treefold.training.from_torch", "treefold.runtime.from_store"}
"""Their examples run in tests_torch."""


def members(each: type) -> dict[str, object]:
    """Return what is public of a class of the core."""
    return {name: value for name, value in vars(each).items() if not name.startswith("_")}


def public() -> dict[str, object]:
    """Return all public functions and classes by name."""
    found = {f"{module.__name__}.{name}": getattr(module, name) for module in LISTING for name in module.__all__}
    for module in WITHOUT_LISTING:
        names = [name for name, each in members(module).items() if getattr(each, "__module__", "") == module.__name__]
        found |= {f"{module.__name__}.{name}": getattr(module, name) for name in names}
    found |= {f"treefold.{each.__name__}": each for each in (*CORE, records.Record, records.Table)}
    called = {name: each for name, each in found.items() if inspect.isclass(each) or inspect.isroutine(each)}
    return {
        name: each
        for name, each in called.items()
        if each.__module__.startswith("treefold") and each is not training.Accelerator
    }


def documented(name: str) -> list[doctest.DocTest]:
    """Return the docstrings of a public function, or of a class and of its methods."""
    return doctest.DocTestFinder().find(PUBLIC[name], name, module=False, globs={"treefold": treefold})


def methods(each: object) -> set[str]:
    """Return the names of the methods that a class itself has in public, without those that only treefold calls."""
    own = {name for name, value in members(each).items() if not inspect.isdatadescriptor(value)}
    called = {name for name in own if inspect.isroutine(getattr(each, name))}
    return called - INTERNAL.get(each.__name__, set()) if inspect.isclass(each) else set()


INTERNAL = {"Group": {"check_open", "keep", "messages", "settle", "succeed"}}
"""Methods of public classes that are public only for other modules of the package."""
LISTING = (treefold, importers, planning, report, results, runtime, training, probe)
WITHOUT_LISTING = (explanation_results, html, job_results, regions, schedule_tables, sizing, winner_results)
PUBLIC = public()


@pytest.mark.parametrize("name", sorted(PUBLIC.keys() - NEED_TORCH))
def test_examples_in_docstrings_do_what_they_say(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port("127.0.0.1"))}
    for variable, value in alone.items():
        monkeypatch.setenv(variable, value)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for each in documented(name):
        runner.run(each)
    assert runner.summarize().failed == 0


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_function_and_class_has_an_example_that_runs(name):
    with_examples = {each.name for each in documented(name) if each.examples}
    assert {name, *(f"{name}.{method}" for method in methods(PUBLIC[name]))} - with_examples == set()
    assert [each.name for each in documented(name) if "+SKIP" in each.docstring] == []


RECORDS = {
    each
    for module in {*LISTING, *WITHOUT_LISTING, training.results} - {planning}
    for each in vars(module).values()
    if inspect.isclass(each) and "__annotations__" in vars(each) and each.__module__.startswith("treefold")
    if is_dataclass(each) or issubclass(each, tuple)
}
"""All public dataclasses and named tuples."""


@pytest.mark.parametrize("each", sorted(RECORDS, key=lambda each: each.__name__), ids=lambda each: each.__name__)
def test_help_of_python_explains_every_field_of_a_result(each):
    attributes = re.split("Raises:|Example:", each.__doc__.partition("Attributes:\n")[2])[0]
    fields = [name for name in vars(each)["__annotations__"] if not name.startswith("_")]
    assert re.findall(r"^ {8}(\w+): [A-Z]", attributes, re.MULTILINE) == fields


@pytest.mark.parametrize("each", CORE, ids=lambda each: each.__name__)
def test_every_property_of_the_core_says_what_it_is(each):
    properties = {name: value for name, value in members(each).items() if inspect.isdatadescriptor(value)}
    assert [name for name, value in properties.items() if not (value.__doc__ or "").endswith(".")] == []


@pytest.mark.parametrize(("module", "least"), [("treefold", 60), ("treefold.runtime", 40), ("treefold.probe", 5)])
def test_there_are_many_examples(module, least):
    names = [name for name in PUBLIC if name.rpartition(".")[0] == module]
    assert sum(len(each.examples) for name in names for each in documented(name)) >= least
