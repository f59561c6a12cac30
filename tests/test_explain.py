"""Explanations: what cables are worth and failures cost equals bounds that are computed anew; questions; mistakes."""

import json
import random
import re
import time

import pytest

import networks
import treefold
from commands import command, output, printed, refused
from treefold import MisfitError, TreefoldError
from treefold.bounds import collective_bounds_of
from treefold.explaining.cables import Cable, cable_named, cables_of
from treefold.report import explain_table

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce", "all-to-all")


def rate(network, collective="all-reduce", root=0):
    return collective_bounds_of(network, collective, root).rate.rate_Bps


def widened(network, cable):
    return network.with_scaled_bandwidths(dict.fromkeys(cable.directions, 1.1), one_way=True)


@pytest.mark.parametrize("seed", range(40))
def test_ten_percent_more_of_each_cable_is_worth_what_the_bound_says(seed):
    source = random.Random(seed)
    network = treefold.topology(networks.network(source))
    collective = COLLECTIVES[seed % len(COLLECTIVES)]
    found = treefold.explain(network, collective=collective)
    if network.ranks == 1:
        assert (found.now.rate_Bps, found.links, found.left_out) == (None, (), "one rank has nothing to send")
        return
    now, cables = rate(network, collective), {each.name: each for each in cables_of(network)}
    assert found.now.rate_Bps == now
    assert sorted(each.link for each in found.links) == sorted(cables)
    noise = 4e-4 if collective == "all-to-all" else 2e-6
    for each in found.links:
        then = rate(widened(network, cables[each.link]), collective)
        assert each.rate_Bps == pytest.approx(then, rel=noise), (each, network.to_json())
        assert each.gain_fraction == pytest.approx(then / now - 1, abs=noise)
        assert each.gain_fraction <= 0.1 + noise


@pytest.mark.parametrize("seed", range(40, 60))
def test_failures_cost_what_the_bound_and_the_plan_of_the_network_without_them_say(seed):
    network = treefold.topology(networks.network(random.Random(seed)))
    if network.ranks == 1:
        return
    found = treefold.explain(network, size_bytes="1MiB")
    now, cables = rate(network), {each.name: each for each in cables_of(network)}
    assert len(found.failures) == len(cables) + len(network.nodes())
    harmless = set()
    for each in found.failures:
        try:
            is_link = each.kind == "link"
            left = (
                network.without_links(cables[each.name].directions, one_way=True)
                if is_link
                else network.without_nodes([each.name])
            )
        except TreefoldError:
            assert each.rate_Bps is None and each.problem and each.time_s is None
            continue
        assert each.ranks == left.ranks
        if left.ranks == 1:
            assert each.problem == "one rank has nothing to send"
            continue
        assert each.rate_Bps == rate(left)
        made = treefold.plan(left, each.algorithm, size_bytes="1MiB")
        assert each.time_s == treefold.simulate(made).time_s
        assert each.time_factor == pytest.approx(each.time_s / found.now.time_s)
        if is_link and abs(rate(left) / now - 1) <= 1e-6:
            harmless.add(each.name)
    assert {*found.spare} == {each.link for each in found.links if each.gain_fraction == 0} & harmless
    kinds = [(each.rate_fraction is not None, each.time_factor is not None) for each in found.failures]
    assert kinds == sorted(kinds), "what cuts the network comes first"
    factors = [each.time_factor for each in found.failures if each.time_factor is not None]
    assert factors == sorted(factors, reverse=True)


@pytest.mark.parametrize("spec", ["b4:skew=0.6,seed=4", "cluster:nodes=2,gpus=4,rails=2", "dgx2:planes=2", "mesh:3x4"])
@pytest.mark.parametrize("collective", ["all-reduce", "all-gather", "all-to-all"])
def test_a_cable_whose_price_is_nothing_gains_nothing(spec, collective):
    network = treefold.topology(spec)
    now = rate(network, collective)
    prices = collective_bounds_of(network, collective, 0).prices()
    of_ends = {}
    for link, price in zip(network.links(), prices, strict=True):
        of_ends[link.source, link.target] = of_ends.get((link.source, link.target), 0) + price * link.bandwidth_Bps
    noise = 2e-4 if collective == "all-to-all" else 1e-6
    assert prices.min() >= 0
    for cable in cables_of(network):
        most = 0.1 * sum(of_ends[ends] for ends in cable.directions)
        assert rate(widened(network, cable), collective) <= now + most + noise * now


def test_the_limit_names_the_cables_and_the_sites_that_they_keep_apart():
    now = treefold.explain("b4", without="site9 - site10").now
    cables = [("site0", "site1"), ("site1", "site2"), ("site0", "site4")]
    assert {*now.links} == {f"{a} -> {b}" for ends in cables for a, b in (ends, ends[::-1])}
    assert now.parts[:2] == (("site0",), ("site1",)) and len(now.parts[2]) == 10
    found = treefold.explain("b4")
    assert {each.link for each in found.links if each.is_limiting} == {
        "site0 - site1",
        "site1 - site2",
        "site0 - site4",
    }
    assert treefold.explain("torus:4x4").now.parts == ()


def test_a_question_is_about_all_changes_at_once():
    network = treefold.topology("b4")
    asked = treefold.explain(
        network, upgrade={"site0 - site1": "50MB/s", ("site1", "site2"): 50e6}, without=["site9-site10", "site11"]
    )
    wider = network.with_bandwidths({("site0", "site1"): 50e6, ("site1", "site2"): 50e6})
    changed = wider.without_links([("site9", "site10")]).without_nodes(["site11"])
    answer = asked.answer
    assert (answer.then.rate_Bps, answer.then.ranks) == (rate(changed), 11)
    assert answer.rate_fraction == rate(changed) / rate(network)
    best = treefold.simulate(treefold.plan(changed)).time_s
    assert (answer.then.algorithm, answer.then.time_s) == (treefold.plan(changed).algorithm, best)
    assert answer.changes == (
        "link site0 - site1: bandwidth 25MB/s, now 50MB/s",
        "link site1 - site2: bandwidth 25MB/s, now 50MB/s",
        "node site11 is gone",
        "link site9 - site10 is gone",
    )
    assert (asked.links, asked.failures, asked.limits) == ((), (), ()) and "only the question" in asked.left_out


def test_one_direction_can_be_asked_about():
    network = treefold.topology("ring:4")
    asked = treefold.explain(network, without=["GPU0 -> GPU1"]).answer
    assert asked.changes == ("link GPU0 -> GPU1 is gone",)
    assert asked.then.rate_Bps == rate(network.without_links([("GPU0", "GPU1")], one_way=True))
    both = treefold.explain(network, without=["GPU0->GPU1", "GPU1->GPU0"]).answer
    assert both == treefold.explain(network, without="GPU0-GPU1").answer


def test_what_cuts_the_network_is_an_answer():
    asked = treefold.explain("line:3", without="GPU1").answer
    assert asked.then.problem == "cuts the network: 2 components: {GPU0}, {GPU2}"
    assert (asked.then.rate_Bps, asked.rate_fraction, asked.time_factor) == (None, None, None)
    assert treefold.explain("ring:2", without="GPU0").answer.then.problem == "one rank has nothing to send"
    assert treefold.explain("ring:2", without=["GPU0", "GPU1"]).answer.then.problem == "no rank is left"
    gone = treefold.explain("ring:4", collective="broadcast", root=1, without="GPU1").answer.then
    assert gone.problem == "the root GPU1 is gone"
    assert treefold.explain("ring:4", collective="broadcast", root=1, without="GPU0").answer.then.rate_Bps == 16e9


def test_a_site_fails_with_its_cap():
    network = treefold.topology("b4", node_cap="30MB/s")
    found = treefold.explain(network, size_bytes="1MiB", algorithm="nccl")
    sites = [each for each in found.failures if each.kind == "site"]
    assert sorted(each.name for each in sites) == sorted(network.rank_names)
    of_site1 = next(each for each in sites if each.name == "site1")
    assert of_site1.rate_Bps == rate(network.without_nodes(["site1"]))


def odd(*names):
    """Returns a ring of nodes with these names."""
    around = zip(names, [*names[1:], names[0]], strict=True)
    links = [{"source": a, "target": b, "both_ways": True, "bandwidth_Bps": 1e9, "latency_s": 1e-6} for a, b in around]
    form = {"format": "treefold-topology", "version": 1, "name": "odd"}
    return treefold.topology({**form, "nodes": [{"name": name} for name in names], "links": links})


def test_names_may_have_hyphens_arrows_and_markup():
    network = odd("a-b", "a", "b-c", "c -> d", "<b>&\"'", "x=y", "[red]")
    assert cable_named(network, "a-b - a") == Cable("a-b", "a", True)
    assert cable_named(network, "b-c - c -> d") == Cable("b-c", "c -> d", True)
    assert cable_named(network, "x=y -> <b>&\"'") == Cable("x=y", "<b>&\"'", False)
    found = treefold.explain(network, upgrade={"x=y - [red]": "2GB/s"}, is_whole=True)
    assert "<b>" not in found._repr_html_().replace("<td><b>", "") and "&lt;b&gt;&amp;" in found._repr_html_()
    assert "link [red] - x=y: bandwidth 1GB/s, now 2GB/s" in explain_table(found)
    ambiguous = odd("a", "b-c", "a-b", "c")
    with pytest.raises(TreefoldError, match="may mean a - b-c or a-b - c; in Python a pair of names"):
        cable_named(ambiguous, "a-b-c")
    assert cable_named(ambiguous, ("a-b", "c")) == Cable("a-b", "c", True)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("--without sit3", "b4 has no site or link 'sit3'; did you mean site3?"),
        ("--without site0-sit1", "b4 has no link 'site0-sit1'; did you mean site0 - site1"),
        ("--without site0-site9", "b4 has no link 'site0-site9'"),
        ("--upgrade site0-site1", "'site0-site1' is not LINK=RATE"),
        ("--upgrade =1GB/s", "is not LINK=RATE"),
        ("--upgrade site0-site1=0", "write a number and a unit"),
        ("--upgrade site0-site1=0GB/s", "must be positive"),
        ("--upgrade site0-site1=-5MB/s", "must be positive, got -5000000"),
        ("--upgrade site0-site1=nan", "write a number and a unit"),
        ("--upgrade site0-site1=1GB/s --upgrade site0-site1=2GB/s", "is given twice"),
        ("--upgrade site0-site1=1GB/s --upgrade site1-site0=2GB/s", "gets two bandwidths"),
        ("-a hdrm", "hdrm needs a power of two ranks"),
        ("-a rng", "did you mean ring?"),
        ("-a ring,nccl", "takes one algorithm"),
        ("--root 1", "all-reduce has no root"),
        ("--collective broadcast --root 12", "root 12 does not exist"),
        ("--size -3", "must be between 0 and 1e18"),
    ],
)
def test_mistakes_are_refused(arguments, problem):
    assert problem in refused("explain", "b4", *arguments.split(" ")).removesuffix("\n")


@pytest.mark.parametrize(
    "arguments", [{"upgrade": "site0 - site1"}, {"upgrade": {3: 5}}, {"without": [3]}, {"without": [("a",)]}]
)
def test_what_is_no_name_is_refused(arguments):
    with pytest.raises(TreefoldError):
        treefold.explain("b4", **arguments)


def test_a_named_algorithm_never_gives_way():
    with pytest.raises(MisfitError, match="power of two"):
        treefold.explain("b4", "hdrm")
    found = treefold.explain("hypercube:3", "halving-doubling")
    assert {each.algorithm for each in found.failures} <= {"halving-doubling", None}


def test_limits_on_trees_rise_to_the_rate_without_a_limit():
    limits = treefold.explain("b4:skew=0.5,seed=1").limits
    assert [each.value for each in limits if each.limit == "trees"] == [1, 2, 4, 8]
    assert [each.limit for each in limits][-1] == "none"
    for name in ("trees", "height"):
        rates = [each.rate_Bps for each in limits if each.limit == name]
        assert rates == sorted(rates) and all(0 < each.bound_fraction <= 1.0001 for each in limits)
    assert next(each.value for each in limits if each.limit == "height") == 3, "no tree over b4 is lower"


def test_a_large_network_gets_its_bound_and_says_how_to_get_the_rest():
    found = treefold.explain("torus:16x16")
    assert found.now.rate_Bps == rate(treefold.topology("torus:16x16")) and not found.links
    assert "would take long with 256 ranks and 1024 links; --all explains them all" in printed("explain", "torus:16x16")


def test_the_command_prints_what_python_returns():
    found = treefold.explain("ring:4", size_bytes="1MiB")
    assert output("explain", "ring:4", "--size", "1MiB") == found.as_dict()
    assert printed("explain", "ring:4", "--size", "1MiB") == explain_table(found) + "\n"
    whole = printed("explain", "ring:4", "--all")
    assert whole.count("\nlink ") + whole.count("\nsite ") == 4 + 4 + 1
    assert output("explain", "ring:4", "--without", "GPU0 - GPU1")["answer"]["rate_fraction"] == 0.75


def test_rows_that_cost_the_same_share_a_line():
    text = explain_table(treefold.explain("dgx2"))
    assert "GPU0 - SW0, GPU1 - SW0, GPU2 - SW0, ... 17 in all" in text
    assert "10 % more of one link alone gains nothing" in text


def test_b4_is_explained_in_no_time():
    begin = time.process_time()
    assert command("explain", "b4", "--json").returncode == 0
    assert time.process_time() - begin < 2


@pytest.mark.slow
def test_sixty_four_regions_are_explained_within_a_minute():
    begin = time.process_time()
    found = treefold.explain("random:n=64,links=192,seed=1,skew=0.5")
    assert time.process_time() - begin < 60
    assert (len(found.links), len(found.failures)) == (192, 256)


@pytest.mark.slow
def test_a_hundred_thousand_links_are_refused_kindly():
    found = treefold.explain("random:n=400,links=50000,seed=1", without="site0")
    assert found.now.rate_Bps and found.answer.then.ranks == 399 and not found.failures


@pytest.mark.parametrize("seed", range(60, 90))
def test_cables_that_must_grow_together_raise_the_bound_and_none_of_them_can_be_left_out(seed):
    network = treefold.topology(networks.network(random.Random(seed)))
    found = treefold.explain(network)
    if found.together is None:
        assert found.left_out or any(each.gain_fraction > 0 for each in found.links)
        return
    assert all(each.gain_fraction == 0 for each in found.links)
    cables = {each.name: each for each in cables_of(network)}

    def gain(names):
        rates = {ends: 1.1 for name in names for ends in cables[name].directions}
        return rate(network.with_scaled_bandwidths(rates, one_way=True)) / rate(network) - 1

    assert gain(found.together.links) == pytest.approx(found.together.gain_fraction, abs=2e-6) != 0
    for each in found.together.links:
        assert gain([name for name in found.together.links if name != each]) < found.together.gain_fraction


def test_a_plan_after_a_failure_is_as_near_to_its_bound_as_can_be_had_quickly():
    network = treefold.topology("cluster:nodes=2,gpus=4,rails=4")
    found = treefold.explain(network, size_bytes="16MiB")
    only = treefold.explain(network, found.now.algorithm, size_bytes="16MiB")
    slower = {each.name: each.time_s for each in only.failures}
    assert all(each.time_s <= slower[each.name] * (1 + 1e-9) for each in found.failures if slower[each.name])


@pytest.mark.parametrize(
    ("link", "hint"),
    [
        ("site0 - site9", "site0 has site0 - site1, site0 - site4"),
        ("site0 - sit1", "did you mean site0 - site1"),
        ("site0 - Paris", "nor a node 'Paris'; write for example"),
        ("siet0 -> site9", "did you mean site0"),
    ],
)
def test_a_link_that_there_is_not_gets_a_hint(link, hint):
    assert hint in refused("explain", "b4", "--upgrade", f"{link}=1GB/s")
    assert hint in refused("explain", "b4", "--without", link)


def test_a_page_needs_a_whole_explanation_of_its_own_network(tmp_path):
    found = treefold.explain("b4", without="site3")
    with pytest.raises(TreefoldError, match="only the question is answered"):
        treefold.view("b4", found, algorithm="mtree")
    with pytest.raises(TreefoldError, match="the explanation is of ring:4, and not of b4"):
        treefold.view("b4", treefold.explain("ring:4"), algorithm="mtree")
    assert "wrote" in command("explain", "ring:4", "-o", str(tmp_path / "ring.html")).stderr
    assert "not the extension of pages" in refused("explain", "ring:4", "-o", str(tmp_path / "ring.txt"))


def test_a_page_refuses_an_explanation_of_something_else():
    found = treefold.explain("b4", size_bytes="1MiB")
    with pytest.raises(TreefoldError, match="for the size 1MiB, and not for 2MiB"):
        treefold.view("b4", found, algorithm="mtree", size_bytes="2MiB")
    with pytest.raises(TreefoldError, match="for the collective all-reduce, and not for broadcast"):
        treefold.view("b4", found, algorithm="mtree", size_bytes="1MiB", collective="broadcast")
    wider = treefold.topology("b4").with_bandwidths({("site0", "site1"): "1GB/s"})
    with pytest.raises(TreefoldError, match="another b4, with other links"):
        treefold.view(wider, found, algorithm="mtree", size_bytes="1MiB")


def test_both_directions_of_a_cable_share_a_name_even_where_names_have_arrows():
    text = explain_table(treefold.explain(odd("a -> b", "c", "d")))
    assert "a -> b -> " not in text.split("over")[-1].splitlines()[0]


@pytest.mark.parametrize(
    ("words", "changed", "label", "change"),
    [
        (["--without", "site9"], lambda b4: b4.without_nodes(["site9"]), "without site9", "node site9 is gone"),
        (
            ["--upgrade", "site0 - site1=50MB/s"],
            lambda b4: b4.with_bandwidths({("site0", "site1"): "50MB/s"}),
            "with site0 - site1=50MB/s",
            "link site0 - site1: bandwidth 25MB/s, now 50MB/s",
        ),
        (
            ["--without", "site0", "--collective", "broadcast", "--root", "3", "--all", "-a", "mtree"],
            lambda b4: b4.without_nodes(["site0"]),
            "without site0",
            "node site0 is gone",
        ),
    ],
)
def test_a_question_has_a_page_of_the_network_before_and_after(tmp_path, words, changed, label, change):
    path = tmp_path / "asked.html"
    assert f"wrote {path}" in command("explain", "b4", *words, "--size", "2MiB", "-o", str(path)).stderr
    text = re.search(r'id="document"[^>]*>(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)
    now, then = json.loads(text.group(1))["scenes"]
    assert (now["label"], then["label"]) == ("now", label)
    assert (now["changes"], then["changes"]) == ([], [change])
    assert bool(now["explained"]) == ("--all" in words)
    b4 = treefold.topology("b4")
    for scene, network in ((now, b4), (then, changed(b4))):
        asked = {"collective": scene["collective"], "size_bytes": "2MiB"}
        root = network.rank_names.index("site3")
        plan = treefold.plan(network, scene["algorithm"], root=root, **asked)
        assert scene["time_s"] == pytest.approx(treefold.trace(plan, size_bytes="2MiB").time_s)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["line:4", "--without", "GPU1"], "no plan for a page to show: cuts the network: 2 components"),
        (["line:2", "--without", "GPU1"], "no plan for a page to show: one rank has nothing to send"),
        (["b4", "--without", "site3", "--collective", "reduce", "--root", "3"], "the root site3 is gone"),
    ],
)
def test_what_has_no_plan_has_no_page(tmp_path, words, problem):
    assert problem in refused("explain", *words, "-o", str(tmp_path / "asked.html"))
    assert not (tmp_path / "asked.html").exists()
