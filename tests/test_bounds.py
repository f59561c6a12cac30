"""Bounds where cuts alone do not settle them: the linear program against known values, an oracle and every planner."""

import json
from itertools import pairwise
from random import Random

import highspy
import numpy as np
import pytest

import treefold
from commands import refused
from networks import network

MIB = 1 << 20


def one_way(*capacities):
    """A one-way ring in which link i leaves rank i."""
    names = [f"A{i}" for i in range(len(capacities))]
    around = zip(names, names[1:] + names[:1], capacities, strict=True)
    links = [{"source": a, "target": b, "bandwidth_Bps": c, "latency_s": 0, "both_ways": False} for a, b, c in around]
    nodes = [{"name": name} for name in names]
    document = {"format": "treefold-topology", "version": 1, "name": "one-way", "nodes": nodes, "links": links}
    return treefold.topology(document)


def through_switches(ranks, abilities, links):
    """A network of one-way links, `u -> v` or `u -> v: GB/s`; of switches, whether each r(educes) and m(ulticasts)."""
    able = {"kind": "switch", "latency_s": 0}
    switches = [{"name": n, "reduces": "r" in a, "multicasts": "m" in a, **able} for n, a in abilities.items()]
    parts = [(*link.partition(":")[0].split(" -> "), float(link.partition(":")[2] or 1)) for link in links.split(", ")]
    links = [
        {"source": a, "target": b, "bandwidth_Bps": c * 1e9, "latency_s": 0, "both_ways": False} for a, b, c in parts
    ]
    nodes = [{"name": name} for name in ranks] + switches
    document = {"format": "treefold-topology", "version": 1, "name": "one-way", "nodes": nodes, "links": links}
    return treefold.topology(document)


def flow_oracle(topology, with_switches):
    """Find the same optimum by one program: each rank has a flow of all broadcasts within b, and one within r.

    A flow of rank u starts at every root v with x(v) and ends at u with the sum of x. Any node may be a root here: what
    it cannot multicast it sends once, and what it cannot reduce it receives once.
    """
    ends = np.stack(topology.link_columns()[:2], axis=1)
    bandwidth, ranks, links = topology.link_columns()[2], topology.ranks, topology.num_links
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    rates = [highs.addVariable() for _ in topology.abilities()[0]]
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
                highs.addConstr(flow - rates[node] == 0)
        for sink in range(ranks):
            flow = [highs.addVariable() for _ in range(links)]
            for link in range(links):
                highs.addConstr(flow[link] <= part[link])
            for node in (node for node in range(len(ability)) if node != sink):
                surplus = sum(flow[e] for e in leaving[node]) - sum(flow[e] for e in entering[node])
                highs.addConstr(surplus - rates[node] == 0)
    highs.maximize(sum(rates))
    assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return highs.getObjectiveValue() * bandwidth.max()


def one_way_network(random):
    """A random network of one-way links, many through switches that receive more than they send or the reverse."""
    ranks = [f"A{i}" for i in range(random.randint(2, 5))]
    abilities = {f"S{i}": random.choice(("", "r", "m", "rm")) for i in range(random.randint(1, 3))}
    names = [*ranks, *abilities]
    random.shuffle(names)
    ends = [*pairwise([*names, names[0]]), *(random.sample(names, 2) for _ in range(random.randrange(9)))]
    return through_switches(
        ranks, abilities, ", ".join(f"{a} -> {b}: {random.choice((1, 1, 1, 2, 1.5, 0.4))}" for a, b in ends)
    )


def bounds_of_random_networks(seeds):
    """Random networks; with or without switches, the bound, which must be exact."""
    for seed in seeds:
        for topology in (treefold.topology(network(Random(seed))), one_way_network(Random(seed))):
            if topology.ranks > 1:
                for known in topology.bounds().rates[1:]:
                    assert known.is_exact, (known, topology.to_json())
                    yield topology, known.name == "in_network", known.rate_Bps


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 120), marks=pytest.mark.slow)])
def test_exact_bounds_agree_with_flows(seeds):
    for topology, with_switches, rate_Bps in bounds_of_random_networks(seeds):
        assert rate_Bps == pytest.approx(flow_oracle(topology, with_switches), rel=3e-7), topology.to_json()


@pytest.mark.parametrize(
    ("spec", "options", "name", "rate_Bps"),
    [
        ("mesh:8x8", {"ranks": "0-7,12"}, "all_reduce", 26e9),
        ("idn-like", {"ranks": "0-9"}, "all_reduce", 137.5e6),
    ],
)
def test_networks_with_switches_or_relays(spec, options, name, rate_Bps):
    bound = treefold.bound(treefold.topology(spec, **options)).bounds()[name]
    assert bound.rate_Bps == pytest.approx(rate_Bps, rel=1e-7)
    assert bound.is_exact
    assert bound.method == "linear program"


@pytest.mark.parametrize(
    ("capacities", "rate_Bps"),
    # Rank v's trees use all links but that into v (broadcast), and all but that out of v (reduce). With rates X in all,
    # the link from v to w carries 2 X - x(v) - x(w).
    [((1, 1, 1), 3 / 4), ((2, 2, 3), 7 / 4), ((1, 2, 3), 1), ((2, 2, 2, 4), 4 / 3)],
)
def test_one_way_rings(capacities, rate_Bps):
    bounds = treefold.bound(one_way(*capacities))
    assert bounds.all_reduce.rate_Bps == pytest.approx(rate_Bps, rel=1e-7)
    assert bounds.all_reduce.is_exact


@pytest.mark.parametrize(
    ("ranks", "links", "rate_Bps"),
    [
        ("uv", "u -> s, v -> s, s -> w, w -> u, w -> v", 0.5e9),  # Two sums take turns from s to w; no cut sees that.
        ("abc", "a -> s: 2, s -> b, s -> c, b -> a, c -> a", 1e9),  # Two copies go from a to s.
    ],
)
def test_switches_that_only_relay(ranks, links, rate_Bps):
    bounds = treefold.bound(through_switches(ranks, {"s": "", "w": ""} if "w" in links else {"s": ""}, links))
    assert bounds.all_reduce.rate_Bps == pytest.approx(rate_Bps, rel=1e-7)
    assert bounds.all_reduce.is_exact
    assert bounds.reduce_scatter_all_gather.is_exact == ("w" not in links)


COLLECTORS = "u -> s, v -> s, z -> s, s -> w, w -> u, w -> v, w -> z, u -> v: 0.1, v -> u: 0.1"


@pytest.mark.parametrize("abilities", [{"s": "rm", "w": "rm"}, {"s": "r", "w": "m"}])
def test_a_switch_may_be_the_root(abilities):
    topology = through_switches("uvz", abilities, COLLECTORS)
    bounds = treefold.bound(topology)
    assert bounds.in_network.rate_Bps == pytest.approx(flow_oracle(topology, True), rel=1e-6)
    node = {name: number for number, name in enumerate("uvzsw")}
    ends = ["us", "vs", "zs", "sw", "wu", "wv", "wz"]
    up, down = ({"edges": {"lanes": lanes, "steps": [0] * len(lanes)}} for lanes in ([0, 1, 2], [3, 4, 5, 6]))
    tree = {"span": [0, 1], "root": node["s"], "up": up, "down": down, "chunk": "best"}
    document = {"format": "treefold-plan", "version": 1, "algorithm": "by hand", "collective": "all-reduce", "units": 1}
    document["topology"] = json.loads(topology.to_json())
    document["lanes"] = [{"source": node[a], "target": node[b]} for a, b in ends]
    plan = treefold.Plan.from_json(json.dumps(document | {"phases": [{"pace": "stream", "trees": [tree]}]}))
    assert treefold.check(plan).correct
    assert treefold.simulate(plan, size_bytes=1 << 30).bound_fraction <= 1


@pytest.mark.parametrize("seeds", [range(2000, 2050), pytest.param(range(2050, 2200), marks=pytest.mark.slow)])
def test_no_plan_beats_the_tightened_bound(seeds):
    for seed in seeds:
        topology = treefold.topology(network(Random(seed)))
        for row in treefold.compare(topology, sizes_bytes=[64 * MIB]):
            assert row.bound_s <= row.time_s * (1 + 1e-9), (row, topology.to_json())


def test_equal_networks_share_their_bounds():
    one, two, other = (treefold.topology(spec) for spec in ("b4", "b4", "b4:skew=0.5,seed=1"))
    assert one is not two and one == two and hash(one) == hash(two)
    assert one != other and one != treefold.topology("b4", ranks="0-5")
    assert treefold.plan(one, "ring").topology == treefold.Topology.from_json(two.to_json())


def test_rows_use_the_rate_of_the_program():
    topology = treefold.topology("idn-like", ranks="0-9", latency_s=0)
    bound = treefold.bound(topology).all_reduce
    assert bound.method == "linear program"
    row = treefold.simulate(treefold.plan(topology, "ring"), size_bytes=MIB)
    assert row.bound_s == pytest.approx(MIB / bound.rate_Bps)


def test_a_bound_names_the_links_of_its_cut() -> None:
    """At the rate of large vectors, the links of the narrowest cut are named, and the ranks on its sides."""
    cut = treefold.bound_at("b4", "1GB", "all-gather")
    assert cut.links == ("site1 -> site0", "site4 -> site0")
    assert cut.limited_by.endswith("over which all others send to site0")
    exchange = treefold.bound_at("b4", "1GB", "all-to-all")
    assert set(exchange.links) == {"site6 -> site10", "site7 -> site9", "site9 -> site7", "site10 -> site6"}
    assert treefold.bound_at("b4", "1B", "all-gather").links == (), "latency limits it"
    assert treefold.bound_at("b4", "1B", "all-gather").as_dict()["links"] == []


def test_a_root_without_a_collective_that_has_one_is_refused():
    assert "all-reduce has no root" in refused("bound", "ring:4", "--root", "3")
