"""Caps of nodes: one for all, or a file of them by name."""

import json
from pathlib import Path

import pytest

import treefold
from reading import OWN, ends, error, messages, names, put, quietly, values
from treefold import runtime
from treefold.importers import read

DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).parents[1].parent / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data folder is absent")


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


@pytest.mark.parametrize("links", ["ring:4", "fattree:4,2", "b4"])
def test_caps_can_be_left_out_again(links):
    network = treefold.topology(links)
    capped = treefold.topology(links, node_cap="5Gbit/s")
    assert capped.switches > network.switches
    without = treefold.topology(json.loads(capped.to_json()), node_cap="none")
    was, now = (json.loads(each.to_json()) for each in (network, without))
    assert (now["nodes"], now["links"]) == (was["nodes"], was["links"])
    assert treefold.topology(links, node_cap="none") == network


def test_a_switch_of_another_name_or_with_company_is_no_cap(tmp_path):
    for switch, more in (("s", []), ("a/cap", [{"source": "a", "target": "b"}]), ("a/caps", [])):
        nodes = [{"name": "a"}, {"name": "b"}, {"name": switch, "kind": "switch"}]
        links = [{"source": "a", "target": switch}, {"source": switch, "target": "b"}, *more]
        content = OWN | {"nodes": nodes, "links": [link | {"both_ways": True} for link in links]}
        path = put(tmp_path, "own.json", content)
        assert names(read(path, node_cap="none", bandwidth_Bps=1e9, latency_s=0.0)) == ["a", "b", switch]


def test_who_cannot_plan_through_caps_says_so():
    capped = treefold.topology("full:3", node_cap="5Gbit/s")
    words = r"node caps.*\(GPU0/cap, GPU1/cap, GPU2/cap\); leave .*node_cap='none'"
    with pytest.raises(treefold.MisfitError, match=words):
        treefold.plan(capped, "mtree")
    with pytest.raises(treefold.TreefoldError, match=words):
        runtime.in_threads(3, lambda group: None, network=capped, adapt=True)
    with pytest.raises(treefold.TreefoldError, match=r"has switches between them; drop adapt=True"):
        runtime.in_threads(
            treefold.topology("fattree:2,2").ranks, lambda group: None, network="fattree:2,2", adapt=True
        )
    plain = treefold.topology(json.loads(capped.to_json()), node_cap="none")
    assert treefold.plan(plain, "mtree").algorithm == "mtree"
    assert runtime.in_threads(3, lambda group: group.size, network=plain, adapt=True) == [3, 3, 3]
