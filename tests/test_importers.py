"""All formats: files that cannot be read, gaps that are filled, self-loops, and the real networks of the papers."""

import json
from pathlib import Path

import pytest

from reading import OWN, ends, error, messages, names, put, quietly, values
from treefold.importers import read

DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).parents[1].parent / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data folder is absent")


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
        ("a.csv", "source;target\na;b\n", "instead of ';'"),
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
        ("a.dot", "graph {a} graph {b}", "holds more than one graph; keep one of them"),
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


PLACED = """graph [
  node [ id 0 label "Paris" Latitude 48.8566 Longitude 2.3522 ]
  node [ id 1 label "London" Latitude 51.5074 Longitude -0.1278 ]
  node [ id 2 label "Nowhere" ]
  edge [ source 0 target 1 bandwidth "10Gbit/s" ]
  edge [ source 1 target 2 bandwidth "10Gbit/s" {given} ]
]"""


def test_missing_latencies_follow_from_coordinates(tmp_path):
    """Paris and London are 344 km apart, for which light in fibre takes 1.72 ms; other links take the median."""
    path = put(tmp_path, "g.gml", PLACED.format(given=""))
    assert values(quietly(path), "latency_s") == pytest.approx([1.718e-3, 1.718e-3], rel=2e-3)
    straight = "2 links without latency (first 'Paris' - 'London') take that of light in a straight fibre"
    assert messages(path)[0].startswith(f"{path}: {straight}, 2 links without latency (first 'London' - 'Nowhere')")
    assert values(quietly(path, latency_s=5e-3), "latency_s") == [5e-3, 5e-3]
    given = put(tmp_path, "h.gml", PLACED.format(given="latency_s 0.009"))
    assert values(quietly(given), "latency_s")[1] == 9e-3


def test_missing_bandwidths_without_a_default_are_an_error(tmp_path):
    path = put(tmp_path, "e.csv", "source,target\na,b\n")
    assert (
        error(path)
        == f"{path}: 2 links without bandwidth (first 'a' - 'b'); give them one, such as bandwidth_Bps=1.25e9"
    )
    one = put(tmp_path, "o.csv", "source,target,one_way\na,b,true\n")
    assert error(one).startswith(f"{one}: 1 link without bandwidth ('a' - 'b');")
    assert messages(one, bandwidth_Bps=1.0) == [
        f"{one}: 1 link without bandwidth ('a' - 'b') takes 1B/s, "
        "1 link without latency ('a' - 'b') takes 0s; set latency_s"
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
    assert "372 links without latency" in message and message.endswith("take 74.966ms, the median of the others")
    capped = quietly(SHARED / "skyplane_matrix.json", node_cap="5Gbit/s")
    assert len(capped["nodes"]) == 64 and len(capped["links"]) == 4032 and len(capped["shared"]) == 128


@needs_shared
def test_ibm_and_b4():
    ibm = quietly(SHARED / "ibm_cloud_latency.json", bandwidth_Bps=1e9)
    assert len(ibm["nodes"]) == 13 and len(ibm["links"]) == 156 and ibm["links"][0]["latency_s"] == 0.0175
    assert "156 links without bandwidth" in error(SHARED / "ibm_cloud_latency.json")
    b4 = quietly(SHARED / "gscale_b4.json", bandwidth_Bps=1e9)
    assert len(b4["nodes"]) == 12 and len(b4["links"]) == 19 and all(values(b4, "both_ways"))
