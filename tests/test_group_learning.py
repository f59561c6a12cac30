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
from treefold.runtime.learning import Learning, why_not
from treefold.runtime.networks import UNCHANGED, Changes, bandwidths
from treefold.runtime.observing import Seen, Used, teaches
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


def operation(plan, duct, capacity_Bps, size=SIZE):
    """Return the seconds of an all-reduce where the pairs of a duct share a capacity, and what ranks tell of it."""
    each = loads(plan)
    shared_s = sum(each[pair] for pair in duct) / capacity_Bps
    alone_s = max(each.values()) / ALONE
    seconds = size * max(shared_s, alone_s)
    full = {pair for pair, load in each.items() if load / ALONE >= 0.98 * max(shared_s, alone_s)}
    full |= {pair for pair in duct if each[pair]} if shared_s >= alone_s else set()
    busy, courses = [{} for _ in range(4)], [{} for _ in range(4)]
    for (source, target), load in each.items():
        waits_s = seconds if (source, target) in full else 0.0
        courses[source][target] = even(load * size / 1024), even(1000 * waits_s)
        if waits_s:
            busy[source][target] = (int(load * size), waits_s)
    return seconds, [Used(seconds, *both) for both in zip(busy, courses, strict=True)]


def even(last):
    """Return a course that grows evenly."""
    return np.linspace(0, last, 33).astype(int).tolist()


def run(learning, plan, duct, capacity_Bps, most, size=SIZE):
    """Let operations run one after the other; return their seconds and what was told."""
    times, told = [], []
    for number in range(1, most + 1):
        seconds, used = operation(plan, duct, capacity_Bps, size)
        times.append(seconds)
        for rank in (2, 1, 3):
            learning.hear(rank, number, used[rank])
        learning.begin(number, plan, size, used[0])
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
    rates, names = bandwidths(last.topology), MESH.rank_names
    used, unused = max(rates, key=rates.get), min(rates, key=rates.get)
    tiny = {(names[unused[0]], names[unused[1]]): 1e-3 * ALONE}
    network = last.topology.with_bandwidths(tiny, one_way=True)
    assert set(learning.settle(network)) <= set(bandwidths(MESH))
    faster, slower = Changes({used: 3.0, unused: 0.1}, {}, frozenset()), Changes({used: 0.5}, {}, frozenset())
    assert learning.counted(faster) == UNCHANGED and learning.counted(slower) == slower


@pytest.mark.parametrize("size", [1 << 20, 6 << 20])
def test_small_operations_teach_as_well(size):
    plan = treefold.plan(MESH, "packing", size_bytes=size)
    learning = Learning(plan, None, None)
    times, *_ = run(learning, plan, DUCT, 4e6, 25, size)
    learning.close()
    assert max(times) <= 1.05 * max(times[:2]) and min(times) < 0.8 * times[0]


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
    learning.begin(1, plan, SIZE, Used(1.0, {}, {}))
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
    assert (why_not(treefold.topology(network)) == "") is does


def test_of_a_network_that_says_what_links_carry_at_once_only_slower_links_count():
    document = json.loads(treefold.topology("full:4").to_json()) | {"tested": "at once"}
    network = treefold.topology(document)
    assert network.tested == "at once" and "have shown before" in why_not(network)
    learning = Learning(treefold.plan(network, "packing", size_bytes=SIZE), None, None)
    faster, slower = (UNCHANGED._replace(factors={(0, 1): factor}) for factor in (2.0, 0.5))
    assert learning.counted(faster) == UNCHANGED and learning.counted(slower) == slower
    learning.close()


def test_a_window_shows_what_left_in_it_on_all_ranks_and_where_data_always_waited():
    plan = treefold.plan(MESH, "packing", size_bytes=SIZE)
    mib = 1024
    # Rank 0 began half a second earlier, and waited for the others before it sent anything.
    early = {1: ([0, 0, *(each * mib for each in (2, 4, 6, 8, 8))], [0, 0, 0, 500, 1000, 1500, 1500])}
    late = {0: ([each * mib for each in (0, 2, 4, 6, 8, 10)], [0, 0, 100, 200, 300, 400])}
    used = {0: Used(3.0, {}, early), 1: Used(2.5, {}, late)}
    windows = Seen(plan, SIZE, used).observations()
    assert len(windows) == 7 - 2
    rates = [observation.got_Bps for observation in windows]
    assert all(each[0, 1] == pytest.approx(4 << 20, rel=1e-6) for each in rates[:4])
    assert all(each[1, 0] == pytest.approx(4 << 20, rel=1e-6) for each in rates)
    waits = [[pair for pair, rate in each.offered_Bps.items() if rate == np.inf] for each in windows]
    assert waits[0] == [] and all(pairs == [(0, 1)] for pairs in waits[1:4])


def test_an_operation_that_carries_little_is_one_window():
    plan = treefold.plan(MESH, "packing", size_bytes=SIZE)
    [whole] = Seen(plan, SIZE, {0: Used(1.0, {}, {1: ([0, 1000], [0, 1])}), 1: Used(1.0, {}, {})}).observations()
    assert whole.got_Bps == {(0, 1): pytest.approx(1000 * 1024)}


def test_ranks_tell_of_the_first_operations_of_a_plan():
    plans = [treefold.plan(MESH, name, size_bytes=SIZE) for name in ("packing", "ring")]
    learning = Learning(plans[0], None, None)
    told = [sum(learning.tells(plan) for _ in range(100)) for plan in plans]
    assert told == [20, 20]
    learning.close()


@pytest.mark.parametrize(
    ("change", "does"),
    [({}, True), ({"size": 1000}, False), ({"is_alone": False}, False), ({"collective": "all-gather"}, False)],
)
def test_large_all_reduces_that_ran_alone_teach(change, does):
    given = {"size": SIZE, "is_alone": True, "collective": "all-reduce"} | change
    operation = SimpleNamespace(wire=None, vector=np.zeros(given["size"], np.uint8))
    ended = SimpleNamespace(
        operation=operation, plan=SimpleNamespace(collective=given["collective"]), is_alone=given["is_alone"]
    )
    assert teaches(ended, 1.0) is does and not teaches(ended, 0.01)


def test_ranks_that_did_not_run_together_teach_nothing():
    plan = treefold.plan(MESH, "packing", size_bytes=SIZE)
    assert Seen(plan, SIZE, {0: Used(1.0, {}, {}), 1: Used(1.4, {}, {})}).is_together
    assert not Seen(plan, SIZE, {0: Used(1.0, {}, {}), 1: Used(2.0, {}, {})}).is_together


BUSY, COURSES = {"1": [1, 1.0]}, {"1": [[0, 1], [0, 1]]}


@pytest.mark.parametrize(
    ("busy", "courses"),
    [
        *((busy, COURSES) for busy in ({"4": [1, 1.0]}, {"1": [-1, 1.0]}, {"1": [1]}, {"1": [1, "x"]}, [])),
        ({"1": [1.5, 1.0]}, COURSES),
        *(
            (BUSY, {"1": course})
            for course in ([], [[0, 1]], [[0, 1], [0]], [[0], [0]], [[0, -1], [0, 0]], [[0.5], []])
        ),
        (BUSY, []),
        (BUSY, {"4": [[0, 1], [0, 1]]}),
    ],
    ids=str,
)
def test_what_other_ranks_tell_is_checked(busy, courses):
    fields = {"kind": "used", "operation": 1, "seconds": 1.0, "busy": BUSY, "courses": COURSES}
    assert control.read("worker 1", json.dumps(fields).encode(), 4)["operation"] == 1
    blob = json.dumps({**fields, "busy": busy, "courses": courses}).encode()
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
