"""Bounds where cuts alone do not settle them: the linear program against known values, an oracle and every planner."""

import subprocess
import sys
from random import Random

import highspy
import numpy as np
import pytest

import treefold
from networks import network
from treefold.planning import bound_program

MIB = 1 << 20


def solve(topology, bound_Bps, with_switches=False):
    """The program's rate, which must be proven."""
    found = bound_program.solve(topology, bound_Bps, with_switches=with_switches)
    assert found.upper - found.lower <= bound_program.GAP * found.upper, (found, topology.to_json())
    return found.upper * bound_Bps


def one_way(*capacities):
    """A one-way ring in which link i leaves rank i."""
    names = [f"A{i}" for i in range(len(capacities))]
    around = zip(names, names[1:] + names[:1], capacities, strict=True)
    links = [{"source": a, "target": b, "bandwidth_Bps": c, "latency_s": 0, "both_ways": False} for a, b, c in around]
    nodes = [{"name": name} for name in names]
    document = {"format": "treefold-topology", "version": 1, "name": "one-way", "nodes": nodes, "links": links}
    return treefold.topology(document)


def flow_oracle(topology, with_switches):
    """The same optimum by one program: for every rank a flow within b that brings it all broadcasts, and one within r.

    A flow of rank u starts at every rank v with x(v) and ends at u with the sum of x.
    """
    ends = np.stack(topology.link_columns()[:2], axis=1)
    bandwidth, ranks, links = topology.link_columns()[2], topology.ranks, topology.links
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    rates = [highs.addVariable() for _ in range(ranks)]
    parts = [[highs.addVariable() for _ in range(links)] for _ in "br"]
    for link in range(links):
        highs.addConstr(parts[0][link] + parts[1][link] <= float(bandwidth[link]) / bandwidth.max())
    for part, ability, out in zip(parts, reversed(topology.abilities()), (0, 1), strict=True):
        leaving, entering = (
            [[e for e in range(links) if ends[e, side] == node] for node in range(len(ability))]
            for side in (out, 1 - out)
        )
        for node in range(ranks, len(ability)):
            if not (with_switches and ability[node]):
                flow = sum(part[e] for e in leaving[node]) - sum(part[e] for e in entering[node])
                highs.addConstr(flow + 0 * rates[0] == 0)
        for sink in range(ranks):
            flow = [highs.addVariable() for _ in range(links)]
            for link in range(links):
                highs.addConstr(flow[link] <= part[link])
            for node in (node for node in range(len(ability)) if node != sink):
                surplus = sum(flow[e] for e in leaving[node]) - sum(flow[e] for e in entering[node])
                highs.addConstr(surplus - (rates[node] if node < ranks else 0) + 0 * rates[0] == 0)
    highs.maximize(sum(rates))
    assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return highs.getObjectiveValue() * bandwidth.max()


def unsettled(seeds):
    """Random networks; with or without switches, the rate that the core knows, and whether it calls it exact."""
    for seed in seeds:
        topology = treefold.topology(network(Random(seed)))
        if topology.ranks > 1:
            for name, rate_Bps, exact, _ in topology.bounds().rates[1:]:
                yield topology, name == "in_network", rate_Bps, exact


@pytest.mark.parametrize(
    "spec", ["ring:5", "mesh:4x4", "b4", "idn-like", "b4:skew=0.5,seed=3", "random:n=20,links=60,seed=1"]
)
def test_the_program_agrees_with_graph_strength(spec):
    topology = treefold.topology(spec)
    expected = treefold.bound(topology)["all_reduce_Bps"]
    assert solve(topology, 1.7 * expected) == pytest.approx(expected, rel=2e-7)


def test_the_program_agrees_with_flows():
    for topology, with_switches, rate_Bps, _ in unsettled(range(60)):
        expected = flow_oracle(topology, with_switches)
        assert solve(topology, rate_Bps, with_switches) == pytest.approx(expected, rel=3e-7), topology.to_json()


def test_the_program_never_contradicts_what_the_core_calls_exact():
    for topology, with_switches, rate_Bps, exact in unsettled(range(100, 300)):
        found = solve(topology, rate_Bps, with_switches)
        assert found <= rate_Bps
        assert not exact or found == pytest.approx(rate_Bps, rel=2e-7), topology.to_json()


@pytest.mark.parametrize(
    ("spec", "options", "name", "rate_Bps"),
    [
        ("dgx2", {}, "in_network_Bps", 16e9),
        ("dgx2:planes=6", {}, "in_network_Bps", 150e9),
        ("fattree128", {}, "in_network_Bps", 150e9),
        ("mesh:8x8", {"ranks": "0-7,12"}, "all_reduce_Bps", 26e9),
        ("idn-like", {"ranks": "0-9"}, "all_reduce_Bps", 137.5e6),
    ],
)
def test_networks_with_switches_or_relays(spec, options, name, rate_Bps):
    bounds = treefold.bound(treefold.topology(spec, **options))
    assert bounds[name] == pytest.approx(rate_Bps, rel=1e-7)
    assert bounds["exact"][name]
    assert bounds["method"][name] == "linear program"


@pytest.mark.parametrize(
    ("capacities", "rate_Bps"),
    # Rank v's trees use all links but that into v (broadcast), and all but that out of v (reduce). With rates X in all,
    # the link from v to w carries 2 X - x(v) - x(w).
    [((1, 1, 1), 3 / 4), ((2, 2, 3), 7 / 4), ((1, 2, 3), 1), ((2, 2, 2, 4), 4 / 3)],
)
def test_one_way_rings(capacities, rate_Bps):
    bounds = treefold.bound(one_way(*capacities))
    assert bounds["all_reduce_Bps"] == pytest.approx(rate_Bps, rel=1e-7)
    assert bounds["exact"]["all_reduce_Bps"]


def test_no_plan_beats_the_tightened_bound():
    for seed in range(2000, 2200):
        topology = treefold.topology(network(Random(seed)))
        for row in treefold.compare(topology, sizes_bytes=[64 * MIB]):
            assert row["bound_s"] <= row["time_s"] * (1 + 1e-9), (row, topology.to_json())


def test_rows_use_the_tightened_rate():
    topology = treefold.topology("idn-like", ranks="0-9", latency_s=0)
    rate_Bps = treefold.bound(topology)["all_reduce_Bps"]
    assert rate_Bps < {name: rate for name, rate, *_ in topology.bounds().rates}["all_reduce"]
    row = treefold.simulate(treefold.plan(topology, "ring"), size_bytes=MIB)
    assert row["bound_s"] == pytest.approx(MIB / rate_Bps)


def test_without_time_the_bound_stays_valid_and_says_so(monkeypatch):
    monkeypatch.setattr(bound_program, "TIME_LIMIT_S", 0)
    topology = treefold.topology("idn-like", ranks="0-9")
    bounds = topology.bounds()
    assert bound_program.tighten(topology, bounds).rates == bounds.rates
    assert not bounds.rates[1][2]


def test_a_program_that_stopped_early_still_tightens():
    bounds = treefold.topology("idn-like", ranks="0-9").bounds()
    found = bounds.tightened(False, 140e6, False).rates[1]
    assert found == ("all_reduce", 140e6, False, "linear program, stopped early")


def test_the_solver_is_only_loaded_for_a_program():
    code = (
        "import sys, treefold; treefold.bound('torus:4x4'); treefold.bound('mesh:4x4'); print('highspy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
