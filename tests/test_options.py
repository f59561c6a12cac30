"""Options that the core declares: the files written from them are current, and all who take options take these."""

import json
import math
import re
from dataclasses import asdict, fields, replace

import pytest
import typer

import treefold
from asking import request
from commands import printed, refused
from tools import options as written
from treefold import _core
from treefold.cli.main import app
from treefold.files.reading import read_toml
from treefold.options import Machine, PlannerArguments, PlannerOptions
from treefold.training import TrainingOptions

PLANNER, MACHINE = (_core.option_schema(what)["properties"] for what in ("planner", "machine"))
COMMANDS = typer.main.get_command(app).commands
OTHER = {"clock": "1.333GHz", "sync_cost": "81.5ns", "wave": "4099B", "payload": 64, "seed": 2**63}
"""Values of the machine that are not the defaults, some of them without a short text."""


def other_values():
    """For each option of the machine a value that is not its default."""
    for name, option in MACHINE.items():
        choices = [each["const"] for part in [option, *option.get("anyOf", [])] for each in part.get("oneOf", [])]
        if name in OTHER:
            yield name, OTHER[name]
        elif choices:
            yield name, next(each for each in choices if each != option["default"])
        elif "boolean" in option["type"]:
            yield name, not option["default"]
        else:
            yield name, min(max(option.get("minimum", 0), 7), option.get("maximum", 7))


def test_the_files_that_are_written_from_the_declarations_are_current():
    files = written.files()
    assert len(files) == 6
    for path, text in files.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is old; run make options"


def test_the_dataclasses_have_the_declared_names_and_defaults():
    for kind, declared in ((PlannerOptions, PLANNER), (Machine, MACHINE)):
        assert [each.name for each in fields(kind)] == list(declared)
        what = "planner" if kind is PlannerOptions else "machine"
        assert _core.read_options(what, asdict(kind())) == _core.read_options(what, {})
        assert all(option["description"] for option in declared.values())
    assert list(PlannerArguments.__annotations__) == list(PLANNER)


def test_values_are_read_when_options_are_made_and_texts_become_numbers():
    assert PlannerOptions(least_rate="8Mbit/s", trees="2") == PlannerOptions(least_rate=1e6, trees=2)
    assert Machine(wave="4KiB", clock="1.5GHz", payload=64) == Machine(wave=4096, clock=1.5e9, payload="64B")
    assert (Machine(wave="4KiB").wave, Machine().sync_cost) == (4096, 8e-8)
    assert replace(PlannerOptions(trees=2), least_rate="8kbit/s") == PlannerOptions(trees=2, least_rate=1000)
    for make, message in [
        (lambda: PlannerOptions(trees=-1), "trees must be a whole number from 1 on, got -1"),
        (lambda: PlannerOptions(rho=math.nan), "rho must be a number, got 'NaN'"),
        (lambda: PlannerOptions(least_rate="10"), "least rate: bandwidth '10': write a number and a unit"),
        (lambda: Machine(clock=0), "clock: frequency must be positive and finite, got 0"),
        (lambda: replace(Machine(), lanes=0), "lanes must be a whole number from 1 on, got 0"),
    ]:
        with pytest.raises(treefold.TreefoldError, match=f"^{re.escape(message)}"):
            make()


@pytest.mark.parametrize(
    ("name", "value"), [("trees", -1), ("least_rate", "10"), ("seed", None), ("rho", []), ("rho", 2)]
)
def test_options_that_nobody_has_read_are_an_error_and_no_panic(name, value):
    asked = request(treefold.topology("ring:4"), "ring")
    object.__setattr__(asked.options, name, value)
    with pytest.raises(treefold.TreefoldError):
        _core.plan(asked)


def test_options_cross_to_the_core_as_their_dataclass_and_as_nothing_else():
    network = treefold.topology("ring:4")
    for other in ({}, "{}", None, Machine()):
        with pytest.raises(TypeError, match="PlannerOptions, got "):
            _core.plan(replace(request(network, "ring"), options=other))
    with pytest.raises(TypeError, match="Machine, got PlannerOptions"):
        _core.check_machine(network, PlannerOptions())
    assert _core.check_machine(network, None) is None


@pytest.mark.parametrize("command", ["plan", "simulate", "compare", "train", "run"])
def test_every_planner_option_is_a_flag(command):
    flags = {flag for option in COMMANDS[command].params for flag in option.opts}
    assert flags >= {f"--{name.replace('_', '-')}" for name in PLANNER}


@pytest.mark.parametrize("command", ["simulate", "compare", "train", "machine"])
def test_the_machine_is_a_file_and_settings(command):
    flags = {flag for option in COMMANDS[command].params for flag in option.opts}
    assert flags >= {"--machine", "--set"}


def test_what_machine_prints_is_read_back(tmp_path):
    text = printed("machine")
    file = tmp_path / "machine.toml"
    file.write_text(text)
    values = json.loads(printed("machine", "--json"))
    assert list(values) == list(MACHINE)
    assert json.loads(printed("machine", "--machine", file, "--json")) == values
    assert printed("machine", "--machine", file) == text
    given = {name for name, value in values.items() if value is not None}
    assert set(read_toml(file)) == given
    for name in values.keys() - given:
        assert f"\n# {name} =\n" in text


@pytest.mark.parametrize(("name", "value"), [*other_values()], ids=str)
def test_every_other_value_is_printed_and_read_back(tmp_path, name, value):
    file = tmp_path / "machine.toml"
    setting = f"{name}={str(value).lower() if isinstance(value, bool) else value}"
    file.write_text(printed("machine", "--set", setting))
    values = json.loads(printed("machine", "--machine", file, "--json"))
    assert values == _core.read_options("machine", {name: value})
    assert values != _core.read_options("machine", {})


def test_settings_go_before_the_file_however_they_are_written(tmp_path):
    file = tmp_path / "machine.toml"
    file.write_text('payload = "128B"\nVirtual-Channels = 2\nclock = 2e9\n')
    settings = ("--set", "Payload=512B", "--set", "routercycles=5")
    values = json.loads(printed("machine", "--machine", file, *settings, "--json"))
    changed = {"payload": 512, "virtual_channels": 2, "clock": 2e9, "router_cycles": 5}
    assert values == _core.read_options("machine", {}) | changed
    simulated = ("simulate", "ring:4", "-a", "ring", "--size", "4KiB", "--json", "--machine", file)
    row = json.loads(printed(*simulated, *settings))
    machine = Machine(payload="512B", virtual_channels=2, clock=2e9, router_cycles=5)
    expected = treefold.simulate(treefold.plan("ring:4", "ring"), size_bytes=4096, simulator=machine)
    assert row | {"wall_s": 0} == expected.as_dict() | {"wall_s": 0}
    assert row["clock_hz"] == 2e9


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("lans = 3\n", "machine option 'lans' is unknown; did you mean lanes? known are interfaces, ports"),
        ("[machine]\nlanes = 3\n", "[machine] is a heading, and a machine has none; drop that line only"),
        ('lanes = "many"\n', "lanes must be a whole number from 1 on, got 'many'"),
        ("lanes = 0\n", "lanes must be a whole number from 1 on, got 0"),
        ("lanes = [3]\n", "lanes must be a number, a text, True or False, got a value of type list"),
        ("lanes = 1979-05-27\n", "lanes must be a number, a text, True or False, got a value of type date"),
        ("virtual_channels = 17\n", "virtual channels must be 1 to 16, got 17"),
        ('wave = "4 parsecs"\n', "wave: size '4 parsecs': write a number and a unit, such as 64MiB"),
        ("clock = nan\n", "clock: frequency 'NaN': write a number and a unit"),
        ('switches = "router"\n', "switches 'router' is unknown; did you mean routers?"),
        ("lanes =\n", "not valid TOML: Invalid value (at line 1, column"),
        ("lanes = 3\nlanes = 4\n", "not valid TOML: Cannot overwrite a value"),
        (b"\xff", "byte 0 is not UTF-8 text"),
    ],
)
def test_a_wrong_file_of_a_machine_is_one_line_with_its_name(tmp_path, content, expected):
    file = tmp_path / "machine.toml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    for command in (["machine"], ["simulate", "ring:4"], ["compare", "ring:4"], ["train", "alexnet", "ring:4"]):
        # What stands in the file is not blamed on a setting that is right.
        message = refused(*command, "--machine", file, "--set", "seed=2")
        assert message.startswith(f"error: {file}: {expected}")


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("lanes", "--set 'lanes' has no value; write KEY=VALUE, for example --set wave=8KiB"),
        ("lanes=", "--set lanes=: lanes must be a whole number from 1 on, got ''"),
        ("=3", "--set =3: the name of the machine option is empty"),
        ("lans=3", "--set lans=3: machine option 'lans' is unknown; did you mean lanes?"),
        ("lanes=0", "--set lanes=0: lanes must be a whole number from 1 on, got '0'"),
        ("barrier=yes", "--set barrier=yes: barrier must be true or false, got 'yes'"),
        ("sync_cost=5", "--set sync_cost=5: sync cost: time '5': write a number and a unit"),
    ],
)
def test_a_wrong_setting_is_one_line_with_its_name(tmp_path, setting, expected):
    file = tmp_path / "machine.toml"
    file.write_text("lanes = 16\n")
    for more in ([], ["--machine", file]):
        assert refused("simulate", "ring:4", *more, "--set", setting).startswith(f"error: {expected}")


def test_what_goes_without_a_machine_or_twice_is_refused(tmp_path):
    assert "the flow simulator has no machine" in refused(
        "simulate", "ring:4", "--simulator", "flow", "--set", "wave=4KiB"
    )
    assert "--set wave is given twice; give it once" in refused(
        "simulate", "ring:4", "--set", "wave=4KiB", "--set", "Wave=8KiB"
    )
    missing = tmp_path / "missing.toml"
    assert f"{missing}: no such file" in refused("simulate", "ring:4", "--machine", missing)


def test_a_named_algorithm_refuses_what_it_does_not_have_and_a_comparison_gives_each_its_own():
    assert "ring has no option trees" in refused("plan", "full:4", "-a", "ring", "--trees", "2")
    assert "none of ring has the option trees" in refused("compare", "full:4", "-a", "ring", "--trees", "2")
    rows = treefold.compare("full:4", "ring,packing", sizes_bytes=[1 << 20], trees=1)
    free = treefold.compare("full:4", "ring,packing", sizes_bytes=[1 << 20])
    assert rows[0].time_s == free[0].time_s
    assert rows[1].time_s > free[1].time_s


@pytest.mark.parametrize("kind", [Machine, PlannerOptions, TrainingOptions])
def test_help_of_python_explains_every_field(kind):
    attributes = kind.__doc__.partition("Attributes:\n")[2].partition("\n\n")[0]
    assert re.findall(r"^ {8}(\w+): [A-Z]", attributes, re.MULTILINE) == [each.name for each in fields(kind)]
    assert re.findall(r"\w-\n", attributes) == []
