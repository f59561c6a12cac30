"""One rank of the tests of MPI: `worker.py collectives|wire|disagree|fail`."""

import sys
import time
from pathlib import Path
from random import Random

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import treefold
from treefold import runtime
from treefold.runtime.arrays import WIRE_TYPES
from vectors import DTYPES, assert_same, expected, operators, vectors


def joined(meeting, algorithm, network=None):
    return runtime.join(
        meeting,
        network=network and treefold.topology(network),
        engine=runtime.engine_maker("mpi", meeting),
        algorithm=algorithm,
        connections=runtime.Connections(20, 20),
    )


def result(team, collective, array, op, root):
    if collective == "all-reduce":
        team.all_reduce(array, op)
    elif collective == "broadcast":
        team.broadcast(array, root)
    elif collective == "reduce":
        team.reduce(array, root, op)
        return array if team.worker == root else None
    elif collective == "all-gather":
        return team.all_gather(array)
    elif collective == "reduce-scatter":
        return team.reduce_scatter(array, op)
    else:
        return team.all_to_all(array)
    return array


def collectives(meeting):
    """Every collective, with several plans, sizes, types and operators."""
    random = Random(meeting.size)
    for algorithm in ("ring", "multitree", "dbtree", "halving-doubling", "packing"):
        team = joined(meeting, algorithm)
        for collective in ("all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "all-to-all"):
            for size in (0, 1, 7, 100_003):
                dtype = random.choice(DTYPES)
                op, root = random.choice(operators(dtype)), random.randrange(meeting.size)
                arrays = vectors(random, meeting.size, size, dtype)
                wanted = expected(collective, arrays, op, root)[meeting.rank]
                assert_same([result(team, collective, arrays[meeting.rank].copy(), op, root)], [wanted])
        team.close()
    print("fine", flush=True)


def wire(meeting):
    """Sums that cross lines in fewer bytes end alike on all ranks, and with error feedback nothing is lost."""
    team = joined(meeting, "ring")
    for name in WIRE_TYPES:
        given, residual = np.zeros(10_007), np.zeros(10_007, np.float32)
        got = np.zeros(10_007)
        for step in range(3):
            drawn = np.random.default_rng([meeting.rank, step]).uniform(-1, 1, 10_007).astype(np.float32)
            given += drawn
            team.all_reduce(drawn, wire=name, residual=residual)
            got += drawn
            alike = np.array([drawn.view(np.uint32), ~drawn.view(np.uint32)])
            team.all_reduce(alike, "max")
            assert (alike[0] == ~alike[1]).all(), "ranks differ"
        lost = given + 0.0
        team.all_reduce(lost)
        kept = residual.astype(float)
        team.all_reduce(kept)
        assert np.abs(lost - got).max() > 1e-4
        assert np.abs(lost - got - kept).max() < 1e-5
    team.close()
    print("fine", flush=True)


def told(action, *arguments):
    """Print what an action raises, as soon as it has to."""
    begun = time.monotonic()
    try:
        action(*arguments)
    except treefold.TreefoldError as error:
        print(error, flush=True)
    assert time.monotonic() - begun < 10


def go_on(team, meeting):
    """After an error: this group runs nothing any more, a new one does, and takes nothing of what was under way."""
    told(team.all_reduce, np.ones(10))
    team.close()
    team = joined(meeting, "ring")
    for size in (10, 100_000):
        team.all_reduce(array := np.ones(size))
        assert_same([array], [np.full(size, float(meeting.size))])
    team.close()
    print("fine", flush=True)


def disagree(meeting):
    """Rank 2 has a longer vector; on a ring of four, rank 0 has nothing to do with it."""
    team = joined(meeting, "ring", f"ring:{meeting.size}")
    told(team.all_reduce, np.ones(200 if meeting.rank == 2 else 100, np.float32))
    go_on(team, meeting)


def fail(meeting):
    """Rank 1 fails while much is under way."""
    team = joined(meeting, "ring", f"ring:{meeting.size}")
    engine, came = team.transport.engine, 0
    completions = engine.completions

    def failing(timeout_s):
        nonlocal came
        came += 1
        if meeting.rank == 1 and came == 2:  # so early that nobody has all
            raise treefold.TreefoldError("rank 1 has had enough")
        return completions(timeout_s)

    engine.completions = failing
    told(team.all_reduce, np.ones(4_000_000))
    go_on(team, meeting)


{"collectives": collectives, "wire": wire, "disagree": disagree, "fail": fail}[sys.argv[1]](runtime.from_environment())
