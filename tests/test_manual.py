"""The README and the pages of the manual do what they say; the site is built from them and from the code."""

import json
import re
from pathlib import Path

import pytest
from typer.main import get_command

import pages
import reproduction
import treefold
from commands import output, start
from tools.manual import algorithms, json_keys, links, repository
from treefold import _core
from treefold.cli.main import app

ROOT = Path(__file__).parents[1]
OTHERS = {"files.md", "models.md"}
"""These pages have tests of their own."""
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name not in OTHERS)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_stands_on_a_page_runs(page, tmp_path):
    pages.run(page, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "```sh\ntreefold nonsense\n```\n",
        "```sh\nTREEFOLD_X=1 treefold nonsense\n```\n",
        "```sh\npython nothing.py\n```\n",
        "```sh\n# nothing\n```\n",
        "```bash\ntreefold algorithms\n```\n",
        "```console\ntreefold algorithms\n```\n",
        '```sh title="on each workers"\ntreefold algorithms\n```\n',
        "- a list\n\n  ```sh\n  treefold nonsense\n  ```\n",
    ],
)
def test_what_does_not_run_is_not_passed_over(text, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    with pytest.raises(AssertionError):
        pages.run(page, tmp_path)


def test_pages_with_tests_of_their_own_have_no_commands():
    for name in OTHERS:
        text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert re.findall(r"^\s*```(?:sh|console|bash|shell)\b", text, re.MULTILINE) == []


def test_commands_on_the_pages_of_algorithms_run(tmp_path):
    written = algorithms.write(tmp_path)
    for _, page in written[1:]:
        pages.run(tmp_path / page, tmp_path)
    assert len(written) == 1 + len(treefold.algorithms())


def test_the_validation_names_figures_that_exist(tmp_path):
    written = repository.write_validation(ROOT, tmp_path)
    text = "".join((tmp_path / page).read_text(encoding="utf-8") for _, page in written)
    named = re.findall(r"treefold reproduce (\S+/\w+)", text)
    assert set(named) == set(reproduction.figures()), set(named) ^ set(reproduction.figures())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_only_the_installation_is_not_run(page):
    plain = [line for block in pages.blocks(page) if block.language == "text" for line in block.text.splitlines()]
    assert [line for line in plain if not line.startswith(("pip install ", "make ", "source "))] == []


def test_the_page_on_networks_names_every_kind():
    page = (ROOT / "docs" / "networks.md").read_text(encoding="utf-8")
    assert [kind for kind in _core.generators() if f"`{kind.split(':')[0]}" not in page] == []


JSON = {
    "topology": ["topology", "ring:4"],
    "plan": ["plan", "b4", "--tables"],
    "check": ["check", "plan.json"],
    "replan": ["replan", "plan.json", "ring:4"],
    "bound": ["bound", "dgx2:planes=6"],
    "simulate": ["simulate", "dgx2:planes=6", "-a", "innet-push", "--simulator", "packet", "--size", "4KiB"],
    "compare": ["compare", "ring:4", "--sizes", "1MiB"],
    "train": ["train", "ncf", "ring:4", "-a", "ring"],
    "run": ["run", "--local", "2", "--size", "1KiB"],
    "probe": ["probe", "--local", "2", "--seconds", "1.2"],
}


@pytest.mark.parametrize("name", JSON)
def test_the_page_on_json_has_the_keys_that_a_command_prints(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    treefold.save(treefold.plan("ring:4", "ring"), "plan.json")
    printed = output(*JSON[name]) if name not in ("run", "probe") else json.loads(start(*JSON[name], "--json").stdout)
    assert isinstance(printed, list) == (name in json_keys.LISTS)
    listed = set(json_keys.keys(name))
    seen = set(printed[0] if isinstance(printed, list) else printed)
    assert seen <= listed, seen - listed
    always = {key for key in listed if "." not in key} - {"chosen", "winner", *json_keys.FURTHER["plan"]}
    assert name == "compare" or always <= seen, always - seen


def test_dead_links_of_the_site_are_found(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "index.html").write_text('<h1 id="here">x</h1>', encoding="utf-8")
    good = ["other/", "other/index.html", "other/#here", "#top", "https://example.org/x"]
    bad = ["nowhere/", "other/#there", "#bottom", "picture.svg"]
    text = '<a id="top"></a>' + "".join(f'<a href="{link}">x</a>' for link in good + bad)
    (tmp_path / "index.html").write_text(text, encoding="utf-8")
    assert links.dead(tmp_path) == [f"index.html: {link}" for link in bad]


def test_every_command_with_json_is_on_the_page():
    listed = {*json_keys.RECORDS, *json_keys.FURTHER, "algorithms", "machine", "reproduce"}
    assert listed == {name for name, command in get_command(app).commands.items()}
    assert set(JSON) == {*json_keys.RECORDS, *json_keys.FURTHER}


def test_a_wrong_output_is_seen():
    pages.compare("x", "one\n...\nthree\n", "one\ntwo\nthree  \n")
    with pytest.raises(AssertionError):
        pages.compare("x", "one\ntwo\n", "one\nthree\n")
