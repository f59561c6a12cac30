"""Capacities that links share: in every format, in tables, in pictures and in explanations."""

import json
import re

import pytest

import treefold
from reading import FORMS, OWN, messages, network, put, refused
from treefold import TreefoldError, report
from treefold.viewing import view
from treefold.viewing.scenes import scene_document

HEAD = "source,target,bandwidth,latency,shares\n"
LINKS = (("a", "b", "tunnel=12Gbit/s"), ("a", "c", "tunnel;line=7Gbit/s"), ("b", "c", ""), ("c", "d", "line"))
WANTED = {"tunnel": (1.5e9, [0, 1, 2, 3]), "line": (875e6, [2, 3, 6, 7])}


def csv(*links):
    return HEAD + "".join(f"{source},{target},10Gbit/s,1ms,{shares}\n" for source, target, shares in links or LINKS)


def found(network):
    return {shared.name: (shared.bandwidth_Bps, shared.links) for shared in network.shared()}


def node_link(*shares, **graph):
    edges = [{"source": "a", "target": "b", "bandwidth": "10Gbit/s", "shares": each} for each in shares]
    return {"nodes": [{"id": "a"}, {"id": "b"}], "edges": edges, "graph": graph}


WRITTEN = {
    "csv": csv(),
    "dot": "graph { edge [bandwidth_Bps=1250000000, latency_s=0.001]\n"
    + "\n".join(f'{source} -- {target} [shares="{shares}"]' for source, target, shares in LINKS)
    + "}",
    "gml": "graph [ "
    + " ".join(f'node [ id {place} label "{name}" ]' for place, name in enumerate("abcd"))
    + " ".join(
        f' edge [ source {"abcd".index(source)} target {"abcd".index(target)} capacity "10Gbit/s" shares "{shares}" ]'
        for source, target, shares in LINKS
    )
    + " ]",
    "json": {
        "nodes": [{"id": name} for name in "abcd"],
        "graph": {"shared": [{"name": "tunnel", "bandwidth": "12Gbit/s"}, {"name": "line", "bandwidth_Bps": 875e6}]},
        "edges": [
            {"source": source, "target": target, "bandwidth": "10Gbit/s", "shares": re.findall(r"tunnel|line", shares)}
            for source, target, shares in LINKS
        ],
    },
}


@pytest.mark.parametrize("extension", WRITTEN)
def test_formats_tell_what_links_share(tmp_path, extension):
    read = network(put(tmp_path, f"net.{extension}", WRITTEN[extension]))
    assert found(read) == WANTED and read.num_links == 8
    for other in ("json", "graphml", "dot"):
        treefold.save(read, tmp_path / f"again.{other}")
        assert network(tmp_path / f"again.{other}") == read


def test_files_without_shared_capacities_have_none(tmp_path):
    assert not any(network(put(tmp_path, f"net.{extension}", text)).shared() for extension, text in FORMS.items())


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "n.csv",
            csv(("a", "b", "x=0Gbit/s")),
            "line 2: shared capacity 'x': bandwidth '0Gbit/s': bandwidth must be positive",
        ),
        (
            "n.csv",
            csv(("a", "b", "x=fast")),
            "line 2: shared capacity 'x': bandwidth 'fast': write a number and a unit",
        ),
        ("n.csv", csv(("a", "b", "x=")), "line 2: shared capacity 'x' has no bandwidth behind '='"),
        (
            "n.csv",
            csv(("a", "b", "x")),
            "line 2: shared capacity 'x' has no bandwidth; write it once, as in NAME=10Gbit/s",
        ),
        (
            "n.csv",
            csv(("a", "b", "line=1GB/s"), ("b", "c", "lime")),
            "line 3: shared capacity 'lime' has no bandwidth; did",
        ),
        (
            "n.csv",
            csv(("a", "b", "x=1GB/s"), ("b", "c", "x=2GB/s")),
            "line 3: shared capacity 'x' has two bandwidths, 1GB",
        ),
        ("n.csv", csv(("a", "b", "x=1GB/s;x")), "line 2: 'shares' names 'x' twice; name it once"),
        ("n.csv", csv(("a", "b", "x=1GB/s;")), "line 2: 'shares' has an empty name"),
        ("n.csv", csv(("a", "b", "x=9GB/s")), "shared capacity 'x': its links carry 2.5GB/s together"),
        ("n.json", node_link(5), "'shares' must name shared capacities, as in conduit;card, got 5"),
        ("n.json", node_link(["x"]), "link 'a' -> 'b': shared capacity 'x' has no bandwidth"),
        ("n.json", node_link(["x", 3]), "'shares' must name shared capacities"),
        ("n.json", node_link("x", shared="{"), "'shared' must be a JSON list such as"),
        ("n.json", node_link("x", shared=[{"name": "x"}]), "shared capacity 0 ('x'): has no bandwidth"),
        (
            "n.json",
            node_link("", shared=[{"name": "x", "bandwidth": "1GB/s"}]),
            "shared capacity 'x': no link shares it",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, name, content, expected):
    assert expected in refused(put(tmp_path, name, content))


def own(shares, *shared):
    return OWN | {"links": [OWN["links"][0] | {"shares": shares}], "shared": list(shared)}


LINE = {"name": "line", "bandwidth": "1GB/s"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (own(["line", "line"], LINE), "link 0 ('a' -> 'b'): 'shares' names 'line' twice"),
        (own([""], LINE), "'shares' has an empty name"),
        (own("line", LINE), "'shares' must be a list of names of shared capacities, got 'line'"),
        (own(["lime"], LINE), "shared capacity 'lime' is unknown; did you mean line?"),
        (own(["line"], LINE, LINE), "shared capacity 'line' is listed twice; give each its own name"),
        (
            own(["line"], LINE | {"bandwidth": "0GB/s"}),
            "shared capacity 0 ('line'): bandwidth '0GB/s': bandwidth must be positive",
        ),
        (own(["line"], LINE | {"bandwidth": "2GB/s"}), "its links carry 2GB/s together"),
        (own(["line"], LINE | {"links": [0]}), "unknown key 'links'"),
        (own(["line"], "line"), "shared capacity 0: must be an object such as"),
        (own([]) | {"shared": {"line": 1}}, "'shared' must be a list"),
    ],
)
def test_what_is_wrong_in_treefolds_own_format(tmp_path, content, expected):
    assert expected in refused(put(tmp_path, "own.json", content))


def test_words_that_are_near_are_asked_for(tmp_path):
    text = csv(("a", "b", "")).replace("shares", "share")
    assert "(did you mean shares?)" in messages(put(tmp_path, "n.csv", text))[0]
    edge = {"source": "a", "target": "b", "bandwidth_Bps": 1e9, "latency_s": 0, "shared": "x"}
    content = {"nodes": [{"id": "a"}, {"id": "b"}], "edges": [edge]}
    assert messages(put(tmp_path, "n.json", content))[0].endswith("'shared' is ignored; did you mean shares?")


@pytest.fixture
def shared(tmp_path):
    return network(put(tmp_path, "net.csv", csv()))


def test_tables_list_what_is_shared(shared):
    text = report.network_table(shared)
    assert "shared capacities  2" in text and re.search(r"tunnel  1.5GB/s  a -> b, b -> a, a -> c, c -> a\n", text)
    assert treefold.describe(shared).as_dict()["shared"][1]["links"] == ["a -> c", "c -> a", "c -> d", "d -> c"]
    assert "<td>tunnel</td>" in treefold.describe(shared)._repr_html_()
    assert "out of GPU0" in report.network_table(treefold.topology("full:6", node_cap="20GB/s"))


def test_pictures_name_what_is_shared_and_mark_capped_nodes(shared):
    svg = treefold.draw(shared).decode()
    assert "tunnel: 1.5GB/s" in svg and "line: 875MB/s" in svg and "cap of a node" not in svg
    capped = treefold.topology("ring:4", node_cap="20GB/s")
    assert "cap of a node" in treefold.draw(capped).decode() and "egress" not in treefold.draw(capped).decode()
    many = "".join(f"a,n{place},1GB/s,1ms,x{place}=0.5GB/s\n" for place in range(9))
    assert "1 other shared capacity" in treefold.draw(_of(HEAD + many)).decode()


def _of(text):
    rows = [row.split(",") for row in text.splitlines()[1:]]
    nodes = dict.fromkeys(name for row in rows for name in row[:2])
    links = [
        {
            "source": a,
            "target": b,
            "bandwidth_Bps": 1e9,
            "latency_s": 0.0,
            "both_ways": True,
            "shares": [shares.split("=")[0]],
        }
        for a, b, _, _, shares in rows
    ]
    listed = [{"name": row[4].split("=")[0], "bandwidth_Bps": 5e8} for row in rows]
    form = {"format": "treefold-topology", "version": 1, "name": "many", "shared": listed}
    return treefold.topology(form | {"nodes": [{"name": name} for name in nodes], "links": links})


def test_bounds_and_explanations_say_what_more_of_it_is_worth(shared):
    bound = treefold.bound_at(shared, "64MiB")
    assert bound.shared and set(bound.as_dict()["shared"]) <= {"tunnel", "line"}
    assert "the rate of the shared capacit" in bound.limited_by or "and of the shared capacit" in bound.limited_by
    explained = treefold.explain(shared)
    worth = explained.shared[0]
    document = json.loads(shared.to_json())
    for each in document["shared"]:
        each["bandwidth_Bps"] *= 1.1 if each["name"] == worth.name else 1
    wider = treefold.bound(treefold.topology(document)).all_reduce.rate_Bps
    assert worth.gain_fraction > 0 and worth.rate_Bps == pytest.approx(wider, rel=1e-6)
    assert "10 % more of one shared capacity:\nshared capacity" in report.explain_table(explained)
    answer = treefold.explain(shared, upgrade={worth.name: 1.1 * worth.bandwidth_Bps}).answer
    assert answer.then.rate_Bps == pytest.approx(wider, rel=1e-6)
    assert answer.changes[0].startswith(f"shared capacity {worth.name}: bandwidth ")
    wide = treefold.explain(shared, upgrade={"tunnel": "99GB/s"}).answer
    assert wide.changes == ("shared capacity tunnel limits nothing any more",)
    with pytest.raises(TreefoldError, match="no shared capacity or link 'tunel'; did you mean tunnel"):
        treefold.explain(shared, upgrade={"tunel": "1GB/s"})


def test_a_shared_capacity_goes_with_its_links_and_changes_are_told(shared):
    plan = treefold.plan(shared, "multitree")
    assert found(shared.without_nodes(["d"]))["line"] == (875e6, [2, 3])
    narrow = shared.with_bandwidths({("a", "b"): "1Gbit/s", ("a", "c"): "1Gbit/s"})
    assert "shared capacity tunnel limits nothing any more" in treefold.replan(plan, narrow).changes
    capped = treefold.topology(json.loads(shared.to_json()), node_cap="12Gbit/s")
    cut = treefold.replan(treefold.plan(capped, "multitree"), capped.without_links([("a", "b")]))
    assert cut.changes == ("link a -> b is gone", "link b -> a is gone"), "that caps limit nothing then is no news"


def test_pages_know_what_links_share_and_how_much_of_it_is_used(shared):
    scene = view(treefold.plan(shared, "packing"), size_bytes="64MiB").scenes[0]
    document = scene_document(scene, 0, 0)
    links, used = treefold.topology(json.loads(shared.to_json())).shared(), document["shared_used"]
    assert len(used) == len(links) and max(used) > 0.5 and max(used) <= 1 + 1e-9
    sharing = {link for each in links for link in each.links}
    assert sharing & set(document["limit_links"]), "links that share what limits the network do"
    assert '"tunnel"' in view(treefold.plan(shared, "packing")).html
