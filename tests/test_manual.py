"""The README and the pages of the manual do what they say; the site is built from them and from the code."""

import json
import posixpath
import re
import subprocess
from pathlib import Path, PurePosixPath

import pytest
from typer.main import get_command

import pages
import reproduction
import treefold
from commands import output, start
from tools.manual import algorithms, drawings, json_keys, links, relinking, repository
from treefold import _core
from treefold.cli.main import app

ROOT = Path(__file__).parents[1]
OTHERS = {"files.md", "models.md"}
"""These pages have tests of their own."""
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name not in OTHERS)]


LONG = {"architect.md", "ml-engineer.md", "network-operator.md", "run.md"}
"""What these pages show takes seconds."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=str(page.relative_to(ROOT)), marks=[pytest.mark.slow] if page.name in LONG else [])
        for page in PAGES
    ],
)
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


@pytest.mark.slow
def test_commands_on_the_pages_of_algorithms_run(tmp_path):
    written = algorithms.write(tmp_path)
    for _, page in written[1:]:
        pages.run(tmp_path / page, tmp_path)
    assert len(written) == 1 + len(treefold.algorithms())


def test_the_table_of_algorithms_in_the_readme_is_that_of_the_planners():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*`) \| ([\w-]+)[^|]* \|", text, re.MULTILINE)
    told = {name: collectives for names, collectives in rows for name in re.findall(r"`([\w-]+)`", names)}
    algorithms = {name: told.get(name) for name in treefold.algorithms()}
    assert algorithms == {name: treefold.planning.collectives(name) for name in algorithms}


def test_the_validation_names_figures_that_exist(tmp_path):
    written = repository.write_validation(ROOT, tmp_path)
    text = "".join((tmp_path / page).read_text(encoding="utf-8") for _, page in written)
    named = re.findall(r"treefold reproduce (\S+/\w+)", text)
    assert set(named) == set(reproduction.figures()), set(named) ^ set(reproduction.figures())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_only_the_installation_is_not_run(page):
    texts = [block for block in pages.blocks(page) if block.language == "text" and block.title != pages.NOWHERE]
    plain = [line for block in texts for line in block.text.splitlines()]
    assert [line for line in plain if not line.startswith(("pip install ", "make ", "source "))] == []


TRACKED = set(subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.splitlines())
FOLDERS = {str(folder) for name in TRACKED for folder in PurePosixPath(name).parents}
MARKDOWN = sorted(name for name in TRACKED if name.endswith(".md") and (ROOT / name).exists())


def relative_links(text):
    """Return the targets of links to other files, without anchors; code is left out."""
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    return [target.partition("#")[0] for target in re.findall(r"\]\((?![a-z]+:|#)([^)\s]+)\)", prose)]


@pytest.mark.parametrize("page", MARKDOWN)
def test_links_lead_to_tracked_files(page):
    targets = relative_links((ROOT / page).read_text(encoding="utf-8"))
    paths = [posixpath.normpath(posixpath.join(posixpath.dirname(page), target)) for target in targets]
    assert [path for path in paths if path not in TRACKED | FOLDERS] == []


def test_the_contents_of_the_design_list_every_question():
    text = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    contents, _, answers = text.partition("\n## ")
    headings = re.findall(r"^#{2,3} (.*)$", f"\n## {answers}", flags=re.MULTILINE)
    assert re.findall(r"^ *- \[(.*)\]\(#", contents, flags=re.MULTILINE) == headings


@pytest.mark.parametrize("page", sorted((ROOT / "reproduction").rglob("*.md")), ids=lambda page: page.parent.name)
def test_no_page_of_a_figure_is_unfinished(page):
    assert "TODO" not in page.read_text(encoding="utf-8")


def test_links_are_found_where_markdown_has_them():
    text = "[a](x.md#y), [b](https://z.org), [c](#d), `[e](f.md)`\n```sh\n[g](h.md)\n```\n![i](../j.svg)\n"
    assert relative_links(text) == ["x.md", "../j.svg"]


def test_the_site_has_the_pages_to_which_links_of_the_manual_lead(tmp_path):
    repository.write_validation(ROOT, tmp_path)
    repository.write_development(ROOT, tmp_path)
    algorithms_and_reference = {"algorithms/index.md", "reference/environment.md", "reference/json.md"}
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.md")} | algorithms_and_reference
    own = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*") if path.is_file()}
    assert set(relinking.PAGES.values()) <= written
    assert set(relinking.PAGES) <= TRACKED | FOLDERS
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").as_posix()
        targets = relative_links(relinking.relinked(page.read_text(encoding="utf-8"), name))
        paths = {posixpath.normpath(posixpath.join(posixpath.dirname(name), target)) for target in targets}
        assert {path for path in paths if not path.startswith("schema/")} <= written | own


def test_links_of_the_manual_lead_to_pages_of_the_site():
    text = "[a](../../CONTRIBUTING.md#style), [b](../start.md), [c](../../schema/x.json), [d](https://e.org)"
    expected = "[a](../development/contributing.md#style), [b](../start.md), [c](../schema/x.json), [d](https://e.org)"
    assert relinking.relinked(text, "guides/run.md") == expected
    with pytest.raises(AssertionError, match="no page of the site shows Makefile"):
        relinking.relinked("[make](../Makefile)", "start.md")


def test_the_drawings_are_those_that_are_drawn():
    matplotlib = pytest.importorskip("matplotlib")
    for path, drawn in drawings.files().items():
        written = path.read_bytes()
        if f"Matplotlib v{matplotlib.__version__}," not in written.decode():
            pytest.skip("another version of matplotlib drew them, and draws letters in its own way")
        assert written == drawn, "run python -m tools.manual.drawings"


def test_the_page_on_networks_names_every_kind():
    page = (ROOT / "docs" / "networks.md").read_text(encoding="utf-8")
    assert [kind for kind in _core.generators() if f"`{kind.split(':')[0]}" not in page] == []


JSON = {
    "algorithms": ["algorithms", "forest"],
    "topology": ["topology", "ring:4"],
    "plan": ["plan", "b4", "--tables"],
    "check": ["check", "plan.json"],
    "replan": ["replan", "plan.json", "ring:4"],
    "bound": ["bound", "dgx2:planes=6"],
    "simulate": ["simulate", "dgx2:planes=6", "-a", "innet-push", "--simulator", "packet", "--size", "4KiB"],
    "compare": ["compare", "ring:4", "--sizes", "1MiB"],
    "explain": ["explain", "ring:4", "--without", "GPU0 - GPU1"],
    "train": ["train", "ncf", "ring:4", "-a", "ring"],
    "run": ["run", "--local", "2", "--size", "1KiB"],
    "certificates": ["certificates", "paris", "-o", "keys"],
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


def test_the_page_on_json_has_the_keys_of_several_plans(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    treefold.save(treefold.plan("ring:4", "ring"), "plan.json")
    printed = output("simulate", "plan.json", "plan.json", "--background", "0.1", "--size", "64KiB")
    listed = json_keys.keys(json_keys.TOGETHER)
    seen = {*printed, *(f"jobs.{key}" for key in printed["jobs"][0])}
    assert "jobs.slowdown" in seen and "background.p99_latency_s" in listed
    assert seen <= set(listed), seen - set(listed)
    assert f"## treefold {json_keys.TOGETHER}" in json_keys.page()


def test_the_page_on_json_has_the_keys_of_winners():
    rows = output("compare", "ring:4", "full:4", "-a", "ring", "--sizes", "1KiB")
    listed = json_keys.keys(json_keys.WINNERS)
    assert {*rows[0], *(f"over.{rival}" for rival in rows[0]["over"])} == set(listed)
    assert f"## treefold {json_keys.WINNERS}" in json_keys.page()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", 'torch = ["torch>={}"]'),
        ("docs/install.md", "PyTorch {} or newer"),
        ("docs/torch.md", "PyTorch {} and newer work"),
        ("CONTRIBUTING.md", "TORCH={}`"),
        ("Makefile", "TORCH={} "),
    ],
)
def test_the_oldest_torch_is_the_same_everywhere(file, text):
    code = (ROOT / "python" / "treefold" / "torch" / "versions.py").read_text(encoding="utf-8")
    [oldest] = re.findall(r"^OLDEST_TORCH = \((\d+), (\d+)\)$", code, re.MULTILINE)
    assert text.format(".".join(oldest)) in (ROOT / file).read_text(encoding="utf-8")


def test_dead_links_of_the_site_are_found(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "index.html").write_text('<h1 id="here">x</h1>', encoding="utf-8")
    good = ["other/", "other/index.html", "other/#here", "#top", "https://example.org/x"]
    bad = ["nowhere/", "other/#there", "#bottom", "picture.svg"]
    text = '<a id="top"></a>' + "".join(f'<a href="{link}">x</a>' for link in good + bad)
    (tmp_path / "index.html").write_text(text, encoding="utf-8")
    assert links.dead(tmp_path) == [f"index.html: {link}" for link in bad]


def test_every_command_with_json_is_on_the_page():
    listed = {*json_keys.RECORDS, *json_keys.FURTHER, "machine", "reproduce"}
    commands = get_command(app).commands
    assert listed == {name for name in commands if "as_json" in {each.name for each in commands[name].params}}
    assert set(JSON) == {*json_keys.RECORDS, *json_keys.FURTHER}


def test_a_wrong_output_is_seen():
    pages.compare("x", "one\n...\nthree\n", "one\ntwo\nthree  \n")
    with pytest.raises(AssertionError):
        pages.compare("x", "one\ntwo\n", "one\nthree\n")
