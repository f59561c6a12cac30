"""Groups over TCP on loopback: every collective, workers in any order, and what they refuse."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from random import Random

import numpy as np
import pytest

import treefold
from treefold import TreefoldError, runtime
from treefold.collectives import COLLECTIVES
from treefold.runtime import Connections, RankLostError
from vectors import DTYPES, assert_same, expected, operators, vectors

CONNECTIONS = Connections(5, 5)


def together(work, workers, names=None, connections=CONNECTIONS, **how):
    """Join so many workers as threads, and do `work(group)` in each; return results, or errors."""

    def outcome(place):
        place.name = names[place.rank] if names else None
        try:
            team = runtime.join(place, connections=connections, **how)
        except TreefoldError as error:
            return error
        finally:
            place.close()
        try:
            return work(team)
        except TreefoldError as error:
            return error
        finally:
            team.close()

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(outcome, runtime.local(workers)))


def result(team, collective, array, op, root):
    match collective:
        case "all-gather":
            return team.all_gather(array)
        case "reduce-scatter":
            return team.reduce_scatter(array, op)
        case "all-to-all":
            return team.all_to_all(array)
        case "broadcast":
            team.broadcast(array, root)
        case "reduce":
            team.reduce(array, root, op)
            return array if team.worker == root else None
        case _:
            team.all_reduce(array, op)
    return array


def check_all(workers, sizes, names=None, **how):
    cases = []
    random = Random(workers)
    for collective in COLLECTIVES:
        for size in sizes:
            dtype = random.choice(DTYPES)
            op, root = random.choice(operators(dtype)), random.randrange(workers)
            cases.append((collective, vectors(random, workers, size, dtype), op, root))

    def work(team):
        return [result(team, each[0], each[1][team.worker].copy(), *each[2:]) for each in cases]

    found = together(work, workers, names, **how)
    for number, case in enumerate(cases):
        assert_same([results[number] for results in found], expected(*case))


@pytest.mark.parametrize("algorithm", ["ring", "multitree", "dbtree", "packing", "forest", "auto"])
def test_every_collective(algorithm):
    check_all(4, (0, 1, 3, 10_001), algorithm=algorithm)


@pytest.mark.parametrize("algorithm", ["auto", "forest", "ring"])
@pytest.mark.parametrize("collective", ["all-gather", "all-to-all"])
def test_a_collective_gets_the_plan_that_its_algorithm_would_make(algorithm, collective):
    plans = together(lambda team: (team.plan, team.plan_for(collective)), 12, network="b4", algorithm=algorithm)
    wanted = treefold.plan("b4", algorithm, collective=collective, simulator="flow")
    assert {plan.fingerprint for _, plan in plans} == {wanted.fingerprint}
    derived = plans[0][0].derive(collective)
    assert (derived.fingerprint == wanted.fingerprint) == (algorithm == "ring")


def test_a_plan_that_sends_between_other_ranks_than_the_all_reduce_connects_them_first():
    network = "cluster:nodes=2,gpus=3,rails=1"
    base = treefold.plan(network, "ring").made_for(1 << 20, "flow")
    plans = [base, *together(lambda team: team.plan_for("all_to_all"), 6, plan=base)]
    assert not set(plans[1].pairs) <= set(base.pairs)
    check_all(6, (1, 10_001), plan=base)


def test_switches_that_reduce_only_forward_what_workers_send():
    network = treefold.topology("dgx2:planes=1").with_ranks([0, 1, 2])
    plans = together(lambda team: [team.plan_for(each) for each in COLLECTIVES], 3, network=network)
    assert not any(node.reduces for plan in plans[0] for node in plan.topology.nodes())
    check_all(3, (1000,), network=network)


def test_from_and_to_a_root_the_trees_of_the_all_reduce_serve():
    base = treefold.plan("b4", simulator="flow")
    plans = together(lambda team: team.plan_for("broadcast", 3), 12, plan=base)
    assert {plan.fingerprint for plan in plans} == {base.derive("broadcast", 3).fingerprint}


def test_where_no_trees_of_the_all_reduce_serve_a_root_auto_plans():
    base = treefold.plan("full:4", "p2p").made_for(1 << 10, "flow")
    plans = together(lambda team: team.plan_for("reduce", 3), 4, plan=base)
    assert {(plan.collective, plan.root) for plan in plans} == {("reduce", 3)}


@pytest.mark.parametrize("algorithm", ["swing", "bine"])
def test_where_whole_vectors_are_exchanged_the_algorithm_plans_other_collectives(algorithm):
    base = treefold.plan("ring:4", algorithm, size_bytes=1 << 10)
    with pytest.raises(treefold.MisfitError, match=f"{algorithm} cannot do all-gather"):
        base.derive("all-gather")
    check_all(4, (1, 1000), plan=base)


def test_a_plan_in_which_switches_reduce_is_refused():
    plan = treefold.plan("dgx2:planes=1", "innet-pull")
    errors = together(lambda team: None, 16, plan=plan)
    assert ["not run between workers" in str(error) for error in errors] == [True] * 16


def test_workers_that_call_different_collectives_first_are_told_so():
    base = treefold.plan("cluster:nodes=2,gpus=3,rails=1", "ring").made_for(1 << 20, "flow")

    def work(team):
        array = np.ones(6)
        return team.all_to_all(array) if team.worker == 0 else team.all_reduce(array[:1])

    assert all("uint8" in str(error) for error in together(work, 6, plan=base))


def test_one_worker_and_five():
    check_all(1, (0, 5))
    check_all(5, (3, 1000), algorithm="ring")


def test_workers_in_another_order_than_the_networks_ranks_get_their_own_blocks():
    network = treefold.topology("ring:4")
    names = [network.rank_names[rank] for rank in (2, 0, 3, 1)]
    check_all(4, (0, 1, 4, 7, 1002), names, network=network, algorithm="ring")


def test_workers_with_names_are_the_ranks_of_a_larger_network():
    network = treefold.topology("ring:6")
    names = [network.rank_names[rank] for rank in (5, 1, 3)]
    found = together(lambda team: (team.plan.topology.rank_names, team.rank), 3, names, network=network)
    assert [ranks for ranks, _ in found] == [sorted(names)] * 3
    assert [rank for _, rank in found] == [2, 0, 1]
    check_all(3, (5,), names, network=network)


def test_without_a_network_workers_keep_their_names():
    found = together(lambda team: team.mapping.describe(1), 3, ["paris", "rome", "oslo"])
    assert found == ["worker 1 (rome)"] * 3


def test_an_operation_that_a_worker_does_not_begin_in_time_is_given_up_by_all():
    def work(team):
        if team.worker == 2:
            time.sleep(1.5)  # too late for the first, not for the second, which the others begin after a second
        try:
            team.all_reduce(np.ones(50_000))
        except TreefoldError as error:
            array = np.ones(3)
            team.all_reduce(array)
            return str(error), array.tolist()
        return None

    for message, after in together(work, 3, connections=Connections(5, 5, 1.0)):
        assert "worker 2 (GPU2) has not begun it" in message
        assert after == [3, 3, 3]


def test_leaving_ends_an_operation_in_another_thread():
    def work(team):
        if team.worker == 0:
            return time.sleep(1)
        with ThreadPoolExecutor(1) as other:
            waits = other.submit(team.all_reduce, np.ones(50_000))
            time.sleep(0.3)
            start = time.monotonic()
            team.close()
            return str(waits.exception()), time.monotonic() - start

    found = together(work, 3)[1:]
    assert any("interrupted" in message for message, _ in found)
    assert all(seconds < 3 for _, seconds in found)


def test_bfloat16_travels_as_two_byte_integers():
    def work(team):
        array = np.full(1000, 0x3FC0, np.uint16)  # 1.5
        team.all_reduce(array, number="bfloat16")
        return array

    assert all((found == 0x4090).all() for found in together(work, 3))  # 4.5


@pytest.mark.parametrize(
    ("names", "network", "message"),
    [
        (None, "ring:4", "3 workers for 4 ranks of network 'ring:4'; start 4 workers, or plan for 3 ranks"),
        (
            ["a", "b", "c"],
            "ring:3",
            "it has no rank a, b, c, and no worker is called GPU0, GPU1, GPU2; set TREEFOLD_NAME",
        ),
        (["GPU0", "GPU0", "GPU1"], "ring:3", "several workers are called GPU0; give each its own TREEFOLD_NAME"),
        (["GPU0", "GPU1", "GPU0"], "ring:3", "TREEFOLD_NAME (GPU0 is that of workers 0, 2)"),
        (["GPU0", "GPU1", "GPUU2"], "ring:3", "names; worker 2 is called 'GPUU2', did you mean 'GPU2'?"),
        (["GPU0", "GPU1", "GPUU2"], "ring:4", "it has no rank GPUU2, and no worker is called GPU2, GPU3; set"),
    ],
)
def test_workers_that_do_not_match_the_network_are_told_so_on_every_rank(names, network, message):
    errors = together(lambda team: None, 3, names, network=treefold.topology(network))
    assert all(message in str(error) for error in errors)


def test_a_plan_for_another_number_of_ranks():
    errors = together(lambda team: None, 3, plan=treefold.plan("ring:4", "ring"))
    assert ["3 workers for 4 ranks of network 'ring:4'" in str(error) for error in errors] == [True] * 3


def test_a_plan_of_another_collective_serves_that_and_auto_plans_the_others():
    given = treefold.plan("line:3", "ring", collective="all-gather")
    plans = together(lambda team: [team.plan_for(each) for each in ("all-gather", "all-reduce")], 3, plan=given)
    beside = treefold.plan("line:3", size_bytes=given.size_bytes, simulator="flow")
    assert [[plan.fingerprint for plan in each] for each in plans] == [[given.fingerprint, beside.fingerprint]] * 3
    check_all(3, (0, 1, 1000), plan=given)


def test_a_plan_for_unequal_blocks_serves_no_group():
    given = treefold.plan("ring:2", collective="all-to-all", blocks=[[0, 1], [2, 0]])
    errors = together(lambda team: None, 2, plan=given)
    message = "blocks of unequal sizes, which a group is told at each call"
    assert [message in str(error) for error in errors] == [True] * 2


@pytest.mark.parametrize("algorithm", ["auto", "forest"])
def test_a_limit_of_steps_holds_for_each_collective_by_itself(algorithm):
    def work(team):
        with pytest.raises(treefold.MisfitError, match="steps 2 is too few"):
            team.all_reduce(np.ones(3))
        array = np.full(3, team.worker)
        team.broadcast(array, root=1)
        steps = [team.plan_for(each, 1).steps for each in ("all-gather", "reduce-scatter", "broadcast", "reduce")]
        return team.all_gather(np.full(1, team.worker)).tolist(), array.tolist(), steps

    found = together(work, 4, network="ring:4", steps=2, algorithm=algorithm)
    assert found == [([0, 1, 2, 3], [1, 1, 1], [2, 2, 2, 2])] * 4, found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda team: team.all_reduce(np.ones(11, np.float32)), "all-reduce 'sum' of 11 float32"),
        (lambda team: team.all_reduce(np.ones(10, np.int32)), "all-reduce 'sum' of 10 int32"),
        (lambda team: team.all_reduce(np.ones(10, np.float32), "max"), "all-reduce 'max' of 10 float32"),
        (lambda team: team.broadcast(np.ones(10, np.float32)), "broadcast of 10 float32 by plan "),
    ],
)
def test_workers_that_disagree_on_an_operation_are_told_so_on_every_rank(change, message):
    def work(team):
        change(team) if team.worker == 1 else team.all_reduce(np.ones(10, np.float32))

    errors = together(work, 3)
    assert all("the ranks disagree: worker " in str(error) and message in str(error) for error in errors)


def test_a_worker_that_leaves_is_named_to_the_others():
    errors = together(lambda team: team.worker == 2 or team.all_reduce(np.ones(1000)), 3)
    assert errors[2] is True
    assert all(isinstance(error, RankLostError) and error.workers == [2] for error in errors[:2])


def test_wrong_arrays_are_refused_before_anything_is_sent():
    def work(team):
        said = []
        for array, op in ((np.ones((4, 4))[:, ::2], "sum"), (np.ones(4), "bor")):
            with pytest.raises(TreefoldError) as caught:
                team.all_reduce(array, op)
            said.append(str(caught.value))
        team.all_reduce(array := np.ones(4))
        return said, array.tolist()

    for said, array in together(work, 2):
        assert "must be C-contiguous" in said[0]
        assert "float64 numbers have no operator 'bor'" in said[1]
        assert array == [2.0] * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"collective": "broadcast"}, "collective cannot be chosen here: a group plans an all-reduce"),
        ({"root": 1, "collective": "reduce"}, "collective and root cannot be chosen here"),
        ({"simulator": "analytic"}, "simulator cannot be chosen here"),
        ({"algoritm": "ring"}, "join has no argument 'algoritm'; did you mean algorithm?"),
        ({"trees": 0}, "trees"),
        ({"network": "rign:3"}, "rign"),
        ({"network": 3}, "network 3 is not a network"),
        ({"plan": "plan.json"}, "plan 'plan.json' is not a treefold.Plan"),
        ({"engine": lambda _: None, "adapt": True}, "adapt works over TCP only"),
    ],
)
def test_options_that_no_group_has_are_refused_on_every_worker(options, message):
    errors = together(lambda team: None, 3, **options)
    assert [message in str(error) for error in errors] == [True] * 3, errors
    with pytest.raises(TreefoldError, match=re.escape(message)):
        runtime.in_threads(3, lambda team: None, **options)


def test_a_network_may_be_a_spec_or_a_file(tmp_path):
    path = tmp_path / "line.json"
    treefold.save(treefold.topology("line:3"), path)
    for network, name in (("ring:3", "ring:3"), (str(path), "line:3"), (path, "line:3")):
        found = together(lambda team: team.plan.topology.name, 3, network=network)
        assert found == [name] * 3


@pytest.mark.parametrize(
    ("array", "number", "message"),
    [
        (
            np.full(4, 0.3),
            "bfloat16",
            "bfloat16 numbers travel in an array of 2-byte integers, and this one is of float64",
        ),
        (np.full(4, 0.3, np.float16), "bfloat16", "and this one is of float16"),
        (np.ones(4, np.int32), "bfloat16", "and this one is of int32"),
        (np.ones(4, np.int32), "float64", "float64 numbers travel in an array of 8-byte integers"),
        (np.ones(4), "float65", "number type 'float65' is unknown; known are"),
        (np.ones(4, ">f4"), None, "the array's numbers are of type >f4; pass array.astype('float32')"),
        ([1.0, 2.0], None, "a list is not a NumPy array"),
    ],
)
def test_arrays_whose_numbers_are_of_another_type_are_refused(array, number, message):
    def work(team):
        for call in (team.all_reduce, team.reduce, team.all_gather, team.reduce_scatter, team.all_to_all):
            with pytest.raises(TreefoldError, match=re.escape(message)):
                call(array, number=number)
        return True

    assert runtime.in_threads(2, work) == [True] * 2


@pytest.mark.parametrize("root", [-1, 3, "GPU1", 1.0])
def test_a_root_is_a_worker(root):
    def work(team):
        for call in (team.broadcast, team.reduce):
            with pytest.raises(TreefoldError, match=f"root '?{root}'? does not exist: there are 3 workers, 0 to 2"):
                call(np.ones(2), root=root)
        team.broadcast(array := np.full(2, team.worker), root=np.int64(2))
        team.all_reduce(np.ones(1))  # the root stays until all have begun, because those who begin later would miss it
        return array.tolist()

    assert runtime.in_threads(3, work) == [[2, 2]] * 3


@pytest.mark.parametrize("workers", [0, -1, 1 << 20, 2.0, "4", treefold.plan("ring:4")])
def test_a_number_of_threads_that_no_group_has(workers):
    with pytest.raises(
        TreefoldError, match=r"number of workers must be (at least 1|at most 65536|a whole number), got"
    ):
        runtime.in_threads(workers, lambda team: None)


def test_an_engine_maker_is_known_by_its_transports_name():
    [meeting] = runtime.local(1)
    with pytest.raises(TreefoldError, match="transport 'gloo' is unknown; known are tcp, mpi, torch"):
        runtime.engine_maker("gloo", meeting)
    with pytest.raises(TreefoldError, match="transport 'threads' is unknown"):
        runtime.engine_maker("threads", meeting)


def test_a_new_group_is_planned_with_the_options_of_regroup():
    def work(team):
        if team.worker == 1:
            return "gone"
        try:
            team.all_reduce(np.ones(2))
        except RankLostError as lost:
            with pytest.raises(TreefoldError, match="collective cannot be chosen here"):
                runtime.regroup(team, lost, collective="broadcast")
        return "told"

    assert runtime.in_threads(3, work, algorithm="multitree") == ["told", "gone", "told"]

    def again(team):
        if team.worker == 1:
            return None
        try:
            team.all_reduce(np.ones(2))
        except RankLostError as lost:
            team = runtime.regroup(team, lost, algorithm="dbtree", size_bytes=1 << 10)
        with closing(team):
            return team.plan.algorithm, team.plan.size_bytes

    assert runtime.in_threads(3, again) == [("dbtree", 1 << 10), None, ("dbtree", 1 << 10)]


def test_who_receives_nothing_may_leave_first():
    """A worker may send and leave before others begin the operation: its messages count."""

    def work(group):
        return group.all_to_all(np.full(2, group.worker), sizes=[0, 1, 1]).tolist()

    for _ in range(10):
        assert runtime.in_threads(3, work, network="ring:3") == [[], [0, 1, 2], [0, 1, 2]]
