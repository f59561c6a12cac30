"""Networks are edited without JSON, and the trees of plans can be walked."""

import itertools
import json
from collections import Counter

import pytest

import treefold
from treefold import Plan, TreefoldError, report

SPECS = ["torus:4x4", "mesh:2x3", "dgx2:planes=6", "cluster:nodes=2,gpus=4,rails=2", "b4", "random:n=9,seed=2"]
RING = treefold.topology("ring:4")
CABLE = ("GPU0", "GPU1")


def ends(network):
    return [(link.source, link.target) for link in network.links()]


@pytest.mark.parametrize("spec", SPECS)
def test_links_and_nodes_are_those_of_the_document(spec):
    network = treefold.topology(spec)
    document = json.loads(network.to_json())
    nodes = network.nodes()
    assert [node.name for node in nodes] == [node["name"] for node in document["nodes"]]
    assert [node.is_switch for node in nodes] == [node.get("kind") == "switch" for node in document["nodes"]]
    assert len(nodes) == network.accelerators + network.switches
    by_rank = {node.rank: node.name for node in nodes if node.rank is not None}
    assert [by_rank[rank] for rank in range(network.ranks)] == network.rank_names
    assert len(network.links()) == network.num_links
    listed = Counter()
    for link in document["links"]:
        for source, target in [(link["source"], link["target"]), (link["target"], link["source"])]:
            listed[source, target, link["bandwidth_Bps"]] += 1
            if not link.get("both_ways"):
                break
    assert Counter((link.source, link.target, link.bandwidth_Bps) for link in network.links()) == listed


def test_nodes_have_the_numbers_of_link_columns_and_a_relay_goes_before_a_switch():
    nodes = [{"name": "SW", "kind": "switch"}, {"name": "relay"}, {"name": "a"}, {"name": "b"}]
    links = [{"source": name, "target": "SW", "both_ways": True, "bandwidth_Bps": 1e9} for name in ("relay", "a", "b")]
    document = {"format": "treefold-topology", "version": 1, "nodes": nodes, "links": links, "ranks": ["b", "a"]}
    network = treefold.Topology.from_json(json.dumps(document))
    numbers = {node.name: node.number for node in network.nodes()}
    assert numbers == {"b": 0, "a": 1, "relay": 2, "SW": 3}
    sources, targets, _ = network.link_columns()
    columns = zip(sources.tolist(), targets.tolist(), strict=True)
    assert list(columns) == [(numbers[source], numbers[target]) for source, target in ends(network)]


def test_bandwidths_are_set_for_cables_or_one_way():
    both = RING.with_bandwidths({CABLE: "1Gbit/s"})
    one = RING.with_bandwidths({CABLE: 125e6}, one_way=True)
    for network, expected in ((both, {CABLE, CABLE[::-1]}), (one, {CABLE})):
        slow = {(link.source, link.target) for link in network.links() if link.bandwidth_Bps == 125e6}
        assert slow == expected
        assert [link.latency_s for link in network.links()] == [link.latency_s for link in RING.links()]
        assert network != RING
    assert treefold.bound(both).all_reduce.rate_Bps < treefold.bound(RING).all_reduce.rate_Bps
    rates = {(link.source, link.target): link.bandwidth_Bps for link in RING.links()}
    for one_way, pairs in ((False, (CABLE, CABLE[::-1])), (True, (CABLE,))):
        scaled = RING.with_scaled_bandwidths({CABLE: 0.5}, one_way=one_way)
        halved = {(link.source, link.target): link.bandwidth_Bps for link in scaled.links()}
        assert halved == rates | {pair: rates[pair] / 2 for pair in pairs}
    apart = {CABLE: 0.5, CABLE[::-1]: 0.25}
    scaled = RING.with_scaled_bandwidths(apart, one_way=True)
    assert {link.bandwidth_Bps / rates[CABLE] for link in scaled.links()} == {0.25, 0.5, 1.0}


def test_links_are_left_out_in_both_directions_or_one():
    line = RING.without_links([CABLE])
    assert line == RING.without_links([list(CABLE)])
    assert (line.num_links, set(ends(RING)) - set(ends(line))) == (6, {CABLE, CABLE[::-1]})
    one_way = RING.without_links([CABLE], one_way=True)
    assert (one_way.num_links, set(ends(RING)) - set(ends(one_way))) == (7, {CABLE})
    for network in (line, one_way):
        assert treefold.check(treefold.plan(network)).correct
    assert RING.num_links == 8


def test_networks_and_nodes_are_renamed():
    network = RING.renamed("cities", nodes={"GPU0": "Paris", "GPU1": "GPU0"})
    assert (network.name, network.rank_names) == ("cities", ["Paris", "GPU0", "GPU2", "GPU3"])
    assert RING.renamed(nodes={"GPU0": "Paris"}).name == RING.name
    assert ends(network)[0] == tuple({"GPU0": "Paris", "GPU1": "GPU0"}.get(each, each) for each in ends(RING)[0])
    assert network.renamed(RING.name, nodes={"Paris": "GPU0", "GPU0": "GPU1"}) == RING


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda: RING.without_links([("GPU0", "GPU2")]), "there is no link from GPU0 to GPU2"),
        (lambda: RING.without_links([("GPU0", "Paris")]), "'Paris'"),
        (lambda: RING.without_links(["GPU0", "GPU1"]), "links are named by pairs of nodes, for example"),
        (lambda: RING.with_scaled_bandwidths({"GPU0-GPU1": 0.5}), "links are named by pairs of nodes, for example"),
        (lambda: RING.with_scaled_bandwidths({CABLE: 0.5, CABLE[::-1]: 0.25}), "is named twice; name it once, or"),
        (lambda: RING.without_links([CABLE, ("GPU2", "GPU3")]), "disconnected"),
        (lambda: RING.with_bandwidths({("GPU0", "GPU2"): 1e9}), "there is no link from GPU0 to GPU2"),
        (lambda: RING.with_bandwidths({CABLE: "fast"}), "bandwidth 'fast': write a number and a unit"),
        (lambda: RING.with_bandwidths({CABLE: 0}), "link GPU0 -> GPU1: bandwidth must be positive, got 0"),
        (lambda: RING.with_added_latencies({CABLE: float("nan")}), "must be a finite number of seconds, got NaN"),
        (lambda: RING.with_added_latencies({CABLE: float("-inf")}), "must be a finite number of seconds, got -inf"),
        (lambda: RING.with_added_latencies({CABLE: "1"}), "link GPU0 -> GPU1: time '1': write a number and a unit"),
        (lambda: RING.with_added_latencies({CABLE: None}), "or a text such as 1us; got a NoneType"),
        (lambda: RING.with_added_latencies({CABLE: 1, CABLE[::-1]: 1}), "is named twice; name it once, or"),
        (lambda: RING.with_ranks([0, -1]), "there is no accelerator with index -1"),
        (lambda: RING.with_ranks([0, 1 << 70]), f"there is no accelerator with index {1 << 70}"),
        (
            lambda: RING.with_bandwidths({CABLE: None}),
            "bandwidth must be a number of bytes per second, or a text such as 10Gbit/s; got a NoneType",
        ),
        (lambda: RING.with_scaled_bandwidths({CABLE: -1}), "must be positive"),
        (lambda: RING.renamed(nodes={"Paris": "Rome"}), "'Paris'"),
        (lambda: RING.renamed(nodes={"GPU0": "GPU1"}), "'GPU1' is listed twice"),
        (lambda: RING.renamed(nodes={"GPU0": "a\nb"}), "control characters"),
        (lambda: RING.renamed(""), "name"),
    ],
)
def test_edits_that_make_no_network_are_refused_in_one_line(edit, expected):
    with pytest.raises(TreefoldError) as error:
        edit()
    assert expected in str(error.value)
    assert str(error.value).isprintable()


def plans(spec):
    for algorithm in treefold.algorithms():
        try:
            yield treefold.plan(spec, algorithm, size_bytes=1 << 20)
        except treefold.MisfitError:
            continue


def reached(root, edges, *, is_up):
    """Returns the nodes of half a tree; each edge touches a node that one before it brought."""
    nodes = {root}
    for edge in edges:
        parent, child = (edge.target, edge.source) if is_up else (edge.source, edge.target)
        assert parent in nodes and child not in nodes, edge
        nodes.add(child)
    return nodes


def check_tree(plan, tree, links):
    """Holds a tree to reaching every rank over links that there are, step after step."""
    ranks = set(plan.topology.rank_names)
    for edges, is_up in ((tree.reduce(), True), (tree.broadcast(), False)):
        assert reached(tree.root, edges, is_up=is_up) >= ranks
        for edge in edges:
            assert (edge.route[0], edge.route[-1]) == (edge.source, edge.target)
            assert all(hop in links for hop in zip(edge.route, edge.route[1:], strict=False)), edge
            assert (edge.step is None) == (plan.steps is None)
            assert edge.step is None or 1 <= edge.step <= plan.steps


@pytest.mark.parametrize(
    "spec", [pytest.param(spec, marks=[pytest.mark.slow] if "planes" in spec else []) for spec in SPECS]
)
def test_every_tree_of_every_plan_spans_all_ranks_over_links_of_the_network(spec):
    tried = 0
    for plan in plans(spec):
        links, trees = set(ends(plan.topology)), plan.trees()
        assert len(trees) == plan.num_trees
        if plan.algorithm in ("ring2d", "p2p", "exchange", "recursive-doubling", "hierarchical"):
            continue  # trees of rows and columns; trees that each bring one rank everything; trees of pairs, of groups
        assert sum(tree.share for tree in trees) == pytest.approx(1)
        assert all(0 < tree.share <= 1 and tree.phase == 0 for tree in trees)
        for tree in trees:
            check_tree(plan, tree, links)
        tried += 1
    assert tried >= 6


def test_ranks_that_take_everything_have_trees_of_their_own():
    plan = treefold.plan("dgx2:planes=6", "p2p")
    shares = Counter()
    for tree in plan.trees():
        assert reached(tree.root, tree.reduce(), is_up=True) == set(plan.topology.rank_names)
        assert tree.broadcast() == []
        shares[tree.root] += tree.share
    assert shares == dict.fromkeys(plan.topology.rank_names, pytest.approx(1))


def test_phases_of_rows_and_columns_serve_a_part_of_the_ranks_each():
    plan = treefold.plan("torus:4x4", "ring2d")
    by_phase = {}
    for tree in plan.trees():
        by_phase.setdefault(tree.phase, []).append(tree)
        assert len(reached(tree.root, tree.broadcast(), is_up=False)) == 4
    assert [sum(tree.share for tree in trees) for trees in by_phase.values()] == [4, 4]


def test_collectives_have_the_half_that_they_need():
    for collective, halves in {
        "reduce-scatter": (True, False),
        "all-gather": (False, True),
        "reduce": (True, False),
        "broadcast": (False, True),
        "all-reduce": (True, True),
    }.items():
        trees = treefold.plan("torus:4x4", "multitree", collective=collective, root=3).trees()
        assert {(bool(tree.reduce()), bool(tree.broadcast())) for tree in trees} == {halves}, collective
        assert sum(tree.share for tree in trees) == pytest.approx(1)
        if collective in ("reduce", "broadcast"):
            assert {tree.root for tree in trees} == {"GPU3"}


def test_parents_come_before_children_in_time():
    for tree in treefold.plan("torus:4x4", "multitree").trees():
        arrives = {tree.root: 0}
        for edge in tree.broadcast():
            assert edge.step > arrives[edge.source]
            arrives[edge.target] = edge.step
        leaves = {}
        for edge in reversed(tree.reduce()):
            assert all(edge.step > step for target, step in leaves.items() if target == edge.source)
            leaves[edge.target] = max(edge.step, leaves.get(edge.target, 0))


def test_trees_of_one_rank_and_of_a_wrong_plan():
    [tree] = treefold.plan("ring:1", "ring").trees()
    assert (tree.root, tree.share, tree.reduce(), tree.broadcast()) == ("GPU0", 1.0, [], [])
    document = json.loads(treefold.plan("ring:4", "ring").to_json())
    document["phases"][0]["trees"].pop()
    with pytest.raises(TreefoldError, match="can only be checked"):
        Plan.from_json(json.dumps(document)).trees()


def test_what_is_walked_says_what_it_is():
    plan = treefold.plan("torus:2x2", "multitree")
    tree = plan.trees()[0]
    assert repr(tree) == 'Tree(root="GPU0", share=0.2500, phase=0)'
    assert repr(tree.broadcast()[0]).startswith('Edge("GPU0" -> "GPU')
    assert repr(RING.links()[0]) == 'Link("GPU0" -> "GPU3", 16GB/s, 150ns)'
    assert repr(RING.nodes()[0]) == 'Node("GPU0", rank=0)'


# Links that are equally busy


def test_all_links_that_are_as_busy_as_the_busiest_are_known():
    plan = treefold.plan("torus:4x4", "multitree")
    shown = report.plan_table(treefold.summarize(plan))
    assert "the busiest links: GPU0 - GPU3, GPU0 - GPU1, GPU1 - GPU2 and 13 others" in shown
    assert len(plan.busiest_links) == len(treefold.trace(plan, size_bytes=1 << 20).busiest_links) == 32


def test_one_direction_of_a_cable_can_be_the_busiest():
    network = treefold.topology("ring:4").with_bandwidths({("GPU2", "GPU3"): 1e9}, one_way=True)
    plan = treefold.plan(network, "ring")
    assert plan.busiest_links == ["GPU2 -> GPU3"]
    assert report.plan_table(treefold.summarize(plan)).endswith("by the busiest link: GPU2 -> GPU3")
    prediction = treefold.simulate(plan, size_bytes=1 << 20, simulator="flow")
    assert prediction.busiest_links == ("GPU2 -> GPU3",)


def test_cables_whose_loads_differ_by_rounding_are_equally_busy():
    """Rates of trees are rounded, so loads at the same limit differ a little."""
    network = treefold.topology("b4")
    plan = treefold.plan(network, "packing", size_bytes=1 << 30)
    loads = dict.fromkeys(((link.source, link.target) for link in network.links()), 0.0)
    for tree in plan.trees():
        for edge in (*tree.broadcast(), *tree.reduce()):
            for hop in itertools.pairwise(edge.route):
                loads[hop] += tree.share
    most = max(loads.values())
    full = {f"{source} -> {target}" for (source, target), load in loads.items() if load > most * 0.998}
    assert set(plan.busiest_links) == full


def test_no_link_is_busy_where_nothing_is_sent():
    plan = treefold.plan("ring:1", "ring")
    assert plan.busiest_links == []
    assert treefold.trace(plan, size_bytes=1 << 20).busiest_links == []
