"""What goes out comes back equal; files are written whole or not at all."""

import copy
import json
import os
import stat
from pathlib import Path

import jsonschema
import pytest

from treefold.errors import TreefoldError
from treefold.exporters import write
from treefold.files.writing import check_writable, write_bytes_atomically, write_text_atomically
from treefold.importers import read

SCHEMA = json.loads((Path(__file__).parents[1] / "schema" / "topology.schema.json").read_text(encoding="utf-8"))


def node(name, **values):
    return {"name": name, "kind": "accelerator", "reduces": False, "multicasts": False, "latency_s": 0.0} | values


def link(source, target, **values):
    return {
        "source": source,
        "target": target,
        "bandwidth_Bps": 1e9 / 3,
        "latency_s": 1e-6 / 3,
        "overhead_s": 0.0,
        "both_ways": False,
    } | values


def document(both_ways, **extra):
    """Awkward names, a switch with everything, parallel links, and as many both-way links as `both_ways` says."""
    awkward = ['say "hi"', "a\\b", "New York, NY", "node", "x:1", "<é&>", "日本🚀", "n0"]
    nodes = [node("sw", kind="switch", reduces=True, multicasts=True, latency_s=1.5e-7), *map(node, awkward)]
    links = [link("sw", name, overhead_s=2e-9) for name in awkward] + [link(name, "sw") for name in reversed(awkward)]
    links += [link("sw", "node", bandwidth_Bps=5.0), link("sw", "node", bandwidth_Bps=5.0)]
    chosen = {"none": 0, "some": 3, "all": len(links)}[both_ways]
    links = [entry | {"both_ways": place < chosen} for place, entry in enumerate(links)]
    for shared in extra.get("shared", ()):
        links[2]["shares"] = [*links[2].get("shares", ()), shared["name"]]
        links[-1]["shares"] = [shared["name"]]
    return {
        "format": "treefold-topology",
        "version": 1,
        "name": 'a "net" \\ 1',
        "nodes": nodes,
        "links": links,
    } | extra


SHARED = {"shared": [{"name": name, "bandwidth_Bps": 1e9 / 7} for name in ("a;b=1GB/s", '["', "日本 🚀")]}
EXTRA = {
    "tested": "at once",
    "ranks": ["n0", "日本🚀", 'say "hi"'],
    "shape": {"kind": "torus", "dims": [2, 4], "note": 'a\n"b"'},
}


@pytest.mark.parametrize("extension", ["json", "graphml", "dot", "gv"])
@pytest.mark.parametrize("both_ways", ["none", "some", "all"])
@pytest.mark.parametrize("extra", [{}, EXTRA, SHARED])
def test_round_trip(tmp_path, recwarn, extension, both_ways, extra):
    original = document(both_ways, **extra)
    path = tmp_path / f"net.{extension}"
    write(copy.deepcopy(original), path)
    assert read(path) == original
    first = path.read_bytes()
    write(read(path), path)
    assert path.read_bytes() == first, "the same document gives the same bytes"
    assert not recwarn.list


@pytest.mark.parametrize("extension", ["json", "graphml", "dot"])
def test_documents_without_defaults_and_with_integers(tmp_path, extension):
    brief = {"format": "treefold-topology", "version": 1, "name": "b", "nodes": [{"name": "a"}, {"name": "b"}]}
    brief["links"] = [{"source": "a", "target": "b", "bandwidth_Bps": 5, "latency_s": 0}]
    write(brief, tmp_path / f"b.{extension}")
    found = read(tmp_path / f"b.{extension}")
    assert found["links"] == [link("a", "b", bandwidth_Bps=5, latency_s=0)] and found["nodes"] == [node("a"), node("b")]
    write(brief | {"links": []}, tmp_path / f"b.{extension}")
    assert read(tmp_path / f"b.{extension}")["links"] == []


@pytest.mark.parametrize("extension", ["json", "graphml", "dot"])
def test_what_is_missing_stays_missing(tmp_path, extension):
    partial = document("all")
    del partial["links"][0]["bandwidth_Bps"]
    write(partial, tmp_path / f"p.{extension}")
    with pytest.raises(TreefoldError, match="2 links without bandwidth"):
        read(tmp_path / f"p.{extension}")


def test_own_json_has_one_node_or_link_a_line(tmp_path):
    write(document("some", **EXTRA), tmp_path / "net.json")
    lines = (tmp_path / "net.json").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith('    {"name": ') for line in lines) == 9
    assert sum(line.startswith('    {"source": ') for line in lines) == 18
    assert lines[1] == '  "format": "treefold-topology",'


def test_networkx_reads_our_graphml(tmp_path):
    networkx = pytest.importorskip("networkx")
    for both_ways in ("none", "all"):
        write(document(both_ways, **EXTRA), tmp_path / "net.graphml")
        graph = networkx.read_graphml(tmp_path / "net.graphml", force_multigraph=True)
        assert graph.is_directed() is (both_ways == "none")
        assert (graph.number_of_nodes(), graph.number_of_edges()) == (9, 18)
        assert graph.nodes["n0"]["latency_s"] == 1.5e-7 and graph.nodes["n0"]["reduces"] is True
        assert graph.nodes["n1"]["label"] == 'say "hi"'


# The schema


@pytest.mark.parametrize("both_ways", ["none", "some", "all"])
def test_exported_documents_satisfy_the_schema(tmp_path, both_ways):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    write(document(both_ways, **EXTRA), tmp_path / "net.json")
    jsonschema.validate(json.loads((tmp_path / "net.json").read_text(encoding="utf-8")), SCHEMA)
    jsonschema.validate(read(tmp_path / "net.json"), SCHEMA)


def broken():
    """Documents with one fault each."""
    good = document("some", **EXTRA)
    for key in ("format", "version", "nodes", "links"):
        yield {other: value for other, value in good.items() if other != key}
    for change in (
        {"version": 2},
        {"format": "other"},
        {"name": " "},
        {"extra": 1},
        {"nodes": []},
        {"ranks": [1]},
        {"shape": "torus"},
    ):
        yield good | change
    for change in ({"name": ""}, {"kind": "router"}, {"reduces": 1}, {"latency_s": -1}, {"color": "red"}):
        yield good | {"nodes": [node("a") | change]}
    yield good | {"nodes": [node("a") | {"reduces": True}]}
    for change in (
        {"source": None},
        {"bandwidth_Bps": 0},
        {"bandwidth_Bps": None},
        {"bandwidth_Bps": "1GB/s"},
        {"bandwidth_Bps": 1e30},
        {"latency_s": -1},
        {"latency_s": 1e9},
        {"overhead_s": "1us"},
        {"both_ways": 1},
        {"speed": 1},
    ):
        yield good | {"links": [link("a", "b") | change]}


@pytest.mark.parametrize("content", list(broken()))
def test_schema_and_importer_refuse_the_same(tmp_path, content):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, SCHEMA)
    (tmp_path / "broken.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(TreefoldError):
        read(tmp_path / "broken.json")


# Whole or not at all


def error(path, content=None):
    with pytest.raises(TreefoldError) as caught:
        write(content or document("none"), path)
    assert "\n" not in str(caught.value) and str(caught.value).startswith(str(path))
    return str(caught.value)


def test_places_that_cannot_be_written(tmp_path):
    assert "there is no folder 'no'; create it first" in error(tmp_path / "no" / "net.json")
    (tmp_path / "folder.json").mkdir()
    assert "is a folder" in error(tmp_path / "folder.json")
    assert "cannot write the extension '.gml'; use one of .json, .graphml, .dot, .gv" in error(tmp_path / "net.gml")
    assert "has no extension" in error(tmp_path / "net")
    (tmp_path / "file").write_text("")
    assert "there is no folder 'file'" in error(tmp_path / "file" / "net.json")
    assert "cannot be written" in error(f"{tmp_path}/{'x' * 300}.json")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder.json"]


@pytest.mark.parametrize("name", ["a\x01b", "line\nbreak", "\ud800"])
@pytest.mark.parametrize("extension", ["graphml", "dot"])
def test_names_a_format_cannot_hold(tmp_path, name, extension):
    content = document("none") | {"nodes": [node(name)], "links": []}
    assert "holds control characters; rename it or write a .json file" in error(tmp_path / f"n.{extension}", content)
    assert not list(tmp_path.iterdir())


def test_a_lone_surrogate_is_an_error_in_json_too(tmp_path):
    content = document("none") | {"nodes": [node("\ud800")], "links": []}
    assert "characters that UTF-8 cannot" in error(tmp_path / "n.json", content)
    assert not list(tmp_path.iterdir())


def test_graphml_needs_the_nodes_of_its_links(tmp_path):
    content = document("none") | {"links": [link("sw", "ghost")]}
    assert "node 'ghost' is unknown" in error(tmp_path / "n.graphml", content)


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, failing):
    path = tmp_path / "net.json"
    path.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(TreefoldError, match="cannot be written: No space left on device"):
        write_text_atomically(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["net.json"]


def test_interruption_removes_the_temporary_file(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_text_atomically(tmp_path / "net.json", "new")
    assert os.listdir(tmp_path) == []


def test_permissions_and_symbolic_links_stay(tmp_path):
    target = tmp_path / "real.txt"
    write_text_atomically(target, "first")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~mask
    target.chmod(0o640)
    (tmp_path / "alias.txt").symlink_to("real.txt")
    write_text_atomically(tmp_path / "alias.txt", "second\n")
    assert (tmp_path / "alias.txt").is_symlink() and target.read_bytes() == b"second\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_bytes_stay_what_they_are(tmp_path):
    write_bytes_atomically(tmp_path / "file", b"\xff\r\n\x00")
    assert (tmp_path / "file").read_bytes() == b"\xff\r\n\x00"


def test_what_cannot_be_written_is_known_before(tmp_path, monkeypatch):
    check_writable(tmp_path / "new.txt")
    with pytest.raises(TreefoldError, match="there is no folder 'missing'; create it first"):
        check_writable(tmp_path / "missing" / "new.txt")
    with pytest.raises(TreefoldError, match="is a folder; name a file in it"):
        check_writable(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(TreefoldError, match="cannot be written: Permission denied; choose another place"):
        check_writable(tmp_path / "new.txt")


def test_devices_are_written_directly():
    write_text_atomically("/dev/null", "text")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
