"""Every format that comes in, what reading does to all of them, and every way in which a file can be wrong."""

import json
import warnings
from pathlib import Path

import jsonschema
import pytest

from treefold.errors import TreefoldError
from treefold.importers import TopologyWarning, read

DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).parents[1].parent / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data folder is absent")

OWN = {
    "format": "treefold-topology",
    "version": 1,
    "name": "pair",
    "nodes": [{"name": "a"}, {"name": "b", "kind": "switch", "reduces": True, "latency_s": 1e-7}],
    "links": [{"source": "a", "target": "b", "bandwidth_Bps": 1e9, "latency_s": 1e-6, "both_ways": True}],
}


def put(folder, name, content):
    """Writes a file (text, bytes, or anything else as JSON) and returns its path."""
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def quietly(path, **arguments):
    """Reads with warnings muted: what is asserted is the document."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TopologyWarning)
        return read(path, **arguments)


def ends(document):
    return [(link["source"], link["target"]) for link in document["links"]]


def values(document, field):
    return [link[field] for link in document["links"]]


def names(document):
    return [node["name"] for node in document["nodes"]]


def messages(path, **arguments):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read(path, **arguments)
    assert all(entry.category is TopologyWarning for entry in caught)
    return [str(entry.message) for entry in caught]


def error(path, **arguments):
    """The message of the error that reading raises: one line that names the file."""
    with pytest.raises(TreefoldError) as caught:
        quietly(path, **arguments)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 600
    return message


# Own JSON


def test_own_json_writes_out_every_default(tmp_path):
    document = read(put(tmp_path, "own.json", OWN | {"ranks": ["a"], "shape": {"kind": "line"}}))
    assert document["nodes"][0] == {
        "name": "a",
        "kind": "accelerator",
        "reduces": False,
        "multicasts": False,
        "latency_s": 0,
    }
    assert document["nodes"][1]["kind"] == "switch" and document["nodes"][1]["latency_s"] == 1e-7
    assert document["links"] == [
        {
            "source": "a",
            "target": "b",
            "bandwidth_Bps": 1e9,
            "latency_s": 1e-6,
            "overhead_s": 0,
            "both_ways": True,
        }
    ]
    assert document["ranks"] == ["a"] and document["shape"] == {"kind": "line"}
    assert "ranks" not in read(put(tmp_path, "plain.json", OWN))


def test_own_json_keeps_latencies_exactly(tmp_path):
    link = {"source": "a", "target": "b", "bandwidth_Bps": 0.1 + 0.2, "latency_s": 1e-6 / 3, "overhead_s": 1e-7 / 3}
    assert read(put(tmp_path, "own.json", OWN | {"links": [link]}))["links"] == [link | {"both_ways": False}]


def test_a_byte_order_mark_and_capital_extension_are_fine(tmp_path):
    assert read(put(tmp_path, "own.JSON", b"\xef\xbb\xbf" + json.dumps(OWN).encode()))["name"] == "pair"


def node(**extra):
    return OWN | {"nodes": [{"name": "a"} | extra, {"name": "b"}]}


def link(**extra):
    return OWN | {"links": [{"source": "a", "target": "b", "bandwidth_Bps": 1, "latency_s": 0} | extra]}


def by_hand(**extra):
    return OWN | {"links": [{"source": "a", "target": "b"} | extra]}


def test_own_json_by_hand_may_give_texts(tmp_path):
    content = by_hand(bandwidth="10Gbit/s", latency="5ms", both_ways=True)
    [found] = read(put(tmp_path, "own.json", content))["links"]
    assert found["bandwidth_Bps"] == 1.25e9 and found["latency_s"] == 5e-3
    assert not {"bandwidth", "latency"} & set(found)
    schema = json.loads((DATA.parents[1] / "schema" / "topology.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(content, schema)
    for wrong in (link(bandwidth="1GB/s"), by_hand(bandwidth=5), by_hand(latency="")):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (OWN | {"version": 2}, "version 2 is newer than this treefold reads (1); upgrade treefold"),
        (OWN | {"version": True}, "version True is not a positive whole number"),
        (OWN | {"version": "1"}, "version '1' is not"),
        ({key: OWN[key] for key in OWN if key != "version"}, "version None is not"),
        (OWN | {"format": "treefold-plan"}, "format 'treefold-plan' is not a topology"),
        (OWN | {"linsk": []}, "unknown key 'linsk'; did you mean links?"),
        (OWN | {"nodes": {}}, "'nodes' must be a list, got {}"),
        (OWN | {"nodes": []}, "no nodes"),
        ({key: OWN[key] for key in OWN if key != "links"}, "'links' must be a list, got None"),
        (OWN | {"name": ""}, "'name' must be a text that is not empty, got ''"),
        (OWN | {"nodes": ["a"]}, "node 0: must be an object"),
        (OWN | {"nodes": [{"name": 3}]}, "node 0: 'name' must be a text that is not empty, got 3"),
        (node(kind="router"), "node 0 ('a'): kind 'router' is unknown; write accelerator or switch"),
        (node(kind=["switch"]), "kind ['switch'] is unknown"),
        (node(reduces="yes"), "'reduces' must be true or false, got 'yes'"),
        (node(latency_s=-1), "time must not be negative"),
        (node(color="red"), "unknown key 'color'; the keys are name, kind"),
        (OWN | {"links": [["a", "b"]]}, "link 0: must be an object"),
        (link(target=None), "link 0: 'target' must be a text that is not empty, got None"),
        (link(bandwidth_Bps=0), "link 0 ('a' -> 'b'): bandwidth '0.0B/s': bandwidth must be positive, got 0"),
        (link(bandwidth_Bps=-5), "bandwidth must be positive, got -5"),
        (link(bandwidth_Bps=1e30), "out of range"),
        (link(bandwidth_Bps=10**400), "is not a number; give it in B/s"),
        (link(bandwidth_Bps=True), "bandwidth_Bps True is not a number"),
        (link(bandwidth_Bps="1GB/s"), "'bandwidth_Bps' must be a number, got '1GB/s'"),
        (link(bandwidth_Bps=None), "'bandwidth_Bps' must be a number, got None; leave it out"),
        (link(latency_s=-1e-6), "time must not be negative"),
        (link(overhead_s=[]), "overhead_s [] is not a number"),
        (link(both_ways=1), "'both_ways' must be true or false, got 1"),
        (link(bandwith_Bps=1), "'bandwith_Bps'; did you mean bandwidth_Bps (a number of bytes a second)?"),
        (link(delay=1), "unknown key 'delay'; did you mean latency_s (seconds)?"),
        (link(dst="b"), "unknown key 'dst'; did you mean target?"),
        (link(bandwidth="1GB/s"), "'bandwidth' and 'bandwidth_Bps' both give its bandwidth; keep one"),
        (by_hand(bandwidth=5), "got 5; did you mean bandwidth_Bps (a number of bytes a second)?"),
        (by_hand(bandwidth=""), "'bandwidth' must be a text with its unit, got ''"),
        (by_hand(latency=0.1), "got 0.1; did you mean latency_s (seconds)?"),
        (by_hand(bandwidth="5"), "bandwidth '5' has no unit; write 5Gbit/s, or name the key bandwidth_Bps"),
        (by_hand(bandwidth="1e10"), "has no unit; name the key bandwidth_Bps and give bytes a second"),
        (OWN | {"ranks": "a"}, "'ranks' must be a list of node names, got 'a'"),
        (OWN | {"ranks": [0]}, "'ranks' must be a list of node names, got [0]"),
        (OWN | {"shape": "torus"}, "'shape' must be an object, got 'torus'"),
    ],
)
def test_own_json_that_is_wrong(tmp_path, content, expected):
    path = put(tmp_path, "own.json", content)
    message = error(path)
    assert message.startswith(f"{path}: ") and expected in message


# Files that cannot be read at all


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.json", json.dumps(OWN)[:100], "not valid JSON at line 1, column"),
        ("a.json", "", "not valid JSON at line 1, column 1"),
        ("a.json", "[1, 2]", "holds [1, 2], not an object"),
        ("a.json", "{}", "is in no known form; write a treefold topology"),
        ("a.json", '{"bandwidth_Bps": NaN}', "NaN is not a number; leave the value out"),
        ("a.json", '{"a": 1, "a": 2}', "key 'a' stands twice in one object"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.json", "1" * 5000, "not"),
        ("a.json", b"\xff{}", "byte 0 is not UTF-8 text"),
        ("a.csv", "", "the file is empty"),
        ("a.csv", "\n , ,\n", "the file is empty"),
        ("a.csv", 'source,target\n"a,b\n', "line 2: not valid CSV"),
        ("a.csv", "source;target\na;b\n", "line 1: header 'source;target' is neither an edge list"),
        ("a.csv", "source,bandwidth\n", "line 1: header 'source,bandwidth' is neither an edge list"),
        ("a.graphml", "<graphml><graph>", "not valid XML"),
        ("a.graphml", "", "not valid XML"),
        ("a.graphml", "<html/>", "write one flat <graph> inside <graphml>"),
        ("a.graphml", "<graphml/>", "holds 0 graphs"),
        ("a.graphml", "<graphml><graph/><graph/></graphml>", "holds 2 graphs"),
        ("a.graphml", '<!DOCTYPE x [<!ENTITY a "b">]><graphml/>', "declares or uses XML entities"),
        ("a.graphml", '<graphml><graph><node id="a"/><node id="a"/></graph></graphml>', "node id 'a' is missing or"),
        (
            "a.graphml",
            '<graphml><graph><node id="a"/><edge source="a" target="z"/></graph></graphml>',
            "link 0: node 'z' is unknown; add it to the nodes",
        ),
        ("a.graphml", '<graphml><graph><hyperedge/><node id="a"/></graph></graphml>', "hyperedges"),
        ("a.graphml", '<graphml><key id="k" attr.name="n"/><graph/></graphml>', "has no nodes"),
        ("a.graphml", '<graphml><graph><node id="a"><data key="k">1</data></node></graph></graphml>', "no key 'k'"),
        ("a.gml", "graph [ node [ id 0 ", "not valid GML"),
        ("a.gml", "", "not valid GML"),
        ("a.gml", "graph [\n node [ id 0 ]\n edge [ source 0 target 1 ]\n]", "link 0: node '1' is unknown"),
        ("a.dot", "digraph { a -> b", "not valid DOT at line 1, column 17: the file ends where a name is expected"),
        ("a.gv", "", "not valid DOT"),
        ("a.dot", "graph {a} graph {b}", "holds more than one graph"),
        ("a.dot", "graph {}", "no nodes"),
    ],
)
def test_files_that_are_malformed(tmp_path, name, content, expected):
    path = put(tmp_path, name, content)
    message = error(path)
    assert message.startswith(str(path)) and expected in message


def test_files_that_are_not_there(tmp_path):
    assert error(tmp_path / "no.json") == f"{tmp_path / 'no.json'}: no such file; check the path"
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder" in error(tmp_path / "folder.csv")
    assert "cannot be read" in error(put(tmp_path, "file.json", "{}") / "below.json")
    assert "cannot be read" in error("nul\0byte.json")


def test_unknown_extensions_list_the_known_ones(tmp_path):
    message = error(put(tmp_path, "net.yaml", ""))
    assert "its extension '.yaml' is unknown; use one of .json, .graphml, .gml, .dot, .gv, .csv" in message
    assert "has no extension" in error(put(tmp_path, "net", ""))


# Node-link JSON and edge lists


def test_node_link_keeps_parallel_links_and_directions(tmp_path):
    edges = [
        {"source": 0, "target": 1, "key": 0, "bandwidth": "8Gbit/s"},
        {"source": 0, "target": 1, "key": 1, "capacity": "1GB/s", "latency_ms": 2},
        {"source": 1, "target": 0, "bandwidth_Bps": 5, "overhead": "1us"},
    ]
    nodes = [{"id": 0, "label": "x"}, {"id": 1, "kind": "switch", "multicasts": True, "latency_s": 1e-7}]
    content = {"directed": False, "nodes": nodes, "graph": {"name": "net", "ranks": ["x"]}}
    for key, directed in (("links", False), ("edges", True)):
        document = quietly(put(tmp_path, "nl.json", content | {key: edges, "directed": directed}))
        assert ends(document) == [("x", "1"), ("x", "1"), ("1", "x")]
        assert values(document, "bandwidth_Bps") == [1e9, 1e9, 5]
        assert values(document, "both_ways") == [not directed] * 3
        assert document["links"][1]["latency_s"] == 2e-3 and document["links"][2]["overhead_s"] == 1e-6
        assert document["name"] == "net" and document["ranks"] == ["x"]
        assert document["nodes"][1]["kind"] == "switch" and document["nodes"][1]["multicasts"]


def test_node_link_as_networkx_writes_it(tmp_path):
    networkx = pytest.importorskip("networkx")
    for edges in ("edges", "links"):
        data = networkx.node_link_data(networkx.grid_2d_graph(2, 2), edges=edges)
        document = quietly(put(tmp_path, "grid.json", json.dumps(data)), bandwidth_Bps=1)
        assert names(document) == ["(0, 0)", "(0, 1)", "(1, 0)", "(1, 1)"]
        assert len(document["links"]) == 4


def node_link(*edges, **extra):
    return {"nodes": [{"id": "a"}, {"id": "b"}], "edges": list(edges)} | extra


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (node_link({"source": "a", "target": "z"}), "link 0: node 'z' is unknown; add it to the nodes"),
        (node_link({"source": "a"}), "link 0: node 'None' is unknown"),
        (node_link("ab"), "link 0: must be an object with source and target"),
        (node_link(directed="yes"), "'directed' must be true or false"),
        (node_link(nodes=[{"name": "a"}]), 'has no id; give it an "id", or add "format"'),
        (node_link(nodes=[{"id": "a"}, {"id": "a"}]), "node id 'a' stands twice"),
        (node_link(nodes=[{"id": "a", "kind": "router"}]), "node 'a': kind 'router' is unknown"),
        (node_link(nodes=[{"id": "a", "reduces": "maybe"}]), "reduces 'maybe' is neither true nor false"),
        (node_link({"source": "a", "target": "b", "capacity": 10}), "capacity '10' has no unit; write 10Gbit/s"),
        (node_link({"source": "a", "target": "b", "bandwidth": ["x"]}), "is not a text such as '5Gbit/s'"),
        (node_link({"source": "a", "target": "b", "latency": "3"}), "latency '3' has no unit; write 3ms"),
        (node_link({"source": "a", "target": "b", "latency": "3 parsecs"}), "'a' -> 'b': time '3 parsecs'"),
        (
            node_link({"source": "a", "target": "b", "latency": "3ms", "rtt_ms": 6}),
            "'latency' and 'rtt_ms' both give its latency_s; keep one",
        ),
        (node_link(graph={"ranks": "all"}), "'ranks' must be a JSON list of node names, got 'all'"),
        ({"nodes": 3, "edges": [[0, 3]]}, "edge 0: node 3 is unknown; there are 3: 0, 1, 2"),
        ({"nodes": 3, "edges": [[0]]}, "edge 0: must be a pair such as [0, 1], got [0]"),
        ({"nodes": 0, "edges": []}, "'nodes' must be a positive count or a list of names, got 0"),
        ({"nodes": [1.5], "edges": [[0, 1]]}, "'nodes' must be a positive count or a list of names"),
        ({"nodes": 2, "edges": [[0, 1]], "bidirectional": "no"}, "'bidirectional' must be true or false, got 'no'"),
    ],
)
def test_graph_json_that_is_wrong(tmp_path, content, expected):
    assert expected in error(put(tmp_path, "g.json", content), bandwidth_Bps=1)


def test_edge_list_json(tmp_path):
    content = {"name": "tri", "nodes": 3, "edges": [[0, 1], [1, 2], [1, 2]]}
    document = quietly(put(tmp_path, "e.json", content), bandwidth_Bps=1e9)
    assert names(document) == ["0", "1", "2"] and document["name"] == "tri"
    assert ends(document) == [("0", "1"), ("1", "2"), ("1", "2")] and all(values(document, "both_ways"))
    one_way = {"nodes": ["x", "y"], "edges": [["x", "y"]], "bidirectional": False}
    assert values(quietly(put(tmp_path, "o.json", one_way), bandwidth_Bps=1), "both_ways") == [False]


# Matrices


def test_matrix_json_units_and_gaps(tmp_path):
    content = {
        "regions": ["a", "b", "c"],
        "throughput_mbps": [[None, 800, 400], [1600, 0, None], [400, 400, None]],
        "rtt_ms": [[0, 4, 8], [4, 0, 2], [None, 8, 0]],
    }
    document = quietly(put(tmp_path, "m.json", content))
    assert ends(document) == [("a", "b"), ("a", "c"), ("b", "a"), ("c", "a"), ("c", "b")]
    assert values(document, "bandwidth_Bps") == [1e8, 5e7, 2e8, 5e7, 5e7]
    assert values(document, "latency_s") == [2e-3, 4e-3, 2e-3, 3e-3, 4e-3]
    assert not any(values(document, "both_ways"))


@pytest.mark.parametrize(
    ("key", "value", "field", "expected"),
    [
        ("bandwidth_Bps", 5, "bandwidth_Bps", 5),
        ("bandwidth_mbps", 8, "bandwidth_Bps", 1e6),
        ("bandwidth_gbps", 8, "bandwidth_Bps", 1e9),
        ("latency_s", 0.25, "latency_s", 0.25),
        ("latency_ms", 3, "latency_s", 3e-3),
        ("rtt_s", 0.5, "latency_s", 0.25),
        ("rtt_ms", 3, "latency_s", 1.5e-3),
    ],
)
def test_matrix_json_keys(tmp_path, key, value, field, expected):
    content = {"names": ["a", "b"], key: [[0, value], [value, None]]}
    document = quietly(put(tmp_path, "m.json", content), bandwidth_Bps=1.0)
    assert values(document, field) == [expected] * 2


def test_a_measured_diagonal_is_a_self_loop(tmp_path):
    path = put(
        tmp_path, "m.json", {"names": ["a", "b"], "bandwidth_Bps": [[9, 1], [1, 0]], "latency_s": [[0, 1], [1, 0]]}
    )
    assert messages(path) == [f"{path}: 1 self-loop dropped (at a)"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"bandwidth_Bps": [[0]]}, "a matrix needs the list of its nodes' names under names or nodes or regions"),
        ({"names": ["a", 1], "bandwidth_Bps": []}, "needs the list of its nodes' names"),
        ({"names": ["a", "a"], "bandwidth_Bps": []}, "name 'a' is empty or stands twice"),
        ({"names": ["a", "b"], "rtt_ms": [[0, 1]]}, "rtt_ms: must have one row for each of the 2 names, got 1 rows"),
        ({"names": ["a", "b"], "rtt_ms": 5}, "rtt_ms: must have one row for each of the 2 names, got 5"),
        ({"names": ["a", "b"], "rtt_ms": [[0, 1], [0]]}, "rtt_ms row 'b': must have 2 values, got 1 values"),
        ({"names": ["a", "b"], "rtt_ms": [[0, 1], 7]}, "rtt_ms row 'b': must have 2 values, got 7"),
        ({"names": ["a", "b"], "rtt_ms": [[0, "1"], [1, 0]]}, "rtt_ms 'a' -> 'b': must be a number or null, got '1'"),
        ({"names": ["a", "b"], "rtt_ms": [[0, -1], [1, 0]]}, "time must not be negative"),
        ({"names": ["a", "b"], "rtt_ms": [[0, True], [1, 0]]}, "rtt True is not a number"),
        ({"names": ["a", "b"], "bandwidth_mbps": [[0, 0], [1, 0]]}, "'a' -> 'b': bandwidth must be positive, got 0"),
        ({"names": ["a", "b"], "bandwidth_mbps": [[0, -1], [1, 0]]}, "bandwidth must be positive"),
        (
            {"names": ["a"], "rtt_ms": [[0]], "latency_s": [[0]]},
            "'rtt_ms' gives latency_s a second time; keep one matrix of each",
        ),
    ],
)
def test_matrix_json_that_is_wrong(tmp_path, content, expected):
    assert expected in error(put(tmp_path, "m.json", content), bandwidth_Bps=1)


def test_matrix_csv_with_two_blocks():
    document = quietly(DATA / "pairs.csv")
    assert document["name"] == "pairs" and names(document) == ["a", "b", "c"]
    assert ends(document) == [("a", "b"), ("a", "c"), ("b", "a"), ("c", "a"), ("c", "b")]
    assert values(document, "bandwidth_Bps") == [1e8, 5e7, 2e8, 5e7, 5e7]
    assert values(document, "latency_s") == [2e-3, 4e-3, 2e-3, 4e-3, 4e-3]


@pytest.mark.parametrize("corner", ["", "bandwidth", "bandwidth Gbit/s", "bandwidth (Gbit/s)", "Bandwidth_gbps"])
def test_matrix_csv_corners(tmp_path, corner):
    value = "8Gbit/s" if corner in ("", "bandwidth") else "8"
    path = put(
        tmp_path, "m.csv", f"{corner},a,b\r\na,0,{value}\r\nb,{value},null\r\n,,\r\nlatency us,a,b\na,,5\nb,5,\n"
    )
    document = read(path)
    assert values(document, "bandwidth_Bps") == [1e9, 1e9] and values(document, "latency_s") == [5e-6, 5e-6]


@pytest.mark.parametrize(
    ("content", "line", "expected"),
    [
        (",a,b\na,,5\nb,5,\n", 2, ", 'a' -> 'b': bandwidth '5' has no unit; write 5Gbit/s"),
        ("speed,a,b\na,,5\nb,5,\n", 1, ": corner 'speed' is unknown; write bandwidth Mbit/s, latency ms or rtt ms"),
        ("bandwidth furlongs,a,b\n", 1, ": corner 'bandwidth furlongs' is unknown"),
        ("rtt ms,a,b\na,,x\nb,5,\n", 2, ", 'a' -> 'b': rtt 'x' is not a number; give it in ms, as the name says"),
        ("rtt ms,a,b\na,,1\nb,5\n", 3, ": 2 cells where the header has 3; fill the row up"),
        ("rtt ms,a,b\na,,1\n", 1, ": 'b' is in the header but has no row"),
        ("rtt ms,a,b\na,,1\nc,5,\n", 3, ": row 'c' is not in the header, or stands twice"),
        ("rtt ms,a,b\na,,1\na,,1\n", 3, ": row 'a' is not in the header, or stands twice"),
        ("rtt ms,a,a\na,,1\n", 1, ": name 'a' is empty or stands twice"),
        ("rtt ms,a,b\na,,1\nb,1,\n\nlatency ms,a,b\na,,1\nb,1,\n", 5, ": a second block of latency; keep one"),
        ("rtt ms,a,b\na,,1\nb,1,\n\nbandwidth Mbit/s,a,c\na,,1\nc,1,\n", 5, ": this block has other names"),
        ("bandwidth Mbit/s,a,b\na,,0\nb,1,\n", 2, ", 'a' -> 'b': bandwidth must be positive, got 0; leave it empty"),
    ],
)
def test_matrix_csv_that_is_wrong(tmp_path, content, line, expected):
    path = put(tmp_path, "m.csv", content)
    assert error(path, bandwidth_Bps=1).startswith(f"{path} line {line}{expected}")


# Edge-list CSV


def test_edge_list_csv():
    document = quietly(DATA / "links.csv")
    assert names(document) == ["a", "b", "c"] and document["name"] == "links"
    assert ends(document) == [("a", "b"), ("b", "c"), ("c", "a"), ("a", "b")]
    assert values(document, "bandwidth_Bps") == [1e9, 5e8, 2.5e8, 1e9]
    assert values(document, "both_ways") == [True, False, False, True]
    assert values(document, "latency_s") == [2e-3, 2e-3, 4e-3, 2e-3], "the median of 2, 2, 4, 2, 2 ms fills the gap"


def test_edge_list_csv_with_units_in_cells(tmp_path):
    path = put(tmp_path, "e.csv", "Source, Target, bandwidth, latency, overhead, note\na,b,5Gbit/s,5ms,1us,x\n\n")
    with pytest.warns(TopologyWarning, match=r"line 1: column 'note' is unknown and ignored"):
        document = read(path)
    assert document["links"] == [
        {
            "source": "a",
            "target": "b",
            "bandwidth_Bps": 6.25e8,
            "latency_s": 5e-3,
            "overhead_s": 1e-6,
            "both_ways": True,
        }
    ]


@pytest.mark.parametrize("unit", ["Mbit/s", "mbps", "Mbps"])
def test_edge_list_csv_bandwidth_columns(tmp_path, unit):
    path = put(tmp_path, "e.csv", f"source,target,bandwidth_{unit}\na,b,8\n")
    assert values(quietly(path), "bandwidth_Bps") == [1e6]


@pytest.mark.parametrize(
    ("content", "line", "expected"),
    [
        ("source,target,bandwidth\na,b,1GB/s\nb,c,5\n", 3, "bandwidth '5' has no unit; write 5Gbit/s"),
        ("source,target,bandwidth\n\na,b,fast\n", 3, "bandwidth 'fast': write a number and a unit"),
        ("source,target,bandwidth\na,b,0Gbit/s\n", 2, "bandwidth '0Gbit/s': bandwidth must be positive"),
        ("source,target,bandwidth_Bps\na,b,nan\n", 2, "bandwidth 'nan' is not a number"),
        ("source,target,bandwidth_Bps\na,b,inf\n", 2, "bandwidth 'inf' is not a number"),
        ("source,target,bandwidth_Gbit/s\na,b,5Gbit/s\n", 2, "bandwidth '5Gbit/s' is not a number; give it in Gbit/s"),
        ("source,target,bandwidth_Bps\na,b,-1\n", 2, "bandwidth '-1.0B/s': bandwidth must be positive"),
        ("source,target,bandwidth_parsec\n", 1, "column 'bandwidth_parsec' has an unknown unit"),
        ("source,target,latency\na,b,5\n", 2, "latency '5' has no unit; write 5ms"),
        ("source,target,latency_ms\na,b,-5\n", 2, "time '-0.005s': time must not be negative"),
        ("source,target,bandwidth,bandwidth_Bps\n", 1, "two columns give bandwidth_Bps; keep one"),
        ("source,target,source\n", 1, "two columns give source; keep one"),
        ("source,target,one_way\na,b,maybe\n", 2, "one_way 'maybe' is neither true nor false"),
        ("source,target\na\n", 2, "1 cells where the header has 2; fill the row up"),
        ("source,target\na,\n", 2, "target is empty; write a node's name"),
    ],
)
def test_edge_list_csv_that_is_wrong(tmp_path, content, line, expected):
    path = put(tmp_path, "e.csv", content)
    assert error(path, bandwidth_Bps=1).startswith(f"{path} line {line}: {expected}")


ALIASED = [
    "from,to,bw,lat",
    "src,dst,capacity,delay",
    "FROM,TO,BW,DELAY",
    "Src,Dst,bw_Gbit/s,lat_ms",
    "From,To,BW_GBIT/S,DELAY_MS",
    "source,to,Capacity_gbps,Delay_Ms",
]


@pytest.mark.parametrize("header", ALIASED)
def test_edge_list_csv_aliases(tmp_path, header):
    row = "a,b,8,5" if "_" in header else "a,b,8Gbit/s,5ms"
    [found] = read(put(tmp_path, "e.csv", f"{header}\n{row}\n"))["links"]
    assert found["source"] == "a" and found["bandwidth_Bps"] == 1e9 and found["latency_s"] == 5e-3


def test_csv_of_neither_form_says_both(tmp_path):
    path = put(tmp_path, "net.csv", "a,b\n1,2\n")
    forms = "an edge list (source,target,bandwidth,latency) nor a matrix (names, with 'bandwidth Gbit/s' in the corner)"
    assert error(path) == f"{path} line 1: header 'a,b' is neither {forms}"
    matrix = put(tmp_path, "m.csv", "bandwidth Gbit/s,src,dst\nsrc,,1\ndst,1,\n".replace("bandwidth Gbit/s", ""))
    assert "write 1Gbit/s, or 'bandwidth Gbit/s' in the corner cell" in error(matrix)


@pytest.mark.parametrize(
    ("name", "template", "cases"),
    [
        (
            "m.csv",
            ",a,b\na,,{}\nb,1GB/s,\n",
            {
                "9.5": "has no unit; write 9.5Gbit/s, or 'bandwidth Gbit/s' in the corner cell",
                "1e10": "has no unit; write 'bandwidth bit/s' or 'bandwidth B/s' in the corner cell",
            },
        ),
        (
            "e.csv",
            "from,to,bw\na,b,{}\n",
            {
                "9.5": "bw '9.5' has no unit; write 9.5Gbit/s, or name the column bandwidth_Gbit/s",
                "10000000000.0": "has no unit; name the column bandwidth_bit/s or bandwidth_B/s, whichever it is",
                "0": "bw must be positive, got 0; leave it out when it is unknown, or write 5Gbit/s, say",
            },
        ),
        (
            "g.dot",
            'graph {{ a -- b [capacity="{}"] }}',
            {
                "10.0": "capacity '10.0' has no unit; write 10Gbit/s, or name the attribute bandwidth_Bps",
                "1e10": "name the attribute bandwidth_bps or bandwidth_Bps, whichever it is (bits or bytes a second)",
            },
        ),
        ("l.csv", "from,to,rtt\na,b,{}\n", {"2e9": "name the column rtt_ns or rtt_us", "3": "name the column rtt_ms"}),
        ("l.dot", "graph {{ a -- b [latency={}] }}", {"3": "write 3ms, or name the attribute latency_s"}),
    ],
)
def test_numbers_without_unit(tmp_path, name, template, cases):
    for value, expected in cases.items():
        assert expected in error(put(tmp_path, name, template.format(value)), bandwidth_Bps=1)


def test_a_latency_of_0_needs_no_unit(tmp_path):
    assert values(read(put(tmp_path, "e.csv", "from,to,bw,lat\na,b,1GB/s,0\n")), "latency_s") == [0]


def test_every_pair_in_both_orders_means_one_direction_a_row(tmp_path):
    header, rows = "source,target,bandwidth,latency", "a,b,1GB/s,0\nb,a,2GB/s,0\n"
    path = put(tmp_path, "e.csv", f"{header}\n{rows}")
    assert values(read(path), "both_ways") == [False, False]
    some = put(tmp_path, "s.csv", f"{header}\n{rows}b,c,1GB/s,0\n")
    [message] = messages(some)
    assert "'a' -> 'b' and 'b' -> 'a' are both listed" in message and "add a column one_way" in message
    assert values(quietly(some), "both_ways") == [True] * 3
    marked = put(tmp_path, "o.csv", f"{header},one_way\na,b,1GB/s,0,\nb,a,1GB/s,0,\n")
    assert values(read(marked), "both_ways") == [True, True]


# GraphML, GML, DOT


def test_weights_are_ignored_with_a_warning(tmp_path):
    path = put(tmp_path, "w.dot", "graph { a -- b [weight=3, latency_s=0] }")
    [weight, filled] = messages(path, bandwidth_Bps=1e9)
    assert "'weight' is ignored" in weight and "bandwidth_Bps" in weight and "capacity" in weight
    assert filled.endswith("2 links without bandwidth (first 'a' - 'b') take 1GB/s")
    assert messages(put(tmp_path, "b.dot", "graph { a -- b [weight=3, latency_s=0, bandwidth_Bps=5] }")) == []


def test_graphml_with_defaults_parallel_and_mixed_edges():
    document = quietly(DATA / "mixed.graphml")
    assert names(document) == ["beta", "a"] and document["name"] == "mixed"
    assert [entry["kind"] for entry in document["nodes"]] == ["switch", "accelerator"]
    assert ends(document) == [("beta", "a"), ("a", "beta"), ("a", "beta")]
    assert values(document, "both_ways") == [True, False, False]
    assert values(document, "bandwidth_Bps") == [1e9, 5e8, 2.5e8]
    assert values(document, "latency_s") == [0.25, 0.25, 0.5]


def test_gml_with_colliding_labels_and_parallel_edges():
    document = quietly(DATA / "small.gml", bandwidth_Bps=7)
    assert document["name"] == "Ring of three" and names(document) == ["x", "y (1)", "y (2)"]
    assert sorted(values(document, "bandwidth_Bps")) == [7, 3e8, 1e9, 1.25e9]
    assert set(values(document, "latency_s")) == {3e-3} and all(values(document, "both_ways"))
    assert document["nodes"][2]["kind"] == "switch"


def test_gml_may_be_directed(tmp_path):
    text = "graph [ directed 1 multigraph 1 node [ id 0 ] node [ id 1 ] edge [ source 1 target 0 ] ]"
    document = quietly(put(tmp_path, "d.gml", text), bandwidth_Bps=7)
    assert ends(document) == [("1", "0")] and values(document, "both_ways") == [False]


def test_dot_with_defaults_clusters_sets_and_ports():
    document = read(DATA / "small.dot")
    assert document["name"] == "two racks" and names(document) == ["tor", "a", "b", "c", "d", "e:1"]
    assert document["nodes"][0]["kind"] == "switch" and document["nodes"][0]["reduces"]
    assert {entry["kind"] for entry in document["nodes"][1:]} == {"accelerator"}
    assert ends(document) == [
        ("a", "b"),
        ("a", "tor"),
        ("tor", "c"),
        ("tor", "d"),
        ("tor", "e:1"),
        ("a", "tor"),
    ]
    assert values(document, "bandwidth_Bps") == [5e9, 1.25e9, 1.25e9, 1.25e9, 1.25e9, 1e9]
    assert set(values(document, "latency_s")) == {2e-6} and all(values(document, "both_ways"))


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("digraph { a -> b -> c }", [("a", "b", False), ("b", "c", False)]),
        ("digraph { a -> b [dir=both] }", [("a", "b", True)]),
        ("digraph { a -> b [dir=back] }", [("b", "a", False)]),
        ("digraph { a -> b; a -> b }", [("a", "b", False), ("a", "b", False)]),
        ("strict digraph { a -> b; a -> b; b -> a }", [("a", "b", False), ("b", "a", False)]),
        ("strict graph { a -- b; b -- a }", [("b", "a", True)]),
        ("digraph { {a b} -> {c -> d} }", [("c", "d", False), *[(x, y, False) for x in "ab" for y in "cd"]]),
        (r'graph { x [label="\N"]; y [label=<<b>q</b>>]; z [label="New\nYork"]; x--y--z }', None),
    ],
)
def test_dot_edges(tmp_path, statement, expected):
    document = quietly(put(tmp_path, "d.dot", statement), bandwidth_Bps=7)
    if expected is None:
        assert names(document) == ["x", "y", "New York"]
    else:
        found = [(entry["source"], entry["target"], entry["both_ways"]) for entry in document["links"]]
        assert sorted(found) == sorted(expected)


def test_dot_prints_nothing(tmp_path, capfd):
    error(put(tmp_path, "d.dot", "digraph { a -> "))
    assert capfd.readouterr() == ("", "")


def test_names_that_collide_after_renaming_fall_back_to_ids(tmp_path):
    text = 'graph { 1 [label=x]; 2 [label=x]; 3 [label="x (1)"]; 1--2--3 }'
    assert names(quietly(put(tmp_path, "d.dot", text), bandwidth_Bps=7)) == ["1", "2", "3"]


# Filling and self-loops


def test_filling_warns_once_and_counts_directed_links(tmp_path):
    path = put(tmp_path, "e.csv", "source,target,bandwidth,one_way\na,b,,\nb,c,,true\na,c,1GB/s,\n")
    first = "(first 'a' - 'b')"
    expected = f"{path}: 3 links without bandwidth {first} take 1.25GB/s, 5 links without latency {first} take 5ms"
    assert messages(path, bandwidth_Bps=1.25e9, latency_s=5e-3) == [expected]
    document = quietly(path, bandwidth_Bps=1.25e9, latency_s=5e-3)
    assert values(document, "bandwidth_Bps") == [1.25e9, 1.25e9, 1e9]


def test_filling_never_replaces_what_the_file_gives(tmp_path):
    path = put(tmp_path, "own.json", OWN)
    assert messages(path, bandwidth_Bps=5.0, latency_s=5.0) == []
    assert read(path, bandwidth_Bps=5.0, latency_s=5.0) == read(path)


@pytest.mark.parametrize(
    ("cells", "median"), [(["1ms", "2ms", "9ms", ""], 2e-3), (["1ms", "2ms", ""], 1.5e-3), ([""], 0), (["0s", ""], 0)]
)
def test_missing_latencies_take_the_median(tmp_path, cells, median):
    rows = "".join(f"a,b,1GB/s,{cell},true\n" for cell in cells)
    document = quietly(put(tmp_path, "e.csv", "source,target,bandwidth,latency,one_way\n" + rows))
    assert document["links"][-1]["latency_s"] == pytest.approx(median)


def test_missing_bandwidths_without_a_default_are_an_error(tmp_path):
    path = put(tmp_path, "e.csv", "source,target\na,b\n")
    assert (
        error(path) == f"{path}: 2 links without bandwidth (first 'a' - 'b'); give them one with --bandwidth 10Gbit/s"
    )
    one = put(tmp_path, "o.csv", "source,target,one_way\na,b,true\n")
    assert error(one).startswith(f"{one}: 1 link without bandwidth ('a' - 'b');")
    assert messages(one, bandwidth_Bps=1.0) == [
        f"{one}: 1 link without bandwidth ('a' - 'b') takes 1B/s, "
        "1 link without latency ('a' - 'b') takes 0s; set --latency"
    ]


@pytest.mark.parametrize(
    "argument", [{"bandwidth_Bps": 0}, {"bandwidth_Bps": float("nan")}, {"bandwidth_Bps": -1.0}, {"latency_s": -1.0}]
)
def test_impossible_defaults_are_errors(tmp_path, argument):
    assert next(iter(argument)) in error(put(tmp_path, "own.json", OWN), **argument)


def test_self_loops_are_dropped_with_one_warning(tmp_path):
    loops = "".join(f"n{i},n{i},1GB/s,1ms\n" for i in range(4))
    path = put(tmp_path, "e.csv", "source,target,bandwidth,latency\na,b,1GB/s,1ms\n" + loops)
    assert messages(path) == [f"{path}: 4 self-loops dropped (at n0, n1, n2, ...)"]
    assert ends(quietly(path)) == [("a", "b")]


# Caps


def test_a_cap_is_a_switch_before_each_accelerator(tmp_path):
    path = put(tmp_path, "own.json", OWN | {"shape": {"kind": "line"}, "ranks": ["a"]})
    document = read(path, node_cap="8Gbit/s")
    assert names(document) == ["a", "b", "a/cap"] and document["nodes"][2]["kind"] == "switch"
    assert ends(document) == [("a/cap", "b"), ("a", "a/cap"), ("a/cap", "a")]
    assert document["links"][0]["both_ways"] and document["links"][0]["latency_s"] == 1e-6
    assert [(entry["bandwidth_Bps"], entry["latency_s"]) for entry in document["links"][1:]] == [(1e9, 0), (1e9, 0)]
    assert document["ranks"] == ["a"] and "shape" not in document


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("caps.json", {"b": {"egress": "8Gbit/s", "ingress": "16Gbit/s"}, "a": "1GB/s"}),
        ("caps.csv", "name,egress,ingress\nb,8Gbit/s,16Gbit/s\n\na,1GB/s,\n"),
        ("caps.csv", "Name,Egress,Ingress\nb,8Gbit/s,16Gbit/s\na,1GB/s\n"),
    ],
)
def test_caps_from_a_file(tmp_path, name, content):
    document = read(put(tmp_path, "own.json", OWN), node_cap=str(put(tmp_path, name, content)))
    assert ends(document) == [("a/cap", "b/cap"), ("a", "a/cap"), ("a/cap", "a"), ("b", "b/cap"), ("b/cap", "b")]
    assert values(document, "bandwidth_Bps")[1:] == [1e9, 1e9, 1e9, 2e9]


def test_a_file_may_cap_nobody_and_names_stay_free(tmp_path):
    own = put(tmp_path, "own.json", OWN)
    nobody = str(put(tmp_path, "none.json", {}))
    assert quietly(own, node_cap=nobody) == read(own)
    assert messages(own, node_cap=nobody) == [f"{nobody}: 1 accelerator without a cap (a); add it to the file of caps"]
    taken = OWN | {"nodes": [{"name": "a"}, {"name": "b"}, {"name": "a/cap", "kind": "switch"}]}
    assert names(read(put(tmp_path, "taken.json", taken), node_cap="1GB/s"))[3:] == ["a/cap2", "b/cap"]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("c.json", {"z": "1GB/s"}, "node 'z' is not in the network; its nodes are a, b"),
        ("c.json", {"a": 5}, "cap of 'a': egress '5' has no unit; write 5Gbit/s"),
        ("c.json", {"a": "0GB/s"}, "bandwidth must be positive"),
        ("c.json", {"a": {"ingress": "1GB/s"}}, "cap of 'a': has no egress"),
        ("c.json", {"a": {"egress": "1GB/s", "out": 1}}, "unknown key 'out'; a cap has egress and ingress"),
        ("c.json", ["a"], "caps are an object such as"),
        ("c.json", "{", "not valid JSON"),
        ("c.csv", "node,cap\na,1GB/s\n", "line 1: header 'node,cap'; write name,egress or name,egress,ingress"),
        ("c.csv", "name,egress\na\n", "line 2: 1 cells where the header has 2"),
        ("c.csv", "name,egress\na,\n", "line 2: has no egress"),
        ("c.csv", "name,egress\na,1GB/s\na,1GB/s\n", "line 3: node 'a' has a cap already"),
        ("c.csv", "", "the file is empty"),
        ("c.txt", "a 1GB/s", "caps are read from .json and .csv files"),
    ],
)
def test_caps_that_are_wrong(tmp_path, name, content, expected):
    caps = put(tmp_path, name, content)
    message = error(put(tmp_path, "own.json", OWN), node_cap=str(caps))
    assert message.startswith(str(caps)) and expected in message


@pytest.mark.parametrize("cap", ["5", "0Gbit/s", "caps.json", "", "fast"])
def test_a_cap_that_is_neither_bandwidth_nor_file(tmp_path, cap):
    message = error(put(tmp_path, "own.json", OWN), node_cap=cap)
    assert message.startswith(f"node cap '{cap}': neither a bandwidth such as 5Gbit/s nor an existing file")


# Real networks


@needs_shared
def test_interoute():
    path = SHARED / "Interoute.graphml"
    document = quietly(path, bandwidth_Bps=1.25e9, latency_s=5e-3)
    assert len(document["nodes"]) == 110 and len(document["links"]) == 158 - 2
    assert len(set(names(document))) == 110 and "Bremen" in names(document) and document["name"] == "Interoute"
    assert sum(name.startswith("None (") for name in names(document)) == 6
    assert len(set(map(frozenset, ends(document)))) < 156, "parallel edges stay parallel"
    assert messages(path, bandwidth_Bps=1.25e9, latency_s=5e-3) == [
        f"{path}: 2 self-loops dropped (at Dubai, Luxembourg)",
        f"{path}: 312 links without bandwidth (first 'Bremen' - 'Hamburg') take 1.25GB/s, "
        "312 links without latency (first 'Bremen' - 'Hamburg') take 5ms",
    ]
    assert "312 links without bandwidth" in error(path)


@needs_shared
def test_skyplane():
    document = quietly(SHARED / "skyplane_matrix.json")
    assert len(document["nodes"]) == 64 and len(document["links"]) == 4032
    assert min(values(document, "bandwidth_Bps")) == 379 * 125_000
    assert min(values(document, "latency_s")) == 0.000769
    [message] = messages(SHARED / "skyplane_matrix.json")
    assert "372 links without latency" in message and message.endswith("take 74.9663ms, the median of the others")
    capped = quietly(SHARED / "skyplane_matrix.json", node_cap="5Gbit/s")
    assert len(capped["nodes"]) == 128 and len(capped["links"]) == 4032 + 128


@needs_shared
def test_ibm_and_b4():
    ibm = quietly(SHARED / "ibm_cloud_latency.json", bandwidth_Bps=1e9)
    assert len(ibm["nodes"]) == 13 and len(ibm["links"]) == 156 and ibm["links"][0]["latency_s"] == 0.0175
    assert "156 links without bandwidth" in error(SHARED / "ibm_cloud_latency.json")
    b4 = quietly(SHARED / "gscale_b4.json", bandwidth_Bps=1e9)
    assert len(b4["nodes"]) == 12 and len(b4["links"]) == 19 and all(values(b4, "both_ways"))
