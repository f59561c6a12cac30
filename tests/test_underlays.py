"""Networks whose routers the workers are not told: each is what its name says, and its routes are told apart."""

from collections import defaultdict
from itertools import pairwise

import pytest

import treefold
from bench.wan import discover
from tools.wan_box import network

UNDERLAYS = {path.stem: path for path in discover.UNDERLAYS}


def routes(name):
    """Return each pair of workers with the names of the nodes on its way."""
    wan = network.read(UNDERLAYS[name])
    hops = network.next_hops(wan)
    found = {}
    for a in wan.workers:
        for b in wan.workers:
            if a != b:
                way = [a, *(end for _, end in network.route(hops, a, b))]
                found[wan.nodes[a], wan.nodes[b]] = [wan.nodes[place] for place in way]
    return found


def crossing(name):
    """Return the pairs that cross each cable, in each direction."""
    cables = defaultdict(set)
    for pair, way in routes(name).items():
        for hop in pairwise(way):
            cables[hop].add(pair)
    return cables


@pytest.mark.parametrize("name", UNDERLAYS)
def test_workers_reach_each_other_over_routers_only(name):
    topology = treefold.topology(UNDERLAYS[name])
    assert not any(node in topology.rank_names for way in routes(name).values() for node in way[1:-1])
    assert treefold.bound(topology).all_reduce.is_exact
    plan = treefold.plan(topology, size_bytes="64MiB")
    bound_s = (64 << 20) / treefold.bound(topology).all_reduce.rate_Bps
    assert treefold.simulate(plan, size_bytes="64MiB", simulator="flow").time_s < 1.03 * bound_s


@pytest.mark.parametrize("name", UNDERLAYS)
def test_routes_are_the_only_shortest_ones(name):
    """treefold and the box break ties differently, so the box would be another network."""
    wan = network.read(UNDERLAYS[name])
    incoming = [[a for a, b in sorted(wan.links) if b == place] for place in range(len(wan.nodes))]
    hops = network.next_hops(wan)
    for target in wan.workers:
        distances = network._distances_to(wan, incoming, target)
        for source in set(wan.workers) - {target}:
            for node, _ in network.route(hops, source, target):
                nexts = [b for a, b in wan.links if a == node and b in distances]
                best = [b for b in nexts if network._step(wan, distances, node, b) == distances[node]]
                assert len(best) == 1


def test_the_provider_carries_three_pairs():
    cables = crossing("provider")
    assert cables["west", "east"] == {("w0", "w2"), ("w0", "w3"), ("w1", "w2")}
    assert cables["east", "west"] == {pair[::-1] for pair in cables["west", "east"]}


def test_two_workers_have_one_access_line():
    cables = crossing("access-lines")
    assert {source for source, _ in cables["home", "r0"]} == {"w0", "w1"}
    assert {source for source, _ in cables["office", "r2"]} == {"w4", "w5"}


def test_a_cloud_shares_nothing_but_what_a_node_has():
    for (a, b), pairs in crossing("cloud").items():
        assert len(pairs) == 1 or "w" in a + b


def test_conduits_differ_by_direction():
    wan = network.read(UNDERLAYS["asymmetric-conduits"])
    assert any(wan.directions[b, a] != each for (a, b), each in wan.directions.items())
    found = routes("asymmetric-conduits")
    assert any(way[::-1] != found[b, a] for (a, b), way in found.items()), "back by another way"


def test_the_announced_tests_are_counted():
    assert discover.tests("15 pairs, at most 43 transfers of 1 s or 1 GiB: 48 s or less") == 43
    assert discover.tests("") is None
