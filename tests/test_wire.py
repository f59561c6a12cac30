"""Numbers that cross lines in fewer bytes: all workers end alike and near the sum, and what is refused."""

import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import treefold
from commands import output, printed, refused
from loopback import Loopback
from treefold import TreefoldError, _core, runtime
from treefold.perf.patterns import Tables, count_wrong
from treefold.runtime.agreement import first_plan
from treefold.runtime.arrays import WIRE_TYPES
from treefold.runtime.driver import EngineTransport
from treefold.runtime.plans import GroupPlans

ERRORS = {"bfloat16": 2**-8, "float16": 2**-11, "float8": 2**-4, "int8": 1 / 253}
WORKERS = 3


def drawn(worker, elements=70_001):
    """Draw numbers from -1 to 1, some of which are tiny."""
    values = np.random.default_rng(worker).uniform(-1, 1, elements).astype(np.float32)
    values[elements // 3 : elements // 2] *= 1e-4
    return values


def bits(array):
    return array.view(np.uint32).tobytes()


@pytest.mark.parametrize("wire", WIRE_TYPES)
def test_every_collective_of_a_group_ends_alike_and_near(wire):
    def work(group):
        own = drawn(group.worker)
        reduced, rooted, sent = own.copy(), own.copy(), own.copy()
        group.all_reduce(reduced, wire=wire)
        group.reduce(rooted, root=1, wire=wire)
        group.broadcast(sent, root=2, wire=wire)
        parts = (group.reduce_scatter(own, wire=wire), group.all_to_all(own, wire=wire))
        unequal = group.all_to_all(own, sizes=[own.size - 7, 0, 7], wire=wire)
        gathered = group.all_gather(own, wire=wire)
        group.all_reduce(np.zeros(1))
        return reduced, rooted, sent, gathered, parts, unequal

    found = runtime.in_threads(WORKERS, work)
    inputs = [drawn(worker) for worker in range(WORKERS)]
    error = ERRORS[wire]
    for reduced, _, sent, gathered, *_ in found:
        assert [bits(reduced), bits(sent), bits(gathered)] == [bits(each) for each in (found[0][0], *found[0][2:4])]
    assert near(found[0][0], sum(inputs), WORKERS * WORKERS * error)
    assert near(found[1][1], sum(inputs), WORKERS * WORKERS * error)
    assert near(found[0][2], inputs[2], error)
    assert near(found[0][3], np.concatenate(inputs), error)
    for worker, (*_, (scattered, exchanged), unequal) in enumerate(found):
        first = inputs[0].size * worker // WORKERS
        own = slice(first, first + scattered.size)
        assert near(scattered, sum(inputs)[own], WORKERS * WORKERS * error)
        assert near(exchanged, np.concatenate([each[own] for each in inputs]), error)
        ends = ((0, -7), (0, 0), (-7, None))[worker]
        assert near(unequal, np.concatenate([each[slice(*ends)] for each in inputs]), error)


def near(found, wanted, most):
    return found.size == wanted.size and (np.abs(found - wanted) <= most + 1e-6).all()


@pytest.mark.parametrize("wire", WIRE_TYPES)
def test_what_is_not_finite_arrives_as_such(wire):
    def work(group):
        array = drawn(group.worker, 5000)
        if group.worker == 0:
            array[[7, 800, 2900]] = np.nan, np.inf, -np.inf
        group.all_reduce(array, wire=wire)
        return array

    found = runtime.in_threads(WORKERS, work)
    assert len({bits(array) for array in found}) == 1
    assert np.isnan(found[0][7])
    assert found[0][800] == np.inf
    assert found[0][2900] == -np.inf
    assert np.isfinite(found[0]).sum() == 5000 - 3


@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling", "bruck", "dbtree", "forest", "nccl"])
@pytest.mark.parametrize("elements", [1, 255, 256, 257, 10_007])
def test_plans_end_alike_at_any_length(algorithm, elements):
    plan = treefold.plan("full:4", algorithm)
    inputs = [drawn(rank, elements) for rank in range(4)]
    results = treefold.run(plan, inputs, wire="int8")
    assert len({bits(array) for array in results}) == 1
    assert near(results[0], sum(inputs), 4 * 4 * ERRORS["int8"])


@pytest.mark.parametrize(("network", "between"), [("torus:3x3", "ring"), ("fattree:8,2", "direct")])
def test_plans_of_several_levels_end_alike(network, between):
    """Ranks send results from copies, in pieces that differ from level to level."""
    plan = treefold.plan(network, "hierarchical", between=between)
    inputs = [drawn(rank, 9001) for rank in range(plan.topology.ranks)]
    assert _core.Program(plan, 0, 9001, 4, 0.0, "int8").wire == "int8"
    results = treefold.run(plan, inputs, wire="int8")
    assert len({bits(array) for array in results}) == 1
    assert near(results[0], sum(inputs), len(inputs) ** 2 * ERRORS["int8"])


def test_ranks_that_add_up_by_themselves_send_numbers_as_they_are():
    plan = treefold.plan("full:4", "p2p")
    inputs = [drawn(rank, 1000) for rank in range(4)]
    assert near(treefold.run(plan, inputs, wire="float8")[0], sum(inputs), 1e-5)
    assert _core.Program(plan, 0, 1000, 4, 0.0, "float8").wire is None


@pytest.mark.parametrize("adapt", [False, True])
@pytest.mark.parametrize(("algorithm", "is_told"), [("p2p", True), ("ring", False)])
def test_a_group_warns_once_of_plans_in_which_ranks_add_up_by_themselves(algorithm, is_told, adapt):
    def work(group):
        for elements in (1000, 2000):
            group.all_reduce(np.ones(elements, np.float32), wire="int8")

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        runtime.in_threads(4, work, network="full:4", algorithm=algorithm, adapt=adapt)
    text = f"numbers cross lines as they are, not as int8: in plans of {algorithm} ranks add up by themselves"
    assert [text in str(each.message) for each in told] == [True] * is_told


@pytest.mark.parametrize("algorithm", ["p2p", "exchange", "recursive-doubling", "ring"])
@pytest.mark.parametrize("wire", WIRE_TYPES)
def test_two_ranks_that_exchange_what_they_have_end_alike(algorithm, wire):
    plan = treefold.plan("full:2", algorithm)
    assert _core.Program(plan, 0, 9001, 4, 0.0, wire).wire == wire
    results = treefold.run(plan, [drawn(rank, 9001) for rank in range(2)], wire=wire)
    assert bits(results[0]) == bits(results[1])
    assert near(results[0], drawn(0, 9001) + drawn(1, 9001), 4 * ERRORS[wire])


def test_bfloat16_vectors_end_alike():
    def work(group):
        array = (drawn(group.worker, 3001).view(np.uint32) >> 16).astype(np.uint16)
        group.all_reduce(array, number="bfloat16", wire="int8")
        same = array.copy()
        group.all_reduce(same, number="bfloat16", wire="bfloat16")
        return array

    found = runtime.in_threads(WORKERS, work)
    assert len({array.tobytes() for array in found}) == 1
    values = (found[0].astype(np.uint32) << 16).view(np.float32)
    assert near(values, sum(drawn(worker, 3001) for worker in range(WORKERS)), WORKERS * WORKERS * (1 / 126 + 1 / 128))


@pytest.mark.parametrize(
    ("array", "wire", "message"),
    [
        (np.ones(3, np.int64), "int8", "wire type int8 is for float32 and bfloat16 vectors, and this one is int64"),
        (np.ones(3), "float8", "wire type float8 is for float32 and bfloat16 vectors, and this one is float64"),
        (np.ones(3, np.float32), "bfloat", r"wire type 'bfloat' is unknown; did you mean bfloat16"),
        (np.ones(3, np.float32), "", "the name of the wire type is empty"),
        (np.ones(3, np.float32), 8, "wire type 8 is not a name"),
    ],
)
def test_wrong_wire_types_are_refused_and_the_group_goes_on(array, wire, message):
    def work(group):
        with pytest.raises(TreefoldError, match=message):
            group.all_reduce(array.copy(), wire=wire)
        after = np.ones(1)
        group.all_reduce(after)
        return after.item()

    assert runtime.in_threads(2, work) == [2.0, 2.0]


def test_workers_that_disagree_are_all_told():
    def work(group):
        with pytest.raises(TreefoldError, match=r"float32 as int8 by .* float32 by |float32 by .* float32 as int8 by "):
            group.all_reduce(np.ones(5000, np.float32), wire="int8" if group.worker else None)

    runtime.in_threads(WORKERS, work)


def test_engines_carry_fewer_bytes():
    plan = treefold.plan("full:3", "ring")
    boxes = [[], [], []]

    def work(rank):
        transport = EngineTransport(Loopback(rank, boxes), 5.0)
        plans = GroupPlans(plan, rank, 1e-5)
        vector = drawn(rank)
        program = plans.program(plan, vector.size, 4, "int8")
        assert program.message_bytes < plans.program(plan, vector.size, 4).message_bytes / 3.8
        operation = runtime.transport.Operation(vector.view(np.uint8), "float32", "sum", wire="int8")
        transport.end(transport.start(program, operation))
        return vector

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(work, range(3)))
    assert len({bits(array) for array in found}) == 1
    assert near(found[0], sum(map(drawn, range(3))), 9 * ERRORS["int8"])


@pytest.mark.parametrize(("number", "op"), [("float32", "sum"), ("float32", "max"), ("bfloat16", "sum")])
@pytest.mark.parametrize("collective", ["all-reduce", "all-gather", "all-to-all"])
def test_run_counts_what_is_beyond_the_bound_as_wrong(number, op, collective):
    for wire in WIRE_TYPES:
        options = ["--type", number, "--op", op, "--collective", collective, "--wire", wire, "--iters", "1"]
        (row,) = output("run", "full:3", "--local", "3", "--size", "90KB", *options)
        assert (row["wrong"], row["wire"]) == (0, None if wire == number else wire)


def test_a_tolerance_forgives_no_more_than_it_says():
    table = np.arange(10, dtype=np.float32)
    parts = [_part(table)]
    assert count_wrong(table + np.float32(0.5), parts, 0, 0.5) == 0
    assert count_wrong(table + np.float32(0.51), parts, 0, 0.5) == 10
    assert count_wrong(np.full(10, np.nan, np.float32), parts, 0, 0.5) == 10
    assert Tables(2, "float32", "sum").tolerance(None) == 0.0


def _part(values):
    from treefold.perf.patterns import TABLE, Part

    table = np.zeros(TABLE, np.float32)
    table[: values.size] = values
    return Part(slice(0, values.size), table, 0)


def test_run_tells_of_plans_in_which_ranks_add_up_by_themselves():
    how = ("--local", "4", "--size", "1MiB", "--iters", "1")
    shown = printed("run", "full:4", *how, "-a", "p2p", "--wire", "int8")
    assert "1MiB crossed lines as float32: in plans of p2p ranks add up by themselves" in shown
    shown = printed("run", "full:4", *how, "-a", "ring", "--wire", "INT8")
    assert "all-reduce of 4 ranks over threads, across lines as int8" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--wire", "int8", "--type", "int64"), "wire type int8 is for float32 and bfloat16 vectors, and this one is"),
        (("--wire", "flaot8"), "wire type 'flaot8' is unknown; did you mean float8"),
        (("--wire", ""), "the name of the wire type is empty"),
    ],
)
def test_run_refuses_wrong_wire_types(options, message):
    assert message in refused("run", "full:3", "--local", "3", "--size", "1KiB", *options)


NETWORKS = ("full:4", "torus:4x4", "bigraph:4x4", "dgx2:planes=6", "cluster:nodes=2,gpus=4,rails=4")
BY_THEMSELVES = {"p2p", "exchange", "recursive-doubling", "ring2d"}
"""The algorithms in which each rank adds up by itself, besides `hierarchical`."""


def test_the_manual_lists_the_algorithms_in_which_numbers_cross_as_they_are():
    found = {}
    for network in NETWORKS:
        for name in sorted(set(treefold.algorithms()) - {"hierarchical"}):
            with suppress(treefold.MisfitError):
                wire = _core.Program(treefold.plan(network, name), 0, 10_000, 4, 1e-5, "int8").wire
                found.setdefault(name, set()).add(wire)
    assert {name for name, wires in found.items() if wires == {None}} == BY_THEMSELVES
    assert all(wires in ({None}, {"int8"}) for wires in found.values())
    text = " ".join((Path(__file__).parents[1] / "docs/concepts/wire.md").read_text().split())
    (listed,) = re.findall(r"in (`p2p`.*?), and where `hierarchical` uses `exchange` between", text)
    assert set(re.findall(r"`([\w-]+)`", listed)) == BY_THEMSELVES


@pytest.mark.parametrize(("network", "size"), [("mesh:4x4", 12 << 10), ("torus:4x4", 2048), ("full:8", 20_000)])
def test_auto_compares_plans_by_the_bytes_that_cross(network, size):
    """On the mesh it takes hierarchical without a wire type, in which ranks add up by themselves."""
    ranks = treefold.topology(network).ranks

    def seconds(plan):
        wire = _core.Program(plan, 0, size // 4, 4, 1e-5, "int8").wire
        crossing = size if wire is None else _core.wire_bytes(wire, size // 4)
        return treefold.simulate(plan, size_bytes=crossing, simulator="flow").time_s

    names = ["ring", "multitree", "exchange", "halving-doubling", "hierarchical", "dbtree", "p2p"]
    found = first_plan([None] * ranks, network, size, {}, ("int8", 4))
    others = [seconds(found)]
    for name in names:
        with suppress(treefold.MisfitError):
            others.append(seconds(first_plan([None] * ranks, network, size, {"algorithm": name})))
    assert len(others) > 3
    assert seconds(found) <= min(others) * (1 + 1e-9)
    assert found.size_bytes == size
    if network == "mesh:4x4":
        assert (first_plan([None] * ranks, network, size, {}).algorithm, found.algorithm) == ("hierarchical", "forest")


def test_joined_workers_and_the_command_plan_for_the_bytes_that_cross():
    def work(group):
        return group.plan.algorithm

    options = {"network": "mesh:4x4", "size_bytes": 12 << 10}
    assert set(runtime.in_threads(16, work, **options, wire="int8")) == {"forest"}
    how = ("--local", "16", "--size", "12KiB", "--iters", "1")
    assert output("run", "mesh:4x4", *how)[0]["algorithm"] == "hierarchical"
    (row,) = output("run", "mesh:4x4", *how, "--wire", "int8")
    assert (row["algorithm"], row["wire"]) == ("forest", "int8")
    with pytest.raises(TreefoldError, match="wire type 'itn8' is unknown; did you mean int8"):
        runtime.in_threads(2, work, wire="itn8")


@pytest.mark.parametrize("algorithm", ["p2p", "exchange", "ring"])
def test_workers_that_want_different_wire_types_are_told_whatever_the_plan(algorithm):
    def work(group):
        group.all_reduce(np.ones(5000, np.float32), wire=[None, "int8", "float8"][group.worker])

    with pytest.raises(TreefoldError, match=r"the ranks disagree: .* as "), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runtime.in_threads(3, work, network="full:3", algorithm=algorithm)
