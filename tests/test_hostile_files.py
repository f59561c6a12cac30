"""No file costs more than seconds and megabytes, ends in a traceback, or writes on the terminal what it likes."""

import json
import os
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import treefold
from treefold import TreefoldError, arguments, cli, importers
from treefold.files import reading as files
from treefold.ranks import positions

pytestmark = pytest.mark.filterwarnings("ignore::treefold.importers.TopologyWarning")
TREEFOLD = Path(sys.executable).with_name("treefold")
ENTITY = '<!DOCTYPE x [<!ENTITY a "aa">]><graphml><graph><node id="&a;"/></graph></graphml>'
PAIR = "node [ id 0 ] node [ id 1 ]"
EDGES = "source,target,bandwidth,latency\na,b,1GB/s,1ms\nb,c,1GB/s,1ms\n"


def put(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def network(path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return treefold.topology(path, **({"bandwidth_Bps": 1e9, "latency_s": 0.0} | options))


def refused(path):
    """The message of the error, which comes soon, is one printable line, and names the file."""
    start = time.process_time()
    with pytest.raises(TreefoldError) as caught:
        network(path)
    assert time.process_time() - start < 10
    message = str(caught.value)
    assert message.startswith(str(path)) and message.isprintable() and len(message) < 1500
    return message


def run(*arguments, stdin=None):
    return subprocess.run([TREEFOLD, *arguments], capture_output=True, input=stdin, timeout=60, text=True, check=False)


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
        ("a.json", '{"nodes": 1000000000, "edges": []}', "stands for 1,000,000,000 links or nodes"),
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
        ("a.dot", around(300_000, 1, ""), "stands for 250,001 links or nodes"),
        ("a.dot", product(600), "stands for 360,000 links or nodes; treefold reads at most 250,000"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 80 else "",
)
def test_what_would_take_minutes_or_gigabytes_is_refused_soon(tmp_path, name, content, expected):
    assert expected in refused(put(tmp_path, name, content))


@pytest.mark.parametrize("levels", [10, 100])
def test_subgraphs_may_be_nested(tmp_path, levels):
    assert network(put(tmp_path, "a.dot", nested(levels))).links == 4


def test_blanks_cost_nothing(tmp_path):
    blank = "\n \t" * 50_000
    assert network(put(tmp_path, "a.gml", f"{blank}graph [{blank}{PAIR} edge [ source 0{blank}target 1 ] ]")).links == 2
    assert network(put(tmp_path, "a.dot", f"{blank}graph {{{blank}a{blank}--{blank}b }}")).links == 2
    assert network(put(tmp_path, "a.json", f'{{"nodes":{blank}2,{blank}"edges": [[0, 1]]}}')).links == 2
    assert network(put(tmp_path, "a.csv", f"source,target\n{blank}\na,b\n")).links == 2


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
        result = run("check", str(tmp_path / name))
        assert result.returncode == 2 and "not a file" in result.stderr


FORMS = {
    "csv": EDGES,
    "json": '{"nodes": 3, "edges": [[0, 1], [1, 2]]}',
    "gml": "graph [ node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 ] ]",
    "dot": "graph [rankdir=LR]".join(["strict graph x { ", " a -- b -- c }"]),
    "graphml": '<graphml><graph><node id="a"/><node id="b"/><edge source="a" target="b"/></graph></graphml>',
}


@pytest.mark.parametrize("form", FORMS)
def test_standard_input_is_read_in_every_form(form):
    result = run("bound", "/dev/stdin", "--bandwidth", "1GB/s", "--latency", "1ms", "--json", stdin=FORMS[form])
    assert result.returncode == 0, result.stderr


def test_what_a_shell_substitutes_is_read_and_endless_input_is_not(tmp_path):
    path = put(tmp_path, "net.csv", EDGES)
    bash = ["bash", "-c", f'"{TREEFOLD}" topology <(cat "{path}") --node-cap <(echo \'{{"a": "1Gbit/s"}}\') --json']
    result = subprocess.run(bash, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0 and '"switches": 1' in result.stdout
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
        ("a.dot", "graph { 10.0.0.1 -- b }", "'10.0.0.1' is no name; write it in quotes"),
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


# What reaches the terminal


def test_line_breaks_in_labels_are_spaces_in_names(tmp_path):
    label = "New\n   York"
    forms = {
        "a.gml": f'graph [ node [ id 0 label "{label}" ] node [ id 1 ] edge [ source 0 target 1 ] ]',
        "a.dot": f'graph {{ a [label="{label}"]; b [label="x\\ny"]; a -- b }}',
        "a.csv": f'source,target\n"{label}",b\n',
        "a.json": '{"nodes": ["New\\n York", "b"], "edges": [["New\\n York", "b"]]}',
        "a.graphml": FORMS["graphml"]
        .replace('id="a"', 'id="New&#10;York"')
        .replace('source="a"', 'source="New&#10;York"'),
    }
    for name, content in forms.items():
        assert network(put(tmp_path, name, content)).accelerator_names[0] == "New York"


def test_a_message_is_cut_where_nobody_would_read_it(tmp_path):
    name = "x" * 10_000
    assert len(refused(put(tmp_path, "a.json", f'{{"nodes": ["{name}", "b"], "edges": []}}'))) < 2000
    assert len(refused(put(tmp_path, "a.csv", f"source,target,bandwidth\na,b,{'9' * 10_000}x\n"))) < 2000


@pytest.mark.parametrize("sign", ["\ufeff", "\u200b"])
def test_what_prints_nothing_is_shown(tmp_path, sign):
    assert sign not in refused(put(tmp_path, "a.csv", f"source,target\n{sign},b\nc,d\n"))


@pytest.mark.parametrize("sign", ["\x1b[31m", "\x07", "\x9b", "\u202e", "\x7f"])
def test_control_characters_are_refused_and_shown_as_escapes(tmp_path, sign):
    message = refused(put(tmp_path, "a.csv", f"source,target\na{sign}b,c\n"))
    assert "must not have control characters" in message
    assert sign not in refused(put(tmp_path, "b.csv", f"source,target\na,b,{sign}\n"))


def test_everything_that_the_command_line_prints_is_visible(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    name = "a\x1b[31m\nb"
    put(tmp_path, f"{name}.csv", EDGES.replace("latency\n", "latency,\x1b]0;x\x07\n").replace("1ms\n", "1ms,\n"))
    result = run("topology", f"{name}.csv")
    assert result.returncode == 0 and "\x1b" not in result.stdout + result.stderr
    assert result.stdout.startswith("name          a\\x1b[31m\\nb\n")
    assert result.stderr.count("\n") == 1 and "column '\\x1b]0;x\\x07' is unknown" in result.stderr
    for words in (
        ["topology", f"no{name}.csv"],
        ["topology", f"{name}.csv", "-o", f"no{name}/x.json"],
        ["topology", f"{name}.csv", "-o", f"{name}.x"],
        ["plan", "ring:4", "-o", f"{name}.x"],
        ["plan", "ring:4", "-a", name],
        ["plan", "ring:4", f"--{name}"],
        ["check", f"{name}.csv"],
        [name],
        ["topology", "ring:4", "--ranks", name],
        ["topology", "ring:4", "--node-cap", name],
        ["plan", "ring:4", "--bandwidth", "\udcff"],
        ["topology", "\udcff.csv"],
    ):
        monkeypatch.setattr(sys, "argv", ["treefold", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        assert (ended.value.code, printed.out) == (2, ""), words
        assert printed.err[:-1].isprintable() and printed.err.endswith("\n"), words


# Errors name the file, and no text that nobody wrote


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", "source,target\na,b\nc,d\n", "is disconnected: 2 components"),
        (
            "a.json",
            '{"format": "treefold-topology", "version": 1, "nodes": [{"name": "a"}, {"name": "a"}], "links": []}',
            "'a' is listed twice",
        ),
        (
            "a.json",
            '{"format": "treefold-topology", "version": 1, "nodes": [{"name": "a"}], "links": [], "shape": {"x": 1}}',
            "",
        ),
        (
            "a.json",
            '{"format": "treefold-topology", "version": 1, "nodes": [{"name": "a"}], "links": [], "shape": '
            + '{"x":' * 500
            + "1"
            + "}" * 501,
            "",
        ),
    ],
)
def test_errors_of_the_core_name_the_file_and_no_place_in_another_text(tmp_path, name, content, expected):
    message = refused(put(tmp_path, name, content))
    assert expected in message and " column " not in message


# Where things are


ZOO = """<graphml><key id="y" for="node" attr.name="Latitude" attr.type="double"/>
<key id="x" for="node" attr.name="Longitude" attr.type="double"/><key id="l" for="node" attr.name="label"/>
<graph><node id="0"><data key="y">38.9</data><data key="x">-77.0</data><data key="l">Washington, DC</data></node>
<node id="1"><data key="l">Nowhere</data></node><edge source="0" target="1"/></graph></graphml>"""
GML = 'graph [ node [ id 0 label "Washington, DC" Latitude 38.9 Longitude -77.0 ] node [ id 1 label "Nowhere" ] {} ]'
NODE_LINK = """{"nodes": [{"id": "Washington, DC", "latitude": 38.9, "longitude": -77}, {"id": "Nowhere"}],
"edges": [{"source": "Nowhere", "target": "Washington, DC"}]}"""


@pytest.mark.parametrize(
    ("name", "content"),
    [("z.graphml", ZOO), ("z.gml", GML.format("edge [ source 0 target 1 ]")), ("z.json", NODE_LINK)],
)
@pytest.mark.parametrize("extension", ["json", "graphml", "dot"])
def test_positions_are_read_and_written(tmp_path, name, content, extension):
    places = [("Washington, DC", 38.9, -77.0), ("Nowhere", None, None)]
    out = tmp_path / f"out.{extension}"
    given = put(tmp_path, name, content)
    result = run("topology", str(given), "--bandwidth", "1GB/s", "--latency", "1ms", "-o", str(out))
    assert result.returncode == 0, result.stderr
    for path in (given, out):
        nodes = importers.read(path, bandwidth_Bps=1.0, latency_s=0.0)["nodes"]
        assert [(node["name"], node.get("latitude"), node.get("longitude")) for node in nodes] == places


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        ("Latitude 38.9", "has latitude only; give latitude and longitude, or neither"),
        ("latitude 91 longitude 0", "latitude '91' is not in degrees from -90 to 90"),
        ("latitude 0 longitude -180.5", "longitude '-180.5' is not in degrees from -180 to 180"),
        ("latitude NAN longitude 0", "latitude 'NAN' is not in degrees"),
    ],
)
def test_positions_that_are_none(tmp_path, position, expected):
    assert expected in refused(put(tmp_path, "p.gml", f"graph [ node [ id 0 {position} ] ]"))


# Which ranks


CITIES = ["Washington, DC", "Denver", "DC", "Amsterdam", "Seattle, WA, USA", "5"]


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ("Washington, DC,Denver", [0, 1]),
        ("Denver, DC , Seattle, WA, USA", [1, 2, 4]),
        ("0-2,Amsterdam", [0, 1, 2, 3]),
        ("5,4", [5, 4]),
        (["Washington, DC", 3], [0, 3]),
    ],
)
def test_names_of_ranks_may_hold_commas(ranks, expected):
    assert positions(ranks, CITIES) == expected


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ("amsterdam", "rank 'amsterdam' does not exist; did you mean Amsterdam?"),
        ("Denvr", "did you mean Denver?"),
        ("Paris", "rank 'Paris' does not exist; write positions or names such as 0-7,12 or Washington, DC"),
        ("9" * 5000, f"rank '{'9' * 76}... does not exist: there are 6 accelerators, 0 to 5"),
        (f"0-{'9' * 5000}", "(5000 characters) does not exist"),
        ("x" * 5000, "(5000 characters)' does not exist"),
        ("2-1", "rank range '2-1' runs backwards; write 1-2"),
    ],
)
def test_ranks_that_do_not_exist(ranks, expected):
    with pytest.raises(TreefoldError) as caught:
        positions(ranks, CITIES)
    assert expected in str(caught.value)


def test_ranges_that_repeat_cost_nothing():
    with pytest.raises(TreefoldError, match="'GPU0' is listed twice"):
        treefold.topology("full:64", ranks=",".join(["0-63"] * 20_000))


# Misspelt words


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", "source,target,bandwith\na,b,1GB/s\n", "column 'bandwith' (did you mean bandwidth?) is unknown"),
        ("a.csv", "source,target,latncy_ms,x\na,b,1,1\n", "'latncy_ms' (did you mean latency?), 'x' are unknown"),
        ("a.dot", 'graph { a -- b [bandwith="1GB/s"] }', "the edges' attribute 'bandwith' is ignored; did you mean"),
        ("a.dot", 'graph { a -- b [delay="1ms"] }', "the edges' attribute 'delay' is ignored; did you mean latency?"),
        ("a.dot", 'graph { a -- b [bandwidth_parsec="1"] }', "'bandwidth_parsec' is ignored; did you mean bandwidth?"),
        (
            "a.dot",
            'graph { a [multicast="true"]; a -- b }',
            "'multicast' is ignored; did you mean multicasts?",
        ),
    ],
)
def test_words_that_are_nearly_known(tmp_path, name, content, expected):
    with pytest.warns(importers.TopologyWarning) as caught:
        treefold.topology(put(tmp_path, name, content), bandwidth_Bps=1.0, latency_s=0.0)
    assert any(expected in str(warning.message) for warning in caught)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", "sorce,target\na,b\n", "did you mean source by 'sorce'?"),
        ("a.csv", "paris,london,10Gbit/s\nlondon,rome,1Gbit/s\n", "an edge list begins with source,target"),
        ("a.json", '{"names": ["a"], "bandwith_mbps": [[0]]}', "did you mean bandwidth_mbps by 'bandwith_mbps'?"),
    ],
)
def test_forms_that_are_nearly_known(tmp_path, name, content, expected):
    assert expected in refused(put(tmp_path, name, content))


def test_columns_that_are_ignored_are_counted_in_one_warning(tmp_path):
    header = ",".join(f"c{place}" for place in range(1000))
    path = put(tmp_path, "a.csv", f"source,target,{header}\na,b{',' * 1000}\n")
    with pytest.warns(importers.TopologyWarning) as caught:
        importers.read(path, bandwidth_Bps=1.0, latency_s=0.0)
    assert len([warning for warning in caught if "unknown and ignored" in str(warning.message)]) == 1


# Outputs


@pytest.mark.parametrize("kind", ["-o", "--plot", "--trace"])
@pytest.mark.parametrize("where", ["missing/out", "folder", "file/out"])
def test_what_cannot_be_written_is_known_before_the_work(tmp_path, monkeypatch, capsys, kind, where):
    def work(*_, **__):
        raise AssertionError("the work began")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    suffix = ".svg" if kind == "--plot" else ".json"
    (tmp_path / f"folder{suffix}").mkdir()
    monkeypatch.setattr(arguments, "verbs", type("Verbs", (), {"topology": work}))
    commands = {"-o": ["topology", "plan"], "--plot": ["compare"], "--trace": ["simulate"]}[kind]
    for command in commands:
        extra = ["--model", "flow"] if command == "simulate" else []
        monkeypatch.setattr(sys, "argv", ["treefold", command, "ring:4", kind, where + suffix, *extra])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        error = capsys.readouterr().err
        assert ended.value.code == 2 and error.startswith(f"error: {where}{suffix}: ") and error.count("\n") == 1


def test_plans_are_written_where_plans_are_read(tmp_path):
    for name in ("x.xml", "plan", "p.txt"):
        result = run("plan", "ring:4", "-a", "ring", "-o", str(tmp_path / name))
        assert result.returncode == 2 and f"write {(tmp_path / name).with_suffix('.json')}" in result.stderr
    assert not list(tmp_path.iterdir())
    assert run("plan", "ring:4", "-a", "ring", "-o", str(tmp_path / "P.JSON")).returncode == 0
    assert run("simulate", str(tmp_path / "P.JSON")).returncode == 0


def test_standard_output_is_written_wherever_it_leads(tmp_path):
    piped = run("topology", "ring:4", "-o", "/dev/stdout").stdout
    assert json.loads(piped)["format"] == "treefold-topology", "and nothing else"
    plan = run("plan", "/dev/stdin", "-o", "/dev/fd/1", stdin=piped).stdout
    assert run("check", "/dev/stdin", stdin=plan).returncode == 0
    assert "/dev/stdout and --json would both write to standard output" in run("plan", "ring:4", "--json", "-o", "/dev/stdout").stderr
    for start in ("", "first\n"):
        path = tmp_path / "out.txt"
        path.write_text(start)
        with path.open("a") as file:
            command = [TREEFOLD, "topology", "ring:4", "-o", "/dev/stdout"]
            assert subprocess.run(command, stdout=file, timeout=60, check=False).returncode == 0
        assert path.read_text() == start + piped
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
