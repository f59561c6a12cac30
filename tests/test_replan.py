"""Plans for networks that have changed."""

import copy
import json

import pytest

import treefold
from commands import command
from treefold import report

MIB = 1 << 20


@pytest.fixture(scope="module")
def old():
    return treefold.plan("b4", "packing", trees=8)


def document():
    return json.loads(treefold.topology("b4").to_json())


def without(name):
    changed = document()
    changed["nodes"] = [node for node in changed["nodes"] if node["name"] != name]
    changed["links"] = [link for link in changed["links"] if name not in (link["source"], link["target"])]
    changed.pop("ranks", None)
    return changed


def test_nothing_changed(old):
    replanned = treefold.replan(old, treefold.topology("b4"))
    assert replanned.changes == () and replanned.serves
    assert replanned.kept_trees == replanned.plan.num_trees
    assert replanned.new.time_s <= replanned.old.time_s * 1.01


def test_a_slower_cable_is_named_and_routed_round(old):
    changed = document()
    for link in changed["links"][:2]:
        link["bandwidth_Bps"] /= 4
    replanned = treefold.replan(old, treefold.topology(changed), size_bytes=1000 * MIB)
    assert all("bandwidth 25MB/s, now 6.25MB/s" in line for line in replanned.changes)
    assert replanned.serves and replanned.new.time_s < replanned.old.time_s
    assert replanned.new.bound_fraction > 0.95
    assert treefold.check(replanned.plan).correct


def test_a_lost_cable_and_a_lost_site(old):
    changed = copy.deepcopy(document())
    lost = {changed["links"][4]["source"], changed["links"][4]["target"]}
    changed["links"] = [link for link in changed["links"] if {link["source"], link["target"]} != lost]
    for network in (changed, without("site11")):
        replanned = treefold.replan(old, treefold.topology(network), size_bytes=1000 * MIB)
        assert not replanned.serves and replanned.old is None
        assert any(line.endswith("is gone") for line in replanned.changes)
        assert replanned.new.bound_fraction > 0.95
        assert treefold.check(replanned.plan).correct
    assert replanned.kept_trees > 0  # where the lost site was a leaf


def test_plans_in_steps_are_judged_where_only_numbers_changed():
    changed = document()
    changed["links"][0]["latency_s"] *= 10
    replanned = treefold.replan(treefold.plan("b4", "ring"), treefold.topology(changed))
    assert replanned.serves and replanned.old.algorithm == "ring"
    assert replanned.plan.algorithm == "ring" and replanned.new.time_s <= replanned.old.time_s


LIMITS = {"trees": 3, "height": 5}


@pytest.mark.parametrize("changed", ["b4:skew=0.7,seed=1", "b4:skew=0.3,seed=2", without("site11")])
def test_the_algorithm_and_its_limits_are_kept(changed):
    plan = treefold.plan("b4", "mtree", size_bytes=1 << 28, **LIMITS)
    assert plan.options == LIMITS
    replanned = treefold.replan(plan, treefold.topology(changed))
    assert (replanned.plan.algorithm, replanned.plan.options, replanned.gave_way) == ("mtree", LIMITS, "")
    assert replanned.plan.size_bytes == 1 << 28
    summary = treefold.summarize(replanned.plan)
    assert summary.trees <= LIMITS["trees"] and summary.max_height <= LIMITS["height"]
    assert treefold.check(replanned.plan).correct


def test_multitree_without_a_cable_is_multitree():
    torus = treefold.topology("torus:4x4")
    replanned = treefold.replan(treefold.plan(torus, "multitree"), torus.without_links([("GPU0", "GPU1")]))
    assert (replanned.plan.algorithm, replanned.plan.num_trees, replanned.serves) == ("multitree", 16, False)
    assert treefold.check(replanned.plan).correct


def test_options_that_are_given_now_count_and_the_others_stay():
    plan = treefold.plan("b4", "mtree", **LIMITS, rho=0.9)
    replanned = treefold.replan(plan, "b4:skew=0.5,seed=1", trees=2)
    assert replanned.plan.options == {"trees": 2, "height": 5, "rho": 0.9}
    other = treefold.replan(plan, "b4:skew=0.5,seed=1", "packing")
    assert (other.plan.algorithm, other.plan.options) == ("packing", LIMITS)
    assert treefold.replan(treefold.plan("b4", "ring"), "b4", "auto").plan.algorithm == "forest"


@pytest.mark.parametrize("simulator", treefold.SIMULATORS)
def test_an_old_plan_stays_unless_the_new_one_is_faster_by_the_simulator_that_was_asked_for(simulator):
    torus = treefold.topology("torus:4x4")
    plan = treefold.plan(torus, "ring", size_bytes=1 << 20)
    replanned = treefold.replan(plan, torus.without_links([("GPU0", "GPU1")]), simulator=simulator)
    assert {replanned.old.simulator, replanned.new.simulator} == {simulator}
    fresh = treefold.plan(replanned.plan.topology, "ring", size_bytes=1 << 20)
    gain = 1 - treefold.simulate(fresh, simulator=simulator).time_s / replanned.old.time_s
    assert (replanned.kept_trees == plan.num_trees) == (gain < 0.01)


def test_an_algorithm_that_fits_no_more_gives_way_unless_it_is_asked_for():
    torus = treefold.topology("torus:4x4")
    plan, broken = treefold.plan(torus, "ring2d"), torus.without_links([("GPU0", "GPU1")])
    replanned = treefold.replan(plan, broken)
    assert replanned.plan.algorithm == "forest" and treefold.check(replanned.plan).correct
    assert replanned.gave_way.startswith("ring2d does not fit (ring2d needs a 2-D torus")
    assert replanned.gave_way.endswith("): forest takes its place")
    with pytest.raises(treefold.MisfitError, match="ring2d needs a 2-D torus"):
        treefold.replan(plan, broken, "ring2d")


def test_limits_that_nothing_keeps_any_more_give_way_unless_they_are_asked_for():
    star = treefold.topology("full:4")
    plan = treefold.plan(star, "mtree", height=1)
    line = star.without_links([("GPU0", "GPU2"), ("GPU0", "GPU3"), ("GPU1", "GPU3")])
    replanned = treefold.replan(plan, line)
    assert treefold.check(replanned.plan).correct and "height" not in replanned.plan.options
    assert "allow height" in replanned.gave_way
    assert replanned.plan.algorithm == "mtree" and replanned.gave_way.endswith("): height 1 is dropped")
    packed = treefold.plan(star, "packing", height=1, trees=3)
    assert treefold.replan(packed, line).gave_way.endswith("): height 1 is dropped")
    released = treefold.replan(plan, line, height=None)
    assert released.plan.algorithm == "mtree" and not released.gave_way
    with pytest.raises(treefold.MisfitError, match="allow height 2"):
        treefold.replan(plan, line, height=1)


def test_a_plan_of_an_unknown_planner_is_planned_by_the_fastest():
    document = json.loads(treefold.plan("ring:4", "ring").to_json()) | {"algorithm": "by hand"}
    plan = treefold.Plan.from_json(json.dumps(document))
    ring = treefold.topology("ring:4").without_links([("GPU0", "GPU1")])
    assert treefold.replan(plan, ring).plan.algorithm in treefold.algorithms()


def test_the_command_replans_and_writes_the_new_plan(tmp_path):
    old, new = tmp_path / "plan.json", tmp_path / "new.json"
    assert command("plan", "b4", "-a", "mtree", "--trees", "3", "-o", old).returncode == 0
    shown = command("replan", old, "b4:skew=0.5,seed=1", "-o", new)
    assert shown.stdout.startswith("old plan  mtree, trees: 3, ") and "\nnew plan  mtree, trees: 3" in shown.stdout
    assert "bandwidth 25MB/s, now 31.25MB/s" in shown.stdout
    assert command("check", new).returncode == 0 and treefold.load_plan(new).options == {"trees": 3}
    answer = json.loads(command("replan", old, "b4", "-a", "auto", "--json").stdout)
    assert (answer["changes"], answer["serves"], answer["new"]["algorithm"]) == ([], True, "packing")
    refused = command("replan", old, "b4", "--height", "1")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1) and "allow height 3" in refused.stderr


def test_only_an_all_reduce_is_planned_anew():
    plan = treefold.plan("b4", "ring", collective="broadcast")
    with pytest.raises(treefold.TreefoldError, match="the plan is of broadcast"):
        treefold.replan(plan, "b4")


def test_ranks_stay_those_of_the_old_plan(tmp_path):
    chosen = treefold.topology("b4", ranks=["site3", "site1", "site7"])
    old = treefold.plan(chosen, "packing")
    for now in ("b4:skew=0.5,seed=1", document_file(tmp_path, "site11")):
        assert treefold.replan(old, now).plan.topology.rank_names == ["site3", "site1", "site7"]
    left = treefold.replan(old, document_file(tmp_path, "site7")).plan.topology
    assert left.rank_names == ["site3", "site1"]
    other = treefold.topology("b4", ranks=["site2", "site4"])
    assert treefold.replan(old, other).plan.topology.rank_names == ["site2", "site4"]
    assert treefold.replan(old, treefold.topology("b4")).plan.topology.ranks == 12
    assert treefold.replan(treefold.plan("ring:4", "ring"), "ring:5").plan.topology.ranks == 5


def document_file(folder, site: str) -> str:
    path = folder / f"{site}.json"
    path.write_text(json.dumps(without(site)))
    return str(path)


def test_the_table_has_a_line_for_each_cable_and_names_the_size():
    old = treefold.plan("b4", "packing", size_bytes=1 << 28)
    network = old.topology
    cut, slow = (network.links()[number] for number in (0, 7))
    now = network.without_links([(cut.source, cut.target)])
    now = now.with_scaled_bandwidths({(slow.source, slow.target): 0.5}, one_way=True)
    table = report.replan_table(old, treefold.replan(old, now))
    assert "times     on the network as it is now, for 256MiB, by flow" in table
    lines = [line for line in table.splitlines() if "link site" in line]
    ends = " - ".join(sorted((cut.source, cut.target)))
    assert [line.split("link ")[1].partition(":")[0] for line in lines] in (
        [f"{ends} is gone", f"{slow.source} -> {slow.target}"],
        [f"{slow.source} -> {slow.target}", f"{ends} is gone"],
    )


def test_only_the_limit_that_fails_gives_way():
    plan = treefold.plan("b4", "mtree", trees=3, least_rate="10MB/s")
    slow = treefold.topology("b4:skew=0.9,seed=3", bandwidth_Bps=5e6)
    replanned = treefold.replan(plan, slow)
    assert replanned.plan.algorithm == "mtree" and replanned.plan.options == {"trees": 3}
    assert replanned.gave_way.endswith("): least rate 10MB/s is dropped")
    again = treefold.replan(replanned.plan, "b4")
    assert again.plan.algorithm == "mtree" and again.plan.options == {"trees": 3}


def test_a_new_plan_remembers_that_auto_chose_its_algorithm_unless_another_was_named():
    ring = treefold.topology("ring:5")
    plan, broken = treefold.plan(ring, simulator="flow"), ring.without_links([("GPU0", "GPU1")])
    assert treefold.replan(plan, broken).plan.chosen_by == "flow"
    assert treefold.replan(plan, broken, "multitree").plan.chosen_by is None
