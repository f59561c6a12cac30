"""Explicit routes: the network that they make, in every format that can say them, and what is refused."""

import heapq
import json
import warnings
from itertools import count, pairwise, permutations
from pathlib import Path
from random import Random

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import test_underlays
import treefold
from commands import command
from reading import messages, network, put, quietly, refused
from tools.wan_box import network as box
from treefold import TreefoldError, exporters, probe
from treefold.importers import TopologyWarning

FORM = {"format": "treefold-topology", "version": 1, "name": "net"}


def link(source, target, bandwidth_Bps=1e9, latency_s=1e-3, **more):
    ends = {"source": source, "target": target, "bandwidth_Bps": bandwidth_Bps, "latency_s": latency_s}
    return ends | {"both_ways": True} | more


def route(*names, **more):
    return {"source": names[0], "target": names[-1], "via": list(names[1:-1])} | more


def both(*names):
    return route(*names, both_ways=True)


NODES = [*({"name": name} for name in "abc"), {"name": "r", "kind": "switch", "latency_s": 1e-4}]
NODES.append({"name": "s", "kind": "switch"})
LINKS = [link("a", "r"), link("b", "r", overhead_s=2e-6), link("r", "s", 5e8, overhead_s=1e-6), link("s", "c")]
ROUTES = [both("a", "r", "b"), both("b", "r", "s", "c"), both("a", "r", "s", "c")]


def own(*routes, **more):
    return FORM | {"nodes": NODES, "links": LINKS, "routes": list(routes or ROUTES)} | more


def links(network):
    return {(each.source, each.target): each for each in network.links()}


def shared(network):
    """The width of each shared capacity, and the ends of its links."""
    ends = [each.source + each.target for each in network.links()]
    return {each.name: (each.bandwidth_Bps, [ends[place] for place in each.links]) for each in network.shared()}


def test_routes_are_links_that_share_their_cables():
    made = treefold.topology(own())
    assert made.switches == 0 and made.rank_names == ["a", "b", "c"] and made.num_links == 6
    far, near = links(made)["b", "c"], links(made)["a", "b"]
    assert (near.bandwidth_Bps, near.latency_s, near.overhead_s) == (1e9, 2.1e-3, 2e-6)
    assert (far.bandwidth_Bps, far.latency_s, far.overhead_s) == (5e8, 3.101e-3, 2e-6)
    found = shared(made)
    assert found["cable r -> s"] == (5e8, ["bc", "ac"]) and found["cable a -> r"] == (1e9, ["ab", "ac"])
    assert not any("c" in name.split()[1:] for name in found), "what the same routes cross is said once, by the least"


def test_what_limits_nothing_is_left_out():
    wide = [*LINKS[:3], link("s", "c", 1e9), link("a", "c", 1e8)]
    made = treefold.topology(own(*ROUTES[:2], links=wide))
    assert {*shared(made)} == {"cable b -> r", "cable r -> b"}, "a and b fill the cable of b together, no other"
    assert links(made)["a", "c"].bandwidth_Bps == 1e8, "without a route the link between two ranks stays"


def test_a_route_takes_the_place_of_a_link_between_its_ends():
    made = treefold.topology(own(links=[*LINKS, link("a", "c", 9e9), link("a", "c", 9e9)]))
    assert links(made)["a", "c"].bandwidth_Bps == 5e8 and made.num_links == 6


def test_only_ranks_have_routes():
    made = treefold.topology(own(), ranks="b,c")
    assert {*links(made)} == {("b", "c"), ("c", "b")} and made.accelerator_names == ["a", "b", "c"]
    assert {*links(treefold.topology(own(ranks=["c", "b"])))} == {("b", "c"), ("c", "b")}
    assert treefold.topology(own(), rank_order="c,a,b").rank_names == ["c", "a", "b"]


def bus(*routes):
    shares = [each | {"shares": ["bus"]} for each in LINKS[:2]]
    return own(*routes, links=[*shares, *LINKS[2:]], shared=[{"name": "bus", "bandwidth_Bps": 1.5e9}])


def test_a_shared_capacity_counts_as_often_as_it_is_crossed():
    made = treefold.topology(bus(ROUTES[0]), ranks="a,b")
    assert shared(made) == {"bus": (7.5e8, ["ab", "ba"])} and made.links()[0].bandwidth_Bps == 7.5e8
    assert made.to_json() == treefold.topology(json.loads(made.to_json())).to_json()
    with pytest.warns(TopologyWarning, match="routes cross shared capacity 'bus' from 1 to 2 times; each counts as 2"):
        unlike = treefold.topology(bus(*ROUTES))
    assert shared(unlike)["bus"] == (7.5e8, ["ab", "ba", "bc", "cb", "ac", "ca"])


def test_caps_of_nodes_are_shared_by_routes():
    made = treefold.topology(own(), node_cap="0.6GB/s")
    assert shared(made)["a egress"] == (6e8, ["ab", "ac"]) and "cable a -> r" not in shared(made)
    passing = FORM | {"nodes": NODES[:3], "links": [link("a", "b"), link("b", "c")], "routes": [both("a", "b", "c")]}
    assert shared(treefold.topology(passing, node_cap="0.9GB/s"))["b egress"] == (9e8, ["ba", "bc", "ac", "ca"])


def test_a_name_that_is_taken_is_not_given_again():
    taken = own(links=[*LINKS[:3], link("s", "c", shares=["cable r -> s"])])
    made = treefold.topology(taken | {"shared": [{"name": "cable r -> s", "bandwidth_Bps": 1.1e9}]})
    assert shared(made)["cable r -> s"][0] == 1.1e9 and shared(made)["cable r -> s'"] == (5e8, ["bc", "ac"])


def test_pairs_without_a_way_are_told_if_switches_vanish():
    with pytest.warns(TopologyWarning, match="2 pairs of ranks have neither a route nor a link \\(first 'a' -> 'c'\\)"):
        treefold.topology(own(*ROUTES[:2]))
    with pytest.warns(TopologyWarning, match="1 pair of ranks has neither a route nor a link \\('c' -> 'b'\\)"):
        treefold.topology(own(*ROUTES[:1], *ROUTES[2:], route("b", "r", "s", "c")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        treefold.topology(own())
        sites = FORM | {"nodes": [{"name": name} for name in "abcd"], "routes": [both("a", "b", "c")]}
        treefold.topology(sites | {"links": [link(*pair) for pair in pairwise("abcd")]})


TABLE = "source,target,bandwidth,latency,via\na,b,1GB/s,1ms,\nb,c,1GB/s,1ms,\n"
NODE_LINK = {
    "nodes": [{"id": name} for name in "abc"],
    "edges": [{"source": a, "target": b, "bandwidth": "1GB/s", "latency": "1ms"} for a, b in ("ab", "bc")],
}
WRITTEN = {
    "csv": TABLE + "a,c,,,b\n",
    "dot": f"graph {{ routes={json.dumps(json.dumps([both('a', 'b', 'c')]))}"
    + '\n a -- b -- c [bandwidth="1GB/s", latency="1ms"] }',
    "gml": "graph [ routes '{}'".format(json.dumps([both("a", "b", "c")]).replace('"', "&#34;")).replace("'", '"')
    + "".join(f' node [ id {place} label "{name}" ]' for place, name in enumerate("abc"))
    + "".join(f' edge [ source {a} target {b} bandwidth "1GB/s" latency "1ms" ]' for a, b in ("01", "12"))
    + " ]",
    "json": NODE_LINK | {"graph": {"routes": [both("a", "b", "c")]}},
}


@pytest.mark.parametrize("extension", WRITTEN)
def test_formats_tell_routes(tmp_path, extension):
    path = put(tmp_path, f"net.{extension}", WRITTEN[extension])
    document = quietly(path)
    assert document["routes"] == [both("a", "b", "c")]
    read = network(path)
    assert read.num_links == 6 and shared(read)["cable a -> b"] == (1e9, ["ab", "ac"])
    for other in ("json", "graphml", "dot"):
        exporters.write(document, tmp_path / f"again.{other}")
        assert quietly(tmp_path / f"again.{other}") == document
        treefold.save(read, tmp_path / f"made.{other}")
        assert network(tmp_path / f"made.{other}") == read and "routes" not in quietly(tmp_path / f"made.{other}")


def test_a_table_may_say_which_way_a_route_goes(tmp_path):
    text = TABLE + "a,c,,,b\n"
    rows = [row + ("true" if row.startswith("a,c") else "") for row in text.replace("\n", ",\n").splitlines()]
    marked = "\n".join([rows[0] + "one_way", *rows[1:]])
    assert quietly(put(tmp_path, "one.csv", marked))["routes"] == [route("a", "b", "c", both_ways=False)]
    ways = quietly(put(tmp_path, "two.csv", TABLE + "a,c,,,b\nc,a,,,b\n"))["routes"]
    assert ways == [route("a", "b", "c", both_ways=False), route("c", "b", "a", both_ways=False)]
    quoted = TABLE.replace(",b", ",b;1").replace("b,c", "b;1,c").replace("b;1and", "band") + 'a,c,,,"[""b;1""]"\n'
    assert quietly(put(tmp_path, "list.csv", quoted))["routes"][0]["via"] == ["b;1"]
    assert "(did you mean via?)" in messages(put(tmp_path, "near.csv", TABLE.replace("via", "vai")))[0]


@pytest.mark.parametrize(
    ("routes", "expected"),
    [
        ([], "'routes' is empty; list routes such as {"),
        ({"a": "b"}, "'routes' must be a list, got {'a': 'b'}"),
        (["ab"], "route 0: must be an object such as {"),
        ([{"from": "a", "target": "b"}], "route 0: 'source' must be a text that is not empty, got None"),
        (
            [route("a", "r", "b") | {"hops": []}],
            "route 0 ('a' -> 'b'): unknown key 'hops'; the keys are source, target",
        ),
        ([route("a", "b") | {"via": "r"}], "'via' must be a list of the names of the nodes on the way, got 'r'"),
        ([route("a", "b") | {"via": [3]}], "'via' must be a list of the names of the nodes on the way, got [3]"),
        ([route("a", "r", "b", both_ways=1)], "'both_ways' must be true or false, got 1"),
        ([route("a", "r", "c")], "route 0 ('a' -> 'c'): no link leads from 'r' to 'c'; add one, or name the nodes bet"),
        ([both("a", "r", "b"), route("b", "r", "a")], "route 1 ('b' -> 'a'): 'b' -> 'a' has a route already; keep one"),
        ([route("a", "r", "s", "r", "b")], "it passes 'r' twice; name each node on the way once"),
        ([route("a", "a", "r", "b")], "it passes 'a' twice"),
        ([route("a", "r", "a")], "it ends where it begins; give it another target, or leave it out"),
        ([route("a", "r")], "'r' is a switch; let routes begin and end at accelerators"),
        ([route("a", "rr", "b")], "node 'rr' is not in the network; its nodes are a, b, c, r, s"),
        ([ROUTES[0]], "add links, or choose ranks within one by ranks=LIST; routes, and links between ranks, are all"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, routes, expected):
    assert expected in refused(put(tmp_path, "net.json", own() | {"routes": routes}))


def test_names_that_are_near_are_asked_for():
    nodes = [{"name": name} for name in ("paris", "london", "berlin")]
    near = FORM | {"nodes": nodes, "links": [link("paris", "london"), link("london", "berlin")]}
    with pytest.raises(TreefoldError, match=r"node 'londn' is not in the network; did you mean 'london'\?"):
        treefold.topology(near | {"routes": [route("paris", "londn", "berlin")]})


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ([*LINKS[:3], link("s", "c", both_ways=False)], "no link leads from 'c' to 's'; there is one back only; add"),
        (
            [*LINKS, link("a", "r")],
            "2 parallel links lead from 'a' to 'r', and nothing says which it takes; write them",
        ),
        ([link("a", "r", shares=["x"]), *LINKS[1:]], "shared capacity 'x' is unknown"),
    ],
)
def test_links_that_routes_cannot_take_are_refused(tmp_path, links, expected):
    assert expected in refused(put(tmp_path, "net.json", own(links=links)))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "n.csv",
            TABLE + "a,c,1GB/s,,b\n",
            "line 4: a row with 'via' is a route over other rows' links; leave its band",
        ),
        ("n.csv", TABLE + "a,c,,,x\n", "route 0 ('a' -> 'c'): node 'x' is not in the network"),
        ("n.csv", "source,target,via\na,c,b\n", "the network has no nodes"),
        ("n.json", {"nodes": 2, "edges": [[0, 1]], "routes": []}, "'routes' is not read here; write treefold's own"),
        ("n.json", NODE_LINK | {"routes": []}, "or node-link JSON with 'routes' in its 'graph'"),
        ("n.json", {"names": ["a"], "rtt_ms": [[0]], "routes": []}, "'routes' is not read here"),
        ("n.json", NODE_LINK | {"graph": {"routes": "x"}}, "'routes' must be a JSON list such as [{"),
        ("n.json", NODE_LINK | {"graph": {"routes": "[]"}}, "'routes' is empty"),
    ],
)
def test_formats_refuse_what_is_no_route(tmp_path, name, content, expected):
    assert expected in refused(put(tmp_path, name, content))


def shortest(document):
    """The shortest route of each pair of accelerators: the fewest hops, then the least latency."""
    onward = {node["name"]: [] for node in document["nodes"]}
    for each in document["links"]:
        onward[each["source"]].append((each["target"], each["latency_s"]))
        onward[each["target"]].append((each["source"], each["latency_s"]))
    ends = [node["name"] for node in document["nodes"] if node.get("kind") != "switch"]
    ways, order = {}, count()
    for source in ends:
        queue, reached = [(0, 0.0, next(order), [source])], set()
        while queue:
            hops, late_s, _, way = heapq.heappop(queue)
            if way[-1] not in reached:
                reached.add(way[-1])
                ways[source, way[-1]] = way
                for node, latency_s in onward[way[-1]]:
                    heapq.heappush(queue, (hops + 1, late_s + latency_s, next(order), [*way, node]))
    return {pair: ways[pair] for pair in permutations(ends, 2)}


def random_network(seed, is_tree):
    """A connected network of ranks and switches whose shortest routes are the only ones."""
    random = Random(seed)
    names = [f"n{place}" for place in range(random.randint(3, 9))]
    pairs = {(random.choice(names[:place]), names[place]) for place in range(1, len(names))}
    if not is_tree:
        pairs |= {tuple(sorted(random.sample(names, 2))) for _ in range(4)}
    kinds = ["switch" if random.random() < 0.4 else "accelerator" for _ in names]
    kinds[:2] = ["accelerator"] * 2
    nodes = [{"name": name, "kind": kind} for name, kind in zip(names, kinds, strict=True)]
    widths = (1e9, 1e9, 2e9, 3e8)
    made = [link(*pair, random.choice(widths), round(random.uniform(1e-4, 5e-3), 7)) for pair in sorted(pairs)]
    return FORM | {"nodes": nodes, "links": made}


@pytest.mark.parametrize("seed", range(25))
def test_a_tree_with_its_routes_has_the_bound_that_it_has_without(seed):
    document = random_network(seed, is_tree=True)
    routes = [route(*way) for way in shortest(document).values()]
    given = treefold.bound(treefold.topology(document | {"routes": routes})).all_reduce
    assert given.rate_Bps == pytest.approx(treefold.bound(treefold.topology(document)).all_reduce.rate_Bps, rel=1e-6)


@pytest.mark.parametrize("seed", range(25))
def test_shortest_routes_change_no_load_and_no_time(seed):
    document = random_network(seed, is_tree=seed % 5 == 0)
    ways = shortest(document)
    plain, made = (
        treefold.topology(each) for each in (document, document | {"routes": [route(*way) for way in ways.values()]})
    )
    plans = [treefold.plan(each, "direct") for each in (plain, made)]
    for simulator in ("analytic", "flow"):
        times = [treefold.simulate(plan, size_bytes="1MiB", simulator=simulator).time_s for plan in plans]
        assert times[1] == pytest.approx(times[0], rel=1e-6)
    before, after = ({(use.source, use.target): use for use in treefold.trace(plan).links()} for plan in plans)
    sent = {pair: use.full_rate_s * links(made)[pair].bandwidth_Bps for pair, use in after.items()}
    for hop, use in before.items():
        crossing = sum(sent[pair] for pair, way in ways.items() if hop in pairwise(way))
        assert use.full_rate_s * links(plain)[hop].bandwidth_Bps == pytest.approx(crossing)
    for use in treefold.trace(plans[1]).shared():
        assert use.full_rate_s == pytest.approx(before[tuple(use.name.split()[1::2])].full_rate_s)


@pytest.mark.parametrize("seed", range(5))
def test_plans_on_routes_are_right_and_within_their_bound(seed):
    document = random_network(seed, is_tree=False)
    ways = shortest(document)
    made = treefold.topology(document | {"routes": [route(*way) for way in ways.values()]})
    assert treefold.topology(json.loads(made.to_json())) == made
    rate_Bps = treefold.bound(made).all_reduce.rate_Bps
    for algorithm in ("packing", "multitree", "ring"):
        plan = treefold.plan(made, algorithm)
        assert treefold.check(plan).correct
        assert (64 << 20) / treefold.simulate(plan, size_bytes="64MiB").time_s <= rate_Bps * (1 + 1e-9)
        arrays = [np.full(7, rank, np.int64) for rank in range(made.ranks)]
        assert all((result == sum(range(made.ranks))).all() for result in treefold.run(plan, arrays))
    assert treefold.explain(made) and treefold.draw(made).startswith(b"<")


@pytest.mark.parametrize("name", test_underlays.UNDERLAYS)
def test_the_bound_is_that_of_a_linear_program_over_the_routes(name):
    document = quietly(test_underlays.UNDERLAYS[name])
    routes = [route(*way) for way in test_underlays.routes(name).values()]
    bound = treefold.bound(treefold.topology(document | {"routes": routes})).all_reduce
    rate_Bps = test_underlays.routed_rate_Bps(box.read(test_underlays.UNDERLAYS[name]))
    assert bound.is_exact and bound.rate_Bps == pytest.approx(rate_Bps, rel=1e-6)


def test_a_detour_is_slower_than_the_way_that_nobody_takes():
    square = [link("a", "b"), link("b", "c"), link("c", "d"), link("d", "a")]
    sites = FORM | {"nodes": [{"name": name} for name in "abcd"], "links": square}
    detour = treefold.topology(sites | {"routes": [both("a", "d", "c", "b")]})
    assert links(detour)["a", "b"].latency_s == 3e-3 and shared(detour)["cable d -> c"] == (1e9, ["dc", "ab"])
    bounds = [treefold.bound(each).all_reduce.rate_Bps for each in (treefold.topology(sites), detour)]
    assert bounds[1] < 0.8 * bounds[0]


def test_a_probe_measures_the_routes_of_a_file(tmp_path):
    document = probe.read_links(put(tmp_path, "net.json", own()))
    assert {(each["source"], each["target"]) for each in document["links"]} == {*permutations("abc", 2)}
    assert [node["name"] for node in document["nodes"]] == ["a", "b", "c"]


def test_too_many_hops_are_refused_soon(tmp_path):
    way = [f"n{place}" for place in range(1001)]
    many = FORM | {"nodes": [{"name": name} for name in way], "links": [link(*pair) for pair in pairwise(way)]}
    routes = [route(*way)] * 1001
    assert "its routes have 1,001,000 hops in all" in refused(put(tmp_path, "n.json", many | {"routes": routes}))
    rows = f"a,c,,,{';'.join('b' * 60_000)}\n" * 51
    assert "holds more than 3,000,000 values" in refused(put(tmp_path, "n.csv", TABLE + rows))


def test_the_schema_knows_routes():
    path = Path(__file__).parents[1] / "schema" / "topology.schema.json"
    schema = Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))
    assert schema.is_valid(own()) and not schema.is_valid(own() | {"routes": []})
    assert not schema.is_valid(own(route("a", "b") | {"way": []}))


def test_values_that_are_filled_in_are_used(tmp_path):
    table = put(tmp_path, "net.csv", "source,target,via\na,b,\nb,c,\na,c,b\n")
    made = network(table, bandwidth_Bps=2e9, latency_s=1e-3)
    assert links(made)["a", "c"].latency_s == 2e-3 and links(made)["a", "c"].bandwidth_Bps == 2e9
    shown = command("topology", table, "--bandwidth", "2GB/s", "--latency", "1ms", "--ranks", "a,c")
    assert "a - c  2GB/s  2ms" in shown.stdout and "has no effect" not in shown.stderr, "no link takes 1 ms any more"
