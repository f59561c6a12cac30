"""Ten thousand all-reduces of random sizes, types and operators: none wrong, nothing left behind.

Four processes over TCP on loopback draw the same operations from one seed. Values are whole numbers small enough for
every type to be exact, so that each worker knows the right result of all others' values.
"""

import json
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from treefold import runtime
from treefold.perf.patterns import storage

RANKS = 4
MANY = int(os.environ.get("TREEFOLD_MANY", "10000"))
PLANS = (("full:4", "ring"), ("torus:2x2", "packing"), ("random:n=4,links=5,seed=3", "multitree"))
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
OPERATORS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
BITS = {"band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor}


def draw(random):
    """One operation: elements, number type, operator."""
    number = str(random.choice(FLOATS + INTEGERS))
    operators = list(OPERATORS) + (list(BITS) if number in INTEGERS else [])
    elements = int(2 ** random.uniform(0, 17)) if random.random() < 0.98 else int(random.integers(1 << 20))
    return elements, number, str(random.choice(operators)), int(random.integers(1 << 30))


def values(rank, elements, seed):
    """Return the input of a rank: 1 to 3, so that four of them have an exact sum and product in every type."""
    return ((np.arange(elements, dtype=np.int64) * 7 + rank * 5 + seed) % 3 + 1).astype(np.int64)


def stored(number, whole):
    """The values as they lie in memory: bfloat16 is the upper half of float32."""
    if number == "bfloat16":
        return (whole.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return whole.astype(storage(number))


def held():
    """Kilobytes of memory, threads and open files of this process."""
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 10, threading.active_count(), len(os.listdir("/proc/self/fd"))


def work():
    """One worker: run all, and print what was wrong and what it held on the way."""
    before = held()
    meeting = runtime.from_environment()
    wrong, seen = 0, []
    random = np.random.default_rng(7)
    for part, (network, algorithm) in enumerate(PLANS):
        import treefold

        joined = runtime.join(meeting, network=treefold.topology(network), algorithm=algorithm, adapt=part == 1)
        for number_of in range(MANY // len(PLANS) + 1):
            elements, number, operator, seed = draw(random)
            mine = stored(number, values(joined.worker, elements, seed))
            joined.all_reduce(mine, operator, number)
            everyone = [values(rank, elements, seed) for rank in range(RANKS)]
            expected = (OPERATORS | BITS)[operator].reduce(everyone)
            wrong += int(not np.array_equal(mine, stored(number, expected)))
            if number_of % 500 == 0:
                seen.append(held())
        joined.close()
    meeting.close()
    time.sleep(0.2)
    print(json.dumps({"wrong": wrong, "before": before, "seen": seen, "after": held()}))


@pytest.fixture(scope="module")
def reports():
    env = os.environ | {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29417"}
    command = [sys.executable, __file__]
    workers = [
        subprocess.Popen(command, env=env | {"RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(RANKS)
    ]
    try:
        return [json.loads(worker.communicate(timeout=1800)[0].splitlines()[-1]) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()


def test_no_result_is_wrong(reports):
    assert [report["wrong"] for report in reports] == [0] * RANKS


def test_memory_does_not_grow(reports):
    for report in reports:
        kilobytes = [each[0] for each in report["seen"]]
        half = len(kilobytes) // 2
        assert max(kilobytes[half:]) < max(kilobytes[:half]) + 16 * 1024, kilobytes


def test_no_thread_or_socket_is_left(reports):
    for report in reports:
        assert report["after"][1] <= report["before"][1]
        assert report["after"][2] <= report["before"][2]


if __name__ == "__main__":
    work()
