"""What commands write: files that are refused before the work begins, standard output, full disks."""

import json
import os
import subprocess
import sys

import pytest

from commands import TREEFOLD, start
from treefold import networks
from treefold.cli.main import main

pytestmark = pytest.mark.filterwarnings("ignore::treefold.importers.TopologyWarning")


@pytest.mark.parametrize("kind", ["-o", "--plot", "--map", "--csv", "--trace"])
@pytest.mark.parametrize("where", ["missing/out", "folder", "file/out"])
def test_what_cannot_be_written_is_known_before_the_work(tmp_path, monkeypatch, capsys, kind, where):
    def work(*_, **__):
        raise AssertionError("the work began")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    suffix = {"--plot": ".svg", "--map": ".svg", "--csv": ".csv"}.get(kind, ".json")
    (tmp_path / f"folder{suffix}").mkdir()
    monkeypatch.setattr(networks, "topology", work)
    for command in {"-o": ["topology", "plan"], "--trace": ["simulate"]}.get(kind, ["compare"]):
        extra = ["--simulator", "flow"] if command == "simulate" else []
        monkeypatch.setattr(sys, "argv", ["treefold", command, "ring:4", kind, where + suffix, *extra])
        with pytest.raises(SystemExit) as ended:
            main()
        error = capsys.readouterr().err
        assert ended.value.code == 2 and error.startswith(f"error: {where}{suffix}: ") and error.count("\n") == 1


def test_plans_are_written_where_plans_are_read(tmp_path):
    for name in ("x.xml", "plan", "p.txt"):
        result = start("plan", "ring:4", "-a", "ring", "-o", str(tmp_path / name))
        assert result.returncode == 2 and f"write {(tmp_path / name).with_suffix('.json')}" in result.stderr
    assert not list(tmp_path.iterdir())
    assert start("plan", "ring:4", "-a", "ring", "-o", str(tmp_path / "P.JSON")).returncode == 0
    assert start("simulate", str(tmp_path / "P.JSON")).returncode == 0


def test_standard_output_is_written_wherever_it_leads(tmp_path):
    piped = start("topology", "ring:4", "-o", "/dev/stdout").stdout
    assert json.loads(piped)["format"] == "treefold-topology", "and nothing else"
    plan = start("plan", "/dev/stdin", "-o", "/dev/fd/1", stdin=piped).stdout
    assert start("check", "/dev/stdin", stdin=plan).returncode == 0
    assert (
        "/dev/stdout and --json would both write to standard output"
        in start("plan", "ring:4", "--json", "-o", "/dev/stdout").stderr
    )
    for before in ("", "first\n"):
        path = tmp_path / "out.txt"
        path.write_text(before)
        with path.open("a") as file:
            command = [TREEFOLD, "topology", "ring:4", "-o", "/dev/stdout"]
            assert subprocess.run(command, stdout=file, timeout=60, check=False).returncode == 0
        assert path.read_text() == before + piped
    with subprocess.Popen([TREEFOLD, "plan", "ring:64", "-o", "/dev/stdout"], stdout=-1, stderr=-1) as process:
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b"", "a reader that goes is no error"
        assert process.wait(30) == 141


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [("bound", "ring:4"), ("plan", "ring:4", "--json"), ("plan", "--help")])
def test_a_full_disk_is_said_in_one_line(arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run([TREEFOLD, *arguments], stdout=full, stderr=-1, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: standard output cannot be written") and done.stderr.count("\n") == 1
