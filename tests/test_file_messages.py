"""What is said of a file: it names the file, moves no cursor, and knows misspelt words."""

import sys
import warnings

import pytest

import treefold
from commands import command
from reading import EDGES, FORMS, network, put, refused
from treefold import importers
from treefold.cli.main import main

pytestmark = pytest.mark.filterwarnings("ignore::treefold.importers.TopologyWarning")


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
    result = command("topology", f"{name}.csv")
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
            main()
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
