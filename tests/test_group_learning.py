"""Learning while running: what rank 0 makes of operations, with no traffic of its own and no operation much slower."""

import json
import time
from types import SimpleNamespace

import numpy as np
import pytest

import treefold
from treefold import runtime
from treefold.errors import TreefoldError
from treefold.runtime import Connections, control
from treefold.runtime.controller import Controller
from treefold.runtime.learning import Learning, Used, applies
from treefold.runtime.networks import bandwidths
from treefold.runtime.plans import GroupPlans

SIZE = 16 << 20
ALONE = 10e6
MESH = treefold.topology("full:4", bandwidth_Bps=ALONE)


def loads(plan):
    ranks = {name: rank for rank, name in enumerate(plan.topology.rank_names)}
    found = dict.fromkeys(bandwidths(MESH), 0.0)
    for tree in plan.trees():
        for edge in (*tree.reduce(), *tree.broadcast()):
            found[ranks[edge.source], ranks[edge.target]] += tree.share
    return found


def operation(plan, duct, capacity_Bps):
    """Return the seconds of an all-reduce where the pairs of a duct share a capacity, and what ranks tell of it."""
    each = loads(plan)
    shared_s = sum(each[pair] for pair in duct) / capacity_Bps
    alone_s = max(each.values()) / ALONE
    seconds = SIZE * max(shared_s, alone_s)
    full = {pair for pair, load in each.items() if load / ALONE >= 0.98 * max(shared_s, alone_s)}
    full |= {pair for pair in duct if each[pair]} if shared_s >= alone_s else set()
    busy = [{} for _ in range(4)]
    for source, target in full:
        busy[source][target] = (int(each[source, target] * SIZE), seconds)
    return seconds, [Used(seconds, links) for links in busy]


def run(learning, plan, duct, capacity_Bps, most):
    """Let operations run one after the other; return their seconds and what was told."""
    times, told = [], []
    for number in range(1, most + 1):
        seconds, used = operation(plan, duct, capacity_Bps)
        times.append(seconds)
        for rank in (2, 1, 3):
            learning.hear(rank, number, used[rank])
        learning.begin(number, plan, SIZE, used[0])
        while not learning.is_studied and learning._step is not None:
            time.sleep(0.001)
        step = learning.take(number)
        told += step.lines
        plan = step.plan or plan
        if learning.is_over:
            break
    return times, told, plan


DUCT = [(0, 1), (0, 2), (3, 1), (3, 2)]


def test_operations_become_faster_and_what_was_carried_is_written(tmp_path):
    plan = treefold.plan(MESH, "packing", size_bytes=SIZE)
    learning = Learning(plan, None, str(tmp_path / "net.json"))
    times, told, last = run(learning, plan, DUCT, 4e6, 25)
    learning.close()
    assert max(times) <= 1.05 * max(times[:2]) and times[-1] < 0.8 * times[0]
    assert told and all(line.startswith("learnt: ") for line in told)
    written = treefold.topology(str(tmp_path / "net.json"))
    assert written.rank_names == MESH.rank_names
    again = treefold.plan(written, "packing", size_bytes=SIZE)
    assert operation(again, DUCT, 4e6)[0] <= 1.06 * min(times)
    assert set(learning.usual(last.topology)) <= set(bandwidths(MESH))


def test_where_plans_keep_their_promise_nothing_is_learnt():
    plan = treefold.plan(MESH, "packing", size_bytes=SIZE)
    learning = Learning(plan, None, None)
    _, told, last = run(learning, plan, DUCT, 1e9, 5)
    learning.close()
    assert learning.is_over and not told and last is plan and not learning.has_taught


def test_learning_ends_where_no_operation_teaches_anything():
    plan = treefold.plan(MESH, "packing", size_bytes=SIZE)
    learning = Learning(plan, None, None)
    assert not learning.is_under_way
    learning.begin(1, plan, SIZE, Used(1.0, {}))
    assert learning.is_under_way
    learning.take(60)
    assert learning.is_under_way
    learning.take(200)
    assert learning.is_over and not learning.is_under_way
    learning.close()


@pytest.mark.parametrize(
    ("network", "does"), [("full:4", True), ("full:2", False), ("ring:4", False), ("fattree:4,2", False)]
)
def test_it_applies_where_links_join_all_pairs(network, does):
    assert applies(treefold.topology(network)) is does


@pytest.mark.parametrize(
    "busy", [{"4": [1, 1.0]}, {"1": [-1, 1.0]}, {"1": [1]}, {"1": [1, "x"]}, [], {"1": [1.5, 1.0]}], ids=str
)
def test_what_other_ranks_tell_is_checked(busy):
    blob = json.dumps({"kind": "used", "operation": 1, "seconds": 1.0, "busy": busy}).encode()
    with pytest.raises(TreefoldError, match="worker 1"):
        control.read("worker 1", blob, 4)


def test_a_cut_ends_learning_and_keeps_what_was_learnt():
    plan = treefold.plan(MESH, "packing", size_bytes=SIZE)
    mapping = SimpleNamespace(describe=str)
    transport = SimpleNamespace(rank=0, size=4, mapping=mapping, connections=Connections(), failure=None, sequence=0)
    sent = []
    transport.broadcast = lambda kind, **fields: sent.append((kind, fields))
    transport.lives, transport.pairs_to_avoid = {(0, 1): 0}, [(0, 1)]
    controller = Controller(transport, GroupPlans(plan, 0, 0.0))
    controller.learning.has_taught = True
    controller.states = {rank: SimpleNamespace(done=1, sequence=1) for rank in range(4)}
    fields = controller._lead()
    assert fields["error"] == "" and controller.learning.is_over
    assert (0, 1) not in treefold.Plan.from_json(fields["plan"]).pairs
    controller.learning.close()


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"learn": "net.json"}, "only a group that adapts learns"),
        ({"learn": "/nowhere/net.json", "adapt": True}, "nowhere"),
        ({"learn": "net.xyz", "adapt": True}, "xyz"),
    ],
)
def test_files_that_cannot_be_written_are_refused_before(options, refusal):
    with pytest.raises(TreefoldError, match=refusal):
        runtime.in_threads(3, lambda group: group.all_reduce(np.zeros(4)), **options)
