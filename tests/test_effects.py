"""No option is silently without effect: each changes what a command prints or writes, or is refused where it cannot."""

import json
import re
from functools import cache
from pathlib import Path

import pytest
import typer

import treefold
from commands import command, printed, refused
from treefold import auto, declared
from treefold.cli.main import app

COMMANDS = typer.main.get_command(app).commands
PLANNER = declared.options("planner")
NETWORKS = (
    "torus:4x4",
    "bigraph:4x4",
    "dgx2:planes=6",
    "random:n=8,links=12,seed=1",
    "b4:skew=0.5,seed=1",
    "mesh:3x4",
    "cluster:nodes=2,gpus=4,rails=4",
)
"""One of these fits each algorithm, and shows the effect of each of its options."""
VALUES = {
    "trees": 2,
    "height": 3,
    "heights": "latency",
    "least_rate": "4MB/s",
    "steps": 9,
    "rho": 0.5,
    "tree_rate": "all",
    "starts": "one",
    "seed": 3,
    "pipeline": False,
    "tree_order": "remaining-height",
    "neighbor_order": "reversed",
    "route_by": "address",
    "inside": "ring",
    "between": "ring",
}
OF_HEIGHT = {"heights": ("hops", "latency"), "starts": ("any", "one")}
"""Options that count where the height is limited: its unit, and what to do where it is hard to keep."""
NETWORK = {
    "--bandwidth": ["1GB/s"],
    "--latency": ["1ms"],
    "--node-cap": ["2GB/s"],
    "--ranks": ["0-2"],
    "--rank-order": ["0,2,1,3"],
    "--relays": ["none", "--ranks", "0-2"],
}
SIMULATOR = {
    "--simulator": ["packet"],
    "--link-model": ["hockney"],
    "--machine": ["machine.toml"],
    "--set": ["virtual_channels=2"],
}
SHORT = {option: [*value, "--size", "1MiB"] for option, value in SIMULATOR.items()}
PLOTTED = ["picture.svg"]
BASES = {
    "topology": ["line:4"],
    "plan": ["full:4", "-a", "ring"],
    "check": ["plan.json"],
    "replan": ["plan.json", "full:4"],
    "bound": ["line:4"],
    "explain": ["line:4"],
    "simulate": ["line:4", "-a", "dbtree"],
    "compare": ["line:4", "-a", "dbtree,multitree", "--sizes", "1KiB"],
    "view": ["line:4", "-a", "dbtree", "-o", "view.html"],
    "draw": ["line:4", "-o", "picture.svg"],
    "train": ["alexnet", "line:4", "-a", "dbtree", "--accelerator", "h100"],
    "machine": [],
    "algorithms": [],
    "run": ["full:4", "--local", "4", "-a", "ring", "--size", "1KiB", "--iters", "1"],
    "probe": ["--local", "2", "--seconds", "0.4"],
    "certificates": ["paris", "-o", "keys"],
    "reproduce": ["mtree/fig13", "--networks", "b4", "--trials", "1", "-o", "figure"],
}
"""A use of each command, to which its options are added."""
EFFECTS = {
    "topology": {"--output": ["other.json"], "--json": [], **NETWORK},
    "plan": {
        "--blocks": ["blocks.csv", "--collective", "all-to-all"],
        "--collective": ["all-gather"],
        "--root": ["1", "--collective", "broadcast"],
        "--size": ["1KiB", "-o", "other.json"],
        "--output": ["other.json"],
        "--tables": [],
        "--json": [],
        **{option: [*value, "-o", "other.json"] for option, value in NETWORK.items()},
    },
    "check": {"--json": []},
    "replan": {
        "--algorithm": ["multitree"],
        "--size": ["1KiB"],
        "--simulator": ["packet"],
        "--output": ["other.json"],
        "--json": [],
        **NETWORK,
    },
    "bound": {
        "--blocks": ["blocks.csv", "--collective", "all-to-all"],
        "--json": [],
        "--size": ["1KiB"],
        "--collective": ["all-gather"],
        "--root": ["1", "--collective", "broadcast"],
        **{option: value for option, value in NETWORK.items() if option not in ("--rank-order", "--relays")},
    },
    "explain": {
        "--upgrade": ["GPU0 - GPU1=1GB/s"],
        "--without": ["GPU3"],
        "--all": ["--without", "GPU3"],
        "--output": ["page.html"],
        "--algorithm": ["ring"],
        "--size": ["1KiB"],
        "--collective": ["all-gather"],
        "--root": ["1", "--collective", "broadcast"],
        "--json": [],
        **{option: value for option, value in NETWORK.items() if option != "--rank-order"},
    },
    "simulate": {
        "--blocks": ["blocks.csv", "--collective", "all-to-all"],
        "--collective": ["all-gather"],
        "--root": ["3", "--collective", "broadcast", "--simulator", "flow"],
        "--size": ["1KiB"],
        "--trace": ["trace.json"],
        "--json": [],
        "--background": ["0.3", "--simulator", "flow"],
        "--background-bytes": ["1KiB", "--background", "0.3", "--simulator", "flow"],
        **NETWORK,
        **SHORT,
    },
    "compare": {
        "--blocks": ["blocks.csv", "--collective", "all-to-all"],
        "--collective": ["all-gather"],
        "--root": ["1", "--collective", "broadcast"],
        "--plot": PLOTTED,
        "--map": PLOTTED,
        "--csv": ["rows.csv"],
        "--json": [],
        **NETWORK,
        **SIMULATOR,
    },
    "view": {
        "--blocks": ["blocks.csv", "--collective", "all-to-all"],
        "--collective": ["all-gather"],
        "--root": ["1", "--collective", "broadcast"],
        "--size": ["1KiB"],
        **NETWORK,
        **SHORT,
    },
    "draw": {
        "--algorithm": ["dbtree"],
        "--blocks": ["blocks.csv", "--collective", "all-to-all"],
        "--collective": ["all-gather"],
        "--root": ["1", "--collective", "broadcast"],
        "--tree": ["0", "-a", "multitree"],
        "--step": ["1", "-a", "multitree"],
        "--loads": [],
        "--limit": [],
        **{option: value for option, value in NETWORK.items() if option not in ("--latency", "--rank-order")},
    },
    "train": {
        "--plot": PLOTTED,
        "--trace": ["trace.json"],
        "--json": [],
        "--batch": ["4"],
        "--overlap": ["layer"],
        "--bucket": ["1MiB", "--overlap", "bucket"],
        "--optimizer": ["sgd"],
        "--gradient-bytes": ["4"],
        "--compute-overhead": ["0.5", "--overlap", "layer"],
        "--numbers": ["fp32"],
        "--sharding": ["zero-1"],
        "--accumulate": ["2"],
        **{option: value for option, value in NETWORK.items() if option != "--relays"},
        **SIMULATOR,
    },
    "machine": {"--machine": ["machine.toml"], "--set": ["virtual_channels=2"], "--json": []},
    "algorithms": {"--json": []},
}
REPLACED = {
    ("topology", "--all"): (["torus:16x16"], ["--all"]),
    ("plan", "--algorithm"): (["full:4"], ["-a", "ring"]),
    ("plan", "--simulator"): (["b4"], ["--simulator", "flow"]),
    ("plan", "--region"): (["dgx2:planes=6", "-a", "innet-push"], ["--region", "0x0:1MiB"]),
    ("simulate", "--algorithm"): (["full:4"], ["-a", "ring"]),
    ("explain", "--rank-order"): (["ring:4", "-a", "ring"], ["--rank-order", "0,2,1,3"]),
    ("view", "--algorithm"): (["full:4", "-o", "view.html"], ["-a", "ring"]),
    ("view", "--trace"): (["plan.json", "--size", "1KiB", "-o", "view.html"], ["--trace", "run.json"]),
    ("draw", "--phase"): (["torus:3x3", "-a", "ring2d", "-o", "picture.svg"], ["--phase", "1"]),
    ("draw", "--latency"): (["torus:4x4", "-a", "auto", "-o", "picture.svg"], ["--latency", "1ms"]),
    ("draw", "--rank-order"): (["ring:4", "-a", "dbtree", "-o", "picture.svg"], ["--rank-order", "0,2,1,3"]),
    ("compare", "--algorithm"): (["full:4", "--sizes", "1KiB"], ["-a", "ring"]),
    ("compare", "--sizes"): (["full:4", "-a", "ring"], ["--sizes", "1KiB"]),
    ("compare", "--all"): (["torus:4x4", "--sizes", "1KiB:1MiB"], ["--all"]),
    ("train", "--algorithm"): (["alexnet", "full:4", "--accelerator", "h100"], ["-a", "ring"]),
    ("bound", "--relays"): (["full:4", "--ranks", "0-2"], ["--relays", "none"]),
    ("train", "--relays"): (
        ["alexnet", "ring:4", "-a", "dbtree", "--accelerator", "h100", "--ranks", "0-2"],
        ["--relays", "none"],
    ),
    ("train", "--accelerator"): (["alexnet", "full:4", "-a", "ring"], ["--accelerator", "h100"]),
}
"""Options that need another use of their command: its arguments without them, and with them."""
REFUSED = {
    ("run", "--root"): ["--root", "1"],
    ("run", "--blocks"): ["--blocks", "blocks.csv"],
    ("run", "--timeout"): ["--timeout", "9"],
    ("run", "--interface"): ["--interface", "lo"],
    ("run", "--port"): ["--port", "5000"],
    ("run", "--adapt"): ["--adapt"],
    ("run", "--learn"): ["--learn", "learnt.json"],
    ("run", "--streams"): ["--streams", "2"],
    ("run", "--sizes"): ["--sizes", "1KiB"],
    ("run", "--discover"): ["--discover"],
    ("run", "--probe-seconds"): ["--probe-seconds", "3"],
    ("run", "--probe-bytes"): ["--probe-bytes", "64MiB"],
    ("bound", "--rank-order"): ["--rank-order", "0,2,1,3"],
    ("plan", "--simulator"): ["--simulator", "flow"],
    ("plan", "--root"): ["--root", "1"],
    ("simulate", "--root"): ["--root", "1"],
    ("simulate", "--background-bytes"): ["--background-bytes", "1KiB"],
    ("compare", "--root"): ["--root", "1"],
    ("view", "--serve"): ["--serve"],
    ("view", "--port"): ["--port", "8000"],
    ("train", "--bucket"): ["--bucket", "1MiB"],
    ("train", "--input"): ["--input", "x=3x8x8"],
    ("probe", "--interface"): ["--interface", "lo"],
    ("probe", "--port"): ["--port", "5000"],
    ("reproduce", "--skews"): ["--skews", "0.5"],
    ("reproduce", "--sizes"): ["--sizes", "1KiB"],
}
"""Options that are refused in the use of their command above, where they could have no effect."""
WALL = re.compile(r'"wall_s": [^,}]+')


def _plan(network, algorithm, **options):
    try:
        document = json.loads(treefold.plan(network, algorithm, size_bytes=1 << 30, **options).to_json())
    except treefold.TreefoldError as error:
        return "refused" if "has no option" in str(error) else None
    return {key: value for key, value in document.items() if key != "options"}


@cache
def _default(network, algorithm):
    return json.dumps(_plan(network, algorithm))


@pytest.mark.parametrize("name", sorted(PLANNER))
@pytest.mark.parametrize("algorithm", [each for each in auto.names() if each != "auto"])
def test_a_planner_reads_an_option_or_refuses_it(algorithm, name):
    owners = PLANNER[name].planners
    given = {name: VALUES[name]}
    if owners is None or algorithm not in owners:
        assert {_plan(network, algorithm, **given) for network in NETWORKS} == {"refused"}
    elif name in OF_HEIGHT:
        network = _slow_links() if name == "heights" else "b4:skew=0.5,seed=1"
        with_height = [_plan(network, algorithm, height=3, **{name: value}) for value in OF_HEIGHT[name]]
        assert with_height[0] != with_height[1]
    else:
        found = ((network, _plan(network, algorithm, **given)) for network in NETWORKS)
        assert any(plan is not None and json.dumps(plan) != _default(network, algorithm) for network, plan in found)


@cache
def _slow_links():
    document = json.loads(treefold.topology("random:n=8,links=12,seed=1").to_json())
    for number, link in enumerate(document["links"]):
        link["latency_s"] = 1e-3 * (1 + 4 * (number % 3))
    return treefold.topology(document)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Returns a folder with the files that uses of commands name."""
    folder = tmp_path_factory.mktemp("effects")
    plan = treefold.plan("full:4", "ring")
    treefold.save(plan, folder / "plan.json")
    treefold.save(treefold.trace(plan, size_bytes="1KiB"), folder / "run.json")
    (folder / "blocks.csv").write_text("0,2,0,0\n" * 4, encoding="utf-8")
    (folder / "machine.toml").write_text("virtual_channels = 8\nbuffer_flits = 40\n", encoding="utf-8")
    return folder


def _outcome(name, arguments):
    """Returns what a use of a command prints and writes, without times of the clock."""
    before = set(Path().iterdir())
    done = command(name, *arguments)
    assert done.returncode in (0, 1), (name, arguments, done.stderr)
    new = {path.name: path.read_bytes() for path in set(Path().iterdir()) - before if path.is_file()}
    for path in new:
        Path(path).unlink()
    return WALL.sub("", done.stdout), new


@cache
def _base(name, arguments):
    """Returns the outcome of a use to which many others are compared."""
    return _outcome(name, arguments)


CASES = [(name, option) for name, options in EFFECTS.items() for option in options]


@pytest.mark.parametrize(("name", "option"), CASES, ids=map("".join, CASES))
def test_an_option_changes_what_a_command_says(name, option, files, monkeypatch):
    monkeypatch.chdir(files)
    value, rest = EFFECTS[name][option], []
    if "--" in "".join(value):
        at = next(at for at, part in enumerate(value) if part.startswith("-"))
        value, rest = value[:at], value[at:]
    base = *BASES[name], *rest
    assert _outcome(name, [*base, option, *value]) != _base(name, base)


@pytest.mark.parametrize(("name", "option"), REPLACED, ids=map("".join, REPLACED))
def test_an_option_changes_another_use(name, option, files, monkeypatch):
    monkeypatch.chdir(files)
    without, added = REPLACED[name, option]
    assert _outcome(name, [*without, *added]) != _outcome(name, without)


@pytest.mark.parametrize(("name", "option"), REFUSED, ids=map("".join, REFUSED))
def test_an_option_that_could_have_no_effect_is_refused(name, option, files, monkeypatch):
    monkeypatch.chdir(files)
    assert refused(name, *BASES[name], *REFUSED[name, option])


@pytest.mark.parametrize("name", sorted(PLANNER))
@pytest.mark.parametrize("command_name", ["plan", "run"])
def test_commands_pass_planner_options_on(command_name, name):
    """Ring has none of them, and says so."""
    flag = f"--{name.replace('_', '-')}"
    given = ["--no-pipeline"] if name == "pipeline" else [flag, str(VALUES[name])]
    assert f"ring has no option {name}" in refused(command_name, *BASES[command_name], *given)


MEASURED = {
    "run": {"--algorithm", "--collective", "--size", "--op", "--type", "--iters", "--warmup", "--transport", "--json"}
    | {"--trace", "--wire"},
    "probe": {"--output", "--json", "--links", "--seconds", "--bytes", "--parallel", "--local", "--timeout"},
    "reproduce": {"--output", "--trials", "--networks", "--jobs", "--json"},
    "train": {"--model-parallel"},
    "view": {"--output"},
    "draw": {"--output"},
    "certificates": {"--output", "--days", "--json"},
}
"""Options with tests of their own: of what is measured (test_perf, test_probe, test_experiments, test_training_*),
and of what has to be given or is random (test_drawings, test_viewing, test_tls)."""


def test_every_option_of_every_command_has_a_case():
    planner = {f"--{name.replace('_', '-')}" for name in PLANNER}
    for name, each in COMMANDS.items():
        options = {option.opts[0] for option in each.params if option.param_type_name == "option"} - planner
        tested = {option for table in (REPLACED, REFUSED) for command_name, option in table if command_name == name}
        tested |= set(EFFECTS.get(name, ())) | MEASURED.get(name, set())
        shared = set(NETWORK) | {"--local"} if name == "run" else set()
        assert options - tested - shared == set(), name


def test_values_that_no_link_lacks_are_told(tmp_path):
    path = tmp_path / "net.json"
    printed("topology", "line:3", "-o", path)
    done = command("topology", path, "--latency", "1ms", "--bandwidth", "1GB/s")
    assert "--latency has no effect: all links have a latency" in done.stderr
    assert "--bandwidth has no effect: all links have a bandwidth" in done.stderr
