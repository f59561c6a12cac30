"""Help: short, with examples that work, whole sentences, and defaults that can be typed."""

import re
import shlex

import pytest
import typer

import treefold
from commands import command as run
from commands import printed
from treefold import _core
from treefold.cli.main import app
from treefold.planning.request import read_options
from treefold.report import bound_table
from treefold.results import Bound, BoundReport

COMMANDS = typer.main.get_command(app).commands
OPTIONS = [
    pytest.param(name, option, id=f"{name}{option.opts[0]}")
    for name, command in COMMANDS.items()
    for option in command.params
    if option.param_type_name == "option"
]
FRAGMENT = re.compile(r"(Of|By|The same|Those|With|Like|As|Same|That|Than|And|Or|But)\b")
DEFAULT = re.compile(r"[Bb]y default ([^\s,;]+?)[.,;]|The default is ([^\s,;]+?)[.,;]?(?:\s|$)|\[default: ([^\]]+)\]")
RING = {"--algorithm": "ring"}
TRIED = {
    "certificates": (["paris"], {"--output": "keys"}),
    "bound": (["ring:4"], {"--collective": "broadcast"}),
    "plan": (["ring:4"], RING),
    "simulate": (["ring:4"], RING),
    "compare": (["ring:4"], RING | {"--sizes": "1KiB"}),
    "train": (["alexnet", "ring:4"], RING | {"--accelerator": "h100", "--overlap": "bucket"}),
    "run": (["ring:2"], RING | {"--local": "2", "--size": "1KiB", "--iters": "1"}),
    "probe": ([], {"--local": "2", "--seconds": "1.2"}),
    "explain": (["ring:4"], {}),
    "view": (["ring:4"], RING | {"--output": "view.html", "--size": "1KiB"}),
    "draw": (["ring:4"], RING | {"--output": "picture.svg"}),
    "reproduce": ([], {}),
    "replan": (["plan.json", "ring:4"], {}),
}
"""Quick uses of the commands that have defaults: arguments and options."""


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    """Gives help the width of a usual terminal."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")


def defaults(option):
    """Returns the defaults that an option's help names: words and numbers, no clauses."""
    text = option.help or ""
    if getattr(option, "show_default", False) and not option.is_flag and option.default is not None:
        text += f" [default: {option.default}]"
    return [next(filter(None, found)) for found in DEFAULT.findall(" ".join(text.split()))]


def test_help_of_simulate_fits_two_screens():
    lines = printed("simulate", "--help").splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 80


def test_no_command_is_cut_off_on_the_first_screen():
    assert "..." not in printed("--help").partition("Commands:")[2]


@pytest.mark.parametrize("width", [80, 90, 100])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_line_breaks_within_a_name_or_a_default(monkeypatch, command, width):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERMINAL_WIDTH", str(width))
    text = printed(command, "--help")
    assert not re.search(r"\w-\n|--\n|\[default:[^\]]*\n", text)
    assert text.isascii()


@pytest.mark.parametrize("command", COMMANDS)
def test_usage_and_metavars_are_those_of_other_programs(command):
    text = printed(command, "--help")
    usage = text.partition("\n\n")[0]
    assert "{" not in usage and "[[" not in usage
    assert " TEXT" not in text and "<" not in text.replace("<-", "")


def test_help_of_topology_names_every_kind_of_spec():
    text = printed("topology", "--help")
    for example in _core.generators():
        assert example.partition(":")[0] in re.findall(r"[\w-]+", text)
    for spec in re.findall(r"[\w-]+:[\w=,]*\d", text.partition("By default")[0]):
        _core.Topology.from_spec(spec, None, None)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_narrow_and_has_examples_of_the_command(command):
    text = printed(command, "--help")
    examples = text.partition("\nExamples:\n")[2].partition("\n\n")[0].splitlines()
    assert examples
    assert any(re.search(rf"treefold {command}\b", example) for example in examples)
    for line in text.splitlines():
        assert len(line) <= 80 or line in examples


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_have_options_and_networks_that_exist(command):
    documented = COMMANDS[command].help.partition("\nExamples:\n")[2]
    for line in filter(None, map(str.strip, documented.splitlines())):
        words = shlex.split(line.partition(" > ")[0])
        name, *rest = words[words.index("treefold") + 1 :]
        flags = {flag for option in COMMANDS[name].params for flag in [*option.opts, *option.secondary_opts]}
        assert {word for word in rest if word.startswith("-")} <= flags
        for word in rest:
            if ":" in word and word.partition(":")[0] in {each.partition(":")[0] for each in _core.generators()}:
                assert _core.is_spec(word)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_what_it_does(command):
    summary = COMMANDS[command].help.splitlines()[0]
    assert summary.endswith((".", ":")) or summary[-1].isalpha()
    assert summary[0].isupper() and not FRAGMENT.match(summary)


@pytest.mark.parametrize(("command", "option"), OPTIONS)
def test_no_help_is_a_fragment(command, option):
    text = option.help
    assert text and text[0].isupper() and text.endswith((".", "]")), text
    for sentence in re.split(r"(?<=[.;]) (?=[A-Z])", text):
        assert not FRAGMENT.match(sentence) or sentence.startswith("By default"), sentence


WITH_DEFAULTS = [each for each in OPTIONS if defaults(each.values[1])]


def test_defaults_are_found():
    named = {(each.values[0], max(each.values[1].opts, key=len)): defaults(each.values[1]) for each in WITH_DEFAULTS}
    assert named["plan", "--seed"] == ["1"]
    assert named["plan", "--size"] == ["64MiB"]
    assert named["simulate", "--collective"] == ["all-reduce"]
    assert named["train", "--bucket"] == ["25MiB"]
    assert len(named) > 40


@pytest.mark.parametrize(("command", "option"), WITH_DEFAULTS)
def test_every_default_that_help_names_can_be_typed(command, option, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for default in defaults(option):
        if default in [*option.opts, *option.secondary_opts]:  # a flag
            assert option.opts[0] == "--pipeline"
            assert read_options(treefold.plan, {"pipeline": True}) == read_options(treefold.plan, {})
            continue
        if option.opts[0][2:].replace("-", "_") in _core.option_schema("planner")["properties"]:
            assert read_options(treefold.plan, {option.name: default}) == read_options(treefold.plan, {})
            continue
        arguments, others = TRIED[command]
        treefold.save(treefold.plan("ring:4", "ring"), "plan.json")
        flag = max(option.opts, key=len)
        # Sizes stand in for the size.
        given = {each: value for each, value in others.items() if {each, flag} != {"--size", "--sizes"}}
        words = [word for pair in (given | {flag: default}).items() for word in pair]
        done = run(command, *arguments, *words)
        assert done.returncode == 0 and "error" not in done.stderr, words


def test_tables_say_what_gaps_and_bounds_mean():
    table = printed("plan", "b4", "-a", "packing", "--trees", "2")
    assert "bound       37.5MB/s: no set of trees carries more" in table
    assert "gap         the bound is at most 50.0% above this rate" in table
    table = printed("plan", "b4", "-a", "mtree")
    assert re.search(r"gap +the best choice of the trees that were grown is at most [\d.]+% above this rate", table)
    assert "valid" not in printed("bound", "ring:4")
    bounds = [Bound(1e9, is_exact, "cut of one rank") for is_exact in (True, False)]
    table = bound_table(BoundReport(reduce_scatter_all_gather=bounds[0], all_reduce=bounds[1], latency_s=1.0))
    assert "valid: no all-reduce is faster" in table


def test_one_rank_is_not_ranks():
    table = printed("run", "--local", "1", "--size", "1KiB", "--iters", "1")
    assert "all-reduce of 1 rank over threads" in table
