"""Formats of graphs: node-link JSON, lists of edges in JSON, GraphML, GML and DOT."""

import json
from pathlib import Path

import pytest

from reading import ends, error, messages, names, put, quietly, values
from treefold.importers import read

DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).parents[1].parent / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data folder is absent")


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


@pytest.mark.parametrize(
    ("attributes", "bandwidth"),
    [
        ('LinkSpeedRaw 1e9 LinkSpeed "10" LinkSpeedUnits "G" LinkLabel "5 Gbps"', 1.25e8),
        ('LinkSpeed "10" LinkSpeedUnits "G" LinkLabel "5 Gbps"', 1.25e9),
        ('LinkSpeed "155-622" LinkSpeedUnits "M" LinkLabel "45 Mbps"', 5.625e6),
        ('LinkLabel "5 Gbps"', 6.25e8),
        ('LinkLabel "5 Gbps" capacity "1Gbit/s"', 1.25e8),
        ('LinkLabel "Lit Fibre" LinkSpeed "10"', 7),
    ],
)
def test_a_link_of_the_topology_zoo_has_the_speed_that_can_be_read(attributes, bandwidth, tmp_path):
    text = f"graph [ node [ id 0 ] node [ id 1 ] edge [ source 1 target 0 {attributes} ] ]"
    document = quietly(put(tmp_path, "zoo.gml", text), bandwidth_Bps=7)
    assert values(document, "bandwidth_Bps") == [bandwidth]


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
