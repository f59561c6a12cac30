"""The wheel of `make wheel`, in an empty environment without Rust and away from the checkout."""

import os
import re
import socket
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
MOST_BYTES = 8 << 20
MOST_CPU_SECONDS = 30
FIRST = "compare b4 --sizes 64MiB:256MiB --simulator flow"
"""The first command of the README."""
MOST_REQUIRED = 201_000_000 // 2
"""Half of what the required packages took with matplotlib and typer 0.29, compiled modules of Python included."""
BIN = "Scripts" if sys.platform == "win32" else "bin"


def only(pattern):
    """Return the one file of dist/ that fits a pattern."""
    (found,) = (CHECKOUT / "dist").glob(pattern)
    return found


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Return the folder of an environment with the wheel, which was installed and used within the time allowed."""
    folder = tmp_path_factory.mktemp("wheel")
    venv.create(folder / "env", with_pip=True)
    start = cpu_seconds()
    pip = [folder / "env" / BIN / "pip", "install", "--quiet", "--disable-pip-version-check", only("*.whl")]
    subprocess.run(pip, check=True, cwd=folder)
    first = used(folder, "treefold", *FIRST.split()).stdout
    assert first.lstrip().startswith("size"), first
    seconds = cpu_seconds() - start
    assert seconds < MOST_CPU_SECONDS, f"{seconds:.0f} CPU s from an empty environment to the first comparison"
    return folder


def cpu_seconds():
    """Return what ended children took of the processors: what else a machine does makes the clock's time uncertain."""
    children = os.times()
    return children.children_user + children.children_system


def used(folder, *command):
    """Run a command of the environment, where nothing else is on the path: no cargo, and not the checkout."""
    path = os.pathsep.join([str(folder / "env" / BIN), "/usr/bin", "/bin"])
    variables = {"PATH": path, "HOME": str(folder)}
    return subprocess.run(
        list(map(str, command)), cwd=folder, env=variables, capture_output=True, text=True, timeout=120
    )


def test_an_index_takes_the_wheel():
    wheel = only("*.whl")
    assert wheel.stat().st_size < MOST_BYTES
    assert re.search(r"-cp310-abi3-(manylinux|macosx|win)", wheel.name), wheel.name


def test_neither_archive_tells_where_it_was_built():
    with zipfile.ZipFile(only("*.whl")) as wheel:
        texts = [wheel.read(name) for name in wheel.namelist()]
    with tarfile.open(only("*.tar.gz")) as source:
        texts += [source.extractfile(each).read() for each in source.getmembers() if each.isfile()]
    places = [str(CHECKOUT).encode(), str(Path.home() / ".cargo").encode()]
    assert not [place for place in places for text in texts if place in text]


def test_the_source_holds_what_a_build_needs_and_no_more():
    with tarfile.open(only("*.tar.gz")) as source:
        names = {name.split("/", 1)[1] for name in source.getnames()}
    assert {"Cargo.lock", "LICENSE", "README.md", "crates/treefold/src/plan.rs"} <= names
    assert not [name for name in names if name.startswith(("reproduction", "tests", "tools"))]


def test_the_version_names_the_commit_and_what_is_missing(home):
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    shown = used(home, "treefold", "--version").stdout
    commit = re.search("commit ([0-9a-f]{9}),", shown)[1]
    assert git.stdout.startswith(commit)
    assert "not installed: plot, pandas, mpi, torch" in shown


def test_the_first_commands_of_the_readme_run(home):
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (treefold .*)$", readme, re.MULTILINE)
    assert len(commands) >= 4
    for command in commands:
        result = used(home, "sh", "-c", command)
        assert result.returncode == 0, f"{command}: {result.stderr}"


def test_the_wheel_brings_the_page_along(home):
    written = used(home, "treefold", "view", "b4", "-a", "multitree", "--size", "1MiB", "-o", "b4.html")
    assert written.returncode == 0, written.stderr
    assert "Content-Security-Policy" in (home / "b4.html").read_text(encoding="utf-8")


def test_the_required_packages_are_half_of_what_they_were(home):
    program = (
        "import os\nfrom importlib.metadata import distributions\n"
        "others = [each for each in distributions() if each.name not in ('pip', 'setuptools', 'treefold')]\n"
        "paths = [each.locate_file(file) for each in others for file in each.files]\n"
        "print(sum(os.path.getsize(path) for path in paths if os.path.exists(path)))"
    )
    assert int(used(home, "python", "-c", program).stdout) < MOST_REQUIRED


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["compare", "ring:4", "--plot", "x.svg"],
            "a picture needs matplotlib; install it: pip install 'treefold[plot]'",
        ),
        (["train", "m:build", "ring:4"], "model m:build needs PyTorch; install it: pip install 'treefold[torch]'"),
        (["reproduce"], "an installed treefold does not contain the figures of papers; clone"),
    ],
)
def test_what_an_extra_would_bring_is_named(home, arguments, error):
    result = used(home, "treefold", *arguments)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1), result.stderr
    assert error in result.stderr


def test_a_core_that_is_missing_is_named(home):
    (core,) = (each for each in (home / "env").rglob("treefold/_core.*") if each.suffix in (".so", ".pyd"))
    hidden = core.rename(core.with_suffix(".hidden"))
    try:
        result = used(home, "treefold", "plan", "ring:4")
        imported = used(home, "python", "-c", "import treefold; treefold.plan")
    finally:
        hidden.rename(core)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1), result.stderr
    assert "compiled core is missing, or older than its Python code; run `make setup`" in result.stderr
    assert "compiled core is missing" in imported.stderr.splitlines()[-1]


def test_a_core_that_was_built_for_another_interface_is_named(home):
    (stub,) = (home / "env").rglob("treefold/_core.pyi")
    text = stub.read_text(encoding="utf-8")
    stub.write_text(text + "\ndef newer() -> None: ...\n", encoding="utf-8")
    try:
        result = used(home, "treefold", "plan", "ring:4")
        imported = used(home, "python", "-c", "import treefold; treefold.plan")
    finally:
        stub.write_text(text, encoding="utf-8")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1), result.stderr
    for error in (result.stderr, imported.stderr.splitlines()[-1]):
        assert "compiled core is missing, or older than its Python code; run `make setup`" in error


NEVER_CLOSED = """
import numpy as np
from treefold import runtime

group = runtime.join(runtime.from_environment())
group.all_reduce(np.ones(1000))
raise SystemExit(3)
"""


def test_processes_that_never_close_their_group_end_as_they_say(home):
    (home / "never_closed.py").write_text(NEVER_CLOSED)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"PATH": "/usr/bin:/bin", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = [home / "env" / BIN / "python", "never_closed.py"]
    running = [subprocess.Popen(command, cwd=home, env={**common, "RANK": str(rank)}) for rank in range(3)]
    assert [process.wait(60) for process in running] == [3, 3, 3]
