"""Plans for networks that have changed."""

import copy
import json

import pytest

import treefold

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
    assert replanned.plan.algorithm == "packing"


def test_only_an_all_reduce_is_planned_anew():
    plan = treefold.plan("b4", "ring", collective="broadcast")
    with pytest.raises(treefold.TreefoldError, match="the plan is of broadcast"):
        treefold.replan(plan, "b4")
