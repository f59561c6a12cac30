"""Caps of nodes: one for all, or a file of them by name."""

import json
from pathlib import Path

import pytest

import treefold
from reading import OWN, ends, error, messages, names, put, quietly
from treefold import runtime
from treefold.importers import read
from treefold.runtime.rates import RateMonitor

DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).parents[1].parent / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data folder is absent")


def shares(document):
    return [link.get("shares", []) for link in document["links"]]


def widths(document):
    return {shared["name"]: shared["bandwidth_Bps"] for shared in document.get("shared", [])}


def test_a_cap_is_a_capacity_that_all_links_of_an_accelerator_share(tmp_path):
    path = put(tmp_path, "own.json", OWN | {"shape": {"kind": "line"}, "ranks": ["a"]})
    document = read(path, node_cap="4Gbit/s")
    assert names(document) == ["a", "b"] and widths(document) == {"a egress": 5e8, "a ingress": 5e8}
    assert ends(document) == [("a", "b"), ("b", "a")], "the two directions share different ones"
    assert shares(document) == [["a egress"], ["a ingress"]]
    assert not any(link["both_ways"] for link in document["links"])
    assert document["ranks"] == ["a"] and document["shape"] == {"kind": "line"}, "its nodes and links are the same"


def test_a_cap_as_wide_as_the_links_limits_nothing_and_is_left_out(tmp_path):
    own = put(tmp_path, "own.json", OWN)
    assert read(own, node_cap="8Gbit/s") == read(own, node_cap="1TB/s") == read(own)
    caps = put(tmp_path, "caps.json", {"a": {"egress": "8Gbit/s", "ingress": "1Gbit/s"}})
    capped = read(own, node_cap=str(caps))
    assert widths(capped) == {"a ingress": 1.25e8} and shares(capped) == [[], ["a ingress"]]
    tenths = treefold.topology("full:4", bandwidth_Bps=0.1e9, node_cap="0.3GB/s")
    assert tenths.shared() == [], "sums are not exact"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("caps.json", {"b": {"egress": "4Gbit/s", "ingress": "2Gbit/s"}, "a": "0.5GB/s"}),
        ("caps.csv", "name,egress,ingress\nb,4Gbit/s,2Gbit/s\n\na,0.5GB/s,\n"),
        ("caps.csv", "Name,Egress,Ingress\nb,4Gbit/s,2Gbit/s\na,0.5GB/s\n"),
    ],
)
def test_caps_from_a_file(tmp_path, name, content):
    document = read(put(tmp_path, "own.json", OWN), node_cap=str(put(tmp_path, name, content)))
    assert shares(document) == [["a egress", "b ingress"], ["b egress", "a ingress"]]
    assert widths(document) == {"a egress": 5e8, "a ingress": 5e8, "b egress": 5e8, "b ingress": 2.5e8}


def test_a_file_may_cap_nobody(tmp_path):
    own, nobody = put(tmp_path, "own.json", OWN), str(put(tmp_path, "none.json", {}))
    assert quietly(own, node_cap=nobody) == read(own)
    assert messages(own, node_cap=nobody) == [f"{nobody}: 1 accelerator without a cap (a); add it to the file of caps"]


def test_other_capacities_stay_and_may_not_have_the_name_of_a_cap(tmp_path):
    [link] = OWN["links"]
    own = OWN | {"links": [link | {"shares": ["duct"]}], "shared": [{"name": "duct", "bandwidth": "1GB/s"}]}
    capped = read(put(tmp_path, "own.json", own), node_cap="4Gbit/s")
    assert shares(capped) == [["duct", "a egress"], ["duct", "a ingress"]] and widths(capped)["duct"] == 1e9
    assert list(widths(read(put(tmp_path, "again.json", capped), node_cap="none"))) == ["duct"]
    taken = json.loads(json.dumps(own).replace("duct", "a egress"))
    message = error(put(tmp_path, "own.json", taken), node_cap="4Gbit/s")
    assert message == "pair: shared capacity 'a egress' has the name of a node's cap; rename it"
    assert quietly(tmp_path / "own.json", node_cap="none")["shared"], "its links do not all leave a"


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


@pytest.mark.parametrize("links", ["ring:4", "fattree:4,2", "b4", "torus:4x4"])
def test_caps_can_be_replaced_and_left_out_again(links):
    network = treefold.topology(links)
    rate = network.links()[0].bandwidth_Bps
    capped = treefold.topology(links, node_cap=f"{0.5 * rate}B/s")
    assert (capped.switches, capped.num_links) == (network.switches, network.num_links)
    assert len(capped.shared()) == 2 * network.accelerators
    assert treefold.topology(json.loads(capped.to_json()), node_cap="none") == network
    again = treefold.topology(json.loads(capped.to_json()), node_cap=f"{0.25 * rate}B/s")
    assert again == treefold.topology(links, node_cap=f"{0.25 * rate}B/s")
    assert treefold.topology(links, node_cap="none") == network


def test_a_capped_network_keeps_its_shape_and_plans_for_it_are_right():
    """A plan takes no less than its network's bound, which the caps lower, and uses no cap for longer than it takes."""
    whole, capped = treefold.topology("torus:4x4"), treefold.topology("torus:4x4", node_cap="16GB/s")
    bound_s = treefold.bound_at(capped, "64MiB").time_s
    assert bound_s > 1.5 * treefold.bound_at(whole, "64MiB").time_s
    for algorithm in ("ring2d", "bucket", "multiring", "swing", "multitree", "packing", "mtree", "blink", "ring"):
        plan = treefold.plan(capped, algorithm)
        assert treefold.check(plan), algorithm
        for simulator in ("analytic", "flow"):
            assert treefold.simulate(plan, size_bytes="64MiB", simulator=simulator).time_s >= bound_s, algorithm
        trace = treefold.trace(plan, size_bytes="64MiB")
        assert max(each.full_rate_s for each in trace.shared()) <= trace.time_s * (1 + 1e-9), algorithm


def test_caps_limit_like_a_switch_in_front_of_each_node():
    capped = treefold.topology("b4", node_cap="30MB/s")
    document = json.loads(treefold.topology("b4").to_json())
    nodes = [node["name"] for node in document["nodes"]]
    for link in document["links"]:
        link |= {end: f"{link[end]}/switch" for end in ("source", "target")}
    document["nodes"] += [{"name": f"{name}/switch", "kind": "switch"} for name in nodes]
    wide = {"bandwidth_Bps": 30e6, "latency_s": 0.0, "both_ways": True}
    document["links"] += [{"source": name, "target": f"{name}/switch"} | wide for name in nodes]
    rates = [treefold.bound(network).all_reduce.rate_Bps for network in (capped, treefold.topology(document))]
    assert rates[0] <= rates[1] * (1 + 1e-6), "what a node passes on counts in its caps, and not in the switch's links"
    uncapped = treefold.bound("b4").all_reduce.rate_Bps
    assert rates[0] < uncapped


def test_plans_on_capped_networks_follow_them():
    capped = treefold.topology("full:3", node_cap="5Gbit/s")
    assert treefold.plan(capped, "mtree").algorithm == "mtree"
    assert runtime.in_threads(3, lambda group: group.size, network=capped, adapt=True) == [3, 3, 3]
    fattree = treefold.topology("fattree:2,2")
    with pytest.raises(treefold.TreefoldError, match=r"has switches between them; drop adapt=True"):
        runtime.in_threads(fattree.ranks, lambda group: None, network=fattree, adapt=True)


def test_a_link_that_shares_a_capacity_has_not_changed_while_others_use_it():
    capped = treefold.topology("full:4", bandwidth_Bps=100e6, node_cap="150MB/s")
    monitor = RateMonitor(treefold.plan(capped, "direct"))
    monitor.rates = {(0, 1): 50e6, (0, 2): 50e6, (0, 3): 50e6}
    assert monitor.changes() == {}, "three links fill the cap"
    monitor.rates = {(0, 1): 10e6, (0, 2): 70e6, (0, 3): 70e6}
    assert monitor.changes() == {(0, 1): 0.1}, "it gets less than a fair part"
    monitor.rates = {(0, 1): 30e6, (0, 2): 30e6, (0, 3): 30e6}
    assert set(monitor.changes()) == {(0, 1), (0, 2), (0, 3)}, "together they do not fill it"
    plain = RateMonitor(treefold.plan(treefold.topology("full:4", bandwidth_Bps=100e6), "direct"))
    plain.rates = {(0, 1): 50e6}
    assert plain.changes() == {(0, 1): 0.5}
