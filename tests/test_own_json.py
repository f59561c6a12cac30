"""Treefold's own JSON of networks: its defaults, what people write by hand, and what is wrong with it."""

import json
from pathlib import Path

import jsonschema
import pytest

import treefold
from commands import command, refused
from reading import OWN, error, put
from treefold.importers import read

DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).parents[1].parent / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data folder is absent")


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
        (link(bandwidth_Bps=0), "link 0 ('a' -> 'b'): bandwidth '0B/s': bandwidth must be positive, got 0"),
        (link(bandwidth_Bps=-5), "bandwidth must be positive, got -5"),
        (link(bandwidth_Bps=1e30), "out of range"),
        (link(bandwidth_Bps=10**400), "is not a number; give it in B/s"),
        (link(bandwidth_Bps=True), "bandwidth_Bps True is not a number"),
        (link(bandwidth_Bps="1GB/s"), "'bandwidth_Bps' must be a number, got '1GB/s'"),
        (link(bandwidth_Bps=None), "'bandwidth_Bps' must be a number, got None; leave it out"),
        (link(latency_s=-1e-6), "time must not be negative"),
        (link(overhead_s=[]), "overhead_s [] is not a number"),
        (link(both_ways=1), "'both_ways' must be true or false, got 1"),
        (link(bandwith_Bps=1), "'bandwith_Bps'; did you mean bandwidth_Bps (a number of bytes per second)?"),
        (link(delay=1), "unknown key 'delay'; did you mean latency_s (seconds)?"),
        (link(dst="b"), "unknown key 'dst'; did you mean target?"),
        (link(bandwidth="1GB/s"), "'bandwidth' and 'bandwidth_Bps' both give its bandwidth; keep one"),
        (by_hand(bandwidth=5), "got 5; did you mean bandwidth_Bps (a number of bytes per second)?"),
        (by_hand(bandwidth=""), "'bandwidth' must be a text with its unit, got ''"),
        (by_hand(latency=0.1), "got 0.1; did you mean latency_s (seconds)?"),
        (by_hand(bandwidth="5"), "bandwidth '5' has no unit; write 5Gbit/s, or name the key bandwidth_Bps"),
        (by_hand(bandwidth="1e10"), "has no unit; name the key bandwidth_Bps and give bytes per second"),
        (OWN | {"ranks": "a"}, "'ranks' must be a list of node names, got 'a'"),
        (OWN | {"ranks": [0]}, "'ranks' must be a list of node names, got [0]"),
        (OWN | {"shape": "torus"}, "'shape' must be an object, got 'torus'"),
    ],
)
def test_own_json_that_is_wrong(tmp_path, content, expected):
    path = put(tmp_path, "own.json", content)
    message = error(path)
    assert message.startswith(f"{path}: ") and expected in message


ONE_WAY = {
    "format": "treefold-topology",
    "nodes": [{"name": name} for name in "abcd"],
    "links": [
        {"source": "a", "target": end, "bandwidth_Bps": 1e9, "latency_s": 0, "both_ways": end != "d"} for end in "bcd"
    ],
    "version": 1,
}


def test_only_ranks_have_to_reach_each_other(tmp_path):
    path = put(tmp_path, "one_way.json", json.dumps(ONE_WAY))
    problem = "one-way links leave no path from d to a; add the missing direction, or leave d out by "
    with pytest.raises(treefold.TreefoldError, match=f"{problem}ranks='a,b,c'"):
        treefold.topology(path)
    assert f"{problem}--ranks a,b,c" in refused("plan", path)
    for ranks in ("a-c", "0-2", ["b", "c", "a"]):
        network = treefold.topology(path, ranks=ranks)
        assert treefold.check(treefold.plan(network, "packing"))
    assert treefold.topology(path, ranks="a-c", rank_order="c,b,a").rank_names == ["c", "b", "a"]


def test_a_network_in_parts_is_described_and_converted(tmp_path):
    path = put(tmp_path, "one_way.json", json.dumps(ONE_WAY))
    result = command("topology", path, "-o", tmp_path / "same.json")
    assert result.returncode == 0 and "a -> d" in result.stdout
    assert "collectives are planned for ranks that all reach each other: " in result.stderr
    assert "leave d out" in result.stderr
    assert refused("plan", tmp_path / "same.json")
