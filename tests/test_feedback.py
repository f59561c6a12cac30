"""Error feedback: what rounding takes from numbers is kept, so that in the long run nothing is lost."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

import treefold
from loopback import Loopback
from treefold import TreefoldError, runtime
from treefold.runtime.arrays import WIRE_TYPES
from treefold.runtime.driver import EngineTransport
from treefold.runtime.flights import Flights
from treefold.runtime.plans import GroupPlans

WORKERS, STEPS = 3, 4


def drawn(worker, step, elements):
    """Draw numbers from -1 to 1, some of which are so small that int8 makes 0 of them."""
    values = np.random.default_rng([worker, step]).uniform(-1, 1, elements).astype(np.float32)
    values[elements // 3 : elements // 2] *= 1e-4
    return values


def nothing_is_lost(found, elements):
    """Check the sums of the results of several steps and the residuals, by worker."""
    given = sum(drawn(worker, step, elements).astype(float) for worker in range(WORKERS) for step in range(STEPS))
    got = sum(result.astype(float) for result in found[0][0])
    left = sum(residual.astype(float) for _, residual in found)
    assert np.abs(given - got - left).max(initial=0) < 1e-5
    return np.abs(given - got).max(initial=0)


@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling", "dbtree", "auto", "p2p"])
@pytest.mark.parametrize("wire", WIRE_TYPES)
def test_nothing_is_lost_in_the_long_run(wire, algorithm):
    elements = 20_011

    def work(group):
        residual, results = np.zeros(elements, np.float32), []
        for step in range(STEPS):
            array = drawn(group.worker, step, elements)
            group.all_reduce(array, wire=wire, residual=residual)
            results.append(array)
        return results, residual

    found = runtime.in_threads(WORKERS, work, network="full:3", algorithm=algorithm)
    nothing_is_lost(found, elements)
    if algorithm != "p2p":  # in which each rank adds up by itself
        assert len({b"".join(array.tobytes() for array in results) for results, _ in found}) == 1


def test_a_number_that_int8_makes_0_of_gets_through_after_some_steps():
    def work(group, feeds_back):
        residual, total = np.zeros(600, np.float32) if feeds_back else None, 0.0
        for _ in range(1000):
            array = np.full(600, 0.001, np.float32)
            array[::2] = 1.0
            group.all_reduce(array, wire="int8", residual=residual)
            total += array[301]
        return total

    assert runtime.in_threads(2, lambda group: work(group, False)) == [0.0, 0.0]
    (total, _) = runtime.in_threads(2, lambda group: work(group, True))
    assert total == pytest.approx(2.0, abs=0.02)


def test_engines_keep_residuals():
    plan, boxes, elements = treefold.plan("full:3", "ring"), [[], [], []], 9001

    def work(rank):
        transport, plans = EngineTransport(Loopback(rank, boxes), 5.0), GroupPlans(plan, rank, 1e-5)
        residual, results = np.zeros(elements, np.float32), []
        for step in range(STEPS):
            vector = drawn(rank, step, elements)
            program = plans.program(plan, elements, 4, "int8")
            operation = runtime.transport.Operation(vector.view(np.uint8), "float32", "sum", None, "int8", residual)
            transport.end(transport.start(program, operation))
            results.append(vector)
        return results, residual

    with ThreadPoolExecutor(3) as pool:
        assert nothing_is_lost(list(pool.map(work, range(3))), elements) > 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wire": None}, r"a residual needs a wire type, as nothing is rounded without; add for example wire='int8'"),
        ({"residual": np.zeros(3, np.float32)}, r"has float32 of shape \(3,\), and the array needs float32 of shape"),
        ({"residual": np.zeros((2, 4))}, r"the residual has float64 of shape \(2, 4\), and the array needs float32"),
        ({"residual": np.zeros((2, 4), ">f4")}, r"the residual has >f4 of shape"),
        ({"residual": np.zeros((4, 2), np.float32).T}, "the residual must be C-contiguous, aligned and writeable"),
        ({"residual": [0.0] * 8}, "a residual of type list is not a NumPy array; pass np.zeros"),
        ({"op": "max"}, "makes up for what sums lose, and the operator is max; drop the residual"),
        ({"residual": "itself"}, "the residual shares its memory with the array"),
    ],
)
def test_residuals_that_do_not_fit_are_refused_and_the_group_goes_on(change, message):
    def work(group):
        array = np.ones((2, 4), np.float32)
        given = {"wire": "int8", "residual": np.zeros((2, 4), np.float32)} | change
        if isinstance(given["residual"], str):
            given["residual"] = array
        with pytest.raises(TreefoldError, match=message):
            group.all_reduce(array, **given)
        after = np.ones(1)
        group.all_reduce(after)
        return after.item()

    assert runtime.in_threads(2, work) == [2.0, 2.0]


def test_workers_with_and_without_a_residual_work_together():
    def work(group):
        array = np.full(5, 0.5, np.float32)
        group.all_reduce(array, wire="int8", residual=np.ones(5, np.float32) if group.worker else None)
        return array

    for array in runtime.in_threads(2, work):
        assert array == pytest.approx(2.0, rel=1e-5)


def test_a_bfloat16_residual_takes_the_shape_of_the_integers():
    def work(group):
        residual = np.full(300, 2.0**-10, np.float32)
        ones = np.full(300, 0x3F80, np.uint16)
        group.all_reduce(ones, number="bfloat16", wire="int8", residual=residual)
        return ones[0], residual[0]

    assert runtime.in_threads(2, work) == [(0x4000, 2.0**-10)] * 2


FEATURES = 120


def _data():
    """Draw points whose features differ a thousandfold in scale, and a label for each of them."""
    draw = np.random.default_rng(3)
    scales = draw.permutation(np.logspace(0, -3, FEATURES)).astype(np.float32)
    plain = draw.normal(size=(900, FEATURES)).astype(np.float32)
    labels = plain @ draw.normal(size=FEATURES) + 3 * draw.normal(size=900) > 0
    return plain * scales, labels.astype(np.float32), scales


def _loss_after_training(group, wire, feeds_back):
    """Train a logistic regression with a rate for each feature; return the loss on all points."""
    points, labels, scales = _data()
    mine = slice(group.worker, None, group.size)
    weights = np.zeros(FEATURES, np.float32)
    residual = np.zeros(FEATURES, np.float32) if feeds_back else None
    for _ in range(150):
        errors = 1 / (1 + np.exp(-points[mine] @ weights)) - labels[mine]
        gradient = (points[mine].T @ errors / 900).astype(np.float32)
        group.all_reduce(gradient, wire=wire, residual=residual)
        weights -= gradient / (2 * scales**2)
    margins = points @ weights
    return np.mean(np.logaddexp(0, margins) - labels * margins)


def test_training_with_int8_and_feedback_ends_as_well_and_without_feedback_worse():
    def ends(wire, feeds_back):
        found = runtime.in_threads(WORKERS, lambda group: _loss_after_training(group, wire, feeds_back))
        assert found == [found[0]] * WORKERS
        return found[0]

    as_they_are = ends(None, feeds_back=False)
    assert ends("int8", feeds_back=True) == pytest.approx(as_they_are, rel=0.01)
    assert ends("int8", feeds_back=False) > 1.05 * as_they_are


def test_an_operation_that_runs_again_after_a_cut_begins_with_the_residual_that_it_had():
    seen = []

    def start(program, operation, waits=False):
        if not waits:
            seen.append((operation.vector.view(np.float32).tolist(), operation.residual.tolist()))
            operation.vector.view(np.float32)[:] = operation.residual[:] = 7.0
        return len(seen)

    plan = treefold.plan("full:2", "ring")
    flights = Flights(SimpleNamespace(start=start, pace=lambda *_: None), GroupPlans(plan, 1, 0.0))
    vector, residual = np.ones(3, np.float32), np.full(3, 0.5, np.float32)
    operation = runtime.transport.Operation(vector.view(np.uint8), "float32", "sum", None, "int8", residual)
    flights.add(1, plan, operation, 3, 4)
    flights.relaunch()
    assert seen == [([1.0] * 3, [0.5] * 3)] * 2
    assert residual.tolist() == [7.0] * 3
