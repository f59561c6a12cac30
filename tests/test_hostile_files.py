"""No file costs more than seconds and megabytes, or ends in a traceback."""

import os
import socket
import subprocess

import pytest

from commands import TREEFOLD, command, start
from reading import EDGES, FORMS, network, put, refused
from treefold.files import reading as files

pytestmark = pytest.mark.filterwarnings("ignore::treefold.importers.TopologyWarning")
ENTITY = '<!DOCTYPE x [<!ENTITY a "aa">]><graphml><graph><node id="&a;"/></graph></graphml>'
PAIR = "node [ id 0 ] node [ id 1 ]"


# Memory and time


def nested(levels):
    return "graph { a -- b " + "subgraph { " * levels + "a -- b" + " }" * levels + " }"


def product(nodes):
    left, right = (" ".join(f"{side}{place}" for place in range(nodes)) for side in "ab")
    return f"graph {{ {{ {left} }} -- {{ {right} }} }}"


def around(nodes, levels, ending):
    return "graph { " + "{ " * levels + " ".join(f"n{place}" for place in range(nodes)) + f" }}{ending}" * levels + " }"


def twice(nodes):
    ids = [*range(nodes), nodes - 1]
    return "<graphml><graph>" + "".join(f'<node id="n{place}"/>' for place in ids) + "</graph></graphml>"


def matrix(nodes):
    names = [f"n{place}" for place in range(nodes)]
    return f"rtt ms,{','.join(names)}\n" + "".join(f"{name}\n" for name in names)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.json", '{"nodes": 1000000000, "edges": []}', "describes 1,000,000,000 links or nodes"),
        ("a.json", f'{{"nodes": [{"[]," * files.MOST_VALUES}1]}}', "holds more than 3,000,000 values"),
        ("a.json", '{"nodes": ' + "[" * 900 + "]" * 900 + ', "edges": []}', "node 0: [[[[...]]]] has no id"),
        ("a.csv", "\n" * (files.MOST_VALUES + 1), "holds more than 3,000,000 values"),
        ("a.csv", 'a,b\n"' + "\n" * 200_000, "field larger than field limit"),
        ("a.csv", matrix(20_000), "1 cells where the header has 20001"),
        ("a.gml", "\n" * 80_000, "it holds 0 graphs"),
        ("a.gml", "graph [" + "\n" * 80_000, "not valid GML at line 80001: the file ends where ']' is expected"),
        ("a.gml", "a [ " * 100_000, "nested more than 100 deep"),
        ("a.gml", 'graph [ a "' + "x" * 100_000, "never ends"),
        ("a.graphml", "<a>" * 100_000, "nested more than 100 deep"),
        ("a.graphml", twice(20_000), "node id 'n19999' is missing or stands twice"),
        ("a.dot", nested(100_000), "subgraphs are nested more than 100 deep"),
        ("a.dot", 'graph { a [label="' + "\\x" * 100_000, "this quoted text never ends"),
        ("a.dot", "graph { a [label=" + "<" * 100_000, "this '<' is never closed"),
        ("a.dot", "graph { /* " + "x" * 100_000, "this comment never ends"),
        ("a.dot", around(100_000, 99, ""), "100000 nodes are more than the 65536"),
        ("a.dot", around(200_000, 99, " -- {}"), "holds more than 3,000,000 values"),
        ("a.dot", around(300_000, 1, ""), "describes 250,001 links or nodes"),
        ("a.dot", product(600), "describes 360,000 links or nodes; treefold reads at most 250,000"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 80 else "",
)
def test_what_would_take_minutes_or_gigabytes_is_refused_soon(tmp_path, name, content, expected):
    assert expected in refused(put(tmp_path, name, content))


@pytest.mark.parametrize("levels", [10, 100])
def test_subgraphs_may_be_nested(tmp_path, levels):
    assert network(put(tmp_path, "a.dot", nested(levels))).num_links == 4


def test_blanks_cost_nothing(tmp_path):
    blank = "\n \t" * 50_000
    assert (
        network(put(tmp_path, "a.gml", f"{blank}graph [{blank}{PAIR} edge [ source 0{blank}target 1 ] ]")).num_links
        == 2
    )
    assert network(put(tmp_path, "a.dot", f"{blank}graph {{{blank}a{blank}--{blank}b }}")).num_links == 2
    assert network(put(tmp_path, "a.json", f'{{"nodes":{blank}2,{blank}"edges": [[0, 1]]}}')).num_links == 2
    assert network(put(tmp_path, "a.csv", f"source,target\n{blank}\na,b\n")).num_links == 2


def test_a_file_that_is_too_large_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    with path.open("wb") as file:
        file.truncate(files.MOST_BYTES + 1)
    assert "is larger than 128 MiB" in refused(path)


# What is no file


def test_what_is_no_file_is_refused_at_once(tmp_path):
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s.json"))
        assert "is a socket, not a file" in refused(tmp_path / "s.json")
    assert "is a device, not a file" in refused(tmp_path / "zero.csv")
    assert "is a pipe, not a file" in refused(tmp_path / "pipe.json")
    assert "is a folder" in refused(tmp_path / "folder.json")
    for name in ("pipe.json", "zero.csv"):
        result = command("check", str(tmp_path / name))
        assert result.returncode == 2 and "not a file" in result.stderr


@pytest.mark.parametrize("form", FORMS)
def test_standard_input_is_read_in_every_form(form):
    result = start("bound", "/dev/stdin", "--bandwidth", "1GB/s", "--latency", "1ms", "--json", stdin=FORMS[form])
    assert result.returncode == 0, result.stderr


def test_what_a_shell_substitutes_is_read_and_endless_input_is_not(tmp_path):
    path = put(tmp_path, "net.csv", EDGES)
    bash = ["bash", "-c", f'"{TREEFOLD}" topology <(cat "{path}") --node-cap <(echo \'{{"a": "1Gbit/s"}}\') --json']
    result = subprocess.run(bash, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0 and '"a egress"' in result.stdout
    with open("/dev/zero", "rb") as zeros:
        endless = subprocess.run(
            [TREEFOLD, "topology", "/dev/stdin"], stdin=zeros, capture_output=True, timeout=60, check=False
        )
    assert endless.returncode == 2 and b"/dev/stdin: is larger than 128 MiB" in endless.stderr


# Numbers, ids and letters that are none


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.json", f'{{"nodes": {"1" * 5000}, "edges": []}}', "has 5000 digits"),
        ("a.json", '{"nodes": 2, "edges": [[0, 1e999]]}', "'1e999' is larger than any number"),
        ("a.json", '{"nodes": ["\\ud800", "b"], "edges": [["b", "\\ud800"]]}', "'\\ud800' is half a character"),
        ("a.gml", f"graph [ {PAIR} edge [ source 0 target 1.0 ] ]", "link 0: node '1.0' is unknown"),
        ("a.gml", f"graph [ {PAIR} edge [ source 0 target {'1' * 5000} ] ]", "is unknown; add it to the nodes"),
        ("a.gml", f"graph [ {PAIR} edge [ source 0 target [ a 1 ] ] ]", "edge 0 needs one source and one target"),
        ("a.gml", f"graph [ {PAIR} edge [ source 0 source 1 target 1 ] ]", "edge 0 needs one source and one target"),
        ("a.gml", f"graph [ {PAIR} edge [ source 0 ] ]", "edge 0 needs one source and one target"),
        ("a.gml", f"graph [ {PAIR} node [ id 1 ] ]", "node 2 has the id '1', which stands twice"),
        ("a.gml", "graph [ node [ label 1 ] ]", "node 0 has no id"),
        ("a.gml", f"graph [ {PAIR} edge [ source 0 target 1 bandwidth_Bps NAN ] ]", "'NAN' is not a number"),
        ("a.gml", f"graph [ {PAIR} edge [ source 0 target 1 bandwidth 1 bandwidth 2 ] ]", "is not a text such as"),
        ("a.gml", f"graph [ {PAIR} ] ]", "']' closes nothing"),
        ("a.gml", "graph [ node ]", "a key has no value"),
        ("a.gml", f"graph [ {PAIR} ] graph [ {PAIR} ]", "it holds 2 graphs"),
        ("a.dot", "graph { 10.0.0.1 -- b }", "'10.0.0.1' is not a name; write it in quotes"),
        ("a.dot", "graph { a\0b }", "character 9 is NUL"),
        ("a.dot", "graph { a -- }", "'}' stands where a name is expected"),
        ("a.dot", "graph { a [b=] }", "']' stands where a name is expected"),
        ("a.dot", "a -- b", "'a' stands where graph or digraph is expected"),
        ("a.dot", "graph { a } b", "'b' stands where the end is expected"),
        ("a.graphml", '<?xml version="1.0" encoding="zlib"?><graphml/>', "not valid XML"),
    ],
)
def test_what_is_no_number_id_or_name(tmp_path, name, content, expected):
    assert expected in refused(put(tmp_path, name, content))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("kind", ['a "', '% a "', 'a SYSTEM "'])
def test_entities_are_refused_in_every_encoding(tmp_path, encoding, kind):
    header = f'<?xml version="1.0" encoding="{encoding.upper().replace("6-", "6")}"?>'
    content = (header + ENTITY.replace('a "', kind, 1)).encode(encoding)
    assert "declares or uses XML entities" in refused(put(tmp_path, "a.graphml", content))


def test_entities_of_elsewhere_are_refused(tmp_path):
    content = '<!DOCTYPE x SYSTEM "x.dtd"><graphml><graph><node id="a">&a;</node></graph></graphml>'
    assert "declares or uses XML entities" in refused(put(tmp_path, "a.graphml", content))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_byte_order_marks_tell_the_encoding(tmp_path, encoding):
    for form, content in FORMS.items():
        if (form, encoding) != ("graphml", "utf-32"):  # no XML parser reads it
            names = network(put(tmp_path, f"a.{form}", content.encode(encoding))).accelerator_names
            assert names[0] in ("a", "0")
