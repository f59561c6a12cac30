"""A single rank has nothing to send: every verb says so, and none divides by what is not there."""

import json

import pytest

import treefold
from treefold.collectives import COLLECTIVES

SPECS = ("line:1", "ring:1", "torus:1x1", "full:1")


def every_verb(plan, network):
    assert treefold.check(plan).correct
    assert treefold.summarize(plan).normalized_throughput is None
    treefold.tables(plan)
    for simulator in treefold.SIMULATORS:
        assert treefold.simulate(plan, size_bytes=1024, simulator=simulator).time_s == 0
    treefold.trace(plan, size_bytes=1024).to_chrome()
    assert [array.tolist() for array in treefold.run(plan, [[1.0, 2.0]])] == [[1.0, 2.0]]
    if plan.collective == "all-reduce":
        replanned = treefold.replan(plan, network)
        assert treefold.check(replanned.plan).correct
        assert replanned.serves and replanned.changes == ()


@pytest.mark.parametrize("spec", SPECS)
def test_every_verb_takes_one_rank(spec):
    network = treefold.topology(spec)
    for collective in COLLECTIVES:
        every_verb(treefold.plan(network, collective=collective), network)
    for row in treefold.compare(network, sizes_bytes=[1024]):
        assert row.algbw_Bps is None


def test_one_rank_of_a_larger_network():
    network = treefold.topology("full:4", ranks="0")
    every_verb(treefold.plan(network), network)


def test_a_network_that_has_lost_all_ranks_but_one_is_planned_anew():
    replanned = treefold.replan(treefold.plan("full:4", "packing"), treefold.topology("full:4", ranks="1"))
    assert treefold.check(replanned.plan).correct
    assert (replanned.serves, replanned.plan.num_trees) == (False, 1)


def test_a_plan_of_one_rank_whose_tree_reaches_others_is_refused():
    document = json.loads(treefold.plan("full:2", "ring").to_json())
    document["topology"] = json.loads(treefold.topology("full:2", ranks="0").to_json())
    plan = treefold.Plan.from_json(json.dumps(document))
    assert not treefold.check(plan).correct
    with pytest.raises(treefold.TreefoldError, match="GPU1 is no rank, and may only relay; it cannot be a tree node"):
        treefold.summarize(plan)
