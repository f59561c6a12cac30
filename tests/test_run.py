"""`treefold.run`: what each collective returns where, every number type, and every wrong input."""

from random import Random

import numpy as np
import pytest

import treefold
from treefold.collectives import COLLECTIVES
from vectors import DTYPES, assert_same, expected, operators, vectors

RANKS = 6


def plan(collective="all-reduce", algorithm="multitree", network="mesh:2x3", root=0):
    return treefold.plan(network, algorithm, collective=collective, root=root)


def arrays(shape=8, dtype="int64", ranks=RANKS):
    return vectors(Random(1), ranks, shape, dtype)


@pytest.mark.parametrize(("dtype", "op"), [(dtype, op) for dtype in DTYPES for op in operators(dtype)])
def test_every_number_type_and_operator(dtype, op):
    given = arrays(25, dtype)
    assert_same(treefold.run(plan(), given, op), expected("all-reduce", given, op, 0))


def test_halves_of_a_plan_are_simulated_but_never_run():
    halves = treefold.plan("ring:4", "packing").reduce_halves()
    assert treefold.simulate(halves, link_model="hockney").time_s > 0
    for each in (
        halves,
        halves.under("hockney"),
        halves.made_for(1 << 20, "flow"),
        treefold.Plan.from_json(halves.to_json()),
    ):
        with pytest.raises(treefold.TreefoldError, match=r"halves can be simulated but not run|can only be checked"):
            treefold.run(each, arrays(ranks=4))


def test_floats_add_up_as_numpy_adds_them():
    generator = np.random.default_rng(0)
    given = [generator.normal(size=1000).astype(np.float32) for _ in range(RANKS)]
    for result in treefold.run(plan(), given):
        np.testing.assert_allclose(result, np.sum(given, axis=0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (2, 3, 4), (7,)])
def test_results_have_the_shape_of_the_inputs(shape):
    given = arrays(shape)
    for collective in ("all-reduce", "broadcast", "reduce"):
        wanted = expected(collective, given, "sum", 2)
        assert_same(treefold.run(plan(collective, root=2), given), wanted)


@pytest.mark.parametrize("algorithm", ["ring", "multiring", "dbtree", "halving-doubling", "multitree", "forest"])
@pytest.mark.parametrize("collective", ["reduce-scatter", "all-gather", "all-to-all"])
@pytest.mark.parametrize("size", [0, 1, RANKS - 1, RANKS, 2 * RANKS + 3, 6000])
def test_blocks_are_flat_and_cut_evenly(collective, algorithm, size):
    given = arrays(size)
    wanted = expected(collective, given, "sum", 0)
    assert_same(treefold.run(plan(collective, algorithm), given), wanted)


@pytest.mark.parametrize("network", ["cluster:nodes=2,gpus=3,rails=3", "mesh:2x3", "random:n=6,links=9,seed=1"])
@pytest.mark.parametrize("planned_for", ["1KiB", "1GiB"])
def test_all_to_alls_of_forest_run_whatever_their_pace(network, planned_for):
    exchange = treefold.plan(network, "forest", size_bytes=planned_for, collective="all-to-all")
    given = arrays(2 * RANKS + 3)
    assert_same(treefold.run(exchange, given), expected("all-to-all", given, "sum", 0))


def test_blocks_by_hand():
    given = [np.array([10, 20, 30, 40, 50]) + rank for rank in range(2)]

    def result(collective):
        return [array.tolist() for array in treefold.run(plan(collective, "ring", "line:2"), given)]

    assert result("reduce-scatter") == [[21, 41], [61, 81, 101]]
    assert result("all-gather") == [[10, 20, 30, 40, 50, 11, 21, 31, 41, 51]] * 2
    assert result("all-to-all") == [[10, 20, 11, 21], [30, 40, 50, 31, 41, 51]]


def test_only_the_root_gets_a_reduction():
    results = treefold.run(plan("reduce", root=4), arrays())
    assert [result is not None for result in results] == [rank == 4 for rank in range(RANKS)]


def test_a_broadcast_reads_the_roots_values_only():
    given = [np.full(9, np.nan) for _ in range(RANKS)]
    given[3] = np.arange(9.0)
    assert_same(treefold.run(plan("broadcast", root=3), given), [np.arange(9.0)] * RANKS)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_inputs_stay_and_results_are_new(collective):
    given = arrays(12)
    before = [array.copy() for array in given]
    for result in treefold.run(plan(collective), given):
        if result is not None:
            result[...] = -1
    assert_same(given, before)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_a_single_rank_keeps_its_own(collective):
    given = arrays(5, ranks=1)
    assert_same(treefold.run(plan(collective, "ring", "line:1"), given), given)


def test_strided_and_big_endian_arrays():
    given = [np.arange(40, dtype=">i4")[rank::4].reshape(2, 5)[:, ::-1] for rank in (0, 1, 2, 3)]
    for result in treefold.run(plan(network="ring:4"), given):
        np.testing.assert_array_equal(result, sum(given))


def test_a_streamed_plan_runs_in_many_chunks():
    streamed = plan(algorithm="dbtree")
    assert len(streamed.schedule(100_000, 8)) > 10 * len(streamed.schedule(4, 8))
    given = arrays(100_000)
    assert_same(treefold.run(streamed, given), expected("all-reduce", given, "sum", 0))


class Tensor:
    """What a tensor does that NumPy cannot hold, or that is on another device."""

    def __array__(self, *_, **__):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.\nAnd more.")

    def detach(self):
        return self


@pytest.mark.parametrize(
    ("given", "op", "expected"),
    [
        (arrays(ranks=5), "sum", "5 arrays for 6 ranks"),
        (arrays(ranks=7), "sum", "7 arrays for 6 ranks"),
        ([], "sum", "0 arrays for 6 ranks"),
        (
            [*arrays(ranks=5), np.zeros(9, "int64")],
            "sum",
            "rank 5 has int64 of shape (9,), rank 0 has int64 of shape (8,)",
        ),
        ([*arrays((2, 4), ranks=5), np.zeros(8, "int64")], "sum", "rank 5 has int64 of shape (8,)"),
        ([*arrays(ranks=5), np.zeros(8, "int32")], "sum", "rank 5 has int32 of shape (8,)"),
        ([np.zeros(8, object)] * 6, "sum", "rank 0 has values of type object, which cannot be reduced"),
        ([np.zeros(8, "datetime64[s]")] * 6, "sum", "rank 0 has values of type datetime64[s], which cannot"),
        ([*arrays(ranks=5), ["a"] * 8], "sum", "rank 5 has values of type <U1, which cannot be reduced; use one of"),
        ([*arrays(ranks=5), None], "sum", "rank 5 has values of type object"),
        ([[2**70]] * 6, "sum", "rank 0 has values of type object"),
        ([*arrays(ranks=5), [[1], [2, 3]]], "sum", "rank 5 has a list that is not a NumPy array (setting an array"),
        ([*arrays(ranks=5), []], "sum", "rank 5 has float64 of shape (0,), rank 0 has int64 of shape (8,)"),
        ([*arrays(ranks=5), 1], "sum", "rank 5 has int64 of shape (), rank 0 has int64 of shape (8,)"),
        ([*arrays(ranks=5), Tensor()], "sum", "rank 5 has a Tensor that is not a NumPy array (can't convert cuda:0"),
        ([*arrays(ranks=5), Tensor()], "sum", "give tensor.detach().cpu().numpy(), and of a type that NumPy lacks"),
        (7, "sum", "the arrays are of type int; give a list with one array per rank"),
        ({0: 1}, "sum", "the arrays are of type dict; give a list with one array per rank"),
        (arrays(), None, "operator None is unknown; known are sum, prod"),
        (arrays(), "mean", "operator 'mean' is unknown; known are sum, prod, min, max"),
        (arrays(dtype="float32"), "band", "float32 numbers have no operator 'band'; they have sum, prod, min, max"),
        (arrays(dtype="complex64"), "max", "complex64 numbers have no operator 'max'; they have sum, prod"),
    ],
)
def test_wrong_input_names_the_thing_the_value_and_the_remedy(given, op, expected):
    with pytest.raises(treefold.TreefoldError) as caught:
        treefold.run(plan(), given, op)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_plan_is_refused():
    with pytest.raises(treefold.TreefoldError, match=r"the plan is of type str; make one with treefold.plan"):
        treefold.run("ring:6", arrays())
