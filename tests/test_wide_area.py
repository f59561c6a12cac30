"""MTree, Blink and packing on wide-area networks: right, within capacities and limits, ordered as they should be."""

import math
from random import Random

import pytest

import treefold
from asking import request
from commands import command
from reproduction.mtree.chunks import pipelines
from treefold import planning

NETWORKS = 60
SEEDS = [pytest.param(seed, marks=[pytest.mark.slow] if seed % 3 else []) for seed in range(NETWORKS)]
RIVALS = ("mtree", "blink", "packing")


def document(nodes, links):
    """A topology document of these nodes and directed links."""
    head = {"format": "treefold-topology", "version": 1, "name": "test"}
    return {**head, "nodes": [{"name": name} for name in nodes], "links": links}


def wide_area(seed):
    """A connected network of 2 to 8 sites, cables of 10 to 400 Mbit/s and 1 to 9 ms, now and then parallel ones."""
    random = Random(seed)
    sites = random.randint(2, 8)
    pairs = [(random.randrange(site), site) for site in range(1, sites)]
    pairs += [tuple(random.sample(range(sites), 2)) for _ in range(random.randint(0, 2 * sites))]
    links = []
    for a, b in pairs:
        cable = {"bandwidth_Bps": random.randint(1, 40) * 1.25e6, "latency_s": random.randint(1, 9) * 1e-3}
        links += [{"source": f"s{x}", "target": f"s{y}", **cable} for x, y in ((a, b), (b, a))]
    return treefold.topology(document([f"s{site}" for site in range(sites)], links))


def planned(network, algorithm, **options):
    """The plan, after the oracle and the capacities have been asked; a rate above a link's would be a wrong plan's."""
    plan = treefold.plan(network, algorithm, **options)
    assert treefold.check(plan).correct
    assert plan.rate <= treefold.bound(network).all_reduce.rate_Bps * (1 + 1e-6)
    return plan


@pytest.mark.parametrize("seed", SEEDS)
def test_plans_are_right_and_packing_is_the_bound(seed):
    network = wide_area(seed)
    rates = {name: planned(network, name).rate for name in RIVALS}
    bound = treefold.bound(network).all_reduce.rate_Bps
    assert rates["packing"] >= 0.999 * bound
    assert max(rates.values()) <= rates["packing"] * (1 + 1e-3)


@pytest.mark.parametrize("seed", SEEDS[::4])
def test_limits_are_kept_and_packing_leads(seed):
    network, trees = wide_area(seed), 1 + seed % 3
    plans = {name: planned(network, name, trees=trees) for name in RIVALS}
    assert all(plan.num_trees <= trees for plan in plans.values())
    rates = {name: plan.rate for name, plan in plans.items()}
    # A plan's shares are whole parts of the vector in a million.
    assert rates["packing"] >= max(rates.values()) * (1 - 1e-4)
    for heights in ("hops", "latency"):
        limit = planning.plan(request(network, "mtree", heights=heights)).report["height_limit"]
        for name in ("mtree", "packing"):
            low = planned(network, name, height=limit, heights=heights, trees=trees)
            assert heights == "latency" or low.shape.max_height <= limit


def test_figure_2_is_planned_with_the_stars_of_b_and_d():
    cables = [("A", "B", 1), ("B", "C", 1), ("C", "D", 1), ("D", "A", 1), ("B", "D", 2)]
    both = [(a, b, width) for x, y, width in cables for a, b in ((x, y), (y, x))]
    links = [{"source": a, "target": b, "bandwidth_Bps": width, "latency_s": 0} for a, b, width in both]
    network = treefold.topology(document("ABCD", links))
    plan = planned(network, "mtree")
    assert sorted(tree.root for tree in plan.trees()) == ["B", "D"]
    summary = treefold.summarize(plan)
    assert (summary.max_height, summary.rate_Bps, summary.normalized_throughput) == (1, 2.0, 1.0)
    assert (summary.max_fanout, summary.mean_max_fanout) == (3, 3.0)


def test_no_pipeline_sends_each_part_as_one_message():
    network = treefold.topology("b4:skew=0.5")
    whole, cut = (treefold.plan(network, "mtree", pipeline=pipeline) for pipeline in (False, True))
    assert {pipeline.chunks for pipeline in pipelines(whole, 1 << 30)} == {1}
    times = [treefold.simulate(plan, size_bytes=1 << 30).time_s for plan in (whole, cut)]
    assert times[0] > 2 * times[1]


def chain(plan_of, length):
    """The pipeline of one tree on a chain of equal links under the Hockney model, rooted at its end."""
    network = treefold.topology(f"line:{length + 1}", bandwidth_Bps=25e6, latency_s=1e-3).under("hockney")
    return pipelines(plan_of(treefold.plan(network, "packing", trees=1)), 1 << 30)[0]


@pytest.mark.parametrize("length", [2, 4, 9])
@pytest.mark.parametrize("collective", ["all-reduce", "reduce"])
def test_the_best_chunk_is_the_papers_with_its_errata(length, collective):
    pipeline = chain(lambda plan: plan.derive(collective, 0), length)
    alpha, beta, size = 1e-3, 1 / 25e6, 1 << 30
    # An all-reduce's longest way leads up and down again. The tree is rooted in the middle, or at 0 for a reduce.
    links = 2 * math.ceil(length / 2) if collective == "all-reduce" else length
    chunk = math.sqrt(size * alpha / ((links - 1) * beta))
    assert pipeline.best_count(size) == pytest.approx(size / chunk)
    assert pipeline.chunks == min(1024, int(size / chunk))
    counts = [1, 10, int(size / chunk), 3000]
    literal = [links * alpha + (c - 1) * alpha + (links - 1) * beta * size / c + beta * size for c in counts]
    assert [pipeline.time_s(size, count) for count in counts] == pytest.approx(literal)
    # Below mu# = max(alpha) / ((l - 1) beta) bytes a chunk, pipelining loses to one message.
    limit = size * (links - 1) * beta / alpha
    assert pipeline.time_s(size, limit) == pytest.approx(pipeline.time_s(size, 1))


def test_the_curve_of_offsets_is_least_at_no_offset():
    plan = treefold.plan(treefold.topology("b4:skew=0.7", latency_s=0.1).under("hockney"), "mtree", trees=1)
    offsets = list(range(-40, 41, 5))
    trees = pipelines(plan, 1 << 30)
    curve = [max(tree.time_s(1 << 30, max(1, tree.chunks + offset)) for tree in trees) for offset in offsets]
    assert offsets[curve.index(min(curve))] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"height": 2}, r"height 2: no tree over b4 is lower than 3 hops; allow height 3"),
        ({"trees": 0}, r"trees must be a whole number from 1 on, got 0"),
        ({"rho": 0.0}, r"rho must be above 0 and at most 1, got 0"),
        ({"rho": 1.5}, r"rho must be above 0 and at most 1, got 1\.5"),
        ({"least_rate": 1e9}, r"least rate 1GB/s: no tree over b4 carries more than 25MB/s; lower it"),
        ({"least_rate": "1GB/s"}, r"least rate 1GB/s: no tree over b4 carries more than 25MB/s; lower it"),
    ],
)
def test_limits_that_cannot_be_kept_are_named(options, message):
    with pytest.raises(treefold.TreefoldError, match=message):
        treefold.plan("b4", "mtree", **options)


def test_limits_bind_or_are_refused():
    for name, limit in (("trees", 2), ("height", 3), ("least_rate", 1e6)):
        with pytest.raises(treefold.TreefoldError, match=rf"ring has no option {name}; packing(,| and) mtree"):
            treefold.plan("b4", "ring", **{name: limit})
    for size_bytes in (1 << 10, 1 << 30):
        plan = treefold.plan("b4", size_bytes=size_bytes, trees=2, height=4)
        assert plan.num_trees <= 2 and plan.shape.max_height <= 4
    with pytest.raises(treefold.TreefoldError, match="allow a height of 3"):
        treefold.plan("b4", height=1)


def test_small_vectors_get_fewer_or_lower_trees():
    network = treefold.topology("random:n=16,links=40,seed=4")
    plans = {size: treefold.plan(network, "packing", size_bytes=size) for size in (1 << 10, 1 << 40)}
    seconds = {size: treefold.simulate(plan, size_bytes=1 << 10).time_s for size, plan in plans.items()}
    assert seconds[1 << 10] < 0.8 * seconds[1 << 40]
    assert plans[1 << 40].rate > plans[1 << 10].rate


def test_packing_names_limits_that_cannot_be_kept():
    with pytest.raises(treefold.TreefoldError, match=r"height 2: .* allow a height of 3"):
        treefold.plan("b4", "packing", height=2)
    with pytest.raises(treefold.TreefoldError, match=r"least rate 1GB/s: no tree carries as much"):
        treefold.plan("b4", "packing", least_rate=1e9)


def test_networks_that_do_not_fit_are_named():
    with pytest.raises(treefold.TreefoldError, match="dgx2 has switches or relays; packing fits"):
        treefold.plan("dgx2", "mtree")
    links = [{"source": a, "target": b, "bandwidth_Bps": 1e9, "latency_s": 0} for a, b in ("ab", "bc", "ca")]
    one_way = document("abc", links)
    for algorithm in ("mtree", "blink"):
        with pytest.raises(treefold.TreefoldError, match="both ways"):
            treefold.plan(treefold.topology(one_way), algorithm)


@pytest.mark.parametrize("algorithm", RIVALS)
def test_a_single_rank_sends_nothing(algorithm):
    plan = treefold.plan(treefold.topology("b4", ranks="3"), algorithm)
    assert treefold.check(plan).correct and plan.rate is None
    assert treefold.summarize(plan).normalized_throughput is None


def test_the_same_seed_gives_the_same_plan(tmp_path):
    for number in range(2):
        command("plan", "idn-like:skew=0.5", "-a", "mtree", "--seed", "3", "-o", tmp_path / f"{number}.json")
    assert (tmp_path / "0.json").read_bytes() == (tmp_path / "1.json").read_bytes()
