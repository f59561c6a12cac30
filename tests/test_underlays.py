"""Networks whose routers the workers are not told: each is what its name says, and its routes are told apart."""

from collections import defaultdict
from itertools import pairwise

import highspy
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


def routed_rate_Bps(wan):
    """The rate of the fastest all-reduce over the box's routes, by a linear program.

    Trees from a worker to all others pack as well as the worst of the flows to each other worker allows (Edmonds,
    "Edge-Disjoint Branchings", 1973), and trees towards it likewise; vectors are cut among all workers as roots.
    """
    program, hops = highspy.Highs(), network.next_hops(wan)
    program.setOptionValue("output_flag", False)
    parts = [program.addVariable(0, highspy.kHighsInf) for _ in wan.workers]
    loads = defaultdict(list)
    for is_reduced in (False, True):
        rates = {(a, b): program.addVariable(0, highspy.kHighsInf) for a in wan.workers for b in wan.workers if a != b}
        for (a, b), rate in rates.items():
            for link in network.route(hops, *((b, a) if is_reduced else (a, b))):
                loads[link].append(rate)
        for sink in wan.workers:
            hold_flow(program, rates, dict(zip(wan.workers, parts, strict=True)), sink)
    for link, crossing in loads.items():
        program.addConstr(sum(crossing) <= wan.directions[link].bandwidth_Bps / 1e6)
    program.maximize(sum(parts))
    assert program.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return program.getInfo().objective_function_value * 1e6


def hold_flow(program, rates, parts, sink):
    """Have the rates hold a flow from all workers, each with its part, to one."""
    flows = {pair: program.addVariable(0, highspy.kHighsInf) for pair in rates}
    for pair, flow in flows.items():
        program.addConstr(flow <= rates[pair])
    for worker, part in parts.items():
        begins = program.addVariable(0, highspy.kHighsInf)
        program.addConstr(begins <= part)
        arriving = sum(flow for (_, b), flow in flows.items() if b == worker)
        leaving = sum(flow for (a, _), flow in flows.items() if a == worker)
        program.addConstr(arriving + begins - leaving == (sum(parts.values()) if worker == sink else 0))


@pytest.mark.parametrize("name", UNDERLAYS)
def test_the_routes_of_the_box_allow_as_much_as_the_bound(name):
    """The bound may lead traffic over any routers; where it could use that, no plan would reach it in the box."""
    bound = treefold.bound(treefold.topology(UNDERLAYS[name])).all_reduce
    assert routed_rate_Bps(network.read(UNDERLAYS[name])) == pytest.approx(bound.rate_Bps, rel=1e-6)


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


def test_the_tests_of_a_probe_are_counted():
    assert discover.tests({"rounds": [{"tests": 2}, {"tests": 6}]}) == 6
    assert discover.tests({"rounds": []}) == 0
