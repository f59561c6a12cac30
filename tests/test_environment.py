"""Environment variables: one table of those that are read, and a word about those that only look like them."""

import re
from pathlib import Path

import pytest

from commands import command
from tools.manual import reference
from treefold import environment, rendezvous
from treefold.rendezvous.sockets import free_port

ROOT = Path(__file__).parents[1]
NAME = re.compile(r"TREEFOLD_[A-Z][A-Z_]*")


def named_in(*files: Path) -> set[str]:
    return {name for file in files for name in NAME.findall(file.read_text(encoding="utf-8"))}


def test_whatever_the_package_names_stands_in_the_table():
    named = named_in(*(file for file in (ROOT / "python").rglob("*.py") if file.name != "environment.py"))
    assert named == set(environment.VARIABLES)


def test_only_the_table_is_read():
    for file in (ROOT / "python").rglob("*.py"):
        assert not re.search(r"(environ|getenv)\W[^\n]*TREEFOLD_", file.read_text(encoding="utf-8")), file


def test_the_documents_name_no_other_variables():
    documents = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert named_in(*documents) <= set(environment.VARIABLES)


def test_the_manual_has_a_row_for_each_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    reference.write(tmp_path)
    page = (tmp_path / "reference" / "environment.md").read_text(encoding="utf-8")
    for name, meaning in environment.VARIABLES.items():
        assert f"| `{name}` | {meaning} |" in page


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("TREEFOLD_TOPOLOG", "TREEFOLD_TOPOLOGY"),
        ("TREEFOLD_LEASTSIZE", "TREEFOLD_LEAST_SIZE"),
        ("TREEFOLD_INTERFACES", "TREEFOLD_INTERFACE"),
        ("TREEFOLDPLAN", "TREEFOLD_PLAN"),
        ("TREFOLD_PLAN", "TREEFOLD_PLAN"),
        ("treefold_name", "TREEFOLD_NAME"),
    ],
)
def test_a_misspelt_variable_is_told_with_the_one_that_is_meant(given, meant):
    [sentence] = environment.unknown_variables({given: "x", "PATH": "/bin", **dict.fromkeys(environment.VARIABLES, "")})
    assert sentence == f"environment variable '{given}' is unknown and ignored; did you mean {meant}?"


def test_a_variable_like_no_other_is_told_in_one_line_with_the_known_ones():
    [sentence] = environment.unknown_variables({"TREEFOLD_QUX\n\x1b[2J": "x"})
    assert sentence.isprintable()
    assert sentence.endswith(f"known are {', '.join(environment.VARIABLES)}")


def test_workers_warn_and_go_on(monkeypatch):
    place = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port("127.0.0.1"))}
    for name, value in (place | {"TREEFOLD_NAM": "a"}).items():
        monkeypatch.setenv(name, value)
    with pytest.warns(UserWarning, match=r"'TREEFOLD_NAM' is unknown and ignored; did you mean TREEFOLD_NAME\?"):
        rendezvous.from_environment().close()


@pytest.mark.parametrize("transport", ["threads", "tcp"])
def test_local_workers_say_which_variables_do_not_count(transport, monkeypatch):
    monkeypatch.setenv("TREEFOLD_TLS", "no/such/folder")
    monkeypatch.setenv("TREEFOLD_PORT", "7000")
    done = command("run", "--local", "2", "--size", "1KiB", "--iters", "1", "--transport", transport)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        f"note: --local goes on without {name}, as nothing leaves this machine"
        for name in ("TREEFOLD_TLS", "TREEFOLD_PORT")
    ]
