"""Random connected networks: plans of all planners and collectives are right by two oracles, and beat no bound."""

from random import Random

import numpy as np
import pytest

import treefold
from networks import ALL_REDUCES, ALWAYS, network
from treefold.collectives import COLLECTIVES
from vectors import DTYPES, assert_same, combined, expected, operators, vectors
from walk import execute, make_buffers

NETWORKS = 2000
PARTS = 80
QUICK = 3
"""How many of the parts `make test` has; `make test-slow` has the others."""


def parts(count, quick):
    """The numbers of `count` parts, all but `quick` of them marked as slow."""
    return [pytest.param(part, marks=[pytest.mark.slow] if part >= quick else []) for part in range(count)]


def networks_of(part):
    """The networks of one part of the sweep, each with its own randomness."""
    for seed in range(part * NETWORKS // PARTS, (part + 1) * NETWORKS // PARTS):
        random = Random(seed)
        yield random, treefold.topology(network(random))


def plans(topology, **options):
    """The plans of all algorithms that fit."""
    for algorithm in treefold.algorithms():
        try:
            yield treefold.plan(topology, algorithm, **options)
        except treefold.MisfitError:
            is_other = options.get("collective", "all-reduce") != "all-reduce"
            may_refuse = algorithm not in ALWAYS or (algorithm in ALL_REDUCES and is_other)
            assert may_refuse, f"{algorithm} does not fit {topology.to_json()}"


def some_size(random, ranks):
    """0, 1, fewer than ranks, one that does not divide evenly, or a bigger one."""
    return random.choice((0, 1, max(1, ranks - 1), 2 * ranks + 1, random.randint(20, 300)))


def check_and_run(plan, random, collective, root):
    verdict = treefold.check(plan)
    assert verdict.correct, f"{plan}: {verdict.reason}: {plan.topology.to_json()}"
    ranks, dtype = plan.topology.ranks, random.choice(DTYPES)
    op = random.choice(operators(dtype))
    if plan.algorithm.startswith("innet"):
        return  # its switches are no processes
    arrays = vectors(random, ranks, some_size(random, ranks), dtype)
    assert_same(treefold.run(plan, arrays, op), expected(collective, arrays, op, root))


@pytest.mark.parametrize("part", parts(PARTS, QUICK))
def test_every_planner_does_every_collective_as_numpy_does_and_beats_no_bound(part):
    for random, topology in networks_of(part):
        some_rank, size = random.randrange(topology.ranks), 1 << random.randrange(30)
        for collective in COLLECTIVES:
            root = some_rank if collective in ("broadcast", "reduce") else 0
            for plan in plans(topology, collective=collective, root=root, size_bytes=size):
                check_and_run(plan, random, collective, root)
                row = treefold.simulate(plan, size_bytes=size)
                assert row.bound_s is None or row.time_s >= row.bound_s * (1 - 1e-9), f"{plan}: {topology.to_json()}"


def any_order(schedule, random):
    """A random order of the transfers that the dependencies allow."""
    first, before = (column.tolist() for column in schedule.dependencies())
    waits = [first[i + 1] - first[i] for i in range(len(schedule))]
    followers = [[] for _ in waits]
    for transfer in range(len(schedule)):
        for dependency in before[first[transfer] : first[transfer + 1]]:
            followers[dependency].append(transfer)
    ready = [transfer for transfer, count in enumerate(waits) if count == 0]
    while ready:
        at = random.randrange(len(ready))
        ready[at], ready[-1] = ready[-1], ready[at]
        transfer = ready.pop()
        yield transfer
        for follower in followers[transfer]:
            waits[follower] -= 1
            if waits[follower] == 0:
                ready.append(follower)


def run_in_any_order(plan, arrays, random):
    schedule = plan.schedule(arrays[0].size, arrays[0].itemsize)
    assert plan.check_schedule(schedule) is None
    buffers = make_buffers(plan, schedule, arrays, arrays[0].size)
    order = list(any_order(schedule, random))
    assert sorted(order) == list(range(len(schedule)))
    execute(schedule, buffers, np.add, order)
    return buffers[: plan.topology.ranks]


SHAPED = ("torus:3x3", "torus:2x4", "mesh:2x3", "bigraph:2x4", "cluster:nodes=2,gpus=3,rails=3")
"""Networks that the algorithms fit which no random network does."""


@pytest.mark.parametrize("part", [6, pytest.param(7, marks=pytest.mark.slow)])
def test_any_order_that_the_dependencies_allow_gives_the_same(part):
    shaped = [(Random(spec), treefold.topology(spec)) for spec in SHAPED]
    seen = set()
    for random, topology in [*networks_of(part), *shaped]:
        for plan in plans(topology):
            seen.add(plan.algorithm)
            arrays = vectors(random, topology.ranks, random.choice((1, 7, 100, 1000)), "int64")
            assert_same(run_in_any_order(plan, arrays, random), [combined(arrays, "sum")] * topology.ranks)
    assert seen == set(treefold.algorithms())


def test_the_networks_cover_what_they_should():
    documents = [network(Random(seed)) for seed in range(NETWORKS)]
    ranks = {len(document.get("ranks", [n for n in document["nodes"] if "kind" not in n])) for document in documents}
    assert ranks == set(range(1, 10))

    def some(what):
        return sum(map(what, documents)) >= NETWORKS // 20

    ends = [[(link["source"], link["target"]) for link in document["links"]] for document in documents]
    assert some(lambda document: any("kind" in node for node in document["nodes"]))
    assert some(lambda document: all("kind" not in node for node in document["nodes"]))
    assert some(lambda document: "ranks" in document)
    assert some(lambda document: len({link["bandwidth_Bps"] for link in document["links"]}) > 1)
    assert some(lambda document: any(not link["both_ways"] for link in document["links"]))
    assert sum(len(set(pairs)) < len(pairs) for pairs in ends) >= NETWORKS // 20
